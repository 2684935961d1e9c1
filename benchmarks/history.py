"""What a history costs: adding, reading, sending, a session's start, and the commands. Prints tables.

    PYTHONPATH=.:tests/services python benchmarks/history.py              # 10,000, 30,000 and 100,000 measurements
    PYTHONPATH=. python benchmarks/history.py years FOLDER [--days 730]   # 200 tests a night on 5 machines

The first needs PostgreSQL's programs (apt install postgresql): it starts a server of its own, on this machine. A
measurement is one run of 100 windows; 50 tests a session. CPU time holds on a machine that does other things, too; the
time that passed is in brackets. Figures are medians of three, of 50 for `append`, and of one for pushes.

The second writes FOLDER/history.sqlite where there is none (730 days: 730,000 measurements, 3.4 GB, three minutes of
CPU time), and runs each command on it once, in a process of its own: CPU seconds and peak memory. To measure another
state of the code on the same file, put its folder first in PYTHONPATH.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.stores.history import History
from pytest_tfperf.stores.history_rows import figure_rows, measurement_row
from pytest_tfperf.stores.history_tables import FIGURES, MEASUREMENTS
from tests.helpers.measurements import baseline, interleaved, measurement, run, throughput, verdict

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
    with history.database.opened(writes=True) as connection:
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


def sizes() -> None:
    import postgres

    from pytest_tfperf.core.history_url import HistoryUrl

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
    from pytest_tfperf.features.team.push import push

    assert history.database.path is not None

    def send(*, only_new: bool) -> object:
        return push(history.database, there.database, only_new=only_new)

    new = one(0, size)
    tests = [f"perf_tests/test_gpu.py::test_training[{test}]" for test in range(TESTS)]
    cells = [
        f"{size:,}",
        f"{history.database.path.stat().st_size / 1e6:.0f}",
        cost(lambda: history.append(new), times=50, scale=1e3, digits=1),
        cost(lambda: _start(history, "box", tests, [baseline()])),
        cost(lambda: list(history.results())),
        cost(history.frame),
        cost(lambda: send(only_new=True), times=1, digits=1),
    ]
    for test in range(TESTS):
        history.append(one(test, size + 1))
    cells.append(cost(lambda: send(only_new=True), times=1))
    cells.append(cost(lambda: send(only_new=False), times=1))
    return f"| {' | '.join(cells)} |"


# Two years of nights

MACHINES: Final = tuple(f"dgx{number}-p100" for number in range(1, 6))
NIGHTLY: Final = 200
RECORDED_AGAIN: Final = 365  # days
_LAST: Final = datetime.now(UTC).replace(hour=3, minute=0, second=0, microsecond=0) - timedelta(days=1)
_COMPARED: Final = 10  # tests beside another commit, once a week
_OF_ONE_NIGHT: Final = ("session", "time", "commit", "machine", "throughput")


def nightly_test(test: int) -> str:
    return f"perf_tests/test_models_{test // 20}.py::test_training[{test}-float16-replicated]"


def nightly_rate(machine: int, test: int) -> float:
    return 1000.0 * (1 + test / 10) * (1 + machine / 20)


def nightly_measurement(test: int, outcome: Outcome | None) -> Measurement:
    """One run of 100 windows with a loss, 15 polls of one GPU; a quarter of the tests have a further figure."""
    chance = random.Random(test)
    gpu = GpuTelemetry(uuid="GPU-5a0c", temperature_celsius_max=61, sm_clock_mhz_median=1480.0, power_watts_mean=231.4)
    polls = tuple(
        Telemetry(
            seconds=1.0,
            usable_cores=20,
            load_average_mean=chance.random(),
            other_cpu_fraction_mean=chance.random() / 50,
            gpus=(gpu,),
        )
        for _ in range(15)
    )
    seconds = [0.15 + chance.random() / 100 for _ in range(100)]
    of_rate = verdict(outcome, baseline=baseline(nightly_rate(0, test))) if outcome else None
    made: Measurement = measurement(
        throughput(nightly_rate(0, test)),
        test=nightly_test(test),
        topology="1x1",
        workload=Workload(model="resnet50", batch_size=8 + test),
        gpu="Tesla P100-SXM2-16GB",
        runs=(run(seconds, figures={"peak_memory": 2e9}, polls=polls),),
        environment={
            "tensorflow": "2.21.0",
            "numpy": "2.4.6",
            "driver": "575.57.08",
            "kernel": "6.8.0",
            "python": "3.12",
        },
        verdict=of_rate,
        figures=(_peak_memory(),) if test % 4 == 0 else (),
    )
    return made


def _peak_memory() -> Verdict:
    of_memory: Verdict = verdict(Outcome.PASS, figure=Figure("peak_memory"), value=2e9, baseline=None)
    return of_memory


class _Template:
    """A measurement's row, its figures and its JSON, for all nights and machines."""

    def __init__(self, m: Measurement) -> None:
        self.row, self.figures = measurement_row(m), figure_rows(m)
        self.whole = plain(m)
        rest = json.dumps({name: value for name, value in self.whole.items() if name not in _OF_ONE_NIGHT})[1:].encode()
        # What differs is compressed each time, and the rest once: a deflate stream may be a concatenation.
        packing = zlib.compressobj(wbits=-15)
        self.rest, self.packed_rest = rest, packing.compress(rest) + packing.flush()
        self.is_judged = m.verdict is not None

    def made(self, own: dict[str, Any], rate: float, base: float, date: str) -> dict[str, Any]:
        """Return a row; `own` are session, time, commit and machine."""
        columns: dict[str, Any] = {"examples_per_sec": rate, "low": rate * 0.995, "high": rate * 1.005}
        run_value = self.whole["throughput"]["runs"][0] | {"log_rate": math.log(rate)}
        differs = own | {"throughput": self.whole["throughput"] | columns | {"runs": [run_value]}}
        packing = zlib.compressobj(wbits=-15)
        first = json.dumps(differs)[:-1].encode() + b", "
        packed = packing.compress(first) + packing.flush(zlib.Z_FULL_FLUSH) + self.packed_rest
        checksum = zlib.adler32(self.rest, zlib.adler32(first)).to_bytes(4, "big")
        if self.is_judged:
            columns |= {"baseline": base, "baseline_date": date, "changes": json.dumps([math.log(rate / base)])}
        return self.row | own | columns | {"whole": b"\x78\x9c" + packed + checksum}


