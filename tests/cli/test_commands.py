"""`tfperf` as it is installed: its output, its exit statuses and its help; test_replay.py has its verdicts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_tfperf import cli
from pytest_tfperf.hardware import discovery
from tests.helpers.patience import SESSION_SECONDS

OF = ("--machine=azure-nc6-dsvm", "--topology=1x1", "--workload=resnet50-b64-horovod-device")
GREEN, REGRESSED, INTERRUPTED, INTERNAL, USAGE, NOT_MEASURED = 0, 1, 2, 3, 4, 6
COMMANDS = [
    *("topology", "replay", "history", "history changes", "explain", "doctor", "init", "baselines stale", "compare"),
    *("make-imagenet", "reference create", "reference list", "reference remove"),
]


def tfperf(*arguments: str | Path, **more: object) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "pytest_tfperf.cli", *map(str, arguments)]
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": SESSION_SECONDS}
    done: subprocess.CompletedProcess[str] = subprocess.run(command, check=False, **given | more)  # type: ignore[call-overload]
    return done


def test_the_command_says_in_one_line_that_it_needs_linux() -> None:
    code = "import pretended_windows, sys; from pytest_tfperf.cli import main; sys.exit(main(['--help']))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "data")},
        capture_output=True,
        text=True,
        timeout=SESSION_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert done.stderr == "tfperf: this command needs Linux, and this is win32\n"


@pytest.fixture
def log(azure_logs: Path) -> Path:
    return azure_logs / "azure-test1.log"


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A log that is 20 % slower than its baseline."""
    path = tmp_path / "slow.log"
    path.write_text("total images/sec: 47.00\n")
    return path


def test_the_topology_of_this_machine_names_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["topology", "--json"])
    machine = json.loads(capsys.readouterr().out)["machine"]
    assert cli.main(["topology"]) == GREEN
    assert machine in capsys.readouterr().out


def test_the_command_is_installed() -> None:
    command = Path(sys.executable).with_name("tfperf")
    done = subprocess.run(
        [command, "topology", "--json"], capture_output=True, text=True, timeout=SESSION_SECONDS, check=True
    )
    assert json.loads(done.stdout)["version"] == 1


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == GREEN
    assert capsys.readouterr().out.startswith("pytest-tfperf ")


def test_what_takes_long_to_import_is_imported_when_a_command_runs() -> None:
    slow = {"numpy", "jinja2", "pandas", "pynvml", "pytest"}
    program = f"import sys; from pytest_tfperf.cli import parser; parser(); print({slow} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# Pipes and terminals


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_a_log_is_read_from_a_pipe(log: Path, name: str) -> None:
    padding = "2018-10-16 12:00:00 I tensorflow/core: a line of another program\n" * 200  # more than one read of a pipe
    done = tfperf("replay", name, *OF, input=padding + log.read_text())
    assert (done.returncode, done.stdout[-8:], done.stderr) == (GREEN, "\n1 PASS\n", "")


def test_a_reader_that_leaves_early_does_not_change_the_status(slow: Path) -> None:
    for status, arguments in ((GREEN, ["topology", "--json"]), (REGRESSED, ["replay", slow, *OF])):
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "w") as left:
            done = tfperf(*arguments, stdout=left)
        assert (done.returncode, done.stderr) == (status, "")


def test_a_reader_of_errors_that_leaves_early_does_not_change_the_status() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as left:
        assert tfperf("replay", "missing.log", *OF, stderr=left).returncode == USAGE


def test_a_full_disk_is_no_regression_and_hides_none(log: Path, slow: Path) -> None:
    for status, file, fact in ((NOT_MEASURED, log, "No space left on device"), (REGRESSED, slow, "one is REGRESSED")):
        with Path("/dev/full").open("w") as full:
            done = tfperf("replay", file, *OF, stdout=full)
        assert (done.returncode, fact in done.stderr, len(done.stderr.splitlines())) == (status, True, 1)


