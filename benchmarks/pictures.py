"""Draws the pictures of docs/statistics.md from recorded trials and from the production rule.

    pip install -c constraints.txt '.[benchmarks]'
    python benchmarks/pictures.py                     # docs/pictures/*.svg, in about a minute
    python benchmarks/pictures.py --png /tmp/look     # the same as PNG, to look at

The trials are those in tests/data/trials; the last two pictures simulate single tests, seeded, and ask `judge` after
each run, as `measure` does. The same code and data give the same bytes.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.run import Run, Trial, Window
from pytest_tfperf.core.throughput import _kept, hodges_lehmann, run_value, summarise
from pytest_tfperf.core.verdict import _CLEAR, Outcome, Tolerance, Verdict, _Limits
from pytest_tfperf.judging.common_drift import Level
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.noise import Noise
from pytest_tfperf.judging.thresholds import RUNS_TO_CONFIRM
from pytest_tfperf.stores import trial_file

ROOT = Path(__file__).parents[1]
TRIALS = ROOT / "tests" / "data" / "trials"
PICTURES = ROOT / "docs" / "pictures"

BLUE, ORANGE, RED, PURPLE = "#2f6db3", "#d97b29", "#b8322a", "#7a4fa3"
GREY, INK = "#9aa3ad", "#22272e"
STYLE = {
    "svg.hashsalt": "pytest-tfperf",
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "figure.facecolor": "white",
}

TESTS = 50
BASELINE_RUNS = 5
KEY = Key("trivial-b1-replicated-device", "1x1")


def windows() -> Any:
    """One run, window by window: quiet, and beside other work."""
    figure, panels = pyplot.subplots(1, 2, figsize=(7.4, 2.9), sharey=True, layout="constrained")
    quiet = trial_file.read(TRIALS / "quiet" / "resnet20.json").trial.attempts[0]
    busy = trial_file.read(TRIALS / "busy" / "resnet20.json").trial.set_aside[2]
    for panel, attempt, who in zip(panels, (quiet, busy), ("nobody else computes", "others do, too"), strict=True):
        _draw_windows(panel, attempt)
        panel.set_title(f"{who}: {run_value(attempt).images_per_sec:.0f} images/s", pad=10)
        panel.set_xlabel("seconds")
    panels[0].set_ylabel("images/s of each window")
    panels[0].set_ylim(0, 620)
    panels[0].legend(loc="lower left", handlelength=1.2)
    return figure


def _draw_windows(panel: Any, attempt: Run) -> None:
    rates = [attempt.images_per_step * w.steps / w.seconds for w in attempt.windows]
    ends = [sum(w.seconds for w in attempt.windows[: place + 1]) for place in range(len(rates))]
    in_order = sorted(range(len(rates)), key=rates.__getitem__)
    cut = (len(rates) - _kept(len(rates))) // 2
    kept, left_out = in_order[cut : len(rates) - cut], in_order[:cut] + in_order[len(rates) - cut :]
    value = run_value(attempt)
    low, high = (math.exp(value.log_rate + side * 2 * value.error) for side in (-1, 1))
    panel.axhspan(low, high, color=BLUE, alpha=0.15, linewidth=0)
    panel.axhline(value.images_per_sec, color=BLUE, label="the run's value, and how sure it is")
    panel.set_xlim(0, 1.03 * ends[-1])
    panel.plot(ends, rates, color=GREY, linewidth=0.6, zorder=1)
    panel.scatter([ends[i] for i in kept], [rates[i] for i in kept], s=16, color=BLUE, label="windows that count")
    panel.scatter(
        [ends[i] for i in left_out],
        [rates[i] for i in left_out],
        s=16,
        facecolor="white",
        edgecolor=ORANGE,
        label="a fifth at either end",
    )


def runs() -> Any:
    """Ten fresh workers of one test: what their windows say of them, and how they differ."""
    figure, panel = pyplot.subplots(figsize=(7.4, 3.1), layout="constrained")
    trial = trial_file.read(TRIALS / "quiet" / "resnet20-ten-runs.json").trial
    values = [run_value(attempt) for attempt in trial.attempts]
    centre = hodges_lehmann([value.log_rate for value in values])
    spread = statistics.stdev(value.log_rate for value in values)
    within = statistics.fmean(value.error for value in values)
    panel.axhspan(math.exp(centre - spread), math.exp(centre + spread), color=ORANGE, alpha=0.18, linewidth=0)
    panel.axhline(math.exp(centre), color=ORANGE)
    for number, (attempt, value) in enumerate(zip(trial.attempts, values, strict=True), 1):
        rates = [attempt.images_per_step * w.steps / w.seconds for w in attempt.windows]
        shifts = [number + 0.5 * (place / len(rates) - 0.5) for place in range(len(rates))]
        panel.scatter(shifts, rates, s=5, color=GREY, linewidth=0)
        bar = [math.exp(value.log_rate + side * value.error) for side in (-1, 1)]
        panel.plot([number] * 2, bar, color=BLUE, linewidth=4, solid_capstyle="butt")
        panel.plot([number - 0.16, number + 0.16], [value.images_per_sec] * 2, color=BLUE, linewidth=1.5)
    panel.set_xticks(range(1, len(values) + 1))
    panel.set_xlim(0.4, len(values) + 0.6)
    panel.set_xlabel("fresh worker")
    panel.set_ylabel("images/s")
    panel.set_title(
        f"Each run knows itself to {within:.1%} (blue); the runs differ by {spread:.1%} (orange)".replace("%", " %"),
        pad=10,
    )
    return figure


def verdict() -> Any:
    """The lines that one, three, five and eight runs are held against, and three tests on their way past them."""
    spread = 0.01
    limits = _limits(spread)
    figure, panel = pyplot.subplots(figsize=(7.4, 3.7), layout="constrained")
    stages = (1, *RUNS_TO_CONFIRM)
    for place, count in enumerate(stages):
        ends = (place - 0.45, place + 0.45)
        if count < stages[-1]:
            _line(panel, ends, limits.suspicion(count), ORANGE, "below it, more runs are taken")
        if count > RUNS_TO_CONFIRM[0]:
            times = 1.0 if count == stages[-1] else _CLEAR
            _line(panel, ends, times * limits.drop(count), RED, "below it, REGRESSED")
    for number, course in enumerate(COURSES):
        _draw_course(panel, course, spread, stages, 0.27 * (number - 1))
    panel.axhline(0, color=GREY, linewidth=0.8, zorder=0)
    panel.set_xticks(range(len(stages)), [f"{count} run{'s' if count > 1 else ''}" for count in stages])
    panel.set_ylabel("change against the baseline, %")
    panel.legend(loc="upper right", ncols=2, columnspacing=1.2)
    panel.set_ylim(-8, 3.9)
    return figure


@dataclass(frozen=True)
class Course:
    """A test's way to its verdict: what it lost, after how many runs it is decided, and how."""

    loss: float
    runs: int
    outcome: Outcome
    colour: str

    def drops(self, spread: float, stages: Sequence[int]) -> list[float]:
        """Of the first seed that goes this way."""
        for seed in range(10_000):
            source = random.Random(seed)
            drops = [source.gauss(math.log1p(-self.loss), spread) for _ in range(stages[-1])]
            looked = _stages_of(drops, spread, stages)
            if looked[-1] == self.runs and _judged(drops[: self.runs], 0.0, spread).outcome is self.outcome:
                return drops
        raise AssertionError(f"the rule does not lead a loss of {self.loss:.0%} to {self.outcome} in {self.runs} runs")


