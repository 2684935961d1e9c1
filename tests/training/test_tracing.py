"""Steps under TensorFlow's profiler: what XProf reads of the trace, and what we read."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import pytest
import tensorflow as tf
from building import build
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from pytest_tfperf.core.plain_json import build as build_from_json
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.profile import OpTime, Trace
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.training import profiling
from pytest_tfperf.training.loop import OwnLoop
from pytest_tfperf.training.profiling import op_times, trace_steps
from pytest_tfperf.training.strategies import DeviceServer

STEPS = 3


def traced(devices: list[str], **choices: Any) -> Trace:
    loop, _ = build(devices, **choices)
    loop.run(2)
    return trace_steps(loop, STEPS)


def xspace(trace: Trace) -> bytes:
    return zlib.decompress(base64.b64decode(trace.xspace))


def of_type(trace: Trace, type: str) -> list[OpTime]:
    return [op for op in trace.ops if op.type == type]


@pytest.fixture(scope="module")
def trace(cpus: list[str]) -> Trace:
    return traced(cpus[:1], model="resnet20")


# Of real training


def test_the_driver_can_read_it(trace: Trace) -> None:
    assert build_from_json(Trace, plain(trace), "") == trace


def test_each_convolution_is_named_by_its_layer_and_runs_once_a_step(trace: Trace) -> None:
    convolutions = [op for op in of_type(trace, "Conv2D") if "conv2d_" in op.name]
    assert len(convolutions) > 10  # of 21: TensorFlow fuses some with what follows
    assert {op.count for op in convolutions} == {1.0}


@pytest.mark.parametrize("choices", [{"trainer": "keras"}, {"xla": True}, {"xla": True, "trainer": "keras"}])
def test_every_kind_of_training_names_the_layers_matrix_products(cpus: list[str], choices: dict[str, Any]) -> None:
    found = traced(cpus[:1], **choices)
    assert any("dense" in op.name and "MatMul" in op.name for op in found.ops)


def test_replicas_are_counted_together(cpus: list[str]) -> None:
    found = traced(cpus[:2])
    assert not [op.name for op in found.ops if "replica_" in op.name]


def test_a_training_of_ones_own_is_traced_and_its_layers_have_the_names_that_their_author_gave(cpus: list[str]) -> None:
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, name="added_layer")], name="net")

    class Own:
        examples_per_step = 1
        step = staticmethod(tf.function(lambda: model(tf.ones([2, 8]))))

        def run(self, steps: int) -> None:
            for _ in range(steps):
                self.step()

    loop = OwnLoop(Own(), cpus[:1])
    loop.run(1)
    assert any("added_layer" in op.name and op.count == 1.0 for op in trace_steps(loop, STEPS).ops)


def test_the_stages_of_a_pipeline_are_among_the_operations(cpus: list[str]) -> None:
    assert of_type(traced(cpus[:1], input_pipeline="host"), "Dataset")


def test_the_wait_for_a_windows_end_is_none_of_the_trainings(trace: Trace) -> None:
    assert not of_type(trace, "SyncDevice")


def test_a_trace_that_is_too_large_is_not_sent_but_read(cpus: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "MOST_BYTES", 10)
    loop, _ = build(cpus[:1])
    loop.run(1)
    found = trace_steps(loop, STEPS)
    assert (found.xspace, bool(found.ops)) == ("", True)
    assert found.fault.startswith("a trace of 3 steps is too large to send: ")


def test_a_profiler_that_is_in_use_is_an_error(cpus: list[str], tmp_path: Path) -> None:
    loop, _ = build(cpus[:1])
    tf.profiler.experimental.start(str(tmp_path))
    try:
        with pytest.raises(tf.errors.AlreadyExistsError):
            trace_steps(loop, STEPS)
    finally:
        tf.profiler.experimental.stop()


def test_a_rank_that_only_lends_its_gpus_may_have_a_trace_without_kernels(
    cpus: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [SimpleNamespace(name=f"/device:{kind}:0")])
    lends = DeviceServer.__new__(DeviceServer)  # without the server, which lasts as long as the process
    assert trace_steps(lends, STEPS).steps == STEPS


# By XProf's own reader


@pytest.fixture(scope="module")
def xprof_rows(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What XProf's page "framework op stats" shows."""
    reader = pytest.importorskip(
        "xprof.convert.raw_to_tool_data", reason="XProf is not installed: pip install '.[profile]'"
    )
    file = tmp_path_factory.mktemp("trace") / "vm.xplane.pb"
    file.write_bytes(xspace(trace))
    data, _ = reader.xspace_to_tool_data([str(file)], "framework_op_stats", {})
    table = json.loads(data)[0]
    names = [column["id"] for column in table["cols"]]
    return [dict(zip(names, [cell["v"] for cell in row["c"]], strict=True)) for row in table["rows"]]


def test_xprof_opens_the_trace_and_shows_our_times_of_the_convolutions(
    trace: Trace, xprof_rows: list[dict[str, Any]]
) -> None:
    """It leaves out the smallest operations, so the sums may differ."""
    loop = "while/body/_1/while/"
    theirs = {
        row["operation"].removeprefix(loop): row["total_self_time"] / 1e6
        for row in xprof_rows
        if row["operation"].startswith(loop) and row["operation"].endswith("/convolution")
    }
    assert len(theirs) > 10
    assert {op.name: op.seconds * STEPS for op in trace.ops if op.name in theirs} == pytest.approx(theirs, rel=1e-6)


# Of traces that are written here


