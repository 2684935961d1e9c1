"""Virtual environments of locks: made by uv where it is found, with pip's settings, and by pip elsewhere."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.revisions import pythons
from pytest_tfperf.revisions.pythons import fault_of, find_uv, make_virtual_environment
from tests.helpers.wheels import wheel


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither pip nor uv is set up by whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


def play_uv(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str = "exit 0") -> None:
    """Put a program on PATH in uv's place."""
    folder.mkdir()
    (folder / "uv").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def lock_of(tmp_path: Path, *requirements: str, python: str = platform.python_version()) -> Path:
    path = tmp_path / "box.lock.txt"
    path.write_text("\n".join([f"# python: {python}", *requirements]) + "\n")
    return path


def refusal(tmp_path: Path, lock: Path) -> str:
    """Why no environment can be made; nothing of it is left."""
    with pytest.raises(TfperfError) as refused:
        make_virtual_environment(tmp_path / "venv", lock)
    assert not (tmp_path / "venv").exists()
    return str(refused.value)


def test_a_uv_that_can_not_be_started_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_uv(tmp_path / "bin", monkeypatch)
    (tmp_path / "bin" / "uv").write_text("#!/no/such/interpreter\n")
    assert f"{tmp_path / 'bin' / 'uv'} can't be run: No such file or directory" in refusal(tmp_path, lock_of(tmp_path))


# What uv is told


def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> dict[str, str]:
    """The variables that uv gets where these are set."""
    play_uv(tmp_path / "bin", monkeypatch)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = find_uv()
    assert found is not None
    return dict(found[1])


def test_an_index_of_pips_variables_holds_for_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = told(tmp_path, monkeypatch, PIP_INDEX_URL="https://a/simple", PIP_EXTRA_INDEX_URL="https://b https://c")
    assert variables["UV_INDEX_URL"] == "https://a/simple"
    assert variables["UV_EXTRA_INDEX_URL"] == "https://b https://c"
    assert variables["UV_INDEX_STRATEGY"] == "unsafe-best-match"  # pip knows no first index


def test_settings_of_pips_file_hold_for_uv_and_its_variables_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://file\nfind-links =\n  /wheels\n  /more\n"
        "[install]\nconstraint = /install.txt\n[download]\ncert = /other.pem\n"
    )
    variables = told(
        tmp_path, monkeypatch, PIP_CONFIG_FILE=str(tmp_path / "pip.conf"), PIP_INDEX_URL="https://variable"
    )
    assert variables["UV_INDEX_URL"] == "https://variable"
    assert variables["UV_FIND_LINKS"] == "/wheels,/more"
    assert variables["UV_CONSTRAINT"] == "/install.txt"
    assert "SSL_CERT_FILE" not in variables


def test_what_is_set_for_uv_itself_counts_more_than_pips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = told(tmp_path, monkeypatch, PIP_INDEX_URL="https://pips", UV_INDEX_URL="https://uvs")
    assert "UV_INDEX_URL" not in variables


def test_settings_that_change_no_package_keep_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(tmp_path, monkeypatch, PIP_PROGRESS_BAR="off") == {}


@pytest.mark.parametrize(
    ("name", "value"), [("PIP_PROXY", "http://proxy"), ("PIP_NO_INDEX", "1"), ("PIP_CONFIG_FILE", "broken.conf")]
)
def test_what_uv_can_not_be_told_leaves_the_work_to_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.conf").write_text("no section\n")
    play_uv(tmp_path / "bin", monkeypatch)
    monkeypatch.setenv(name, value)
    assert find_uv() is None


