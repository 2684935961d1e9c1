"""The options that select a part of a history, and the error for a selection that is empty."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, cast

from pytest_tfperf.console.arguments import date_or_age, end
from pytest_tfperf.core.past import PastResult
from pytest_tfperf.errors import TfperfError, one_of
from pytest_tfperf.reports.numbers import counted

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import History
    from pytest_tfperf.stores.history_queries import Filters

_MOST_NAMED: Final = 10
LATEST: Final = ("latest", "previous")  # names of sessions, the last one first


def history_filters() -> argparse.ArgumentParser:
    """A parent parser with the options that `wanted` reads."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--session", metavar="ID", help="only this session: its id, latest or previous")
    parser.add_argument("--test", metavar="NODEID", help="only this test")
    parser.add_argument("--machine", metavar="NAME", help="only this machine")
    parser.add_argument(
        "--since", type=date_or_age, metavar="TIME", help="only from this date, time or age on: 2026-01-31, 30d"
    )
    parser.add_argument("--until", type=end, metavar="TIME", help="only up to this date (its whole day), time or age")
    parser.add_argument("--commit", metavar="HASH", help="only the commit that begins with HASH")
    return parser


def wanted(arguments: argparse.Namespace, history: History) -> Filters:
    """The values of the options, as the methods of History take them.

    Raises:
        TfperfError: there is no `latest` or `previous` session, or no history.
    """
    return {
        "machine": arguments.machine,
        "test": arguments.test,
        "session": session_id(history, arguments.session, arguments.machine),
        "commit": arguments.commit,
        "since": arguments.since,
        "until": arguments.until,
    }


def session_id(history: History, name: str | None, machine: str | None = None) -> str | None:
    """The id of the session that is called `latest` or `previous`; any other name is an id.

    `latest` is the last session, or that of the given machine. `previous` is the one before it on the same machines.

    Raises:
        TfperfError: there is no such session, or no history.
    """
    if name not in LATEST:
        return name
    results = history.results(machine=machine)
    # A team's server has sessions of other machines, too.
    machines = {one.machine for one in results if one.session == results[-1].session}
    sessions = list(dict.fromkeys(one.session for one in reversed(results) if one.machine in machines))
    if len(sessions) <= LATEST.index(name):
        of = f" of {', '.join(sorted(machines))}" if machines else ""
        raise TfperfError(
            f"{name}: the history has {counted(len(sessions), 'session')}{of}", next_step="Run pytest first"
        )
    return sessions[LATEST.index(name)]


def nothing_left(history: History, wanted: Filters) -> TfperfError | None:
    """The error that names the first filter that leaves no measurement; None if some are left, or without filters."""
    met: Filters = {}
    before = history.results() if any(value is not None for value in wanted.values()) else []
    for name, value in wanted.items():
        if value is None or not before:
            continue
        others = f" (with {', '.join(f'--{one}' for one in met)})" if met else ""
        met = cast("Filters", met | {name: value})
        left = history.results(**met)
        if not left:
            return TfperfError(f"--{name}{others}: {_why(name, value, before)}")
        before = left
    return None


def _why(name: str, value: object, before: Sequence[PastResult]) -> str:
    """Why this filter leaves none of the measurements `before` it."""
    if isinstance(value, datetime):
        times = sorted(one.time for one in before)
        which, other = (
            ("since", f"last is of {times[-1]}") if name == "since" else ("before", f"first is of {times[0]}")
        )
        return f"nothing was measured {which} {value:%Y-%m-%d %H:%M}; the {other}"
    given = str(value)
    known = list(dict.fromkeys(text for one in reversed(before) if (text := getattr(one, name))))
    if not known:
        return f"no measurement has a {name}"
    nearest = get_close_matches(given, known, n=1) + [one for one in known if given in one]
    shown = list(dict.fromkeys([*nearest, *known]))[:_MOST_NAMED]
    more = f" And {len(known) - len(shown)} more: `tfperf history --csv`" if len(known) > len(shown) else ""
    return f"{one_of(name, given, shown)}{more}"
