"""Which corrupt records a pipeline left out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MOST_TOLD = 100


@dataclass(frozen=True, slots=True)
class Place:
    """Where a corrupt record lies.

    Args:
        shard: its file.
        number: of the record, from 0.
        and_rest: nobody knows where the next record begins, so that the shard ends here.
    """

    shard: str
    number: int
    and_rest: bool = False

    @property
    def record(self) -> str:
        """Shard and number."""
        return f"{Path(self.shard).name} record {self.number}"

    def __str__(self) -> str:
        """The same, and what is left out with it."""
        return f"{self.record} and the shard's rest" if self.and_rest else self.record


class Skipped:
    """Filled by the pipeline's own threads, read by the worker."""

    def __init__(self) -> None:
        self._times: dict[Place, int] = {}

    def add(self, place: Place) -> None:
        """Count a record that was left out; the first time it is also written to the worker's log."""
        self._times[place] = self._times.get(place, 0) + 1
        if self._times[place] == 1 and len(self._times) <= MOST_TOLD:
            print(f"skipped {place}: corrupt", flush=True)

    @property
    def first(self) -> Place | None:
        """The place of the first."""
        return next(iter(self._times), None)

    def __bool__(self) -> bool:
        return bool(self._times)

    def __str__(self) -> str:
        """How many records, how many shards ended with one, how often one was met, and the first's place."""
        cut = sum(place.and_rest for place in self._times)
        rests = f" and the rest of {cut} shard{'s' if cut > 1 else ''}" if cut else ""
        times = sum(self._times.values())
        return f"{len(self._times)} corrupt{rests} ({times} times), the first {self.first}"
