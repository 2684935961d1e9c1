"""`tfperf notify`: tell what a session of the history found, or which machines nobody measures."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from pytest_tfperf.console.arguments import Commands, Group, add_command, checked, history_place, open_history
from pytest_tfperf.console.arguments import session_id as id_of
from pytest_tfperf.console.output import show, show_json
from pytest_tfperf.console.session_settings import root, setting
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_NOT_MEASURED, EXIT_REGRESSED
from pytest_tfperf.core.rerun_command import FROM_ROOTDIR
from pytest_tfperf.core.session_verdicts import SessionResult
from pytest_tfperf.errors import TfperfError, one_of, page
from pytest_tfperf.features.notify.news import Event, EventKind
from pytest_tfperf.features.notify.plugin import NOTIFY

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import Filters

_CLOCKS_DIFFER: Final = timedelta(hours=1)  # of two machines; a measurement is ahead of the clock by more


def add_to(commands: Commands) -> None:
    """Add the command."""
    notify = add_command(
        commands,
        _notify,
        "notify: send what changed to Slack, Teams, issues or other channels. tfperf_notify names them. With "
        "--silent-for it reports machines that nobody measures",
        group=Group.CHANGE,
        examples=(
            "tfperf notify --dry-run",
            "TFPERF_NOTIFY='slack $SLACK_URL' tfperf notify --session latest",
            "tfperf notify --silent-for 26h --ignore=dgx1-old",
        ),
        statuses={
            EXIT_GREEN: "the channels know all of it; with --silent-for: all machines were measured lately",
            EXIT_REGRESSED: "with --silent-for: a machine was not",
            EXIT_NOT_MEASURED: "a channel did not take all of it",
        },
        parents=[history_place()],
    )
    notify.add_argument("--session", metavar="ID", help="the session: its id, latest or previous (default: latest)")
    notify.add_argument(
        "--silent-for",
        type=checked(parse.duration),
        metavar="TIME",
        help="tell, once a day, the machines that nobody has measured for 90m or 26h, in place of a session's changes",
    )
    for option, what in (("machine", "only this machine"), ("ignore", "not this machine, which was retired")):
        notify.add_argument(
            f"--{option}", action="append", default=[], metavar="NAME", help=f"with --silent-for: {what}; repeatable"
        )
    notify.add_argument("--dry-run", action="store_true", help="send nothing, and print what would be sent to whom")


def _notify(arguments: argparse.Namespace) -> int:
    if arguments.silent_for is not None:
        if arguments.session is not None:
            raise TfperfError(
                "--silent-for asks when each machine was last measured, in any session", next_step="Leave out --session"
            )
        return _tell_silence(arguments)
    from pytest_tfperf.features.notify.events import session_events

    if arguments.machine or arguments.ignore:
        raise TfperfError("--machine and --ignore name silent machines", next_step="Add --silent-for 26h")
    if not setting(NOTIFY):
        raise TfperfError("tfperf_notify names no channel", next_step=f"Name one: {page('notifications.md')}")
    history = open_history(arguments)
    wanted = arguments.session or "latest"
    session = str(id_of(history, wanted, alone_only=True))
    results = list(history.measurements(session=session))
    if not results:
        raise TfperfError(f"--session={session}: the history has no such session, or has dropped its details")
    machines = dict.fromkeys(m.machine for m in results)
    verdicts = [verdict for name in machines for verdict in history.verdicts(session=session, machine=name)]
    events = session_events(SessionResult(results=results, verdicts=verdicts), {}, FROM_ROOTDIR, results[-1].time)
    return _tell(arguments, events, session=session)


def _tell_silence(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.features.notify.events import pulse

    history, now = open_history(arguments), datetime.now(UTC)
    history.database.require()
    known = history.values_of("machine")
    for name in (*arguments.machine, *arguments.ignore):
        if name not in known:
            raise TfperfError(one_of("machine", name, known))
    asked = [name for name in arguments.machine or known if name not in arguments.ignore]
    events = []
    for name in asked:
        # Measured with a clock that was ahead, a machine would pass as measured until that time comes.
        before_now: Filters = {"machine": name, "until": now + _CLOCKS_DIFFER}
        _, latest = history.times_of(machine=name)
        last = history.times_of(**before_now)[1] if history.has(**before_now) else None
        events.append(pulse(name, last, now, arguments.silent_for, ahead="" if latest == last else latest))
    words = {EventKind.SILENT: "SILENT", EventKind.RECOVERED: "measured"}
    lines = [f"{words[event.kind]:<8}  {event.machine}: {event.headline}" for event in events]
    show(*lines or ["no machine is left to look at"])
    status = _tell(arguments, events)
    return EXIT_REGRESSED if any(event.kind is EventKind.SILENT for event in events) else status


def _tell(arguments: argparse.Namespace, events: Sequence[Event], session: str = "") -> int:
    """Tell the channels what they do not know, or print it; returns the exit status."""
    from pytest_tfperf.features.notify.events import gone
    from pytest_tfperf.features.notify.telling import deliveries, tell, without_channel

    folder = open_history(arguments).database.path.parent
    named = setting(NOTIFY)
    now = datetime.now(UTC).isoformat(timespec="seconds")

    def end_of(event: Event) -> Event | None:
        return gone(event, "the machine was retired", now) if event.machine in arguments.ignore else None

    found, lines = deliveries(named, events, folder, session=session, gone=end_of)
    has_channels = not without_channel(named, events)
    if named and not found and has_channels:
        lines.append("the channels know all of it")
    if arguments.dry_run:
        for line in lines:
            show(line)
        for delivery in found:
            show(f"to {delivery.channel}:")
            show_json(delivery.notification.to_json())
        return EXIT_GREEN
    for line in (*lines, *tell(found, folder, root())):
        show(line)
    is_all_taken = has_channels and all(delivery.is_taken for delivery in found)
    return EXIT_GREEN if is_all_taken else EXIT_NOT_MEASURED
