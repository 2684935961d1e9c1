"""The words of docs/pictures/*.svg, figures masked, are those of today's program: `make pictures` draws them."""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path

import pytest

from tools.pictures.report import PICTURES
from tools.pictures.terminal import Screens, screens

COLOUR = re.compile(r"\x1b\[[\d;]*m")
# The machine and its state, a path, what stands in brackets, words with figures, and lines of signs.
MASKED = re.compile(r"^ +machine .*|cores of [^(\n:]*|^report: .*|\([^)]*\)|\S*\d\S*|[^\w\s]|_{3,}", re.MULTILINE)


def words(text: str) -> set[str]:
    masked = MASKED.sub(" ", COLOUR.sub("", text))
    return {word for word in masked.split() if len(word) > 3}  # no units, some of which depend on a figure


def words_of(picture: Path) -> set[str]:
    lines: dict[str, str] = {}
    for height, text in re.findall(r'<text\b[^>]* y="([\d.]+)"[^>]*>(.*?)</text>', picture.read_text(), re.DOTALL):
        lines[height] = lines.get(height, "") + html.unescape(text).replace("\xa0", " ")
    return words("\n".join(lines.values()))


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Screens:
    if shutil.which("tmux") is None:
        pytest.skip("no tmux, which shows the session")
    pytest.importorskip("torch")
    return screens(tmp_path_factory.mktemp("report") / "report.html")


def test_the_session_has_the_words_of_its_picture(shown: Screens) -> None:
    assert words_of(PICTURES / "session.svg") - words(shown.session) == set()


def test_the_progress_line_has_the_words_of_its_picture(shown: Screens) -> None:
    assert words_of(PICTURES / "progress.svg") - words(shown.progress) == set()


def test_the_failure_that_the_readme_shows_is_that_of_the_picture() -> None:
    readme = (PICTURES.parents[1] / "README.md").read_text()
    (shown,) = re.findall(r"^```text\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert words(shown) - words_of(PICTURES / "session.svg") == set()


def test_the_curves_of_power_have_the_words_of_their_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from tools.pictures import power

    power.draw(tmp_path / "power.svg", sessions=1)
    assert words_of(PICTURES / "power.svg") == words_of(tmp_path / "power.svg")
