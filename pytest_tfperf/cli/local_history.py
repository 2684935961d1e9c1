"""Which history a command reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from pytest_tfperf.stores.history import History


def open_history(arguments: argparse.Namespace) -> History:
    """The history in the folder that `--dir` names."""
    from pytest_tfperf.stores.history import History

    return History(arguments.dir / "history.sqlite")
