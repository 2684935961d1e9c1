"""Each side of a comparison runs its own code in projects as they often are set up; real programs, real Pythons."""

from __future__ import annotations

import os
import subprocess
import time
import venv
from pathlib import Path

import pytest

from tests.helpers.sides import USES_COST, Sides, script


def test_each_side_reads_its_own_code(sides: Sides) -> None:
    assert sides.run("-c", USES_COST).split() == [str(sides.there / "cost.py"), "0.01"]
    assert sides.run("-c", USES_COST, of=sides.current).split() == [str(sides.here / "cost.py"), "0.02"]


def test_modules_that_were_compiled_before_are_proved_too(sides: Sides) -> None:
    for end in ("", ";"):  # another program, which is not proved yet
        assert sides.run("-c", USES_COST + end).split()[1] == "0.01"


def test_a_folder_for_compiled_modules_hides_nothing(sides: Sides, tmp_path: Path) -> None:
    where = {"PYTHONPYCACHEPREFIX": str(tmp_path / "cache")}
    for end in ("", ";"):  # another program, which is not proved yet
        assert sides.run("-c", USES_COST + end, **where).split()[1] == "0.01"


def test_the_folder_that_a_program_is_told_is_the_one_where_it_runs(sides: Sides) -> None:
    reads = "import os; print(open(os.environ['PWD'] + '/cost.py').read())"
    assert sides.run("-c", reads) == "COST = 0.01\n\n"


@pytest.mark.parametrize("flag", ["-s", "-B", "-OO", "-Xutf8"])
def test_flags_of_python_that_hide_nothing_are_fine(sides: Sides, flag: str) -> None:
    assert sides.run(flag, "-c", USES_COST).split()[1] == "0.01"


def test_processes_that_a_program_starts_and_forks_are_proved(sides: Sides) -> None:
    child = "import os, runpy; os.fork() or runpy.run_path('cost.py'); import subprocess, sys; "
    child += f"subprocess.run([sys.executable, '-c', {USES_COST!r}])"
    assert "0.01" in sides.run("-c", child)


def test_a_script_of_a_shell_is_of_its_side(sides: Sides) -> None:
    script(sides.here, "sleep 0.3; cat cost.py", "loop.sh")
    sides.repository.git("add", "loop.sh")
    assert sides.run("./loop.sh", program="bash", of=sides.current) == "COST = 0.02\n"


def test_a_script_that_another_program_starts_is_proof_enough(sides: Sides) -> None:
    text = "sleep 0.3; read line < cost.py; echo $line"
    (sides.there / "loop.pl").write_text(f"exec 'bash', '-c', '{text}', 'cost.py'")
    assert sides.run("-c", "perl loop.pl & wait", program="bash") == "COST = 0.01\n"


def test_what_a_command_has_built_where_it_runs_is_its_sides_own(sides: Sides) -> None:
    builds = "mkdir -p build && cp /bin/sleep build/train && exec build/train 0.3"
    for side in (sides.base, sides.current):
        assert sides.run("-c", builds, program="bash", of=side) == ""


@pytest.mark.parametrize("value", ["{here}", "/usr/lib:{here}", "--root={here} -v", "-I{here}"])
def test_exported_variables_lead_each_side_to_its_own_code(
    sides: Sides, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROJECT", value.format(here=sides.here))
    for side, folder in ((sides.base, sides.there), (sides.current, sides.here)):
        said = sides.run("-c", "import cost, os; print(os.environ['PROJECT'], cost.COST)", of=side)
        assert said.rpartition(" ")[0] == value.format(here=folder)


def test_exported_variables_lead_both_sides_to_the_same_data_and_the_same_home(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"DATA": f"{sides.here}/data", "HOME": str(sides.here), "NEW": f"{sides.here}/new"}
    for folder in ("data", "new"):
        (sides.here / folder).mkdir()
    (sides.there / "data").mkdir()  # a program of the base has made it
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    said = sides.run("-c", f"import cost, os; print(*(os.environ[name] for name in {list(values)}))")
    assert said.split() == list(values.values())


def test_a_file_that_only_an_argument_names_is_proof_enough_of_a_program_that_is_not_python(sides: Sides) -> None:
    assert sides.run("cost.py", program="cat") == "COST = 0.01\n"


def test_a_sitecustomize_of_the_users_still_runs(sides: Sides, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('of the user')\n")
    assert sides.run("-c", USES_COST, PYTHONPATH=str(tmp_path)).split("\n")[0] == "of the user"


def test_a_python_that_has_loaded_something_odd_runs_as_without_the_hook(sides: Sides, tmp_path: Path) -> None:
    venv.create(tmp_path / "environment")
    (packages,) = (tmp_path / "environment" / "lib").glob("python*/site-packages")
    (packages / "odd.pth").write_text("import sys; sys.modules['odd'] = {}\n")
    printed = sides.run("-c", USES_COST, program=str(tmp_path / "environment" / "bin" / "python"))
    assert printed == f"{sides.there}/cost.py 0.01\n"


def test_a_python_of_an_environment_in_the_repository_runs_each_sides_own_code(sides: Sides) -> None:
    venv.create(sides.here / ".venv")
    for side, cost in ((sides.base, "0.01"), (sides.current, "0.02")):
        assert sides.run("-c", USES_COST, program=".venv/bin/python", of=side).split()[1] == cost


def test_a_process_that_is_forked_and_has_not_yet_become_the_program_need_not_report(sides: Sides) -> None:
    prepared = sides.prepared("-c", USES_COST)
    with prepared.proof(os.getpid()):
        command = prepared.command
        subprocess.run(command.words, cwd=command.cwd, env=dict(command.env), check=True, preexec_fn=_wait)


def _wait() -> None:
    time.sleep(0.5)


def test_a_process_that_a_program_forks_below_its_python_need_not_report(sides: Sides) -> None:
    forks = "import cost, ctypes, os, time; pid = ctypes.CDLL(None).fork(); time.sleep(0.5 - 0.1 * bool(pid))"
    sides.run("-c", forks)


def test_installed_packages_of_an_environment_in_the_repository_stay_on_the_import_path(sides: Sides) -> None:
    venv.create(sides.here / ".venv")
    (packages,) = (sides.here / ".venv" / "lib").glob("python*/site-packages")
    (packages / "installed.py").touch()
    assert sides.run("-c", f"import installed; {USES_COST}", program=".venv/bin/python").split()[1] == "0.01"
