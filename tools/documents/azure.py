"""Azure's K80 page: a summary of seven tests, and the log of each one.

The summary's images/sec is over all GPUs and its `gpu` is per node; the logs are held against it. Model, batch, update
and data are not on the page: they are in the author's post of 2018-10-16 (`--model resnet50 --batch_size 64
--variable_update horovod`, synthetic data).
"""

from __future__ import annotations

import re
from itertools import accumulate
from statistics import median
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core.workload import VariableUpdate, Workload
from pytest_tfperf.errors import DocumentError
from pytest_tfperf.stores import tf_cnn_log
from pytest_tfperf.stores.documents.imported import Imported, Origin, published, unambiguous
from pytest_tfperf.stores.documents.tables import Block, Row, blocks, count, figure, tables

if TYPE_CHECKING:
    from pytest_tfperf.core.baseline import Baseline
    from pytest_tfperf.stores.tf_cnn_log import Log

NAME: Final = "azure-k80-tensorflow-benchmark.md"
_COLUMNS: Final = ("test", "node", "gpu", "images/sec", "images/sec/gpu", "note")
_WORKLOAD: Final = Workload(model="resnet50", batch_size=64, variable_update=VariableUpdate.HOROVOD)
# Half a K80: one GK210 with 2,496 cores at 0.875 GHz, two operations a clock.
_GPU, _GPU_FP32_TFLOPS = "Tesla K80", 4.37
_ORIGIN_NOTE: Final = (
    "not in the document: resnet50, batch 64, horovod, synthetic data (author's post), 4.37 TFLOPS (half a K80)"
)
_SLOW: Final = 0.97  # of the median window: what the row's note mentions
_HEADING = re.compile(r"test (?P<test>\d+):.*?(?P<nodes>\d+) nodes? (?:\((?P<vm>NC\d+)\) )?x (?P<gpus>\d+) gpus?")
_PAGE_VM = re.compile(r"^Test environment\s*:.*\b(?P<vm>NC\d+)\b", re.MULTILINE)


def read(text: str, name: str = NAME) -> Imported:
    """The summary's rows as baselines, each held against its test's log.

    Raises:
        DocumentError: a table, test or log that is missing or not in its form, or figures that contradict each other.
    """
    sections = _sections(text)
    page_vm = _PAGE_VM.search(text)
    summary = next((table for table in tables(text, name) if table.header.cells == _COLUMNS), None)
    if summary is None or page_vm is None:
        raise DocumentError(
            f"{name}: no summary with the columns {' | '.join(_COLUMNS)}, or no 'Test environment' line"
        )
    unlisted = sections.keys() - {row.cells[0] for row in summary.rows}
    if unlisted:
        raise DocumentError(
            f"{name}: test {min(unlisted)} has a log and no row in the summary (line {summary.header.line})"
        )
    rows = []
    not_measured = []
    for row in summary.rows:
        test = row.cells[0]
        if test not in sections:
            raise DocumentError(
                f"{name}, line {row.line}: test {test[:20]} has no section '### test N: ...' with a log"
            )
        baseline = _baseline(row, sections[test], page_vm["vm"], name)
        if baseline is None:
            not_measured.append(_source(name, test))
        else:
            rows.append(baseline)
    return Imported(unambiguous(rows, name), tuple(not_measured))


def _sections(text: str) -> dict[str, Block]:
    headings = ((_HEADING.match(block.heading), block) for block in blocks(text))
    return {match["test"]: block for match, block in headings if match}


def _source(name: str, test: str) -> str:
    return f"{name}, test {test}"


