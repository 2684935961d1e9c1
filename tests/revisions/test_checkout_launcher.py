"""A command of another checkout: which paths lead there, which stay, and what it lacks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pytest_tfperf.core.command import Command
from pytest_tfperf.errors import NotCompared, TfperfError
from pytest_tfperf.revisions.checkout import Checkout
from pytest_tfperf.revisions.checkout_launcher import CheckoutLauncher
from pytest_tfperf.workers.local import LocalLauncher
from tests.helpers.inner import Project
from tests.helpers.sides import CPU, Sides


@pytest.fixture
def sides(project: Project) -> Iterator[Sides]:
    made = Sides(project)
    yield made
    made.close()


def test_relative_paths_begin_in_the_checkout(sides: Sides) -> None:
    prepared = sides.prepared("loop.py", "--config=cost.py")
    assert (prepared.command.words[1:], prepared.command.cwd) == (("loop.py", "--config=cost.py"), sides.there)


def test_absolute_paths_of_the_repository_lead_into_the_checkout(sides: Sides) -> None:
    prepared = sides.prepared(str(sides.here / "loop.py"), f"--config={sides.here / 'cost.py'}")
    assert prepared.command.words[1:] == (str(sides.there / "loop.py"), f"--config={sides.there / 'cost.py'}")


def test_from_elsewhere_a_relative_path_is_made_absolute(sides: Sides) -> None:
    prepared = sides.prepared(f"{sides.here.name}/loop.py", folder=sides.here.parent)
    assert prepared.command.words[1:] == (str(sides.there / "loop.py"),)


def test_variables_of_the_command_lead_there_too(sides: Sides) -> None:
    prepared = sides.prepared("loop.py", CONFIG=str(sides.here / "cost.py"), TEXT="cost.py")
    env = prepared.command.env
    assert (env["CONFIG"], env["TEXT"]) == (str(sides.there / "cost.py"), "cost.py")


def test_data_that_git_ignores_are_those_of_the_repository(sides: Sides) -> None:
    (sides.here / "data").mkdir()
    (sides.here / "data" / "tokens").touch()
    assert sides.prepared("loop.py", "data/tokens").command.words[2] == str(sides.here / "data" / "tokens")


@pytest.mark.parametrize("argument", ["new.py", "./new.py", "--config=new.py", "{here}/new.py", "new/inside.py"])
def test_a_path_that_the_checkout_lacks_is_new(sides: Sides, argument: str) -> None:
    (sides.here / "new").mkdir()
    for name in ("new.py", "new/inside.py"):
        (sides.here / name).touch()
    with pytest.raises(NotCompared, match=r"NEW: main \(1a2b\) has no new"):
        sides.prepared("loop.py", argument.format(here=sides.here))


def test_a_word_that_is_also_a_new_folder_is_no_path(sides: Sides) -> None:
    (sides.here / "train").mkdir()
    assert sides.prepared("loop.py", "train").command.words[2] == "train"


def test_a_folder_that_the_checkout_lacks_is_new(sides: Sides) -> None:
    (sides.here / "new").mkdir()
    with pytest.raises(NotCompared, match="has no folder new"):
        sides.prepared("-c", "pass", folder=sides.here / "new")


def test_without_git_what_the_other_folder_lacks_is_taken_from_this_one(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "train.py").touch()
    (old / "data").touch()
    checkout = Checkout(repository=old, folder=new, name="old")
    command = Command([sys.executable, "train.py", f"{old}/data"], name="it", unit="images/s", cwd=str(old))
    interpreter = checkout.interpreter("/other/python")
    with closing(LocalLauncher(logs=tmp_path, silence_seconds=9, interpreter=interpreter)) as local:
        launcher = CheckoutLauncher(local, checkout)
        prepared = launcher.prepare_command(command, CPU, 1).command
    assert (prepared.words, prepared.cwd) == (("/other/python", "train.py", f"{old}/data"), new)


@pytest.mark.parametrize("word", ["print(1)\n" * 100, "/" + "x" * 300, "--text=/" + "x" * 300])
def test_an_argument_that_is_no_file_stays_as_it_is(sides: Sides, word: str) -> None:
    assert sides.prepared("-c", word).command.words[1:] == ("-c", word)


# Paths with something before or behind them


def test_each_path_of_a_list_leads_there(sides: Sides) -> None:
    path = sides.prepared("loop.py", PYTHONPATH=f"{sides.here}/perf_tests:{sides.here}:/usr/lib:")
    assert path.command.env["PYTHONPATH"].endswith(f":{sides.there}/perf_tests:{sides.there}:/usr/lib:")


@pytest.mark.parametrize("before", ["config=", "+data.config=", "file://", "/usr:", "--mount=type=bind,src="])
def test_a_path_with_a_key_before_it_leads_there(sides: Sides, before: str) -> None:
    assert (
        sides.prepared("loop.py", f"{before}{sides.here}/cost.py").command.words[2] == f"{before}{sides.there}/cost.py"
    )


def test_a_path_that_the_program_will_write_leads_there(sides: Sides) -> None:
    assert sides.prepared("loop.py", f"--out={sides.here}/out").command.words[2] == f"--out={sides.there}/out"


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
    assert sides.prepared("-c", text, program="bash").command.words[2] == text


def test_a_program_on_several_nodes_is_refused_because_nothing_tells_what_it_reads(sides: Sides) -> None:
    command = Command([sys.executable, "loop.py"], name="it", cwd=str(sides.here))
    with pytest.raises(TfperfError, match=r"it: nothing tells which files a program reads on several nodes.*one node"):
        sides.base.prepare_command(command, CPU, 2)
