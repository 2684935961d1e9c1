"""How large is a report, how long does it take to make one, and how soon does a browser show it?

    python -m benchmarks.report --tests 300 --sessions 365

Prints a line for each step. The history is made up: a real measurement for each test of the last session, and results
for those before.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from datetime import timedelta
from itertools import cycle, islice
from pathlib import Path
from random import Random

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import PastResult
from pytest_tfperf.features.page.facts import ReportSource, report_facts
from pytest_tfperf.features.page.render import page
from tools.report_pictures import browser
from tools.simulated_weeks import FIRST_DAY, PUBLISHED, sessions

MOST_MIB, MOST_SECONDS = 15, 2.0
_OPENED = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tests", type=int, default=300)
    parser.add_argument("--sessions", type=int, default=365)
    asked = parser.parse_args()
    source = made_up(asked.tests, asked.sessions)
    begin = time.perf_counter()
    facts = report_facts(source)
    made = time.perf_counter()
    written = page(facts)
    rendered = time.perf_counter()
    size = len(written) / 2**20
    print(f"{asked.tests} tests, {asked.sessions} sessions, {len(source.past) + asked.tests:,} results")
    print(f"facts {made - begin:.2f} s, page {rendered - made:.2f} s, {size:.1f} MiB")
    shown, opened = seconds_to_show(written)
    print(f"shown after {shown:.2f} s, a test opened in {opened:.2f} s (medians of {_OPENED})")
    return int(size > MOST_MIB or shown > MOST_SECONDS)


def made_up(tests: int, count: int) -> ReportSource:
    """So many tests with their whole measurements, and results of so many sessions."""
    (last,) = islice(sessions(1), 1)
    now = [
        replace(one, test=f"{one.test[:-1]}-{number}]", session="last", time=_time(count))
        for number, one in enumerate(islice(cycle(last), tests))
    ]
    random = Random(3)
    past = [_earlier(one, day, random) for day in range(count - 1) for one in now]
    return ReportSource(measurements=now, past=past, published=PUBLISHED)


def _earlier(one: Measurement, day: int, random: Random) -> PastResult:
    result, factor = PastResult.of(one), random.gauss(1, 0.005)
    rate = result.value * factor
    return replace(result, session=f"session-{day}", time=_time(day), value=rate, low=rate * 0.998, high=rate * 1.002)


def _time(day: int) -> str:
    return (FIRST_DAY + timedelta(days=day)).isoformat()


def seconds_to_show(written: bytes) -> tuple[float, float]:
    """From the request to the sorted table on the screen; and from a click to a test's plots."""
    shown, opened = [], []
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        file = Path(folder) / "report.html"
        file.write_bytes(written)
        for _ in range(_OPENED):
            context = chromium.new_context(viewport={"width": 1280, "height": 900})
            tab = context.new_page()
            begin = time.perf_counter()
            tab.goto(file.as_uri())
            tab.wait_for_selector("html[data-ready]")
            tab.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            shown.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            tab.locator("tr.test button.name").first.click()
            tab.wait_for_selector(".details canvas")
            opened.append(time.perf_counter() - begin)
            context.close()
    return statistics.median(shown), statistics.median(opened)


if __name__ == "__main__":
    raise SystemExit(main())
