"""What is announced before the first test is what will run here, whoever deselected the rest."""

from __future__ import annotations

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
