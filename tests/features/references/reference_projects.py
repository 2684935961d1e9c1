"""Projects with baselines to build reference environments of: a git repository, locks, and a Python that is played."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.features.references.environment import ReferenceStore
from pytest_tfperf.revisions import pythons

PLAYED = "3.99"

# `-m venv [OPTION] DIR` puts itself there; `-m pip install -r LOCK` "installs" what the lock names, a line of a file
# for each.
_PYTHON = f"""\
#!{sys.executable}
import pathlib, shutil, sys, time
home = pathlib.Path(__file__).parent
if sys.argv[1] == "--version":
    print("Python {PLAYED}.1")
elif sys.argv[2] == "venv":
    venv = pathlib.Path(sys.argv[-1])
    (venv / "lib" / "python{PLAYED}" / "site-packages").mkdir(parents=True)
    (venv / "bin").mkdir()
    shutil.copy(__file__, venv / "bin" / "python")
else:
    (packages,) = home.parent.glob("lib/python*/site-packages")
    for line in pathlib.Path(sys.argv[-1]).read_text().splitlines():
        name, _, version = line.partition("==")
        if name == "hold":  # is installed when the file that is its version goes
            pathlib.Path(version).with_suffix(".seen").touch()
            while pathlib.Path(version).exists():
                time.sleep(0.02)
        elif name == "fail":
            sys.exit("\\n".join(["Looking in indexes"] * 30 + ["ERROR: " + version]))
        elif version:
            folder = packages / f"{{name}}-{{version}}.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(f"Name: {{name}}\\nVersion: {{version}}\\n")
"""


class ReferenceProject:
    """A git repository in `folder` with one committed module, `nets`, and a folder of baselines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.baselines = folder / "baselines"
        self.home = folder / ".tfperf" / "reference"
        self.baselines.mkdir(parents=True)
        self.git("init", "--quiet")
        self.first = self.commit("def tiny(): ...\n")

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=someone", "-c", "user.email=someone@localhost", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *who, *arguments], cwd=self.folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, nets: str) -> str:
        (self.folder / "nets.py").write_text(nets)
        self.git("add", "nets.py")
        self.git("commit", "--quiet", "--message", "nets")
        return self.git("rev-parse", "--short=12", "HEAD")

    def row(
        self, *requirements: str, python: str = f"{PLAYED}.1", commit: str | None = None, name: str = ""
    ) -> Baseline:
        """A baseline that names a new lock of these requirements, and the first commit."""
        lock = f"box-{name or len(list(self.baselines.iterdir())):0>8}.lock.txt"
        (self.baselines / lock).write_text("\n".join([f"# python: {python}", *requirements]) + "\n")
        return self.row_of(lock, self.first if commit is None else commit)

    def row_of(self, lock: str, commit: str) -> Baseline:
        key = Key("nets:tiny-b1-replicated-device", "1x1")
        return Baseline(machine="box", key=key, value=1.0, lock=lock, commit=commit)

    @property
    def store(self) -> ReferenceStore:
        """As a new session would have it."""
        return ReferenceStore(self.folder / ".tfperf", baselines=self.baselines, root=self.folder)


def play_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a Python of version 3.99 on PATH."""
    folder.mkdir(exist_ok=True)
    path = folder / f"python{PLAYED}"
    path.write_text(_PYTHON)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # uv can't be told that, so its pip is played also where uv is installed
    monkeypatch.setattr(pythons, "find_uv", lambda: None)
    monkeypatch.setattr(pythons, "find_spec", lambda _: None)  # this pip calls it, half a second a time
