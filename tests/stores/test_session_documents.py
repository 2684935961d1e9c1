"""The document of a session: what it carries, and what it is refused for."""

from __future__ import annotations

import gzip
import json
import math
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_tfperf import cli
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import time_of
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.core.verdict import Verdict
from pytest_tfperf.stores import documents
from pytest_tfperf.stores.history import History
from pytest_tfperf.stores.old_details import drop_details
from tests.helpers.measurements import (
    BUSY,
    baseline,
    interleaved,
    measurement,
    run,
    session_verdict,
    throughput,
    verdict,
)

TIME = "2026-01-02T03:04:05+00:00"
MEMORY = Verdict(figure=Figure("peak_memory"), value=18.0)


def judged(**more: Any) -> Measurement:
    return measurement(
        throughput(*more.pop("rates", (1001.0, 1002.5, 999.25))),
        **{
            "session": "monday",
            "time": TIME,
            "verdict": verdict(baseline=baseline(1000.0)),
            "figures": (MEMORY,),
            "environment": {"tensorflow": "2.21.0"},
            "runs": tuple(run(polls=(Telemetry(seconds=1.0),), figures={"peak_memory": 18.0}) for _ in range(3)),
        }
        | more,
    )


@pytest.fixture
def history(tmp_path: Path) -> History:
    """A session of two tests and a comparison, with a verdict on the whole."""
    made = History(tmp_path / "history.sqlite")
    for one in (judged(), judged(test="other", commit="c0ffee"), interleaved(session="monday", time=TIME)):
        made.append(one)
    made.append_verdict(session_verdict(), session="monday", time=TIME)
    return made


@pytest.fixture
def new(tmp_path: Path) -> History:
    """An empty history on another machine."""
    return History(tmp_path / "new" / "history.sqlite")


def document_of(history: History) -> tuple[str, bytes]:
    ((name, number),) = documents.sessions_of(history.database).items()
    return name, documents.encoded(history.database, number)


def add(history: History, arriving: Sequence[tuple[str, bytes]], **more: Any) -> tuple[int, list[str]]:
    *_, last = documents.add(history.database, arriving, **more)
    return last


def changed(history: History, change: Callable[[dict[str, Any]], object]) -> tuple[str, bytes]:
    name, data = document_of(history)
    document = json.loads(gzip.decompress(data))
    change(document)
    return name, gzip.compress(json.dumps(document).encode())


# What it carries


def test_values_arrive_to_the_last_bit(history: History, new: History) -> None:
    assert add(new, [document_of(history)]) == (1, [])
    assert list(new.values(is_interleaved=None)) == list(history.values(is_interleaved=None))


def test_what_later_sessions_ask_is_answered_as_where_it_was_measured(history: History, new: History) -> None:
    add(new, [document_of(history)])
    for one in (history, new):
        assert one.earlier.earlier_measurements("box", before="today", most=5)
    rows = [baseline(1000.0)]
    asked: list[Callable[[History], Any]] = [
        lambda one: one.earlier.earlier_measurements("box", before="today", most=5),
        lambda one: one.earlier.past_sessions_of_machine(rows, before="today", least_tests=1),
        lambda one: one.earlier.run_seconds([judged().test]),
        lambda one: one.earlier.confirmation_runs(["box"]),
        lambda one: one.verdicts(session="monday", machine="box"),
        lambda one: list(one.newest_sessions()),
    ]
    assert [ask(new) for ask in asked] == [ask(history) for ask in asked]


def test_measurements_arrive_without_windows_and_telemetry(history: History, new: History) -> None:
    add(new, [document_of(history)])
    first, *_ = new.measurements()
    rates = [pytest.approx(run_value(one).examples_per_sec, rel=1e-8) for one in judged().runs]
    bare = tuple(
        replace(one, windows=(), polls=(), log="", stated_examples_per_sec=rate)
        for one, rate in zip(judged().runs, rates, strict=True)
    )
    assert (first.runs, first.test, first.environment) == (bare, judged().test, judged().environment)
    assert first.throughput.examples_per_sec == pytest.approx(judged().throughput.examples_per_sec, rel=1e-8)


