"""`--tfperf-html`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features import hookimpl
from pytest_tfperf.stores import files

if TYPE_CHECKING:
    from pytest_tfperf.core.session_verdicts import SessionRecord
    from pytest_tfperf.stores.baselines import BaselineStore
    from pytest_tfperf.stores.history import History

HTML: Final[Setting[Path | None]] = Setting(
    name="html",
    default=None,
    parse=parse.file,
    help="write a report of the session, one HTML file",
    metavar="PATH",
    of_one_session=True,
)
SETTINGS: Final = (HTML,)


@hookimpl
def prepare(settings: Settings) -> None:
    """Refuse a path that can't be written."""
    if (path := settings.of(HTML)) is not None:
        files.require_writable(path, HTML.spelled)


@hookimpl
def session_ended(settings: Settings, record: SessionRecord, history: History, baselines: BaselineStore) -> list[str]:
    """Write the report; without measurements a file that is there stays."""
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
        rerun=settings.rerun,
    )
    past = []
    with suppress(TfperfError):  # a smoke run has none, and a broken history was reported before
        past = history.results()
    source = report_source(source, past, history, baselines)
    try:
        files.replace(path, page(report_facts(source)))
    except OSError as error:
        return [
            f"report: {path} can't be written: {error.strerror}. Mend that, then write it from the history: "
            "tfperf report -o PATH"
        ]
    return [f"report: {path}"]
