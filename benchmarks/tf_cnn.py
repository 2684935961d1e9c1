"""tf_cnn_benchmarks, run in this process so that its steps can be timed like those of the other sides.

Its folder must be on the import path, and TF_USE_LEGACY_KERAS=1 set; step_speed.py sees to both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def train(model: str, batch: int, done: Callable[[], bool]) -> None:
    """Train on synthetic data on the CPU until `done`, which is called after each step, says so."""
    import benchmark_cnn  # type: ignore[import-not-found]
    import flags  # type: ignore[import-not-found]
    import tensorflow.compat.v1 as tf
    from absl import flags as absl_flags

    tf.disable_v2_behavior()
    one_step = benchmark_cnn.benchmark_one_step

    def timed(*args: Any, **kwargs: Any) -> Any:
        result = one_step(*args, **kwargs)
        if done():
            raise _EnoughError
        return result

    benchmark_cnn.benchmark_one_step = timed
    flags.define_flags()
    absl_flags.FLAGS(["tf_cnn_benchmarks"])
    parameters = benchmark_cnn.setup(
        benchmark_cnn.make_params(
            model=model,
            data_name="cifar10" if model in ("resnet20", "resnet56") else "imagenet",
            batch_size=batch,
            device="cpu",
            data_format="NHWC",
            local_parameter_device="cpu",
            variable_update="parameter_server",
            num_batches=1_000_000,
        )
    )
    try:
        benchmark_cnn.BenchmarkCNN(parameters).run()
    except _EnoughError:
        return


class _EnoughError(BaseException):
    """Not an Exception: its supervisor would take that for a fault and report it."""
