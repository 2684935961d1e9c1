"""Whole messages, held in the files `expected/*.txt` beside the tests.

ACCEPT_TEXTS=1 .venv/bin/python -m pytest tests/reports      # writes them anew; git diff then shows what changed
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

import pytest

SameTexts = Callable[[str, Mapping[str, object]], None]


@pytest.fixture
def same_texts(request: pytest.FixtureRequest) -> SameTexts:
    """Compares named texts, each a string or an iterable of lines, with one file that holds all of them."""

    def compare(name: str, texts: Mapping[str, object]) -> None:
        file = request.path.parent / "expected" / f"{name}.txt"
        now = "\n".join(f"== {case}\n{_text(text)}\n" for case, text in texts.items())
        if os.environ.get("ACCEPT_TEXTS"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(now, encoding="utf-8")
        assert now == file.read_text(encoding="utf-8"), f"{file} differs: ACCEPT_TEXTS=1 writes it anew"

    return compare


def _text(text: object) -> str:
    return "\n".join(map(str, text)) if isinstance(text, Iterable) and not isinstance(text, str) else str(text)
