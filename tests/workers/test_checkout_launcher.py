"""A command of another checkout: which paths lead there, which stay, and what it lacks."""

from __future__ import annotations

import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from inner import Project
from repositories import Repository

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import NotCompared, TfperfError
from pytest_tfperf.workers import repository_packages
from pytest_tfperf.workers.checkout_launcher import Checkout, CheckoutLauncher
from pytest_tfperf.workers.git_worktree import Checkouts
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import PreparedCommand
from pytest_tfperf.workers.local import LocalLauncher

CPU = Devices(kind=DeviceKind.CPU, count=1)


class Sides:
    """A repository, and the launcher of its first commit."""

    def __init__(self, project: Project) -> None:
        self.here = project.folder.resolve()
        repository = Repository(project)
        project.write(".gitignore", ".tfperf/\ndata/\n")
        self.there = Checkouts(self.here, self.here / ".tfperf" / "checkouts").get(repository.git("rev-parse", "HEAD"))
        self.checkout = Checkout(repository=self.here, folder=self.there.resolve(), name="main (1a2b)")
        self._run_by(sys.executable)

    def use(self, python: str) -> None:
        """Let this Python run the first commit."""
        self.close()
        self._run_by(python)

    def _run_by(self, python: str) -> None:
        self.interpreter = Interpreter(python, self.checkout.moved)
        logs = self.here / ".tfperf" / "logs"
        self._local = LocalLauncher(logs=logs, silence_seconds=1, interpreter=self.interpreter)
        self._launcher = CheckoutLauncher(
            self._local, self.interpreter, self.checkout, may_be_same=python != sys.executable
        )

    def prepared(
        self, *argv: str, program: str = sys.executable, folder: Path | None = None, **environment: str
    ) -> PreparedCommand:
        command = Command.of(
            [program, *argv],
            name="it",
            unit="examples/s",
            folder=str(self.here if folder is None else folder),
            environment=environment,
        )
        return self._launcher.prepare_command(command, CPU, 1)

    def close(self) -> None:
        self._local.close()


@pytest.fixture
def sides(project: Project) -> Iterator[Sides]:
    made = Sides(project)
    yield made
    made.close()


def test_relative_paths_begin_in_the_checkout(sides: Sides) -> None:
    prepared = sides.prepared("loop.py", "--config=cost.py")
    assert (prepared.argv[1:], prepared.folder) == (["loop.py", "--config=cost.py"], sides.there)


def test_absolute_paths_of_the_repository_lead_into_the_checkout(sides: Sides) -> None:
    prepared = sides.prepared(str(sides.here / "loop.py"), f"--config={sides.here / 'cost.py'}")
    assert prepared.argv[1:] == [str(sides.there / "loop.py"), f"--config={sides.there / 'cost.py'}"]


def test_from_elsewhere_a_relative_path_is_made_absolute(sides: Sides) -> None:
    prepared = sides.prepared(f"{sides.here.name}/loop.py", folder=sides.here.parent)
    assert prepared.argv[1:] == [str(sides.there / "loop.py")]


def test_variables_of_the_command_lead_there_too(sides: Sides) -> None:
    prepared = sides.prepared("loop.py", CONFIG=str(sides.here / "cost.py"), TEXT="cost.py")
    assert (prepared.environment["CONFIG"], prepared.environment["TEXT"]) == (str(sides.there / "cost.py"), "cost.py")


def test_data_that_git_ignores_are_those_of_the_repository(sides: Sides) -> None:
    (sides.here / "data").mkdir()
    (sides.here / "data" / "tokens").touch()
    assert sides.prepared("loop.py", "data/tokens").argv[2] == str(sides.here / "data" / "tokens")


@pytest.mark.parametrize("argument", ["new.py", "./new.py", "--config=new.py", "{here}/new.py", "new/inside.py"])
def test_a_path_that_the_checkout_lacks_is_new(sides: Sides, argument: str) -> None:
    (sides.here / "new").mkdir()
    for name in ("new.py", "new/inside.py"):
        (sides.here / name).touch()
    with pytest.raises(NotCompared, match=r"NEW: main \(1a2b\) has no new"):
        sides.prepared("loop.py", argument.format(here=sides.here))


