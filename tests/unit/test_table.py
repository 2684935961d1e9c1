from __future__ import annotations

import math
import re
from textwrap import dedent
from typing import Any

import pytest
from measurements import WORKLOAD, baseline, record, throughput

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.throughput import RunValue
from pytest_tfperf.core.verdict import Outcome, Tolerance, Verdict
from pytest_tfperf.reports.table import counts, outcome, table


def judged(kind: Outcome, change: float, floor: bool = False) -> Measurement:
    now = throughput(1000.0 * (1 + change))
    return record(now, verdict=Verdict(outcome=kind, baseline=baseline(), change=change, floor=floor))


UNKNOWN = record(throughput(7.25, uncertainty=0.01), verdict=Verdict(outcome=Outcome.NO_BASELINE), topology="1x1")
WIDE = record(
    throughput(1234567.0, uncertainty=1000.0),
    workload=WORKLOAD.with_(model="trivial", batch_size=4096),
    verdict=Verdict(outcome=Outcome.IMPROVED, baseline=baseline(12.5), change=98764.36),
)


def test_records_stand_under_their_heading() -> None:
    rows = [judged(Outcome.PASS, -0.004), WIDE, UNKNOWN, judged(Outcome.REGRESSED, -0.13)]
    assert "\n".join(table(rows)) == dedent("""\
        workload                         topology   images/s  +/-    baseline        change  outcome
        resnet50-b64-replicated-device   1x8           996.0  1.50      1,000        -0.4 %  PASS
        trivial-b4096-replicated-device  1x8       1,234,567  1,000     12.50  +9876436.0 %  IMPROVED
        resnet50-b64-replicated-device   1x1            7.25  0.01          -             -  NO_BASELINE
        resnet50-b64-replicated-device   1x8           870.0  1.50      1,000       -13.0 %  REGRESSED""")


def test_columns_that_say_nothing_are_left_out() -> None:
    assert table([UNKNOWN]) == [
        "workload                        topology  images/s  +/-   outcome",
        "resnet50-b64-replicated-device  1x1           7.25  0.01  NO_BASELINE",
    ]


def test_a_documents_figure_has_a_column_where_there_is_one() -> None:
    with_document = record(throughput(1402.0), document=baseline(1612.0))
    assert table([with_document, UNKNOWN]) == [
        "workload                        topology  images/s  +/-   outcome      document",
        "resnet50-b64-replicated-device  1x8          1,402  1.50  measured     1,612",
        "resnet50-b64-replicated-device  1x1           7.25  0.01  NO_BASELINE  -",
    ]


def test_an_uncertainty_of_few_windows_is_left_out() -> None:
    few = throughput(500.0, runs=(RunValue(math.log(500.0), 0.1, 2),))
    assert table([record(few), UNKNOWN])[1].split()[2:4] == ["500.0", "-"]


def test_an_uncertainty_beyond_the_figure_itself_is_left_out() -> None:
    wild = throughput(523.9, uncertainty=725.4)
    assert table([record(wild), UNKNOWN])[1].split()[2:4] == ["523.9", "-"]


def test_another_machines_document_says_whose_it_is() -> None:
    (_, line) = table([record(throughput(1402.0), document=baseline(1612.0, machine="dgx1-p100"))])
    assert line.endswith("  1,612 (dgx1-p100)")


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        (["night/a.log", "night/b.log", ""], ["a.log", "b.log", "-"]),
        (["monday/a.log", "tuesday/a.log"], ["monday/a.log", "tuesday/a.log"]),
    ],
    ids=["of one folder", "of two"],
)
def test_what_was_replayed_names_its_file(files: list[str], shown: list[str]) -> None:
    (heading, *lines) = table([record(file=file) for file in files])
    assert (heading.split()[-1], [line.split()[-1] for line in lines]) == ("file", shown)


def test_no_line_ends_in_blanks() -> None:
    assert all(line == line.rstrip() for line in table([judged(Outcome.PASS, 0.0), judged(Outcome.REGRESSED, 0.0)]))


@pytest.mark.parametrize("kind", Outcome)
def test_an_outcome_is_its_word(kind: Outcome) -> None:
    assert outcome(judged(kind, 0.0)) == kind.value


def test_a_floor_says_so() -> None:
    assert outcome(judged(Outcome.PASS, 0.0, floor=True)) == "PASS (floor)"


def test_what_was_not_judged_says_so() -> None:
    assert outcome(record(verdict=None)) == "measured"


def test_outcomes_are_counted_in_the_order_they_came() -> None:
    records = [judged(Outcome.REGRESSED, -0.13), judged(Outcome.PASS, 0.0), judged(Outcome.PASS, 0.0), UNKNOWN]
    assert counts(records) == "1 REGRESSED, 2 PASS, 1 NO_BASELINE"


def test_a_floor_is_counted_apart() -> None:
    assert counts([judged(Outcome.PASS, 0.0), judged(Outcome.PASS, 0.0, floor=True)]) == "1 PASS, 1 PASS (floor)"


# What would have failed, and what would have been caught


def row(**verdict: Any) -> dict[str, str]:
    """The only row of a table, by its columns' headings."""
    found = Verdict(outcome=Outcome.PASS, baseline=baseline(), change=0.0, **verdict)
    heading, line = table([record(verdict=found)])
    return dict(zip(re.split("  +", heading), re.split("  +", line), strict=True))


def test_a_tolerance_that_holds_is_what_is_accepted() -> None:
    assert row(tolerance=Tolerance(-0.02, 0.02), fails_at=0.02)["fails at"] == "2 %"


def test_a_tolerance_that_noise_has_widened_stands_in_brackets() -> None:
    assert row(tolerance=Tolerance(-0.02, 0.02), fails_at=0.061)["fails at"] == "6.1 % (2 %)"


@pytest.mark.parametrize("fails_at", [1 - math.exp(math.log1p(-0.02)), 0.0204])
def test_what_rounds_to_the_tolerance_widens_nothing(fails_at: float) -> None:
    assert row(tolerance=Tolerance(-0.02, 0.02), fails_at=fails_at)["fails at"] == "2 %"


def test_the_loss_that_would_have_been_caught_is_shown() -> None:
    assert row(tolerance=Tolerance(), fails_at=0.02, smallest_loss=0.042)["detects"] == "4.2 %"


def test_a_drop_without_bound_shows_neither() -> None:
    assert not {"fails at", "detects"} & row(tolerance=Tolerance(None, 0.02)).keys()
