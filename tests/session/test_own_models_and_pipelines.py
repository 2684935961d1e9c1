"""Users' own models and input pipelines, by "module:function" and by name; both trainers, one device and two."""

from __future__ import annotations

import importlib.util

import pytest

from pytest_tfperf.workers import catalogue
from tests.helpers.inner import ANY_THROUGHPUT, Finished, Project

pytestmark = pytest.mark.slow

CONFTEST = """
    def pytest_tfperf_models():
        return {"small-net": "nets:tiny"}

    def pytest_tfperf_pipelines():
        return {"own-noise": "nets:synthetic"}
"""

TESTS = """
    @pytest.mark.parametrize(
        ("model", "input_pipeline", "devices"),
        [
            ("nets:tiny", "nets:synthetic", 1),
            ("nets:tiny", "nets:paced", 2),
            ("small-net", "own-noise", 1),
            ("trivial", "device", 1),
        ],
    )
    def test_own(throughput, gpu_topology, model, input_pipeline, devices):
        workload = tiny(4, model, input_pipeline=input_pipeline)
        measured = throughput.measure(workload, on=gpu_topology.take(devices))
        assert measured.examples_per_step == 4 * devices

    def test_option(input_pipeline):
        assert input_pipeline == "own-noise"

    @pytest.mark.parametrize(("devices", "input_pipeline"), [(1, "device"), (2, "nets:synthetic")])
    def test_fit(throughput, gpu_topology, devices, input_pipeline):
        found = throughput.check(tiny(trainer="keras", input_pipeline=input_pipeline), on=gpu_topology.take(devices))
        assert (found.steps, found.examples_per_step) == (15, devices)

    @pytest.mark.parametrize(
        ("choices", "unit"),
        [
            ({"model": "nets:compiled"}, "examples"),
            ({"model": "nets:compiled", "unit": "tokens", "tokens_of": "ids", "input_pipeline": "host"}, "tokens"),
            ({"model": "nets:compiled", "trainer": "keras"}, "examples"),
            ({"model": "nets:summing", "trainer": "own"}, "sums"),
            ({"model": "bert-tiny", "unit": "tokens"}, "tokens"),
        ],
    )
    def test_any(throughput, gpu_topology, choices, unit):
        assert throughput.measure(tiny(**choices), on=gpu_topology.take(1)).unit == unit

    def test_several_lengths(throughput, on):
        throughput.measure(tiny(model="nets:compiled", unit="tokens"), on=on)

    def test_labels(throughput, on):
        throughput.measure(tiny(model="nets:compiled", input_pipeline="nets:wrong_labels"), on=on)

    def test_horovod(throughput, on):
        throughput.check(tiny(variable_update="horovod"), on=on)
"""


# Both would be measured under one id, as the model that Python finds first.
HIDES = """
    import pytest
    from pytest_tfperf import Workload

    @pytest.mark.cpu
    def test_{folder}(throughput, gpu_topology):
        throughput.check(Workload(model="samename:make", batch_size=4), on=gpu_topology.take(1))
"""


@pytest.fixture(scope="module")
def finished(shared: Project) -> Finished:
    shared.write("conftest.py", CONFTEST)
    shared.tests(TESTS)
    for folder in ("one", "two"):
        shared.write(f"{folder}/samename.py", "def make(): raise AssertionError('not to be built')")
        shared.write(f"{folder}/test_{folder}.py", HIDES.format(folder=folder))
    for devices, pipeline in ((1, "device"), (2, "nets:synthetic")):
        shared.baseline(f"nets:tiny-b1-replicated-{pipeline}-keras", f"1x{devices}", **ANY_THROUGHPUT)
    return shared.run("--tfperf-input-pipeline=own-noise")


def test_everything_is_trained_and_measured(finished: Finished) -> None:
    elsewhere = ("test_horovod", "test_one", "test_two")
    kinds = {name: kind for name, kind in finished.kinds.items() if name not in elsewhere}
    assert {kinds.pop("test_labels"), kinds.pop("test_several_lengths")} == {"error"}, finished.text
    assert (len(kinds), set(kinds.values())) == (12, {"passed"}), finished.text