def _baseline(row: Row, section: Block, page_vm: str, name: str) -> Baseline | None:
    test, nodes, gpus, total, per_gpu, note = row.cells
    images_per_sec = figure(total, name, row.line)
    if images_per_sec is None:
        return None
    count(test, name, row.line)
    topology = (count(nodes, name, row.line), count(gpus, name, row.line))
    _check_per_gpu(images_per_sec, per_gpu, topology, name, row.line)
    # Empty lines in front, so that a fault in the log is told with the page's own line.
    log = tf_cnn_log.parse("\n" * (section.line - 1) + section.text, name)
    _check_log(log, images_per_sec, topology, name, row.line)
    heading = _HEADING.match(section.heading)
    assert heading is not None  # it is how the section was found
    machine = f"azure-{(heading['vm'] or page_vm).lower()}-{_pool(note, name, row.line)}"
    origin = Origin(date="2018-10-16", environment=_environment(note), gpu=_GPU, gpu_fp32_tflops=_GPU_FP32_TFLOPS)
    return published(
        origin,
        machine,
        _WORKLOAD,
        f"{topology[0]}x{topology[1]}",
        images_per_sec,
        _source(name, test),
        "; ".join([*_readings(heading, page_vm, topology), *_page_notes(section), *_log_notes(log), _ORIGIN_NOTE]),
    )


def _check_per_gpu(images_per_sec: float, per_gpu: str, topology: tuple[int, int], name: str, line: int) -> None:
    stated = figure(per_gpu, name, line) or 0.0
    computed = images_per_sec / (topology[0] * topology[1])
    if abs(stated - computed) > 0.006:
        raise DocumentError(
            f"{name}, line {line}: {images_per_sec:g} images/sec over {topology[0]} x {topology[1]} GPUs is "
            f"{computed:.2f} for each, not {stated:g}. `gpu` is per node; mend the row"
        )


def _check_log(log: Log, images_per_sec: float, topology: tuple[int, int], name: str, line: int) -> None:
    if log.workers != topology[0] * topology[1]:
        raise DocumentError(
            f"{name}, line {line}: {topology[0]} x {topology[1]} GPUs, but its log is of {log.workers} worker(s)"
        )
    if images_per_sec not in {total.images_per_sec for total in log.totals}:
        raise DocumentError(
            f"{name}, line {line}: {images_per_sec:g} is none of the totals of its log, "
            f"{', '.join(f'{total.images_per_sec:g}' for total in log.totals)}"
        )


def _pool(note: str, name: str, line: int) -> str:
    """What the machines were: their own virtual machines, or Batch AI's of one of two priorities."""
    if note.startswith("DSVM"):
        return "dsvm"
    match = re.match(r"BatchAI .*/(lowpriority|dedicated)\b", note)
    if match is None:
        raise DocumentError(f"{name}, line {line}: {note[:60]!r} is neither DSVM nor BatchAI/lowpriority or /dedicated")
    return f"batchai-{match[1]}"


def _environment(note: str) -> str:
    """The page names no version of TensorFlow, only an image's tag that moves."""
    image = re.search(r"\(([^()\s]+/[^()\s]+)\)", note)
    return "benchmarks=cnn_tf_v1.10_compatible" + (f" image={image[1]}" if image else "")


def _readings(heading: re.Match[str], page_vm: str, topology: tuple[int, int]) -> list[str]:
    """Where the page contradicts itself: the summary's topology holds, and the test's own virtual machine."""
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


def _page_notes(section: Block) -> list[str]:
    return [f"the page adds: {section.intro}"] if section.intro else []


def _log_notes(log: Log) -> list[str]:
    notes = []
    totals = [f"{total.images_per_sec:g}" for total in log.totals]
    if len(set(totals)) > 1:
        each = ", ".join(f"{total} x{totals.count(total)}" for total in sorted(set(totals)))
        notes.append(f"workers' totals differ: {each}")
    attempt = log.attempt(_WORKLOAD.batch_size * log.workers)
    speeds = [window.steps * attempt.images_per_step / window.seconds for window in attempt.windows]
    notes += [
        f"slow between steps {before} and {before + window.steps}: {speed:.1f}"
        for before, window, speed in zip(
            accumulate((window.steps for window in attempt.windows), initial=0), attempt.windows, speeds, strict=False
        )
        if speed < _SLOW * median(speeds)
    ]
    return notes
