"""Documents on a real PostgreSQL server, and what happens when it, the network or a disk fails."""

from __future__ import annotations

import random
import subprocess
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from pytest_tfperf.core.history_url import HistoryUrl
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.sharing import postgresql
from pytest_tfperf.features.sharing.destination import MOST_BYTES, Destination
from pytest_tfperf.features.sharing.postgresql import PostgresqlTable
from pytest_tfperf.features.sharing.stored_folder import Folder
from tests.features.sharing.contract import CONTRACT, NAME, Opened, name_of
from tests.helpers.patience import PATIENCE_SECONDS
from tests.services import postgres
from tests.services.postgres import Proxy, Server
from tests.services.small_disk import leave_a_megabyte, small_disk

# Of some 30 kB each: a put of them takes many packets and transactions.
LARGE = {f"v1/box/2026-11/{number}.json.gz": random.Random(number).randbytes(30_000) for number in range(40)}

WRONG_PASSWORD = "hunter2"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if why := postgres.missing():
        pytest.skip(why)
    with postgres.server() as started:
        for role in ("reader", "writer"):
            started.execute(f"create role {role} login password 'plain'")
        yield started


@pytest.fixture(scope="module")
def database(server: Server) -> str:
    """One for all tests: a database is a thousand files."""
    return server.new_database()


@pytest.fixture
def url(database: str, server: Server) -> str:
    """Of a database without a table."""
    server.execute("drop schema public cascade; create schema public; grant usage on schema public to public", database)
    return database


def table(url: str) -> PostgresqlTable:
    return PostgresqlTable(HistoryUrl(url))


def of_role(role: str, url: str) -> PostgresqlTable:
    return table(f"postgresql://{role}:plain@{url.rpartition('@')[2]}")


@pytest.mark.parametrize("check", CONTRACT, ids=name_of)
def test_a_table(check: Callable[[Opened], None], url: str) -> None:
    check(lambda: table(url))


def test_all_that_make_the_table_at_once_find_it(url: str, server: Server) -> None:
    for _ in range(20):  # each time PostgreSQL finds out in another way
        server.execute("drop table if exists tfperf_documents", url)
        with ThreadPoolExecutor(10) as writers:
            list(writers.map(lambda _: table(url).put({NAME: b"x"}), range(10)))
    assert list(table(url).list()) == [NAME]


def test_a_reader_without_further_rights_finds_what_was_put(url: str, server: Server) -> None:
    reader = of_role("reader", url)
    assert list(reader.list()) == []
    table(url).put({NAME: b"x"})
    server.execute("grant select on tfperf_documents to reader", url)
    assert (list(reader.list()), list(reader.get([NAME]))) == ([NAME], [(NAME, b"x")])
    with pytest.raises(TfperfError, match="the history can't be used: permission denied for table tfperf_documents"):
        reader.put({f"{NAME}2": b"x"})


def test_a_writer_needs_no_right_to_make_the_table_that_exists(url: str, server: Server) -> None:
    table(url).put({NAME: b"x"})
    server.execute("grant select, insert on tfperf_documents to writer", url)
    of_role("writer", url).put({f"{NAME}2": b"x"})
    assert sorted(table(url).list()) == [NAME, f"{NAME}2"]


def test_a_prefix_is_a_range_of_the_index(url: str, server: Server) -> None:
    table(url).put({NAME: b"x"})
    many = "select 'v1/m' || n % 100 || '/' || n, '' from generate_series(1, 20000) n"
    server.execute(f"insert into tfperf_documents (name, document) {many}; analyze tfperf_documents", url)
    with psycopg.connect(url) as connection:
        plan = connection.execute(f"explain {postgresql._LIST}".encode(), ("v1/m7/%",)).fetchall()
    assert "Index" in str(plan)
    assert len(table(url).list("v1/m7/")) == 200


