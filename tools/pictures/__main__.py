"""Draws all of docs/pictures anew, from today's program: `make pictures`. It takes about ten minutes.

The words of session.svg and progress.svg are compared with a new session by tests/services/test_pictures.py, and the
page that each report-*.png shows with today's page by tests/project/test_pictures_of_the_report.py.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tools.pictures import power, rates, report, terminal


def main() -> None:
    """Draw."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        screens = terminal.screens(page)
        terminal.draw(report.PICTURES / "progress.svg", screens.progress)
        terminal.draw(report.PICTURES / "session.svg", screens.session)
        report.draw(page)
    rates.draw(report.PICTURES / "rates.png")
    power.draw(report.PICTURES / "power.svg")


if __name__ == "__main__":
    main()