@pytest.mark.slow  # pip takes seconds to install itself
@pytest.mark.parametrize("has_pip", [True, False])
def test_without_uv_pip_makes_the_environment_with_a_pip_of_its_own_where_pytests_python_has_none(
    has_pip: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(pythons, "find_spec", lambda name: has_pip or None)
    lock = lock_of(tmp_path, wheel(tmp_path / "wheels", "cost", "1.0", "COST = 1\n"))
    make_virtual_environment(tmp_path / "venv", lock)
    assert (tmp_path / "venv" / "bin" / "pip").exists() is not has_pip
    assert len(list((tmp_path / "venv").glob("lib/*/site-packages/cost.py"))) == 1
    assert fault_of(tmp_path / "venv", lock) == ""


@pytest.mark.parametrize(
    ("error", "step"),
    [
        ("No matching distribution found for cost", "--tfperf-reference=PYTHON"),
        ("[Errno 28] No space left on device", "Free space on that disk"),
        ("[Errno 122] Disk quota exceeded", "Free space on that disk"),
    ],
)
def test_an_installation_by_pip_that_fails_shows_its_error_and_the_next_step(
    error: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    makes = '[ "$2" = venv ] && /bin/mkdir -p "$4/bin" && /bin/cp "$0" "$4/bin/python" && exit 0'
    python.write_text(f"#!/bin/sh\n{makes}\necho 'ERROR: {error}'\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", "/nowhere")
    said = refusal(tmp_path, lock_of(tmp_path, "cost==1.0"))
    assert f"ERROR: {error}\n" in said
    assert step in said.splitlines()[-1]


# Played, because it shows what no real uv does here: it brings a Python


def test_a_python_that_is_not_here_is_brought_by_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_uv(tmp_path / "bin", monkeypatch, 'echo "asked for: $@"; exit 1')
    said = refusal(tmp_path, lock_of(tmp_path, python="3.98.2"))
    assert f"asked for: venv --no-project --python 3.98 {tmp_path}/venv" in said


# A real uv


@pytest.fixture(scope="module")
def installed_uv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with uv: the one on PATH or beside this Python, or from pip's index."""
    if (path := shutil.which("uv") or shutil.which("uv", path=Path(sys.executable).parent)) is not None:
        return Path(path).parent
    folder = tmp_path_factory.mktemp("uv")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--retries=0", f"--target={folder}", "uv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"uv is not installed, and pip can't install it: {done.stderr.strip().splitlines()[-1]}")
    return folder / "bin"


@pytest.fixture
def uv(installed_uv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(installed_uv), prepend=":")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())  # an index without any package


@pytest.mark.slow
@pytest.mark.usefixtures("uv")
def test_uv_makes_the_environment_of_a_lock(tmp_path: Path) -> None:
    lock = lock_of(tmp_path, wheel(tmp_path / "wheels", "cost", "1.0", "COST = 1\n"))
    make_virtual_environment(tmp_path / "venv", lock)
    python = tmp_path / "venv" / "bin" / "python"
    ran = subprocess.run(
        [python, "-c", "import cost, sys; print(cost.COST, sys.prefix)"], capture_output=True, text=True
    )
    assert ran.stdout.split() == ["1", str(tmp_path / "venv")], ran.stderr
    assert fault_of(tmp_path / "venv", lock) == ""
    assert "uv = " in (tmp_path / "venv" / "pyvenv.cfg").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("uv")
def test_uv_finds_packages_where_pip_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(tmp_path / "wheels", "cost", "1.0", "COST = 1\n")
    lock = lock_of(tmp_path, "cost==1.0")
    assert "cost" in refusal(tmp_path, lock)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    make_virtual_environment(tmp_path / "venv", lock)
    assert fault_of(tmp_path / "venv", lock) == ""


@pytest.mark.slow
@pytest.mark.usefixtures("uv")
def test_a_package_that_uv_can_not_install_is_named_with_the_way_on(tmp_path: Path) -> None:
    said = refusal(tmp_path, lock_of(tmp_path, "no-such-package==1.0"))
    assert f"uv can't install the packages of {tmp_path}/box.lock.txt; the last lines:\n" in said
    assert re.search(r"^  \| .*no-such-package was not found", said, re.MULTILINE), said
    assert "take uv off PATH to install with pip, or name an environment" in said.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.usefixtures("uv")
def test_a_python_that_uv_can_not_bring_is_named_with_the_way_on(tmp_path: Path) -> None:
    said = refusal(tmp_path, lock_of(tmp_path, python="3.98.2"))
    assert said.startswith(f"uv can't make a virtual environment of Python 3.98 in {tmp_path}/venv; the last lines:\n")
    assert "No interpreter found for Python 3.98" in said
    assert "Install that Python, or name an environment" in said.splitlines()[-1]
