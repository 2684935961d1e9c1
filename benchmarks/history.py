"""What a history costs: a session's start and end, the commands, and what travels. Prints tables.

    PYTHONPATH=. python benchmarks/history.py years FOLDER [--days 730]   # 200 tests a night on 5 machines
    PYTHONPATH=. python benchmarks/history.py travel FOLDER               # documents of the history that `years` wrote

The first writes FOLDER/history.sqlite where there is none (730 days: 730,000 measurements, three minutes of CPU time),
and runs each command on it once, in a process of its own: CPU seconds and peak memory. CPU time holds on a machine that
does other things, too. To measure another state of the code on the same file, put its folder first in PYTHONPATH.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from sqlite3 import Connection
from types import SimpleNamespace
from typing import Any, Final

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.stores.history import History
from pytest_tfperf.stores.history_file import environment_number, insert, last_number, series_number
from pytest_tfperf.stores.history_rows import measurement_row, value_rows
from tests.helpers.measurements import baseline, interleaved, measurement, run, throughput, verdict

# Two years of nights

MACHINES: Final = tuple(f"dgx{number}-p100" for number in range(1, 6))
NIGHTLY: Final = 200
ENVIRONMENT: Final = {
    "driver": "575.57.08",
    "kernel": "6.8.0",
    "numpy": "2.4.6",
    "python": "3.12",
    "tensorflow": "2.21.0",
}
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
        environment=ENVIRONMENT,
        verdict=of_rate,
        figures=(_peak_memory(),) if test % 4 == 0 else (),
    )
    return made


def _peak_memory() -> Verdict:
    of_memory: Verdict = verdict(Outcome.PASS, figure=Figure("peak_memory"), value=2e9, baseline=None)
    return of_memory


class _Template:
    """The rows of a measurement and its JSON, for all nights and machines."""

    def __init__(self, m: Measurement) -> None:
        self.row, self.values = measurement_row(m), value_rows(m)
        self.whole = plain(m, brief=True)
        rest = json.dumps({name: value for name, value in self.whole.items() if name not in _OF_ONE_NIGHT})[1:].encode()
        # What differs is compressed each time, and the rest once: a deflate stream may be a concatenation.
        packing = zlib.compressobj(wbits=-15)
        self.rest, self.packed_rest = rest, packing.compress(rest) + packing.flush()
        self.is_judged = m.verdict is not None

    def made(self, own: dict[str, Any], rate: float, base: float, date: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the columns and details of a measurement, and the columns of its throughput.

        `own` are session, time, commit and machine.
        """
        columns: dict[str, Any] = {"low": rate * 0.995, "high": rate * 1.005}
        run_value = self.whole["throughput"]["runs"][0] | {"log_rate": math.log(rate)}
        summary = self.whole["throughput"] | columns | {"examples_per_sec": rate, "runs": [run_value]}
        packing = zlib.compressobj(wbits=-15)
        first = json.dumps(own | {"throughput": summary})[:-1].encode() + b", "
        packed = packing.compress(first) + packing.flush(zlib.Z_FULL_FLUSH) + self.packed_rest
        checksum = zlib.adler32(self.rest, zlib.adler32(first)).to_bytes(4, "big")
        columns |= {"value": rate, "of_runs": json.dumps([[*run_value.values(), 0]])}
        if self.is_judged:
            columns |= {"baseline": base, "baseline_date": date, "change": rate / base - 1}
        own_row = {"whole": b"\x78\x9c" + packed + checksum, "commit": own["commit"]}
        return self.row | own_row, self.values[0][1] | columns


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
    slower = {test: chance.randrange(days) for test in chance.sample(range(NIGHTLY), 8)}
    for day in range(days):
        night = _LAST - timedelta(days=days - 1 - day)
        recorded = day - day % RECORDED_AGAIN
        date = f"{_LAST - timedelta(days=days - 1 - recorded):%Y-%m-%d}"
        commit = f"{random.Random(day).getrandbits(64):016x}"
        with history.database.opened(writes=True) as connection:
            environment = environment_number(connection, json.dumps(ENVIRONMENT))
            drifts = [chance.gauss(0, 0.004) for _ in MACHINES]
            for test in range(NIGHTLY):
                for machine, drift in enumerate(drifts):
                    session = f"{night:%Y%m%d}-0300{machine:02}-{random.Random(f'{day}-{machine}').getrandbits(24):06x}"
                    when = night + timedelta(seconds=30 * test + machine)
                    base = nightly_rate(machine, test)
                    lost = 0.03 if day >= slower.get(test, days) else 0.0
                    rate = base * math.exp(drift + chance.gauss(0, 0.006)) * (1 - lost)
                    outcome = (
                        None if day == recorded else Outcome.REGRESSED if chance.random() < 0.005 else Outcome.PASS
                    )
                    template = templates[test, outcome]
                    own = {"session": session, "time": when.isoformat(), "commit": commit, "machine": MACHINES[machine]}
                    row, of_rate = template.made(own, rate, base, date)
                    memory = {"value": 2e9 + chance.randrange(1000) * 1e3}
                    of_values = [of_rate, *(value | memory for _, value in template.values[1:])]
                    series = [row | {"machine": MACHINES[machine]} for row, _ in template.values]
                    _add(connection, own, row, list(zip(series, of_values, strict=True)), environment, when)
        if day % 7 == 0:
            for test, m in enumerate(beside):
                when = night + timedelta(hours=9, seconds=test)
                history.append(replace(m, session=f"{night:%Y%m%d}-120000-c0ffee", time=when.isoformat()))


