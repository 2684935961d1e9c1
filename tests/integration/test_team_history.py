"""Histories that are sent to a real PostgreSQL server, and what happens when it, the network or a disk fails."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import postgres
import pytest
from inner import ANY_THROUGHPUT, Project
from measurements import comparison, measurement, throughput, verdict
from postgres import PASSWORD, Proxy, Server

from pytest_tfperf import cli
from pytest_tfperf.core.history_url import VARIABLE, HistoryUrl
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores.history import History
from pytest_tfperf.stores.history_push import Pushed, push
from pytest_tfperf.stores.push_process import push_new

TESTS = """
    import sys

    def test_passes(throughput, on):
        command = [sys.executable, "-c", "print('9 examples/s\\\\n' * 9)"]
        throughput.check_command(command, name="program", on=on, until_end=True)
"""
ENOUGH_SECONDS = 300.0
"""For a push that must come to its end."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if why := postgres.missing():
        pytest.skip(why)
    with postgres.server() as started:
        yield started


@pytest.fixture
def url(server: Server) -> str:
    """Of an empty database."""
    return server.new_database()


@pytest.fixture
def local(tmp_path: Path) -> History:
    return History(tmp_path / "history.sqlite")


def history_at(url: str) -> History:
    return History(HistoryUrl(url))


def send(local: History, url: str, *, only_new: bool = False) -> Pushed:
    return push(local.database, history_at(url).database, only_new=only_new)


def ids(history: History) -> list[str]:
    return [one.id for one in history.results()]


def judged(test: str = "test_a.py::test", **more: Any) -> Measurement:
    return measurement(**{"test": test, "verdict": verdict(), "session": "monday"} | more)


def large(test: str) -> Measurement:
    """That compression makes no smaller than some 20 kB, so that a push of a few takes many packets."""
    chance = random.Random(test)
    return judged(test, runs=(Run(tuple(Window(1, chance.random()) for _ in range(2000)), 64),))


# What arrives


def test_a_server_has_what_was_sent_in_the_order_in_which_it_was_made(local: History, url: str) -> None:
    for name in "cab":
        local.append(judged(name))
    assert send(local, url) == Pushed(3, 0)
    assert history_at(url).results() == local.results()


def test_measurements_and_comparisons_arrive_whole(local: History, url: str) -> None:
    local.append(judged())
    local.append_comparison(comparison())
    send(local, url)
    there = history_at(url)
    assert (list(there.measurements()), list(there.comparisons())) == ([judged()], [comparison()])


@pytest.mark.parametrize("only_new", [False, True])
def test_what_was_sent_is_not_sent_again(local: History, url: str, only_new: bool) -> None:
    local.append(judged())
    local.append_comparison(comparison())
    send(local, url)
    assert send(local, url, only_new=only_new) == Pushed(0, 0)
    local.append(judged("later"))
    assert send(local, url, only_new=only_new) == Pushed(1, 0)


def test_a_measurement_that_was_decided_after_it_was_sent_is_replaced(local: History, url: str) -> None:
    undecided = local.append(judged(verdict=verdict(runs_wanted=3)))
    send(local, url)
    local.append(judged(), replaces=undecided)
    assert send(local, url, only_new=True) == Pushed(1, 0)
    assert [(one.id, one.outcome) for one in history_at(url).results()] == [(undecided, "PASS")]


def test_a_server_that_lost_its_rows_gets_them_again(local: History, url: str, server: Server) -> None:
    local.append(judged())
    send(local, url)
    server.execute("delete from tfperf_measurements", url)
    assert (send(local, url, only_new=True), send(local, url)) == (Pushed(0, 0), Pushed(1, 0))


def test_ten_machines_at_once_add_nothing_twice(tmp_path: Path, url: str) -> None:
    shared = History(tmp_path / "shared.sqlite")
    for number in range(30):
        shared.append(judged(f"shared::{number}"))
    machines = []
    for machine in range(10):
        path = tmp_path / f"{machine}.sqlite"
        shutil.copy(tmp_path / "shared.sqlite", path)
        machines.append(History(path))
        machines[-1].append(judged("own", machine=f"machine-{machine}"))
    ready = threading.Barrier(10)

    def send_at_once(history: History) -> None:
        ready.wait()
        send(history, url)

    pushers = [threading.Thread(target=send_at_once, args=(history,)) for history in machines]
    for pusher in pushers:
        pusher.start()
    for pusher in pushers:
        pusher.join()
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
    assert len(there.results(test=name)) == len(list(there.measurements(test=name))) == 1


def test_a_history_of_another_version_is_refused(local: History, url: str, server: Server) -> None:
    local.append(judged())
    send(local, url)
    server.execute("update tfperf_history set version = 2", url)
    with pytest.raises(TfperfError, match=r"schema 2; this version reads schema 1\): update it"):
        send(local, url)


# What fails


def rest_is_sent(local: History, url: str) -> bool:
    """Whether the next push delivers what the server lacks, and nothing twice."""
    lacking = set(ids(local)) - set(ids(history_at(url)))
    return send(local, url, only_new=True) == Pushed(len(lacking), 0) and ids(history_at(url)) == ids(local)


def filled(local: History, count: int) -> History:
    for number in range(count):
        local.append(large(f"test::{number}"))
    return local


def test_what_a_server_killed_during_a_push_lacks_is_sent_by_the_next(tmp_path: Path) -> None:
    if why := postgres.missing():
        pytest.skip(why)
    with postgres.server() as server:
        url, local = server.new_database(), filled(History(tmp_path / "history.sqlite"), 150)
        proxy = Proxy(server.port, 3_000_000, server.kill)  # of about 4.5 MB
        with pytest.raises(TfperfError, match=r"/history1: the history can't be used: "):
            send(local, server.url("history1", proxy.port))
        proxy.close()
        server.start()
        assert len(ids(history_at(url))) == 100  # the first transaction
        assert rest_is_sent(local, url)


@pytest.mark.parametrize("after_bytes", [0, 500_000], ids=["from the start", "in the middle"])
def test_a_network_that_stalls_is_given_up_in_one_line(
    local: History, url: str, server: Server, after_bytes: int
) -> None:
    filled(local, 40)
    proxy = Proxy(server.port, after_bytes)
    stalled = HistoryUrl(url.replace(f":{server.port}/", f":{proxy.port}/"))
    said = push_new(local.database.path.parent, stalled, seconds=3.0)
    assert said == f"history not sent whole: {stalled} took more than 3 s. The next push sends the rest"
    proxy.close()
    assert push_new(local.database.path.parent, HistoryUrl(url), ENOUGH_SECONDS) == ""
    assert ids(history_at(url)) == ids(local)
