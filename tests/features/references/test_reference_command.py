"""`tfperf reference`: real virtual environments, several at once, interrupted ones, and workers that run in one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from reference_projects import PLAYED, ReferenceProject, play_python

from pytest_tfperf import cli
from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.features.references.environment import check, named
from pytest_tfperf.stores.baseline_file import BaselineStore
from pytest_tfperf.workers.local import LocalLauncher
from tests.helpers.patience import SESSION_SECONDS, running, wait_for

pytestmark = pytest.mark.slow

PYTHON = ".".join(map(str, sys.version_info[:3]))
TINY = Workload(model="nets:tiny", batch_size=1)
NETS = """
from pathlib import Path
import keras

def tiny():
    Path("ran.txt").write_text(keras.__version__)
    images = keras.Input((8, 8, 3))
    return keras.Model(images, keras.layers.Dense(10)(keras.layers.Flatten()(images)))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReferenceProject:
    made = ReferenceProject(tmp_path / "project")
    monkeypatch.chdir(made.folder)
    monkeypatch.syspath_prepend(made.folder)  # as pytest's own path is where it runs in the project
    return made


def record(project: ReferenceProject, *rows: Baseline) -> None:
    BaselineStore(project.baselines, published=None).update("box", {row.key: row for row in rows})


def wheel(folder: Path, name: str, version: str, code: str) -> None:
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", code)
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


def test_an_environment_is_created_listed_and_removed_by_the_command(
    project: ReferenceProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With pip as the user set it up: here packages that stand for TensorFlow come from a folder only."""
    for name, version in {"tensorflow": "2.21.0", "keras": "3.15.1"}.items():
        wheel(tmp_path / "wheels", name, version, f"__version__ = {version!r}\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PYTHONPATH", str(project.folder))
    row = project.row("keras==3.15.1", "tensorflow==2.21.0", python=PYTHON)
    record(project, row)
    name = row.lock.removesuffix(".lock.txt")

    assert cli.main(["reference", "create", "--machine=box"]) == 0
    assert f"{name}: ready at {project.first}, TensorFlow 2.21.0" in capfd.readouterr().out

    project.commit("def other(): ...\n")  # today's code has no `tiny`
    workloads = [TINY, Workload(model="nets:other", batch_size=1), Workload(model="trivial", batch_size=1)]
    _, unknown = check(project.store.find(row), workloads)
    assert unknown == {workloads[1].id: "module 'nets' has no function 'other'"}

    assert cli.main(["reference", "list"]) == 0
    said = capfd.readouterr().out
    facts = f"Python {PYTHON}, TensorFlow 2.21.0, commit {project.first}, serves 1 baseline,"
    assert said.startswith(f"{name}  {facts}"), said
    assert said.endswith("  ok\n")
    assert cli.main(["reference", "list", "--json"]) == 0
    (entry,) = json.loads(capfd.readouterr().out)
    assert (entry["name"], entry["commits"], entry["lock"]["python"]) == (name, [project.first], PYTHON)

    assert cli.main(["reference", "remove", "--all"]) == 0
    assert cli.main(["reference", "list"]) == 0
    assert "there are no reference environments" in capfd.readouterr().out


def test_a_package_that_can_not_be_installed_is_a_usage_error_with_pips_words(
    project: ReferenceProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    play_python(tmp_path / "bin", monkeypatch)
    record(project, project.row("fail==No matching distribution found for no-such-package==1.0"))
    assert cli.main(["reference", "create", "--machine=box"]) == 4
    assert "  | ERROR: No matching distribution found for no-such-package==1.0" in capfd.readouterr().err


def test_a_machine_without_baselines_says_how_to_record_them(
    project: ReferenceProject, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["reference", "create", "--machine=nobody"]) == 4
    assert "baselines/nobody.csv has no baselines that were measured" in capfd.readouterr().err


_CREATE = "import sys; from pytest_tfperf import cli; sys.exit(cli.main(['reference', 'create', '--machine=box']))"


def creating(project: ReferenceProject) -> AbstractContextManager[subprocess.Popen[str]]:
    """`tfperf reference create` as a process of its own."""
    return running(
        _CREATE,
        cwd=project.folder,
        env=os.environ | {"PYTHONPATH": str(Path(cli.__file__).parents[1])},
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # who runs tests in the background ignores it
    )


@pytest.fixture
def held(project: ReferenceProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Packages are being installed from when `held.seen` is there, until this file goes."""
    play_python(tmp_path / "bin", monkeypatch)
    file = tmp_path / "held.now"
    file.touch()
    record(project, project.row(f"hold=={file}", "six==1.16.0", python=f"{PLAYED}.1"))
    return file


def seen(file: Path) -> bool:
    return wait_for(file.with_suffix(".seen").exists)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_of_two_at_once_the_second_waits_and_reuses(project: ReferenceProject, held: Path) -> None:
    with creating(project) as first:
        assert seen(held)
        with creating(project) as second:
            assert "waiting for another `tfperf reference`" in first_line(second)
            held.unlink()
            said = [process.communicate()[0] for process in (first, second)]
    assert [text.count("installing its packages") for text in said] == [1, 0]


def test_an_interrupted_creation_leaves_nothing(project: ReferenceProject, held: Path) -> None:
    with creating(project) as process:
        assert seen(held)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert not list(project.home.glob("*/venv"))


def test_a_creation_that_was_killed_is_made_anew_once_its_installer_has_ended(
    project: ReferenceProject, held: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with creating(project) as process:
        assert seen(held)
        process.kill()
    cli.main(["reference", "list"])
    assert " was interrupted" in capfd.readouterr().out
    with creating(project) as again:
        assert "waiting for another" in first_line(again)
        held.unlink()
        assert "installing its packages" in again.communicate()[0]
    cli.main(["reference", "list"])
    assert f"commit {project.first}" in capfd.readouterr().out


def test_a_worker_runs_the_code_of_the_commit_in_its_folder(
    project: ReferenceProject, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Under this Python: the code is what is tried. PYTHONPATH names today's, which has no such model any more."""
    monkeypatch.setenv("PYTHONPATH", str(project.folder))
    old = project.commit(NETS)
    project.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "old"), old)
    project.commit("raise ImportError('todays code')\n")
    environment = named(Path(sys.executable), tmp_path / "old", project.folder)
    launcher = LocalLauncher(
        logs=tmp_path / "logs",
        silence_seconds=SESSION_SECONDS,
        interpreter=environment.interpreter,
    )
    try:
        job = Job(workload=TINY, devices=Devices(kind=DeviceKind.CPU, count=1))
        launcher.start(job, lambda _: None).close()
    finally:
        launcher.close()
    assert (tmp_path / "old" / "ran.txt").exists()
    assert not (project.folder / "ran.txt").exists()
