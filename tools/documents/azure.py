"""Azure's K80 page: a summary of seven tests, and a section with the log of each one.

The summary's images/sec is over all GPUs and its `gpu` is per node. Model, batch, update and data are not on the page:
they are in the author's post of 2018-10-16 (`--model resnet50 --batch_size 64 --variable_update horovod`, synthetic
data). A row is named after the test, its virtual machine, nodes x GPUs, and who ran the machine.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.workload import VariableUpdate, Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.replay import tf_cnn_log
from tools.documents.tables import Figure, number, published, tables

NAME: Final = "azure-k80-tensorflow-benchmark.md"
_TABLE: Final = "Result Summary"
_COLUMNS: Final = ("test", "node", "gpu", "images/sec", "images/sec/gpu", "note")
_WORKLOAD: Final = Workload(model="resnet50", batch_size=64, variable_update=VariableUpdate.HOROVOD)
_VM_OF_THE_PAGE: Final = "NC12"
_NOTE: Final = (
    "not in the document: resnet50, batch 64, horovod, synthetic data (author's post), 4.37 TFLOPS (half a K80)"
)
_REMARKS: Final = {
    "test 1": "NC6 in the test's heading (taken), NC12 in the page's",
    "test 3": "NC6 in the test's heading (taken), NC12 in the page's",
    "test 5": "two readings: 2 node(s) x 1 GPU(s) in the summary (taken), 1 x 2 in the test's heading",
    "test 6": "the page adds: after several warm-up try",
}
_SECTION = re.compile(
    r"^### test (?P<test>\d+):.*?\d+ nodes? (?:\((?P<vm>NC\d+)\) )?x \d+ gpus?\n[^`]*```\n(?P<log>[^`]*)```",
    re.MULTILINE,
)
_IMAGE: Final = "tensorflow/tensorflow:latest-gpu-py3"


def read(page: str) -> list[Figure]:
    """The summary's figures, each of which is that of the test's log.

    Raises:
        TfperfError: the table, a test's section or its log is missing, not in its format, or of another figure.
    """
    summary = next((table for table in tables(page, NAME) if table.columns == _COLUMNS), None)
    sections = {match["test"]: match for match in _SECTION.finditer(page)}
    if summary is None or sections.keys() != {row[0] for row in summary.rows}:
        raise TfperfError(
            f"{NAME}: no table of {', '.join(_COLUMNS)}, or its tests are not those that have a section "
            "'### test N: ... node (NC6) x ... gpu' with a log"
        )
    return [
        Figure(
            NAME,
            _TABLE,
            f"test {test}, {sections[test]['vm'] or _VM_OF_THE_PAGE}, {nodes}x{gpus}, {_pool(remark)}",
            "images/sec",
            _of_log(number(total, NAME), sections[test]),
        )
        for test, nodes, gpus, total, _, remark in summary.rows
    ]


def baseline(figure: Figure) -> Baseline:
    """The row of a figure."""
    test, vm, topology, pool = figure.row.split(", ")
    return published(
        f"azure-{vm}-{pool}".lower(),
        _WORKLOAD,
        topology,
        figure,
        source=f"{NAME}, {test}",
        date="2018-10-16",
        gpu="Tesla K80",
        # Half a K80: one GK210 with 2,496 cores at 0.875 GHz, two operations a clock.
        gpu_fp32_tflops=4.37,
        # The page names no version of TensorFlow, only a container image's tag that moves.
        environment="benchmarks=cnn_tf_v1.10_compatible" + (f" image={_IMAGE}" if "BatchAI" in pool else ""),
        note="; ".join(filter(None, [_REMARKS.get(test), _NOTE])),
    )


def _of_log(total: float, section: re.Match[str]) -> float:
    printed = tf_cnn_log.parse(section["log"], f"{NAME}, test {section['test']}").examples_per_sec
    if abs(total - printed) > 0.011:  # the workers' own clocks differ by as much, and which one was taken is not said
        raise TfperfError(f"{NAME}: test {section['test']} has {total:g} in the summary, and {printed:g} in its log")
    return total


def _pool(remark: str) -> str:
    """Who ran the machines: the author, or Batch AI with one of two priorities."""
    match = re.match(rf"DSVM|BatchAI \({_IMAGE}\)/(lowpriority|dedicated)\b", remark)
    if match is None:
        raise TfperfError(f"{NAME}: {remark!r} is neither DSVM nor BatchAI ({_IMAGE})/lowpriority or /dedicated")
    return f"BatchAI-{match[1]}" if match[1] else "DSVM"
