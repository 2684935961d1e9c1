"""`tfperf ack`: acknowledge a loss until a date, remove an acknowledgement, list all."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, date, datetime
from itertools import islice
from typing import TYPE_CHECKING, Final

from pytest_tfperf.console.arguments import (
    Commands,
    Group,
    add_command,
    folder,
    history_place,
    nothing_left,
    open_history,
    session_id,
)
from pytest_tfperf.console.measured_test import named, wanted_test
from pytest_tfperf.console.output import show, width
from pytest_tfperf.core.acknowledgement import MOST_DAYS, Acknowledgement
from pytest_tfperf.core.exit_status import EXIT_GREEN
from pytest_tfperf.core.figure import RATE, shown_name
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import moment
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.errors import TfperfError, known_names, one_of
from pytest_tfperf.reports.acknowledgement import acknowledged_test, loss
from pytest_tfperf.reports.numbers import duration
from pytest_tfperf.reports.table import Columns, table
from pytest_tfperf.revisions.git import DIRTY, is_ancestor, repository_of
from pytest_tfperf.stores import acknowledgements, files

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import History

_MOST_SESSIONS: Final = 3
_A_DAY: Final = 24 * 3600.0
_MOST_CHARACTERS: Final = 200  # of a reason, which the summary shows in a line


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        _run,
        "ack: silence a known loss until a date. It is measured and shown, and fails nothing unless it gets worse",
        group=Group.EVERY_DAY,
        examples=(
            'tfperf ack test_resnet50 --until 2027-01-15 --why "cuDNN 9.12, upstream bug 123"',
            'tfperf ack test_bert --figure peak_memory --until 2027-01-15 --why "larger batch, until the cards come"',
            "tfperf ack --remove test_resnet50",
            "tfperf ack --list",
        ),
        parents=[folder(Settings.baselines, "folder of the baselines"), history_place()],
    )
    command.add_argument(
        "test", metavar="TEST", nargs="?", help="pytest's node id or the workload's name, or a part of them"
    )
    command.add_argument("--figure", default=RATE, metavar="NAME", help="a figure beside the throughput: peak_memory")
    command.add_argument("--machine", metavar="NAME", help="machine of the loss (default: the last that measured it)")
    command.add_argument("--call", metavar="NAME", help="one of the test's calls, as in 'NAME on 1x2' (default: all)")
    command.add_argument(
        "--session", metavar="ID", help="session of the loss, even one of other code: its id, latest or previous"
    )
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
    folder = arguments.baselines
    with files.locked(folder):
        known = acknowledgements.read(folder)
        if arguments.list:
            show(*_table(known, width()) or [f"nothing is acknowledged in {folder}/"])
        elif arguments.test is None:
            raise TfperfError("no TEST", next_step="Name one, or list what is acknowledged: tfperf ack --list")
        elif arguments.remove:
            gone = _to_remove(arguments, known)
            path = acknowledgements.write(folder, [entry for entry in known if entry not in gone])
            show(*(f"removed: {_shown(entry, gone)}" for entry in gone), f"Commit {path}")
        else:
            _require_end(arguments)
            new, measured = _new(arguments)
            replaced = {entry.key for entry in new}
            old = [entry for entry in known if entry.key in replaced]
            if old and not arguments.replace:
                raise TfperfError(
                    f"{old[0].test} on {old[0].machine} is acknowledged until {old[0].until} already: {old[0].why}",
                    next_step="Give --replace to acknowledge the last measurement in its place, or --remove",
                )
            path = acknowledgements.write(folder, [*(entry for entry in known if entry not in old), *new])
            show(*(f"acknowledged: {_shown(entry, new)}; at worst {loss(entry, entry.worst)}" for entry in new))
            show(f"measured {measured}", f"Commit {path}")
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
    if days > MOST_DAYS:
        raise TfperfError(
            f"--until={arguments.until} is more than a year away, and a loss without an end is a lower baseline",
            next_step="Record that, if the loss is to stay: pytest TEST --update-baselines",
        )


def _today() -> date:
    return datetime.now(UTC).date()


def _new(arguments: argparse.Namespace) -> tuple[list[Acknowledgement], str]:
    """Return an acknowledgement for each call that lost something in a test's session, and the session in words."""
    history, figure, machine = open_history(arguments), arguments.figure, arguments.machine
    if error := nothing_left(history, {"machine": machine}):
        raise error
    asked = session_id(history, arguments.session, machine, alone_only=True)
    results = (
        list(history.values(session=asked, machine=machine, figure="")) if asked else history.latest(machine=machine)
    )
    test, session = wanted_test(history, results, arguments.test, asked)
    calls = list(history.measurements(session=session, test=test, machine=machine, is_interleaved=False))
    judged = [(m, verdict) for m in calls for verdict in m.verdicts if m.is_decided]
    outcomes = {verdict.figure.name: verdict.outcome for _, verdict in judged}
    if figure not in outcomes:
        raise TfperfError(f"{test}: {one_of('figure', figure, outcomes)}")
    regressed = [(m, verdict) for m, verdict in judged if verdict.outcome is Outcome.REGRESSED]
    of_figure = [(m, verdict) for m, verdict in regressed if verdict.figure.name == figure]
    if not of_figure:
        others = [f"--figure {verdict.figure.name}" for _, verdict in regressed]
        raise TfperfError(
            f"{test}: its {shown_name(figure)} is {outcomes[figure] or 'not judged'} in session {session}"
            f"{'' if asked else ', the last'}: there is nothing to acknowledge",
            next_step=f"Another figure is REGRESSED: {others[0]}" if others else "",
        )
    m = of_figure[0][0]
    if not asked and (why := _not_of_head(arguments, m.commit)):
        last = f"{test} was last measured {_measured(m.time, m.commit)}, session {session}"
        raise TfperfError(
            f"{last}: {why}, so its loss may not be that of HEAD",
            *_sessions_of_head(arguments, history, test, m.machine),
            next_step=f"Measure it at HEAD, or name the session whose loss is meant, as in --session {session}",
        )
    of_figure.sort(key=lambda each: abs(each[1].deciding_change or 0.0))
    found = {m.key: _acknowledgement(m, verdict, arguments) for m, verdict in of_figure}  # of equal calls the worst
    return _of_call(arguments, list(found.values())), f"{_measured(m.time, m.commit)}, session {session}"


