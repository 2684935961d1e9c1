"""The files and messages that a session writes when it ends, besides its history."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.ci.outputs import github_annotations, github_summary, markdown_file
from pytest_tfperf.features.team.process import push_new
from pytest_tfperf.stores import atomic

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_tfperf.session.session import Session


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


def html_report(session: Session) -> list[str]:
    """Write the report where `--tfperf-html` says; without measurements a file that is there stays."""
    path = session.settings.html
    if path is None or session.settings.collects_only:
        return []
    results = session.results
    if not results and not session.not_measured:
        return [f"report: nothing was measured, so {path} was not written"]
    # They import NumPy and Jinja2.
    from pytest_tfperf.features.page.facts import ReportSource, report_facts
    from pytest_tfperf.features.page.render import page
    from pytest_tfperf.features.page.source import report_source

    source = ReportSource(
        measurements=[one for one in results if isinstance(one, Measurement)],
        comparisons=[one for one in results if isinstance(one, Comparison)],
        verdicts=session.verdicts,
        not_measured=session.not_measured,
        refused=session.refused,
        left_out=sorted(session.left_out),
        rerun=session.settings.rerun,
    )
    past = []
    with suppress(TfperfError):  # a smoke run has none, and a broken history was reported before
        past = session.history.results()
    source = report_source(source, past, session.history, session.baselines)
    try:
        atomic.replace(path, page(report_facts(source)))
    except OSError as error:
        return [
            f"report: {path} can't be written: {error.strerror}. Mend that, then write it from the history: "
            "tfperf report -o PATH"
        ]
    return [f"report: {path}"]


def _history(session: Session) -> list[str]:
    """Send the history to the team's server; also say what was damaged in it."""
    if not session.keeps_history:
        return []
    url, folder = session.settings.history_url, session.settings.dir
    said = [session.history.moved_aside, str(session.history.unread), push_new(folder, url) if url else ""]
    return [line for line in said if line]


_OUTPUTS: tuple[Callable[[Session], list[str]], ...] = (
    html_report,
    _history,
    github_summary,
    markdown_file,
    github_annotations,
)
"""Each writes one thing if it was asked for, and returns lines for the user."""
