"""The files and messages that a session writes when it ends, besides its history."""

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
    """Write every output that was asked for; returns lines for the user.

    A fault becomes a line and is never raised: it must not prevent the other outputs or change the exit status.
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
    """Send the history to the team's server; also repeat that a damaged file was moved aside."""
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
"""Each writes one thing if it was asked for, and returns lines for the user."""
