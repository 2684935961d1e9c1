"""What several kinds of tests share: a small data set, made once a session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# A session that a test starts is no worker of the xdist that runs the test; pytest-benchmark would take it for one.
os.environ.pop("PYTEST_XDIST_WORKER", None)


@pytest.fixture(scope="session")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 images in 3 shards; not to be changed."""
    folder = tmp_path_factory.mktemp("data") / "imagenet"
    command = [sys.executable, "-m", "pytest_tfperf.training.make_imagenet", folder, "24", "3", "1"]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return folder
