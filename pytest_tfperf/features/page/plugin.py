"""`--tfperf-html`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.features import Feature
from pytest_tfperf.stores import files

if TYPE_CHECKING:
    from pytest_tfperf.bench.session_context import SessionContext
    from pytest_tfperf.core.session_verdicts import SessionRecord

HTML: Final[Setting[Path | None]] = Setting(
    name="html",
    default=None,
    parse=parse.file,
    help="write a report of the session, one HTML file",
    metavar="PATH",
    of_one_session=True,
)


def prepare(settings: Settings) -> None:
    """Refuse a path that can't be written."""
    if (path := settings.of(HTML)) is not None:
        files.require_writable(path, HTML.spelled)


def session_ended(context: SessionContext, record: SessionRecord) -> list[str]:
    """Write the report; without measurements a file that is there stays."""
    settings, history = context.settings, context.history
    path = settings.of(HTML)
    if path is None or settings.collects_only:
        return []
    if not record.results and not record.not_measured:
        return [f"report: nothing was measured, so {path} was not written"]
    # They import NumPy and Jinja2.
    from pytest_tfperf.features.page.facts import ReportSource, report_facts, report_source
    from pytest_tfperf.features.page.render import page

    source = ReportSource(
        measurements=record.alone,
        interleaved=record.interleaved,
        verdicts=record.verdicts,
        not_measured=record.not_measured,
        refused=record.refused,
        left_out=sorted(record.left_out),
        not_run=record.not_run,
        rerun=settings.rerun,
    )
    source = report_source(source, history, context.baselines)
    try:
        files.replace(path, page(report_facts(source)))
    except OSError as error:
        return [
            f"report: {path} can't be written: {error.strerror}. Mend that, then write it from the history: "
            "tfperf report -o PATH"
        ]
    return [f"report: {path}"]


FEATURE: Final = Feature(settings=(HTML,), prepare=prepare, session_ended=session_ended)
