"""The documents' tables: made from the documents' own figures, they are the documents' tables again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from measurements import measurement

from pytest_tfperf.cli import main
from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.past_result import PastResult
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.reports.document_tables import DOCUMENTS, NOT_MEASURED, document_tables
from pytest_tfperf.reports.page.past import as_result
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.history import History

ROOT = Path(__file__).parents[2]


def published(*machines: str) -> list[PastResult]:
    """The figures that documents give for these machines, as if they had been measured here."""
    store = BaselineStore(ROOT / "baselines", published=None)
    return [measured(row) for machine in machines for row in store.load(machine).values()]


def measured(row: Baseline, outcome: str = "PASS") -> PastResult:
    workload, topology = row.key
    given = {"machine": row.machine, "workload": workload, "topology": topology, "outcome": outcome}
    return replace(as_result(measurement()), examples_per_sec=row.reference, **given)


def lines(text: str) -> list[str]:
    return ["".join(line.split()) for line in text.splitlines()]


def test_dgx1_has_the_rows_of_its_page() -> None:
    found = lines(document_tables("dgx1", published("dgx1-p100")))
    assert "|1|228/228/219|225.73|" in found
    assert "|8|1651/1556/1574|1604.55|" in found


def test_lambda_has_the_rows_of_its_page() -> None:
    machines = ("lambda-i7-7820x", "lambda-w-2133", "lambda-e5-1650", "lambda-i9-7900x")
    found = lines(document_tables("lambda", published(*machines)))
    assert "resnet50|726.86|734.73|757.49|732.31|" in found
    assert "alexnet|2732.90|1981.72|2006.08|3040.95|" in found
    assert found[0] == "**syn-parameter_server-4gpus**"


def test_azure_has_the_rows_of_its_page() -> None:
    found = lines(document_tables("azure", published("azure-nc6-dsvm", "azure-nc12-dsvm")))
    assert "1|1|1|56.57|56.57|azure-nc6-dsvm" in found
    assert "4|2|2|209.87|52.47|azure-nc12-dsvm" in found


@pytest.mark.parametrize(
    ("document", "machine"), [("dgx1", "dgx1-p100"), ("lambda", "lambda-w-2133"), ("azure", "azure-nc6-dsvm")]
)
def test_a_cell_without_a_measurement_says_so(document: str, machine: str) -> None:
    assert NOT_MEASURED in document_tables(document, published(machine)[:1])


@pytest.mark.parametrize("document", DOCUMENTS)
def test_without_any_figure_there_is_no_table(document: str) -> None:
    assert document_tables(document, []) == ""
    other = Baseline(machine="box", key=published("dgx1-p100")[0].key._replace(workload="trivial"), reference=1.0)
    assert document_tables(document, [measured(other)]) == ""


def test_an_invalid_result_is_no_figure() -> None:
    (row, *_) = BaselineStore(ROOT / "baselines", published=None).load("dgx1-p100").values()
    assert document_tables("dgx1", [measured(row, outcome="INVALID")]) == ""


# The command


def exported(folder: Path, *arguments: str) -> int:
    history = History(folder / "history.sqlite")
    history.append(measurement(session="gpus"))
    history.append(measurement(session="later", workload=Workload(model="trivial", batch_size=1)))
    return main(["export", "dgx1", "--dir", str(folder), *arguments])


def test_the_command_shows_a_sessions_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exported(tmp_path, "--session", "gpus") == 0
    assert "|8|notmeasured|1000.00|" in lines(capsys.readouterr().out)


def test_the_command_says_what_to_run_where_the_last_session_has_no_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exported(tmp_path) == 4
    assert "session later has none of the figures of this document" in capsys.readouterr().err
