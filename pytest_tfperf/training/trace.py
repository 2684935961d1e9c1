"""Steps under TensorFlow's profiler, as TensorBoard reads them; see `pytest_tfperf.core.profile`."""

from __future__ import annotations

import base64
import tempfile
import zlib
from pathlib import Path

import tensorflow as tf

from pytest_tfperf.core.profile import Trace
from pytest_tfperf.training.loop import Loop
from pytest_tfperf.training.op_times import op_times

MOST_BYTES = 60 * 1024 * 1024
"""Of a trace in base64: a message of the wire may have 64 MiB."""

_SUFFIX = ".xplane.pb"


def trace_steps(loop: Loop, steps: int, most_bytes: int = MOST_BYTES) -> Trace:
    """Take `steps` steps of a loop that is warmed up, under the profiler.

    Python functions are not traced: it would take longer than the steps of a small model.

    Raises:
        tf.errors.OpError: the profiler runs already, or can't write to the temporary folder.
        MeasurementError: as `op_times`.
    """
    options = tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=2, python_tracer_level=0, device_tracer_level=1
    )
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder, options)
        try:
            loop.run(steps)
        finally:
            tf.profiler.experimental.stop()
        (file,) = Path(folder).glob(f"plugins/profile/*/*{_SUFFIX}")
        data, host = file.read_bytes(), file.name.removesuffix(_SUFFIX)
    xspace = base64.b64encode(zlib.compress(data, level=1)).decode()
    too_large = len(xspace) > most_bytes
    return Trace(
        host=host,
        steps=steps,
        ops=op_times(data, steps, has_gpus=bool(tf.config.list_logical_devices("GPU"))),
        xspace="" if too_large else xspace,
        fault=f"a trace of {steps} steps is too large to send: {len(data) / 2**20:,.0f} MiB" if too_large else "",
    )
