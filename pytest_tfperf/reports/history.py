"""The table of `tfperf history`: each workload's throughput."""

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
