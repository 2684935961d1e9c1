"""What a site costs beside one page: 1,000 tests of one machine, a night of each day of a year. Prints a table.

    PYTHONPATH=. python benchmarks/report_site.py FOLDER

It writes FOLDER/history.sqlite where there is none (1.7 GB, two minutes of CPU time), and both reports beside it.
"""

from __future__ import annotations

import statistics
import sys
import zlib
from pathlib import Path
from typing import Final

import history

from pytest_tfperf.stores.history import History

TESTS: Final = 1000
NIGHTS: Final = 365


def main(folder: Path) -> None:
    kept = History(folder / "history.sqlite")
    history.NIGHTLY, history.MACHINES = TESTS, history.MACHINES[:1]
    if not (folder / "history.sqlite").exists():
        history.fill_years(kept, NIGHTS)
    session, _ = next(kept.newest_sessions(alone_only=True))
    site, page = folder / "site", folder / "page.html"
    print("| | first file | as servers compress it | a test, median | CPU, s | peak memory, MB |")
    print("| --- " * 6 + "|")
    for name, first, place in (("site", site / "index.html", ["--site", site]), ("page", page, ["-o", page])):
        report = [sys.executable, "-m", "pytest_tfperf.cli", "report", "--history", str(folder), "--session", session]
        status, cpu, memory = history.child([*report, *map(str, place)])
        assert status == 0
        sizes = [path.stat().st_size for path in site.glob("tfperf/*.js")] if first != page else []
        test = f"{statistics.median(sizes) / 1e3:.1f} kB" if sizes else ""
        content = first.read_bytes()
        packed = len(zlib.compress(content))
        print(f"| {name} | {len(content) / 1e6:.2f} MB | {packed / 1e6:.2f} MB | {test} | {cpu:.0f} | {memory:.0f} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
