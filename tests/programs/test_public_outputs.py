"""What programs print, in time, and how that is stated: the rate is that of the steps, or the output is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from pytest_tfperf.errors import MeasurementError
from tests.helpers.expected import SameTexts
from tests.helpers.played_program import PlayedProgram, measured, per_sec

BATCH = 32
STEP = 0.25  # seconds
RATE = BATCH / STEP


@dataclass
class Output:
    """What a program prints, at times since its start."""

    now: float = 3.0
    printed: list[tuple[float, str]] = field(default_factory=list)

    def say(self, text: str, after: float = 0.0) -> None:
        self.now += after
        self.printed.append((self.now, text))

    def __add__(self, other: Output) -> Output:
        """Both at once, as two processes print."""
        return Output(0.0, sorted(self.printed + other.printed, key=lambda each: each[0]))

    def later(self, seconds: float, edit: Callable[[str], str] = str) -> Output:
        return Output(0.0, [(at + seconds, edit(text)) for at, text in self.printed])

    @property
    def program(self) -> PlayedProgram:
        times = [0.0, *(at for at, _ in self.printed)]
        return PlayedProgram([(at - before, text) for (at, text), before in zip(self.printed, times, strict=False)])


def lines(
    form: str, count: int = 60, *, per: int = 10, summary: str = "", every: int = 20, batch: float = BATCH
) -> Output:
    """A line for every `per` steps, of which no two take as long, and a summary of many after an evaluation."""
    output = Output()
    begun = output.now
    for n in range(1, count + 1):
        seconds = per * STEP * (1 + 0.05 * math.sin(n * n))
        values = {"step": n * per, "epoch": n // every, "s": seconds / per, "ms": 1000 * seconds / per}
        rate, since_start = per * batch / seconds, n * per * batch / (output.now + seconds)
        output.say(form.format(rate=rate, device=rate / 4, average=since_start, **values) + "\n", after=seconds)
        if summary and n % every == 0:
            mean = every * per * batch / (output.now + 3 - begun)
            output.say(summary.format(rate=mean, **values) + "\n", after=3)
            begun = output.now
    return output


def counter(form: str, count: int = 60, *, per: int = 10, epochs: int = 1) -> Output:
    output = Output()
    for epoch in range(epochs):
        for n in range(1, count + 1):
            output.say(form.format(step=n * per, epoch=epoch, ms=1000 * n * per * STEP) + "\n", after=per * STEP)
        output.now += 4
    return output


def gensim() -> Output:
    """Epochs of one step to eight steps; only those of over a second print their mean so far, which is lower here."""
    output = Output()
    for epoch in range(40):
        seconds = STEP * (1 + 7 * (epoch % 3 == 0))
        words = round(RATE * seconds)
        if seconds > 1:
            output.say(f"INFO : EPOCH {epoch} - PROGRESS: at 86.25% examples, {RATE / 2:.0f} words/s\n", 1.0)
            output.now -= 1.0
        took = f"took {seconds:.1f}s, {RATE + epoch % 3 - 1:.0f} effective words/s"
        output.say(f"INFO : EPOCH {epoch}: training on 900 raw words ({words} effective words) {took}\n", seconds)
    return output


def percent(step: int, total: int) -> str:
    filled = 10 * step // total
    return f"{100 * step // total:3d}%|{'█' * filled}{' ' * (10 - filled)}|"


def bars(form: str, total: int = 40, epochs: int = 3, *, step: float = STEP, other: str = "") -> Output:
    """A bar for each epoch, drawn before its first step and after each one, and one of other work between."""
    output = Output()

    def draw(form: str, epoch: int, total: int, seconds: float) -> None:
        for n in range(total + 1):
            values = {
                "n": n,
                "total": total,
                "epoch": epoch,
                "percent": percent(n, total),
                "rest": "━" * (9 - 9 * n // total),
            }
            text = form.format(drawn="━" * (9 * n // total), left=f"[00:0{n % 9}<00:09", **values)
            output.say(f"\r{text}", after=seconds if n else 0.0)
        output.say("\n")

    for epoch in range(epochs):
        draw(form, epoch, total, step)
        if other:
            draw(other, epoch, 15, step / 5)
    return output


TQDM = "{percent} {n}/{total} {left},  4.00it/s]"
SAMPLES = {"unit": "samples/s"}
IMAGES = {"unit": "images/s"}
TOKENS = {"unit": "tokens/s"}
ENV_STEPS = {"unit": "steps/s"}
SIZE = {"examples_per_step": BATCH}
TABLE = (
    "---------------------------------\n| time/              |          |\n|    fps             | 9        |\n"
    "|    iterations      | 1        |\n|    total_timesteps | {:<8} |\n---------------------------------\n"
)


def known(name: str) -> dict[str, object]:
    """A known format of steps."""
    return {"format": name, **SIZE}


def by(pattern: str, **more: object) -> dict[str, object]:
    return {"pattern": pattern, **SIZE, **more}


def rates(pattern: str = r"(?P<rate>[\d.]+) images/s", **more: object) -> dict[str, object]:
    return {"pattern": pattern, **IMAGES, **more}


READ: dict[str, tuple[Output, dict[str, object]]] = {
    "tqdm": (bars(TQDM), known("tqdm")),
    "tqdm drawn again with a loss": (
        bars("{percent} {n}/{total} {left},  4.00it/s]\r{percent} {n}/{total} {left},  4.00it/s, loss=0.5]"),
        known("tqdm"),
    ),
    "tqdm, a title with an epoch": (bars("Epoch {epoch}: " + TQDM), known("tqdm")),
    "tqdm, training by its title": (
        bars("Train: " + TQDM, other="Validation: {percent} {n}/{total} {left}, 20.00it/s]"),
        by(r"^Train: .*\| (?P<step>\d+)/"),
    ),
    "a bar of rich": (bars("Epoch {epoch} {drawn}{rest} {n}/{total} 0:00:01"), by(r"^Epoch .* (?P<step>\d+)/\d+ ")),
    "an epoch's mean that the pattern leaves out": (
        lines("epoch {epoch} step {step} {rate:.1f} images/s", summary="epoch {epoch} mean {rate:.1f} images/s"),
        rates(r"step \d+ (?P<rate>[\d.]+) images/s"),
    ),
    "an epoch's JSON line with its own field": (
        lines('{{"step": {step}, "ips": {rate:.1f}}}', summary='{{"epoch": {epoch}, "mean_ips": {rate:.1f}}}', every=2),
        {"field": "ips"},
    ),
    "JSON lines with a step's time": (
        lines('{{"step": {step}, "time_ms": {ms:.2f}}}'),
        {"field": "time_ms", "holds": "milliseconds", **SIZE},
    ),
    "JSON lines with a counter": (lines('{{"at": {step}}}'), {"field": "at", "holds": "step", **SIZE}),
    "a checkpoint in some lines": (
        lines("step {step}: {rate:.1f} images/s", summary="step {step}1: {rate:.1f} images/s, saved"),
        rates(r"(?P<rate>[\d.]+) images/s$"),
    ),
    "MXNet": (
        lines("Epoch[0] Batch [{step}]\tSpeed: {rate:.2f} samples/sec", summary="Epoch[0] Time cost=12.3"),
        rates(r"Speed: (?P<rate>[\d.]+) samples/sec", **SAMPLES),
    ),
    "Estimator": (
        lines("INFO:tensorflow:global_step/sec: {rate:.4f}\nINFO:tensorflow:loss = 0.3, step = {step}", batch=1),
        by(r"step = (?P<step>\d+)"),
    ),
    "big_vision": (
        lines("[{step}] img/sec/core = {device:.2f}"),
        rates(r"img/sec/core = (?P<rate>[\d.]+)", of="device", devices=4),
    ),
    "nanoGPT": (lines("iter {step}: loss 4.0, time {ms:.2f}ms, mfu 1.23%"), by(r"time (?P<milliseconds>[\d.]+)ms")),
    "Megatron-LM": (
        lines(" iteration {step}/ 5000 | elapsed time per iteration (ms): {ms:.1f} | lm loss: 1.044022E+01 |"),
        known("megatron-lm"),
    ),
    "torchtitan": (
        lines("[titan] step: {step}  loss:  7.1234  grad_norm:  1.7012  tps: {device:,.2f}  mfu: 1.24%"),
        {"format": "torchtitan", "devices": 4, **TOKENS},
    ),
    "MaxText": (
        lines("completed step: {step}, seconds: {s:.3f}, Tokens/s/device: {device:.3f}, loss: 9.184"),
        {"format": "maxtext", "devices": 4, **TOKENS},
    ),
    "Stable-Baselines3": (
        Output(0.0, [(2.5 * n, TABLE.format(320 * n)) for n in range(1, 60)]),
        {"format": "stable-baselines3", **ENV_STEPS},
    ),
    "CleanRL": (
        Output(0.0, [(2.5 * n, f"global_step={320 * n}, episodic_return=[17.]\nSPS: 99\n") for n in range(1, 60)]),
        {"format": "cleanrl", **ENV_STEPS},
    ),
    "XGBoost": (counter("[{step}]\ttrain-logloss:0.59666\teval-logloss:0.60568", per=1), known("xgboost")),
    "XGBoost, cross-validated": (
        counter("[{step}]\ttrain-rmse:0.59+0.01\ttest-rmse:0.6+0.02", per=10),
        known("xgboost"),
    ),
    "LightGBM": (
        counter("[{step}]\ttraining's binary_logloss: 0.65573\tvalid_1's auc: 0.7", per=1),
        known("lightgbm"),
    ),
    "CatBoost": (
        counter("{step}:\tlearn: 0.634\ttest: 0.636\tbest: 0.636 (0)\ttotal: {ms:.1f}ms\tremaining: 18.7s", per=1),
        known("catboost"),
    ),
    "gensim, whose fast epochs have no line of progress": (gensim(), {"format": "gensim", "unit": "words/s"}),
    "a counter of batches in each epoch": (
        counter("[Epoch {epoch}] [Batch {step}/200] [D loss: 0.5]", 20, epochs=3),
        by(r"\[Batch (?P<step>\d+)/"),
    ),
    "an average of steps": (
        lines("step {step}: {average:.4f} it/s", batch=1),
        {"pattern": r"(?P<rate>[\d.]+) it/s", "unit": "steps/s", "rate_is": "average"},
    ),
    "an average": (lines("step {step}: {average:.4f} images/s"), rates(rate_is="average")),
    "a rate behind 2,048 characters": (
        lines("m" * 2033 + " - images/s: {rate:.2f} - end"),
        rates(r"images/s: (?P<rate>[\d.]+)"),
    ),
}
# Steps of an environment or of no known size.
ALONE = {"an average of steps": 1 / STEP}


@pytest.mark.parametrize("name", READ)
def test_the_rate_is_that_of_the_steps(name: str) -> None:
    output, how = READ[name]
    assert per_sec(measured(output.program, **how)) == pytest.approx(ALONE.get(name, RATE), rel=0.03)


def in_turn(training: str, evaluation: str, count: int = 10) -> Output:
    """Lines of training at the rate, and of an evaluation three times as fast."""
    output = Output()
    for n in range(8 * count):
        is_training = n // count % 2 == 0
        rate = RATE * (1 + 0.01 * math.sin(n * n)) * (1 if is_training else 3)
        output.say((training if is_training else evaluation).format(n=n % count, rate=rate) + "\n", after=0.3)
    return output


def with_pauses(form: str) -> Output:
    """The mean since the start, and an evaluation of 3 s after every ten lines."""
    output = Output()
    for n in range(1, 121):
        seconds = STEP * (1 + 0.04 * math.sin(n * n)) + 3 * (n % 10 == 0)
        output.say(form.format(n=n, rate=BATCH * n / (output.now + seconds)) + "\n", after=seconds)
    return output


SAMPLES_OF_A_RANK = Output(0.0, [(5.0 * n, f"samples {640 * n} loss 0.5\n") for n in range(1, 40)])
BAR = bars(TQDM, 200, 1)
LINES = lines("step {step}: loss 0.5, {device:.1f} images/s")


def named(process: str) -> Callable[[str], str]:
    return lambda text: f"{process}: {text}"


EPOCHS = lines("Epoch {epoch}: {rate:.1f} images/s")
ONE_TITLE = bars(TQDM, 20, 4, other="{percent} {n}/20 {left}, 20.00it/s]")

REFUSED: dict[str, tuple[Output, dict[str, object]]] = {
    "four ranks' bars, 1.5 steps apart": (
        BAR + BAR.later(1.5 * STEP) + BAR.later(3 * STEP) + BAR.later(4.5 * STEP),
        known("tqdm"),
    ),
    "two programs far apart": (
        counter("step {step} loss 0.5") + counter("step 9{step} loss 0.5").later(1.0),
        by(r"step (?P<step>\d+)"),
    ),
    "three ranks of which one is a step behind": (
        Output(0.0, [(3.0 + n, f"step {n}\nstep {n - 1}\nstep {n}\n") for n in range(2, 40)]),
        by(r"step (?P<step>\d+)"),
    ),
    "two ranks that count alike": (
        SAMPLES_OF_A_RANK + SAMPLES_OF_A_RANK.later(0.01, lambda text: text.replace("0.5", "0.6")),
        {"pattern": r"samples (?P<step>\d+)", "examples_per_step": 1},
    ),
    "four ranks' lines": (LINES + LINES.later(0.01) + LINES.later(0.02), rates()),
    "four ranks' lines without a step": (EPOCHS + EPOCHS.later(0.01) + EPOCHS.later(0.02), rates()),
    "two workers that print their pids": (
        EPOCHS.later(0.0, lambda text: "pid=7410 " + text) + EPOCHS.later(0.02, lambda text: "pid=7411 " + text),
        rates(),
    ),
    "four chips and an evaluation": (
        EPOCHS.later(0.0, named("chip 0"))
        + EPOCHS.later(0.01, named("chip 1"))
        + EPOCHS.later(0.02, named("chip 2"))
        + EPOCHS.later(0.03, named("chip 3"))
        + lines("eval step 5: {rate:.1f} images/s", 1),
        rates(),
    ),
    "two ranks that print in turn": (
        EPOCHS.later(0.0, lambda text: "[rank0]: " + text) + EPOCHS.later(1.2, lambda text: "[rank1]: " + text),
        rates(),
    ),
    "CatBoost's time since the start": (
        counter("{step}:\tlearn: 0.5\ttotal: {ms:.0f}ms", per=1),
        by(r"total: (?P<milliseconds>[\d.]+)ms"),
    ),
    "Estimator's time of ten steps": (
        counter("loss = 0.3, step = {step} (2.500 sec)"),
        by(r"\((?P<seconds>[\d.]+) sec\)"),
    ),
    "the time that is left": (
        Output(3.0, [(2.0 + n, f"[{n}/600] eta {600 - n} s\n") for n in range(60)]),
        by(r"eta (?P<seconds>\d+) s"),
    ),
    "CleanRL's rate since the start": (
        lines("SPS: {average:.0f}", 15),
        {"pattern": r"SPS: (?P<rate>\d+)", "unit": "steps/s"},
    ),
    "an average over steps that no line stands for": (
        Output(0.0, [(2.0 + n, f"{n}: {int((10_000 + 100 * n) / (2 + n))} images/s\n") for n in range(1, 60)]),
        rates(r": (?P<rate>\d+) images/s", rate_is="average"),
    ),
    "an average with pauses in it": (with_pauses("[{n}/1000] {rate:.1f} images/s"), rates()),
    "an average with pauses in it, undone": (with_pauses("[{n}/1000] {rate:.1f} images/s"), rates(rate_is="average")),
    "pauses between steps": (with_pauses("[{n}/1000] {rate:.1f} images/s"), by(r"^\[(?P<step>\d+)/")),
    "bars of two titles": (
        bars("Train: " + TQDM, other="Evaluation: {percent} {n}/{total} {left}, 9it/s]"),
        known("tqdm"),
    ),
    "bars of training and evaluation that nothing tells apart": (ONE_TITLE, known("tqdm")),
    "a bar that counts validation, too": (
        Output(
            0.0,
            [
                (20.0 * e + n * STEP if n <= 60 else 20.0 * e + 15 + (n - 60) / 20, f"\rEpoch {e}: {n}/80 4.00it/s")
                for e in range(4)
                for n in range(1, 81)
            ],
        ),
        {**by(r"^Epoch \d+: (?P<step>\d+)/"), "until_end": True},
    ),
    "the time in which a step is dispatched": (
        lines("step {step} | 2.1 ms/step"),
        by(r"(?P<milliseconds>[\d.]+) ms/step"),
    ),
    "a step's time without its data": (
        lines("step {step} | {device:.2f} it/s", per=1, batch=1),
        {"pattern": r"(?P<rate>[\d.]+) it/s", "unit": "steps/s"},
    ),
    "another batch than was said": (lines("step {step} | {rate:.1f} images/s", batch=128), {**rates(), **SIZE}),
    "evaluation that a header announces": (
        in_turn("[{n}/10] {rate:.1f} images/s", "[{n}/10] {rate:.1f} images/s"),
        rates(),
    ),
    "two kinds of lines": (in_turn("compute {rate:.1f} images/s", "loader {rate:.1f} images/s", 1), rates()),
    "an epoch's mean that the pattern finds": (
        lines("[{step}/600] {rate:.1f} images/s", summary="epoch mean {rate:.1f} images/s", every=2),
        rates(),
    ),
    "a rate that never changes": (
        lines("step {step} clip 25.0 frames/s"),
        {"pattern": r"(?P<rate>\S+) frames/s", "unit": "frames/s"},
    ),
    "a comma that may be a decimal one": (
        Output(0.0, [(0.5 * n, f"step {n}: 12,34{n % 9} images/s\n") for n in range(1, 60)]),
        rates(r"(?P<rate>[\d.,]+) images/s"),
    ),
    "the last line of a Trainer that resumed": (
        Output(
            0.0, [(9.0, "{'train_runtime': 5.2, 'train_samples_per_second': 792.3, 'train_loss': 1.2, 'epoch': 1}\n")]
        ),
        rates(r"'train_samples_per_second': (?P<rate>[\d.]+)", unit="samples/s", until_end=True),
    ),
}


def test_what_would_be_read_wrongly_is_refused_with_a_next_step(same_texts: SameTexts) -> None:
    texts = {}
    for name, (output, how) in REFUSED.items():
        with pytest.raises(MeasurementError) as refused:
            measured(output.program, **how)
        texts[name] = refused.value
    same_texts("refused_outputs", texts)


def test_epochs_that_become_faster_are_those_of_one_training() -> None:
    """As where the data is cached."""
    output = Output(0.0)
    for seconds in (0.25, 0.18, 0.125, 0.125):
        for n in range(9):
            output.say(f"\r{percent(n, 8)} {n}/8 [00:01<00:09, 4.00it/s]", after=seconds if n else 0.0)
    assert measured(output.program, **known("tqdm")).windows


def test_epochs_of_a_few_lines_that_are_printed_by_time_are_of_one_process() -> None:
    """Lines of a fast model: each epoch's come at other steps."""
    output = Output(0.0)
    for steps in ((1, 50, 101, 153, 200), (1, 53, 107, 161, 200), (1, 54, 108, 161, 200), (1, 44, 95, 144, 200)) * 3:
        for before, step in pairwise((0, *steps)):
            output.say(f"\r{step}/200 ━━━━ 0s 1ms/step - loss: 0.5\n", after=(step - before) / 200)
    assert per_sec(measured(output.program, **by(r"(?P<step>\d+)/200 "))) == pytest.approx(200 * BATCH, rel=0.02)


def test_rates_of_a_busy_machine_are_of_one_kind() -> None:
    """A neighbour's work comes and goes, and slows a program to as many speeds."""
    busy = (228, 321, 290, 241, 825, 274, 458, 652, 679, 1041, 1004, 979, 539)
    output = Output(0.0)
    for n in range(60):
        rate = busy[n % len(busy)] if n % 17 < 7 else 980 + n % 3
        output.say(f"{n} {rate}.0 images/s\n", after=150 / rate)
    assert measured(output.program, **rates()).windows
