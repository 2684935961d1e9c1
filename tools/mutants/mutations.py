"""The mutants of a source file: mutmut's operators, applied to all of it.

mutmut itself leaves out module-level code, class bodies and decorated functions, which hold the thresholds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

_CONTEXT = 50  # characters of a line on either side of its change that name the mutant


@dataclass(frozen=True, slots=True)
class Mutant:
    """A file with one change.

    Args:
        file: the path below the package, such as "judging/noise.py".
        line: of the first line that differs.
        scope: the function or class.
        before, after: the lines that differ, shortened; they name the mutant, whatever is edited elsewhere.
        text: the whole file.
    """

    file: str
    line: int
    scope: str
    before: str
    after: str
    text: str

    @property
    def name(self) -> str:
        """Unique but for equal changes of equal lines."""
        return f"{self.file} {self.scope}: {self.before} -> {self.after}"


def mutants_of(package: Path, file: str) -> list[Mutant]:
    """The mutants of a file of the package, in the order of their lines."""
    source = (package / file).read_text()
    wrapper = MetadataWrapper(cst.parse_module(source))
    sites = _Sites()
    wrapper.visit(sites)
    found: dict[str, Mutant] = {}
    for place, node, mutated in sites.found:
        text = _spliced(source, wrapper.module, place, node, mutated)
        if (mutant := mutant_of(file, source, text)) is not None:
            found.setdefault(text, mutant)
    return sorted(found.values(), key=lambda one: (one.line, one.name))


def _doubled(node: cst.Float) -> Iterator[cst.Float]:
    """A threshold twice as wide is what a test must notice; mutmut adds 1, which any test notices in a share of 1 %."""
    yield node.with_changes(value=repr(node.evaluated_value * 2 or 1.0))


_OPERATORS: Sequence[tuple[type, Callable[[Any], Iterable[cst.CSTNode]]]] = [
    (cst.Float, _doubled),
    *((cst.Integer if kind is cst.BaseNumber else kind, operator) for kind, operator in mutation_operators),
]


def _is_silent(argument: cst.CSTNode) -> bool:
    """Of `zip(..., strict=True)`, which is an assertion, or the words of a command's help."""
    names = ("strict", "help", "metavar")
    return isinstance(argument, cst.Arg) and argument.keyword is not None and argument.keyword.value in names


def _tells_nothing(node: cst.CSTNode, mutated: cst.CSTNode) -> bool:
    """A None in place of a value, which raises TypeError wherever it is used, or one of `_is_silent`."""
    if isinstance(node, cst.Assign | cst.AnnAssign):
        return True
    if not isinstance(node, cst.Call) or not isinstance(mutated, cst.Call):
        return False
    if len(node.args) != len(mutated.args):
        return sum(map(_is_silent, node.args)) != sum(map(_is_silent, mutated.args))
    values = zip(node.args, mutated.args, strict=True)
    return any(a is not b and isinstance(b.value, cst.Name) and b.value.value == "None" for a, b in values)


class _Sites(cst.CSTVisitor):
    """What can be changed, and into what."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[CodeRange | None, cst.CSTNode, cst.CSTNode]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        # Types are mypy's. The words of messages are for readers, and what raises is tried by the change of its `if`.
        if isinstance(node, cst.Annotation | cst.Decorator | cst.BaseString | cst.Raise | cst.ImportFrom | cst.Import):
            return False
        if _is_silent(node):
            return False
        for kind, operator in _OPERATORS:
            if isinstance(node, kind):
                place = self.get_metadata(PositionProvider, node, None)
                telling = (mutated for mutated in operator(node) if not _tells_nothing(node, mutated))
                self.found += [(place, node, mutated) for mutated in telling]
        return True


def _spliced(source: str, module: cst.Module, place: CodeRange | None, node: cst.CSTNode, mutated: cst.CSTNode) -> str:
    """The source with the mutated node in place of the node."""
    if place is None or isinstance(node, cst.BaseCompoundStatement):
        whole: str = cst.ensure_type(module.deep_replace(node, mutated), cst.Module).code
        return whole
    lines = source.splitlines(keepends=True)
    start = sum(map(len, lines[: place.start.line - 1])) + place.start.column
    end = sum(map(len, lines[: place.end.line - 1])) + place.end.column
    text: str = module.code_for_node(mutated)
    return source[:start] + text + source[end:]


def mutant_of(file: str, source: str, text: str) -> Mutant | None:
    """The mutant whose text is this one; None where only blanks differ."""
    old, new = (list(map(str.strip, one.splitlines())) for one in (source, text))
    first = _alike(old, new)
    last = _alike(old[first:][::-1], new[first:][::-1])
    before, after = _joined(old[first : len(old) - last]), _joined(new[first : len(new) - last])
    if before == after:
        return None
    return Mutant(file, first + 1, _scope(source.splitlines(), first), *_clipped(before, after), text)


def _alike(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines or characters both begin with."""
    return next((index for index, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _scope(lines: Sequence[str], index: int) -> str:
    """The function or class around a line; "" at the top of the module."""
    depth = len(lines[index]) - len(lines[index].lstrip())
    for line in reversed(lines[:index]):
        found = re.match(r"(\s*)(?:def|class) (\w+)", line)
        if found and len(found[1]) < depth:
            return found[2]
    return ""


def _clipped(before: str, after: str) -> tuple[str, str]:
    """Of long lines the part that differs, and the words around it."""
    start, end = _alike(before, after), _alike(before[::-1], after[::-1])
    start, end = max(start - _CONTEXT, 0), max(min(end, len(before) - start, len(after) - start) - _CONTEXT, 0)
    return before[start : len(before) - end], after[start : len(after) - end]


def _joined(lines: Sequence[str]) -> str:
    return " ".join(" ".join(lines).split())


def files_below(package: Path, path: str) -> Iterator[str]:
    """The files of the package that `path` names: a file, a folder, or all."""
    found = package / path
    for one in sorted(found.rglob("*.py")) if found.is_dir() else [found]:
        yield one.relative_to(package).as_posix()
