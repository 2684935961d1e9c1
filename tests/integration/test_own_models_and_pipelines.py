"""Users' own models and input pipelines, by "module:function" and by name, on one device and on two."""

from __future__ import annotations

import pytest
from inner import Finished, Project

from pytest_tfperf.core import catalogue

CONFTEST = """
    def pytest_tfperf_models():
        return {"small-net": "nets:tiny"}

    def pytest_tfperf_pipelines():
        return {"own-noise": "nets:synthetic"}
"""

TESTS = """
    import pytest
    from pytest_tfperf import Workload

    @pytest.mark.cpu
    @pytest.mark.parametrize(
        ("model", "input_pipeline", "devices"),
        [
            ("nets:tiny", "nets:synthetic", 1),
            ("nets:tiny", "nets:paced", 2),
            ("small-net", "own-noise", 1),
            ("trivial", "device", 1),
        ],
    )
    def test_it(throughput, gpu_topology, model, input_pipeline, devices):
        workload = Workload(model=model, batch_size=4, input_pipeline=input_pipeline)
        measured = throughput.measure(workload, on=gpu_topology.take(devices))
        assert measured.images_per_step == 4 * devices

    def test_the_fixture_gives_the_option(input_pipeline):
        assert input_pipeline == "own-noise"
"""


@pytest.fixture(scope="module")
def finished(shared: Project) -> Finished:
    shared.write("conftest.py", CONFTEST)
    shared.write("test_it.py", TESTS)
    return shared.run("--tfperf-input-pipeline=own-noise")


@pytest.mark.parametrize(
    "name",
    [
        "test_it[nets:tiny-nets:synthetic-1]",
        "test_it[nets:tiny-nets:paced-2]",
        "test_it[small-net-own-noise-1]",
        "test_it[trivial-device-1]",
        "test_the_fixture_gives_the_option",
    ],
)
def test_they_train_like_ours(finished: Finished, name: str) -> None:
    assert finished.cases[name].kind == "passed"


def test_a_session_in_which_all_is_well_exits_with_0(finished: Finished) -> None:
    assert finished.status == 0


@pytest.mark.parametrize("name", ["small-net-b4-replicated-own-noise", "nets:tiny-b4-replicated-nets:synthetic"])
def test_the_table_shows_their_names(finished: Finished, name: str) -> None:
    assert name in finished.text


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ('{"resnet50": "nets:tiny"}', "'resnet50' is one of pytest-tfperf's own models: give yours another name"),
        ('{"mine": "nets.tiny"}', "'mine' = 'nets.tiny': write the function as 'package.module:function'"),
    ],
)
def test_a_name_that_can_not_be_registered_is_a_usage_error(project: Project, names: str, said: str) -> None:
    project.write("conftest.py", f"def pytest_tfperf_models(): return {names}")
    assert said in project.run().text


def naming(target: str) -> str:
    return f"def pytest_tfperf_models(): return {{'mine': {target!r}}}"


def test_two_conftests_that_give_one_name_to_two_functions_are_a_usage_error(project: Project) -> None:
    project.write("conftest.py", naming("nets:tiny"))
    project.write("sub/conftest.py", naming("nets:nan"))
    said = project.run("sub").text
    assert all(part in said for part in ("'mine' names two models", "'nets:tiny'", "'nets:nan'")), said


def test_a_session_knows_no_names_of_an_earlier_one_in_its_process(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(naming("nets:tiny"))
    pytester.parseconfigure("--collect-only")._ensure_unconfigure()
    assert "mine" not in catalogue.models()


def test_a_session_within_another_leaves_it_its_names(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(naming("nets:tiny"))
    pytester.parseconfigure("--collect-only")
    pytester.makeconftest(naming("nets:nan"))
    pytester.runpytest_inprocess("--collect-only")
    assert catalogue.models()["mine"] == "nets:tiny"
