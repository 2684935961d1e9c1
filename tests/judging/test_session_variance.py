"""What a session does to one test by itself, and the reference that good sessions make more exact."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.past import SessionChanges
from pytest_tfperf.core.verdict import Noise, Outcome
from pytest_tfperf.judging.session_effects import GRID, LearntBaseline, learnt_baseline, session_variance, teaching

NOISE = Noise(between_runs=0.005, degrees_of_freedom=200)
RUNS = 5


def sessions(*changes: float, outcome: Outcome = Outcome.PASS) -> list[SessionChanges]:
    return [SessionChanges(str(number), (change,), outcome) for number, change in enumerate(changes)]


def machine(sigma: float, rows: int = 30, of_each: int = 12) -> list[tuple[Noise, int, Sequence[SessionChanges]]]:
    """Rows whose sessions differ by sigma beyond what their runs explain."""
    draw = random.Random(1)
    made: list[tuple[Noise, int, Sequence[SessionChanges]]] = []
    for _ in range(rows):
        row = draw.gauss(0, 0.005 / RUNS**0.5) + draw.gauss(0, sigma)
        changes = [draw.gauss(0, 0.005) + draw.gauss(0, sigma) - row for _ in range(of_each)]
        made.append((NOISE, RUNS, sessions(*changes)))
    return made


def test_without_a_history_little_is_assumed() -> None:
    assert session_variance(tests=50).mean == pytest.approx(0.0024, abs=0.0005)


def test_few_tests_assume_that_sessions_differ_by_a_per_cent() -> None:
    """What happens to all of them can't be taken out."""
    assert session_variance(tests=7).mean == pytest.approx(0.01, abs=0.003)


@pytest.mark.parametrize("sigma", [0.004, 0.01])
def test_a_history_shows_what_sessions_differ_by(sigma: float) -> None:
    assert session_variance(machine(sigma), tests=50).mean == pytest.approx(sigma, rel=0.15)


def test_a_few_tests_that_truly_lost_something_do_not_pass_for_variance() -> None:
    quiet = machine(0.0)
    lost = [(NOISE, RUNS, sessions(*[-0.08] * 12)) for _ in range(2)]
    assert session_variance([*quiet, *lost], tests=50).mean < session_variance(tests=50).mean


CHANGED = {Outcome.REGRESSED: -1, Outcome.IMPROVED: 1}


@pytest.mark.parametrize("outcome", CHANGED)
@pytest.mark.parametrize("size", [0.08, 0.15, 0.4])
def test_a_change_that_lasts_does_not_hide_itself(outcome: Outcome, size: float) -> None:
    good = sessions(0.002, -0.004, 0.001)
    lasting = sessions(*[CHANGED[outcome] * size] * 10, outcome=outcome)
    before, after = (session_variance([(NOISE, RUNS, past)], tests=1) for past in (good, good + lasting))
    assert after.upper < 1.1 * before.upper


def test_a_large_loss_that_was_mended_does_not_hide_the_next_one() -> None:
    good = sessions(0.002, -0.004, 0.001)
    mended = [*good, *sessions(-0.4, outcome=Outcome.REGRESSED), *good]
    before, after = (session_variance([(NOISE, RUNS, past)], tests=1) for past in (good + good, mended))
    assert after.upper < 1.1 * before.upper


@given(
    st.lists(st.floats(-0.03, 0.03), max_size=8),
    st.floats(-0.5, 0.5),
    st.sampled_from([Outcome.REGRESSED, Outcome.INCONCLUSIVE, Outcome.IMPROVED]),
    st.integers(1, 30),
)
def test_what_a_test_was_reported_for_is_not_learnt(
    good: list[float], change: float, outcome: Outcome, tests: int
) -> None:
    before = sessions(*good)
    after = [*before, *sessions(change, outcome=outcome)]
    assert session_variance([(NOISE, RUNS, after)], tests=tests) == session_variance(
        [(NOISE, RUNS, before)], tests=tests
    )
    assert learnt_baseline(NOISE, RUNS, after + LAST, 0.003) == learnt_baseline(NOISE, RUNS, before + LAST, 0.003)


GOOD, LOST, LOST_LESS = sessions(0.002, -0.004, 0.001), sessions(-0.08, outcome=Outcome.REGRESSED), sessions(-0.05)


def test_a_reported_loss_that_passes_within_noise_later_is_not_learnt() -> None:
    assert teaching([*GOOD, *LOST, *LOST_LESS, *LOST_LESS]) == GOOD


def test_sessions_teach_again_once_one_measures_without_the_loss() -> None:
    assert teaching([*GOOD, *LOST, *LOST_LESS, *GOOD]) == [*GOOD, *GOOD]


