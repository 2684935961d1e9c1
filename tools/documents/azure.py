"""Azure's K80 page: a summary of seven tests, and a section for each one.

The summary's images/sec is over all GPUs and its `gpu` is per node; test_replay.py holds each figure against
the test's log. Model, batch, update and data are not on the page: they are in the author's post of 2018-10-16 (`--model
resnet50 --batch_size 64 --variable_update horovod`, synthetic data).
"""

from __future__ import annotations

import re
from typing import Final

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.workload import VariableUpdate, Workload
from pytest_tfperf.errors import DocumentError
from tools.documents.tables import figure, published, tables

NAME: Final = "azure-k80-tensorflow-benchmark.md"
_COLUMNS: Final = ("test", "node", "gpu", "images/sec", "images/sec/gpu", "note")
_WORKLOAD: Final = Workload(model="resnet50", batch_size=64, variable_update=VariableUpdate.HOROVOD)
_NOTE: Final = (
    "not in the document: resnet50, batch 64, horovod, synthetic data (author's post), 4.37 TFLOPS (half a K80)"
)
_SECTION = re.compile(
    r"^### test (?P<test>\d+):.*?(?P<nodes>\d+) nodes? (?:\((?P<vm>NC\d+)\) )?x (?P<gpus>\d+) gpus?\n"
    r"(?P<intro>[^`]*)```",
    re.MULTILINE,
)
_PAGE_VM = re.compile(r"^Test environment\s*:.*\b(NC\d+)\b", re.MULTILINE)


def read(page: str) -> list[Baseline]:
    """The summary's rows as baselines.

    Raises:
        DocumentError: the table or a test's section is missing or not in its format.
    """
    summary = next((table for table in tables(page, NAME) if table.columns == _COLUMNS), None)
    page_vm = _PAGE_VM.search(page)
    if summary is None or page_vm is None:
        raise DocumentError(f"{NAME}: no table of {', '.join(_COLUMNS)}, or no 'Test environment' line")
    sections = {match["test"]: match for match in _SECTION.finditer(page)}
    if sections.keys() != {row[0] for row in summary.rows}:
        raise DocumentError(f"{NAME}: the summary's tests are not those that have a section '### test N: ...'")
    rows = []
    for test, nodes, gpus, total, _, remark in summary.rows:
        vm = sections[test]["vm"] or page_vm[1]
        image = re.search(r"\(([^()\s]+/[^()\s]+)\)", remark)
        row = published(
            f"azure-{vm.lower()}-{_pool(remark)}",
            _WORKLOAD,
            f"{nodes}x{gpus}",
            figure(total, NAME),
            source=f"{NAME}, test {test}",
            date="2018-10-16",
            gpu="Tesla K80",
            # Half a K80: one GK210 with 2,496 cores at 0.875 GHz, two operations a clock.
            gpu_fp32_tflops=4.37,
            # The page names no version of TensorFlow, only a container image's tag that moves.
            environment="benchmarks=cnn_tf_v1.10_compatible" + (f" image={image[1]}" if image else ""),
            note="; ".join([*_readings(sections[test], page_vm[1], nodes, gpus), _NOTE]),
        )
        rows.append(row)
    return rows


def _pool(remark: str) -> str:
    """What the machines were: their own virtual machines, or Batch AI's of one of two priorities."""
    match = re.match(r"DSVM|BatchAI .*/(lowpriority|dedicated)\b", remark)
    if match is None:
        raise DocumentError(f"{NAME}: {remark!r} is neither DSVM nor BatchAI/lowpriority or /dedicated")
    return f"batchai-{match[1]}" if match[1] else "dsvm"


def _readings(section: re.Match[str], page_vm: str, nodes: str, gpus: str) -> list[str]:
    """What the section adds, and where it contradicts the summary or the page."""
    notes = []
    if (section["nodes"], section["gpus"]) != (nodes, gpus):
        notes.append(
            f"two readings: {nodes} node(s) x {gpus} GPU(s) in the summary (taken), "
            f"{section['nodes']} x {section['gpus']} in the test's heading"
        )
    if section["vm"] and section["vm"] != page_vm:
        notes.append(f"{section['vm']} in the test's heading (taken), {page_vm} in the page's")
    if intro := section["intro"].strip():
        notes.append(f"the page adds: {intro}")
    return notes
