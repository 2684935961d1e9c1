"""`--tfperf-accept`: a session takes the runs that a baseline lacks, and names the command that accepts them."""

from __future__ import annotations

import shutil
import zipfile

import pytest

from pytest_tfperf import cli
from pytest_tfperf.stores import documents
from tests.helpers.inner import Project

WORKLOAD = "nets:tiny-b1-replicated-device"


@pytest.fixture
def project(played: Project) -> Project:
    shutil.rmtree(played.folder / ".tfperf", ignore_errors=True)
    played.tests(
        """
        def test_check(throughput, on):
            throughput.check(tiny(), on=on)
        """
    )
    return played


def test_the_session_takes_five_free_runs_after_its_verdict_and_names_the_command(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.baseline(WORKLOAD, value=1.0, date="2026-01-01")
    ended = project.run("--tfperf-accept=test_check")
    m = project.measured("test_check")
    assert (m.outcome, len(m.runs), len(m.free.runs), len(m.throughput.runs)) == ("IMPROVED", 6, 5, 6)
    (line,) = [line for line in ended.text.splitlines() if line.strip().startswith("accept ")]
    assert f"tfperf baselines accept test_it.py::test_check --session={m.session}    (if the change" in line
    monkeypatch.chdir(project.folder)
    assert cli.main(["baselines", "accept", "test_check", f"--session={m.session}"]) == 0
    (row,) = project.baselines.load("box").values()
    assert (row.runs, row.source) == (5, f"session {m.session}")


def test_the_verdict_is_that_of_the_session_without_them(project: Project) -> None:
    project.baseline(WORKLOAD, value=1.0, date="2026-01-01")
    project.run("--tfperf-accept=test_check")
    m = project.measured("test_check")
    assert m.verdicts[0].value == pytest.approx(m.throughput.examples_per_sec)
    assert m.verdicts[0].value == pytest.approx(m.throughput.runs[0].examples_per_sec)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("test_check", 1e-3, ""),
        ("test_other", 1.0, "--tfperf-accept=test_other: no test that this session measured alone has this name"),
    ],
)
def test_other_tests_take_one_run(name: str, value: float, said: str, project: Project) -> None:
    project.baseline(WORKLOAD, value=value, date="2026-01-01", **({"upper": float("inf")} if not said else {}))
    ended = project.run(f"--tfperf-accept={name}")
    assert len(project.measured("test_check").runs) == 1
    assert (
        said or "test_it.py::test_check is PASS: no change is confirmed, so there is nothing to accept"
    ) in ended.text


@pytest.mark.parametrize("option", ["--tfperf-smoke", "--update-baselines", "--tfperf-inject-slowdown=0.1"])
def test_it_is_refused_with_what_is_no_baseline(option: str, project: Project) -> None:
    ended = project.run("--tfperf-accept=test_check", option)
    assert ended.status == 4
    assert "--tfperf-accept with" in ended.text


def test_a_result_and_a_document_serve_as_the_history_does(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project.baseline(WORKLOAD, value=1.0, date="2026-01-01")
    project.run("--tfperf-accept=test_check", "--tfperf-json=result.json")
    database = project.history.database
    (number,) = documents.sessions_of(database).values()
    (project.folder / "document.json.gz").write_bytes(documents.encoded(database, number))
    with zipfile.ZipFile(project.folder / "artifact.zip", "w") as archive:
        archive.write(project.folder / "result.json", "job/result.json")
    monkeypatch.chdir(project.folder)
    said = []
    sources = ([], ["--from=result.json"], ["--from=document.json.gz"], ["--from=artifact.zip"])
    for source in sources:
        if source:
            shutil.rmtree(project.folder / ".tfperf", ignore_errors=True)
        assert cli.main(["baselines", "accept", "test_check", "--dry-run", *source]) == 0
        said.append(capsys.readouterr().out)
    assert len(set(said)) == 1