def test_a_word_that_is_also_a_new_folder_is_no_path(sides: Sides) -> None:
    (sides.here / "train").mkdir()
    assert sides.prepared("loop.py", "train").argv[2] == "train"


def test_a_folder_that_the_checkout_lacks_is_new(sides: Sides) -> None:
    (sides.here / "new").mkdir()
    with pytest.raises(NotCompared, match="has no folder new"):
        sides.prepared("-c", "pass", folder=sides.here / "new")


def test_a_command_without_anything_of_the_repository_would_be_the_same_twice(sides: Sides, tmp_path: Path) -> None:
    with pytest.raises(NotCompared, match="nothing of this repository is in it"):
        sides.prepared("-c", "pass", folder=tmp_path / "elsewhere")


def test_a_path_that_both_sides_only_write_is_nothing_of_the_repository(sides: Sides, tmp_path: Path) -> None:
    with pytest.raises(NotCompared, match="nothing of this repository is in it"):
        sides.prepared("-c", "pass", f"--out={sides.here}/out", folder=tmp_path / "elsewhere")


# Paths with something before or behind them


def test_each_path_of_a_list_leads_there(sides: Sides) -> None:
    path = sides.prepared("loop.py", PYTHONPATH=f"{sides.here}/perf_tests:{sides.here}:/usr/lib:")
    assert path.environment["PYTHONPATH"] == f"{sides.there}/perf_tests:{sides.there}:/usr/lib:"


@pytest.mark.parametrize("before", ["config=", "+data.config=", "file://", "/usr:", "--mount=type=bind,src="])
def test_a_path_with_a_key_before_it_leads_there(sides: Sides, before: str) -> None:
    assert sides.prepared("loop.py", f"{before}{sides.here}/cost.py").argv[2] == f"{before}{sides.there}/cost.py"


def test_a_path_that_the_program_will_write_leads_there(sides: Sides) -> None:
    assert sides.prepared("loop.py", f"--out={sides.here}/out").argv[2] == f"--out={sides.there}/out"


@pytest.mark.parametrize(
    "word",
    [
        "cd {here} && python loop.py",
        "cd '{here}/perf_tests'; pytest",
        "-I{here}/perf_tests",
        "--configs={here}/cost.py,{here}/loop.py",
        "open('{link}/cost.py')",
    ],
)
def test_a_path_inside_of_other_text_is_refused_because_it_leads_to_the_current_code(
    sides: Sides, tmp_path: Path, word: str
) -> None:
    link = tmp_path / "link"
    link.symlink_to(sides.here)
    with pytest.raises(TfperfError, match=r"it: argument 2 has /.* inside of other text, so both sides would run the "):
        sides.prepared("-c", word.format(here=sides.here, link=link), program="bash")


def test_a_variable_with_a_path_inside_of_other_text_is_named(sides: Sides) -> None:
    with pytest.raises(TfperfError, match=r"it: the variable FLAGS has .*/cost\.py inside of other text"):
        sides.prepared("loop.py", FLAGS=f"--config={sides.here}/cost.py --fast")


@pytest.mark.parametrize(
    "word",
    [
        "cat {here}/data/tokens | wc",
        "cp {here}-of-another/cost.py .",
        "my{here}/cost.py",
        "cd /usr && ls",
        "./loop.py -x",
    ],
)
def test_text_without_a_path_to_the_current_code_stays_as_it_is(sides: Sides, word: str) -> None:
    text = word.format(here=sides.here)
    assert sides.prepared("-c", text, program="bash").argv[2] == text