@pytest.mark.parametrize(("code", "is_noise"), [("abc", True), ("def", False), ("", False)])
def test_a_loss_that_the_same_code_does_not_show_again_was_noise(code: str, is_noise: bool) -> None:
    lost = [replace(session, code="abc") for session in LOST]
    again = [replace(session, code=code) for session in GOOD]
    assert teaching([*GOOD, *lost, *again]) == ([*GOOD, *lost, *again] if is_noise else [*GOOD, *again])


def test_code_that_is_in_no_commit_is_never_the_same() -> None:
    assert teaching([*LOST, *GOOD]) == GOOD


def test_the_first_session_that_differs_is_no_variance_yet() -> None:
    rows = [(NOISE, RUNS, sessions(-0.05))] * 5
    assert session_variance(rows, tests=5) == session_variance(tests=5)


def test_what_a_session_does_to_all_of_few_tests_counts_once() -> None:
    """Five tests that lose something together are one fact, and not five."""
    slow = sessions(0.001, -0.02)
    one, five = (session_variance([(NOISE, RUNS, slow)] * rows, tests=rows) for rows in (1, 5))
    assert five.weights == pytest.approx(one.weights)


@given(st.lists(st.lists(st.floats(-0.3, 0.3), max_size=6), max_size=6), st.integers(1, 60))
def test_the_posterior_is_a_distribution(changes: list[list[float]], tests: int) -> None:
    found = session_variance([(NOISE, RUNS, sessions(*row)) for row in changes], tests=tests)
    assert sum(found.weights) == pytest.approx(1)
    assert 0 <= found.mean <= GRID[-1]
    assert 0 <= found.upper <= found.upper_of_shared <= GRID[-1]


def test_a_threshold_allows_for_more_than_is_expected_and_less_the_more_is_known() -> None:
    unknown, quiet = session_variance(tests=50), session_variance(machine(0.0), tests=50)
    assert unknown.mean < unknown.upper
    assert quiet.upper < unknown.upper


LAST = sessions(-0.5, -0.5, -0.5)
"""The last three sessions don't count: they may hold a loss that is not confirmed yet."""


def test_without_good_sessions_the_committed_reference_holds() -> None:
    committed = learnt_baseline(NOISE, RUNS, [], 0.003)
    assert (committed.offset, committed.runs_variance, committed.sessions_variance) == (0, pytest.approx(1.07 / 5), 1)
    assert learnt_baseline(NOISE, RUNS, LAST, 0.003) == committed
    assert learnt_baseline(NOISE, RUNS, [*sessions(-0.05, outcome=Outcome.REGRESSED), *LAST], 0.003) == committed


@pytest.mark.parametrize("change", [-0.05, 0.05])
def test_sessions_correct_the_reference_by_no_more_than_its_own_error(change: float) -> None:
    """More is a change of the test; what was gained and is lost again must not look like a loss."""
    found = learnt_baseline(NOISE, RUNS, [*sessions(*[change] * 10), *LAST], 0.003)
    assert abs(found.offset) == pytest.approx(1.5 * (0.005**2 * 1.07 / RUNS + 0.003**2) ** 0.5)


def test_a_documents_figure_stays_as_it_is() -> None:
    assert learnt_baseline(NOISE, 1, [*sessions(0.01, 0.01), *LAST], 0.003) == LearntBaseline(0, 1, 1)


def test_good_sessions_make_the_reference_more_exact() -> None:
    found = learnt_baseline(NOISE, RUNS, [*sessions(*[-0.01] * 10), *LAST], 0.003)
    assert -0.01 < found.offset < -0.005
    assert found.runs_variance < 1.07 / 5
    assert found.sessions_variance < 0.2


def test_the_reference_is_frozen_after_ten_good_sessions() -> None:
    ten = sessions(*[0.01] * 10)
    later = learnt_baseline(NOISE, RUNS, [*ten, *sessions(-0.04, -0.04), *LAST], 0.003)
    assert later == learnt_baseline(NOISE, RUNS, [*ten, *LAST], 0.003)


@given(st.lists(st.floats(-0.2, 0.2), min_size=1, max_size=20), st.floats(0, 0.02))
def test_the_reference_stays_between_the_baseline_and_the_sessions(changes: list[float], sigma: float) -> None:
    found = learnt_baseline(NOISE, RUNS, [*sessions(*changes), *LAST], sigma)
    assert min(*changes, 0.0) - 1e-12 <= found.offset <= max(*changes, 0.0) + 1e-12


def test_after_a_gain_and_a_loss_a_session_teaches_again_only_without_both() -> None:
    changed = [*sessions(0.08, outcome=Outcome.IMPROVED), *LOST]
    assert teaching([*GOOD, *changed, *sessions(0.06)]) == GOOD
    assert teaching([*GOOD, *changed, *GOOD]) == [*GOOD, *GOOD]
