"""Two sides of a comparison that would be one are refused, whatever leads them there; real programs, real Pythons."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_tfperf.core.job import Job
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import NotCompared, TfperfError
from pytest_tfperf.revisions.checkout_launcher import CheckoutLauncher
from tests.helpers.repositories import git
from tests.helpers.sides import CPU, SLOW, USES_COST, Sides, script

SAME = "both sides would run the same code"


# Ways that lead both sides to one


@pytest.fixture
def other_python(tmp_path: Path) -> Path:
    """Another Python, as the user's programs may have one."""
    folder = tmp_path / "environment"
    venv.create(folder)
    return folder / "bin" / "python"


def packages_of(python: Path) -> Path:
    (packages,) = (python.parents[1] / "lib").glob("python*/site-packages")
    return packages


def test_another_python_with_an_editable_install_runs_each_sides_own_code(sides: Sides, other_python: Path) -> None:
    (packages_of(other_python) / "_cost.pth").write_text(f"{sides.here}\n")
    elsewhere = sides.here / "perf_tests"
    for side, cost in ((sides.base, "0.01"), (sides.current, "0.02")):
        said = sides.run("-c", USES_COST, program=str(other_python), folder=elsewhere, of=side)
        assert said.split()[1] == cost


def console_script(python: Path, text: str) -> str:
    path = python.parent / "train"
    path.write_text(f"#!{python}\n{text}\n")
    path.chmod(0o755)
    return str(path.parent)


