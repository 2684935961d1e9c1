"""`--tfperf-html` and `--tfperf-json`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core.setting import output_file
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.stores import files

if TYPE_CHECKING:
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.session_verdicts import SessionResult

HTML: Final = output_file("html", "write a report of the session, one HTML file")
JSON: Final = output_file("json", "write the session's result for scripts, one JSON file")


def prepare(settings: Settings) -> None:
    """Refuse a path that can't be written, and remove an earlier session's result: nobody must take it for this one."""
    for setting in (JSON, HTML):  # where the report is refused, the earlier result is gone already
        if (path := settings.of(setting)) is not None:
            files.require_writable(path, setting.spelled)
            if setting is JSON:
                path.unlink(missing_ok=True)


def session_ended(session: Session, result: SessionResult) -> Iterator[str]:
    """Write the report and the result; without measurements a report that is there stays."""
    settings = session.settings
    html, json = settings.of(HTML), settings.of(JSON)
    if settings.collects_only:
        return
    if html is not None and not result.results and not result.not_measured:
        yield f"report: nothing was measured, so {html} was not written"
        html = None
    if html is None and json is None:
        return
    # They import NumPy and Jinja2.
    from pytest_tfperf.features.page.facts import as_json, report_facts, with_measurements
    from pytest_tfperf.features.page.past import read_past

    past = read_past(session.history, result)
    facts = report_facts(result, past, session.baselines.published(), rerun=settings.rerun)
    if html is not None:
        from pytest_tfperf.features.page.render import page

        again = ", then write it from the history: tfperf report -o PATH"
        yield _write(html, "report", page(facts), again)
    if json is not None:
        yield _write(json, "result", as_json(with_measurements(facts, result.alone)), ", and run the session again")


def exited(settings: Settings, status: int) -> None:
    """Write the process's exit status into the result; a pipe has had its text."""
    path = settings.of(JSON)
    if path is None or not path.is_file():
        return
    import json

    from pytest_tfperf.features.page.facts import as_json

    try:
        facts = json.loads(path.read_bytes())
    except (OSError, ValueError):  # the plugin that changed the status may have moved or packed the result, too
        return
    if facts["exit_status"] != status:
        _write(path, "result", as_json(facts | {"exit_status": status}), "")


def _write(path: Path, what: str, content: bytes, again: str) -> str:
    """Write a file; returns a line for the user, also where that fails."""
    try:
        files.replace(path, content)
    except OSError as error:
        return f"{what}: {path} can't be written: {error.strerror}. Correct that{again}"
    return f"{what}: {path}"


FEATURE: Final = Feature(settings=(HTML, JSON), prepare=prepare, session_ended=session_ended, exited=exited)
