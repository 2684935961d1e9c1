"""Apache Otava as a nightly gate: what it reports of a series after each new session. Runs under Otava's own Python.

Reads JSON lines `[values, first_session, loss]` and prints for each the list of `[session, index]` that it reported:
every change point the first time that it is reported, further than `APART` sessions from those before. It begins with
the first session, and ends when one from the session `loss` on is reported (null: with the last session).

    python -m venv otava && otava/bin/pip install apache-otava
    otava/bin/python benchmarks/otava_nightly.py 0.001 < series.jsonl
"""

from __future__ import annotations

import json
import sys

APART = 5
TOLERATED = 20  # a report that is dated so many sessions before the loss still counts


def nightly(values: list[float], first: int, loss: int | None, max_pvalue: float) -> list[list[int]]:
    from otava.analysis import compute_change_points

    reported: list[list[int]] = []
    for session in range(first, len(values) + 1):
        points, _ = compute_change_points(values[:session], max_pvalue=max_pvalue)
        for point in points:
            if all(abs(point.index - index) > APART for _, index in reported):
                reported.append([session - 1, int(point.index)])
                if loss is not None and session > loss and point.index >= loss - TOLERATED:
                    return reported
    return reported


def main() -> None:
    for line in sys.stdin:
        values, first, loss = json.loads(line)
        print(json.dumps(nightly(values, first, loss, float(sys.argv[1]))), flush=True)


if __name__ == "__main__":
    main()
