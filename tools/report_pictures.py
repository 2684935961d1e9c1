"""Draws docs/pictures/report-*.png: the report of the simulated weeks, in the browser that its tests use.

python -m tools.report_pictures      # needs Debian's chromium, and the group `dev`
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_tfperf.features.page.facts import report_facts
from pytest_tfperf.features.page.render import page, site
from pytest_tfperf.features.page.site import write
from tools.simulated_weeks import source

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = Path("/usr/bin/chromium")
PICTURES = Path(__file__).parents[1] / "docs" / "pictures"

_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    # Without these Chromium looks for updates at every start.
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

_SHOTS: dict[str, dict[str, Any]] = {
    "report": {"viewport": {"width": 1200, "height": 800}, "color_scheme": "light"},
    "report-dark": {"viewport": {"width": 1200, "height": 800}, "color_scheme": "dark"},
    "report-test": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"},
    "report-phone": {"viewport": {"width": 360, "height": 740}, "color_scheme": "light", "device_scale_factor": 2},
}


@contextmanager
def browser() -> Iterator[Browser]:
    """Debian's Chromium without a window; Playwright's own browsers are not needed."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        try:
            yield started
        finally:
            started.close()


def drawn(scope: str = "", **changes: Any) -> bytes:
    """The page on the last simulated session, with other fields of its result where they are given."""
    return page(report_facts(*source(**changes), scope=scope))


def written(folder: Path, scope: str = "", **changes: Any) -> Path:
    """Write the same as a site, and return its index."""
    write(folder, site(report_facts(*source(**changes), scope=scope)))
    return folder / "index.html"


def main() -> None:
    """Write every picture."""
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        file = Path(folder) / "report.html"
        file.write_bytes(drawn())
        for name, options in _SHOTS.items():
            context = chromium.new_context(**options)
            shown = context.new_page()
            shown.goto(file.as_uri())
            picture = PICTURES / f"{name}.png"
            if name == "report-test":
                shown.click("[data-opens]")
                shown.wait_for_selector(".details .uplot")
                box = shown.locator(".details").bounding_box()
                assert box is not None
                shown.set_viewport_size({"width": 1200, "height": 1600})
                shown.locator(".details").scroll_into_view_if_needed()
                shown.locator(".details").screenshot(path=picture)
            else:
                shown.screenshot(path=picture)
            context.close()


if __name__ == "__main__":
    main()