COURSES = (
    Course(0.0, 3, Outcome.PASS, BLUE),
    Course(0.03, 8, Outcome.REGRESSED, PURPLE),
    Course(0.05, 5, Outcome.REGRESSED, INK),
)


def _draw_course(panel: Any, course: Course, spread: float, stages: Sequence[int], aside: float) -> None:
    drops = course.drops(spread, stages)
    label = f"lost {100 * course.loss:g} %" if course.loss else "lost nothing, had bad luck"
    for place, count in enumerate(_stages_of(drops, spread, stages)):
        shifts = [place + aside + 0.2 * (run - (count - 1) / 2) / stages[-1] for run in range(count)]
        heights = [_percent(drop) for drop in drops[:count]]
        panel.scatter(shifts, heights, s=12, color=course.colour, alpha=0.5, linewidth=0)
        centre = _percent(hodges_lehmann(drops[:count]))
        ends = [place + aside - 0.12, place + aside + 0.12]
        panel.plot(ends, [centre] * 2, color=course.colour, linewidth=2.5, label=None if place else label)
        if count == course.runs:
            panel.annotate(
                course.outcome.value,
                (place + aside, min(heights)),
                xytext=(0, -13),
                textcoords="offset points",
                ha="center",
                color=course.colour,
                fontsize=8,
            )


