"""The file of a trial: what its sessions gave so far."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from pytest_tfperf.core import plain_json
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.trial import Trial
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import files
from pytest_tfperf.stores.kept import NewerFormat, require_version

VERSION: Final = 1

FOLDER: Final = "trial"
"""The folder of a trial in that of the history."""


def trial_file(folder: Path) -> Path:
    """Return the trial's file in the folder of a history."""
    return folder / FOLDER / "trial.json"


def read(folder: Path) -> Trial | None:
    """Return the trial in the folder of a history; None where there is none.

    Raises:
        TfperfError: the file can't be read, or a newer version wrote it.
    """
    path = trial_file(folder)
    try:
        document = plain_json.from_json(path.read_bytes())
        require_version(document.get("version"), path, newest=VERSION)
        return build(Trial, document.get("trial"), str(path), newer=True)
    except NewerFormat:
        raise
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError, TfperfError) as error:
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
