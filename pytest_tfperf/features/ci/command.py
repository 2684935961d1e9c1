"""`tfperf comment`: one comment on a pull request, edited in place."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path

from pytest_tfperf.console.arguments import Commands, add_command
from pytest_tfperf.console.output import show
from pytest_tfperf.core.exit_status import EXIT_GREEN
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.ci.api import NotPosted
from pytest_tfperf.features.ci.pull_request import PullRequest


def add_to(commands: Commands) -> None:
    """Add the command."""
    comment = add_command(
        commands,
        "comment",
        _run,
        "write a session's comment on the pull request of this CI job, or edit the one that is there",
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
    if not re.fullmatch(r"[^<>\r\n]{1,80}", arguments.name) or "--" in arguments.name:
        raise TfperfError(f"--name={arguments.name}: give a short name without <, > and --, as in gpu")
    try:
        text = arguments.file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise TfperfError(
            f"{arguments.file} can't be read: {why}",
            next_step=f"A session writes it: TFPERF_COMMENT={arguments.file} pytest ...",
        ) from None
    try:
        done = PullRequest.of(os.environ).post("\n\n".join(paragraphs(text, _MOST_CHARACTERS)), arguments.name)
        show(f"{done} the comment")
    except NotPosted as error:  # the tests decide about the job, and not who can be told
        show(f"no comment, because {error}. The job's summary has the same")
    return EXIT_GREEN


_MOST_CHARACTERS = 60_000  # GitHub takes 65,536


def paragraphs(text: str, most: int) -> Sequence[str]:
    """The first blocks of Markdown that fit into so many characters."""
    kept: list[str] = []
    for block in text.split("\n\n"):
        most -= len(block) + 2
        if most < 0:
            break
        kept.append(block)
    return kept
