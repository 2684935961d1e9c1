"""`tfperf ack`: acknowledge a loss until a date, remove an acknowledgement, list all."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Final

from pytest_tfperf.console.arguments import Commands, add_command, folder, history_place, nothing_left, open_history
from pytest_tfperf.console.measured_test import wanted_test
from pytest_tfperf.console.output import show, show_json, width
from pytest_tfperf.core.acknowledgement import Acknowledgement
from pytest_tfperf.core.exit_status import EXIT_GREEN
from pytest_tfperf.core.figure import RATE, shown_name
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.errors import TfperfError, known_names, one_of
from pytest_tfperf.reports.acknowledgement import loss
from pytest_tfperf.reports.table import Columns, table
from pytest_tfperf.stores import acknowledgements

if TYPE_CHECKING:
    from pytest_tfperf.core.measurement import Measurement

_MOST_DAYS: Final = 366
_MOST_CHARACTERS: Final = 200  # of a reason, which the summary shows in a line


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "ack",
        _run,
        "acknowledge a loss until a date: it is measured and shown, and fails nothing unless it gets worse",
        examples=(
            'tfperf ack test_resnet50 --until 2027-01-15 --why "cuDNN 9.12, upstream bug 123"',
            'tfperf ack test_bert --figure peak_memory --until 2027-01-15 --why "larger batch, until the cards come"',
            "tfperf ack --remove test_resnet50",
            "tfperf ack --list",
        ),
        parents=[folder("--baselines", "baselines", "folder of the baselines"), history_place()],
    )
    command.add_argument(
        "test", metavar="TEST", nargs="?", help="pytest's node id or the workload's name, or a part of them"
    )
    command.add_argument("--figure", default=RATE, metavar="NAME", help="a figure beside the throughput: peak_memory")
    command.add_argument("--machine", metavar="NAME", help="machine of the loss (default: the last that measured it)")
    command.add_argument("--until", type=_date, metavar="DATE", help="the last day on which it fails nothing")
    command.add_argument("--why", type=_reason, metavar="REASON", help="the reason, in a line for others")
    action = command.add_mutually_exclusive_group()
    action.add_argument("--replace", action="store_true", help="replace the acknowledgement that there is")
    action.add_argument("--remove", action="store_true", help="remove the acknowledgement")
    action.add_argument("--list", action="store_true", help="list all acknowledgements")
    command.add_argument("--json", action="store_true", help="with --list: print them as JSON")


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no date: write 2027-01-15") from None


def _reason(text: str) -> str:
    if not text.isprintable() or len(text) > _MOST_CHARACTERS:
        raise argparse.ArgumentTypeError(f"give a line of at most {_MOST_CHARACTERS} characters")
    return text.strip()


def _run(arguments: argparse.Namespace) -> int:
    known = acknowledgements.read(arguments.baselines)
    today = datetime.now(UTC).date()
    if arguments.list:
        if arguments.json:
            show_json(plain(known))
        else:
            show(*_table(known, today, width()) or [f"nothing is acknowledged in {arguments.baselines}/"])
    elif arguments.test is None:
        raise TfperfError("no TEST", next_step="Name one, or list what is acknowledged: tfperf ack --list")
    elif arguments.remove:
        gone = _to_remove(arguments, known)
        path = acknowledgements.write(arguments.baselines, [one for one in known if one is not gone])
        show(f"removed: {_shown(gone)}", f"Commit {path}")
    else:
        _require_end(arguments, today)
        new = _new(arguments)
        old = [one for one in known if one.key == new.key]
        if old and not arguments.replace:
            raise TfperfError(
                f"{new.test} on {new.machine} is acknowledged until {old[0].until} already: {old[0].why}",
                next_step="Give --replace to acknowledge the last measurement in its place, or --remove",
            )
        path = acknowledgements.write(arguments.baselines, [*(one for one in known if one not in old), new])
        show(f"acknowledged: {_shown(new)}; at worst {loss(new, new.worst)}", f"Commit {path}")
    return EXIT_GREEN


def _require_end(arguments: argparse.Namespace, today: date) -> None:
    if arguments.until is None or arguments.why is None:
        missing = " and ".join(f"--{name}" for name in ("until", "why") if getattr(arguments, name) is None)
        raise TfperfError(
            f"no {missing}: an acknowledgement has an end, and a reason that others can read",
            next_step='Write: --until 2027-01-15 --why "upstream bug 123"',
        )
    if arguments.until < today:
        raise TfperfError(f"--until={arguments.until} is past", next_step=f"Today is {today}")
    if (arguments.until - today).days > _MOST_DAYS:
        raise TfperfError(
            f"--until={arguments.until} is more than a year away, and a loss without an end is a lower baseline",
            next_step="Record that, if the loss is to stay: pytest TEST --update-baselines",
        )


def _new(arguments: argparse.Namespace) -> Acknowledgement:
    """Return the acknowledgement of the last measurement of the test.

    Raises:
        TfperfError: the history has no such test or machine, or its figure was not REGRESSED.
    """
    history = open_history(arguments)
    machine = arguments.machine
    if error := nothing_left(history, {"machine": machine}):
        raise error
    results = history.latest(test=arguments.test, machine=machine) or history.latest(machine=machine)
    test, session = wanted_test(results, arguments.test)
    calls = list(history.measurements(session=session, test=test, machine=machine, is_interleaved=False))
    verdicts = [(m, verdict) for m in calls for verdict in m.verdicts]
    named = [(m, verdict) for m, verdict in verdicts if verdict.figure.name == arguments.figure]
    if not named:
        known = {verdict.figure.name for _, verdict in verdicts}
        raise TfperfError(f"{test}: {one_of('figure', arguments.figure, known)}")
    regressed = [(m, verdict) for m, verdict in named if m.is_decided and verdict.outcome is Outcome.REGRESSED]
    if not regressed:
        raise _nothing_to_acknowledge(test, session, named, verdicts)
    m, verdict = max(regressed, key=lambda each: abs(_change(each[1])))
    if verdict.interval is None:
        raise TfperfError(
            f"{test}: the {shown_name(arguments.figure)} is beyond the limit that its test gives, or an older "
            "pytest-tfperf measured it",
            next_step="Change the limit, or run the test again",
        )
    change = _change(verdict)
    return Acknowledgement(
        machine=m.machine,
        test=test,
        figure=arguments.figure,
        change=change,
        worst=(min if change < 0 else max)(*verdict.interval, change),
        until=arguments.until,
        why=arguments.why,
    )


def _change(verdict: Verdict) -> float:
    change = verdict.change if verdict.confirmed_change is None else verdict.confirmed_change
    return change or 0.0


def _nothing_to_acknowledge(
    test: str,
    session: str,
    named: Sequence[tuple[Measurement, Verdict]],
    verdicts: Sequence[tuple[Measurement, Verdict]],
) -> TfperfError:
    m, verdict = named[0]
    others = [v.figure.name for _, v in verdicts if v.outcome is Outcome.REGRESSED]
    outcome = verdict.outcome if m.is_decided and verdict.outcome else "without a verdict"
    return TfperfError(
        f"{test}: its {shown_name(verdict.figure.name)} is {outcome} in session {session}, its last, so there is "
        "nothing to acknowledge",
        next_step=f"Its {others[0]} is REGRESSED: --figure {others[0]}" if others else "",
    )


def _to_remove(arguments: argparse.Namespace, known: Sequence[Acknowledgement]) -> Acknowledgement:
    """Return the one acknowledgement that the arguments name.

    Raises:
        TfperfError: none or several.
    """
    tests = {one.test for one in known}
    meant = {arguments.test} & tests or {test for test in tests if arguments.test in test}
    if not meant:
        names = known_names(arguments.test, tests)
        raise TfperfError(f"nothing is acknowledged of a test with {arguments.test!r} in its id", next_step=names)
    filters: tuple[tuple[str, Callable[[Acknowledgement], bool]], ...] = (
        ("test", lambda one: one.test in meant),
        ("figure", lambda one: one.figure == arguments.figure),
        ("machine", lambda one: arguments.machine in (None, one.machine)),
    )
    left = list(known)
    for name, is_meant in filters:
        before, left = left, [one for one in left if is_meant(one)]
        if not left:
            names = known_names(getattr(arguments, name), {getattr(one, name) for one in before})
            raise TfperfError(f"{arguments.test}: no acknowledgement of this {name}", next_step=names)
    if len(left) > 1:
        several = [f"  {_shown(one)}" for one in left]
        raise TfperfError(f"{arguments.test} means several; give more of the id, or --machine:", *several)
    return left[0]


def _shown(one: Acknowledgement) -> str:
    return f"{one.test} on {one.machine}: {loss(one, one.change)}, until {one.until}"


def _table(known: Sequence[Acknowledgement], today: date, width: int | None) -> list[str]:
    rows = [
        {
            "until": one.until.isoformat(),
            "days left": str(days) if (days := one.days_left(today)) >= 0 else "over",
            "test": one.test,
            "loss": loss(one, one.change),
            "machine": one.machine,
            "why": one.why,
        }
        for one in sorted(known, key=lambda one: (one.until, one.key))
    ]
    return table(rows, Columns(right={"days left"}, optional=("machine", "why"), ids=("test",)), width)
