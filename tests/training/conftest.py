"""Real training on this machine's CPU, as four devices; a process can configure them only once."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


@pytest.fixture(scope="session", autouse=True)
def cpus() -> list[str]:
    """Autouse, because a test that touches a device first would keep all later ones from configuring it."""
    from pytest_tfperf.core.topology import DeviceKind, Devices
    from pytest_tfperf.training.devices import configure

    return configure(Devices(kind=DeviceKind.CPU, count=4))


@pytest.fixture(scope="session")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of 24 images in 3 shards; not to be changed."""
    from pytest_tfperf.training.make_data import make_data

    folder = tmp_path_factory.mktemp("data") / "imagenet"
    make_data("imagenet", folder, count=24, shards=3, seed=1)
    return folder


@pytest.fixture(scope="module", autouse=True)
def permanent_objects_are_not_collected() -> None:
    """Walking over TensorFlow's million objects after each test took a third of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_generator_outlives_its_test() -> Iterator[None]:
    # One that TensorFlow still reads when the interpreter shuts down can keep it from ending.
    yield
    gc.collect()
