"""What a test is warned of where a figure is in doubt."""

from __future__ import annotations

from pathlib import Path

from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict
from pytest_tfperf.lines import Line, plain
from pytest_tfperf.session.outcomes import Outcomes
from tests.helpers.measurements import TEST, baseline, measurement, verdict
from tests.helpers.states import state_after


def test_a_doubtful_figure_is_named_beside_a_throughput_that_can_only_warn(tmp_path: Path) -> None:
    slow = verdict(Outcome.REGRESSED, -0.2, threshold=0.05, baseline=baseline(provenance=Provenance.PROVISIONAL))
    loss = Verdict(figure=Figure("loss"), value=2.6, outcome=Outcome.INCONCLUSIVE, reason=Reason.RUNS_DISAGREE)
    found = measurement(verdict=slow, figures=(loss,))
    state, warned = state_after(tmp_path, found), list[list[Line]]()
    Outcomes(state=state, test=TEST, calls=1).conclude(warned.append)
    assert ["INCONCLUSIVE: loss 2.6" in plain(lines) for lines in warned] == [True]
