"""The figures of three public documents, which are the published baselines.

figures.csv has each figure with its document, table, row and column. The documents are other people's texts and not
kept here. `python -m tools.documents FOLDER` checks figures.csv against them where somebody has them, and
baselines/*.csv against figures.csv.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import baseline_file
from tools.documents import azure, lambda_cpu, tensorpack
from tools.documents.tables import Figure

FIGURES: Final = Path(__file__).with_name("figures.csv")
DOCUMENTS: Final[dict[str, ModuleType]] = {document.NAME: document for document in (azure, tensorpack, lambda_cpu)}
"""File name -> the module whose `read` gives a text's figures, and whose `baseline` gives a figure's row."""


def figures() -> list[Figure]:
    """The figures of figures.csv."""
    with FIGURES.open(newline="") as file:
        _, *rows = csv.reader(file)
    return [Figure(document, table, row, column, float(value)) for document, table, row, column, value in rows]


def baseline_files() -> dict[str, bytes]:
    """Name -> content of baselines/*.csv, as figures.csv gives them."""
    by_machine: dict[str, list[Baseline]] = {}
    for figure in figures():
        row = DOCUMENTS[figure.document].baseline(figure)
        by_machine.setdefault(row.machine, []).append(row)
    return {f"{machine}.csv": baseline_file.render(rows) for machine, rows in by_machine.items()}


def differences(documents: Path) -> Iterator[str]:
    """A line for each figure that a document and figures.csv do not have alike.

    Raises:
        TfperfError: a document is missing or not in the format that its module knows.
    """
    for name, document in DOCUMENTS.items():
        try:
            text = (documents / name).read_bytes().decode()
        except OSError as error:
            raise TfperfError(
                f"{documents / name} can't be read: {error.strerror}", next_step="Name its folder"
            ) from None
        kept = {figure.place: figure.images_per_sec for figure in figures() if figure.document == name}
        stated = {figure.place: figure.images_per_sec for figure in document.read(text)}
        for place in kept | stated:
            if kept.get(place) != stated.get(place):
                yield f"{place}: {stated.get(place)} in the document, {kept.get(place)} in {FIGURES.name}"
