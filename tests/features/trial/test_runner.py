"""How a trial goes through its sessions; each session is a function that writes to the trial's history."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.trial.runner import Runner, starter
from pytest_tfperf.features.trial.trial import Trial, read, trial_file
from pytest_tfperf.stores.baseline_file import BaselineStore
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import KEY, baseline, measurement, verdict

RECORDING = "--tfperf-update-baselines"


@dataclass
class Sessions:
    """Sessions of one test, whose slowdown on purpose is found; each takes ten seconds of a clock of its own."""

    folder: Path
    options: list[str] = field(default_factory=list)
    seconds: float = 0.0
    ends: dict[int, Callable[[], tuple[int, str]]] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=lambda: {"tensorflow": "2.21.0"})

    def start(self, options: Sequence[str], told: Mapping[str, Any]) -> tuple[int, str]:
        self.options.append(" ".join(options))
        self.seconds += 10
        if end := self.ends.get(len(self.options)):
            return end()
        if RECORDING in options:
            BaselineStore(self.folder / "trial" / "baselines").update("box", {KEY: baseline()})
        is_slowed = "t.py::a" in told.get("slowed", ())
        judged = None if RECORDING in options else verdict(Outcome.REGRESSED if is_slowed else Outcome.PASS)
        History(self.folder / "trial" / "history.sqlite").append(
            measurement(
                test="t.py::a", session=f"s{len(self.options)}", verdict=judged, environment={**self.environment}
            )
        )
        return int(is_slowed), "tfperf: box\n"


@dataclass
class Ran:
    """A trial in a folder, and the lines that it showed."""

    sessions: Sessions
    lines: list[str]
    trial: Trial
    code: dict[str, str] = field(default_factory=lambda: {"model.py": "1"})

    def run(self, *, seconds: float = math.inf) -> Trial:
        folder, sessions = self.sessions.folder, self.sessions
        trial = read(folder) or self.trial
        show = self.lines.append
        runner = Runner(
            trial, folder, sessions.start, show, lambda: self.code, seconds=seconds, now=lambda: sessions.seconds
        )
        return runner.run()


@pytest.fixture
def ran(tmp_path: Path) -> Ran:
    return Ran(Sessions(tmp_path), [], Trial(same=4, slowed=2, slowdown=0.1, seed=5, code={"model.py": "1"}))


def test_baselines_are_recorded_first_and_then_each_session_is_run(ran: Ran) -> None:
    trial = ran.run()
    assert ran.sessions.options[0] == RECORDING
    assert sum("--tfperf-inject-slowdown=0.1" in options for options in ran.sessions.options) == 2
    assert (len(trial.unchanged), list(trial.losses)) == (4, [True, True])


def test_a_line_for_each_session_says_what_it_found_and_how_long_the_rest_takes(ran: Ran) -> None:
    ran.run()
    assert sum("unchanged: passed, 10 s" in line for line in ran.lines) == 4
    assert any("1 test 10.0 % slower: 1 found, 10 s" in line for line in ran.lines)
    assert any(line.endswith("; 1 session left, about 10 s") for line in ran.lines)


def test_the_time_that_is_left_is_said_from_the_second_session_on(ran: Ran) -> None:
    ran.run()
    lines = [line.partition(" 10 s")[2] for line in ran.lines if line[:3].strip().isdigit()]
    assert lines == [
        "; 5 sessions left",
        *(f"; {left} sessions left, about {left}0 s" for left in (4, 3, 2)),
        "; 1 session left, about 10 s",
        "",
    ]


def test_the_header_of_the_first_session_is_shown_and_no_line_of_progress(tmp_path: Path) -> None:
    lines_of = tmp_path / "lines"
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    print(open({str(lines_of)!r}).read())\n")
    shown: list[str] = []
    (tmp_path / "trial" / "baselines").mkdir(parents=True)
    start = starter(tmp_path / "trial", Trial(arguments=("-s", str(tmp_path / "test_it.py"))), shown.append)
    for machine in ("first", "second"):
        lines = "\n".join(["", f"tfperf: {machine}", "tfperf: test 1/1, test_it, run 1", "other"])
        lines_of.write_text(lines)
        assert start([], {})[0] == 0
    assert shown == ["     tfperf: first"]


@pytest.mark.parametrize(("is_of_base", "option"), [(True, "--tfperf-base=HEAD"), (False, "--tfperf-baselines=")])
def test_a_session_has_the_base_or_baselines_of_the_trials_own(
    tmp_path: Path, *, is_of_base: bool, option: str
) -> None:
    (tmp_path / "conftest.py").write_text("def pytest_configure(config): print(*config.invocation_params.args)\n")
    trial = Trial(is_of_base=is_of_base, arguments=("-s", f"--confcutdir={tmp_path}", str(tmp_path)))
    text = starter(tmp_path / "trial", trial, print)([], {})[1]
    assert [name for name in ("--tfperf-base=HEAD", "--tfperf-baselines=") if name in text] == [option], text


def fails_by(ran: Ran, *tests: str) -> None:
    """Let each session fail by these tests, too, as pytest's cache then says."""
    cache = ran.sessions.folder / "trial" / "cache" / "v" / "cache" / "lastfailed"
    start = ran.sessions.start

    def failing(options: Sequence[str], told: Mapping[str, Any]) -> tuple[int, str]:
        status, text = start(options, told)
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.write_text(json.dumps(dict.fromkeys([*tests, *["t.py::a"] * status], True)))
        return 1, text

    ran.sessions.start = failing  # type: ignore[method-assign]


