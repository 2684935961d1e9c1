"""Histories that are sent to a real PostgreSQL server, and what happens when it, the network or a disk fails."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout, suppress
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import postgres
import pytest
from postgres import Proxy, Server
from small_disk import leave_a_megabyte, small_disk
from sqlalchemy import select

from pytest_tfperf import cli
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.history_url import VARIABLE, HistoryUrl
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Verdict, Want, Wants
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import history_database
from pytest_tfperf.stores.history import History
from pytest_tfperf.stores.history_tables import FIGURES as FIGURES_TABLE
from pytest_tfperf.stores.old_details import drop_details
from tests.helpers.inner import ANY_THROUGHPUT, Project
from tests.helpers.measurements import interleaved, measurement, session_verdict, verdict
from tests.helpers.patience import PATIENCE_SECONDS

TESTS = """
    import sys
    from pytest_tfperf import Command

    def test_passes(throughput, on):
        command = [sys.executable, "-c", "print('9 examples/s\\\\n' * 9)"]
        throughput.check(Command(command, name="program", reads=RATES_TO_THE_END), on=on)
"""
WRONG_PASSWORD = "hunter2"
NOBODY_LISTENS = "postgresql://team:secret@127.0.0.1:1/history"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if why := postgres.missing():
        pytest.skip(why)
    with postgres.server() as started:
        yield started


@pytest.fixture(scope="module")
def database(server: Server) -> str:
    """One for all tests: a database is a thousand files."""
    return server.new_database()


@pytest.fixture
def url(database: str, server: Server) -> str:
    """Of a database without tables."""
    server.execute("drop schema public cascade; create schema public", database)
    return database


@pytest.fixture
def local(tmp_path: Path) -> History:
    return History(tmp_path / "history.sqlite")


def history_at(url: str) -> History:
    return History(HistoryUrl(url))


def push_command(local: History, url: str) -> list[str]:
    assert local.database.path is not None
    return ["history", "push", "--history", str(local.database.path.parent), url]


def send(local: History, url: str, *, only_new: bool = False) -> int:
    """The number of measurements that `tfperf history push` sends.

    Raises:
        TfperfError: what the command says if it fails.
    """
    with redirect_stdout(StringIO()) as said, redirect_stderr(StringIO()) as why:
        status = cli.main([*push_command(local, url), *["--new"] * only_new])
    if status:
        raise TfperfError(why.getvalue().strip().removeprefix("tfperf: "))
    return int(said.getvalue().rpartition(": sent ")[2].split()[0])


def ids(history: History) -> list[str]:
    return [one.id for one in history.results()]


def figures_at(url: str) -> list[tuple[str, str, float]]:
    with history_at(url).database.opened() as connection:
        query = select(FIGURES_TABLE.c.test, FIGURES_TABLE.c.figure, FIGURES_TABLE.c.value).order_by(
            FIGURES_TABLE.c.made
        )
        return [(test, figure, value) for test, figure, value in connection.execute(query)]


def judged(test: str = "test_a.py::test", **more: Any) -> Measurement:
    return measurement(**{"test": test, "verdict": verdict(), "session": "monday"} | more)


def large(test: str) -> Measurement:
    """Of some 30 kB, which compression does not make smaller: a push of a few takes many packets and transactions."""
    return judged(test, environment={"noise": random.Random(test).randbytes(30_000).hex()})


# What arrives


def test_a_server_has_what_was_sent_in_the_order_in_which_it_was_made(local: History, url: str) -> None:
    for name in "cab":
        local.append(judged(name))
    assert send(local, url) == 3
    assert list(history_at(url).results()) == list(local.results())


def test_measurements_with_and_without_another_side_arrive_whole(local: History, url: str) -> None:
    local.append(judged())
    local.append(interleaved())
    send(local, url)
    there = history_at(url)
    assert list(there.measurements()) == [judged(), interleaved()]


@pytest.mark.parametrize("only_new", [False, True])
def test_the_verdicts_on_a_session_arrive(local: History, url: str, only_new: bool) -> None:
    for day in (1, 2):
        local.append_verdict(session_verdict(), session=f"s{day}", time=f"2026-01-0{day}T00:00:00+00:00")
        assert send(local, url, only_new=only_new) == 0
        assert history_at(url).verdicts(session=f"s{day}", machine="box") == [session_verdict()]


FIGURES = tuple(Verdict(figure=Figure(name), value=value) for name, value in (("loss", 2.5), ("first_step", 3.0)))


@pytest.mark.parametrize("only_new", [False, True])
def test_figures_arrive_as_rows(local: History, url: str, server: Server, only_new: bool) -> None:
    for test in ("a", "b"):
        local.append(judged(test, figures=FIGURES))
        send(local, url, only_new=only_new)
    assert figures_at(url) == [
        ("a", "loss", 2.5),
        ("a", "first_step", 3.0),
        ("b", "loss", 2.5),
        ("b", "first_step", 3.0),
    ]


def test_figures_are_read_from_a_server_as_from_a_file(local: History, url: str, server: Server) -> None:
    local.append(judged(figures=FIGURES))
    send(local, url)
    found = list(history_at(url).figure_results())
    assert (len(found), found) == (2, list(local.figure_results()))


def test_a_server_answers_as_a_file_does(local: History, url: str) -> None:
    for day, name in enumerate("abcb", start=1):
        local.append(judged(name, session=f"s{day}", commit=f"{day}00ff", time=f"2026-01-0{day}T00:00:00+00:00"))
    local.append(interleaved(session="s5", test="c"))
    send(local, url)
    there = history_at(url)
    for asked in ASKED:
        assert asked(there) == asked(local)


ASKED: tuple[Callable[[History], Any], ...] = (
    lambda history: history.latest(),
    lambda history: history.latest(test="b"),
    lambda history: list(history.points(machine="box")),
    lambda history: list(history.newest_sessions()),
    lambda history: list(history.newest_sessions("box", alone_only=True)),
    lambda history: list(history.results(commit="300", machine="box")),
    lambda history: list(history.comparisons()),
    lambda history: [history.has(commit=commit) for commit in ("2", "5", "%")],
    lambda history: history.values_of("commit", test="b"),
    lambda history: history.times_of(machine="box"),
)


def test_the_details_of_a_server_are_dropped_as_those_of_a_file(local: History, url: str) -> None:
    for day in range(1, 16):
        local.append(judged(session=f"s{day}", time=f"2026-01-{day:02}T00:00:00+00:00", figures=FIGURES[: day == 2]))
    send(local, url)
    there, before = history_at(url), datetime(2026, 2, 1, tzinfo=UTC)
    assert drop_details(there.database, before)[0] == 4  # the last ten stay, and the one with a figure
    assert drop_details(there.database, before)[0] == 0
    assert [m.session for m in there.measurements()] == ["s2", *(f"s{day}" for day in range(6, 16))]
    assert len(list(there.results())) == 15


@pytest.mark.parametrize("only_new", [False, True])
def test_what_was_sent_is_not_sent_again(local: History, url: str, only_new: bool) -> None:
    local.append(judged())
    local.append(interleaved())
    send(local, url)
    assert send(local, url, only_new=only_new) == 0
    local.append(judged("later"))
    assert send(local, url, only_new=only_new) == 1


def test_a_measurement_that_was_decided_after_it_was_sent_is_replaced(local: History, url: str) -> None:
    undecided = local.append(judged(verdict=verdict(wants=Wants(Want.RUNS, 3))))
    send(local, url)
    local.append(judged(), replaces=undecided)
    assert send(local, url, only_new=True) == 1
    assert [(one.id, one.outcome) for one in history_at(url).results()] == [(undecided, "PASS")]


def test_a_server_that_lost_its_rows_gets_them_again(local: History, url: str, server: Server) -> None:
    local.append(judged())
    send(local, url)
    server.execute("delete from tfperf_measurements", url)
    assert (send(local, url, only_new=True), send(local, url)) == (0, 1)


def test_ten_machines_at_once_add_nothing_twice(tmp_path: Path, url: str) -> None:
    shared = History(tmp_path / "shared.sqlite")
    for number in range(30):
        shared.append(judged(f"shared::{number}"))
    machines = []
    for machine in range(10):
        path = tmp_path / str(machine) / "history.sqlite"
        path.parent.mkdir()
        shutil.copy(tmp_path / "shared.sqlite", path)
        machines.append(History(path))
        machines[-1].append(judged("own", machine=f"machine-{machine}"))
    commands = [[sys.executable, "-m", "pytest_tfperf.cli", *push_command(history, url)] for history in machines]
    with ThreadPoolExecutor(10) as pushers:
        assert {done.returncode for done in pushers.map(subprocess.run, commands)} == {0}
    expected = {one for history in machines for one in ids(history)}
    found = ids(history_at(url))
    assert (len(found), set(found)) == (40, expected)


HOSTILE = {
    "SQL": "x'; drop table tfperf_measurements; --",
    "NUL": "test\0name",
    "a lone surrogate": "test\udcff",
    "10 kB": "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=10_000)),
    "signs of all kinds": "%s %(x)s :y \\ \" ' \N{SNOWMAN} \u202e <script>",
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_test_name_arrives(local: History, url: str, name: str) -> None:
    local.append(judged(name))
    send(local, url)
    there = history_at(url)
    assert len(list(there.results(test=name))) == len(list(there.measurements(test=name))) == 1


def test_a_history_of_another_version_is_refused(local: History, url: str, server: Server) -> None:
    local.append(judged())
    send(local, url)
    server.execute("update tfperf_history set version = 2", url)
    with pytest.raises(TfperfError, match=r"version 2 .* reads version 1\. Upgrade pytest-tfperf, or"):
        send(local, url)


# What fails


def rest_is_sent(local: History, url: str) -> bool:
    """Whether the next push delivers what the server lacks, and nothing twice."""
    lacking = set(ids(local))
    with suppress(TfperfError):  # the server may have got nothing, not even its tables
        lacking -= set(ids(history_at(url)))
    return send(local, url, only_new=True) == len(lacking) and ids(history_at(url)) == ids(local)


def filled(local: History, count: int) -> History:
    for number in range(count):
        local.append(large(f"test::{number}"))
    return local


def test_what_a_server_killed_during_a_push_lacks_is_sent_by_the_next(tmp_path: Path) -> None:
    if why := postgres.missing():
        pytest.skip(why)
    with postgres.server() as server:
        url, local = server.new_database(), filled(History(tmp_path / "history.sqlite"), 40)
        proxy = Proxy(server.port, 700_000, server.kill)
        with pytest.raises(TfperfError, match=r"/history1: the history can't be used: "):
            send(local, server.url("history1", proxy.port))
        assert proxy.has_failed.wait(PATIENCE_SECONDS)
        proxy.close()
        server.start()
        assert 0 < len(ids(history_at(url))) < 40
        assert rest_is_sent(local, url)


def test_a_push_without_a_session_gives_a_stalled_network_up_too(
    local: History, url: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_database, "_SILENT_SECONDS", 0.3)
    local.append(judged())
    proxy = Proxy(server.port, 3_000)
    with pytest.raises(TfperfError, match=r"the history can't be used: "):
        send(local, url.replace(f":{server.port}/", f":{proxy.port}/"))
    proxy.close()


@pytest.mark.parametrize("asks", ["sslmode=require", "application_name=it&sslmode=verify-full"])
def test_options_of_a_url_reach_the_driver(local: History, url: str, asks: str) -> None:
    local.append(judged())
    with pytest.raises(TfperfError, match=r"server does not support SSL|root certificate"):
        send(local, f"{url}?{asks}")


def test_a_wrong_password_is_told_without_it(local: History, url: str) -> None:
    local.append(judged())
    wrong = url.replace("s3cr%25t", WRONG_PASSWORD)
    with pytest.raises(TfperfError, match='password authentication failed for user "team"') as raised:
        send(local, wrong)
    assert WRONG_PASSWORD not in "".join(traceback.format_exception(raised.value))


def test_a_server_without_a_history_says_how_to_send_one(url: str) -> None:
    with pytest.raises(TfperfError, match="no history yet; send one: tfperf history push"):
        list(history_at(url).results())


# Full disks


def test_a_full_disk_of_the_server_costs_nothing_that_was_sent(local: History, server: Server) -> None:
    with small_disk() as folder:
        server.own(folder)
        server.execute(f"create tablespace small location '{folder}'")
        url = server.new_database("tablespace small")
        server.execute("checkpoint")  # what it has not written yet would need space, too
        filler = leave_a_megabyte(folder)
        with pytest.raises(TfperfError, match="No space left on device"):
            send(filled(local, 40), url)
        filler.unlink()
        assert rest_is_sent(local, url)
        server.execute(f"drop database {url.rpartition('/')[2]}")
        server.execute("drop tablespace small")


def test_a_full_disk_of_the_session_costs_no_result() -> None:
    with small_disk() as folder:
        filler = leave_a_megabyte(folder)
        history, kept = History(folder / "history.sqlite"), []

        def fill_up() -> None:
            for number in range(40):
                kept.append(history.append(large(f"test::{number}")))  # noqa: PERF401  # those before it raises

        with pytest.raises(
            TfperfError, match=r"history\.sqlite: the history can't be used: the disk is full\. Free some"
        ):
            fill_up()
        assert ids(history) == kept
        filler.unlink()
        kept.append(history.append(large("next")))
        assert ids(history) == kept


# Sessions and the command


@pytest.fixture(scope="module")
def project(shared: Project) -> Project:
    shared.tests(TESTS)
    shared.baseline("program", unit="examples", **ANY_THROUGHPUT)
    return shared


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions that wait for their push as long as the machine needs."""
    monkeypatch.setattr("pytest_tfperf.features.team.plugin.SESSION_SECONDS", PATIENCE_SECONDS)


