"""The table of `tfperf history`: each workload's throughput."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.reports.names import with_id
from pytest_tfperf.reports.numbers import change, rate
from pytest_tfperf.reports.table import Columns, table

if TYPE_CHECKING:
    import pandas

_COLUMNS = Columns(
    right={"measured", "median", "last", "change"},
    optional=("median", "when", "session", "machine", "measured"),
    ids=("workload",),
)


def by_workload(
    history: pandas.DataFrame, names: Mapping[str, str], units: Mapping[str, str], width: int | None = None
) -> list[str]:
    """One line for each machine, workload and topology of `History.frame()`.

    `change` is the last measurement against the median of all valid ones; `session` and `when` are those of the last
    one. `names` and `units` are by the workload's id. `width` is the terminal's, None for no limit.
    """
    rows = []
    known = history.fillna({"outcome": "measured"})
    for (machine, workload, topology), measured in known.groupby(["machine", "workload", "topology"]):
        valid = measured[~measured["outcome"].str.startswith(Outcome.INVALID)]
        last, median = measured.iloc[-1], (measured if valid.empty else valid)["examples_per_sec"].median()
        rows.append(
            {
                "outcome": last["outcome"],
                "machine": machine,
                "workload": with_id(str(workload), names.get(str(workload), "")),
                "topology": topology,
                "measured": str(len(measured)),
                "median": rate(median),
                "last": rate(last["examples_per_sec"]),
                "unit": f"{units.get(str(workload), 'images')}/s",
                "change": change(last["examples_per_sec"] / median - 1),
                "when": last["time"],
                "session": last["session"],
            }
        )
    return table(rows, _COLUMNS, width)