def _line(panel: Any, ends: tuple[float, float], drop: float, colour: str, label: str) -> None:
    known = [text.get_label() for text in panel.get_lines()]
    panel.plot(
        ends, [_percent(-drop)] * 2, color=colour, linestyle="--", label=None if label in known else label, zorder=0
    )


def _stages_of(drops: Sequence[float], spread: float, stages: Sequence[int]) -> list[int]:
    """How many runs the production rule looked at, one stage after the other, until it had decided."""
    looked = []
    for count in stages:
        looked.append(count)
        if not _judged(drops[:count], 0.0, spread).runs_wanted:
            break
    return looked


def power() -> Any:
    """How often a loss is caught on the first night after fresh baselines."""
    figure, panel = pyplot.subplots(figsize=(7.4, 3.4), layout="constrained")
    losses = [step / 400 for step in range(49)]
    for spread, colour in ((0.005, BLUE), (0.01, ORANGE), (0.02, RED)):
        caught = [_share_caught(spread, loss) for loss in losses]
        panel.plot([100 * loss for loss in losses], [100 * share for share in caught], color=colour, linewidth=2)
        panel.get_lines()[-1].set_label(f"{100 * spread:g} %")
    panel.legend(loc="lower right", title="runs differ by", alignment="left")
    panel.axhline(95, color=GREY, linewidth=0.8, linestyle="--", zorder=0)
    panel.annotate("95", (12, 95), xytext=(0, -10), textcoords="offset points", ha="right", color="#6b747d")
    panel.axvline(2, color=GREY, linewidth=0.8, linestyle="--", zorder=0)
    panel.annotate("accepted: 2 %", (2, 50), xytext=(-6, -3), textcoords="offset points", ha="right", color="#6b747d")
    panel.set_xlim(0, 12)
    panel.set_ylim(0, 102)
    panel.set_xlabel("what a test has truly lost, %")
    panel.set_ylabel("caught on the first night, of 100")
    return figure


NIGHTS = 400


def _share_caught(spread: float, loss: float) -> float:
    # The same nights for each loss, so that the curve shows the loss and not the draw.
    nights = (random.Random(f"{spread} {number}") for number in range(NIGHTS))
    return statistics.fmean(_night(source, spread, loss) is Outcome.REGRESSED for source in nights)


def _night(source: random.Random, spread: float, loss: float) -> Outcome:
    """A fresh baseline, and one night of a test that lost so much."""
    reference = hodges_lehmann([source.gauss(0, spread) for _ in range(BASELINE_RUNS)])
    drops: list[float] = []
    found = Verdict(outcome=Outcome.INCONCLUSIVE, runs_wanted=1)
    while found.runs_wanted > len(drops):
        drops.append(source.gauss(math.log1p(-loss), spread))
        found = _judged(drops, reference, spread)
    return found.outcome


def _judged(drops: Sequence[float], reference: float, spread: float) -> Verdict:
    trial = Trial(
        tuple(Run(windows=(Window(1, 1.0),), images_per_step=1, stated_images_per_sec=math.exp(d)) for d in drops)
    )
    row = Baseline(machine="simulated", key=KEY, reference=math.exp(reference), runs=BASELINE_RUNS, spread=spread)
    return judge(summarise(trial), row, Tolerance(), _noise(spread), tests=TESTS)


def _limits(spread: float) -> Any:
    return _Limits([], Level(0.0, BASELINE_RUNS), Tolerance(), _noise(spread), TESTS)


def _noise(spread: float) -> Noise:
    return Noise(spread, TESTS * (BASELINE_RUNS - 1), "pooled over the machine's rows")


def _percent(drop: float) -> float:
    return 100 * math.expm1(drop)


DRAWN: dict[str, Callable[[], Any]] = {"windows": windows, "runs": runs, "verdict": verdict, "power": power}


def pictures(names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    with pyplot.rc_context(STYLE):
        for name in names:
            yield name, DRAWN[name]()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(DRAWN), metavar="NAME", help=", ".join(DRAWN))
    parser.add_argument("--png", type=Path, help="folder for PNGs, instead of the SVGs in docs/pictures")
    asked = parser.parse_args()
    folder = asked.png or PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in pictures(asked.names):
        if asked.png:
            figure.savefig(folder / f"{name}.png", dpi=110)
        else:
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
        print(folder / name)


if __name__ == "__main__":
    main()
