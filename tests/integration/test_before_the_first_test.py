"""What is announced before the first test is what will run here, whoever deselected the rest."""

from __future__ import annotations

from fnmatch import fnmatch

import pytest


@pytest.fixture(autouse=True)
def without_gpus(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    pytester.makeini("[pytest]\ntfperf_machine = box\n")


def test_what_did_not_fail_last_time_is_not_announced_with_lf(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        def test_passed(throughput):
            pass

        def test_failed(throughput):
            assert "last" == "time"
        """
    )
    pytester.runpytest().stdout.fnmatch_lines(["tfperf: box, 2 throughput tests, about *"])
    pytester.runpytest("--lf", "test_it.py").stdout.fnmatch_lines(["tfperf: box, 1 throughput test, about *"])


def test_tests_for_gpus_are_not_announced_where_there_are_none(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.cpu
        def test_on_cpus(throughput):
            pass

        @pytest.mark.gpu
        def test_on_gpus(throughput):
            pass

        @pytest.mark.cpu
        @pytest.mark.gpu
        def test_on_either(throughput):
            pass
        """
    )
    pytester.runpytest().stdout.fnmatch_lines(["tfperf: box, 2 throughput tests, about *"])


READING = """
    import pytest
    from pytest_tfperf import Workload

    @pytest.mark.cpu
    def test_by_itself(throughput):
        pass

    @pytest.mark.cpu
    @pytest.mark.parametrize("input_pipeline", ["imagenet"], indirect=True)
    def test_by_name(throughput, input_pipeline):
        pass

    @pytest.mark.cpu
    @pytest.mark.parametrize("workload", [Workload(model="trivial", batch_size=1, input_pipeline="imagenet-only")])
    def test_by_workload(throughput, workload):
        pass
    """


@pytest.mark.parametrize(("given", "count"), [((), 1), (("--tfperf-data-dir=set",), 3)])
def test_tests_of_photographs_are_announced_where_there_is_a_folder(
    pytester: pytest.Pytester, given: tuple[str, ...], count: int
) -> None:
    pytester.makepyfile(test_it=READING)
    pytester.runpytest(*given).stdout.fnmatch_lines([f"tfperf: box, {count} throughput test*, about *"])


UNREAD = "tfperf: no selected test that can run here names an input pipeline that reads *set among its parameters*"


def test_a_data_folder_that_nothing_reads_is_said_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=READING)
    said = pytester.runpytest("--tfperf-data-dir=set", "-k", "itself").stdout
    assert len([line for line in said.lines if fnmatch(line, UNREAD)]) == 1


@pytest.mark.parametrize("test", ["by_name", "by_workload"])
def test_of_a_data_folder_that_is_read_nothing_is_said(pytester: pytest.Pytester, test: str) -> None:
    pytester.makepyfile(test_it=READING)
    pytester.runpytest("--tfperf-data-dir=set", "-k", test).stdout.no_fnmatch_line(UNREAD)


def test_a_pipeline_that_the_option_names_reads_the_folder(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it="def test_it(throughput, input_pipeline):\n    pass\n")
    asked = pytester.runpytest("--tfperf-data-dir=set", "--tfperf-input-pipeline=imagenet")
    asked.stdout.no_fnmatch_line(UNREAD)


def test_what_can_not_be_kept_is_refused_also_where_nobody_reads_along(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        def test_it(throughput):
            open("ran", "w").close()
        """
    )
    (pytester.path / "file").touch()
    assert pytester.runpytest("-p", "no:terminal", "--tfperf-dir=file").ret == pytest.ExitCode.USAGE_ERROR
    assert not (pytester.path / "ran").exists()
