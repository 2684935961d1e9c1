"""Collection stays light: what is heavy is imported when the first test measures, or only in workers."""

from __future__ import annotations

import pytest

from tests.helpers.inner import Finished, Project

HEAVY = ("tensorflow", "keras", "numpy", "pandas", "scipy", "pynvml", "sqlite3", "multiprocessing")

MEASURES = (
    "bench.run_engine",
    "judging",
    "bench.session",
    "session.summary",
    "workers.processes",
    "reports.baselines",
)
"""Modules of ours that only a session with tests to run needs."""


@pytest.fixture(scope="module")
def collected(shared: Project) -> Finished:
    shared.write(
        "conftest.py",
        f"""
        import sys

        def pytest_unconfigure():
            print("imported:", *[name for name in {HEAVY} if name in sys.modules], ".")
            print("of ours:", *[name for name in {MEASURES} if f"pytest_tfperf.{{name}}" in sys.modules], ".")
        """,
    )
    shared.tests(
        """
        @pytest.mark.parametrize("model", ["resnet50", "trivial", "nets:tiny"])
        @pytest.mark.parametrize("input_pipeline", ["device", "nets:synthetic"], indirect=True)
        @pytest.mark.parametrize("steps", [20])
        def test_it(throughput, on, input_pipeline, model, steps):
            throughput.check(tiny(model=model), on=on)
        """
    )
    return shared.run("--collect-only", "-q")


def test_collecting_finds_the_tests_and_imports_nothing_heavy(collected: Finished) -> None:
    assert "6 tests collected" in collected.text
    assert "imported: ." in collected.text


def test_collecting_imports_nothing_that_measures(collected: Finished) -> None:
    assert "of ours: ." in collected.text


def test_collecting_leaves_nothing_behind(collected: Finished, shared: Project) -> None:
    assert not [path.name for path in (shared.folder / ".tfperf", shared.folder / "baselines") if path.exists()]


def test_a_session_without_throughput_tests_imports_nothing_heavy(collected: Finished, shared: Project) -> None:
    shared.write("test_other.py", "def test_other(): pass")
    assert "imported: ." in shared.run("test_other.py").text