def fill_years(history: History, days: int) -> None:
    """Add a session a night of each machine; each test was recorded on the first night, and again a year later."""
    history.prepare()
    chance = random.Random(1)
    templates = {
        (test, outcome): _Template(nightly_measurement(test, outcome))
        for test in range(NIGHTLY)
        for outcome in (None, Outcome.PASS, Outcome.REGRESSED)
    }
    beside = [
        interleaved(test=nightly_test(test), machine=MACHINES[0], time="", seconds=60.0) for test in range(_COMPARED)
    ]
    compared = [measurement_row(m) for m in beside]
    slower = {test: chance.randrange(days) for test in chance.sample(range(NIGHTLY), 8)}
    for day in range(days):
        night = _LAST - timedelta(days=days - 1 - day)
        recorded = day - day % RECORDED_AGAIN
        date = f"{_LAST - timedelta(days=days - 1 - recorded):%Y-%m-%d}"
        commit = f"{random.Random(day).getrandbits(64):016x}"
        rows, figures = [], []
        for machine in range(len(MACHINES)):
            session = f"{night:%Y%m%d}-0300{machine:02}-{random.Random(f'{day}-{machine}').getrandbits(24):06x}"
            drift = chance.gauss(0, 0.004)
            for test in range(NIGHTLY):
                when = night + timedelta(seconds=30 * test + machine)
                base = nightly_rate(machine, test)
                lost = 0.03 if day >= slower.get(test, days) else 0.0
                rate = base * math.exp(drift + chance.gauss(0, 0.006)) * (1 - lost)
                outcome = None if day == recorded else Outcome.REGRESSED if chance.random() < 0.005 else Outcome.PASS
                template = templates[test, outcome]
                id, made = secrets.token_hex(16), round(when.timestamp() * 1e6)
                own = {"session": session, "time": when.isoformat(), "commit": commit, "machine": MACHINES[machine]}
                rows.append(template.made(own, rate, base, date) | {"id": id, "made": made})
                for figure in template.figures:
                    of_figure = {"id": f"{id}-{figure['figure']}", "made": made, "measurement": id}
                    value = {"value": 2e9 + chance.randrange(1000) * 1e3}
                    figures.append(figure | {name: own[name] for name in own if name in figure} | of_figure | value)
        if day % 7 == 0:
            for test, row in enumerate(compared):
                when = night + timedelta(hours=9, seconds=test)
                named = {"session": f"{night:%Y%m%d}-120000-c0ffee", "time": when.isoformat(timespec="seconds")}
                rows.append(row | named | {"id": secrets.token_hex(16), "made": round(when.timestamp() * 1e6)})
        rows.sort(key=lambda row: row["made"])
        with history.database.opened(writes=True) as connection:
            columns = {name: None for row in rows for name in row}
            connection.execute(MEASUREMENTS.insert(), [columns | row for row in rows])
            connection.execute(FIGURES.insert(), figures)


