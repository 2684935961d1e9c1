"""Draws power.svg: how often a loss is found in the first session, by either rule.

Simulated through the production judgement, as benchmarks/verdict.py does: 5 of 50 tests lose the same share. The same
seed draws the same picture.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot

from benchmarks.verdict import RULES, Simulation, Situation

SESSIONS, SEED, PROCESSES = 60, 7, 2
LOSSES = [loss / 1000 for loss in (0, 5, 10, 15, 20, 25, 30, 35, 40, 50, 60, 70, 80)]
NOISE = {0.01: "-", 0.02: "--"}
COLOURS = {1: "#2f6db3", 2: "#d97b29"}
NAMES = {1: "with a reference environment", 2: "without"}


def draw(path: Path, sessions: int = SESSIONS) -> None:
    """Simulate so many sessions for each point, and draw."""
    simulation = Simulation(sessions, SEED, PROCESSES)
    pyplot.rcParams.update({"svg.hashsalt": "pytest-tfperf", "svg.fonttype": "none", "font.size": 9})
    figure, axes = pyplot.subplots(figsize=(7, 3.6))
    for between_runs, style in NOISE.items():
        for number, rule in enumerate(RULES, 1):
            detected = []
            for loss in LOSSES:
                counts = simulation.cell(Situation(name="", between_runs=between_runs, losing=5, loss=loss), rule)
                detected.append(100 * counts["caught"] / counts["losing"])
            label = f"{NAMES[number]}, runs differ by {100 * between_runs:.0f} %"
            axes.plot([100 * loss for loss in LOSSES], detected, style, color=COLOURS[number], label=label)
    axes.axvline(2, color="#9aa3ad", linewidth=0.8)
    axes.annotate("tolerance 2 %", (2, 103), ha="center", fontsize=8, annotation_clip=False)
    axes.set(xlabel="loss of a test, %", ylabel="found in the first session, %", ylim=(0, 100), xlim=(0, 8))
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)  # below: lines cross inside
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
