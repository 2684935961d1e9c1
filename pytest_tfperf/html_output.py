"""The HTML report of a session, for `--tfperf-html`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import atomic

if TYPE_CHECKING:
    from pytest_tfperf.session import Session


def html_report(session: Session) -> list[str]:
    """Write the report where `--tfperf-html` says; without measurements a file that is there stays."""
    path = session.settings.html
    if path is None or session.settings.collects_only:
        return []
    results = session.results
    if not results and not session.not_measured:
        return [f"report: nothing was measured, so {path} was not written"]
    # They import NumPy and Jinja2.
    from pytest_tfperf.report_source import report_source
    from pytest_tfperf.reports.page.facts import ReportSource, report_facts
    from pytest_tfperf.reports.page.render import page

    source = ReportSource(
        measurements=[one for one in results if isinstance(one, Measurement)],
        comparisons=[one for one in results if isinstance(one, Comparison)],
        verdicts=[verdict.text for verdict in session.verdicts if verdict.text],
        not_measured=sorted(session.not_measured),
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
