"""The tutorial, followed word for word from an empty folder: its files are written and its commands run in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.patience import SESSION_SECONDS

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
OUTCOME = re.compile(r"PASS|NO_BASELINE|REGRESSED|recorded|\d+ (?:measured|passed|failed)|The test, which|wrote +\S+")
"""What the page's outputs have in common with those of any machine."""

# A shared machine may be busy with anything, which is not the page's subject.
SETTINGS = {"TFPERF_BUSY": "1", "TFPERF_TOLERANCE": "0.3", "TFPERF_STEPS": "15"}

FRAMEWORKS = {"tensorflow", "keras", "torch", "jax"}

END = "-- end of a command --"

# In the place of the index: the wheel, and all that it needs from the environment of these tests, whose frameworks are
# there once they are asked for.
PIP = """
pip() {
    .venv/bin/python -m pip "${@:1:1}" --quiet --no-index --no-deps --disable-pip-version-check "$WHEEL" &&
    case "$*" in *tensorflow]*) PACKAGES="$FRAMEWORKS";; esac &&
    echo "$PACKAGES" > "$(echo .venv/lib/python3.*/site-packages)/packages.pth" &&
    printf '#!/bin/sh\\nexec "%s/.venv/bin/python" -m pytest "$@"\\n' "$PWD" > .venv/bin/pytest &&
    chmod +x .venv/bin/pytest
}
"""


@dataclass(frozen=True)
class Command:
    """A command of the page and the output that the page shows below it."""

    line: str
    shown: str

    @property
    def script(self) -> str:
        return f'{self.line}\necho "{END} $?"'


def written(name: str, text: str) -> str:
    return f"mkdir -p $(dirname {name}) && cat > {name} <<'EOF'\n{text}EOF"


def steps() -> list[Command | tuple[str, str]]:
    """The page's commands and its files, each a name and a text, in order."""
    found: list[Command | tuple[str, str]] = []
    for kind, text in BLOCK.findall(PAGE.read_text()):
        if kind == "python":
            found.append((text.partition("\n")[0].removeprefix("# "), text))
        else:
            found += [Command(*part.partition("\n")[::2]) for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]]
    return found


COMMANDS = [step for step in steps() if isinstance(step, Command)]


@dataclass(frozen=True)
class Done:
    status: int
    output: str


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> list[Done]:
    """What each command did; all run in one shell, so that `cd` and the virtual environment last."""
    home = tmp_path_factory.mktemp("home")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, f"--wheel-dir={home}", str(REPOSITORY)], check=True)
    (wheel,) = home.glob("*.whl")
    empty = home / "empty"
    empty.mkdir()
    packages = home / "packages"
    packages.mkdir()
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if package.name not in FRAMEWORKS:
            (packages / package.name).symlink_to(package)
    script = "\n".join([PIP, *(step.script if isinstance(step, Command) else written(*step) for step in steps())])
    left_out = ("TFPERF_", "PYTEST_", "GITHUB_", "TF_", "COV_", "VIRTUAL_ENV", "PYTHONPATH", "COLUMNS")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)} | SETTINGS
    environment |= {"WHEEL": str(wheel), "PACKAGES": str(packages), "HOME": str(home)}
    environment["FRAMEWORKS"] = sysconfig.get_path("purelib")
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for who in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{who}_NAME": "A Newcomer", f"GIT_{who}_EMAIL": "newcomer@example.com"}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=empty,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SESSION_SECONDS,
    )
    ended = re.findall(rf"(.*?){re.escape(END)} (\d+)\n", done.stdout, re.DOTALL)
    return [Done(int(status), output) for output, status in ended]


@pytest.mark.parametrize(
    "number", range(len(COMMANDS)), ids=[f"{number}: {command.line}" for number, command in enumerate(COMMANDS, 1)]
)
def test_each_command_does_what_the_page_shows(followed: list[Done], number: int) -> None:
    command, done = COMMANDS[number], followed[number]
    assert done.status == (1 if " failed" in command.shown else 0), done.output
    seen = OUTCOME.findall(done.output)
    assert [words for words in OUTCOME.findall(command.shown) if words not in seen] == [], done.output