def size_of(verdict: Verdict) -> tuple[float, float] | None:
    """Return a loss and its worse end; None where its interval is not known."""
    change, interval = verdict.deciding_change, verdict.interval
    if change is None or interval is None:
        return None
    return change, (min if change < 0 else max)(*interval, change)


def _acknowledgement(m: Measurement, verdict: Verdict, arguments: argparse.Namespace) -> Acknowledgement:
    if (size := size_of(verdict)) is None:
        raise TfperfError(
            f"{m.test}: its {shown_name(verdict.figure.name)} is beyond a limit, or was measured by an older "
            "pytest-tfperf",
            next_step="Change the limit in the test, or run the test again",
        )
    entry = Acknowledgement(
        machine=m.machine,
        test=m.test,
        workload=m.workload.id,
        topology=m.topology,
        figure=verdict.figure.name,
        change=size[0],
        worst=size[1],
        until=arguments.until,
        why=arguments.why,
    )
    acknowledgements.require_plausible(entry)
    return entry


def _not_of_head(arguments: argparse.Namespace, commit: str) -> str:
    """Return why a measured commit's loss may not be HEAD's; "" where it is, or where nothing tells."""
    folder = arguments.baselines.resolve()
    repository = repository_of(next(place for place in (folder, *folder.parents) if place.is_dir()))
    if repository is None or not commit:
        return ""
    if commit.endswith(DIRTY):
        return "it was measured with changes that are not committed"
    return "" if is_ancestor(repository, commit) else "that commit is no ancestor of HEAD"


def _sessions_of_head(arguments: argparse.Namespace, history: History, test: str, machine: str) -> list[str]:
    """Return a line for each of the latest sessions that found a loss in the code of HEAD."""
    figure = "" if arguments.figure == RATE else arguments.figure
    by_session = {
        result.session: result
        for result in history.values(test=test, machine=machine, figure=figure)
        if result.outcome is Outcome.REGRESSED
    }
    latest = (result for result in reversed(by_session.values()) if not _not_of_head(arguments, result.commit))
    return [
        f"  --session {result.session}: measured {_measured(result.time, result.commit)}"
        for result in islice(latest, _MOST_SESSIONS)
    ]


def _measured(time: str, commit: str) -> str:
    """Write when and at which commit something was measured: "2026-11-28 03:00 UTC, 5 h 2 min ago, at 1f2e3d4c5b6a"."""
    then = moment(time)
    seconds = max(0.0, (datetime.now(UTC) - then).total_seconds())
    age = duration(seconds) if seconds < 2 * _A_DAY else f"{seconds // _A_DAY:.0f} days"
    return f"{then.astimezone(UTC):%Y-%m-%d %H:%M} UTC, {age} ago, at {commit or 'an unknown commit'}"


def _of_call(arguments: argparse.Namespace, known: Sequence[Acknowledgement]) -> list[Acknowledgement]:
    """Return the acknowledgements of the call that `--call` names; without it, all."""
    call = arguments.call or ""
    like = [entry for entry in known if entry.call == call] or [entry for entry in known if call in entry.call]
    if not like:
        raise TfperfError(one_of("call", call, {entry.call for entry in known}))
    return sorted(like, key=lambda entry: entry.key)


def _to_remove(arguments: argparse.Namespace, known: Sequence[Acknowledgement]) -> list[Acknowledgement]:
    """Return the acknowledgements of the one test that the arguments name."""
    tests = named(arguments.test, [entry.test for entry in known])
    similar = [entry for entry in known if (entry.test in tests if tests else arguments.test in entry.test)]
    meant = [
        entry for entry in similar if entry.figure == arguments.figure and arguments.machine in (None, entry.machine)
    ]
    if len({entry.key[:3] for entry in meant}) == 1:
        return _of_call(arguments, meant)
    fact = f"{arguments.test!r} means several acknowledgements; give more of the id, --machine or --figure"
    if not meant:
        fact = f"no {arguments.figure} of a test with {arguments.test!r} in its id is acknowledged"
    lines = [f"  --machine {entry.machine} --figure {entry.figure} {entry.test}" for entry in meant or similar]
    names = "" if similar else known_names(arguments.test, {entry.test for entry in known})
    raise TfperfError(fact, *dict.fromkeys(lines), next_step=names)


def _shown(entry: Acknowledgement, known: Sequence[Acknowledgement]) -> str:
    return f"{acknowledged_test(entry, known)} on {entry.machine}: {loss(entry, entry.change)}, until {entry.until}"


def _table(known: Sequence[Acknowledgement], width: int | None) -> list[str]:
    rows = [
        {
            "until": entry.until.isoformat(),
            "days left": str(days) if (days := entry.days_left(_today())) >= 0 else "over",
            "test": acknowledged_test(entry, known),
            "loss": loss(entry, entry.change),
            "machine": entry.machine,
            "why": entry.why,
        }
        for entry in sorted(known, key=lambda entry: (entry.until, entry.key))
    ]
    return table(rows, Columns(right={"days left"}, optional=("machine", "why"), ids=("test",)), width)
