"""Lasting changes over sessions, as a table and as the message that fails a session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_tfperf.core.change import Change, ChangeKind
from pytest_tfperf.reports.numbers import change as signed
from pytest_tfperf.reports.numbers import percent
from pytest_tfperf.reports.table import Columns, table

ALL_TESTS = "(all tests together)"
"""Shown in place of a test if the whole machine changed."""

_COLUMNS = Columns(
    right={"change", "sessions since"},
    optional=("95 % CI", "commits", "sessions since", "machine", "workload", "topology"),
    ids=("test", "workload"),
)
_SHOWN = 5  # changes in a message
_COMMIT = 10  # characters


def change_table(changes: Iterable[Change], width: int | None = None) -> list[str]:
    """One line for each change; `width` is the terminal's, None for no limit."""
    rows = [
        {
            "since": _date(change),
            "kind": change.kind.value,
            "change": signed(change.size),
            "95 % CI": f"{signed(change.low)} to {signed(change.high)}",
            "test": change.test or ALL_TESTS,
            "commits": _commits(change),
            "sessions since": str(change.sessions_since),
            "workload": change.key.workload if change.key else "",
            "topology": change.key.topology if change.key else "",
            "machine": change.machine,
        }
        for change in changes
    ]
    return table(rows, _COLUMNS, width)


def drift_message(machine: str, changes: Sequence[Change]) -> list[str]:
    """Why `--tfperf-fail-on-drift` fails a session, in lines: fact, location, next step.

    Args:
        machine: the machine's key.
        changes: slowdowns that last, at least one.
    """
    worst = sorted(changes, key=lambda change: change.size)
    more, up_to = (f" and {len(worst) - 1} more", "up to ") if len(worst) > 1 else ("", "")
    who = (worst[0].test or "all tests together") + more
    lines = [f"drift on {machine}: {who} became slower for good, by {up_to}{percent(worst[0].size)}"]
    lines += [f"  {_in_words(change)}" for change in worst[:_SHOWN]]
    if len(worst) > _SHOWN:
        lines.append(f"  and {len(worst) - _SHOWN} more")
    lines.append(
        f"`tfperf history changes --machine={machine}` lists all changes. Look for the cause between the two commits, "
        "or accept the new level: pytest --update-baselines"
    )
    return lines


def _in_words(change: Change) -> str:
    what = f" ({change.key.workload} on {change.key.topology})" if change.key else ""
    since = "little by little since" if change.kind is not ChangeKind.STEP else "since"
    commits = f", commits {_commits(change)}" if _commits(change) else ""
    interval = f"95 % CI {signed(change.low)} to {signed(change.high)}"
    return (
        f"{change.test or ALL_TESTS}{what}: {signed(change.size)} ({interval}) {since} {_date(change)}, "
        f"session {change.session}{commits}"
    )


def _date(change: Change) -> str:
    return change.time[:10]


def _commits(change: Change) -> str:
    """The commits between which it changed; "" if neither is known."""
    before, after = change.commit_before[:_COMMIT], change.commit_after[:_COMMIT]
    return f"{before or '?'}..{after or '?'}" if before or after else ""
