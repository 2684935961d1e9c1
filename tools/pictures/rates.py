"""Draws rates.png from the simulated weeks, as docs/history.md does from a history."""

from __future__ import annotations

import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("agg")

from pytest_tfperf import load_history
from tools.simulated_weeks import GPU_MACHINE, write


def draw(path: Path) -> None:
    """Simulate and draw."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        history = load_history(folder, machine=GPU_MACHINE)
    history["test"] = history["test"].str.partition("::")[2]
    rates = history[history["test"].str.contains("resnet50")].pivot_table(
        index="time", columns="test", values="examples_per_sec"
    )
    axes = (rates / rates.median()).plot(style=".", ylabel="images/s, of the median", xlabel="", figsize=(8, 3.5))
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.savefig(path, dpi=100, bbox_inches="tight", metadata={"Software": None})
