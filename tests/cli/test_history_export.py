"""From workers to the history, to an export, and to the same verdicts again."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_tfperf import cli
from pytest_tfperf.stores import measurement_file
from tests.helpers.inner import ANY_THROUGHPUT, Finished, Project

GREEN, REGRESSED, USAGE = 0, 1, 4

TESTS = """
    import pytest
    from pytest_tfperf import Workload

    @pytest.mark.cpu
    class TestOnCpus:
        def test_passes(self, throughput, gpu_topology):
            tiny = Workload(model="nets:tiny", batch_size=1)
            throughput.check(tiny, on=gpu_topology.take(1))

        def test_regresses(self, throughput, gpu_topology):
            throughput.check(Workload(model="nets:tiny", batch_size=3), on=gpu_topology.take(1))

        def test_measures_only(self, throughput, gpu_topology):
            throughput.measure(Workload(model="nets:tiny", batch_size=2), on=gpu_topology.take(1), steps=7)
"""


@pytest.fixture(scope="module")
def finished(played: Project) -> Finished:
    played.write("test_it.py", TESTS)
    played.baseline("nets:tiny-b1-replicated-device", **ANY_THROUGHPUT)
    played.baseline("nets:tiny-b3-replicated-device", value=1e11)
    return played.run()


@pytest.fixture
def export(played: Project, finished: Finished, tmp_path: Path) -> Path:
    """All that the session measured."""
    assert history(played, "--export", "-o", str(tmp_path / "all.json")) == GREEN, finished.text
    return tmp_path / "all.json"


def history(project: Project, *arguments: str) -> int:
    return cli.main(["history", "--dir", str(project.folder / ".tfperf"), *arguments])


def test_each_measurement_of_the_session_is_exported_whole(finished: Finished, export: Path) -> None:
    found = {one.test.rpartition("::")[2]: one for one in measurement_file.read(export)}
    assert (finished.status, list(found)) == (REGRESSED, ["test_passes", "test_measures_only", "test_regresses"])
    assert len({one.session for one in found.values()}) == 1
    assert [len(one.runs) for one in found.values()] == [1, 1, 8]
    assert all(run.windows and run.environment for one in found.values() for run in one.runs)


def test_the_export_replays_to_the_exit_status_of_the_session(export: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["replay", str(export)]) == REGRESSED
    assert capsys.readouterr().out.endswith("\n1 REGRESSED, 1 PASS, 1 measured\n")


def test_one_test_of_one_session_can_be_exported(
    played: Project, export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    passed, *_ = measurement_file.read(export)
    assert history(played, "--export", f"--session={passed.session}", f"--test={passed.test}") == GREEN
    (tmp_path / "one.json").write_text(capsys.readouterr().out)
    assert measurement_file.read(tmp_path / "one.json") == (passed,)
    assert cli.main(["replay", str(tmp_path / "one.json")]) == GREEN


def test_what_can_not_be_exported_is_a_clear_error(
    played: Project, finished: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    assert history(played, "--export", "--session=none") == USAGE
    assert "--session: unknown session 'none'. Known: " in capsys.readouterr().err
    assert history(played, "--session=none") == USAGE
    assert history(played, "-o", "file.json") == USAGE
    assert "-o belongs to an export: add --export" in capsys.readouterr().err


def test_the_table_shows_each_workload_and_the_session_to_export(
    played: Project, export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    passed, *_ = measurement_file.read(export)
    assert history(played) == GREEN
    rows = [line for line in capsys.readouterr().out.splitlines() if passed.workload.id.removeprefix("nets:") in line]
    assert len(rows) == 1
    assert passed.session in rows[0]
