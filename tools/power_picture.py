"""Draws docs/pictures/power.svg: how often a loss is found in the first session, by either rule.

    pip install -c constraints.txt . --group benchmarks
    python -m tools.power_picture [--sessions 60] [--seed 7] [--processes 2]

Simulated through the production judgement, as benchmarks/verdict.py does: 5 of 50 tests lose the same share. The same
seed draws the same picture.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot

from benchmarks.verdict import RULES, Simulation, Situation

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "power.svg"
LOSSES = [loss / 1000 for loss in (0, 5, 10, 15, 20, 25, 30, 35, 40, 50, 60, 70, 80)]
NOISE = {0.01: "-", 0.02: "--"}
COLOURS = {1: "#2f6db3", 2: "#d97b29"}
NAMES = {1: "with a reference environment", 2: "without"}


def main() -> None:
    """Simulate and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=60, help="simulated sessions of each point")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    simulation = Simulation(options.sessions, options.seed, options.processes)
    pyplot.rcParams.update({"svg.hashsalt": "pytest-tfperf", "font.size": 9})
    figure, axes = pyplot.subplots(figsize=(7, 3.6))
    for between_runs, style in NOISE.items():
        for number, rule in enumerate(RULES, 1):
            detected = []
            for loss in LOSSES:
                counts = simulation.cell(Situation(name="", between_runs=between_runs, losing=5, loss=loss), rule)
                detected.append(100 * counts["caught"] / counts["losing"])
            label = f"{NAMES[number]}, runs differ by {between_runs:.0%}"
            axes.plot([100 * loss for loss in LOSSES], detected, style, color=COLOURS[number], label=label)
    axes.axvline(2, color="#9aa3ad", linewidth=0.8)
    axes.annotate("tolerance 2 %", (2, 103), ha="center", fontsize=8, annotation_clip=False)
    axes.set(xlabel="loss of a test, %", ylabel="found in the first session, %", ylim=(0, 100), xlim=(0, 8))
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)  # below: lines cross inside
    figure.savefig(PICTURE, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