def test_an_export_carries_the_windows_too(history: History, new: History) -> None:
    ((_, number),) = documents.sessions_of(history.database).items()
    text = documents.exported(history.database, number, history.unread)
    assert add(new, [("export.json", text.encode())]) == (1, [])
    assert list(new.measurements()) == list(history.measurements())


def test_a_document_is_the_same_wherever_it_is_written(history: History, new: History) -> None:
    name, data = document_of(history)
    add(new, [(name, data)])
    assert document_of(new) == (name, data)


def test_what_is_known_is_not_added_again(history: History, new: History) -> None:
    arriving = document_of(history)
    assert [add(new, [arriving, arriving]), add(new, [arriving])] == [
        (1, []),
        (0, []),
    ]
    assert len(list(new.values())) == len(list(history.values()))


def test_sessions_of_two_histories_stay_apart(history: History, new: History) -> None:
    new.append(judged(session="tuesday", environment={"tensorflow": "2.22.0"}, rates=(500.0, 501.0, 499.0)))
    add(new, [document_of(history)])
    found = {(value.session, round(value.value)) for value in new.values(figure="")}
    assert found == {("tuesday", 500), ("monday", 1001)}
    earlier = new.earlier.earlier_measurements("box", before="today", most=5)
    environments = {one.session: dict(one.environment) for of_key in earlier.values() for one in of_key}
    assert environments == {"monday": {"tensorflow": "2.21.0"}, "tuesday": {"tensorflow": "2.22.0"}}


def test_measurements_that_are_old_arrive_without_their_details(history: History, new: History) -> None:
    add(new, [document_of(history)], whole_since=time.time())
    assert (list(new.measurements()), len(list(new.values()))) == ([], 4)


def test_what_a_user_deleted_does_not_come_back(history: History, new: History) -> None:
    new.append(judged(session="old", time="2025-01-01T00:00:00+00:00"))
    new.prune(datetime(2026, 6, 1, tzinfo=UTC))
    assert add(new, [document_of(history)]) == (0, [])
    assert list(new.values()) == []


def test_a_session_is_sent_when_it_has_ended_or_was_killed_a_day_ago(tmp_path: Path) -> None:
    history, now = History(tmp_path / "history.sqlite"), time.time()
    for session, age in (("killed", 90_000), ("runs", 7200), ("ended", 0)):
        history.append(judged(session=session, time=time_of(int(now - age))))
    history.end_session("ended", time=time_of(int(now)))
    names = documents.sessions_of(history.database)
    assert [PurePosixPath(name).name for name in names] == ["killed.json.gz", "ended.json.gz"]


def test_a_test_that_asks_otherwise_now_is_read_so_in_whatever_order_its_sessions_arrive(
    tmp_path: Path, new: History
) -> None:
    figures = [Figure("peak_memory", absolute=float(size)) for size in (1, 2)]
    arriving = []
    for day, figure in enumerate(figures, start=1):
        history = History(tmp_path / str(day) / "history.sqlite")
        history.append(
            judged(session=f"s{day}", time=TIME.replace("02T", f"0{day}T"), figures=(replace(MEMORY, figure=figure),))
        )
        arriving.append(document_of(history))
    other = History(tmp_path / "other" / "history.sqlite")
    add(new, arriving)
    add(other, arriving[::-1])
    for history in (new, other):
        assert {value.figure for value in history.values(figure="peak_memory")} == {figures[-1]}


def test_another_machines_later_session_does_not_hide_what_a_test_asks_now(tmp_path: Path, new: History) -> None:
    arriving = []
    for day, machine, size in ((1, "box", 1.0), (5, "other", 1.0), (3, "box", 2.0)):
        history = History(tmp_path / f"{day}" / "history.sqlite")
        asked = replace(MEMORY, figure=Figure("peak_memory", absolute=size))
        of = {"session": f"s{day}", "machine": machine, "time": TIME.replace("02T", f"0{day}T")}
        history.append(judged(figures=(asked,), **of))
        arriving.append(document_of(history))
    add(new, arriving)
    found = {value.machine: value.figure for value in new.values(figure="peak_memory")}
    assert found["box"] == Figure("peak_memory", absolute=2.0)


