"""`tfperf explain`: which measurement is meant, and that the figures are those of the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf import cli
from pytest_tfperf.core.baseline import Baseline, Provenance
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.profile import Breakdown, Input, Straggler
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import Noise, Outcome, Reason, Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.features.explain import explained
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.session_effects import CommonDrift
from pytest_tfperf.judging.target import Target
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import BUSY, NOISE, TEST, baseline, interleaved, measurement, pair, run_at, verdict

GREEN, USAGE = 0, 4


def judged(
    *changes: float,
    confirmed: Sequence[float] | None = None,
    tolerance: float = 0.02,
    noise: Noise = NOISE,
    row: Baseline | None = None,
    **more: Any,
) -> Measurement:
    """Runs that differ from a baseline of 1,000 by these fractions, and pairs, judged as a session judges them."""
    runs = tuple(run_at(1000.0 * (1 + change)) for change in changes)
    of_verdict = {name: more.pop(name) for name in ("drift", "tests", "past", "variance") if name in more}
    evidence = Evidence(
        throughput=summarise(runs),
        target=Target(row or baseline(), noise=noise),
        tolerance=Tolerance.of(tolerance),
        pairs=[pair(change) for change in confirmed or ()],
        has_reference_environment=confirmed is not None,
        **of_verdict,
    )
    return measurement(evidence.throughput, runs=runs, pairs=tuple(evidence.pairs), verdict=judge(evidence), **more)


def text_of(m: Measurement) -> str:
    return "\n".join(explained(m))


# The text


@pytest.mark.parametrize(
    ("m", "outcome", "said"),
    [
        (judged(-0.001), "PASS", "So one run was enough."),
        (judged(0.5), "IMPROVED", "\n  Faster than the baseline by more than the tolerance."),
        (judged(-0.4, drift=CommonDrift(-1.0, 20, 0.001)), "IMPROVED", "slower than its baseline, so do not record it"),
        (judged(*[-0.2] * 8), "REGRESSED", "8 of 8 show at least half of the threshold, and 7 must."),
        (judged(-0.2), "undecided", "It takes 3 runs in all, and the session ended after 1."),
        (judged(*[-0.2] * 3, 0.0, 0.0), "undecided", "It takes 8 runs in all, and the session ended after 5."),
        (judged(-0.05, 0.02, 0.03), "PASS", "so the runs that were left (8 at most) were not needed."),
        (judged(-0.2, confirmed=[-0.2] * 12), "REGRESSED", "is 18.0, and the test fails from 5.7."),
        (judged(-0.2, confirmed=[0.0] * 2), "PASS", "so the pairs that were left (20 at most) were not needed."),
        (judged(*[-0.2] * 3, row=baseline(provenance=Provenance.PROVISIONAL)), "REGRESSED", "warns and never fails"),
        (judged(-0.001, drift=CommonDrift(-0.03, 20, 0.001)), "PASS", "drift: -3.0 % is common to all tests"),
    ],
    ids=[
        *(
            "one run",
            "faster",
            "faster than the drift only",
            "confirmed",
            "ended after one run",
            "ended between stages",
            "cleared",
        ),
        *("confirmed by pairs", "cleared by pairs", "earlier sessions", "drift"),
    ],
)
def test_a_verdict_is_explained(m: Measurement, outcome: str, said: str) -> None:
    text = text_of(m)
    assert (f"\n{outcome}" in text, said in text) == (True, True), text


def test_noise_that_widens_the_threshold_is_named_with_its_sources() -> None:
    text = text_of(judged(*[-0.05] * 8, noise=Noise(between_runs=0.05, degrees_of_freedom=36, rows=9), tests=4))
    assert "The tolerance is 2 %, and noise widens it to 8.6 %." in text
    assert "At this threshold noise alone fails one session of 4 tests in 100." in text
    assert "between fresh runs  5.00 %  from 9 rows of this machine, 36 degrees of freedom" in text


def test_what_is_too_noisy_to_judge_says_what_would_pass_and_what_to_do() -> None:
    text = text_of(judged(-0.05, noise=Noise(between_runs=0.3, degrees_of_freedom=36, rows=9)))
    assert "\nTOO_NOISY: too noisy to judge" in text
    assert f"\nWhat does TOO_NOISY mean?\n  {Outcome.TOO_NOISY.meaning}\n" in text


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (verdict(Outcome.INVALID, reason=Reason.DISTURBED, baseline=None), "`tfperf doctor` looks at the machine"),
        (verdict(threshold=None, tolerance=Tolerance(None, None)), "The tolerance accepts any slowdown"),
    ],
    ids=["invalid", "any slowdown"],
)
def test_a_verdict_without_figures_says_why(found: Any, said: str) -> None:
    assert said in text_of(measurement(verdict=found, discarded=(run_at(10.0, disturbance=BUSY),)))


# Without a baseline


def unjudged(session: str, **more: Any) -> Measurement:
    none = verdict(Outcome.NO_BASELINE, reason=Reason.NO_BASELINE, baseline=None)
    return measurement(verdict=none, session=session, **more)


BUSY_RUN = (run_at(1000.0, disturbance=BUSY),)
SLOWED = {"environment": {"injected_slowdown": "0.3"}}
MEASURE_AGAIN = "or measure again: this session is then a provisional one."
BUSY_NOW = "This session is no provisional baseline for later ones, because other processes used "


@pytest.mark.parametrize(
    ("now", "earlier", "said"),
    [
        ({}, [], [f"\nNo earlier session has measured this workload of the test on box.\nRecord *, {MEASURE_AGAIN}"]),
        ({"runs": BUSY_RUN}, [], [BUSY_NOW, "Before you measure again, or record, end the other processes, or accept"]),
        (
            {},
            [unjudged("two", runs=BUSY_RUN), unjudged("one", **SLOWED)],
            [
                "\nEarlier sessions on box, the latest first:\n",
                "\n  two: no provisional baseline, because other processes used ",
                "\n  one: no provisional baseline, because it was slowed down on purpose ",
            ],
        ),
        ({}, [unjudged("one", gpu="Tesla P100")], ["\n  one: no provisional baseline, because it ran on Tesla P100\n"]),
        (
            {},
            [unjudged("one")],
            ["\n  one: a provisional baseline, which does not count with --tfperf-require-baseline"],
        ),
        (
            {},
            [unjudged("one", machine="other")],
            ["No earlier session has measured *\nThe last one, one, measured resnet50-b64-* 1x8 on other."],
        ),
    ],
    ids=["a first session", "disturbed", "earlier ones", "other GPUs", "recorded rows are required", "other machine"],
)
def test_without_a_baseline_each_earlier_session_says_why_it_is_none(
    now: dict[str, Any], earlier: Sequence[Measurement], said: Sequence[str]
) -> None:
    text = "\n".join(explained(unjudged("now", **now), earlier))
    for part in said:
        assert fnmatch(text, f"*{part}*"), text


def test_only_sessions_before_the_one_that_is_explained_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = History(tmp_path / "history.sqlite")
    for session in ("one", "two", "three"):
        history.append(unjudged(session, runs=BUSY_RUN))
    run(tmp_path, TEST, "--session=two")
    out = capsys.readouterr().out
    assert ("  one: no provisional" in out, "  two: no provisional" in out, "three" in out) == (True, False, False)


# The command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A history of three tests, one of them measured twice."""
    history = History(tmp_path / "history.sqlite")
    history.append(judged(-0.001, session="one"))
    history.append(judged(*[-0.2] * 8, session="two"))
    history.append(judged(0.0, session="two", test="test_b.py::test_other[8]"))
    history.append(measurement(session="two", test="test_b.py::test_other[16]", name="small net"))
    return tmp_path


