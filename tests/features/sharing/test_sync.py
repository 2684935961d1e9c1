"""Pull and push between a history and a place that keeps documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from pytest_tfperf import cli
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.sharing import sync
from pytest_tfperf.features.sharing.stored_folder import Folder
from pytest_tfperf.features.sharing.sync import pull, push
from pytest_tfperf.stores import documents
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import measurement, verdict

DAY = "2026-01-{:02}T03:00:00+00:00"


def history_of(folder: Path, *days: int, machine: str = "box") -> History:
    history = History(folder / "history.sqlite")
    for day in days:
        session = f"202601{day:02}-{machine}"
        history.append(measurement(session=session, machine=machine, time=DAY.format(day), verdict=verdict()))
    return history


def sessions(history: History) -> list[str]:
    return sorted({value.session for value in history.values()})


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "place")


def send(history: History, place: Folder) -> int:
    sent, faults = push(history.database, place, documents.sessions_of(history.database))
    assert faults == []
    return sent


def bring(history: History, place: Folder, *machines: str) -> int:
    return max((added for added, _ in pull(history.database, place, machines)), default=0)


def test_what_one_pushes_another_pulls(tmp_path: Path, place: Folder) -> None:
    ours, theirs = history_of(tmp_path / "a", 1, 2), history_of(tmp_path / "b", 3, machine="other")
    assert [send(ours, place), send(theirs, place), bring(ours, place), bring(theirs, place)] == [2, 1, 1, 2]
    assert sessions(ours) == sessions(theirs) == ["20260101-box", "20260102-box", "20260103-other"]


def test_the_newest_sessions_are_sent_first_and_few_at_a_time(
    tmp_path: Path, place: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "_FIRST_BYTES", 1)
    sent: list[list[str]] = []
    monkeypatch.setattr(place, "put", lambda portion: sent.append([name[21:23] for name in portion]))
    send(history_of(tmp_path / "a", 1, 2, 3), place)
    assert [name for portion in sent for name in portion] == ["03", "02", "01"]
    assert len(sent[0]) == 1


def test_what_is_there_is_not_sent_again(tmp_path: Path, place: Folder) -> None:
    history = history_of(tmp_path / "a", 1, 2)
    assert [send(history, place), send(history, place)] == [2, 0]
    history_of(tmp_path / "a", 3)
    assert send(history, place) == 1


def test_a_place_that_lost_documents_gets_them_again(tmp_path: Path, place: Folder) -> None:
    history = history_of(tmp_path / "a", 1, 2)
    send(history, place)
    next((tmp_path / "place").rglob("*.json.gz")).unlink()
    assert send(history, place) == 1


def test_the_sessions_of_a_machine_come_first_and_the_newest_of_them(
    tmp_path: Path, place: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(history_of(tmp_path / "a", 1, 2, 3), place)
    send(history_of(tmp_path / "b", 4, 5, machine="other"), place)
    monkeypatch.setattr(documents, "_AT_ONCE", 1)
    new = History(tmp_path / "new" / "history.sqlite")
    brought = [sorted(set(sessions(new))) for _ in pull(new.database, place, ["box"])]
    in_order = [(set(after) - set(before)).pop() for before, after in zip([[], *brought], brought, strict=False)]
    assert in_order == ["20260103-box", "20260102-box", "20260101-box", "20260105-other", "20260104-other"]


class _Breaks:
    """A place whose network fails after a document."""

    def __init__(self, place: Folder) -> None:
        self._place = place

    def list(self, prefix: str = "v1/") -> Sequence[str]:
        return self._place.list(prefix)

    def get(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        yield from self._place.get(names[:1])
        raise TfperfError("the network is gone")

    def put(self, documents: Mapping[str, bytes]) -> None:
        raise TfperfError("the network is gone")


def test_what_arrived_before_the_network_failed_stays(
    tmp_path: Path, place: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(history_of(tmp_path / "a", 1, 2, 3), place)
    monkeypatch.setattr(documents, "_AT_ONCE", 1)
    new = History(tmp_path / "new" / "history.sqlite")
    with pytest.raises(TfperfError, match="the network is gone"):
        list(pull(new.database, _Breaks(place)))
    assert sessions(new) == ["20260103-box"]
    assert bring(new, place) == 2


def test_files_that_others_put_beside_the_documents_are_no_documents(tmp_path: Path, place: Folder) -> None:
    send(history_of(tmp_path / "a", 1), place)
    place.put({"v1/README": b"hello", "v1/box/notes.json.gz": b"hello"})
    new = History(tmp_path / "new" / "history.sqlite")
    assert list(pull(new.database, place)) == [(1, [])]


def test_a_document_of_a_month_to_come_is_not_asked_for(tmp_path: Path, place: Folder) -> None:
    place.put({"v1/box/9999-12/junk.json.gz": b"junk"})
    assert list(pull(History(tmp_path / "new" / "history.sqlite").database, place)) == []


def test_a_damaged_row_keeps_no_other_session_from_being_sent(tmp_path: Path, place: Folder) -> None:
    history = history_of(tmp_path / "a", 1, 2)
    with history.database.opened(writes=True) as connection:
        connection.execute("delete from tfperf_environments")
        connection.execute("update tfperf_measurements set environment = 99 where number = 1")
        connection.execute("insert into tfperf_environments values (1, '{}')")
    sent, (why,) = push(history.database, place, documents.sessions_of(history.database))
    assert (sent, why.startswith("v1/box/2026-01/20260101-box.json.gz can't be sent, its rows are damaged: ")) == (
        1,
        True,
    )


def test_what_was_refused_of_one_machine_is_said_with_what_others_sent(tmp_path: Path, place: Folder) -> None:
    place.put({"v1/box/2026-01/bad.json.gz": b"no document"})
    send(history_of(tmp_path / "b", 4, machine="other"), place)
    *_, (added, refused) = pull(History(tmp_path / "new" / "history.sqlite").database, place, ["box"])
    assert (added, len(refused)) == (1, 1)


# Commands


def run(*arguments: str) -> int:
    return cli.main(["history", *arguments])


def test_the_commands_name_place_and_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, new = str(tmp_path / "place"), str(tmp_path / "new")
    history_of(tmp_path / "a", 1, 2)
    assert run("push", place, "--history", str(tmp_path / "a")) == 0
    assert run("pull", place, "--history", new) == 0
    assert run("pull", place, "--history", new) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{place}: sent 2 sessions",
        f"{place}: brought 2 sessions",
        f"{place}: nothing new",
    ]


def test_a_document_that_is_refused_is_a_line_and_the_others_arrive(
    tmp_path: Path, place: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    send(history_of(tmp_path / "a", 1), place)
    place.put({"v1/box/2026-01/bad.json.gz": b"no document"})
    assert run("pull", str(tmp_path / "place"), "--history", str(tmp_path / "new")) == 0
    said = capsys.readouterr()
    assert ("brought 1 session\n" in said.out, said.err.splitlines()[0]) == (
        True,
        "tfperf: v1/box/2026-01/bad.json.gz is left out: Expecting value: line 1 column 1 (char 0)",
    )


def test_files_are_imported(tmp_path: Path, place: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    send(history_of(tmp_path / "a", 1, 2), place)
    files = [str(path) for path in sorted((tmp_path / "place").rglob("*.json.gz"))]
    assert run("import", *files, "--history", str(tmp_path / "new")) == 0
    assert "added 2 sessions" in capsys.readouterr().out
    assert len(sessions(History(tmp_path / "new" / "history.sqlite"))) == 2


def test_without_a_place_the_next_step_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history_of(tmp_path / "a", 1)
    assert run("push", "--history", str(tmp_path / "a")) != 0
    assert "set TFPERF_HISTORY_URL, or give it" in capsys.readouterr().err


def test_an_address_in_the_place_of_a_folder_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--history", "postgresql://me:s3cret@db/speed") != 0
    said = capsys.readouterr().err
    assert ("--history names a folder" in said, "s3cret" in said) == (True, False)
