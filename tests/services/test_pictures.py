"""The words of docs/pictures/*.svg, figures masked, are those of today's program: `make pictures` draws them."""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path

import pytest

from tools.pictures.report import PICTURES
from tools.pictures.terminal import Screens, screens

# Facts of the machine, of one run, and what depends on chance.
MASKED = re.compile(r"\x1b\[[\d;]*m|\([^)]*\)|\S*\d\S*|[^\w\s]")


def words(text: str) -> set[str]:
    return set(MASKED.sub(" ", text).split())


def words_of(picture: Path) -> set[str]:
    texts = re.findall(r"<text\b[^>]*>(.*?)</text>", picture.read_text(), re.DOTALL)
    return words(" ".join(html.unescape(text).replace("\xa0", " ") for text in texts))


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


def test_the_curves_of_power_have_the_words_of_their_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from tools.pictures import power

    power.draw(tmp_path / "power.svg", sessions=1)
    assert words_of(PICTURES / "power.svg") == words_of(tmp_path / "power.svg")
