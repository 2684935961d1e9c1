"""Finishes git's merge of baselines that both sides recorded, from the versions that git's index has of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Final, TypeVar

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.reports.numbers import counted, rate, written_in
from pytest_tfperf.revisions.git import run_git
from pytest_tfperf.stores import baseline_file
from pytest_tfperf.stores.baseline_file import BaselineStore

Part = TypeVar("Part")

_OURS, _THEIRS = "ours", "theirs"  # the sides of a merge, in git's words
_STAGES: Final = {1: "the common ancestor", 2: _OURS, 3: _THEIRS}  # of git's index

_HEADS: Final = ("HEAD", "MERGE_HEAD", "REBASE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")
"""The commits of both sides, whatever git was doing."""


@dataclass(frozen=True, slots=True)
class ChangedTwice:
    """A row that each side changed in its own way."""

    kept: Baseline  # the row of the merged file
    side: str  # "ours" or "theirs", whose row it is
    dropped: Baseline | None  # the other side's row; None where that side deleted it


def merge(
    base: Mapping[Key, Baseline], ours: Mapping[Key, Baseline], theirs: Mapping[Key, Baseline]
) -> tuple[dict[Key, Baseline], list[ChangedTwice]]:
    """Return the merged rows, and those that both sides changed.

    What one side alone changed or deleted is as that side has it. Of two recordings the newer one is kept, of the same
    day ours; a row that one side deleted and the other changed is kept. `lower` and `upper` are merged by themselves,
    because a recording keeps them.

    `base` are the rows of the last common commit; none where both sides added the file.
    """
    rows: dict[Key, Baseline] = {}
    twice: list[ChangedTwice] = []
    for key in dict.fromkeys((*ours, *theirs)):
        before, one, other = base.get(key), ours.get(key), theirs.get(key)
        if one is not None and other is not None:
            side = _THEIRS if other.date > one.date else _OURS
            rows[key] = _merged(before, one, other, side)
            if any(_both_changed(before and part(before), part(one), part(other)) for part in _PARTS):
                twice.append(ChangedTwice(rows[key], side, one if side == _THEIRS else other))
        elif (changed := one or other) is not None and changed != before:
            rows[key] = changed
            if before is not None:
                twice.append(ChangedTwice(changed, _OURS if one else _THEIRS, None))
    return rows, twice


def _merged(before: Baseline | None, ours: Baseline, theirs: Baseline, newer: str) -> Baseline:
    def of(part: Callable[[Baseline], Part]) -> Part:
        old, one, other = before and part(before), part(ours), part(theirs)
        is_theirs = newer == _THEIRS if _both_changed(old, one, other) else one == old
        return other if is_theirs else one

    return replace(of(_recording), lower=of(_LOWER), upper=of(_UPPER))


def _both_changed(before: object, ours: object, theirs: object) -> bool:
    return before != ours != theirs != before


def _recording(row: Baseline) -> Baseline:
    return replace(row, lower=None, upper=None)


_LOWER, _UPPER = attrgetter("lower"), attrgetter("upper")
_PARTS: Final[tuple[Callable[[Baseline], object], ...]] = (_recording, _LOWER, _UPPER)
"""What is merged by itself: the recording, and the bounds that a user wrote."""


@dataclass(frozen=True, slots=True)
class MergedFile:
    """A file that was merged and added to git's index."""

    path: Path
    rows: int  # the number of its rows; without any it was deleted
    twice: tuple[ChangedTwice, ...]  # the rows that both sides changed
    restored: tuple[str, ...]  # locks that a row names, and that the side without such a row had deleted
    lost: tuple[str, ...]  # locks that a row names, and that neither side has


def finish_merge(folder: Path) -> list[MergedFile]:
    """Merge the files of a folder that git could not merge; none is written unless all can be read.

    Raises:
        TfperfError: no merge is unfinished, a version can't be read, or a file can't be written.
    """
    versions = {path: _versions(path, stages) for path, stages in _unfinished(folder).items()}
    return [_finished(path, *rows) for path, rows in versions.items()]


