"""The packages of a search: environments between the one of a fast lock and the one of a slow lock."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, final

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.bisect.step import State
from pytest_tfperf.workers.virtual_environment import environment_of

_PYTHON: Final = re.compile(r"^# python: (\d+\.\d+)", re.MULTILINE)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@final
class PackageStates:
    """The fast environment (state 0), and each further package of the slow one, in the order of their names.

    Each state is an environment, which is made once and kept. One that pip can't make is skipped.

    Args:
        fast, slow: locks, as `pip freeze` and --update-baselines write them.
        folder: tfperf's own.

    Raises:
        TfperfError: a lock can't be read, or they differ in nothing, or in Python itself.
    """

    noun: Final = "packages"

    def __init__(self, fast: Path, slow: Path, folder: Path) -> None:
        self._folder = folder.absolute()
        texts = [_text(path) for path in (fast, slow)]
        pythons = {found[1] for text in texts if (found := _PYTHON.search(text))}
        if len(pythons) > 1:
            raise TfperfError(
                f"{fast} and {slow} are for two Pythons, {' and '.join(sorted(pythons))}, of which no package can be "
                "moved: compare them with pytest --tfperf-against=PYTHON"
            )
        self._header = f"# python: {found[0].partition(': ')[2]}\n" if (found := _PYTHON.search(texts[0])) else ""
        self._fast, self._slow = (_requirements(text) for text in texts)
        both = sorted(self._fast.keys() | self._slow.keys())
        self._changed = [name for name in both if self._fast.get(name) != self._slow.get(name)]
        if not self._changed:
            raise TfperfError(f"{fast} and {slow} name the same packages: name two locks that differ")

    @property
    def key(self) -> list[str]:
        """What tells this search from others."""
        return [self._lock(0), self._lock(len(self._changed))]

    @property
    def names(self) -> list[str]:
        """Of each state, in order."""
        between = (f"up to {self._change(name)}" for name in self._changed[:-1])
        return ["the fast lock", *between, "the slow lock"]

    def state(self, index: int) -> State:
        """How a state is measured; making its environment takes minutes.

        Raises:
            TfperfError: pip can't install its packages.
        """
        lock = self._folder / "bisect" / f"packages-{index}.lock.txt"
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            lock.write_text(self._lock(index), "utf-8")
        except OSError as error:
            raise TfperfError(
                f"{lock} can't be written: {error.strerror}", next_step="Free some space, or give --dir"
            ) from None
        python = environment_of(lock, self._folder / "environments")
        return State(name=self.names[index], kind=self.noun, python=str(python))

    def about(self, index: int) -> list[tuple[str, str]]:
        """Which package it is."""
        return [("package", self._change(self._changed[index - 1]))]

    def close(self) -> None:
        """Do nothing: environments are kept."""

    def _lock(self, index: int) -> str:
        moved = self._changed[:index]
        found = {**self._fast, **{name: self._slow.get(name, "") for name in moved}}
        return self._header + "".join(f"{found[name]}\n" for name in sorted(found) if found[name])

    def _change(self, name: str) -> str:
        before, after = (lock.get(name, "none") for lock in (self._fast, self._slow))
        return f"{before} -> {after}"


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise TfperfError(f"{path} can't be read: {why}", next_step="Name a lock, as `pip freeze` writes it") from None


def _requirements(text: str) -> dict[str, str]:
    """Name -> its line, by the name that packages have in an index."""
    lines = (line.strip() for line in text.splitlines())
    named = [(found[0], line) for line in lines if (found := _NAME.match(line))]
    return {re.sub(r"[-_.]+", "-", name).lower(): line for name, line in named}
