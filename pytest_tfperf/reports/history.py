"""The table of `tfperf history`: each workload's throughput."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_tfperf.reports.numbers import change, rate
from pytest_tfperf.reports.table import table

if TYPE_CHECKING:
    import pandas


def by_workload(history: pandas.DataFrame) -> list[str]:
    """One line for each machine, workload and topology of `History.frame()`.

    `change` is the last measurement against the median of all; `session` and `when` are the last measurement's.
    """
    rows = []
    known = history.fillna({"outcome": "measured"})
    for (machine, workload, topology), measured in known.groupby(["machine", "workload", "topology"]):
        last, median = measured.iloc[-1], measured["examples_per_sec"].median()
        rows.append(
            {
                "machine": machine,
                "workload": workload,
                "topology": topology,
                "measured": str(len(measured)),
                "median": rate(median),
                "last": rate(last["examples_per_sec"]),
                "change": change(last["examples_per_sec"] / median - 1),
                "outcome": last["outcome"],
                "when": last["time"],
                "session": last["session"],
            }
        )
    return table(rows, {"measured", "median", "last", "change"})
