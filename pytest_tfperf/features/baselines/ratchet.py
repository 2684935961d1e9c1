"""Rows that became better for good, and the rows that the history's measurements make in their place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import groupby, takewhile
from operator import itemgetter
from pathlib import Path
from typing import Final

from pytest_tfperf.core.baseline import Baseline, BaselineUpdate, Key, require_plausible
from pytest_tfperf.core.figure import RATE
from pytest_tfperf.core.measurement import OUTSIDE, Measurement
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import BaselineError, BaselineRefused, TfperfError
from pytest_tfperf.judging.new_baselines import baseline_of, figure_baseline, pooled
from pytest_tfperf.lines import one_line
from pytest_tfperf.revisions.lock import contradiction, forget_locks, read_lock, write_lock
from pytest_tfperf.stores.baseline_file import BaselineStore
from pytest_tfperf.stores.history import History

# A test that is not in doubt takes one run a session. Runs of several sessions say more than as many of one recording,
# because these share what the machine does that day.
LEAST_SESSIONS: Final = 3  # the latest sessions of a row that all must have been IMPROVED
MOST_SESSIONS: Final = 5  # the most of them that its new row rests on
_MOST_READ: Final = 20  # measurements of a row: several tests may share it


def improved(rows: Iterable[Baseline], history: History) -> dict[Baseline, list[str]]:
    """Return the rows that were IMPROVED in each of their latest sessions, with the measurements' ids, latest first."""
    latest = history.earlier.judged_against(rows, most=_MOST_READ)
    return {row: ids for row, before in latest.items() if (ids := _in_a_row(before))}


def _in_a_row(latest: Sequence[tuple[str, str, Outcome | None]]) -> list[str]:
    sessions = [list(of_session) for _, of_session in groupby(latest, key=itemgetter(1))]
    streak = list(takewhile(lambda session: {outcome for *_, outcome in session} == {Outcome.IMPROVED}, sessions))
    ids = [id for of_session in streak[:MOST_SESSIONS] for id, *_ in of_session]
    return ids if len(streak) >= LEAST_SESSIONS else []


def ratchet(
    store: BaselineStore,
    history: History,
    machine: str,
    *,
    root: Path,
    only: Collection[tuple[str, Key]] | None = None,
    writes: bool = True,
) -> tuple[list[BaselineUpdate], list[TfperfError]]:
    """Record the rows of a machine that became better for good, from the measurements of their latest sessions.

    Returns the changes, and the errors of rows that stay as they are.

    Args:
        store: without published baselines, which stay as their documents have them.
        root: the project; new locks leave its own packages out.
        only: machines and keys to look at, without figures; None for all.

    Raises:
        TfperfError: the history can't be read, the file can't be read whole or written, or a session holds its lock.
    """
    with store.lock() if writes else nullcontext():  # a session that records meanwhile would have newer rows
        rows = {**store.load(machine), **store.figures(machine)}
        wanted = [row for row in rows.values() if row.is_measured and (only is None or throughput_of(row) in only)]
        new: dict[Key, Baseline] = {}
        refused: list[TfperfError] = []
        for row, ids in improved(wanted, history).items():
            try:
                new[row.key] = _new_row(row, history, ids)
            except (BaselineError, BaselineRefused) as error:
                refused.append(error)
        if writes and new:
            new = {key: replace(row, lock=_lock(rows[key], row, store.folder, root)) for key, row in new.items()}
            store.update(machine, new)
            forget_locks(store.folder, machine, {row.lock for row in (rows | new).values()})
    return [BaselineUpdate(rows[key], row) for key, row in new.items()], refused


def throughput_of(row: Baseline) -> tuple[str, Key]:
    """Return machine and key of the throughput that a row belongs to."""
    return row.machine, row.key._replace(figure="")


def _new_row(old: Baseline, history: History, ids: Sequence[str]) -> Baseline:
    """Return the row of measurements, latest first, without its lock, with the bounds that a user gave the old row."""
    measurements: Sequence[Measurement] = history.measurements_of(ids)
    if len(measurements) < len(ids):
        raise BaselineRefused(f"measurements of it are missing: {history.unread}").at(" ".join(filter(None, old.key)))
    recording = pooled(measurements)
    figure = next(v.figure for v in recording.verdicts if v.figure.name == (old.key.figure or RATE))
    row = figure_baseline(recording, figure) if old.key.figure else baseline_of(recording)
    if figure.signs[0] * (row.value - old.value) <= 0:
        name = one_line(f"{recording.test}: {figure.name}")
        raise BaselineRefused(f"{name} improved relative to the common drift only, and is no better than its row")
    first, last = measurements[-1].time[:10], measurements[0].time[:10]
    sessions = f"from {len({m.session for m in measurements})} sessions, {first} to {last}"
    note = "; ".join(filter(None, (sessions, row.note)))
    row = replace(row, lower=old.lower, upper=old.upper, note=note, source="tfperf baselines ratchet")
    require_plausible(row)
    return row


def _lock(old: Baseline, row: Baseline, folder: Path, root: Path) -> str:
    """Return the lock of a new row's packages: that of the old row, or one of those installed here; "" for others."""
    before, now = (
        {fact for fact in each.environment.split() if fact.partition("=")[0] not in OUTSIDE} for each in (old, row)
    )
    if old.lock and before == now:
        return old.lock
    name = write_lock(folder, row.machine, root=root)
    return "" if contradiction(replace(row, lock=name), read_lock(folder / name)) else name
