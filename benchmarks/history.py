"""What a history of 10,000, 30,000 and 100,000 measurements costs: adding, reading, sending. Prints one table.

    PYTHONPATH=.:tests/services python benchmarks/history.py

Needs PostgreSQL's programs (apt install postgresql): it starts a server of its own, on this machine. A measurement is
one run of 100 windows; 50 tests a session. CPU time holds on a machine that does other things, too; the time that
passed is in brackets. Figures are medians of three, of 50 for `append`, and of one for pushes.
"""

from __future__ import annotations

import random
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import postgres

from pytest_tfperf.core.history_url import HistoryUrl
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.features.team.push import push
from pytest_tfperf.stores.history import History
from pytest_tfperf.stores.history_rows import measurement_row
from pytest_tfperf.stores.history_tables import MEASUREMENTS
from tests.helpers.measurements import baseline, measurement, run, throughput, verdict

SIZES = (10_000, 30_000, 100_000)
TESTS = 50


def one(test: int, session: int) -> Measurement:
    chance = random.Random(test)
    rate = 1000 * (1 + chance.gauss(0, 0.01))
    made: Measurement = measurement(
        throughput(rate),
        test=f"perf_tests/test_gpu.py::test_training[{test}]",
        session=f"session-{session:05}",
        time=(datetime(2025, 1, 1, tzinfo=UTC) + timedelta(hours=session, seconds=test)).isoformat(),
        runs=(run([0.15 + chance.random() / 100 for _ in range(100)]),),
        verdict=verdict(),
    )
    return made


def fill(history: History, size: int) -> None:
    """Add measurements as `append` would, in few transactions: it would wait for the disk each time."""
    rows = [measurement_row(one(test, 0)) for test in range(TESTS)]
    start = datetime(2025, 1, 1, tzinfo=UTC)
    with history.database.writing() as connection:
        for session in range(size // TESTS):
            when = start + timedelta(hours=session)
            more = {"session": f"session-{session:05}", "time": when.isoformat()}
            made = round(when.timestamp() * 1e6)
            batch = [row | more | {"id": secrets.token_hex(16), "made": made + nth} for nth, row in enumerate(rows)]
            connection.execute(MEASUREMENTS.insert(), batch)


def cost(action: Callable[[], object], times: int = 3, *, scale: float = 1, digits: int = 2) -> str:
    """The medians of a few calls: this process's CPU time, and in brackets the time that passed."""
    taken = []
    for _ in range(times):
        cpu, clock = time.process_time(), time.perf_counter()
        action()
        taken.append((time.process_time() - cpu, time.perf_counter() - clock))
    cpu, clock = (scale * statistics.median(column) for column in zip(*taken, strict=True))
    return f"{cpu:.{digits}f} ({clock:.{digits}f})"


def main() -> None:
    with postgres.server() as server, tempfile.TemporaryDirectory() as folder:
        print(
            "| measurements | file, MB | append, ms | before a session, s | results(), s | frame(), s | push, s | "
            "push of 50, s | push again, s |\n" + "| --- " * 9 + "|"
        )
        for size in SIZES:
            history = History(Path(folder) / f"{size}.sqlite")
            there = History(HistoryUrl(server.new_database()))
            fill(history, size)
            print(row(size, history, there), flush=True)


def row(size: int, history: History, there: History) -> str:
    assert history.database.path is not None
    rows = [baseline() for _ in range(TESTS)]

    def before_a_session() -> None:
        history.prepare()
        history.seconds_of([])
        history.confirmation_runs(["box"])
        history.past_sessions_of_machine(rows, before="today", least_tests=TESTS // 2)

    def send(*, only_new: bool) -> object:
        return push(history.database, there.database, only_new=only_new)

    new = one(0, size)
    cells = [
        f"{size:,}",
        f"{history.database.path.stat().st_size / 1e6:.0f}",
        cost(lambda: history.append(new), times=50, scale=1e3, digits=1),
        cost(before_a_session),
        cost(history.results),
        cost(history.frame),
        cost(lambda: send(only_new=True), times=1, digits=1),
    ]
    for test in range(TESTS):
        history.append(one(test, size + 1))
    cells.append(cost(lambda: send(only_new=True), times=1))
    cells.append(cost(lambda: send(only_new=False), times=1))
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
