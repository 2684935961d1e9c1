"""Several processes train as one does on the same images: by TensorFlow's collectives, and by Horovod."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building import assert_same

from pytest_tfperf.workers.wire import reserve_port
from tests.helpers.patience import PATIENCE_SECONDS

HERE = Path(__file__).parent
needs_horovod = pytest.mark.skipif(
    importlib.util.find_spec("horovod") is None, reason="Horovod is not installed: docs/cluster.md has the commands"
)


def trained(folder: Path, ranks: int, devices: int = 1, **choices: Any) -> list[list[np.ndarray[Any, Any]]]:
    """The first, a middle and the last loss, and the trained variables, of each rank."""
    with ExitStack() as end:
        ports = [reserve_port("127.0.0.1") for _ in range(ranks)]
        for port, _ in ports:
            end.callback(port.close)
        processes = [
            end.enter_context(started(folder, rank, [address for _, address in ports], devices, choices))
            for rank in range(ranks)
        ]
        for process in processes:
            end.callback(process.kill)
        for process in processes:
            output, _ = process.communicate(timeout=PATIENCE_SECONDS * 4)
            assert process.returncode == 0, output
    files = [np.load(folder / f"{rank}.npz") for rank in range(ranks)]
    assert [int(file["images"]) for file in files] == [choices["batch_size"] * ranks * devices] * ranks
    found = [[file[name] for name in file.files if name != "images"] for file in files]
    return [values for values in found if values]  # a rank that lends its devices has none


def started(
    folder: Path, rank: int, addresses: list[str], devices: int, choices: dict[str, Any]
) -> subprocess.Popen[str]:
    folder.mkdir(parents=True, exist_ok=True)
    task = folder / f"{rank}.json"
    output = str(folder / f"{rank}.npz")
    task.write_text(
        json.dumps({"rank": rank, "addresses": addresses, "devices": devices, "choices": choices, "output": output})
    )
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.Popen(
        [sys.executable, str(HERE / "one_rank.py"), str(task)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


UPDATES = ["collective", "parameter_server", pytest.param("horovod", marks=needs_horovod)]


@pytest.mark.parametrize("update", UPDATES)
def test_two_ranks_with_a_share_of_the_batch_each_equal_one_process(tmp_path: Path, update: str) -> None:
    choices = {"model": "nets:plain", "input_pipeline": "feeds:shared", "optimizer": "momentum"}
    ranks = trained(tmp_path / "two", 2, batch_size=4, variable_update=update, **choices)
    (one,) = trained(tmp_path / "one", 1, batch_size=8, variable_update="replicated", **choices)
    for rank in ranks:
        assert_same(rank, one)


@pytest.mark.parametrize("update", UPDATES)
def test_with_batch_norm_two_ranks_on_the_same_images_equal_one_process(tmp_path: Path, update: str) -> None:
    choices = {"model": "nets:normalised", "input_pipeline": "feeds:same", "batch_size": 4}
    ranks = trained(tmp_path / "two", 2, variable_update=update, **choices)
    (one,) = trained(tmp_path / "one", 1, variable_update="replicated", **choices)
    for rank in ranks:
        assert_same(rank, one)


@pytest.mark.parametrize("update", ["collective", "parameter_server"])
def test_two_ranks_of_two_devices_equal_one_process(tmp_path: Path, update: str) -> None:
    choices = {"model": "nets:plain", "input_pipeline": "feeds:shared"}
    ranks = trained(tmp_path / "two", 2, 2, batch_size=2, variable_update=update, **choices)
    (one,) = trained(tmp_path / "one", 1, batch_size=8, variable_update="replicated", **choices)
    for rank in ranks:
        assert_same(rank, one)


@pytest.mark.parametrize("update", ["collective", "parameter_server"])
def test_two_ranks_of_two_devices_train_a_compiled_model_as_one_process(tmp_path: Path, update: str) -> None:
    choices = {"model": "jobs:classifier", "input_pipeline": "feeds:shared"}
    ranks = trained(tmp_path / "two", 2, 2, batch_size=2, variable_update=update, **choices)
    (one,) = trained(tmp_path / "one", 1, batch_size=8, variable_update="replicated", **choices)
    for rank in ranks:
        # Weights only: Keras' running mean of the loss is wrong under CentralStorageStrategy, with its own `fit`, too.
        assert_same(rank[1:], one[1:], rtol=1e-3)


@pytest.mark.parametrize(("update", "devices"), [("collective", 2), pytest.param("horovod", 1, marks=needs_horovod)])
def test_they_also_train_on_one_node(tmp_path: Path, update: str, devices: int) -> None:
    choices = {"model": "nets:normalised", "input_pipeline": "feeds:same", "batch_size": 4, "optimizer": "momentum"}
    (rank,) = trained(tmp_path / "ours", 1, devices, variable_update=update, **choices)
    (one,) = trained(tmp_path / "one", 1, variable_update="replicated", **choices)
    assert_same(rank, one)
