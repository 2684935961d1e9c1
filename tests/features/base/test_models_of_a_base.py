"""`--tfperf-base` with models: each side trains its own, in real workers."""

from __future__ import annotations

import pytest

from tests.helpers.inner import NOT_MEASURED, Finished, Project
from tests.helpers.repositories import Repository

pytestmark = pytest.mark.slow

TESTS = """
def test_changed(throughput, on):
    throughput.check(tiny(model="models:changed"), on=on, tolerance=0.3)

def test_new(throughput, on):
    throughput.check(tiny(model="models:new"), on=on, tolerance=0.3)

def test_shipped(throughput, on):
    throughput.check(tiny(model="trivial"), on=on, tolerance=0.3)
"""

# Each step of the base waits, which no load of the machine hides.
MODELS = """
import nets
def changed():
    return nets._dense(nets.EachStep(lambda: nets.time.sleep({seconds})))
"""
NEW = """
def new():
    return nets.tiny()
"""


@pytest.fixture(scope="module")
def session(shared: Project) -> Finished:
    """The base waits 0.2 s in each step; the branch does not, and has another model."""
    shared.write("models.py", MODELS.format(seconds=0.2))
    repository = Repository(shared, TESTS)
    repository.git("switch", "--quiet", "--create", "faster")
    shared.write("models.py", MODELS.format(seconds=0) + NEW)
    repository.commit("faster")
    return shared.run("perf_tests", "--tfperf-base=main", "-o", "tfperf_steps=4", "-o", "pythonpath=.")


def test_each_side_trains_the_model_of_its_commit(session: Finished) -> None:
    assert dict(session.cases["test_changed"].properties)["tfperf_outcome"] == "IMPROVED", session.text


def test_a_model_that_the_base_lacks_is_new(session: Finished) -> None:
    assert session.kinds["test_new"] == "passed", session.text
    assert "test_new: measured, not compared: NEW: model 'models:new': 'models' has no function 'new'" in session.text


def test_a_model_that_both_sides_take_from_the_same_package_is_not_compared(session: Finished) -> None:
    assert "test_shipped: measured, not compared: nothing of this repository is in it" in session.text


# What `pip install -e` of a project without a src/ folder puts among the packages.
FINDER = """
import importlib.util, sys
class Editable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "layers":
            return importlib.util.spec_from_file_location(name, {file!r})
sys.meta_path.append(Editable)
"""


def test_an_editable_install_that_gives_the_current_code_to_both_sides_is_refused(project: Project) -> None:
    project.write("lib/layers.py", "SECONDS = 0\n")
    project.write("models.py", "import layers\n" + MODELS.format(seconds="layers.SECONDS"))
    Repository(project, TESTS.partition("def test_new")[0])
    packages = project.folder.parent / "packages"
    packages.mkdir()
    (packages / "sitecustomize.py").write_text(FINDER.format(file=str(project.folder / "lib" / "layers.py")))
    session = project.run(
        "perf_tests", "--tfperf-base=main", "-o", "tfperf_steps=4", "-o", "pythonpath=.", PYTHONPATH=str(packages)
    )
    assert (session.kinds, session.status) == ({"test_changed": "error"}, NOT_MEASURED), session.text
    assert "layers comes from" in session.text
    assert "Let the import path decide on both sides: PYTHONPATH=lib pytest ..." in session.text
