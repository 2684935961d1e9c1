"""What a session's verdicts say in the first sentence of a report, where they come before the counts of tests."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_tfperf.core.session_verdicts import SessionVerdict, VerdictOn
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.reports.measurement_table import ACT_FIRST
from pytest_tfperf.reports.numbers import compared

_SUBJECTS = {
    VerdictOn.SOFTWARE: ("software", "the reference environment"),
    VerdictOn.MACHINE: ("machine", "its baselines"),
    VerdictOn.TOGETHER: ("machine and software", "the baselines"),
    VerdictOn.DRIFT: ("drift over sessions", ""),
}


def session_clauses(verdicts: Sequence[SessionVerdict]) -> list[str]:
    """ "machine REGRESSED (68.3 % slower than its baselines)": those that need action first; a PASS needs no words.

    A machine is named only if there are several.
    """
    are_several = len({one.machine for one in verdicts}) > 1
    notable = [one for one in verdicts if one.outcome is not Outcome.PASS]
    return [_clause(one, are_several) for one in sorted(notable, key=lambda one: ACT_FIRST.index(one.outcome))]


def in_one_sentence(clauses: Sequence[str]) -> list[str]:
    """The clauses of one sentence, which begins with a capital letter."""
    first, *rest = clauses
    return [first[:1].upper() + first[1:], *(one[:1].lower() + one[1:] for one in rest)]


def _clause(verdict: SessionVerdict, names_machine: bool) -> str:
    subject, reference = _SUBJECTS[verdict.kind]
    where = f" on {verdict.machine}" if names_machine else ""
    figure = "" if verdict.change is None else f" ({compared(verdict.change)} {reference})"
    return f"{subject}{where} {verdict.outcome}{figure}"
