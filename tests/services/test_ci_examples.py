"""The files under examples/ci: their commands run here, in a project with one test; the rest is checked for form."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from xml.etree import ElementTree

import pytest

from tests.helpers.inner import ANY_THROUGHPUT, Project

EXAMPLES = Path(__file__).parents[2] / "examples" / "ci"
BIN = Path(sys.executable).parent

TEST = """
    import sys
    from pytest_tfperf import Command

    def test_program(throughput, on):
        command = [sys.executable, "-c", "print('9 examples/s\\\\n' * 9)"]
        throughput.check(Command(command, name="program", reads=RATES_TO_THE_END), on=on)
"""


class Machine:
    """A machine of a CI system: the checkout, what outlives a job, and the programs on its PATH."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.project = project
        self.checkout = project.folder
        self.kept = folder / "kept"
        self.kept.mkdir()

    def text(self, name: str) -> str:
        """An example as it would be on this machine, which has no GPU and whose folders lie elsewhere."""
        moved = {
            "/var/lib/tfperf": self.kept,
            "/srv/perf/.venv/bin": BIN,
            "/srv/perf": self.checkout,
            "-m gpu": "-m cpu",
        }
        text = (EXAMPLES / name).read_text()
        for there, here in moved.items():
            text = text.replace(there, str(here))
        return text

    def run(self, command: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        ours = {
            name: value for name, value in os.environ.items() if not name.startswith(("TFPERF_", "GITHUB_", "PYTEST_"))
        }
        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", command],
            cwd=self.checkout,
            env=ours | {"PATH": f"{BIN}:{os.environ['PATH']}"} | (environment or {}),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )

    def require_measured(self, junit: Path) -> None:
        """The session judged the one test, left its report, and its history outlives the job."""
        assert "test_program" in junit.with_name("report.html").read_text()
        (outcome,) = [
            one.get("value") for one in ElementTree.parse(junit).iter("property") if one.get("name") == "tfperf_outcome"
        ]
        assert outcome == "PASS"
        assert (self.kept / "history.sqlite").exists()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Project(tmp_path / "upstream") as project:
        project.tests(TEST, "perf_tests/test_it.py")
        project.write("requirements.txt", "")
        project.baseline("program", unit="examples", **ANY_THROUGHPUT)
        yield Machine(project, tmp_path)


def require_success(finished: subprocess.CompletedProcess[str], command: str, *, may_fail: bool = False) -> None:
    """A command may say that something is missing here, but not that its own arguments are wrong."""
    assert may_fail or finished.returncode == 0, f"{command}\n{finished.stdout}"
    assert "usage: " not in finished.stdout


# Jenkins


def test_the_commands_of_jenkins_measure(machine: Machine) -> None:
    text = machine.text("Jenkinsfile")
    environment = dict(re.findall(r"(TFPERF_\w+) = '(.*?)'", text))
    commands = re.findall(r"\bsh '([^'\n]+)'$|script: '''([^']*)'''", text, re.MULTILINE)
    assert len(commands) == 3
    for one, several in commands:
        command = one or dedent(several).strip()
        require_success(machine.run(command, environment), command)
    machine.require_measured(machine.checkout / "perf.xml")


def test_the_brackets_of_the_jenkinsfile_are_closed() -> None:
    open_ones: list[str] = []
    for bracket in re.findall(
        r"[\[\](){}]",
        re.sub(
            r"'''.*?'''|'.*?'|\".*?\"|//.*?$",
            "",
            (EXAMPLES / "Jenkinsfile").read_text(),
            flags=re.DOTALL | re.MULTILINE,
        ),
    ):
        if bracket in "[({":
            open_ones.append(bracket)
        else:
            assert open_ones.pop() + bracket in ("[]", "()", "{}")
    assert open_ones == []


# systemd


def unit(text: str) -> list[tuple[str, str]]:
    """The settings of a unit in order; a name may occur several times."""
    lines = [line for line in text.splitlines() if line and line[0] not in "#["]
    return [(name, value) for name, _, value in (line.partition("=") for line in lines)]


def test_the_commands_of_systemd_measure(machine: Machine) -> None:
    in_a_clone_of_itself(machine)
    for name, value in unit(machine.text("tfperf.service")):
        if name.startswith("Exec"):
            command = value.removeprefix("-")
            finished = machine.run(shlex.join(shlex.split(command)))  # systemd starts no shell
            require_success(finished, command, may_fail=value.startswith("-"))
    machine.require_measured(machine.kept / "perf.xml")


def in_a_clone_of_itself(machine: Machine) -> None:
    git = "git -c user.name=ci -c user.email=ci@localhost"
    made = machine.run(f"git init -q && git add . && {git} commit -qm first && git clone -q . ../clone")
    assert made.returncode == 0, made.stdout
    machine.checkout = machine.checkout.parent / "clone"


def test_programs_outside_of_systemds_own_path_are_absolute() -> None:
    values = [
        value.removeprefix("-")
        for name, value in unit((EXAMPLES / "tfperf.service").read_text())
        if name.startswith("Exec")
    ]
    assert [value for value in values if not value.startswith(("/", "git "))] == []


def test_the_timer_starts_every_day_and_the_service_of_its_name() -> None:
    settings = dict(unit((EXAMPLES / "tfperf.timer").read_text()))
    assert settings["OnCalendar"] == "*-*-* 03:00"
    assert "Unit" not in settings  # so it is tfperf.service


# All of them


@pytest.mark.parametrize("name", ["Jenkinsfile", "tfperf.service"])
def test_each_gate_requires_baselines_and_keeps_junit_and_the_report(name: str) -> None:
    text = (EXAMPLES / name).read_text()
    assert "--tfperf-require-baseline" in text
    assert "--junitxml=" in text
    assert "--tfperf-html=" in text
