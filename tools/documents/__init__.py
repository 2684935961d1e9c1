"""The three documents whose figures are the published baselines, and the command that writes those again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core.baseline import Change
from pytest_tfperf.errors import DocumentError
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.documents import azure, lambda_cpu, tensorpack
from pytest_tfperf.stores.documents.imported import Imported

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["DOCUMENTS", "Imported", "Report", "read", "regenerate"]

DOCUMENTS: Final[dict[str, Callable[[str], Imported]]] = {
    azure.NAME: azure.read,
    tensorpack.NAME: tensorpack.read,
    lambda_cpu.NAME: lambda_cpu.read,
}


@dataclass(frozen=True, slots=True)
class Report:
    """What `regenerate` read and wrote."""

    documents: dict[str, Imported]
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        lines = []
        for name, imported in self.documents.items():
            lines.append(f"{name}: {len(imported.baselines)} baselines, {len(imported.not_measured)} not measured")
            machines = Counter(row.machine for row in imported.baselines)
            lines += [f"  {machine}: {rows}" for machine, rows in machines.items()]
            lines += [f"  not measured: {place}" for place in imported.not_measured]
        changed = [change for change in self.changes if change.old != change.new]
        lines.append(f"{len(changed)} of {len(self.changes)} rows are new or changed")
        return "\n".join(lines)


def read(folder: Path) -> dict[str, Imported]:
    """Every document in `folder`, by name.

    Raises:
        DocumentError: a document is missing or not in the form that its importer knows.
    """
    return {name: importer(_text(folder / name)) for name, importer in DOCUMENTS.items()}


def regenerate(documents: Path, baselines: Path) -> Report:
    """Write the published rows of the documents' machines again; measured rows stay as they are.

    Nothing is written unless all documents can be read.

    Raises:
        DocumentError: as `read`.
        BaselineError: a file in `baselines` can't be read whole or written.
    """
    imported = read(documents)
    rows = [row for one in imported.values() for row in one.baselines]
    store = BaselineStore(baselines, published=None)
    changes: list[Change] = []
    with store.lock():
        for machine in dict.fromkeys(row.machine for row in rows):
            changes += store.publish(machine, {row.key: row for row in rows if row.machine == machine})
    return Report(imported, tuple(changes))


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise DocumentError(f"{path} is not UTF-8: give the document as it was published") from None
    except OSError as error:
        raise DocumentError(
            f"{path} can't be read: {error.strerror}. Give the folder that holds {', '.join(DOCUMENTS)}"
        ) from None
