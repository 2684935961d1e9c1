"""`tfperf read`, on real programs."""

from __future__ import annotations

import sys

import pytest

from pytest_tfperf import cli
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_NOT_MEASURED, EXIT_USAGE


def read(capsys: pytest.CaptureFixture[str], program: str, *options: str) -> tuple[int, str]:
    status = cli.main(["read", "--seconds=20", *options, "--", sys.executable, "-c", program])
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def test_what_is_read_is_shown_with_the_call_to_paste(capsys: pytest.CaptureFixture[str]) -> None:
    program = "print('loading\\nstep 120 632.9 img/s\\nstep 130 1,5 img/s')"
    status, text = read(capsys, program, "--unit=img/s", r"--pattern=(?P<rate>\S+) img/s")
    assert status == EXIT_GREEN
    assert "632.9 img/s  step 120 632.9 img/s" in text
    assert "not read  the group rate has '1,5', which is no number:  step 130 1,5 img/s" in text
    assert "ignored   loading" in text
    assert 'unit="img/s",' in text


def test_the_call_to_paste_measures(capsys: pytest.CaptureFixture[str]) -> None:
    """It is Python, and says what the options said."""
    _, text = read(capsys, "print('speed 12')", r"--pattern=speed (?P<rate>\d+)")
    call = text[text.index("from pytest_tfperf import Command, Reads") :]
    compile(call, "test", "exec")
    assert r"reads=Reads(pattern='speed (?P<rate>\\d+)')" in call


LINES = "import time\nfor rate in {}: print(rate, 'img/s', flush=True); time.sleep(0.2)"


def test_the_rate_that_a_test_would_report_is_printed_with_what_is_stated(capsys: pytest.CaptureFixture[str]) -> None:
    """Without the warm-up's."""
    program = LINES.format([3.5, *[9.1, 9.2] * 6])
    _, text = read(capsys, program, "--unit=img/s", r"--pattern=(?P<rate>\S+) img/s")
    assert "check would report 9.1" in text, text
    assert "reads=Reads(pattern=" in text


def test_what_a_step_holds_by_the_clock_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """To be compared with the batch: a rate that is timed before the device has finished shows here."""
    program = LINES.replace("print(", "print('step', rate, ").format([1, 2, 3, 4, 5, 6])
    _, text = read(capsys, program, "--unit=img/s", r"--pattern=(?P<rate>\S+) img/s")
    assert "By the time between its lines, a step holds" in text, text


def test_a_test_that_would_be_refused_is_announced_with_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    _, text = read(capsys, LINES.format([3, 9]), "--unit=img/s", r"--pattern=(?P<rate>\S+) img/s")
    assert "check would refuse it: the program ended after " in text
    assert "\n  next        let it print more often or run longer" in text


KERAS = "import time\nfor n in range(9): print(f'{n + 1}/10 - 3s - 5ms/step', flush=True); time.sleep(0.2)"


def test_a_known_format_is_proposed_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = read(capsys, KERAS)
    assert (status, "--unit steps/s --format keras" in text) == (EXIT_NOT_MEASURED, True), text


@pytest.mark.parametrize(
    ("program", "options", "status", "said"),
    [
        ("print('hello')", (), EXIT_NOT_MEASURED, "nothing is proposed: no line seems to have"),
        ("print('hello')", ("--field=x",), EXIT_NOT_MEASURED, "nothing is read: no line is a JSON object"),
        ("", (), EXIT_NOT_MEASURED, "it printed nothing"),
        ("print('12.5')", (r"--pattern=(?P<rate>\d+)",), EXIT_NOT_MEASURED, "refused: the group rate has '12'"),
        ("print('9/10 - 3s - 5ms/step')", ("--format=keras",), EXIT_USAGE, "examples_per_step=N"),
        ("", ("--pattern=(",), EXIT_USAGE, "is no regular expression"),
    ],
)
def test_what_can_not_be_read_says_why(
    capsys: pytest.CaptureFixture[str], program: str, options: tuple[str, ...], status: int, said: str
) -> None:
    found, text = read(capsys, program, *options)
    assert (found, said in text) == (status, True), text


def test_a_program_that_trains_for_ever_is_ended(capsys: pytest.CaptureFixture[str]) -> None:
    """A shell's: Python can take seconds to start on a busy machine."""
    loop = "n=0; while :; do echo 9.$((n = n + 1)) examples/s; sleep 0.1; done"
    status = cli.main(["read", "--seconds=2", "--pattern=(?P<rate>[0-9.]+) examples", "--", "sh", "-c", loop])
    assert (status, "lines are read" in capsys.readouterr().out) == (EXIT_GREEN, True)
