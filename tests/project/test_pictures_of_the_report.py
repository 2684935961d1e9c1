"""The pictures of the report show the page as it is today: `make pictures` draws them."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from tools.pictures.report import PICTURES, digest


def chunks(picture: Path) -> dict[str, object]:
    with Image.open(picture) as image:
        return dict(image.info)


def test_each_picture_of_the_report_was_drawn_from_todays_page() -> None:
    drawn = {path.name: chunks(path).get("Page") for path in sorted(PICTURES.glob("report*.png"))}
    assert len(drawn) > 4
    assert [name for name, page in drawn.items() if page != digest()] == []


def test_each_picture_of_the_report_names_its_commit() -> None:
    assert [path.name for path in PICTURES.glob("report*.png") if not chunks(path).get("Commit")] == []
