"""The comment on a pull request: a line, a table of what moved, how sure that is, and the command to reproduce it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.consequence import outcome_of
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.rerun_command import RerunCommand
from pytest_tfperf.core.session_verdicts import SessionRecord
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.ci.markdown import as_text, counted_outcomes
from pytest_tfperf.reports.measurement_table import ACT_FIRST
from pytest_tfperf.reports.numbers import change, counted

_MOVED: Final = (Outcome.REGRESSED, Outcome.IMPROVED, Outcome.INCONCLUSIVE)
_MOST_ROWS: Final = 15
_MOST_CHARACTERS: Final = 200  # of a test's id and of a remark

Result = Measurement | Comparison


def comment(record: SessionRecord, rerun: RerunCommand) -> str:
    """The comment's Markdown; a few lines where nothing moved."""
    moved = sorted(
        (one for one in record.results if one.is_decided and outcome_of(one) in _MOVED and _change(one) is not None),
        key=lambda one: (ACT_FIRST.index(outcome_of(one)), _change(one)),
    )
    blocks = [f"**{as_text(counted_outcomes(record.results, record.not_measured))}**"]
    if moved:
        rows = "\n".join(f"| {' | '.join(_row(one))} |" for one in moved[:_MOST_ROWS])
        blocks.append(f"| outcome | test | change | 95 % CI | by |\n| --- | --- | --- | --- | --- |\n{rows}")
    if len(moved) > _MOST_ROWS:
        blocks.append(f"and {len(moved) - _MOST_ROWS} more: the job's summary has all of them.")
    blocks += [as_text(_short(remark)) for remark in record.remarks]
    blocks += [f"could not be measured: {as_text(_short(test))}" for test in list(record.not_measured)[:_MOST_ROWS]]
    if moved:
        command = rerun.of(moved[0].test).replace("`", "'")
        blocks.append(f"Again: `{command}`")
    return "\n\n".join(blocks) + "\n"


def _row(one: Result) -> Iterator[str]:
    yield f"{outcome_of(one)}"
    yield as_text(_short(one.test))
    yield change(_change(one) or 0.0)
    if isinstance(one, Comparison):
        yield f"{change(one.low - 1)} to {change(one.high - 1)}"
        yield counted(len(one.pairs), "pair")
    else:
        yield ""
        yield counted(len(one.runs), "run")


def _change(one: Result) -> float | None:
    """As a fraction; None where there was nothing to compare with."""
    if isinstance(one, Comparison):
        return one.ratio - 1
    verdict = one.verdict
    return (
        None if verdict is None else (verdict.change if verdict.confirmed_change is None else verdict.confirmed_change)
    )


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 2]}.."


def paragraphs(text: str, most: int) -> Sequence[str]:
    """The first blocks of Markdown that fit into so many characters."""
    kept: list[str] = []
    for block in text.split("\n\n"):
        most -= len(block) + 2
        if most < 0:
            break
        kept.append(block)
    return kept