def test_a_document_that_is_too_large_stays_where_it_is(url: str, server: Server) -> None:
    table(url).put({NAME: b"x"})
    content = f"decode(repeat('00', {MOST_BYTES + 1}), 'hex')"
    server.execute(f"insert into tfperf_documents (name, document) values ('v1/large', {content})", url)
    assert list(table(url).get(["v1/large", NAME])) == [(NAME, b"x")]


@pytest.mark.parametrize("asks", ["sslmode=require", "application_name=it&sslmode=verify-full"])
def test_options_of_a_url_reach_the_driver(url: str, asks: str) -> None:
    with pytest.raises(TfperfError, match=r"server does not support SSL|root certificate"):
        table(f"{url}?{asks}").list()


def test_a_wrong_password_is_told_without_it(url: str) -> None:
    wrong = table(url.replace("s3cr%25t", WRONG_PASSWORD))
    with pytest.raises(TfperfError, match='password authentication failed for user "team"') as raised:
        wrong.list()
    assert WRONG_PASSWORD not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("host", ["127.0.0.1:1", "no-such-host.invalid"])
def test_a_server_that_can_t_be_reached_is_told_without_a_secret(host: str) -> None:
    far = table(f"postgresql://team:{WRONG_PASSWORD}@{host}/history")
    with pytest.raises(TfperfError, match=f"^postgresql://{host}/history: the history can't be used: ") as raised:
        far.list()
    assert WRONG_PASSWORD not in "".join(traceback.format_exception(raised.value))


def test_a_network_that_stalls_is_given_up(url: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "_SILENT_SECONDS", 0.3)
    proxy = Proxy(server.port, 3_000)
    with pytest.raises(TfperfError, match=r"the history can't be used: "):
        table(url.replace(f":{server.port}/", f":{proxy.port}/")).put(LARGE)
    proxy.close()


def is_whole(place: Destination) -> bool:
    """Whether some documents, and not all, arrived, each of them whole, and a second put brings the others."""
    arrived = dict(place.get(place.list()))
    is_part = 0 < len(arrived) < len(LARGE) and arrived.items() <= LARGE.items()
    place.put(LARGE)
    return is_part and dict(place.get(place.list())) == LARGE


def test_what_a_server_killed_during_a_put_lacks_is_stored_by_the_next() -> None:
    if why := postgres.missing():
        pytest.skip(why)
    with postgres.server() as server:
        url = server.new_database()
        proxy = Proxy(server.port, 700_000, server.kill)
        with pytest.raises(TfperfError, match=r"/history1: the history can't be used: "):
            table(server.url("history1", proxy.port)).put(LARGE)
        assert proxy.has_failed.wait(PATIENCE_SECONDS)
        proxy.close()
        server.start()
        assert is_whole(table(url))


def test_a_full_disk_of_the_server_costs_nothing_that_arrived(server: Server) -> None:
    with small_disk() as folder:
        server.own(folder)
        server.execute(f"create tablespace small location '{folder}'")
        url = server.new_database("tablespace small")
        server.execute("checkpoint")  # what it has not written yet would need space, too
        filler = leave_a_megabyte(folder)
        with pytest.raises(TfperfError, match="No space left on device"):
            table(url).put(LARGE)
        filler.unlink()
        assert is_whole(table(url))
        server.execute(f"drop database {url.rpartition('/')[2]}")
        server.execute("drop tablespace small")


def test_a_full_disk_of_a_folder_costs_nothing_that_is_there() -> None:
    with small_disk() as folder:
        filler = leave_a_megabyte(folder)
        with pytest.raises(TfperfError, match=r"can't be written: No space left on device\. Free some space, or"):
            Folder(folder / "history").put(LARGE)
        filler.unlink()
        assert is_whole(Folder(folder / "history"))


def test_a_folder_that_is_read_only_is_told() -> None:
    with small_disk() as folder:  # root may write into any folder, but not on such a disk
        place = Folder(folder / "history")
        place.put({NAME: b"x"})
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        with pytest.raises(
            TfperfError, match=r"/history can't be written: Read-only file system\. Correct the permissions"
        ):
            place.put(LARGE)
        assert list(place.get(place.list())) == [(NAME, b"x")]
