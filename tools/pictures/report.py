"""Draws report-*.png: the report of the simulated weeks, and of a real session, in the browser that its tests use.

It needs Debian's chromium. The text chunks of each picture name the commit that drew it, and the digest of the page of
the simulated weeks, by which a test sees that the page has changed since.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from pytest_tfperf import features
from pytest_tfperf.features.page.facts import report_facts
from pytest_tfperf.features.page.render import page, site
from pytest_tfperf.features.page.site import write
from tools.simulated_weeks import source

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = Path("/usr/bin/chromium")
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"

_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    # Without these Chromium looks for updates at every start.
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

_SHOTS: dict[str, dict[str, Any]] = {
    "report": {"viewport": {"width": 1200, "height": 800}, "color_scheme": "light"},
    "report-dark": {"viewport": {"width": 1200, "height": 800}, "color_scheme": "dark"},
    "report-test": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"},
    "report-real": {"viewport": {"width": 1200, "height": 740}, "color_scheme": "light"},
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


def digest() -> str:
    """Tell one look of the page from another by its styles, scripts and words.

    Numbers are left out of the page itself: their last digits differ between processors.
    """
    assets = sorted((Path(features.__file__).parent / "page" / "assets").iterdir())
    words = re.sub(rb"\d+(\.\d+)?(e-?\d+)?", b"", drawn())
    return hashlib.sha256(b"".join([*(file.read_bytes() for file in assets), words])).hexdigest()[:16]


def draw(real: Path) -> None:
    """Write a picture of a real session's page, and those of the simulated weeks."""
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        simulated = Path(folder) / "report.html"
        simulated.write_bytes(drawn())
        for name, options in _SHOTS.items():
            context = chromium.new_context(**options)
            shown = context.new_page()
            shown.goto((real if name == "report-real" else simulated).as_uri())
            if name == "report-test":
                shown.click("[data-opens]")
                shown.wait_for_selector(".details .uplot")
                shown.set_viewport_size({"width": 1200, "height": 1600})
                shown.locator(".details").scroll_into_view_if_needed()
                _write(name, shown.locator(".details").screenshot())
            else:
                _write(name, shown.screenshot())
            context.close()


def _write(name: str, picture: bytes) -> None:
    git = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    commit = subprocess.run(git, cwd=PICTURES, check=True, capture_output=True, text=True).stdout.strip()
    chunks = PngInfo()
    chunks.add_text("Commit", commit)
    chunks.add_text("Page", digest())
    Image.open(BytesIO(picture)).save(PICTURES / f"{name}.png", optimize=True, pnginfo=chunks)
