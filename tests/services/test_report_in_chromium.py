"""The report in a real browser: what it asks for, what it shows, and what a reader can do with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.core.figure import BUILT_IN, Figure
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.reports.measurement_table import measurement_rows
from pytest_tfperf.reports.numbers import change
from tests.helpers.measurements import interleaved, session_verdict
from tools.report_pictures import CHROMIUM, browser, drawn, written
from tools.simulated_weeks import SLOWER_TEST, source

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no {CHROMIUM}: apt-get install chromium")

HOSTILE = """<script>window.pwned = 1</script><img src=x onerror="window.pwned = 1">'"`${1}\u2028&amp;</script>"""
ENDLESS = "x" * 10_000

Open = Callable[..., "playwright.Page"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_bytes(drawn())
    return path


@pytest.fixture(scope="module")
def chromium() -> Iterator[playwright.Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def open_page(chromium: playwright.Browser, file: Path) -> Iterator[Open]:
    """Opens a report; at the end nothing may have been asked for but the file, and nothing may have failed."""
    contexts, faults, requests = [], [], []

    def start(path: Path = file, width: int = 1280, **options: object) -> playwright.Page:
        context = chromium.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        shown = context.new_page()
        shown.set_default_timeout(10_000)
        shown.on("console", lambda message: faults.append(message.text) if message.type != "log" else None)
        shown.on("pageerror", lambda error: faults.append(str(error)))
        shown.on("dialog", lambda dialog: faults.append(dialog.message) or dialog.dismiss())
        shown.on("request", lambda request: requests.append(request.url))
        shown.goto(path.as_uri())
        return shown

    yield start
    for context in contexts:
        context.close()
    assert faults == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []


def titles(shown: playwright.Page) -> list[str]:
    return shown.locator("tr.test .title").all_inner_texts()


def rates(shown: playwright.Page) -> list[float]:
    return [float(text.split()[0].replace(",", "")) for text in shown.locator("tr.test td.rate").all_inner_texts()]


def scrolls_sideways(shown: playwright.Page) -> bool:
    return bool(shown.evaluate("document.documentElement.scrollWidth > innerWidth"))


def top(part: playwright.Locator) -> float:
    return float(part.evaluate("part => part.getBoundingClientRect().top"))


def bottom(part: playwright.Locator) -> float:
    return float(part.evaluate("part => part.getBoundingClientRect().bottom"))


def left(part: playwright.Locator) -> float:
    return float(part.evaluate("part => part.getBoundingClientRect().left"))


def open_first(shown: playwright.Page) -> playwright.Locator:
    shown.locator("tr.test button.name").first.click()
    shown.wait_for_selector(".details .uplot")
    return shown.locator(".details")


def test_the_first_screen_tells_the_test_the_size_and_the_date(open_page: Open) -> None:
    shown = open_page()
    assert "1 of 25 throughput tests regressed" in shown.inner_text("h1")
    worst = shown.inner_text(".attention")
    assert all(fact in worst for fact in ("inception3", "6.7 % slower", "17 Nov 2026"))
    box = shown.locator(".attention").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 450


@pytest.mark.parametrize(("width", "height", "rows"), [(1280, 720, 5), (390, 844, 1)])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_the_first_rows_are_on_the_first_screen(
    open_page: Open, colours: str, width: int, height: int, rows: int
) -> None:
    shown = open_page(width=width, color_scheme=colours)
    assert bottom(shown.locator("tr.test td.change").nth(rows - 1)) <= height


def test_the_legend_is_above_the_table_and_the_session_below_it(open_page: Open) -> None:
    shown = open_page()
    table, legend, session = (shown.locator(name) for name in ("#table", "#legend", "#session"))
    assert bottom(legend) < top(table) < bottom(table) < top(session)
    assert all(column in legend.inner_text() for column in ("change:", "last 30 sessions:"))


def test_the_legend_unfolds_the_meaning_of_the_outcomes_that_the_session_has(open_page: Open) -> None:
    shown = open_page()
    words = shown.locator("details.legend dl")
    before = words.is_visible()
    shown.click("details.legend summary")
    text = words.inner_text()
    assert (before, text.split()[0], "INCONCLUSIVE" in text) == (False, "REGRESSED", False)
    assert Outcome.REGRESSED.meaning.replace("`", "") in text


def test_a_report_without_changes_has_no_legend_of_them(open_page: Open, tmp_path: Path) -> None:
    path = tmp_path / "measured.html"
    path.write_bytes(drawn(results=[replace(m, verdicts=()) for m in source()[0].results]))
    assert not open_page(path).is_visible("#legend")


def test_the_facts_of_a_machine_are_folded(open_page: Open) -> None:
    shown = open_page()
    machine = shown.locator("#session details", has_text="8x-v100-nvlink")
    before = machine.locator("table").is_visible()
    machine.locator("summary").click()
    assert (before, "575.51" in machine.inner_text()) == (False, True)


@pytest.mark.parametrize("width", [360, 390, 1280])
def test_marker_topology_and_outcome_stand_beside_the_name(open_page: Open, width: int) -> None:
    row = open_page(width=width).locator("tr.test").first
    button, title, topology = (row.locator(name) for name in ("button.name", ".title", ".on"))
    assert top(title) - top(button) < 4  # the marker is the button's first line
    assert (topology.inner_text(), abs(top(topology) - top(title)) < 4) == ("1x8", True)
    assert left(button) < left(title) < left(topology)
    pill = row.locator(".pill")
    assert top(row) < top(pill) < bottom(title)


def test_figures_have_the_signs_of_the_terminal(open_page: Open) -> None:
    shown = open_page()
    facts = shown.evaluate("JSON.parse(facts.textContent).tests")
    of_test = {one["test"]: one["change"] for one in facts}
    tests = [row.get_attribute("title") for row in shown.locator("tr.test .id").all()]
    changes = shown.locator("tr.test .figure").all_inner_texts()
    assert changes == ["-" if of_test[test] is None else change(of_test[test]) for test in tests]
    assert "-6.7 %" in changes


def test_there_is_one_minus_sign(open_page: Open) -> None:
    shown = open_page()
    open_first(shown)
    shown.locator("tr.test td.change [data-tip]").first.hover()
    text = shown.inner_text("body")
    assert ("-6.7 %" in text, "\u2212" in text, "\u2013" in text) == (True, False, False)


def test_columns_are_called_as_in_the_terminal(open_page: Open) -> None:
    shown = open_page()
    columns = shown.locator("#table th").all_inner_texts()
    _, rows = measurement_rows(source()[0].results)
    names = {name for column in columns for name in column.removesuffix(" ↓").split(", ")}
    assert names - rows[0].keys() == {"since", "last 30 sessions"}
    assert {"outcome", "workload", "topology", "images/s", "change", "detectable"} <= names


def test_the_column_of_several_units_is_the_rate_with_the_unit_in_each_row(open_page: Open, tmp_path: Path) -> None:
    first, *others = source()[0].results
    path = tmp_path / "units.html"
    path.write_bytes(drawn(results=[replace(first, throughput=replace(first.throughput, unit="tokens")), *others]))
    of_one, of_two = open_page(), open_page(path)
    assert of_one.inner_text("th[data-column=rate]") == "images/s"
    assert of_two.inner_text("th[data-column=rate]") == "rate"
    assert not of_one.locator("td.rate .unit").first.is_visible()
    assert of_two.locator("td.rate .unit").first.is_visible()


def test_the_worst_test_is_the_first_row(open_page: Open) -> None:
    assert open_page().locator("tr.test .id").first.get_attribute("title") == SLOWER_TEST


def test_a_link_in_a_text_is_underlined(open_page: Open) -> None:
    lines = "[...document.querySelectorAll('a:not(nav a)')].map(one => getComputedStyle(one).textDecorationLine)"
    assert set(open_page().evaluate(lines)) == {"underline"}


def test_a_column_sorts_and_sorts_back(open_page: Open) -> None:
    shown = open_page()
    shown.click("th[data-column=rate] button")
    once = rates(shown)
    shown.click("th[data-column=rate] button")
    assert once == sorted(once, reverse=True)
    assert rates(shown) == once[::-1]


def test_the_sorted_column_says_so_to_a_screen_reader(open_page: Open) -> None:
    shown = open_page()
    shown.click("th[data-column=rate] button")
    assert shown.get_attribute("th[data-column=rate]", "aria-sort") == "ascending"


def test_a_count_filters_by_its_outcome(open_page: Open) -> None:
    shown = open_page()
    shown.click(".filter[data-outcome=IMPROVED]")
    assert shown.locator("tr.test").count() == 1


def test_words_filter_by_test_workload_and_machine(open_page: Open) -> None:
    shown = open_page()
    shown.fill("#search", "xeon RESNET50")
    assert set(titles(shown)) == {"resnet50-b8-replicated-device"}


def test_a_filter_that_fits_nothing_says_so(open_page: Open) -> None:
    shown = open_page()
    shown.fill("#search", "no such test")
    assert shown.is_visible("#nothing")


def test_an_opened_test_draws_each_of_its_figures(open_page: Open, tmp_path: Path) -> None:
    figures = tuple(Verdict(figure=Figure(name), value=2.0) for name in BUILT_IN)
    path = tmp_path / "figures.html"
    measured = [replace(m, verdicts=(m.verdicts[0], *figures)) for m in source()[0].results]
    path.write_bytes(drawn(results=measured))
    panel = open_first(open_page(path)).locator("section.panel", has_text="Figures beside the throughput")
    panel.locator("canvas").last.wait_for()
    assert panel.locator("canvas").count() == len(BUILT_IN)


def test_an_opened_test_shows_its_history_runs_telemetry_and_message(open_page: Open) -> None:
    details = open_first(open_page())
    headings = details.locator("h3").all_inner_texts()
    assert [*headings] == [
        "History",
        "Runs of this session",
        "Where a step's time goes",
        "Over time",
        "Environment since the baseline",
        "Message",
    ]
    assert {"Temperature", "Power"} <= {
        text.split("GPU")[0].strip() for text in details.locator("h4").all_inner_texts()
    }
    assert "threshold" in details.locator("pre").inner_text()


def test_each_plot_of_the_telemetry_names_its_least_and_its_largest_value(open_page: Open) -> None:
    shown = open_page()
    open_first(shown)
    plots = "[...charts].map(one => one.plot).filter(plot => plot.height < 100)"
    labels = shown.evaluate(f"{plots}.map(plot => plot.axes[1]._values)")
    assert ["51 °C", "72 °C"] in labels
    assert ["97 %"] in labels


def test_nothing_is_drawn_for_a_test_before_it_is_opened_or_after_it_is_closed(open_page: Open) -> None:
    shown = open_page()
    before = shown.locator(".uplot").count()
    open_first(shown)
    shown.locator("tr.test button.name").first.click()
    assert shown.locator(".details").count() == 0
    assert shown.locator(".uplot").count() == before


def test_a_document_of_which_nothing_was_measured_is_not_shown(open_page: Open) -> None:
    shown = open_page().locator("#published summary").all_inner_texts()
    assert shown
    assert not any("azure" in one for one in shown)


def test_the_headline_opens_its_test(open_page: Open) -> None:
    shown = open_page()
    shown.click("[data-opens]")
    story = shown.locator(".details .story").inner_text()
    both = "7.7 % slower than 1,827 images/s (6.7 % slower than the 1,807 expected in this session)"
    assert story.startswith(f"REGRESSED: {both}")


def test_a_test_opens_by_keyboard(open_page: Open) -> None:
    shown = open_page()
    shown.locator("tr.test button.name").first.focus()
    shown.keyboard.press("Enter")
    assert shown.locator(".details").count() == 1


def test_the_change_tells_its_interval_and_threshold_in_a_tooltip(open_page: Open) -> None:
    shown = open_page()
    shown.locator("tr.test td.change [data-tip]").first.hover()
    text = shown.inner_text("#tip")
    assert "95 % CI" in text
    assert "fails from" in text


def test_a_point_of_the_history_tells_its_session_in_a_tooltip(open_page: Open) -> None:
    shown = open_page()
    plot = open_first(shown).locator(".u-over").first
    plot.hover(position={"x": 300, "y": 60})
    assert "session 202611" in shown.inner_text("#tip")


def test_a_command_is_copied(open_page: Open) -> None:
    shown = open_page()
    details = open_first(shown)
    details.locator("button.copy").first.click()
    shown.wait_for_selector("button.copy:text('Copied')")
    shown.fill("#search", "")
    shown.focus("#search")
    shown.keyboard.press("Control+v")
    assert shown.input_value("#search") == f"pytest '{SLOWER_TEST}'"


def background(shown: playwright.Page) -> str:
    return str(shown.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_the_page_is_dark_where_the_system_is(open_page: Open) -> None:
    assert background(open_page(color_scheme="dark")) != background(open_page(color_scheme="light"))


def test_the_switch_changes_the_colours_and_is_remembered(open_page: Open) -> None:
    shown = open_page(color_scheme="light")
    before = background(shown)
    shown.click("#theme")
    after = background(shown)
    shown.reload()
    assert before != after
    assert background(shown) == after


def test_the_documents_figures_fit_on_a_phone(open_page: Open) -> None:
    figures = open_page(width=360).locator("#published details[open] .scroll")
    assert figures.evaluate("box => box.scrollWidth <= box.clientWidth")


@pytest.mark.parametrize("width", [360, 768, 940, 941, 1090, 1091, 1181])
def test_a_narrow_screen_never_scrolls_sideways(open_page: Open, width: int) -> None:
    shown = open_page(width=width)
    open_first(shown)
    assert not scrolls_sideways(shown)


def test_plots_get_narrower_with_the_window(open_page: Open) -> None:
    shown = open_page()
    plot = open_first(shown).locator(".uplot").first.element_handle()
    shown.set_viewport_size({"width": 900, "height": 900})
    plot.wait_for_element_state("hidden")  # another one takes its place
    assert not scrolls_sideways(shown)
    assert shown.locator(".details .uplot").first.evaluate("plot => plot.clientWidth") > 700


def test_it_prints_without_its_controls(open_page: Open) -> None:
    shown = open_page(color_scheme="dark")
    shown.emulate_media(media="print")
    assert background(shown) == "rgb(255, 255, 255)"
    assert not shown.is_visible("#theme")


def test_on_paper_no_plot_and_no_message_is_cut(open_page: Open) -> None:
    shown = open_page(color_scheme="dark")
    details = open_first(shown)
    shown.evaluate("dispatchEvent(new Event('beforeprint'))")
    shown.emulate_media(media="print")
    assert details.locator("pre").evaluate("pre => pre.scrollHeight <= pre.clientHeight")
    right = details.evaluate("box => box.getBoundingClientRect().right")
    plots = details.locator(".uplot").evaluate_all("all => all.map(one => one.getBoundingClientRect().right)")
    assert max(plots) < right <= 718  # A4 without its margins


def test_after_printing_the_page_is_as_it_was(open_page: Open) -> None:
    shown = open_page(color_scheme="dark")
    before = background(shown)
    shown.evaluate("dispatchEvent(new Event('beforeprint')); dispatchEvent(new Event('afterprint'))")
    assert background(shown) == before
    assert shown.evaluate("document.body.clientWidth") == 1280


def test_without_scripts_the_headline_and_its_reason_are_there(open_page: Open) -> None:
    shown = open_page(java_script_enabled=False)
    assert "6.7 % slower" in shown.inner_text(".attention")


def hostile() -> tuple[str, dict[str, Any]]:
    """Scope and result of a report in which every text that comes from outside is an attack or endless."""
    environment = {HOSTILE: HOSTILE, "tensorflow": HOSTILE, "long": ENDLESS}
    bad = [
        replace(
            one,
            test=f"test_{HOSTILE}.py::{text}[{number}]",
            name=text,
            devices=text,
            machine=text,
            commit=HOSTILE,
            session=text,
            environment=environment,
        )
        for number, (one, text) in enumerate(zip(source()[0].results, [HOSTILE, ENDLESS] * 20, strict=False))
    ]
    return HOSTILE, {
        "results": bad,
        "verdicts": [session_verdict(machine=HOSTILE), session_verdict(machine=ENDLESS)],
        "not_measured": {HOSTILE: TfperfError(ENDLESS), ENDLESS: TfperfError(HOSTILE)},
    }


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scope, changes = hostile()
    path = tmp_path_factory.mktemp("report") / "hostile.html"
    path.write_bytes(drawn(scope, **changes))
    return path


@pytest.fixture(scope="module")
def hostile_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scope, changes = hostile()
    return written(tmp_path_factory.mktemp("hostile"), scope, **changes)


@pytest.mark.parametrize("path", ["hostile_page", "hostile_site"])
def test_hostile_names_are_shown_as_text(open_page: Open, path: str, request: pytest.FixtureRequest) -> None:
    shown = open_page(request.getfixturevalue(path))
    open_first(shown)
    shown.locator("tr.test td.change [data-tip]").first.hover()
    assert shown.evaluate("window.pwned") is None
    assert HOSTILE.split("\u2028")[0] in shown.inner_text("main")


@pytest.mark.parametrize("path", ["hostile_page", "hostile_site"])
def test_endless_names_do_not_scroll_a_phone_sideways(
    open_page: Open, path: str, request: pytest.FixtureRequest
) -> None:
    shown = open_page(request.getfixturevalue(path), width=360)
    open_first(shown)
    assert not scrolls_sideways(shown)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "compared.html"
    both = [interleaved(), interleaved(Outcome.PASS, 1.99, a={"at_least": 1.5})]
    path.write_bytes(drawn(results=[*source()[0].results, *both], verdicts=[session_verdict()]))
    return path


# A site


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("site"))


def scripts_of(shown: playwright.Page) -> int:
    return shown.locator("script[src]").count()


def test_a_site_shows_what_the_page_shows(open_page: Open, index: Path) -> None:
    of_page, of_site = open_page(), open_page(index)
    assert of_site.inner_text("main") == of_page.inner_text("main")
    assert open_first(of_site).inner_text() == open_first(of_page).inner_text()


def test_a_site_loads_the_file_of_a_test_once_its_row_is_opened(open_page: Open, index: Path) -> None:
    shown = open_page(index)
    before = scripts_of(shown)
    open_first(shown)
    assert (before, scripts_of(shown)) == (1, 3)  # with that of the sessions, which is loaded once
    for _ in range(2):  # closed, and opened again
        shown.locator("tr.test button.name").first.click()
    shown.locator("tr.test button.name").nth(1).click()
    shown.locator(".details").nth(1).locator(".uplot").first.wait_for()
    assert scripts_of(shown) == 4


def test_a_row_that_is_closed_before_its_file_is_there_stays_closed(open_page: Open, index: Path) -> None:
    shown = open_page(index)
    drawn_before = shown.evaluate("charts.size")
    shown.evaluate("""() => {
      const button = document.querySelector("tr.test button.name");
      button.click();
      button.click();
      const asked = [...document.head.querySelectorAll("script[src]")];
      return Promise.all(asked.map((script) => new Promise((loaded) => script.addEventListener("load", loaded))));
    }""")
    shown.evaluate("new Promise(requestAnimationFrame)")
    assert (shown.locator(".details").count(), shown.evaluate("charts.size")) == (0, drawn_before)


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("report", ["file", "index", "hostile_page", "hostile_site", "compared"])
def test_axe_finds_nothing_that_keeps_anybody_from_using_it(
    open_page: Open, report: str, colours: str, width: int, request: pytest.FixtureRequest
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    shown = open_page(request.getfixturevalue(report), width, color_scheme=colours)
    open_first(shown)
    found = axe.run(shown)
    assert found.violations_count == 0, found.generate_report()


def test_axe_finds_nothing_after_the_colours_were_switched(open_page: Open) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    shown = open_page(color_scheme="light")
    open_first(shown)
    for summary in shown.locator("#session summary, details.legend summary").all():
        summary.click()
    shown.click("#theme")
    found = axe.run(shown)
    assert found.violations_count == 0, found.generate_report()


def test_a_box_is_a_stop_of_the_keyboard_only_where_it_scrolls(open_page: Open, hostile_page: Path) -> None:
    stops = []
    for shown in (open_page(width=360), open_page(hostile_page, width=360)):
        open_first(shown)
        stops.append(shown.locator(".command code[tabindex]").count())
    assert (stops[0], stops[1] > 0) == (0, True)


def test_the_headline_of_a_site_opens_its_test(open_page: Open, index: Path) -> None:
    shown = open_page(index)
    shown.click("[data-opens]")
    assert shown.locator(".details .story").inner_text().startswith("REGRESSED: ")


def test_a_file_that_is_missing_is_named_and_asked_for_again(chromium: playwright.Browser, tmp_path: Path) -> None:
    index = written(tmp_path)
    shown = chromium.new_page()
    shown.goto(index.as_uri())
    (tmp_path / "tfperf").rename(tmp_path / "away")
    first = shown.locator("tr.test button.name").first
    first.click()
    shown.wait_for_selector('.details:has-text("can\'t be loaded. They belong to the folder of this page")')
    (tmp_path / "away").rename(tmp_path / "tfperf")
    first.click()
    open_first(shown)
    shown.close()