def test_each_rate_has_its_unit_where_tests_count_different_things(finished: Finished) -> None:
    assert [unit for unit in ("images/s", "examples/s", "tokens/s", "sums/s") if unit not in finished.text] == []


def test_labels_that_do_not_fit_are_shown_with_what_the_pipeline_gives(finished: Finished) -> None:
    assert "the pipeline gives ({'ids': int32 [1, 6], 'price': float32 [1, 2]}, float32 [1, 7])" in finished.text


def test_tokens_of_inputs_of_several_lengths_say_which_names_there_are(finished: Finished) -> None:
    assert "'ids': int32 [1, 6], 'price': float32 [1, 2]. Name the one that holds the tokens" in finished.text


def test_the_table_shows_the_names(finished: Finished) -> None:
    names = ("small-net-b4-replicated-own-noise", "  tiny-b4-replicated-synthetic  ")
    assert [name for name in names if name not in finished.text] == []


@pytest.mark.skipif(importlib.util.find_spec("horovod") is not None, reason="Horovod is installed")
def test_without_horovod_its_test_is_skipped_with_the_reason(finished: Finished) -> None:
    case = finished.cases["test_horovod"]
    assert (case.kind, "horovod" in case.message) == ("skipped", True), case


def naming(name: str, target: str) -> str:
    return f"def pytest_tfperf_models(): return {{{name!r}: {target!r}}}"


@pytest.mark.parametrize(
    ("name", "target", "said"),
    [
        ("resnet50", "nets:tiny", "'resnet50' is one of pytest-tfperf's own models: give yours another name"),
        ("mine", "nets.tiny", "'mine' = 'nets.tiny': write the function as 'package.module:function'"),
    ],
)
def test_an_invalid_name_is_a_usage_error(pytester: pytest.Pytester, name: str, target: str, said: str) -> None:
    pytester.makeconftest(naming(name, target))
    with pytest.raises(pytest.UsageError) as refused:
        pytester.parseconfigure()
    assert said in str(refused.value)


def test_two_conftests_that_give_one_name_to_two_functions_are_a_usage_error(project: Project) -> None:
    project.write("conftest.py", naming("mine", "nets:tiny"))
    project.write("sub/conftest.py", naming("mine", "nets:nan"))
    said = project.run("sub").text
    assert all(part in said for part in ("'mine' names two models", "'nets:tiny'", "'nets:nan'")), said


def test_names_in_a_folder_that_the_command_line_does_not_name_are_known(project: Project) -> None:
    project.write("speed/conftest.py", naming("mine", "nets:tiny"))
    project.write(
        "speed/test_mine.py",
        """
        import pytest

        from pytest_tfperf import Workload

        @pytest.mark.cpu
        @pytest.mark.parametrize("workload", [Workload(model="mine", batch_size=1)])
        def test_mine(throughput, workload):
            pass
        """,
    )
    finished = project.run("--collect-only")
    assert finished.status == 0, finished.text


@pytest.mark.parametrize(
    ("given", "said"),
    [("{'mine': print}", "write both as texts"), ("['nets:tiny']", "return {'name': 'package.module:function'}")],
    ids=["a function", "a list"],
)
def test_names_that_no_other_process_can_import_are_a_usage_error(
    pytester: pytest.Pytester, given: str, said: str
) -> None:
    pytester.makeconftest(f"def pytest_tfperf_pipelines(): return {given}")
    finished = pytester.runpytest_inprocess("--collect-only")
    assert finished.ret == pytest.ExitCode.USAGE_ERROR
    assert said in finished.stderr.str()


def test_a_session_forgets_its_names_and_leaves_those_of_one_around_it(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(naming("mine", "nets:tiny"))
    pytester.parseconfigure("--collect-only")
    pytester.makeconftest(f"{naming('mine', 'nets:nan')}\ndef pytest_tfperf_pipelines(): return {{'other': 'nets:x'}}")
    pytester.runpytest_inprocess("--collect-only")
    assert catalogue.names("models")["mine"] == "nets:tiny"
    assert "other" not in catalogue.names("pipelines")


def test_a_module_that_hides_the_one_beside_the_test_is_an_error(finished: Finished) -> None:
    assert finished.kinds["test_one"] == "error", finished.text
    assert "and not from" in finished.cases["test_one"].message + finished.cases["test_one"].text
