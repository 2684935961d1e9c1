"""What a session leaves behind when it ends, besides its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_tfperf.ci_outputs import github_annotations, github_summary, markdown_file
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.html_output import html_report
from pytest_tfperf.stores.push_process import push_new

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_tfperf.session import Session


def write_outputs(session: Session) -> list[str]:
    """Write all that was asked for; returns what to tell the user, one line each.

    A fault is told, and never raised: none may keep the others from being written, or change the exit status.
    """
    lines = []
    for output in _OUTPUTS:
        try:
            lines += output(session)
        except (OSError, TfperfError) as error:
            lines.append(str(error))
        except Exception as error:
            lines.append(f"{output.__name__}: a fault of pytest-tfperf itself, please report it: {error!r}")
    return lines


def _history(session: Session) -> list[str]:
    """Send the history to the team's server; say again if a damaged one was moved aside."""
    if not session.keeps_history:
        return []
    url, folder = session.settings.history_url, session.settings.dir
    said = [session.history.moved_aside, push_new(folder, url) if url else ""]
    return [line for line in said if line]


_OUTPUTS: tuple[Callable[[Session], list[str]], ...] = (
    html_report,
    _history,
    github_summary,
    markdown_file,
    github_annotations,
)
"""Each writes one thing, if it was asked for, and returns what to tell the user."""
