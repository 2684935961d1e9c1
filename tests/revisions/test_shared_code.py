"""A file that both sides run, in no commit and not installed, leaves doubt, however it is run; real programs."""

from __future__ import annotations

import py_compile
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.helpers.sides import SLOW, USES_COST, Sides, script

READS = "open('cost.py').read()"


def built(sides: Sides, name: str = "app", text: str = "MADE = 1") -> str:
    """A file that git ignores in the user's own folder."""
    path = sides.here / "build" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{text}\n")
    return str(path)


def zipped(path: Path, module: str) -> str:
    path.parent.mkdir(exist_ok=True)
    with ZipFile(path, "w") as archive:
        archive.writestr(module, READS)
    return str(path)


def a_script(sides: Sides) -> list[str]:
    return [built(sides, text=READS)]


def a_zipapp(sides: Sides) -> list[str]:
    return [zipped(sides.here / "build" / "app", "__main__.py")]


def a_folder(sides: Sides) -> list[str]:
    folder = Path(built(sides)).parent
    (folder / "__main__.py").write_text(READS)
    return [str(folder)]


def a_module_of_a_zip_file(sides: Sides) -> list[str]:
    file = zipped(sides.here / "build" / "lib", "made.py")
    return ["-c", f"import sys; sys.path.insert(0, {file!r}); import made"]


def a_module_by_its_name(sides: Sides) -> list[str]:
    built(sides, "made.py", READS)
    return ["-c", f"import runpy, sys; sys.path.insert(0, {str(sides.here / 'build')!r}); runpy.run_module('made')"]


def a_compiled_module_without_source(sides: Sides) -> list[str]:
    source = Path(built(sides, "made.py", READS))
    py_compile.compile(str(source), cfile=str(source.with_suffix(".pyc")))
    source.unlink()
    return ["-c", f"import sys; sys.path.insert(0, {str(source.parent)!r}); import made"]


def a_script_by_runpy(sides: Sides) -> list[str]:
    return ["-c", f"import runpy; runpy.run_path({built(sides, text=READS)!r})"]


def a_text_by_exec(sides: Sides) -> list[str]:
    return ["-c", f"exec(open({built(sides, text=READS)!r}).read())"]


def a_loader_of_files_without_suffix(sides: Sides) -> list[str]:
    file = built(sides, text=READS)
    return ["-c", f"from importlib.machinery import SourceFileLoader; SourceFileLoader('app', {file!r}).load_module()"]


def the_standard_input(sides: Sides) -> list[str]:
    file = built(sides, text=READS)
    return ["-c", f"{READS}; import subprocess, sys; subprocess.run([sys.executable, '-'], stdin=open({file!r}))"]


def a_process_that_replaces_it(sides: Sides) -> list[str]:
    return ["-c", f"import os, sys; os.execv(sys.executable, [sys.executable, {built(sides, text=READS)!r}])"]


def a_link(sides: Sides) -> list[str]:
    (sides.there / "linked.py").symlink_to(built(sides))
    return ["-c", f"{READS}; import linked"]


def a_subinterpreter(sides: Sides) -> list[str]:
    file = built(sides, "made.py")
    runs = f"import sys; sys.path.insert(0, {str(Path(file).parent)!r}); import made"
    return ["-c", f"{READS}; import _xxsubinterpreters as i; i.run_string(i.create(), {runs!r})"]


def processes(how: str) -> Callable[[Sides], list[str]]:
    def of(sides: Sides) -> list[str]:
        folder = Path(built(sides, "made.py", "def work(): pass")).parent
        text = "from multiprocessing import get_context as g\nif __name__ == '__main__':\n    "
        text += f"import sys; sys.path.insert(0, {str(folder)!r}); import importlib\n    "
        text += f"p = g({how!r}).Process(target=importlib.import_module, args=('made',)); p.start(); p.join()\n"
        (sides.there / "pool.py").write_text(text)
        return ["pool.py"]

    return of


WAYS = [
    a_script,
    a_zipapp,
    a_folder,
    a_module_of_a_zip_file,
    a_module_by_its_name,
    a_compiled_module_without_source,
    a_script_by_runpy,
    a_text_by_exec,
    a_loader_of_files_without_suffix,
    the_standard_input,
    a_process_that_replaces_it,
    a_link,
    pytest.param(
        a_subinterpreter, marks=pytest.mark.skipif(sys.version_info >= (3, 13), reason="the module has another name")
    ),
    *(pytest.param(processes(how), id=how) for how in ("fork", "spawn", "forkserver")),
]


@pytest.mark.parametrize("way", WAYS)
def test_a_file_of_no_commit_that_both_sides_run_leaves_doubt(sides: Sides, way: Callable[[Sides], list[str]]) -> None:
    doubt = sides.doubt(*way(sides))
    assert doubt.startswith(f"it: both sides run {sides.here}/build/"), doubt
    assert "which is in no commit. If it is built from this repository, let the command build it" in doubt


def test_an_import_path_that_leads_to_a_folder_of_no_commit_leaves_doubt(sides: Sides) -> None:
    path = Path(built(sides, "made.py")).parent
    assert "build/made.py, which is in no commit" in sides.doubt(
        "-c", f"{USES_COST}; import made", PYTHONPATH=str(path)
    )


def test_a_path_file_of_another_python_that_leads_to_a_folder_of_no_commit_leaves_doubt(
    sides: Sides, tmp_path: Path
) -> None:
    venv.create(tmp_path / "environment")
    (packages,) = (tmp_path / "environment" / "lib").glob("python*/site-packages")
    (packages / "made.pth").write_text(f"{Path(built(sides, 'made.py')).parent}\nimport made\n")
    doubt = sides.doubt("-c", USES_COST, program=str(tmp_path / "environment" / "bin" / "python"))
    assert "build/made.py, which is in no commit" in doubt


