"""The HTML page: template, facts, styles and scripts in a file that needs no network, or in the files of a site.

uPlot draws the curves: it has 51 kB and draws a year of sessions in milliseconds. Plotly has 4.5 MB and Vega-Lite with
Vega 0.8 MB, and the report would need none of their additional features.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.core.past import moment
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.page.curves import day
from pytest_tfperf.lines import shortened
from pytest_tfperf.reports.numbers import change, duration

if TYPE_CHECKING:
    from jinja2 import Template

_ASSETS: Final = resources.files(__package__) / "assets"
_LICENCE: Final = "uPlot.LICENSE"
_STYLES: Final = ("uPlot.min.css", "page.css", "table.css", "test.css")
# Names of facts that stand in headings, legends and narrow columns; ids of tests and commands stay whole.
_LABELS: Final = ("machine", "machines", "gpu", "topology", "unit", "outcome", "headline", "scope", "device")
_MOST_OF_A_LABEL: Final = 200
_SCRIPTS: Final = (
    *("uPlot.iife.min.js", "elements.js", "small_charts.js", "charts.js"),
    *("test.js", "details.js", "table.js", "page.js"),
)
_LATEST: Final = 30  # sessions of a test that its row shows
# The facts of a test that its row shows, beside `recent`; the index of a site has no others.
_ROW: Final = (
    *("test", "name", "workload", "topology", "machine", "unit", "outcome", "kind", "rate", "baseline", "expected"),
    *("change", "change_low", "change_high", "tolerance_low", "tolerance_high", "threshold", "detectable", "drift"),
)


def page(facts: Mapping[str, Any]) -> bytes:
    """Render the report as one HTML file; all texts of the facts are escaped, and labels are shortened."""
    facts = _prepared(facts)
    tests = [{**test, "recent": _recent(test, facts)} for test in facts["tests"]]
    return _html(facts, {**facts, "tests": tests}, scripts=_scripts())


def site(facts: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Yield the same report as a site's files, each with its path: the last one is index.html, which names the others.

    A file is called by its content, so that no index ever finds the file of another one.
    """
    facts = _prepared(facts)
    columns: dict[str, list[Any]] = {name: [] for name in (*_ROW, "story", "since", "recent", "file")}
    for test in facts["tests"]:
        since = test["since"] and {name: test["since"][name] for name in ("time", "sessions")}
        row = {name: test[name] for name in _ROW} | {"since": since, "recent": _recent(test, facts)}
        row["story"] = test["story"] if test["change"] is None else ""  # of another row only its details show it
        row["file"], path, content = _called({name: value for name, value in test.items() if name not in _ROW})
        yield path, content
        for name, value in row.items():
            columns[name].append(value)
    sessions, path, content = _called(facts["sessions"])
    yield path, content
    script = "\n".join(_scripts()).encode()
    path = f"tfperf/{_digest(script)}.js"
    yield path, script
    drawn = {name: facts[name] for name in ("counts", "scaling", "documents")}
    yield "index.html", _html(facts, {**drawn, "columns": columns, "sessions_file": sessions}, script=path)


def _called(facts: Any) -> tuple[str, str, bytes]:
    """Return name, path and content of a script that gives these facts to the page."""
    text = json.dumps(facts, separators=(",", ":"), allow_nan=False)
    name = _digest(text.encode())
    return name, f"tfperf/{name}.js", f'tfperf("{name}",{text})\n'.encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _prepared(facts: Mapping[str, Any]) -> dict[str, Any]:
    measured = {row["document"] for row in facts["documents"] if row["here"] is not None}
    documents = [row for row in facts["documents"] if row["document"] in measured]  # the others are many
    prepared: dict[str, Any] = _with_short_labels({**facts, "documents": documents})
    return prepared


def _recent(test: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the latest sessions of a test, with the outcomes of those that its row marks."""
    history = test["history"]
    rates, outcomes = history["rate"][-_LATEST:], history["outcome"][-_LATEST:]
    last = len(rates) - 1
    words = [word.partition(" ")[0] or "measured" for word in outcomes]
    return {
        "sessions": len(history["rate"]),
        "first": facts["sessions"][history["session"][-len(rates)]]["time"][:10],
        "last": facts["sessions"][history["session"][-1]]["time"][:10],
        "rate": rates,
        "marks": [[index, word] for index, word in enumerate(words) if word == "REGRESSED" or index == last],
    }


def _scripts() -> list[str]:
    # Who copies uPlot must copy its licence.
    return [f"/* {_asset(_LICENCE)} */", *(_asset(name) for name in _SCRIPTS)]


def _html(
    facts: Mapping[str, Any], drawn: Mapping[str, Any], *, scripts: Sequence[str] = (), script: str = ""
) -> bytes:
    """Render the template; `drawn` are the facts for the scripts, which are in the page, or else in a file."""
    styles = [_asset(name) for name in _STYLES]
    parts = _template().generate(facts=facts, drawn=drawn, styles=styles, scripts=scripts, script=script)
    # An environment variable may hold a lone surrogate.
    return b"".join(part.encode(errors="backslashreplace") for part in parts)


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters |= {"day": day, "clock": _clock, "duration": duration, "change": change, "commit": _commit}
    environment.globals["meanings"] = {outcome: outcome.meaning for outcome in Outcome}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment.from_string(_asset("page.html.j2"))


def _with_short_labels(value: Any, name: str = "") -> Any:
    """Shorten the facts' labels: a machine's name of 10 kB would make the page as wide as itself."""
    if isinstance(value, Mapping):
        # The columns of a history are numbers and words, hundreds of thousands of them.
        return {key: inner if key == "history" else _with_short_labels(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_short_labels(inner, name) for inner in value]
    return shortened(value, _MOST_OF_A_LABEL) if isinstance(value, str) and name in _LABELS else value


def _commit(commit: str) -> str:
    """Return ten characters of the hash, and "-dirty" if there were uncommitted changes."""
    hash, dirty, _ = commit.partition("-dirty")
    return hash[:10] + dirty


def _clock(time: str) -> str:
    """Return a time of day such as "02:15 UTC"; "" for a text that is no time."""
    parsed = moment(time)
    return "" if parsed.year == 1 else f"{parsed:%H:%M} {parsed.tzname()}".replace("UTC+00:00", "UTC")


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
