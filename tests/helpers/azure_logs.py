"""Logs of the seven tests of Azure's page: tf_cnn_benchmarks' format around the published totals.

The page's own logs are its author's text. Here each worker's rates, jitter and losses are made up.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.documents import azure, figures

PUBLISHED = [figure for figure in figures() if figure.document == azure.NAME]
RULE = "-" * 64


def log_of(total: float, workers: int) -> str:
    """The log of 100 steps on as many workers, each of which prints its own lines and the total by its own clock."""

    def step(number: int, worker: int) -> str:
        rate = total / workers * (1.01 - number / 10_000)
        return f"{number}\timages/sec: {rate:.1f} +/- 0.1 (jitter = 0.2)\t{7.9 - number / 2000 + worker / 100:.3f}"

    lines = [step(number, worker) for number in (1, *range(10, 100, 10)) for worker in range(workers)]
    for worker in range(workers):
        clock = total - 0.01 if worker == 0 and workers > 2 else total
        lines += [step(100, worker), RULE, f"total images/sec: {clock:.2f}", RULE]
    return "".join(f"{line}\n" for line in lines)


def azure_log(test: int) -> str:
    """The log of the page's test of this number."""
    nodes, gpus = PUBLISHED[test - 1].row.split(", ")[2].split("x")
    return log_of(PUBLISHED[test - 1].images_per_sec, int(nodes) * int(gpus))


@pytest.fixture(scope="session")
def azure_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with azure-test1.log to azure-test7.log."""
    folder = tmp_path_factory.mktemp("logs")
    for test in range(1, 8):
        (folder / f"azure-test{test}.log").write_text(azure_log(test))
    return folder
