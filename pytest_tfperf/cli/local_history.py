"""Which history a command reads, and how a time is given."""

from __future__ import annotations

import argparse
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pytest_tfperf.cli.arguments import folder

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import History


def history_place() -> argparse.ArgumentParser:
    """A parent of commands that read a history, which `open_history` opens."""
    return folder("--dir", ".tfperf", "folder of the history")


def open_history(arguments: argparse.Namespace) -> History:
    """The history that `history_place` was given."""
    from pytest_tfperf.stores.history import History

    return History(arguments.dir / "history.sqlite")


def moment(text: str) -> datetime:
    """A date or an age in days; without a zone it is this machine's.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        if age := re.fullmatch(r"(\d+)d", text):
            return datetime.now().astimezone() - timedelta(days=int(age[1]))
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 2026-01-31, or 30d for 30 days ago") from None
