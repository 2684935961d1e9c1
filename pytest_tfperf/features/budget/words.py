"""What `--tfperf-budget` left out, and why."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_tfperf.reports.numbers import counted, duration


def before(left_out: Mapping[str, float], budget: float) -> str:
    """How many tests there is no time for; `left_out` has the seconds that each would take."""
    return f"{_how_many(left_out, budget)}; the end of the session names them"


def after(left_out: Mapping[str, float], budget: float) -> str:
    """The same with the tests' names, in one line. A test that is longer than the whole budget is marked."""
    names = (
        f"{test} (alone about {duration(seconds)}, longer than the budget)" if seconds > budget else test
        for test, seconds in left_out.items()
    )
    return f"{_how_many(left_out, budget)}: {', '.join(names)}"


def _how_many(left_out: Mapping[str, float], budget: float) -> str:
    tests = counted(len(left_out), "test")
    return f"--tfperf-budget of {duration(budget)} leaves out {tests} of about {duration(sum(left_out.values()))}"
