"""What several kinds of tests share: a small data set, made once a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_tfperf.make_imagenet import make_imagenet


@pytest.fixture(scope="session")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 images in 3 shards; not to be changed."""
    folder = tmp_path_factory.mktemp("data") / "imagenet"
    make_imagenet(folder, images=24, shards=3)
    return folder