def _unfinished(folder: Path) -> dict[Path, dict[int, str]]:
    """Return the hash of each version of each file, by its stage in git's index."""
    if not folder.is_dir():
        raise TfperfError(f"there is no folder {folder}", next_step="Name the folder of baselines: --baselines=DIR")
    files: dict[Path, dict[int, str]] = {}
    for entry in filter(None, _git(folder, "ls-files", "--unmerged", "-z", "--", "*.csv").split("\0")):
        facts, _, name = entry.partition("\t")
        if "/" not in name:
            _, digest, stage = facts.split()
            files.setdefault(folder / name, {})[int(stage)] = digest
    if not files:
        raise TfperfError(
            f"{folder}: git has no unfinished merge of a file there",
            next_step=f"If a file has git's marks all the same, try git checkout --merge -- {folder}",
        )
    return files


def _versions(path: Path, stages: Mapping[int, str]) -> list[dict[Key, Baseline]]:
    """Return the rows of the common ancestor and of both sides; none where there is no such version."""
    if {2, 3} <= stages.keys() and path.exists() and not baseline_file.merge_line(path.read_bytes()):
        raise TfperfError(
            f"{path} has no marks of git any more, so it was merged by hand",
            next_step=f"Finish with git add {path}, or begin again with git checkout --merge -- {path}",
        )
    texts = {stage: _git(path.parent, "cat-file", "blob", digest) for stage, digest in stages.items()}
    return [
        baseline_file.parse(texts[stage].encode(), path.stem, f"{path} ({side})") if stage in texts else {}
        for stage, side in _STAGES.items()
    ]


def _finished(
    path: Path, base: Mapping[Key, Baseline], ours: Mapping[Key, Baseline], theirs: Mapping[Key, Baseline]
) -> MergedFile:
    folder = path.parent
    rows, twice = merge(base, ours, theirs)
    BaselineStore(folder, published=None).rewrite(path.stem, rows.values())
    missing = sorted({row.lock for row in rows.values() if row.lock and not (folder / row.lock).exists()})
    restored = tuple(lock for lock in missing if _is_restored(folder / lock))
    _git(folder, "add", "--all", "--", path.name, *restored)
    in_order = sorted(twice, key=lambda row: row.kept.key)
    lost = tuple(lock for lock in missing if lock not in restored)
    return MergedFile(path, len(rows), tuple(in_order), restored, lost)


def _is_restored(lock: Path) -> bool:
    """Write a lock as the side has it that did not delete it; whether there is one."""
    for head in _HEADS:
        found = run_git(lock.parent, "show", f"{head}:./{lock.name}")
        if found.returncode == 0:
            lock.write_text(found.stdout, "utf-8")
            return True
    return False


def _git(folder: Path, *arguments: str) -> str:
    done = run_git(folder, *arguments)
    if done.returncode:
        raise TfperfError(f"{folder}: git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def merged_lines(file: MergedFile) -> Iterator[str]:
    """Yield a line about a merged file, one for each row that both sides changed, and one for each missing lock."""
    rows = counted(file.rows, "row") if file.rows else "no row is left, so it is deleted"
    yield f"{file.path}: {rows}" + (f", {len(file.twice)} of them changed on both sides:" if file.twice else "")
    yield from (f"  {_kept(row)}" for row in file.twice)
    yield from (f"  {lock}: restored, because rows name it" for lock in file.restored)
    for lock in file.lost:
        yield f"  {lock}: rows name it, and no side has it: record them again, or look for it in git log --all"


def _kept(row: ChangedTwice) -> str:
    kept, dropped, other = row.kept, row.dropped, _THEIRS if row.side == _OURS else _OURS
    text = f"{' '.join(filter(None, kept.key))}: kept {_recorded(kept)} ({row.side}), "
    if dropped is None:
        return f"{text}which {other} deleted"
    same_day = ", of the same day" if kept.date == dropped.date else ""
    return f"{text}not {_recorded(dropped)} ({other}{same_day})"


def _recorded(row: Baseline) -> str:
    """Return value, date and bounds: "1,612 images/s of 2026-01-31 with lower -0.05"."""
    bounds = [f"{name} {bound:g}" for name, bound in (("lower", row.lower), ("upper", row.upper)) if bound is not None]
    text = written_in(row.unit, row.value) if row.key.figure else f"{rate(row.value)} {row.unit}/s"
    text += f" of {row.date}" if row.date else ""
    return f"{text} with {' and '.join(bounds)}" if bounds else text