def test_a_program_that_path_finds_in_the_repository_is_refused(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    (sides.here / "perf_tests" / "train").touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{sides.here}/perf_tests", prepend=":")
    with pytest.raises(
        TfperfError, match=r"it: PATH finds train at .*/train, so both sides would run the current code"
    ):
        sides.prepared("loop.py", program="train")


# Packages that were installed from the repository


def install(packages: Path, sides: Sides) -> None:
    """A copy of `cost` among packages, as `pip install .` leaves it."""
    info = packages / "cost-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cost\nVersion: 1.0\n")
    (info / "top_level.txt").write_text("cost\n")
    (info / "direct_url.json").write_text(f'{{"url": "{sides.here.as_uri()}", "dir_info": {{}}}}')
    (packages / "cost.py").write_text("COST = 1\n")


@pytest.fixture
def other_packages(sides: Sides, tmp_path: Path) -> Path:
    """Those of a Python of the base's own, with a copy of `cost`: its lock had a line "."."""
    folder = tmp_path / "environment"
    venv.create(folder)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    install(packages, sides)
    sides.use(str(folder / "bin" / "python"))
    return packages


def test_a_copy_in_the_bases_own_environment_is_refused(sides: Sides, other_packages: Path) -> None:
    with pytest.raises(TfperfError, match=r"cost comes from .*, and not from .*: the package cost was installed from"):
        sides.prepared("-c", "import cost", folder=sides.here / "perf_tests")
    assert (other_packages / "cost.py").exists()


class Played:
    """Starts workers that have loaded these modules."""

    prepare_command: Any = None

    def __init__(self, **modules: str) -> None:
        self._modules = modules

    def start(self, *_: object) -> Any:
        return SimpleNamespace(modules=self._modules, close=lambda: None)


def test_a_worker_that_loads_a_copy_in_the_bases_own_environment_is_refused(sides: Sides, other_packages: Path) -> None:
    played = Played(cost=f"{other_packages}/cost.py", loop=f"{sides.there}/loop.py")
    launcher = CheckoutLauncher(played, sides.interpreter, sides.checkout, may_be_same=True)
    job = Job(workload=Workload(model="trivial", batch_size=1), devices=CPU)
    with pytest.raises(TfperfError, match="the package cost was installed from this repository"):
        launcher.start(job, lambda _: None)


@pytest.fixture
def with_copy(sides: Sides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sides:
    """This Python has a copy of `cost`, which stands behind the checkout's."""
    packages = tmp_path / "site-packages"
    install(packages, sides)
    monkeypatch.syspath_prepend(packages)
    return sides


def customized(folder: Path, text: str) -> str:
    """PYTHONPATH with a `sitecustomize`, which every Python runs first."""
    (folder / "sitecustomize.py").write_text(text)
    return str(folder)


def test_a_python_that_does_not_start_is_an_error_with_its_output(with_copy: Sides) -> None:
    with pytest.raises(
        TfperfError, match="so nothing proves that two sides are compared: it ended with status"
    ) as said:
        with_copy.prepared("loop.py", PYTHONHOME="/no/such/folder")
    assert "encodings" in str(said.value)


def test_a_sitecustomize_may_print(with_copy: Sides, tmp_path: Path) -> None:
    path = customized(tmp_path, "print('hello')")
    assert with_copy.prepared("loop.py", PYTHONPATH=path).environment["PYTHONPATH"] == path


def test_a_python_that_prints_something_else_is_an_error(with_copy: Sides, tmp_path: Path) -> None:
    path = customized(tmp_path, "import atexit; atexit.register(print, 'bye')")
    with pytest.raises(TfperfError, match=r"it printed something else(.|\n)*bye"):
        with_copy.prepared("loop.py", PYTHONPATH=path)


def test_a_python_that_hangs_is_an_error(with_copy: Sides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_copy.prepared("loop.py")  # what is asked once is known
    monkeypatch.setattr(repository_packages, "IMPORT_SECONDS", 0.1)
    path = customized(tmp_path, "import time; time.sleep(600)")
    with pytest.raises(TfperfError, match=r"it did not end within 0\.1 s"):
        with_copy.prepared("loop.py", PYTHONPATH=path)
