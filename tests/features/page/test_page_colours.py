"""The HTML report's colours: every text can be read on every background, by WCAG 2's contrast ratio."""

from __future__ import annotations

import re
from collections.abc import Sequence
from colorsys import hls_to_rgb
from itertools import product
from pathlib import Path

import pytest

import pytest_tfperf

ASSETS = Path(pytest_tfperf.__file__).parent / "features" / "page" / "assets"
CSS = "\n".join((ASSETS / name).read_text() for name in ("page.css", "table.css", "test.css"))
LEAST_CONTRAST = 4.5  # WCAG 2, level AA, for text of normal size

WITHOUT_TEXT = {"line", "accepted"}
"""Backgrounds on which nothing is written: a bar, and the selected part of a chart."""

INVERTED = ("paper", "ink")
"""The text and background of a tip and of a pressed button."""


def colours_of(selector: str) -> dict[str, str]:
    """The colours that the rule of a selector names."""
    (rule,) = re.findall(rf"^ *{re.escape(selector)} \{{([^}}]*--paper:[^}}]*)\}}", CSS, re.MULTILINE)
    return dict(re.findall(r"--([\w-]+): (#\w+|\d+%);", rule))


LIGHT = colours_of(":root")
SCHEMES = {
    "light": LIGHT,
    "dark, chosen by the system": LIGHT | colours_of(':root:not([data-theme="light"])'),
    "dark, chosen by the reader": LIGHT | colours_of(':root[data-theme="dark"]'),
    "printed": LIGHT | colours_of(':root, :root[data-theme="dark"]'),
}
COLOUR = r"var\(--([\w-]+)\)"
TEXTS = {
    *re.findall(rf"(?<![-\w])color: {COLOUR}", CSS),
    *re.findall(rf"\btext[.\w]* \{{[^}}]*fill: {COLOUR}", CSS),  # of a chart
} - {"paper"}
BACKGROUNDS = set(re.findall(rf"background: {COLOUR}", CSS)) - {"ink"} - WITHOUT_TEXT
PAIRS = [*product(sorted(TEXTS), sorted(BACKGROUNDS)), INVERTED]


def parts_of(colour: str) -> Sequence[float]:
    """Red, green and blue, from 0 to 1."""
    if hsl := re.fullmatch(r"hsl\((\d+) (\d+)% (\d+)%\)", colour):
        hue, saturation, lightness = map(float, hsl.groups())
        return hls_to_rgb(hue / 360, lightness / 100, saturation / 100)
    digits = colour.removeprefix("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    return [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]


def luminance(colour: str) -> float:
    parts = parts_of(colour)
    red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_the_contrast_of_black_on_white_is_21() -> None:
    assert contrast("#000", "#ffffff") == pytest.approx(21)


def test_the_colours_of_texts_and_backgrounds_are_found() -> None:
    assert {"ink", "quiet", "accent", "bad", "good", "doubt"} <= TEXTS
    assert {"paper", "card", "shade", "bad-soft", "good-soft", "doubt-soft"} <= BACKGROUNDS


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_text_can_be_read_on_every_background(scheme: str) -> None:
    colours = SCHEMES[scheme]
    found = {pair: round(contrast(colours[pair[0]], colours[pair[1]]), 2) for pair in PAIRS}
    assert {pair: ratio for pair, ratio in found.items() if ratio < LEAST_CONTRAST} == {}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_name_of_every_gpu_can_be_read(scheme: str) -> None:
    colours = SCHEMES[scheme]
    (rule,) = re.findall(r"\.device \{ color: (hsl\(.*?\)\));", CSS)
    written = rule.replace("var(--device-lightness)", colours["device-lightness"])
    hues = range(205, 356)  # from the first GPU to the last (charts.js)
    least = min(contrast(written.replace("var(--hue)", str(hue)), colours["card"]) for hue in hues)
    assert least >= LEAST_CONTRAST
