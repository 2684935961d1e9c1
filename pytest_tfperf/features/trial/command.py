"""`tfperf trial`: how often would a gate be wrong with these tests on this machine?"""

from __future__ import annotations

import argparse
import math
import secrets
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from pytest_tfperf.console.arguments import Commands, Group, add_command, checked, folder
from pytest_tfperf.console.output import show, show_json, warn, width
from pytest_tfperf.console.session_settings import folder_setting, root
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_INTERRUPTED, EXIT_NOT_MEASURED, EXIT_REGRESSED
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import MeasurementError, TfperfError
from pytest_tfperf.features.trial.answer import Gate, answer, trial_lines
from pytest_tfperf.features.trial.trial import FOLDER, Trial, read

_STATUS_OF: Final = {Gate.MAY_BLOCK: EXIT_GREEN, Gate.WARN_ONLY: EXIT_REGRESSED, Gate.UNDECIDED: EXIT_NOT_MEASURED}


def add_to(commands: Commands) -> None:
    """Add the command."""
    trial = add_command(
        commands,
        _run,
        "trial: find out how often a gate would be wrong on this machine. It runs sessions of unchanged code, "
        "and sessions in which some tests lose throughput on purpose",
        group=Group.START,
        examples=(
            "tfperf trial -- perf_tests -m gpu",
            "tfperf trial --for 2h --slowdown 0.1 -- perf_tests",
            "tfperf trial --base -- perf_tests    # of the gate for pull requests",
            "tfperf trial --from-history          # of the sessions so far, without new ones",
        ),
        statuses={
            EXIT_GREEN: "the gate may block",
            EXIT_REGRESSED: "the gate should only warn",
            EXIT_INTERRUPTED: "interrupted; the same command goes on",
            EXIT_NOT_MEASURED: "more sessions are needed, or nothing could be measured",
        },
        parents=[folder(Settings.dir, "where the trial lies, and the history for --from-history")],
    )
    trial.add_argument(
        "--sessions",
        type=checked(parse.count(1)),
        default=20,
        metavar="N",
        help="sessions of unchanged code; half as many have losses (default: 20)",
    )
    trial.add_argument(
        "--slowdown",
        type=checked(parse.share),
        default=0.05,
        metavar="FRACTION",
        help="the throughput that a slowed test loses (default: 0.05)",
    )
    trial.add_argument(
        "--for",
        dest="time",
        type=checked(parse.duration),
        default=math.inf,
        metavar="TIME",
        help="run the sessions that fit into 30m or 2h; the same command goes on later",
    )
    trial.add_argument("--base", action="store_true", help="try --tfperf-base: the committed code beside itself")
    trial.add_argument("--from-history", action="store_true", help="count the history's sessions of unchanged code")
    trial.add_argument(
        "--machine", metavar="NAME", help="with --from-history: this machine (default: the last session's)"
    )
    trial.add_argument("--again", action="store_true", help="forget what an earlier trial found")
    trial.add_argument("--json", action="store_true", help="print the answer as JSON")
    trial.add_argument("arguments", nargs="*", metavar="-- ARGUMENT", help="arguments of pytest")


def _run(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.features.trial.sessions import trial_of_history
    from pytest_tfperf.stores.history import History

    if arguments.from_history:
        trial = trial_of_history(History(arguments.dir / "history.sqlite"), arguments.machine)
    else:
        try:
            trial = _ran(arguments)
        except MeasurementError as error:
            warn(str(error))
            return EXIT_NOT_MEASURED
    found = answer(trial)
    if arguments.json:
        show_json({"trial": plain(trial), "answer": plain(found)})
    else:
        show("", *trial_lines(trial, found, width()))
    return _STATUS_OF[found.gate]


def _ran(arguments: argparse.Namespace) -> Trial:
    """Return the trial after its sessions, or after those that fit into the time."""
    from pytest_tfperf.features.trial.runner import Runner, code_of, starter
    from pytest_tfperf.revisions.git import DIRTY, commit_of, repository_of

    folder, baselines = Path(arguments.dir).absolute(), folder_setting(Settings.baselines)
    named = [path for word in arguments.arguments if (path := Path(word.partition("::")[0])).exists()]
    folders = {repository_of(root()) or root(), *(path if path.is_dir() else path.parent for path in named)}
    code = partial(code_of, folders, (folder, baselines))
    wanted = Trial(
        arguments=tuple(arguments.arguments),
        is_of_base=arguments.base,
        slowdown=arguments.slowdown,
        same=arguments.sessions,
        slowed=(arguments.sessions + 1) // 2,
        commit=commit_of(root(), besides=baselines),
        code=code(),
        seed=secrets.randbits(32),
    )
    if arguments.base and wanted.commit.endswith(DIRTY):
        raise TfperfError(
            "--base compares the committed code with itself, and this checkout has changes",
            next_step="Commit or stash them first",
        )
    if arguments.again:
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
    kept = read(folder)
    trial = wanted if kept is None else _continued(kept, wanted)
    say = warn if arguments.json else show
    if 0 < len(trial.sessions) < trial.same + trial.slowed:
        say(f"the trial goes on: {len(trial.sessions)} of {trial.same + trial.slowed} sessions have run")
    start = starter(folder / FOLDER, trial, say)
    return Runner(trial, folder, start, say, code, arguments.time).run()


def _continued(kept: Trial, wanted: Trial) -> Trial:
    """Return the trial that an interrupted command left, to be gone on with."""
    from pytest_tfperf.features.trial.runner import require_same_code

    changed = [facts for facts in zip(_facts(kept), _facts(wanted), strict=True) if facts[0] != facts[1]]
    if changed:
        then, now = (", ".join(facts) for facts in zip(*changed, strict=True))
        raise TfperfError(
            f"the trial that was begun here is another one: {then}; now {now}",
            next_step="Begin anew with --again, or go on as it was begun",
        )
    require_same_code(kept, wanted.code)
    return replace(kept, same=wanted.same, slowed=wanted.slowed)


def _facts(trial: Trial) -> tuple[str, ...]:
    """Return what a command must repeat to go on with a trial."""
    base = "with --base" if trial.is_of_base else "without --base"
    return f"pytest {' '.join(trial.arguments)}".rstrip(), f"--slowdown {trial.slowdown}", base
