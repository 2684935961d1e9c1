"""Whom a test belongs to: by its mark, else by ini `tfperf_owners`, else by the repository's CODEOWNERS."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

import pytest

from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError, known_names

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_tfperf.stores.code_owners import CodeOwners


class Owners:
    """The owners of tests, in a session with these settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def of(self, item: pytest.Item) -> str:
        """The owner of a test; "" for none.

        Raises:
            TfperfError: its mark names none.
        """
        if (mark := item.get_closest_marker("owner")) is not None:
            return _named_by(mark, item)
        for pattern, owner in reversed(self._settings.owners):
            if fnmatchcase(item.nodeid, pattern):
                return owner
        path = item.path.resolve()
        return self._files.of(path.relative_to(self._root).as_posix()) if path.is_relative_to(self._root) else ""

    @cached_property
    def _root(self) -> Path:
        """The repository's root, or pytest's where there is no repository."""
        root = self._settings.root.resolve()
        return next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)

    @cached_property
    def _files(self) -> CodeOwners:
        from pytest_tfperf.stores.code_owners import CodeOwners

        return CodeOwners.of_repository(self._root)


def keep_owned(config: pytest.Config, items: list[pytest.Item], owners: Owners, name: str) -> None:
    """Deselect tests of other owners than the named one.

    Raises:
        TfperfError: no collected test belongs to it; names the nearest.
    """
    of_items = {item: owners.of(item) for item in items}
    names = {item: {owner, *owner.split()} - {""} for item, owner in of_items.items()}
    kept = [item for item in items if name in names[item]]
    if items and not kept:
        known = set().union(*names.values())
        raise TfperfError(f"--tfperf-owner: no collected test belongs to {name!r}", next_step=known_names(name, known))
    config.hook.pytest_deselected(items=[item for item in items if name not in names[item]])
    items[:] = kept


def _named_by(mark: pytest.Mark, item: pytest.Item) -> str:
    name = next(iter([*mark.args, *mark.kwargs.values()]), None)
    if not (isinstance(name, str) and name.strip() and name.isprintable()):
        raise TfperfError(
            f"{item.nodeid}: its mark `owner` names no owner", next_step='Write @pytest.mark.owner("NAME")'
        )
    return name.strip()
