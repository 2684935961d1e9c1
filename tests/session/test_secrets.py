"""A password that stands where it does not belong is never shown."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf import cli
from pytest_tfperf.core.exit_status import EXIT_INTERNAL, EXIT_USAGE
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import OF_THE_SPINE
from pytest_tfperf.features import settings_of_features
from pytest_tfperf.session.state import SESSION
from pytest_tfperf.stores.history import History
from tests.helpers.command_lines import Argument, arguments
from tests.helpers.inner import MACHINE, Project
from tests.helpers.measurements import measurement
from tests.helpers.notified_server import serving

SECRET = "PaSs/WoRd"
URL = f"postgresql://ann:{SECRET}@127.0.0.1:1/d"
FEW = {"make-imagenet": ["--images=1", "--shards=1"], "make-tokens": ["--texts=1", "--shards=1"]}
SETTINGS = (*OF_THE_SPINE, *settings_of_features())


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a history that has the password in its names, too."""
    folder = tmp_path_factory.mktemp("history")
    history = History(folder / ".tfperf" / "history.sqlite")
    for session in ("s1", "s2"):
        of = {"test": f"a.py::t[{URL}]", "machine": URL, "name": URL, "environment": {"a": URL}}
        history.append(measurement(session=session, **of))
    (folder / "x.log").write_text(f"loading {URL}\n")
    return folder


@pytest.fixture(autouse=True)
def _in_its_own_copy(history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shutil.copytree(history, tmp_path / "copy"))


def _of_a_test(argument: Argument) -> Any:
    makes_data = argument.command in FEW and argument.name == "DIR"  # with TensorFlow
    return pytest.param(argument, marks=[pytest.mark.slow] * makes_data, id=str(argument))


# A value as a word of its own is parsed as one after "=".
@pytest.mark.parametrize(
    "argument", [_of_a_test(one) for one in arguments() if one.separator or not one.name.startswith("-")]
)
def test_no_argument_of_any_command_shows_it(argument: Argument, capfd: pytest.CaptureFixture[str]) -> None:
    few = FEW.get(argument.command, []) if argument.name == "DIR" else []
    status = cli.main([*argument.line(URL), *few])
    said = "".join(capfd.readouterr())
    assert "PaSs" not in said
    assert "WoRd" not in said
    assert said.strip()
    assert status != EXIT_INTERNAL


@pytest.mark.parametrize(
    "line",
    [
        "report --format=json",
        "report -o facts.json --format=json",
        "report -o page.html",
        "history",
        "history --csv",
        "history --json",
        "history --export",
        "history --machine=unknown",
        "history changes --machine=unknown",
        "compare previous latest",
        "compare previous latest --json",
        "explain a.py",
        "replay x.log",
    ],
)
def test_no_data_of_a_history_shows_it(line: str, capfd: pytest.CaptureFixture[str]) -> None:
    cli.main(line.split())
    said = "".join(capfd.readouterr())
    for path in Path().iterdir():
        said += path.read_text() if path.suffix in (".html", ".json", ".csv") else ""
    assert said
    assert "PaSs" not in said
    assert "WoRd" not in said


OTHER_FORMS = (
    *("host=h password=PaSsWoRd dbname=d", "host = h password = 'my PaSsWoRd'", "u:PaSsWoRd@h/d", "u:my PaSsWoRd@h/d"),
    *("postgresql:u:PaSsWoRd@h/d", "postgresql//u:PaSsWoRd@h/d", "jdbc:postgresql://h/d?password=PaSsWoRd"),
    *("h:5432:d:u:PaSsWoRd", "Server=h;Pwd=PaSsWoRd", '{"password": "PaSsWoRd"}', "mysql://u:PaSsWoRd@h/d"),
)