class Written:
    """An XSpace message with one line on each plane."""

    def __init__(self) -> None:
        self.space = xplane_pb2.XSpace()
        self.lines: dict[str, Any] = {}

    def event(self, plane: str, line: str, name: str, begin: int, seconds: int, **stats: str) -> None:
        found = next((one for one in self.space.planes if one.name == plane), None)
        found = self.space.planes.add(name=plane) if found is None else found
        lines = [one for one in found.lines if one.name == line]
        events = (lines[0] if lines else found.lines.add(name=line)).events
        number = len(found.event_metadata) + 1
        found.event_metadata[number].name = name
        picosecond = 10**12
        event = events.add(metadata_id=number, offset_ps=begin * picosecond, duration_ps=seconds * picosecond)
        for key, value in stats.items():
            number = len(found.stat_metadata) + 1
            found.stat_metadata[number].name = key
            event.stats.add(metadata_id=number, str_value=value)

    def on_host(self, name: str, begin: int, seconds: int, line: str = "tf_Compute/1") -> None:
        self.event("/host:CPU", line, name, begin, seconds)

    def on_gpu(self, name: str, begin: int, seconds: int, line: str = "Stream #14(Compute)", **stats: str) -> None:
        self.event("/device:GPU:0", line, name, begin, seconds, **stats)

    def times(self, steps: int = 1) -> dict[tuple[str, str], float]:
        return {(op.name, op.type): op.seconds for op in op_times(self.space.SerializeToString(), steps)}


def test_an_operation_inside_another_one_counts_for_itself_alone() -> None:
    written = Written()
    written.on_host("call:PartitionedCall", 0, 10)
    written.on_host("dense/MatMul:MatMul", 2, 3)
    written.on_host("dense/Relu:Relu", 5, 1)
    assert written.times() == {
        ("call", "PartitionedCall"): 6.0,
        ("dense/MatMul", "MatMul"): 3.0,
        ("dense/Relu", "Relu"): 1.0,
    }


def test_threads_do_not_lie_inside_each_other() -> None:
    written = Written()
    written.on_host("a/MatMul:MatMul", 0, 10, line="tf_Compute/1")
    written.on_host("b/MatMul:MatMul", 2, 3, line="tf_Compute/2")
    assert set(written.times().values()) == {10.0, 3.0}


@pytest.mark.parametrize(
    ("event", "op"),
    [
        ("while/body/_1/while/replica_1/net/conv/Conv2D:Conv2D", ("net/conv/Conv2D", "Conv2D")),
        ("while/body/_1/gradient_tape/while/net/conv:_MklNativeConv2D", ("gradient_tape/net/conv", "Conv2D")),
        ("while/body/_1/while/L2Loss_4:L2Loss", ("L2Loss", "L2Loss")),
        ("Iterator::Root::Repeat[7]::Map", ("Iterator::Root::Repeat::Map", "Dataset")),
        ("EagerLocalExecute: MatMul", ("MatMul", "MatMul")),
    ],
)
def test_an_operation_has_the_same_name_in_each_replica_step_and_session(event: str, op: tuple[str, str]) -> None:
    written = Written()
    written.on_host(event, 0, 1)
    assert list(written.times()) == [op]


@pytest.mark.parametrize(
    "event", ["ExecutorState::Process", "EagerLocalExecute: __inference_f_1", "SyncDevice:SyncDevice", "", "a::b:c"]
)
def test_other_events_are_no_operations(event: str) -> None:
    written = Written()
    written.on_host(event, 0, 1)
    assert written.times() == {}


def test_of_an_operation_on_a_gpu_its_kernels_count_and_not_their_launch() -> None:
    written = Written()
    written.on_host("while/body/_1/while/conv/Conv2D:Conv2D", 0, 1)
    written.on_host("while/body/_1/while/parse/DecodeJpeg:DecodeJpeg", 2, 4)
    for begin in (10, 20):
        written.on_gpu("sm80_xmma_fprop", begin, 7, tf_op="while/body/_1/while/conv/Conv2D:Conv2D")
    assert written.times(2) == {("conv/Conv2D", "Conv2D"): 7.0, ("parse/DecodeJpeg", "DecodeJpeg"): 2.0}


def test_a_gpus_events_without_an_operation_are_named_by_their_kernel() -> None:
    written = Written()
    written.on_gpu("MemcpyH2D", 0, 2)
    written.on_gpu("loop_add_fusion", 3, 1, hlo_op="loop_add_fusion.3", hlo_module="cluster_1")
    assert written.times() == {("MemcpyH2D", "kernel"): 2.0, ("loop_add_fusion", "XLA"): 1.0}


def test_lines_that_are_derived_from_a_gpus_streams_do_not_count_twice() -> None:
    written = Written()
    for line in ("Stream #14(Compute)", "TensorFlow Ops", "XLA Ops"):
        written.on_gpu("MemcpyH2D", 0, 2, line=line)
    assert list(written.times().values()) == [2.0]


@pytest.mark.parametrize(
    ("errors", "why"),
    [(["Failed to load libcupti (is it installed and accessible?)"], "Failed to load libcupti"), ([], "is CUPTI")],
)
def test_a_trace_without_the_kernels_of_gpus_that_trained_says_why(errors: list[str], why: str) -> None:
    written = Written()
    written.on_host("input/DecodeJpeg:DecodeJpeg", 0, 1)
    written.space.errors.extend(errors)
    with pytest.raises(MeasurementError, match=f"the profiler saw no kernel of the GPUs: {why}"):
        op_times(written.space.SerializeToString(), 1, has_gpus=True)
    written.on_gpu("MemcpyH2D", 0, 2)
    assert len(op_times(written.space.SerializeToString(), 1, has_gpus=True)) == 2


def test_an_empty_trace_has_no_operations() -> None:
    assert op_times(b"", 3) == ()
