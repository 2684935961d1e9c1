"""What is said of tolerances that noise does not let a machine keep, and of rows that do not know their noise."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.judging.noise import Noise
from pytest_tfperf.judging.resolution import TooTight
from pytest_tfperf.reports.numbers import percent


def sentence(found: TooTight) -> str:
    """Row, tolerance, smallest loss that can be seen, and the next step."""
    return (
        f"{found.machine}.csv: {found.key.workload} {found.key.topology}: a tolerance of {percent(found.tolerance)} is "
        f"tighter than this row can resolve: runs differ by {percent(found.noise.spread)} ({found.noise.source}), so "
        f"drops fail from {percent(found.threshold)} on, and losses are seen from {percent(found.smallest_loss)} on, "
        "95 times in 100. Accept more, or record the row with more runs on a quieter machine"
    )


def before(found: Sequence[TooTight], unknown: Sequence[Baseline], noise: Noise | None, *, asked: bool) -> list[str]:
    """What to say before the first test: a line for each tolerance that somebody asked for, one for all others.

    Args:
        found: the rows that can't keep their tolerance.
        unknown: the rows without a spread.
        noise: what is assumed of the first of those.
        asked: the session's tolerance was given, and is not the default that nobody chose.
    """
    named = [one for one in found if one.own or asked]
    lines = [sentence(one) for one in named]
    if rest := [one for one in found if one not in named]:
        losses = sorted(one.smallest_loss for one in rest)
        seen = " to ".join(dict.fromkeys([percent(losses[0]), percent(losses[-1])]))
        rows = "1 baseline" if len(rest) == 1 else f"{len(rest)} baselines"
        default = f"the default tolerance of {percent(rest[0].tolerance)}"
        lines.append(f"noise widens {default} on {rows}: losses are seen from {seen} on")
    if unknown and noise is not None:
        rows = f"{unknown[0].key.workload} {unknown[0].key.topology}"
        rows += f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        lines.append(
            f"{unknown[0].machine}.csv: {rows}: no spread between runs is known; "
            f"{percent(noise.spread)} is reckoned with ({noise.source}). Measurement anew with --update-baselines"
        )
    return lines
