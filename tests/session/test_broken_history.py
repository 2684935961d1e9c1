"""A history that can't be written is refused before the first test; one that breaks later costs no verdict."""

from __future__ import annotations

import pytest

from tests.helpers.inner import ANY_THROUGHPUT, Finished, Project

USAGE_ERROR = 4

TESTS = """
    from pathlib import Path

    import pytest
    from pytest_tfperf import Workload

    TINY = Workload(model="nets:tiny", batch_size=1)

    @pytest.fixture(scope="module", autouse=True)
    def breaks_in_mid_session():
        history = Path(".tfperf/history.sqlite")
        history.unlink()
        history.mkdir()

    @pytest.mark.cpu
    class TestOnCpus:
        def test_passes(self, throughput, gpu_topology):
            throughput.check(TINY, on=gpu_topology.take(1))

        def test_compares(self, throughput, gpu_topology):
            throughput.compare(TINY, TINY, on=gpu_topology.take(1), max_seconds=1e-9)
"""


@pytest.fixture(scope="module")
def broken(played: Project) -> Finished:
    played.write("test_it.py", TESTS)
    played.baseline("nets:tiny-b1-replicated-device", **ANY_THROUGHPUT)
    return played.run()


def test_the_verdicts_stand(broken: Finished) -> None:
    assert (broken.status, broken.kinds) == (0, {"test_passes": "passed", "test_compares": "passed"}), broken.text


def test_the_summary_says_what_the_history_lacks(broken: Finished) -> None:
    summary = broken.text.partition("= throughput =")[2]
    pytest.LineMatcher(summary.splitlines()).fnmatch_lines(
        ["PASS *tiny-b1-replicated-device *", "not in the history: *history.sqlite: the history can't be used: *"]
    )


def refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it="def test_it(throughput): raise AssertionError('it ran')")
    result = pytester.runpytest()
    assert (result.ret, "it ran" in result.stdout.str()) == (USAGE_ERROR, False)
    result.stderr.fnmatch_lines(["*history.sqlite: the history can't be used: *give another folder: --tfperf-dir DIR*"])


@pytest.mark.parametrize("in_the_way", [".tfperf/history.sqlite/", ".tfperf"])
def test_a_history_that_can_not_be_written_is_refused_before_the_first_test(
    pytester: pytest.Pytester, in_the_way: str
) -> None:
    path = pytester.path / in_the_way
    path.mkdir(parents=True) if in_the_way.endswith("/") else path.touch()
    refused(pytester)


def test_a_damaged_history_is_moved_aside_and_said_before_the_first_test_and_after_the_last(
    pytester: pytest.Pytester,
) -> None:
    history = pytester.mkdir(".tfperf") / "history.sqlite"
    history.write_text("no database" * 100)
    pytester.makepyfile(test_it="def test_it(throughput): pass")
    result = pytester.runpytest()
    said = "*history.sqlite was damaged. It is now history.sqlite.damaged-*, and a new history has begun*"
    result.stdout.fnmatch_lines([f"tfperf: {said}", "*[[]100%[]]*", said])
    assert [path.read_text()[:11] for path in history.parent.glob("*.damaged-*")] == ["no database"]
