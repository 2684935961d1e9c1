"""Tables in text: aligned columns under a heading, at most as wide as the terminal."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeVar

from pytest_tfperf.lines import one_line

_GAP = 2
_DOTS = ".."
_LEAST_ID = 8  # characters of a shortened id
_MODEL = re.compile(r"-b\d+(?=-)")  # the batch size, which ends a model's name: "bert-tiny-b1-replicated-device"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The alignment of a table's columns, and the columns that a narrow terminal may leave out."""

    right: Collection[str] = ()  # the columns to align to the right, as numbers are
    optional: Sequence[str] = ()  # the columns that may be left out, the most important first
    ids: Sequence[str] = ()  # the columns whose texts may be shortened, if the rest still does not fit


_ALL = Columns()


def table(rows: Iterable[Mapping[str, str | None]], columns: Columns = _ALL, width: int | None = None) -> list[str]:
    """Return a heading and a line for each row, without columns that have no values; nothing without rows.

    Where `width` does not suffice, a last line names what is left out. Numbers are never shortened.

    Args:
        rows: column -> text, None or "" for no value; all rows have the same columns.
        width: the most characters of a line; None for no limit.
    """
    if not (rows := list(rows)):
        return []
    texts: dict[str, list[str]] = {}
    for name in rows[0]:
        column = [row[name] for row in rows]
        if any(column):
            texts[name] = [one_line(text or "-") for text in (name, *column)]
    widths = {name: max(map(len, column)) + _GAP for name, column in texts.items()}
    enough = sum(widths.values()) - _GAP
    if width is None or enough <= width:
        return _padded(texts, columns.right)
    fitting = _fitting(texts, widths, columns, width)
    missing = [name for name in texts if name not in fitting]
    missing += [f"{name} in full" for name in fitting if fitting[name] != texts[name]]
    left_out = f"(left out: {', '.join(missing)}; all fit into {enough} columns, as with COLUMNS={enough})"
    return [*_padded(fitting, columns.right), *([left_out] if missing else [])]


def aligned(lines: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Join the cells of each line, each column as wide as its widest cell; `right` are aligned to the right."""
    return _padded(dict(enumerate(zip(*lines, strict=True))), right)


_Name = TypeVar("_Name", str, int)


def _padded(columns: Mapping[_Name, Sequence[str]], right: Collection[_Name]) -> list[str]:
    """Pad each cell to the width of its column, and join the cells of each line."""
    padded = []
    for name, column in columns.items():
        side, width = ">" if name in right else "<", max(map(len, column))
        padded.append([f"{text:{side}{width}}" for text in column])
    return [(" " * _GAP).join(line).rstrip() for line in zip(*padded, strict=True)]


def shortened(texts: Sequence[str], length: int) -> list[str]:
    """Shorten long texts with dots in the middle, at the position that leaves most of the texts different."""
    kept = length - len(_DOTS)
    best: list[str] = []
    for head in sorted(range(kept + 1), key=lambda head: abs(head - kept // 2)):
        cut = [
            text if len(text) <= length else f"{text[:head]}{_DOTS}{text[len(text) - kept + head :]}" for text in texts
        ]
        if len(set(cut)) > len(set(best)):
            best = cut
    return best


def _fitting(
    texts: Mapping[str, list[str]], widths: Mapping[str, int], columns: Columns, width: int
) -> dict[str, list[str]]:
    """Return the columns that fit: fewer optional columns, then shorter ids, then fewer of the other columns.

    `widths` are the columns', each with the gap behind it.
    """
    room = width + _GAP - sum(widths[name] for name in texts if name not in columns.optional)
    chosen = set(texts).difference(columns.optional)
    for name in columns.optional:
        if name in texts and widths[name] <= room:
            chosen.add(name)
            room -= widths[name]
    fitting = {name: column for name, column in texts.items() if name in chosen}
    ids = chosen.intersection(columns.ids)
    length = max((widths[name] - _GAP for name in ids), default=0)
    while room < 0 and length > _LEAST_ID:
        length -= 1
        room += sum(widths[name] - _GAP > length for name in ids)
        if room >= 0 or length == _LEAST_ID:
            fitting |= {name: shortened(texts[name], length) for name in ids}
    others = [name for name in fitting if name not in ids][1:]
    while room < 0 and others:
        room += widths[others[-1]]
        del fitting[others.pop()]
    return fitting


def paragraphs(*texts: Iterable[str], gap: int = 1) -> list[str]:
    """Join the lines of texts, with `gap` empty lines between them; an empty text is left out."""
    filled = [lines for lines in map(list, texts) if lines]
    return [line for number, lines in enumerate(filled) for line in ([""] * gap * bool(number) + lines)]


Named = tuple[str, str]
"""A workload's id and the name that its test gave it, "" for none."""


def shown_names(workloads: Iterable[Named]) -> dict[Named, str]:
    """Return the name of each workload in reports; workloads whose names would be equal are shown by their ids.

    Functions of the same name are shown with as much of their modules as tells them apart.

    >>> shown_names([("acme.nets:small_cnn-b32-replicated-device", "")])
    {('acme.nets:small_cnn-b32-replicated-device', ''): 'small_cnn-b32-replicated-device'}
    """
    named = dict.fromkeys(workloads)
    with_modules = [id for id, name in named if not name and ":" in id]
    modules = _modules(id for id, name in named if not name) if with_modules else {}
    short: dict[Named, str] = {}
    ids: dict[str, set[str]] = {}
    for id, name in named:
        text = name or ("-".join(_short(word, modules) for word in id.split("-")) if ":" in id else id)
        short[id, name] = text
        ids.setdefault(text, set()).add(id)
    return {named: text if len(ids[text]) == 1 else named[0] for named, text in short.items()}


def _modules(ids: Iterable[str]) -> dict[str, set[str]]:
    """Return the modules of each function in the ids; a model without one, such as a shipped model, has "" as its."""
    modules: dict[str, set[str]] = {}
    for id in set(ids):
        for word in (*(word for word in id.split("-") if ":" in word), _MODEL.split(id)[0]):
            module, _, function = word.rpartition(":")
            modules.setdefault(function, set()).add(module)
    return modules


def _short(word: str, modules: Mapping[str, set[str]]) -> str:
    """Return a word of an id, of a function's module only the end that no other function of the name has."""
    module, _, function = word.rpartition(":")
    others = modules.get(function, set()) - {module}
    if not module or not others:
        return function
    path = module.split(".")
    told = path[-1 - max(_ends_alike(path, other.split(".")) for other in others) :]
    return f"{'.'.join(told)}:{function}"


def _ends_alike(path: Sequence[str], other: Sequence[str]) -> int:
    """Return how many parts at the end of two paths are equal."""
    pairs = zip(reversed(path), reversed(other), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
