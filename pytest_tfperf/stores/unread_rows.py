"""The rows of a history that a reader left out, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import shortened
from pytest_tfperf.stores.history_tables import FIGURES, MEASUREMENTS, VERDICTS

if TYPE_CHECKING:
    from sqlalchemy import Table

_ROW_OF: Final = {
    MEASUREMENTS: "measurement",
    VERDICTS: "session verdict",
    FIGURES: "figure",
}
_MOST_NAMED: Final = 3


class UnreadRows:
    """The rows that were left out so far, and why; a row that is read several times counts once.

    Args:
        test_of: names the test and session of a measurement by its id; "" where they are not known.
    """

    def __init__(self, test_of: Callable[[object], str] = lambda _: "") -> None:
        self._test_of = test_of
        self._why: dict[str, str] = {}
        self._dropped: set[str] = set()

    def add_dropped(self, row: str) -> None:
        """Note a row without its whole measurement, which is too old to be kept."""
        self._dropped.add(row)

    @contextmanager
    def leaving_out(self, table: Table, id: object) -> Iterator[str]:
        """Note an error that the reading of a row raises, and go on; gives the row's name for messages."""
        row = f"{_ROW_OF[table]} {id}"
        try:
            yield row
        except TfperfError as error:
            self.note(table, id, error)

    def note(self, table: Table, id: object, error: TfperfError) -> None:
        """Note the error that the reading of a row raised."""
        row, why = f"{_ROW_OF[table]} {id}", str(error)
        if row in self._why:
            return
        why = why if why.startswith(row) else f"{row}: {why}"
        is_named = table is MEASUREMENTS and len(self._why) < _MOST_NAMED
        self._why[row] = f"{why} ({test})" if is_named and (test := self._test_of(id)) else why

    def __str__(self) -> str:
        """A sentence that names their number, the first rows and the reasons; "" without any."""
        return ". ".join(filter(None, (self._damaged, self._without_details)))

    @property
    def _without_details(self) -> str:
        if not self._dropped:
            return ""
        rows = "1 measurement is" if len(self._dropped) == 1 else f"{len(self._dropped)} measurements are"
        return (
            f"{rows} left out, whose details were dropped for their age (tfperf_details_days): `tfperf history --csv` "
            "has the figures"
        )

    @property
    def _damaged(self) -> str:
        if not self._why:
            return ""
        named = list(self._why.values())[:_MOST_NAMED]
        more = f"; and {len(self._why) - len(named)} more" if len(self._why) > len(named) else ""
        rows = "1 row" if len(self._why) == 1 else f"{len(self._why)} rows"
        why = "; ".join(shortened(reason, 400) for reason in named)
        return f"{rows} of the history can't be read and left out, damaged or of a newer pytest-tfperf: {why}{more}"
