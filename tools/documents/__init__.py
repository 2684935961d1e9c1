"""The three documents whose figures are the published baselines: their importers.

`python -m tools.documents tests/data/documents` writes baselines/*.csv again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.errors import DocumentError
from pytest_tfperf.stores import baseline_file
from tools.documents import azure, lambda_cpu, tensorpack

DOCUMENTS: Final[dict[str, Callable[[str], list[Baseline]]]] = {
    azure.NAME: azure.read,
    tensorpack.NAME: tensorpack.read,
    lambda_cpu.NAME: lambda_cpu.read,
}


def regenerate(documents: Path, baselines: Path) -> dict[str, list[Baseline]]:
    """Write the file of each of the documents' machines anew; returns each document's rows.

    Nothing is written unless all documents can be read.

    Raises:
        DocumentError: a document is missing or not in the format that its importer knows.
    """
    try:
        rows = {name: importer((documents / name).read_bytes().decode()) for name, importer in DOCUMENTS.items()}
    except OSError as error:
        raise DocumentError(f"{error.filename} can't be read: {error.strerror}. Name the documents' folder") from None
    by_machine: dict[str, list[Baseline]] = {}
    for row in (row for imported in rows.values() for row in imported):
        by_machine.setdefault(row.machine, []).append(row)
    baselines.mkdir(parents=True, exist_ok=True)
    for machine, of_machine in by_machine.items():
        (baselines / f"{machine}.csv").write_bytes(baseline_file.render(of_machine))
    return rows
