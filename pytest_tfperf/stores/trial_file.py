"""The file of a trial: what its sessions gave so far."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.trial import Trial
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import files

VERSION: Final = 1

FOLDER: Final = "trial"
"""The folder of a trial in that of the history."""


def trial_file(folder: Path) -> Path:
    """Return the trial's file in the folder of a history."""
    return folder / FOLDER / "trial.json"


def read(folder: Path) -> Trial | None:
    """Return the trial in the folder of a history; None where there is none.

    Raises:
        TfperfError: the file can't be read.
    """
    path = trial_file(folder)
    try:
        document = json.loads(path.read_text("utf-8"))
        if not isinstance(document, dict) or document.get("version") != VERSION:
            raise TfperfError(f"it is not of version {VERSION}")
        return build(Trial, document.get("trial"), str(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TfperfError) as error:
        raise TfperfError(
            f"{path} can't be read: {error}", next_step="Begin the trial anew: tfperf trial --again"
        ) from None


def write(folder: Path, trial: Trial) -> None:
    """Write the trial, whole or not at all.

    Raises:
        OSError: it can't be written.
    """
    path = trial_file(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, json.dumps({"version": VERSION, "trial": plain(trial)}, indent=1).encode())
