"""Run as a program: train as one rank of several for 20 steps; write its losses and its trained variables to a file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

from pytest_tfperf.core.job import Cluster
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import VariableUpdate, Workload
from pytest_tfperf.training.devices import configure
from pytest_tfperf.training.horovod import Horovod
from pytest_tfperf.training.loading import input_spec, load_model, load_pipeline, loop_for
from pytest_tfperf.training.strategies import DeviceServer, connect, strategy_for

STEPS = 20


def main(rank: int, addresses: list[str], devices: int, choices: dict[str, object], output: str) -> None:
    workload = Workload(**choices)
    cluster = Cluster(rank=rank, addresses=tuple(addresses), hosts=("here",) * len(addresses), timeout_seconds=60)
    lent = Devices(kind=DeviceKind.CPU, count=devices)
    if workload.variable_update is VariableUpdate.PARAMETER_SERVER and rank > 0:
        server = DeviceServer(cluster, lent, workload, 0)
        np.savez(output, images=server.examples_per_step)
        sys.stdin.read()  # until the test has seen rank 0 end
        os._exit(0)
    names = configure(lent)
    if workload.variable_update is VariableUpdate.PARAMETER_SERVER:
        names, cluster = connect(cluster, names), None
    horovod = None
    if workload.variable_update is VariableUpdate.HOROVOD:
        horovod = Horovod(workload, cluster, on_gpus=False)
    strategy = strategy_for(workload, names, cluster)
    model = load_model(workload, strategy, seed=1)
    if horovod is not None:
        horovod.broadcast(model)
    inputs = load_pipeline(workload, input_spec(workload, model, strategy, 1, "", cluster))
    loop = loop_for(workload, strategy, model, inputs, horovod)
    losses = [loop.run(1), loop.run(STEPS - 2), loop.run(1)]
    trained = [v.value.read_value().numpy() for v in model.trainable_variables]
    np.savez(output, losses, *trained, images=loop.examples_per_step)


if __name__ == "__main__":
    main(**json.loads(Path(sys.argv[1]).read_text()))
