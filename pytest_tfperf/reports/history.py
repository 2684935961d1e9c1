"""The local history in a few lines: what each workload gave, when it was last measured, and how it has moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas


def by_workload(history: pandas.DataFrame) -> str:
    """One line for each workload, topology and machine of `History.frame()`, the last value against the median."""
    groups = history.groupby(["machine", "workload", "topology"], sort=True)
    rows = groups.agg(
        measured=("images_per_sec", "size"),
        median=("images_per_sec", "median"),
        last=("images_per_sec", "last"),
        outcome=("outcome", "last"),
        when=("time", "last"),
    )
    rows.insert(3, "change", rows["last"] / rows["median"] - 1)
    return str(
        rows.reset_index().to_string(
            index=False,
            na_rep="-",
            formatters={"median": "{:,.1f}".format, "last": "{:,.1f}".format, "change": "{:+.1%}".format},
        )
    )


def by_sides(comparisons: pandas.DataFrame) -> str:
    """One line for each pair of sides of `History.comparisons()`: how often, and what came of it last.

    Sides that train the same are told apart by their TensorFlow.
    """
    frame = comparisons.assign(
        **{side: comparisons[f"workload_{side}"] + _software(comparisons, side) for side in ("a", "b")}
    )
    groups = frame.groupby(["machine", "topology", "a", "b"], sort=True)
    rows = groups.agg(
        compared=("ratio", "size"),
        ratio=("ratio", "last"),
        low=("low", "last"),
        high=("high", "last"),
        outcome=("outcome", "last"),
        when=("time", "last"),
    )
    shown = dict.fromkeys(("ratio", "low", "high"), "{:.3f}".format)
    return str(rows.reset_index().to_string(index=False, na_rep="-", formatters=shown))


def _software(comparisons: pandas.DataFrame, side: str) -> pandas.Series:
    same = comparisons["workload_a"] == comparisons["workload_b"]
    version = comparisons[f"tensorflow_{side}"]
    return (" (tensorflow " + version.fillna("?").astype(str) + ")").where(same, "")