@pytest.mark.usefixtures("patient")
def test_a_session_sends_its_history_and_keeps_the_password_to_itself(project: Project, url: str) -> None:
    finished = project.run("-o", f"tfperf_history_url={url}", "-vv", "-ra")
    assert (finished.status, ids(history_at(url))) == (0, ids(project.history)), finished.text
    stored = [path for path in project.folder.rglob("*") if path.is_file() and b"s3cr" in path.read_bytes()]
    assert ("s3cr" in finished.text, stored) == (False, [])


@pytest.mark.usefixtures("patient")
def test_a_session_whose_server_is_down_keeps_its_verdicts_and_says_so_in_a_line(project: Project) -> None:
    finished = project.run(TFPERF_HISTORY_URL=NOBODY_LISTENS)
    lines = [line for line in finished.text.splitlines() if "history not sent" in line]
    assert (finished.status, finished.kinds, len(lines)) == (0, {"test_passes": "passed"}, 1), finished.text
    assert "secret" not in finished.text


@pytest.mark.parametrize("after_bytes", [0, 700_000], ids=["from the start", "in the middle"])
def test_a_session_gives_a_network_that_stalls_up_in_one_line(
    project: Project, url: str, server: Server, after_bytes: int
) -> None:
    filled(project.history, 40)
    proxy = Proxy(server.port, after_bytes)
    stalled = url.replace(f":{server.port}/", f":{proxy.port}/")
    finished = project.run(TFPERF_HISTORY_URL=stalled)
    said = f"history not sent whole: {HistoryUrl(stalled)} took more than 5 s. The next push sends the rest"
    assert (finished.status, said in finished.text) == (0, True), finished.text
    proxy.close()
    assert rest_is_sent(project.history, url)


def test_a_session_says_so_where_the_secret_is_empty(project: Project) -> None:
    finished = project.run(TFPERF_HISTORY_URL="")
    assert (finished.status, "history not sent: TFPERF_HISTORY_URL is empty" in finished.text) == (0, True)


def test_the_command_takes_the_url_from_the_environment(
    local: History, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    local.append(judged())
    monkeypatch.setenv(VARIABLE, url)
    folder = str(local.database.path.parent)
    assert cli.main(["history", "push", "--history", folder]) == 0
    said = capsys.readouterr().out
    assert said == f"{HistoryUrl(url)}: sent 1 measurement\n"
    assert cli.main(["history", "--history", url, "--csv"]) == 0
    assert "test_a.py::test" in capsys.readouterr().out