def test_a_console_script_of_an_editable_install_runs_each_sides_own_code(
    sides: Sides, other_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (packages_of(other_python) / "_cost.pth").write_text(f"{sides.here}\n")
    monkeypatch.setenv("PATH", console_script(other_python, USES_COST), prepend=":")
    assert sides.run(program="train", folder=sides.here / "perf_tests").split()[1] == "0.01"


FINDER = """
import importlib.util, sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "cost":
            return importlib.util.spec_from_file_location(name, {file!r})
sys.meta_path.insert(0, Finder)
"""


def test_an_editable_install_by_a_finder_is_refused_with_the_import_path_that_mends_it(
    sides: Sides, other_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sides.here / ".venv").mkdir()
    (sides.here / ".venv" / "pyvenv.cfg").touch()
    monkeypatch.setenv("VIRTUAL_ENV", f"{sides.here}/.venv")  # it leads to packages, and not to the code
    monkeypatch.setenv("TFPERF_OF_OURS", str(sides.there))
    (packages_of(other_python) / "_finder.py").write_text(FINDER.format(file=str(sides.here / "cost.py")))
    (packages_of(other_python) / "_finder.pth").write_text("import _finder\n")
    with pytest.raises(TfperfError, match=rf"{SAME}: at main \(1a2b\) it read .*/cost\.py.* PYTHONPATH=\. pytest"):
        sides.run("-c", USES_COST, program=str(other_python))


def test_an_editable_namespace_is_refused_with_the_import_path_that_mends_it(sides: Sides, other_python: Path) -> None:
    (sides.here / "src" / "acme").mkdir(parents=True)
    file = sides.here / "src" / "acme" / "speed.py"
    file.touch()
    (packages_of(other_python) / "_finder.py").write_text(FINDER.format(file=str(file)))
    (packages_of(other_python) / "_finder.pth").write_text("import _finder\n")
    with pytest.raises(TfperfError, match=rf"{SAME}.*acme/speed\.py.* PYTHONPATH=src pytest"):
        sides.run("-c", "import cost", program=str(other_python), folder=sides.here / "perf_tests")


def test_a_home_that_holds_the_repository_is_refused_and_named(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(sides.here))
    reads = f"import os, sys; sys.path.insert(0, os.environ['HOME']); {USES_COST}"
    with pytest.raises(TfperfError, match=rf"{SAME}.*HOME in its environment may lead there.*env={{'HOME'"):
        sides.run("-c", reads)
    assert sides.run("-c", reads, HOME=str(sides.here)).split()[1] == "0.01"


def test_a_link_that_leads_to_the_current_code_is_refused_and_named(sides: Sides) -> None:
    link = sides.there / "linked.py"
    link.symlink_to(sides.here / "cost.py")
    with pytest.raises(TfperfError, match=rf"{SAME}.*The link .*/linked\.py leads there: commit a relative one"):
        sides.run("-c", "import linked")


def test_a_script_elsewhere_that_goes_to_the_repository_is_refused(sides: Sides, tmp_path: Path) -> None:
    elsewhere = script(tmp_path, f'cd {sides.here} && {sys.executable} -c "{USES_COST}"')
    with pytest.raises(TfperfError, match=SAME):
        sides.run(program=elsewhere)


def test_a_compiled_program_of_the_repository_is_refused(sides: Sides, tmp_path: Path) -> None:
    program = sides.here / "train"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    with pytest.raises(TfperfError, match=rf"{SAME}.*/train"):
        sides.run("0.3", program=script(tmp_path, f"{program} 0.3"))


def test_data_that_git_ignores_may_be_read_by_both_sides(sides: Sides) -> None:
    (sides.here / "data").mkdir()
    (sides.here / "data" / "tokens").write_text("1 2 3")
    reads = f"import sys; {USES_COST}; print(open(sys.argv[1]).read())"
    assert sides.run("-c", reads, "data/tokens").split("\n")[1] == "1 2 3"


def test_the_current_side_may_not_read_the_bases_code(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(sides.there))
    with pytest.raises(TfperfError, match=rf"{SAME}: at this checkout it read .*/cost\.py"):
        sides.run("-c", USES_COST, of=sides.current, folder=sides.here / "perf_tests")


def test_a_python_that_becomes_one_of_which_nothing_is_known_leaves_doubt(sides: Sides) -> None:
    becomes = f"import cost, os, sys; os.execv(sys.executable, [sys.executable, '-I', '-c', {SLOW!r}])"
    assert "nothing tells which files this process reads: " in (doubt := sides.doubt("-c", becomes))
    assert "-I -c import time" in doubt


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_program_that_becomes_another_user_leaves_doubt(sides: Sides) -> None:
    assert "as the user who runs pytest" in sides.doubt(
        "-c", f"import cost, os; os.setuid(65534); {SLOW}; time.sleep(2)"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_child_that_has_ended_and_is_not_waited_for_leaves_the_doubt(sides: Sides) -> None:
    """Its command line is gone."""
    forks = "import cost, os, time; os.setuid(65534); os.fork() or os._exit(0); time.sleep(0.5)"
    assert "nothing tells which files this process reads: " in sides.doubt("-c", forks)


@pytest.mark.parametrize("argv", [("-c", "pass"), ("-c", "open('out', 'w').write('x')")])
def test_a_program_that_reads_nothing_of_the_repository_is_not_compared(sides: Sides, argv: tuple[str, ...]) -> None:
    with pytest.raises(NotCompared, match="nothing of this repository is in it"):
        sides.run(*argv)


def test_a_program_that_only_reads_data_of_its_side_is_not_compared(sides: Sides) -> None:
    (sides.there / "data").mkdir()
    (sides.there / "data" / "tokens").touch()
    with pytest.raises(NotCompared, match="nothing of this repository is in it"):
        sides.run("-c", "open('data/tokens')")


@pytest.mark.parametrize("mode", ["r", "r+", "a+"])
def test_a_file_that_is_opened_to_be_read_and_written_is_read(sides: Sides, mode: str) -> None:
    assert sides.doubt("-c", f"open('loop.py', {mode!r})") == ""


# Packages that were installed from the repository


def install(packages: Path, url: str, *, said: str = '"dir_info": {}') -> None:
    """A copy of `cost` among packages, as pip leaves it."""
    info = packages / "cost-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cost\nVersion: 1.0\n")
    (info / "top_level.txt").write_text("cost\n")
    (info / "direct_url.json").write_text(f'{{"url": "{url}", {said}}}')
    (packages / "cost.py").write_text("COST = 1\n")


@pytest.mark.parametrize("wheel", [False, True])
def test_a_copy_in_another_python_is_refused(sides: Sides, other_python: Path, wheel: bool) -> None:
    url = sides.here.as_uri() + ("/dist/cost-1.0-py3-none-any.whl" if wheel else "")
    install(packages_of(other_python), url, said='"archive_info": {}' if wheel else '"dir_info": {}')
    sides.use(str(other_python))
    with pytest.raises(TfperfError, match=r"cost comes from .*, and not from .*: the package cost was installed from"):
        sides.run("-c", "import cost", folder=sides.here / "perf_tests")


def test_a_copy_that_came_from_an_index_is_refused(sides: Sides, other_python: Path) -> None:
    (packages_of(other_python) / "cost.py").write_text("COST = 1\n")
    with pytest.raises(TfperfError, match=r"cost comes from .*: an installed copy hides it"):
        sides.run("-c", "import cost", program=str(other_python), folder=sides.here / "perf_tests")


@pytest.mark.parametrize("copied", ["speed/__init__.py", "acme/speed.py", "acme/speed/__init__.py"])
def test_a_copy_of_a_package_or_of_a_part_of_a_namespace_is_refused_with_the_import_path_that_mends_it(
    sides: Sides, other_python: Path, copied: str
) -> None:
    project = sides.there / "packages" / "core"
    for folder in (project / "src", packages_of(other_python)):
        (folder / copied).parent.mkdir(parents=True)
        (folder / copied).touch()
    (project / "pyproject.toml").touch()
    git(sides.there, "add", ".")
    module = copied.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
    with pytest.raises(TfperfError, match=rf"{module} comes from .*hides it.* PYTHONPATH=packages/core/src pytest"):
        sides.run("-c", f"import {module}", program=str(other_python))


def test_another_package_of_a_namespace_is_no_copy(sides: Sides, other_python: Path) -> None:
    for folder, name in ((sides.there, "speed"), (packages_of(other_python), "other")):
        (folder / "acme").mkdir()
        (folder / "acme" / f"{name}.py").touch()
    assert sides.run("-c", f"import acme.speed, acme.other; {USES_COST}", program=str(other_python))


class Played:
    """Starts workers that have loaded these modules."""

    prepare_command: Any = None

    def __init__(self, **modules: str) -> None:
        self._modules = modules

    def start(self, *_: object) -> Any:
        return SimpleNamespace(modules=self._modules, close=lambda: None)


def test_a_worker_that_loads_a_copy_in_the_bases_own_environment_is_refused(sides: Sides, other_python: Path) -> None:
    install(packages_of(other_python), sides.here.as_uri())
    played = Played(cost=f"{packages_of(other_python)}/cost.py", loop=f"{sides.there}/loop.py")
    launcher = CheckoutLauncher(played, sides.checkout, may_be_same=True)
    job = Job(workload=Workload(model="trivial", batch_size=1), devices=CPU)
    with pytest.raises(TfperfError, match="the package cost was installed from this repository"):
        launcher.start(job, lambda _: None)


def test_a_worker_that_loads_the_other_sides_code_is_refused(sides: Sides) -> None:
    launcher = CheckoutLauncher(Played(cost=f"{sides.here}/cost.py", loop=f"{sides.there}/loop.py"), sides.checkout)
    job = Job(workload=Workload(model="trivial", batch_size=1), devices=CPU)
    with pytest.raises(TfperfError, match=rf"{SAME}.*cost comes from .*: an editable install or an import path leads"):
        launcher.start(job, lambda _: None)


def test_an_editable_install_of_the_repository_is_no_copy(sides: Sides, other_python: Path) -> None:
    """A namespace may hold a package of the repository, which is editable, and one from elsewhere."""
    install(packages_of(other_python), sides.here.as_uri(), said='"dir_info": {"editable": true}')
    (packages_of(other_python) / "cost.py").unlink()
    (packages_of(other_python) / "cost-1.0.dist-info" / "top_level.txt").write_text("acme\n")
    (packages_of(other_python) / "acme").mkdir()
    (packages_of(other_python) / "acme" / "other.py").touch()
    assert sides.run("-c", f"import acme.other; {USES_COST}", program=str(other_python)).split()[1] == "0.01"


# Files that git ignores, and that the base lacks


def test_a_build_artefact_that_the_base_lacks_is_refused(sides: Sides) -> None:
    build = sides.here / "build"
    build.mkdir()
    (build / "fast").write_bytes(Path("/bin/true").read_bytes())
    (build / "fast").chmod(0o755)
    runs = f"import os, subprocess; {USES_COST}; os.path.exists('build/fast') and subprocess.run(['build/fast'])"
    sides.run("-c", runs)
    with pytest.raises(TfperfError, match=r"it runs .*/build/fast, which git ignores, and main \(1a2b\) has nothing"):
        sides.run("-c", runs, of=sides.current)


def test_a_generated_module_that_the_base_lacks_is_refused(sides: Sides) -> None:
    (sides.here / "build").mkdir()
    (sides.here / "build" / "fast.py").touch()
    runs = f"import sys; {USES_COST}; sys.path.append('build')\ntry: import fast\nexcept ImportError: pass"
    assert sides.doubt("-c", runs) == ""
    with pytest.raises(
        TfperfError, match=r"it runs .*/build/fast\.py, which git ignores, and main \(1a2b\) has nothing"
    ):
        sides.run("-c", runs, of=sides.current)


def test_a_worker_with_a_generated_module_that_the_base_lacks_is_refused(sides: Sides) -> None:
    (sides.here / "build").mkdir()
    (sides.here / "build" / "fast.py").touch()
    played = Played(cost=f"{sides.here}/cost.py", fast=f"{sides.here}/build/fast.py")
    launcher = CheckoutLauncher(played, replace(sides.checkout, folder=sides.here), lacking=sides.base)
    job = Job(workload=Workload(model="trivial", batch_size=1), devices=CPU)
    with pytest.raises(TfperfError, match=r"main \(1a2b\) has nothing there(?s:.*)Commit it, or remove it here, too\."):
        launcher.start(job, lambda _: None)


def test_other_files_that_the_base_lacks_leave_doubt(sides: Sides) -> None:
    (sides.here / "data").mkdir()
    (sides.here / "data" / "cache").touch()
    reads = f"import os; {USES_COST}; os.path.exists('data/cache') and open('data/cache')"
    assert sides.doubt("-c", reads) == ""
    doubt = sides.doubt("-c", reads, of=sides.current)
    assert "it reads " in doubt
    assert "data/cache, which git ignores, and main (1a2b) has nothing there" in doubt


def test_what_a_program_itself_makes_where_it_runs_leaves_no_doubt(sides: Sides) -> None:
    makes = "import sys, cost, os; os.makedirs('build', exist_ok=True); name = f'fast{cost.COST * 100:.0f}'"
    runs = f"{makes}; open(f'build/{{name}}.py', 'w').close(); sys.path.append('build'); __import__(name)"
    assert [sides.doubt("-c", runs, of=side) for side in (sides.base, sides.current)] == ["", ""]


def test_what_the_base_reads_from_the_users_folder_leaves_no_doubt(sides: Sides) -> None:
    (sides.here / "data").mkdir()
    (sides.here / "data" / "tokens").touch()
    reads = f"import sys; {USES_COST}; open(sys.argv[1])"
    assert [sides.doubt("-c", reads, "data/tokens", of=side) for side in (sides.base, sides.current)] == ["", ""]


def test_the_hook_costs_a_program_no_descriptor_and_no_file(sides: Sides) -> None:
    text = "import os, cost; print(sorted(os.listdir('/proc/self/fd')), [n for n in os.environ if 'TFPERF' in n])"
    plain = subprocess.run([sys.executable, "-c", text], cwd=sides.there, capture_output=True, text=True, check=True)
    assert sides.run("-c", text) == plain.stdout
    assert os.listdir(sides.there / "perf_tests") == ["test_it.py"]  # noqa: PTH208