def _start(history: History, machine: str, tests: list[str], rows: list[Any]) -> None:
    """Ask the history what a session asks before and with its first test.

    With TFPERF_BENCH_PARTS in the environment the CPU seconds of each part are printed.
    """
    from pytest_tfperf.bench.machine_session import MachineSession
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.selection import SelectedTest
    from pytest_tfperf.core.settings import Settings

    assert history.database.path is not None
    selection = {test: SelectedTest(id=test, cpu=True, gpu=True) for test in tests}
    session = Session(
        settings=Settings(values={"dir": history.database.path.parent, "machine": machine}), selection=selection
    )
    topology: Any = SimpleNamespace(machine=machine, gpus=[SimpleNamespace(name="Tesla P100-SXM2-16GB")])
    session.history.prepare()
    parts: dict[str, Callable[[], object]] = {
        "seconds": lambda: session.run_seconds,
        "confirmations": lambda: session.confirmations,
        "provisional": lambda: session.provisional_baselines(topology),
    }
    for name, part in parts.items():
        began = time.process_time()
        part()
        _noted(name, began)
    began = time.process_time()
    past = session.history.earlier.past_sessions_of_machine(rows, before=session.id, least_tests=len(tests) // 2)
    _noted("past sessions", began)
    began = time.process_time()
    MachineSession({row.key: row for row in rows}, past, tests=len(tests)).between_sessions  # noqa: B018
    _noted("variance between sessions", began)
    assert not session.history_faults, session.history_faults


def _noted(what: str, began: float) -> None:
    if os.environ.get("TFPERF_BENCH_PARTS"):
        print(f"  {what}: {time.process_time() - began:.2f} s", file=sys.stderr)


def start_of_a_session(folder: Path, tests: int) -> None:
    """Run in a process of its own, by `years`."""
    from pytest_tfperf.core.baseline import Key

    recorded = f"{_LAST - timedelta(days=int(os.environ['TFPERF_BENCH_DAYS']) - 1 - RECORDED_AGAIN):%Y-%m-%d}"
    rows = []
    for test in range(tests):
        key = Key(Workload(model="resnet50", batch_size=8 + test).id, "1x1")
        rows.append(baseline(nightly_rate(0, test), machine=MACHINES[0], key=key, date=recorded))
    _start(History(folder / "history.sqlite"), MACHINES[0], [nightly_test(test) for test in range(tests)], rows)


def end_of_a_session(folder: Path) -> None:
    """Run in a process of its own, by `years`: what a session drops of old measurements."""
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.settings import Settings
    from pytest_tfperf.features.retention.plugin import session_ended

    record: Any = SimpleNamespace(keeps_history=True, results=[1])
    print(session_ended(Session(settings=Settings(values={"dir": folder})), record), file=sys.stderr)


def commands(folder: Path) -> Iterator[tuple[str, list[str]]]:
    tfperf = [sys.executable, "-m", "pytest_tfperf.cli"]
    place = ["--history", str(folder)]
    test = nightly_test(17)
    page = ["-o", os.devnull]
    for tests in (NIGHTLY, 1):
        named = f"the start of a session of {tests} test{'s' * (tests > 1)}"
        yield named, [sys.executable, __file__, "start", str(folder), str(tests)]
    yield "the end of a session", [sys.executable, __file__, "end", str(folder)]
    yield "history", [*tfperf, "history", *place]
    yield "history --test T", [*tfperf, "history", "--test", test, *place]
    yield "history --commit (unknown)", [*tfperf, "history", "--commit", "feedbee", *place]
    yield "history --session latest --csv", [*tfperf, "history", "--session", "latest", "--csv", *place]
    yield "history changes", [*tfperf, "history", *place, "changes"]
    yield "history changes --test T", [*tfperf, "history", *place, "changes", "--test", test]
    yield "report", [*tfperf, "report", *place, *page]
    yield "report --since 30d", [*tfperf, "report", "--since", "30d", *place, *page]
    yield "report --since 800d", [*tfperf, "report", "--since", "800d", *place, *page]
    yield "explain T", [*tfperf, "explain", test, *place]
    yield "explain (a part of the name)", [*tfperf, "explain", "test_training[17-", *place]
    yield "compare previous latest", [*tfperf, "compare", "previous", "latest", *place]


# A process begins with the peak memory of the one that started it, so a small one is between.
_STARTER: Final = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (600, 600))
null = os.open(os.devnull, os.O_WRONLY)
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)])
_, status, used = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3)
"""


def child(command: list[str]) -> tuple[int, float, float]:
    """Run a command; returns its exit status, CPU seconds and peak memory in MB."""
    done = subprocess.run([sys.executable, "-IS", "-c", _STARTER, *command], stdout=subprocess.PIPE, check=True)
    status, cpu, memory = done.stdout.split()
    return int(status), float(cpu), float(memory)


def years(folder: Path, days: int, only: str) -> None:
    history = History(folder / "history.sqlite")
    assert history.database.path is not None
    if not history.database.path.exists():
        fill_years(history, days)
    os.environ["TFPERF_BENCH_DAYS"] = str(days)
    print(f"{history.database.path.stat().st_size / 1e9:.2f} GB")
    print("| command | CPU, s | memory, MB |\n| --- | --- | --- |")
    for name, command in commands(folder):
        if only in name:
            status, cpu, memory = child(command)
            print(f"| {name} | {cpu:.1f} | {memory:.0f} |{f' exit status {status}' if status else ''}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    modes = parser.add_subparsers(dest="mode")
    of_years = modes.add_parser("years")
    of_years.add_argument("folder", type=Path)
    of_years.add_argument("--days", type=int, default=730)
    of_years.add_argument("--only", default="", help="only commands whose name has this text")
    start = modes.add_parser("start")
    start.add_argument("folder", type=Path)
    start.add_argument("tests", type=int)
    end = modes.add_parser("end")
    end.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    if arguments.mode == "years":
        years(arguments.folder, arguments.days, arguments.only)
    elif arguments.mode == "start":
        start_of_a_session(arguments.folder, arguments.tests)
    elif arguments.mode == "end":
        end_of_a_session(arguments.folder)
    else:
        sizes()


if __name__ == "__main__":
    main()
