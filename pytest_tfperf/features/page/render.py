"""The HTML page: template, facts, styles and scripts in a file that needs no network.

uPlot draws the curves: it has 51 kB and draws a year of sessions in milliseconds. Plotly has 4.5 MB and Vega-Lite with
Vega 0.8 MB, and the report would need none of their additional features.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.core.past import moment
from pytest_tfperf.features.page.curves import day
from pytest_tfperf.lines import shortened
from pytest_tfperf.reports.numbers import change, duration, rate

if TYPE_CHECKING:
    from jinja2 import Template

_ASSETS: Final = resources.files(__package__) / "assets"
_LICENCE: Final = "uPlot.LICENSE"
_STYLES: Final = ("uPlot.min.css", "page.css", "table.css", "test.css")
# Names of facts that stand in headings, legends and narrow columns; ids of tests and commands stay whole.
_LABELS: Final = ("machine", "machines", "gpu", "topology", "unit", "outcome", "headline", "scope", "device")
_MOST_OF_A_LABEL: Final = 200
_SCRIPTS: Final = ("uPlot.iife.min.js", "elements.js", "small_charts.js", "charts.js", "test.js", "table.js", "page.js")


def page(facts: Mapping[str, Any]) -> bytes:
    """Render the report as one HTML file; all texts of the facts are escaped, and labels are shortened."""
    measured = {row["document"] for row in facts["documents"] if row["here"] is not None}
    documents = [row for row in facts["documents"] if row["document"] in measured]  # the others are many
    text = _template().render(
        facts=_with_short_labels({**facts, "documents": documents}),
        styles=[_asset(name) for name in _STYLES],
        # The page contains uPlot, so it must contain its licence.
        scripts=[f"/* {_asset(_LICENCE)} */", *(_asset(name) for name in _SCRIPTS)],
    )
    return text.encode(errors="backslashreplace")  # an environment variable may hold a lone surrogate


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters |= {
        "day": day,
        "clock": _clock,
        "duration": duration,
        "change": change,
        "rate": rate,
        "ratio": "{:.3f}".format,
        "commit": _commit,
    }
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment.from_string(_asset("page.html.j2"))


def _with_short_labels(value: Any, name: str = "") -> Any:
    """Shorten the facts' labels: a machine's name of 10 kB would make the page as wide as itself."""
    if isinstance(value, Mapping):
        return {key: _with_short_labels(inner, key) for key, inner in value.items()}
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