def _add(
    connection: Connection,
    own: dict[str, Any],
    row: dict[str, Any],
    values: list[tuple[dict[str, Any], dict[str, Any]]],
    environment: int,
    when: datetime,
) -> None:
    began, made = int(when.timestamp()), int(when.timestamp()) * 1_000_000
    session = {"session": own["session"], "machine": own["machine"], "host": "host", "began": began}
    insert(connection, "tfperf_sessions", [session], otherwise="or ignore")
    ((of,),) = connection.execute(
        "select number from tfperf_sessions where session = ? and machine = ?", (own["session"], own["machine"])
    )
    numbers = [series_number(connection, series, made) for series, _ in values]
    refers = {"session": of, "series": numbers[0], "environment": environment, "made": made}
    whole = row.pop("whole")
    insert(connection, "tfperf_measurements", [row | refers | {"time": began}])
    number = last_number(connection)
    insert(connection, "tfperf_details", [{"measurement": number, "whole": whole}])
    of_values = [
        value | {"measurement": number, "series": series, "made": made}
        for series, (_, value) in zip(numbers, values, strict=True)
    ]
    for value in of_values:
        insert(connection, "tfperf_values", [value])


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


def travel(folder: Path) -> None:
    """Print the size of a session's document, and what writing one and adding a year of them costs."""
    from pytest_tfperf.stores import documents

    database = History(folder / "history.sqlite").database
    mine = {name: of for name, of in documents.sessions_of(database).items() if f"/{MACHINES[0]}/" in name}
    year = dict(list(mine.items())[-365:])
    began = time.process_time()
    encoded = {name: documents.encoded(database, number) for name, number in year.items()}
    writing = (time.process_time() - began) / len(encoded)
    print(f"a document of {NIGHTLY} tests: {statistics.median(map(len, encoded.values())) / 1e3:.1f} kB")
    print(f"writing one: {writing * 1e3:.0f} ms of CPU time")
    with tempfile.TemporaryDirectory() as empty:
        began = time.process_time()
        month_ago = (_LAST - timedelta(days=90)).timestamp()
        new = History(Path(empty) / "history.sqlite").database
        *_, (added, _) = documents.add(new, reversed(encoded.items()), whole_since=month_ago)
        print(f"adding {added} of them: {time.process_time() - began:.1f} s of CPU time")


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
    modes = parser.add_subparsers(dest="mode", required=True)
    of_years = modes.add_parser("years")
    of_years.add_argument("folder", type=Path)
    of_years.add_argument("--days", type=int, default=730)
    of_years.add_argument("--only", default="", help="only commands whose name has this text")
    start = modes.add_parser("start")
    start.add_argument("folder", type=Path)
    start.add_argument("tests", type=int)
    end = modes.add_parser("end")
    end.add_argument("folder", type=Path)
    of_travel = modes.add_parser("travel")
    of_travel.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    if arguments.mode == "years":
        years(arguments.folder, arguments.days, arguments.only)
    elif arguments.mode == "start":
        start_of_a_session(arguments.folder, arguments.tests)
    elif arguments.mode == "travel":
        travel(arguments.folder)
    else:
        end_of_a_session(arguments.folder)


if __name__ == "__main__":
    main()