def test_a_shell_script_that_path_finds_in_a_folder_of_no_commit_leaves_doubt(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(Path(built(sides)).parent, f'{sys.executable} -c "{USES_COST}"; sleep 0.3', "train")
    monkeypatch.setenv("PATH", f"{sides.here}/build", prepend=":")
    assert "build/train, which is in no commit" in sides.doubt(program="train")


def test_a_program_that_was_built_outside_of_the_repository_leaves_doubt(sides: Sides, tmp_path: Path) -> None:
    program = tmp_path / "train"
    program.write_bytes(Path("/bin/sleep").read_bytes())
    program.chmod(0o755)
    for argv in (["-c", f"import cost, subprocess; subprocess.run([{str(program)!r}, '0'])"], ["-c", f"{program} 0.3"]):
        doubt = sides.doubt(*argv, program=sys.executable if "import" in argv[1] else "bash")
        assert f"both sides run {program}, which is in no commit" in doubt


@pytest.mark.parametrize(
    "make",
    [lambda path: path.write_text(USES_COST), lambda path: zipped(path, "__main__.py")],
    ids=["script", "archive"],
)
def test_a_script_or_an_archive_outside_of_the_repository_leaves_doubt(
    sides: Sides, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "app")
    doubt = sides.doubt(str(tmp_path / "app"), PYTHONPATH=str(sides.here))
    assert f"both sides run {tmp_path}/app, which is in no commit" in doubt


def test_installed_programs_and_packages_leave_no_doubt(sides: Sides) -> None:
    runs = "import cost, subprocess; subprocess.run(['git', 'version']); subprocess.run(['/bin/sleep', '0.1'])"
    assert sides.doubt("-c", f"{runs}; import pytest, numpy") == ""


def test_a_module_of_the_standard_library_that_runs_a_script_leaves_no_doubt(sides: Sides, tmp_path: Path) -> None:
    # A Python in a home, such as those of pyenv and uv, is no less installed than the system's.
    library = tmp_path / "python" / "lib" / "python3.11"
    library.mkdir(parents=True)
    (library / "profiler.py").write_text(READS)
    assert sides.doubt(str(library / "profiler.py")) == ""
    assert sides.doubt("-m", "timeit", "-n1", READS) == ""


def test_a_program_among_a_runs_own_temporary_files_leaves_no_doubt(sides: Sides) -> None:
    makes = "import cost, shutil, subprocess, tempfile; path = shutil.copy('/bin/sleep', tempfile.mkdtemp())"
    assert sides.doubt("-c", f"{makes}; subprocess.run([path, '0.3'])") == ""


def test_data_of_no_commit_that_are_mapped_into_memory_leave_no_doubt(sides: Sides) -> None:
    maps = "import cost, mmap, time; file = open(path, 'rb'); m = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)"
    assert sides.doubt("-c", f"path = {built(sides, 'tokens.bin')!r}; {maps}; time.sleep(0.5)") == ""


# Programs that are not known completely


def test_a_program_that_reads_nothing_that_the_branch_changes_leaves_no_doubt(sides: Sides) -> None:
    assert sides.doubt("-c", "open('loop.py')") == ""


@pytest.mark.parametrize("program", ["cat", "/bin/cat"])
def test_a_program_without_a_python_leaves_doubt(sides: Sides, program: str) -> None:
    assert "nothing tells which files it reads: it runs no Python" in sides.doubt("cost.py", program=program)


@pytest.mark.parametrize("how", ["-I", "-E", "-S"])
def test_a_python_of_which_nothing_is_known_leaves_doubt(sides: Sides, how: str) -> None:
    doubt = sides.doubt(how, "-c", SLOW)
    assert "nothing tells which files this process reads: " in doubt
    assert "Start a Python without -I, -E and -S" in doubt


@pytest.mark.parametrize("shell", ["PYTHONPATH=.", "env -i"])
def test_a_shell_that_replaces_the_import_path_leaves_doubt(sides: Sides, shell: str) -> None:
    doubt = sides.doubt("-c", f"{shell} {sys.executable} -c 'import time; time.sleep(0.5)'; true", program="bash")
    assert "keep PYTHONPATH in its environment, as in PYTHONPATH=$PYTHONPATH:src" in doubt


# It goes on for longer than it has worked: looks at the processes come at ever longer intervals, and a busy machine may
# let it work for many seconds.
WORKS = ["bash", "-c", "for ((i = 0; i < 300000; i++)); do :; done; sleep $((SECONDS + 1)); true"]


def test_a_program_that_works_below_a_python_and_is_none_leaves_doubt(sides: Sides) -> None:
    doubt = sides.doubt("-c", f"import cost, subprocess; subprocess.run({WORKS!r})")
    assert "nothing tells which files it reads: not Python but this process does the work: bash -c for" in doubt


def test_work_of_a_program_that_has_ended_and_is_not_waited_for_still_counts(sides: Sides) -> None:
    ends = f"p = subprocess.Popen({WORKS!r}); os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT); time.sleep(0.5)"
    doubt = sides.doubt("-c", f"import cost, os, subprocess, time; {ends}; p.wait()")
    assert "not Python but this process does the work: bash -c for" in doubt


def test_a_python_that_goes_on_alone_hides_no_other_programs_work(sides: Sides) -> None:
    after = "end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    doubt = sides.doubt("-c", f"import cost, subprocess, time; subprocess.run({WORKS!r})\n{after}")
    assert "not Python but this process does the work: bash -c for" in doubt


def test_a_doubt_stands_for_every_run_of_the_program(sides: Sides) -> None:
    app = built(sides, text=READS)
    assert sides.doubt(app) == sides.doubt(app) != ""
