"""What is news for a channel: each change once, whatever was sent in vain."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.features.notify.news import OVER, Event, EventKind, Topic, after, untold

BAD = [kind for kind in EventKind if kind not in OVER]


def event(kind: EventKind = EventKind.NEW, change: float | None = -0.1, **more: Any) -> Event:
    given = {"machine": "box", "test": "a.py::test", "figure": "throughput", "headline": "slower"}
    given["interval"] = None if change is None else (change - 0.01, change + 0.01)
    given["time"] = "2026-11-12T02:15:00+00:00"
    return Event(kind=kind, change=change, **given | more)


def told(*events: Event) -> dict[Topic, Event]:
    return after({}, untold(events, {}))


def kinds(now: Event, *before: Event) -> list[EventKind]:
    return [news.kind for news in untold([now], told(*before))]


def test_a_loss_is_new_once() -> None:
    assert kinds(event()) == [EventKind.NEW]
    assert kinds(event(), event()) == []


def test_what_is_well_is_no_news_unless_it_was_bad() -> None:
    well = event(EventKind.RECOVERED, 0.0)
    assert kinds(well) == []
    assert kinds(well, event()) == [EventKind.RECOVERED]
    assert told(event(), well) == {} or after(told(event()), [well]) == {}


@pytest.mark.parametrize(
    ("before", "now", "is_worse"),
    [(-0.1, -0.119, False), (-0.1, -0.121, True), (-0.1, -0.05, False), (0.1, 0.121, True), (0.1, -0.3, False)],
)
def test_a_loss_is_worse_if_it_grew_by_more_than_noise_explains(before: float, now: float, is_worse: bool) -> None:
    assert kinds(event(change=now), event(change=before)) == [EventKind.WORSE] * is_worse


def test_a_loss_that_grows_little_by_little_is_compared_with_what_was_told_last() -> None:
    channel = told(event(change=-0.1))
    for change in (-0.11, -0.118, -0.125, -0.14):
        channel = after(channel, untold([event(change=change)], channel))
    assert [one.change for one in channel.values()] == [-0.125]


def test_a_loss_without_an_interval_gets_never_worse() -> None:
    assert kinds(event(change=-0.9, interval=None), event()) == []


def test_news_say_since_when_the_channel_knows() -> None:
    channel = told(event())
    (news,) = untold([event(EventKind.RECOVERED, time="2026-11-20T02:15:00+00:00")], channel)
    assert (news.since[:10], news.time[:10]) == ("2026-11-12", "2026-11-20")


def test_a_test_that_stays_missing_is_told_once() -> None:
    missing = event(EventKind.MISSING, None, figure="")
    assert kinds(missing) == [EventKind.MISSING]
    assert kinds(missing, missing) == []


def test_a_silent_machine_is_told_once_a_day() -> None:
    silent = event(EventKind.SILENT, None, test="", figure="")
    later = event(EventKind.SILENT, None, test="", figure="", time="2026-11-12T23:00:00+00:00")
    next_day = event(EventKind.SILENT, None, test="", figure="", time="2026-11-13T00:15:00+00:00")
    assert [kinds(later, silent), kinds(next_day, silent)] == [[], [EventKind.SILENT]]


def acknowledged(kind: EventKind, until: str = "2026-12-01", **more: Any) -> Event:
    return event(kind, acknowledged_until=until, **more)


def test_the_end_of_an_acknowledgement_is_told_before_and_after_once_each() -> None:
    ends, ended = acknowledged(EventKind.ENDS), acknowledged(EventKind.ENDED)
    assert [kinds(ends), kinds(ends, ends)] == [[EventKind.ENDS], []]
    assert [kinds(ended, ends), kinds(ended, ended)] == [[EventKind.ENDED], []]


def test_an_acknowledgement_that_was_extended_ends_anew() -> None:
    again = acknowledged(EventKind.ENDS, "2027-02-01")
    assert kinds(again, acknowledged(EventKind.ENDS)) == [EventKind.ENDS]


def test_a_loss_told_before_it_was_acknowledged_is_told_at_its_end() -> None:
    assert kinds(acknowledged(EventKind.ENDED), event()) == [EventKind.ENDED]


def test_a_loss_that_is_worse_than_acknowledged_is_told_once() -> None:
    worse = acknowledged(EventKind.WORSE, change=-0.115)
    assert kinds(worse, event()) == [EventKind.WORSE]
    assert kinds(worse, event(), worse) == []
    assert after(told(event()), untold([worse], told(event())))[worse.topic].kind is EventKind.WORSE


def test_a_loss_that_grows_after_its_end_stays_ended() -> None:
    channel = told(acknowledged(EventKind.ENDED))
    grown = acknowledged(EventKind.ENDED, change=-0.3)
    channel = after(channel, untold([grown], channel))
    assert [one.kind for one in channel.values()] == [EventKind.WORSE]
    assert untold([grown], channel) == []


TOPICS = [("box", "a.py::a", "throughput"), ("box", "a.py::b", "loss"), ("box", "a.py::a", ""), ("box", "", "")]
FACTS = st.builds(
    event,
    st.sampled_from(EventKind),
    st.one_of(st.none(), st.floats(-0.9, 0.9)),
    acknowledged_until=st.sampled_from(["", "2026-12-01", "2027-02-01"]),
    time=st.sampled_from(["2026-11-12T02:15:00+00:00", "2026-11-13T02:15:00+00:00"]),
).filter(lambda one: one.kind is not EventKind.SILENT or one.change is None)
SESSIONS = st.lists(
    st.fixed_dictionaries({}, optional=dict.fromkeys(TOPICS, FACTS)).map(
        lambda facts: [
            Event(
                **{name: getattr(one, name) for name in Event.__dataclass_fields__}
                | dict(zip(("machine", "test", "figure"), topic, strict=True))
            )
            for topic, one in facts.items()
        ]
    ),
    max_size=6,
)


@given(SESSIONS, st.data())
def test_nothing_is_told_twice(sessions: list[list[Event]], data: st.DataObject) -> None:
    channel: dict[Topic, Event] = {}
    for facts in sessions:
        if data.draw(st.booleans()):
            channel = after(channel, untold(facts, channel))
            assert untold(facts, channel) == []


@given(SESSIONS, st.lists(st.booleans(), min_size=6, max_size=6))
def test_a_channel_that_takes_the_last_session_knows_what_is_bad_and_what_is_over(
    sessions: list[list[Event]], takes: list[bool]
) -> None:
    channel: dict[Topic, Event] = {}
    for facts, took in zip(sessions, takes, strict=False):
        channel = after(channel, untold(facts, channel)) if took else channel
    for facts in sessions[-1:]:
        channel = after(channel, untold(facts, channel))
        bad = {one.topic for one in facts if one.kind not in OVER}
        well = {one.topic for one in facts if one.kind in OVER}
        assert (bad <= channel.keys(), well & channel.keys()) == (True, set())
