"""What is announced before the first test: the tests that will run here, whatever deselected the others."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def without_gpus(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    pytester.makeini("[pytest]\ntfperf_machine = box\n")


def test_tests_that_lf_deselects_are_not_announced(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_passed(throughput): pass\ndef test_failed(throughput): assert 'last' == 'time'")
    pytester.runpytest().stdout.fnmatch_lines(["tfperf: box, 2 throughput tests, * never timed here*"])
    pytester.runpytest("--lf", ".").stdout.fnmatch_lines(["tfperf: box, 1 throughput test, * never timed here*"])


READING = """
    import pytest
    from pytest_tfperf import Workload

    pytestmark = pytest.mark.cpu

    def test_by_itself(throughput):
        pass

    @pytest.mark.parametrize("input_pipeline", ["imagenet"], indirect=True)
    def test_by_name(throughput, input_pipeline):
        pass

    @pytest.mark.parametrize("workload", [Workload(model="trivial", batch_size=1, input_pipeline="imagenet-only")])
    def test_by_workload(throughput, workload):
        pass

    def test_by_option(throughput, input_pipeline):
        pass
    """


@pytest.mark.parametrize(("given", "count"), [((), 2), (("--tfperf-data-dir=set",), 4)])
def test_tests_of_real_images_are_announced_where_there_is_a_data_folder(
    pytester: pytest.Pytester, given: tuple[str, ...], count: int
) -> None:
    pytester.makepyfile(test_it=READING)
    pytester.runpytest(*given).stdout.fnmatch_lines([f"tfperf: box, {count} throughput tests, * never timed here*"])
