"""A test's properties, and files that a conftest.py brings after pytest's start."""

from __future__ import annotations

import shutil

from tests.helpers.inner import Project

TEST = """
    def test_it(throughput, on):
        throughput.check(tiny(1), on=on)
"""


def test_what_reads_pytests_reports_finds_the_properties_without_junit_xml(played: Project) -> None:
    played.tests(TEST)
    played.write(
        "conftest.py",
        """
        def pytest_runtest_logreport(report):
            if report.when == "call":
                print("properties:", dict(report.user_properties)["tfperf_topology"])
        """,
    )
    assert "properties: 1x1" in played.run("-s", "--junitxml=").text


def test_rows_that_a_conftest_brings_are_asked_for_their_reference_environment(played: Project) -> None:
    played.tests(TEST)
    played.baseline("nets:tiny-b1-replicated-device", value=1000.0)
    shutil.move(played.folder / "baselines", played.folder / "stored")
    played.write(
        "conftest.py",
        """
        import shutil

        def pytest_sessionstart(session):
            stored = session.config.rootpath / "stored"
            shutil.copytree(stored, stored.with_name("baselines"), dirs_exist_ok=True)
        """,
    )
    assert "reference environment" in played.run().text