def test_details_that_arrive_late_are_dropped_in_their_turn(history: History, new: History) -> None:
    for number in range(12):
        new.append(judged(session=str(number), time=TIME.replace("01-02", f"02-{number + 1:02}")))
    before = datetime(2026, 3, 1, tzinfo=UTC)
    drop_details(new.database, before)
    add(new, [document_of(history)])
    assert drop_details(new.database, before)[0] > 0


def test_a_verdict_that_can_not_be_read_costs_no_session(history: History, new: History) -> None:
    with history.database.opened(writes=True) as connection:
        connection.execute("update tfperf_session_verdicts set whole = x'00'")
    assert add(new, [document_of(history)]) == (1, [])
    assert new.verdicts(session="monday", machine="box") == []


def test_a_measurement_that_can_not_be_read_arrives_without_its_details(history: History, new: History) -> None:
    with history.database.opened(writes=True) as connection:
        connection.execute("update tfperf_details set whole = x'00' where measurement = 1")
    add(new, [document_of(history)])
    assert len(list(new.values())) == 4
    assert [one.test for one in new.measurements(is_interleaved=False)] == ["other"]


@pytest.mark.parametrize("command", ["report -o page.html", "explain test_b", "history", "compare monday monday"])
def test_each_command_reads_a_session_that_came_from_elsewhere(
    command: str, history: History, new: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    disturbed = replace(judged().runs[0], disturbance=BUSY)
    history.append(judged(session="tuesday", time="2026-01-03T03:00:00+00:00", discarded=(disturbed,)))
    for name, number in documents.sessions_of(history.database).items():
        add(new, [(name, documents.encoded(history.database, number))])
    monkeypatch.chdir(new.database.path.parent)
    assert cli.main([*command.split(), "--history", "."]) == 0


# Names


NAMES = st.text(min_size=1)


@given(NAMES, NAMES)
def test_a_name_is_a_path_of_four_parts_on_any_system(session: str, machine: str) -> None:
    name = documents.name_of(session, machine, 1_795_000_000)
    parts = name.split("/")
    assert (len(parts), parts[0], parts[2]) == (4, "v1", "2026-11")
    assert (name.isascii(), name.isprintable(), " " in name) == (True, True, False)
    assert all(0 < len(part) < 200 and part[0] not in ".-" for part in parts)


@given(st.lists(st.tuples(NAMES, NAMES), unique=True, max_size=5))
def test_different_sessions_have_different_names(sessions: list[tuple[str, str]]) -> None:
    names = {documents.name_of(session, machine, 1_795_000_000) for session, machine in sessions}
    assert len(names) == len(sessions)


@given(NAMES, NAMES)
def test_the_documents_of_a_machine_begin_alike_and_no_others(machine: str, other: str) -> None:
    name = documents.name_of("s", machine, 0)
    assert name.startswith(documents.prefix_of(other)) == (machine == other)


# What is refused


def _later(document: dict[str, Any]) -> None:
    document["version"] = 2


def _of_another(document: dict[str, Any]) -> None:
    document["session"] = "tuesday"


def _with_a_clock_ahead(document: dict[str, Any]) -> None:
    document["columns"]["made"][0] = int((time.time() + 3 * 86400) * 1e6)


def _with_a_word(document: dict[str, Any]) -> None:
    document["values"]["value"][0] = "fast"


def _with_a_large_number(document: dict[str, Any]) -> None:
    document["columns"]["time"][0] = 2**63


def _without_a_column(document: dict[str, Any]) -> None:
    del document["values"]["unit"]


def _with_a_short_column(document: dict[str, Any]) -> None:
    document["values"]["unit"].pop()


def _that_refers_to_nothing(document: dict[str, Any]) -> None:
    document["values"]["series"][0] = 99


def _of_no_time(document: dict[str, Any]) -> None:
    document["began"] = 2**62


def _with_a_lone_surrogate(document: dict[str, Any]) -> None:
    document["session"] = "a\udc80"


def _with_nan(document: dict[str, Any]) -> None:
    document["values"]["drift"][0] = math.nan


def _made_before_it_was_measured(document: dict[str, Any]) -> None:
    document["columns"]["made"][0] = 1


def _with_a_verdict_that_is_no_json(document: dict[str, Any]) -> None:
    document["verdicts"]["whole"] = ["nojson"]


def _without_measurements(document: dict[str, Any]) -> None:
    document["measurements"] = []


REFUSED = {
    _later: "version 2",
    _of_another: "it is the document of another session, v1/box/2026-01/tuesday.json.gz",
    _with_a_clock_ahead: "a time that has not come yet",
    _with_a_word: "value is 'fast'",
    _with_a_large_number: "time is 9223372036854775808",
    _without_a_column: "it has no 'unit'",
    _with_a_short_column: "columns have different lengths",
    _that_refers_to_nothing: "series refers to nothing",
    _without_measurements: "its measurements are not those of its columns",
    _of_no_time: "is left out: ",
    _with_a_lone_surrogate: "session is 'a\\udc80'",
    _with_nan: "drift is nan",
    _made_before_it_was_measured: "a time that has not come yet",
    _with_a_verdict_that_is_no_json: "Expecting value",
}


@pytest.mark.parametrize("change", REFUSED, ids=lambda change: change.__name__)
def test_a_document_is_refused_by_name_and_reason_and_costs_no_other(
    change: Callable[[dict[str, Any]], None], history: History, new: History, tmp_path: Path
) -> None:
    other = History(tmp_path / "other" / "history.sqlite")
    other.append(judged(session="sunday"))
    added, (why,) = add(new, [changed(history, change), document_of(other)])
    assert (added, {value.session for value in new.values()}) == (1, {"sunday"})
    assert why.startswith("v1/box/2026-01/monday.json.gz"), why
    assert REFUSED[change] in why


@pytest.mark.parametrize(
    "data",
    [b"", b"\x1f\x8b", b"{}", b"[]", b"null", b"\xff", gzip.compress(b"{" * 100_000), gzip.compress(b"x" * 100)],
    ids=range(8),
)
def test_what_is_no_document_is_refused(data: bytes, new: History) -> None:
    added, (why,) = add(new, [("file", data)])
    assert (added, why.startswith("file is left out: ")) == (0, True)


def test_a_bomb_is_refused_in_bounded_memory(new: History) -> None:
    bomb = gzip.compress(b" " * 2**29, 1)
    tracemalloc.start()
    added, (why,) = add(new, [("bomb", bomb)])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (added, "more than 16 MiB" in why, peak < 100 * 2**20) == (0, True, True)


def test_a_number_of_a_series_is_never_taken_from_others(history: History, new: History) -> None:
    new.append(judged(test="mine", session="own"))

    def numbered(document: dict[str, Any]) -> None:
        document["series"]["number"] = [1] * len(document["series"]["test"])

    assert add(new, [changed(history, numbered)]) == (1, [])
    assert {value.test for value in new.values(session="own")} == {"mine"}


def test_what_was_refused_is_not_asked_for_again(history: History, new: History) -> None:
    refused = changed(history, _with_a_word)
    add(new, [refused])
    assert refused[0] in documents.known_names(new.database)


def test_a_document_of_a_later_version_is_asked_for_again(history: History, new: History) -> None:
    later = changed(history, _later)
    add(new, [later])
    assert later[0] not in documents.known_names(new.database)


@settings(max_examples=100)
@given(data=st.data())
def test_no_change_of_a_document_makes_the_history_unreadable(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    history = History(tmp_path_factory.mktemp("a") / "history.sqlite")
    history.append(judged())
    values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers()))

    def change(document: dict[str, Any]) -> None:
        part: Any = document
        while isinstance(part, dict | list) and part:
            keys = list(part) if isinstance(part, dict) else list(range(len(part)))
            key = data.draw(st.sampled_from(keys))
            if not isinstance(part[key], dict | list) or not part[key] or data.draw(st.booleans()):
                part[key] = data.draw(values)
                return
            part = part[key]

    name, changed_data = changed(history, change)
    new = History(tmp_path_factory.mktemp("b") / "history.sqlite")
    new.append(judged(session="own"))
    added, refused = add(new, [(name, changed_data)])
    assert added + len(refused) <= 1
    assert "own" in {value.session for value in new.values()}
    list(new.measurements())
    new.verdicts(session="monday", machine="box")
    new.append(judged(session="next", time=time_of(int(time.time()))))
    later = datetime.now(UTC) + timedelta(days=9)
    assert any(value.session == "next" for value in new.values(until=later))