def test_a_name_that_the_terminal_can_not_show_is_escaped(log: Path, tmp_path: Path) -> None:
    copy = tmp_path / "l\xe4uft.log"
    copy.write_text(log.read_text())
    done = tfperf("replay", copy, *OF, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, "l\\xe4uft.log" in done.stdout) == (GREEN, True)


# What is no regression has another status


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (MemoryError(), NOT_MEASURED, "not enough memory"),
        (PermissionError(13, "Permission denied", "/a"), NOT_MEASURED, "/a can't be used: Permission denied"),
        (KeyboardInterrupt(), INTERRUPTED, "interrupted"),
        (RuntimeError("a bug"), INTERNAL, "a fault of pytest-tfperf itself, please report it"),
    ],
    ids=["memory", "permission", "Ctrl-C", "a fault"],
)
def test_what_is_no_regression_has_another_status(
    error: BaseException,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(discovery, "discover", fail)
    assert cli.main(["topology"]) == status
    assert said in capsys.readouterr().err


def test_a_folder_whose_name_is_too_long_is_a_clear_error(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "x" * 300
    for arguments in (["history", f"--dir={name}"], ["replay", str(log), *OF, f"--baselines={name}"]):
        assert cli.main(arguments) in (USAGE, NOT_MEASURED)
        said = capsys.readouterr().err
        assert said.startswith("tfperf: ")
        assert "Traceback" not in said


# Help


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*command.split(), "--help"]) == GREEN
    assert f"\nexamples:\n  tfperf {command}" in capsys.readouterr().out.replace("TFPERF_COMMENT=", "")


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_commands_are_listed_in_groups_within_the_width_of_the_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert cli.main(["--help"]) == GREEN
    said = capsys.readouterr().out.partition("\nDocumentation: ")[0]
    sections = {name: lines for name, _, lines in (part.partition(":\n") for part in said.split("\n\n"))}
    listed = {name: re.findall(r"^  ([\w-]+)", lines, re.MULTILINE) for name, lines in sections.items()}
    assert listed["start"] == ["doctor", "init", "read", "trial"]
    assert listed["every day"] == ["ack", "baselines", "explain", "history", "report"]
    assert listed["about a change"] == ["bisect", "comment", "compare", "notify"]
    assert listed["more"] == ["make-imagenet", "make-tokens", "reference", "replay", "topology"]
    assert max(map(len, said.splitlines())) < columns


def test_a_command_s_help_has_only_the_exit_statuses_with_a_meaning_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cli.main(["doctor", "--help"])
    said = capsys.readouterr().out
    assert re.findall(r"^  (\d)  ", said.partition("\nexit status (others: tfperf --help):\n")[2], re.MULTILINE) == [
        "0",
        "8",
    ]
    cli.main(["topology", "--help"])
    assert "exit status" not in capsys.readouterr().out
    cli.main(["--help"])
    said = capsys.readouterr().out.partition("\nexit status of every command:\n")[2]
    assert re.findall(r"^  (\d)  ", said, re.MULTILINE) == ["0", "1", "2", "3", "4", "6"]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("exlpain", "unknown command 'exlpain'. Did you mean 'explain'? Known: ack, "),
        ("history chnages", "unknown action 'chnages'. Did you mean 'changes'? Known: "),
        ("explain --sesion", "unrecognized arguments: --sesion. Did you mean '--session'?"),
        ("init --ci=gihtub", "argument --ci: unknown value 'gihtub'. Did you mean 'github'? Known: "),
    ],
)
def test_a_misspelt_word_is_answered_with_the_nearest(
    typed: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*typed.split(), "test_a"] if typed.startswith("explain") else typed.split()) == USAGE
    assert f"error: {said}" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["topology", "replay a.log", "reference list"])
def test_an_unknown_option_is_answered_with_the_usage_of_its_own_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*command.split(), "--nope"]) == USAGE
    said = capsys.readouterr().err
    assert said.startswith(f"usage: tfperf {command.removesuffix(' a.log')} ")
    assert said.endswith("unrecognized arguments: --nope\n")
