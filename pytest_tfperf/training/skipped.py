"""Which corrupt records a pipeline left out."""

from __future__ import annotations

MOST_TOLD = 100


class Skipped:
    """Filled by the pipeline's own threads, read by the worker."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def add(self, place: str, what: str = "corrupt") -> None:
        """Count a record that was left out; the first time it is also written to the worker's log."""
        self._times[place] = self._times.get(place, 0) + 1
        if self._times[place] == 1 and len(self._times) <= MOST_TOLD:
            print(f"skipped {place}: {what}", flush=True)

    @property
    def first(self) -> str:
        """The place of the first, "" where there is none."""
        return next(iter(self._times), "")

    def __bool__(self) -> bool:
        return bool(self._times)

    def __str__(self) -> str:
        """How many records, how often one was met, and the first's place."""
        return f"{len(self._times)} corrupt ({sum(self._times.values())} times), the first {self.first}"