def run(folder: Path, *arguments: str) -> int:
    return cli.main(["explain", f"--dir={folder}", *arguments])


@pytest.mark.parametrize(
    ("arguments", "session"),
    [([TEST], "two"), (["test_b[1]", "--session=one"], "one"), (["test_b[1]", "--session=previous"], "one")],
    ids=["last session", "id", "previous"],
)
def test_the_last_session_or_a_named_one_is_explained(
    arguments: list[str], session: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, *arguments) == GREEN
    assert f"{TEST}, session {session}" in capsys.readouterr().out


def test_a_workloads_name_is_enough(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "small net") == GREEN
    assert "It was measured and not judged." in capsys.readouterr().out


def test_a_measurement_beside_another_side_is_not_explained(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    History(folder / "history.sqlite").append(interleaved(session="two"))
    assert run(folder, TEST) == GREEN
    assert capsys.readouterr().out.count(f"{TEST}, session ") == 1


@pytest.mark.parametrize("arguments", [["test_two_sides"], ["two_sides", "--session=three"]], ids=["any", "session"])
def test_a_test_that_was_only_compared_is_said_to_be(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    History(folder / "history.sqlite").append(interleaved(session="three", test="test_c.py::test_two_sides"))
    assert run(folder, *arguments) == USAGE
    said = capsys.readouterr().err
    assert "test_c.py::test_two_sides was only compared with another side, and not measured alone" in said
    assert "tfperf history --test test_c.py::test_two_sides" in said


@pytest.mark.parametrize("text", ["tiny_cnn-b8-replicated-pipe", "tiny_cnn", "all net"])
def test_what_tables_show_and_parts_of_it_are_enough(
    text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cnn = Workload(model="nets:tiny_cnn", batch_size=8, input_pipeline="feeds:pipe")
    History(folder / "history.sqlite").append(measurement(test="test_c.py::test_third", workload=cnn))
    assert run(folder, text) == GREEN
    assert ("test_b.py::test_other[16]" if "net" in text else "test_c.py::test_third") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["test_other", "--session=one"], "no test of session one has 'test_other' in its id or name"),
        (["small nett"], "in its id or name. Did you mean 'small net'? `tfperf history"),
        (["test_othr"], "Did you mean 'test_other'?"),
        (["test_other"], "'test_other' is a part of 2 tests; give more of the id:\n  test_b.py::test_other[8]"),
        (["test_none"], "no measured test has 'test_none' in its id or name"),
        (["test_b[1]", "--session=three"], "the history has no session 'three'"),
    ],
    ids=["not in this session", "near a name", "near a test", "several", "none", "session"],
)
def test_what_does_not_name_one_test_is_refused(
    arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, *arguments) == USAGE
    assert said in capsys.readouterr().err


def test_a_straggler_is_part_of_the_explanation_of_a_pass() -> None:
    slow = Breakdown(input=Input.RESIDENT, straggler=Straggler(rank=1, host="nodeb", slower=1.6))
    text = text_of(measurement(verdict=verdict(), breakdown=slow))
    assert "straggler: rank 1 on nodeb: its step alone takes 160 % longer" in text
