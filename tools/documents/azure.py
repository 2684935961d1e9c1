"""Azure's K80 page: a summary of seven tests, and the log of each one.

The summary's images/sec is over all GPUs and its `gpu` is per node; each row is checked against its log. Model, batch,
update and data are not on the page: they are in the author's post of 2018-10-16 (`--model resnet50 --batch_size 64
--variable_update horovod`, synthetic data).
"""

from __future__ import annotations

import re
from itertools import accumulate
from statistics import median
from typing import Final

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.workload import VariableUpdate, Workload
from pytest_tfperf.errors import DocumentError
from pytest_tfperf.stores import tf_cnn_log
from pytest_tfperf.stores.tf_cnn_log import Log
from tools.documents.imported import Imported, Origin
from tools.documents.tables import blocks, figure, tables

NAME: Final = "azure-k80-tensorflow-benchmark.md"
_COLUMNS: Final = ("test", "node", "gpu", "images/sec", "images/sec/gpu", "note")
_WORKLOAD: Final = Workload(model="resnet50", batch_size=64, variable_update=VariableUpdate.HOROVOD)
_ORIGIN_NOTE: Final = (
    "not in the document: resnet50, batch 64, horovod, synthetic data (author's post), 4.37 TFLOPS (half a K80)"
)
_SLOW: Final = 0.97  # of the median window: what the row's note mentions
_HEADING = re.compile(r"test (?P<test>\d+):.*?(?P<nodes>\d+) nodes? (?:\((?P<vm>NC\d+)\) )?x (?P<gpus>\d+) gpus?")
_PAGE_VM = re.compile(r"^Test environment\s*:.*\b(NC\d+)\b", re.MULTILINE)


def read(page: str) -> Imported:
    """The summary's rows as baselines, each checked against its test's log.

    Raises:
        DocumentError: a table, test or log is missing or not in its format, or figures contradict each other.
    """
    summary = next((table for table in tables(page, NAME) if table.columns == _COLUMNS), None)
    page_vm = _PAGE_VM.search(page)
    if summary is None or page_vm is None:
        raise DocumentError(f"{NAME}: no table of {', '.join(_COLUMNS)}, or no 'Test environment' line")
    sections = {match["test"]: (match, block) for block in blocks(page) if (match := _HEADING.match(block.heading))}
    if sections.keys() != {row[0] for row in summary.rows}:
        raise DocumentError(f"{NAME}: the summary's tests are not those that have a section '### test N: ...'")
    rows = []
    for test, nodes, gpus, total, per_gpu, note in summary.rows:
        heading, block = sections[test]
        log = tf_cnn_log.parse(block.code, f"{NAME}, test {test}")
        images_per_sec = figure(total, NAME) or 0.0
        topology = (int(nodes), int(gpus))
        _check(test, images_per_sec, figure(per_gpu, NAME) or 0.0, topology, log)
        notes = [*_readings(heading, page_vm[1], topology), *_log_notes(block.intro, log), _ORIGIN_NOTE]
        rows.append(_baseline(test, note, heading["vm"] or page_vm[1], topology, images_per_sec, "; ".join(notes)))
    return Imported(tuple(rows))


def _baseline(
    test: str, summary_note: str, vm: str, topology: tuple[int, int], images_per_sec: float, note: str
) -> Baseline:
    """The page names no version of TensorFlow, only a container image's tag that moves."""
    image = re.search(r"\(([^()\s]+/[^()\s]+)\)", summary_note)
    environment = "benchmarks=cnn_tf_v1.10_compatible" + (f" image={image[1]}" if image else "")
    # Half a K80: one GK210 with 2,496 cores at 0.875 GHz, two operations a clock.
    origin = Origin(date="2018-10-16", environment=environment, gpu="Tesla K80", gpu_fp32_tflops=4.37)
    machine = f"azure-{vm.lower()}-{_pool(summary_note)}"
    shape = f"{topology[0]}x{topology[1]}"
    return origin.baseline(machine, _WORKLOAD, shape, images_per_sec, f"{NAME}, test {test}", note)


def _check(test: str, images_per_sec: float, per_gpu: float, topology: tuple[int, int], log: Log) -> None:
    nodes, gpus = topology
    if log.workers != nodes * gpus or abs(per_gpu - images_per_sec / (nodes * gpus)) > 0.006:
        raise DocumentError(
            f"{NAME}, test {test}: {images_per_sec:g} images/sec, {per_gpu:g} for each of {nodes} x {gpus} GPUs, and a "
            f"log of {log.workers} worker(s) contradict each other. `gpu` is per node"
        )
    if images_per_sec not in log.totals:
        raise DocumentError(f"{NAME}, test {test}: {images_per_sec:g} is not a total of its log ({log.totals})")


def _pool(note: str) -> str:
    """What the machines were: their own virtual machines, or Batch AI's of one of two priorities."""
    match = re.match(r"DSVM|BatchAI .*/(lowpriority|dedicated)\b", note)
    if match is None:
        raise DocumentError(f"{NAME}: {note!r} is neither DSVM nor BatchAI/lowpriority or /dedicated")
    return f"batchai-{match[1]}" if match[1] else "dsvm"


def _readings(heading: re.Match[str], page_vm: str, topology: tuple[int, int]) -> list[str]:
    """Where the page contradicts itself: the summary's topology counts, and the test's own virtual machine."""
    notes = []
    stated = (int(heading["nodes"]), int(heading["gpus"]))
    if stated != topology:
        nodes, gpus = topology
        notes.append(
            f"two readings: {nodes} node(s) x {gpus} GPU(s) in the summary (taken), "
            f"{stated[0]} x {stated[1]} in the test's heading"
        )
    if heading["vm"] and heading["vm"] != page_vm:
        notes.append(f"{heading['vm']} in the test's heading (taken), {page_vm} in the page's")
    return notes


def _log_notes(intro: str, log: Log) -> list[str]:
    notes = [f"the page adds: {intro}"] if intro else []
    if len(set(log.totals)) > 1:
        each = ", ".join(f"{total:g} x{log.totals.count(total)}" for total in sorted(set(log.totals)))
        notes.append(f"workers' totals differ: {each}")
    run = log.run(_WORKLOAD.batch_size * log.workers)
    speeds = [window.steps * run.images_per_step / window.seconds for window in run.windows]
    ends = accumulate(window.steps for window in run.windows)
    notes += [
        f"slow between steps {end - window.steps} and {end}: {speed:.1f}"
        for end, window, speed in zip(ends, run.windows, speeds, strict=True)
        if speed < _SLOW * median(speeds)
    ]
    return notes