@pytest.mark.parametrize("address", OTHER_FORMS)
def test_no_address_of_another_form_shows_it(
    address: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for line in (["history", "--history", address], ["history", "push", address]):
        assert cli.main(line) == EXIT_USAGE
    monkeypatch.setenv("TFPERF_HISTORY_URL", address)
    assert cli.main(["history", "push"]) == EXIT_USAGE
    said = "".join(capfd.readouterr())
    assert said.count("--history names a folder") == 1
    assert "WoRd" not in said


# pytest


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: one.name)
def test_no_setting_of_the_plugin_shows_it(setting: Setting[object], pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(throughput): pass")
    option = f"--tfperf-{setting.name.replace('_', '-')}={URL}"
    words = [option] if setting.is_option else ["-o", f"tfperf_{setting.name}={URL}"]
    result = pytester.runpytest("--collect-only", *words)
    said = result.stdout.str() + result.stderr.str()
    assert "INTERNALERROR" not in said
    assert "PaSs" not in said
    assert "WoRd" not in said


@pytest.mark.parametrize("words", [(f"--unknown={URL}",), (URL,), ("-k", URL), (f"--update-baselines={URL}",)])
def test_no_command_line_that_pytest_refuses_shows_it(words: Sequence[str], pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(throughput): pass")
    result = pytester.runpytest_subprocess(*words)
    said = result.stdout.str() + result.stderr.str()
    assert (result.ret, "ann:***@127.0.0.1" in said) == (pytest.ExitCode.USAGE_ERROR, True)
    assert "PaSs" not in said
    assert "WoRd" not in said


def test_no_command_to_copy_shows_it(pytester: pytest.Pytester) -> None:
    config = pytester.parseconfigure(f"--junit-prefix={URL}", "-o", f"junit_suite_name={URL}")
    rerun = config.stash[SESSION].settings.rerun
    assert "ann:***@" in rerun.recording
    assert "PaSs" not in rerun.recording + rerun.of("a.py::b")


# What a program prints

PRINTED = (
    *("https://PaSsWoRd@host/a", "password: PaSsWoRd", "run.py --password PaSsWoRd", "['x', '--token', 'PaSsWoRd']"),
    *("https://hooks.slack.com/services/T0/B0/PaSsWoRd", "Authorization: Bearer PaSsWoRd", "HF_TOKEN=PaSsWoRd"),
)
PROGRAM = f"""
    import sys, time

    rate = open("rate").read()
    for _ in range(5):
        for line in {PRINTED!r}:
            # A line that is cut somewhere shows no part of a secret, either.
            print("x" * 150 + " " + line, "y" * 200)
            print(line)
        if rate == "none":
            print("12 images/s password: PaSsWoRd 13 images/s")
        elif rate == "nan":
            sys.exit("password: PaSsWoRd")
        else:
            print(rate, "images/s password: PaSsWoRd", flush=True)
"""
TESTS = """
    import sys
    from pytest_tfperf import Command, Reads

    READS = Reads(pattern="^(?P<rate>[0-9.]+) images/s", until_end=True)

    def test_program(throughput, on):
        command = [sys.executable, "run.py", "--password", "PaSsWoRd", "--url=https://PaSsWoRd@host"]
        throughput.check(Command(command, name="program", unit="images/s", reads=READS), on=on)

    @pytest.mark.parametrize("url", ["https://PaSsWoRd@host"])
    def test_parameter(throughput, on, url):
        program = Command([sys.executable, "run.py"], name="other", unit="images/s", reads=READS)
        throughput.check(program, on=on)
"""
FILES = ("--tfperf-html=r.html", "--tfperf-json=r.json", "--junitxml=r.xml", "-o", "tfperf_markdown=r.md")


@pytest.mark.parametrize("rate", ["800.0", "none", "nan"], ids=["slow", "two rates in a line", "fails"])
def test_no_output_shows_what_a_program_should_not_have_printed(rate: str, tmp_path: Path) -> None:
    with Project(tmp_path / "project", trains=False) as project, serving() as server:
        project.write("run.py", PROGRAM)
        project.tests(TESTS)
        for name in ("program", "other"):
            project.baseline(name, value=1000.0, unit="images", runs=5, between_runs=0.002)
        project.write("rate", "1000.0")
        project.run()
        project.write("rate", rate)
        variables = {"TFPERF_NOTIFY": "webhook $HOOK\ngithub ada/nets", "HOOK": server.url, "GITHUB_TOKEN": "x"}
        variables |= {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": "s.md", "GITHUB_API_URL": server.url}
        said = project.run(*FILES, "-o", "tfperf_comment=c.md", "-rA", "-vv", **variables).text
        assert len(server.posted) == 1, said
        assert server.issues
        shown = [project.folder / name for name in ("r.html", "r.json", "r.xml", "r.md", "s.md", "c.md")]
        for text in (said, *(path.read_text() for path in shown), repr(server.posted), repr(server.issues)):
            lines = [line for line in text.splitlines() if "aSsW" in line and "test_parameter[" not in line]
            assert not [line[max(0, line.index("aSsW") - 60) :][:120] for line in lines]
        assert MACHINE in said