def test_tests_that_fail_by_something_else_are_named_at_once_in_each_line_and_in_the_trial(ran: Ran) -> None:
    fails_by(ran, "t.py::plain")
    trial = ran.run()
    assert any("t.py::plain FAILED, and may do so in each session" in line for line in ran.lines)
    assert sum("unchanged: t.py::plain failed otherwise, status 1" in line for line in ran.lines) == 4
    assert sum("1 found, t.py::plain failed otherwise" in line for line in ran.lines) == 2
    assert {session.failed for session in trial.sessions} == {("t.py::plain",)}


def test_tests_that_cannot_be_imported_are_an_error_and_no_ctrl_c(ran: Ran) -> None:
    ran.sessions.ends[1] = lambda: (2, "E   SyntaxError\n!!! Interrupted: 1 error during collection !!!\n")
    with pytest.raises(TfperfError, match=r"pytest can't import the tests(?s:.*)SyntaxError"):
        ran.run()


def test_sessions_that_do_not_fit_into_the_time_are_left_for_later(ran: Ran) -> None:
    ran.run(seconds=35)
    assert len(ran.sessions.options) == 3
    assert len(ran.run().sessions) == 6


def test_an_interrupted_trial_goes_on_where_it_was(ran: Ran) -> None:
    def interrupt() -> tuple[int, str]:
        raise KeyboardInterrupt

    ran.sessions.ends[4] = interrupt
    with pytest.raises(KeyboardInterrupt):
        ran.run()
    assert "interrupted; 2 sessions kept." in ran.lines[-1]
    assert len(ran.run().sessions) == 6
    assert ran.sessions.options.count(RECORDING) == 1


def test_a_session_that_pytest_ended_as_interrupted_is_not_kept(ran: Ran) -> None:
    ran.sessions.ends[3] = lambda: (2, "! KeyboardInterrupt !\n")
    with pytest.raises(KeyboardInterrupt):
        ran.run()
    kept = read(ran.sessions.folder)
    assert kept is not None
    assert len(kept.sessions) == 1


def test_wrong_arguments_of_pytest_are_shown_with_its_last_lines(ran: Ran) -> None:
    ran.sessions.ends[1] = lambda: (4, "ERROR: file or directory not found: nowhere\n")
    with pytest.raises(TfperfError, match=r"\n  \| ERROR: file or directory not found: nowhere"):
        ran.run()


def test_a_trial_without_any_baseline_ends_with_pytests_last_lines(ran: Ran) -> None:
    ran.sessions.ends |= {number: lambda: (6, "1 error\n") for number in (1, 2)}
    with pytest.raises(TfperfError, match=r"no baseline could be recorded(?s:.*)1 error"):
        ran.run()


def test_three_sessions_in_a_row_that_measure_nothing_end_the_trial(ran: Ran) -> None:
    ran.sessions.ends |= {number: lambda: (6, "") for number in (2, 3, 4)}
    with pytest.raises(TfperfError, match="3 sessions in a row measured nothing"):
        ran.run()


def changes(ran: Ran, **environment: str) -> Callable[[], tuple[int, str]]:
    """A session before which something changed."""

    def change() -> tuple[int, str]:
        del ran.sessions.ends[3]
        ran.sessions.environment |= environment
        ran.code = ran.code if environment else {"model.py": "2"}
        ran.sessions.options.pop()
        return ran.sessions.start([], {})

    return change


@pytest.mark.parametrize(
    ("environment", "said"),
    [({}, "model.py changed since"), ({"tensorflow": "2.22.0"}, r"tensorflow 2.21.0 -> 2.22.0\) since")],
    ids=["code", "package"],
)
def test_a_session_of_other_code_does_not_count_and_ends_the_trial(
    environment: dict[str, str], said: str, ran: Ran
) -> None:
    ran.sessions.ends[3] = changes(ran, **environment)
    with pytest.raises(TfperfError, match=said):
        ran.run()
    kept = read(ran.sessions.folder)
    assert kept is not None
    assert len(kept.sessions) == 1


def test_a_session_of_another_environment_is_refused_until_that_is_put_back(ran: Ran) -> None:
    ran.sessions.ends[3] = changes(ran, tensorflow="2.22.0")
    for _ in range(2):
        with pytest.raises(TfperfError, match=r"2\.21\.0 -> 2\.22\.0"):
            ran.run()
    ran.sessions.environment["tensorflow"] = "2.21.0"
    assert len(ran.run().sessions) == 6


def test_a_new_file_is_no_change_of_the_code(ran: Ran) -> None:
    ran.code = {**ran.code, "lightning_logs/version_1/hparams.yaml": "3"}
    assert len(ran.run().sessions) == 6


def test_a_trial_of_the_base_records_nothing(ran: Ran) -> None:
    ran.trial = replace(ran.trial, is_of_base=True)
    assert len(ran.run().sessions) == 6
    assert RECORDING not in ran.sessions.options


def test_a_damaged_file_of_a_trial_says_how_to_begin_anew(ran: Ran) -> None:
    ran.run()
    trial_file(ran.sessions.folder).write_text("{")
    with pytest.raises(TfperfError, match="--again"):
        ran.run()
