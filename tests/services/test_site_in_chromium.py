"""The documentation site in a real browser: its search, its side bar, and what it asks for."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tools.report_pictures import CHROMIUM, browser

playwright = pytest.importorskip("playwright.sync_api")
for needed in ("sphinx", "furo", "myst_parser"):
    pytest.importorskip(needed)
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"there is no {CHROMIUM}: apt-get install chromium")

ROOT = Path(__file__).parents[2]
FOR_DEVELOPERS = {"AGENTS", "CHANGELOG", "CONTRIBUTING", "SECURITY", "docs/architecture"}


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that does not log each request."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site. `make docs` checks its links: here a page that is wrong fails no test of another."""
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-c", "tools/site", "-d", f"{built}-doctrees", ".", str(built)]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout
    return built


@pytest.fixture(scope="session")
def address(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[playwright.Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def shown(chromium: playwright.Browser, address: str) -> Iterator[playwright.Page]:
    """The first page; at the end nothing may have been asked for from another host, and nothing may have failed."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    faults, requests = [], []
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(address)
    yield page
    context.close()
    assert faults == []
    assert [url for url in requests if not url.startswith((address, "data:"))] == []


def hits(shown: playwright.Page, words: str) -> list[str]:
    """Type a search, and return the pages that it finds, without the parts of pages."""
    shown.fill(".sidebar-search", words)
    shown.press(".sidebar-search", "Enter")
    shown.wait_for_selector(".search-summary:has-text('Search finished')")
    links = shown.locator("ul.search li > a").evaluate_all("all => all.map(link => link.getAttribute('href'))")
    return [link.partition("#")[0].removesuffix(".html") for link in links]


@pytest.mark.parametrize(
    ("words", "pages"),
    [
        ("nightly", {"nightly"}),
        ("slack", {"notifications"}),
        ("flaky", {"reading-results", "trial"}),
        ("mute", {"acknowledged"}),
        ("self-hosted runner", {"nightly"}),
        ("expected slowdown", {"acknowledged", "baselines"}),
        ("update baselines", {"baselines"}),
        ("INCONCLUSIVE", {"reading-results"}),
        ("PyTorch", {"own-scripts"}),
        ("GitHub Action", {"github-action"}),
        ("memory", {"figures"}),
        ("several nodes", {"cluster"}),
    ],
)
def test_one_of_the_first_two_hits_is_the_page_with_the_answer(
    shown: playwright.Page, words: str, pages: set[str]
) -> None:
    found = hits(shown, words)
    assert {f"docs/{name}" for name in pages} & set(found[:2]), found


@pytest.mark.parametrize("words", ["baseline", "noise", "tolerance"])
def test_pages_for_developers_are_the_last_hits(shown: playwright.Page, words: str) -> None:
    found = [page in FOR_DEVELOPERS for page in hits(shown, words)]
    assert True in found
    assert found == sorted(found)


def test_the_side_bar_has_the_titles_of_the_pages(shown: playwright.Page, folder: Path) -> None:
    links = shown.locator(".sidebar-tree a.reference.internal")
    addresses = links.evaluate_all("all => all.map(link => link.getAttribute('href'))")
    labels = dict(zip(addresses, links.all_inner_texts(), strict=True))
    titles = {path: title(folder / path) for path in labels}
    assert len(titles) > 20
    assert {path: (label, titles[path]) for path, label in labels.items() if label not in names(titles[path])} == {}


def title(page: Path) -> str:
    found = re.search(r"<h1>(.*?)<a class=\"headerlink\"", page.read_text("utf-8"))
    assert found, page
    return re.sub("<[^>]*>", "", found[1])


def names(title: str) -> tuple[str, str]:
    return title, title.partition(":")[0]


def test_the_side_bar_links_the_repository_and_its_issues(shown: playwright.Page) -> None:
    links = shown.locator(".sidebar-tree a.reference.external").all_inner_texts()
    assert links == ["Repository", "Issues"]


def test_each_page_has_a_description_an_address_and_an_icon(shown: playwright.Page) -> None:
    for selector in ("meta[name=description]", "link[rel=canonical]", "link[rel='shortcut icon']"):
        assert shown.locator(selector).count() == 1
