"""XLA compiles what a workload asks for, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import SESSION_SECONDS

CLUSTERS = {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit", "TF_CPP_MIN_LOG_LEVEL": "0"}

CHAIN = """
import tensorflow as tf
tf.config.set_visible_devices([], "GPU")
weights = tf.random.normal((64, 64))
chain = tf.function(lambda x: tf.tanh(tf.exp(x @ weights) + x * x))
for _ in range(3):
    chain(weights)
"""

WORKER = """
import os
from pathlib import Path
from pytest_tfperf.training.process import become_worker
become_worker(Path(os.environ["LOG"]), dict(os.environ), [])
"""


@pytest.mark.parametrize(("start", "compiles"), [("", True), (WORKER, False)], ids=["plain Python", "worker"])
def test_the_shells_wish_to_cluster_does_not_reach_a_worker(tmp_path: Path, start: str, compiles: bool) -> None:
    log = tmp_path / "log"
    environment = dict(os.environ) | CLUSTERS | {"LOG": str(log)}
    done = subprocess.run(
        [sys.executable, "-c", start + CHAIN],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        timeout=SESSION_SECONDS,
        check=False,
    )
    said = done.stderr + (log.read_text() if log.exists() else "")
    assert done.returncode == 0, said
    assert ("Compiled cluster using XLA" in said) is compiles
