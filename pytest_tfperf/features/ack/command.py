"""`tfperf ack`: acknowledge a loss until a date, remove an acknowledgement, list all."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final

from pytest_tfperf.console.arguments import Commands, add_command, folder, history_place, nothing_left, open_history
from pytest_tfperf.console.measured_test import named, wanted_test
from pytest_tfperf.console.output import show, width
from pytest_tfperf.core.acknowledgement import Acknowledgement
from pytest_tfperf.core.exit_status import EXIT_GREEN
from pytest_tfperf.core.figure import RATE, shown_name
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError, known_names, one_of
from pytest_tfperf.reports.acknowledgement import loss
from pytest_tfperf.reports.table import Columns, table
from pytest_tfperf.stores import acknowledgements

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
    known, folder = acknowledgements.read(arguments.baselines), arguments.baselines
    if arguments.list:
        show(*_table(known, width()) or [f"nothing is acknowledged in {folder}/"])
    elif arguments.test is None:
        raise TfperfError("no TEST", next_step="Name one, or list what is acknowledged: tfperf ack --list")
    elif arguments.remove:
        gone = _to_remove(arguments, known)
        path = acknowledgements.write(folder, [one for one in known if one is not gone])
        show(f"removed: {_shown(gone)}", f"Commit {path}")
    else:
        _require_end(arguments)
        new = _new(arguments)
        old = [one for one in known if one.key == new.key]
        if old and not arguments.replace:
            raise TfperfError(
                f"{new.test} on {new.machine} is acknowledged until {old[0].until} already: {old[0].why}",
                next_step="Give --replace to acknowledge the last measurement in its place, or --remove",
            )
        path = acknowledgements.write(folder, [*(one for one in known if one not in old), new])
        show(f"acknowledged: {_shown(new)}; at worst {loss(new, new.worst)}", f"Commit {path}")
    return EXIT_GREEN


def _require_end(arguments: argparse.Namespace) -> None:
    if missing := [f"--{name}" for name in ("until", "why") if getattr(arguments, name) is None]:
        raise TfperfError(
            f"no {' and '.join(missing)}: an acknowledgement has an end, and a reason that others can read",
            next_step='Write: --until 2027-01-15 --why "upstream bug 123"',
        )
    days = (arguments.until - _today()).days
    if days < 0:
        raise TfperfError(f"--until={arguments.until} is past", next_step=f"Today is {_today()}")
    if days > _MOST_DAYS:
        raise TfperfError(
            f"--until={arguments.until} is more than a year away, and a loss without an end is a lower baseline",
            next_step="Record that, if the loss is to stay: pytest TEST --update-baselines",
        )


def _today() -> date:
    return datetime.now(UTC).date()


def _new(arguments: argparse.Namespace) -> Acknowledgement:
    """Return the acknowledgement of the last measurement of the test, by its worst call.

    Raises:
        TfperfError: the history has no such test or machine, or its figure was not REGRESSED.
    """
    history, figure, machine = open_history(arguments), arguments.figure, arguments.machine
    if error := nothing_left(history, {"machine": machine}):
        raise error
    test, session = wanted_test(history.latest(machine=machine), arguments.test)
    calls = history.measurements(session=session, test=test, machine=machine, is_interleaved=False)
    verdicts = [(m, verdict) for m in calls for verdict in m.verdicts if m.is_decided]
    outcomes = {verdict.figure.name: verdict.outcome for _, verdict in verdicts}
    regressed = [(m, verdict) for m, verdict in verdicts if verdict.outcome is Outcome.REGRESSED]
    named = [(m, verdict) for m, verdict in regressed if verdict.figure.name == figure]
    if figure not in outcomes:
        raise TfperfError(f"{test}: {one_of('figure', figure, outcomes)}")
    if not named:
        others = [f"--figure {verdict.figure.name}" for _, verdict in regressed]
        raise TfperfError(
            f"{test}: its {shown_name(figure)} is {outcomes[figure] or 'not judged'} in session {session}, the last: "
            "there is nothing to acknowledge",
            next_step=f"Another figure is REGRESSED: {others[0]}" if others else "",
        )
    m, verdict = max(named, key=lambda each: abs(each[1].deciding_change or 0.0))
    change, interval = verdict.deciding_change, verdict.interval
    if change is None or interval is None:
        raise TfperfError(
            f"{test}: its {shown_name(figure)} is beyond a limit, or was measured by an older pytest-tfperf",
            next_step="Change the limit in the test, or run the test again",
        )
    worst = (min if change < 0 else max)(*interval, change)
    return Acknowledgement(
        machine=m.machine,
        test=test,
        figure=figure,
        change=change,
        worst=worst,
        until=arguments.until,
        why=arguments.why,
    )


def _to_remove(arguments: argparse.Namespace, known: Sequence[Acknowledgement]) -> Acknowledgement:
    """Return the one acknowledgement that the arguments name.

    Raises:
        TfperfError: none or several.
    """
    tests = named(arguments.test, [one.test for one in known])
    similar = [one for one in known if (one.test in tests if tests else arguments.test in one.test)]
    meant = [one for one in similar if one.figure == arguments.figure and arguments.machine in (None, one.machine)]
    if len(meant) == 1:
        return meant[0]
    fact = f"{arguments.test!r} means several acknowledgements; give more of the id, --machine or --figure"
    if not meant:
        fact = f"no {arguments.figure} of a test with {arguments.test!r} in its id is acknowledged"
    lines = [f"  --machine {one.machine} --figure {one.figure} {one.test}" for one in meant or similar]
    names = "" if similar else known_names(arguments.test, {one.test for one in known})
    raise TfperfError(fact, *lines, next_step=names)


def _shown(one: Acknowledgement) -> str:
    return f"{one.test} on {one.machine}: {loss(one, one.change)}, until {one.until}"


def _table(known: Sequence[Acknowledgement], width: int | None) -> list[str]:
    rows = [
        {
            "until": one.until.isoformat(),
            "days left": str(days) if (days := one.days_left(_today())) >= 0 else "over",
            "test": one.test,
            "loss": loss(one, one.change),
            "machine": one.machine,
            "why": one.why,
        }
        for one in sorted(known, key=lambda one: (one.until, one.key))
    ]
    return table(rows, Columns(right={"days left"}, optional=("machine", "why"), ids=("test",)), width)
