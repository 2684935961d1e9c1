"""The three documents whose figures are the published baselines: their importers.

`python -m tools.documents tests/data/documents` writes baselines/*.csv again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.errors import DocumentError
from pytest_tfperf.stores import atomic, baseline_file
from pytest_tfperf.stores.baselines import BaselineStore
from tools.documents import azure, lambda_cpu, tensorpack
from tools.documents.imported import Imported

DOCUMENTS: Final[dict[str, Callable[[str], Imported]]] = {
    azure.NAME: azure.read,
    tensorpack.NAME: tensorpack.read,
    lambda_cpu.NAME: lambda_cpu.read,
}


def read(folder: Path) -> dict[str, Imported]:
    """Every document in `folder`, by name.

    Raises:
        DocumentError: a document is missing or not in the format that its importer knows.
    """
    try:
        return {name: importer((folder / name).read_bytes().decode()) for name, importer in DOCUMENTS.items()}
    except OSError as error:
        raise DocumentError(f"{error.filename} can't be read: {error.strerror}. Name the documents' folder") from None


def regenerate(documents: Path, baselines: Path) -> dict[str, Imported]:
    """Replace the published rows of the documents' machines; measured rows stay, and win where the key is the same.

    Nothing is written unless all documents can be read.

    Raises:
        DocumentError: as `read`.
        BaselineError: a file in `baselines` can't be read whole, or another session holds its lock.
    """
    imported = read(documents)
    by_machine: dict[str, list[Baseline]] = {}
    for row in (row for one in imported.values() for row in one.baselines):
        by_machine.setdefault(row.machine, []).append(row)
    store = BaselineStore(baselines, published=None)
    with store.lock():
        for machine, rows in by_machine.items():
            measured = {key: row for key, row in store.load(machine).items() if row.is_measured}
            whole = {row.key: row for row in rows} | measured
            atomic.replace(baselines / f"{machine}.csv", baseline_file.render(whole.values()))
    return imported
