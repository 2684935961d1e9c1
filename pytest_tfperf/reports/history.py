"""The table of `tfperf history`: each workload's throughput."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.reports.names import shown_names
from pytest_tfperf.reports.numbers import change, rate
from pytest_tfperf.reports.table import Columns, table

if TYPE_CHECKING:
    import pandas

_COLUMNS = Columns(
    right={"measured", "median", "last", "change"},
    optional=("median", "when", "session", "machine", "measured"),
    ids=("workload",),
)


def by_workload(history: pandas.DataFrame, width: int | None = None) -> list[str]:
    """One line for each machine, workload and topology of `History.frame()`.

    `change` is the last measurement against the median of all measurements of its unit that are valid and not slowed
    on purpose. Name, unit, session and time are the last one's. `width` is the terminal's, None for no limit.
    """
    rows = []
    known = history.fillna({"outcome": "measured"})
    names = shown_names(zip(known["workload"], known["name"], strict=True))
    for (machine, workload, topology), measured in known.groupby(["machine", "workload", "topology"]):
        last = measured.iloc[-1]
        is_alike = measured["unit"] == last["unit"]
        is_valid = ~measured["outcome"].str.startswith(Outcome.INVALID) & ~measured["is_slowed_on_purpose"].astype(bool)
        valid = measured[is_alike & is_valid]
        median = (measured[is_alike] if valid.empty else valid)["examples_per_sec"].median()
        rows.append(
            {
                "outcome": last["outcome"],
                "machine": machine,
                "workload": names[str(workload), last["name"]],
                "topology": topology,
                "measured": str(len(measured)),
                "median": rate(median),
                "last": rate(last["examples_per_sec"]),
                "unit": f"{last['unit']}/s",
                "change": change(last["examples_per_sec"] / median - 1),
                "when": last["time"],
                "session": last["session"],
            }
        )
    return table(rows, _COLUMNS, width)
