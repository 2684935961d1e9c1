"""The tables of `tfperf history`: each workload's throughput, and each comparison's ratio."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas


def by_workload(history: pandas.DataFrame) -> str:
    """One line for each machine, workload and topology of `History.frame()`.

    `change` is the last measurement against the median of all; `session` and `when` are the last measurement's.
    """
    groups = history.groupby(["machine", "workload", "topology"], sort=True)
    rows = groups.agg(
        measured=("images_per_sec", "size"),
        median=("images_per_sec", "median"),
        last=("images_per_sec", "last"),
        outcome=("outcome", "last"),
        when=("time", "last"),
        session=("session", "last"),
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
    """One line for each pair of sides of `History.comparisons()`: how often it was compared, and the last result.

    Where both sides train the same workload, each name ends in its TensorFlow version.
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
