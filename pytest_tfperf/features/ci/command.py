"""`tfperf comment`: one comment on a pull request, edited in place."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

from pytest_tfperf.console.arguments import Commands, Group, add_command
from pytest_tfperf.console.output import show
from pytest_tfperf.core.exit_status import EXIT_GREEN
from pytest_tfperf.errors import TfperfError, worded


def add_to(commands: Commands) -> None:
    """Add the command."""
    comment = add_command(
        commands,
        _run,
        "comment: write a session's comment on the pull request of this CI job. A comment that is there is edited",
        group=Group.CHANGE,
        examples=(
            "TFPERF_COMMENT=comment.md pytest perf_tests --tfperf-base=origin/main",
            "tfperf comment comment.md",
            "tfperf comment comment.md --name=gpu",
        ),
    )
    comment.add_argument(
        "file", type=Path, metavar="FILE", help="what a session wrote for the ini value tfperf_comment"
    )
    comment.add_argument("--name", default="throughput", help="tells comments of several jobs apart")


def _run(arguments: argparse.Namespace) -> int:
    # These import ssl, which no other command needs.
    from pytest_tfperf.features.ci.pull_request import post
    from pytest_tfperf.web.api import NotPosted

    if not re.fullmatch(r"[^<>\r\n]{1,80}", arguments.name) or "--" in arguments.name:
        raise TfperfError(f"--name={arguments.name}: give a short name without <, > and --, as in gpu")
    with worded(arguments.file, "read", f"A session writes it: TFPERF_COMMENT={arguments.file} pytest ..."):
        text = arguments.file.read_text("utf-8")
    try:
        show(f"{post(_shortened(text), arguments.name, os.environ)} the comment")
    except NotPosted as error:  # tests decide whether the job fails, not the rights of its token
        show(f"no comment, because {error}. The job's summary has the same")
    return EXIT_GREEN


_MOST_CHARACTERS = 60_000  # GitHub takes 65,536


def _shortened(markdown: str) -> str:
    """Keep the first blocks that fit."""
    kept: list[str] = []
    room = _MOST_CHARACTERS
    for block in markdown.split("\n\n"):
        room -= len(block) + 2
        if room < 0:
            break
        kept.append(block)
    return "\n\n".join(kept)
