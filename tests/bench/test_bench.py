"""First runs, confirmation, plain measurements and baselines' runs, with workers that play a script."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_tfperf.bench.disturbance_guard import TRIES
from pytest_tfperf.bench.task import Task
from pytest_tfperf.core.acknowledgement import Standing
from pytest_tfperf.core.baseline import Key, Provenance
from pytest_tfperf.core.command import Command
from pytest_tfperf.core.disturbance import Disturbance
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import InvalidMeasurement, Measurement
from pytest_tfperf.core.profile import Input, StepProfile
from pytest_tfperf.core.verdict import Outcome, Reason, Rule, Verdict
from pytest_tfperf.errors import BaselineError, MeasurementError
from pytest_tfperf.judging.session_effects import MIN_TESTS
from pytest_tfperf.judging.target import target_for
from pytest_tfperf.reports.invalid import worded
from tests.helpers.machines import load
from tests.helpers.measurements import acknowledged, baseline
from tests.helpers.played import BOX, BUSY, TRIVIAL, PlayedLauncher, steady
from tests.helpers.played_session import ROW, PlayedPrograms, PlayedSession


def outcome_of(found: Measurement) -> tuple[Outcome, Reason]:
    assert found.verdict is not None
    return found.verdict.outcome, found.verdict.reason


# A check


def test_a_good_first_run_decides() -> None:
    launcher = steady(100.0)
    session = PlayedSession()
    found = session.bench.check(session.task(launcher))
    assert (outcome_of(found), found.is_decided, launcher.started) == (
        (Outcome.PASS, Reason.WITHIN_TOLERANCE),
        True,
        1,
    )


def test_without_a_reference_environment_eight_fresh_runs_confirm() -> None:
    launcher = steady(80.0)
    session = PlayedSession()
    found = session.decided(session.task(launcher))
    assert (outcome_of(found), len(found.runs), launcher.started) == ((Outcome.REGRESSED, Reason.CONFIRMED), 8, 8)


def test_one_slow_run_is_cleared_by_fresh_ones() -> None:
    session = PlayedSession()
    found = session.decided(session.task(steady(80.0, 100.0)))
    assert outcome_of(found)[0] is Outcome.PASS


@pytest.mark.parametrize(("figures", "cold"), [((), False), (("loss",), False), (("loss", "first_step"), True)])
def test_a_worker_whose_first_step_is_judged_compiles_without_caches(figures: tuple[str, ...], cold: bool) -> None:
    launcher, session = steady(100.0), PlayedSession()
    task = session.task(launcher)
    session.bench.check(replace(task, plan=replace(task.plan, also=tuple(map(Figure, figures)))))
    assert [job.cold_caches for job in launcher.jobs] == [cold]


def test_without_a_baseline_one_run_is_measured() -> None:
    session = PlayedSession(row=None)
    found = session.decided(session.task(steady(80.0)))
    assert (outcome_of(found)[0], len(found.runs)) == (Outcome.NO_BASELINE, 1)


def provisional(session: PlayedSession, launcher: PlayedLauncher) -> Task:
    row = replace(ROW, provenance=Provenance.PROVISIONAL)
    target = target_for({}, (), "box", ROW.key, gpu_fp32_tflops=None, provisional={ROW.key: row})
    return replace(session.task(launcher), target=target)


def test_against_earlier_sessions_three_runs_confirm() -> None:
    session, launcher = PlayedSession(row=None), steady(80.0)
    found = session.decided(provisional(session, launcher))
    assert (outcome_of(found), launcher.started) == ((Outcome.REGRESSED, Reason.CONFIRMED), 3)


def test_against_earlier_sessions_a_busy_machine_leaves_a_doubt_and_no_error() -> None:
    session, launcher = PlayedSession(None, BUSY, row=None), steady(80.0)
    found = session.decided(provisional(session, launcher))
    assert outcome_of(found) == (Outcome.INCONCLUSIVE, Reason.NOT_CONFIRMED)
    assert (launcher.started, [run.disturbance for run in found.discarded]) == (2, [BUSY])


def test_tests_against_earlier_sessions_have_no_part_in_what_the_others_share() -> None:
    session = PlayedSession(row=None)
    session.decided(provisional(session, steady(80.0)))
    assert (session.machine.drift.tests, session.machine.suspects) == (0, frozenset())


def test_a_regression_that_fetches_its_batches_is_followed_by_a_run_on_device_data() -> None:
    launcher = steady(80.0, profile=StepProfile(input=Input.FETCHED, pipeline_examples_per_sec=90.0))
    row = replace(ROW, key=Key(TRIVIAL.with_(input_pipeline="host").id, BOX.shape))
    session = PlayedSession(row=row)
    found = session.decided(session.task(launcher, input_pipeline="host"))
    assert found.breakdown is not None
    assert found.breakdown.device_data_examples_per_sec == pytest.approx(80.0)
    assert (session.notes.labels[-1], launcher.jobs[-1].workload.input_pipeline) == ("on device data", "device")


# A known loss of 20 %


def known(task: Task) -> Task:
    return replace(task, acknowledged={"throughput": acknowledged(-0.2, -0.21)})


def standing_of(found: Measurement) -> Standing | None:
    assert found.verdict is not None
    return found.verdict.standing(found.day)


def test_a_known_loss_is_called_recovered_by_all_runs() -> None:
    session = PlayedSession()
    found = session.decided(known(session.task(steady(100.0))))
    assert (outcome_of(found)[0], standing_of(found), len(found.runs)) == (Outcome.PASS, Standing.RECOVERED, 8)


def test_a_first_run_alone_calls_no_known_loss_recovered() -> None:
    session = PlayedSession()
    found = session.decided(known(session.task(steady(100.0, 80.0))))
    assert (outcome_of(found)[0], standing_of(found), len(found.runs)) == (Outcome.REGRESSED, Standing.HOLDS, 8)


def test_a_busy_machine_leaves_a_pass_that_more_runs_were_to_call_a_recovery() -> None:
    session, launcher = PlayedSession(None, *[BUSY] * TRIES), steady(100.0)
    found = session.decided(known(session.task(launcher)))
    assert (outcome_of(found)[0], len(found.runs), session.machine.suspects) == (Outcome.PASS, 1, frozenset())


@pytest.mark.parametrize(("now", "standing", "pairs"), [(80.0, Standing.HOLDS, 6), (60.0, Standing.WORSE, 20)])
def test_a_known_loss_is_called_worse_by_all_pairs(now: float, standing: Standing, pairs: int) -> None:
    session = PlayedSession()
    found = session.decided(known(session.task(steady(now), steady(100.0))))
    assert (outcome_of(found)[0], standing_of(found), len(found.pairs)) == (Outcome.REGRESSED, standing, pairs)


def test_a_row_of_gpus_is_refused_before_cpus_are_measured() -> None:
    launcher = steady(100.0)
    session = PlayedSession(row=replace(ROW, gpu="Tesla P100"))
    with pytest.raises(BaselineError, match="was measured on Tesla P100"):
        session.bench.check(session.task(launcher))
    assert launcher.started == 0


def test_a_test_that_measures_another_unit_than_its_row_is_no_part_of_the_common_drift() -> None:
    session = PlayedSession(row=replace(ROW, unit="tokens"))
    with pytest.raises(BaselineError, match="is in tokens/s, and this test measures images/s"):
        session.bench.check(session.task(steady(100.0)))
    assert session.machine.drift.tests == 0


# Figures

LOSS_ROW = baseline(0.5, key=Key(TRIVIAL.id, BOX.shape, "loss"), unit="", between_runs=0.001)
"""The workers that play a script have a loss of 1."""


def with_loss(task: Task) -> Task:
    return replace(task, plan=replace(task.plan, also=(Figure("loss"),)))


def test_a_figure_with_a_row_is_confirmed_whatever_its_throughput_is_judged_against() -> None:
    session = PlayedSession(None, BUSY, BUSY, row=None, figure_rows=[LOSS_ROW])
    found = session.decided(with_loss(provisional(session, steady(100.0))))
    (loss,) = found.figures
    assert (loss.outcome, loss.reason, len(found.runs)) == (Outcome.REGRESSED, Reason.CONFIRMED, 8)
    assert [run.disturbance for run in found.discarded] == [BUSY, BUSY]


def test_a_suspected_figure_that_can_not_be_confirmed_is_an_error_and_no_doubt() -> None:
    session = PlayedSession(None, *[BUSY] * TRIES, row=None, figure_rows=[LOSS_ROW])
    with pytest.raises(InvalidMeasurement):
        session.decided(with_loss(provisional(session, steady(100.0))))


def test_a_suspected_figure_shares_the_false_alarms_of_confirmation() -> None:
    session = PlayedSession(row=None, figure_rows=[LOSS_ROW])
    task = with_loss(provisional(session, steady(100.0)))
    session.decided(task)
    assert session.machine.suspects == {task.call}


def test_a_figures_row_of_gpus_is_refused_where_its_throughput_has_none() -> None:
    session, launcher = PlayedSession(row=None, figure_rows=[replace(LOSS_ROW, gpu="Tesla P100")]), steady(100.0)
    with pytest.raises(BaselineError, match="was measured on Tesla P100"):
        session.bench.check(with_loss(session.task(launcher)))
    assert launcher.started == 0


@pytest.mark.parametrize(("also", "steps"), [((), 300), (("peak_memory",), 3990)], ids=["rate", "memory"])
def test_a_run_whose_memory_counts_is_as_long_as_those_that_were_recorded(also: tuple[str, ...], steps: int) -> None:
    session = PlayedSession()
    task = session.task(steady(100.0))
    plan = replace(task.plan, steps=4000, also=tuple(map(Figure, also)))
    found = session.bench.check(replace(task, plan=plan))
    assert sum(window.steps for window in found.runs[0].windows) == steps


# The reference environment


def test_with_a_reference_environment_interleaved_pairs_confirm() -> None:
    now, then = steady(80.0, name="now"), steady(100.0, name="then")
    session = PlayedSession()
    found = session.decided(session.task(now, then))
    assert found.verdict is not None
    assert (found.verdict.outcome, found.verdict.rule) == (Outcome.REGRESSED, Rule.REFERENCE_ENVIRONMENT)
    assert (len(found.runs), len(found.pairs), then.started) == (1, 6, 6)


def test_a_program_that_is_slower_than_in_its_reference_environment_is_profiled_in_both() -> None:
    now, then = steady(80.0, name="now"), steady(100.0, name="then")
    session = PlayedSession(engine=PlayedPrograms)
    task, program = session.task(now, then), Command(["train.py"], name="it")
    sides = {name: replace(getattr(task, name), workload=program) for name in ("side", "reference_environment")}
    found = session.decided(replace(task, **sides))
    assert found.profile is not None
    assert [growth.name for growth in found.profile.grown] == ["block/conv"]
    assert (now.started, then.started) == (1 + len(found.pairs) + 1, len(found.pairs) + 1)


def test_a_slow_machine_is_no_regression_of_the_software() -> None:
    session = PlayedSession()
    found = session.decided(session.task(steady(80.0), steady(80.0)))
    assert (outcome_of(found)[0], len(found.pairs)) == (Outcome.PASS, 2)


def test_a_workload_that_fails_in_the_reference_environment_is_confirmed_by_runs() -> None:
    session = PlayedSession()
    task = session.task(steady(80.0), steady(MeasurementError("no such model")))
    found = session.decided(task)
    assert found.verdict is not None
    assert (found.verdict.outcome, found.verdict.rule, len(found.runs)) == (Outcome.REGRESSED, Rule.BASELINE, 8)
    assert "no such model" in session.machine.reference_failures[task.call]


def test_a_reference_environment_that_fails_in_a_later_pair_hands_over_to_runs() -> None:
    session = PlayedSession()
    found = session.decided(session.task(steady(80.0), steady(100.0, 100.0, MeasurementError("killed"))))
    assert found.verdict is not None
    assert (found.verdict.outcome, found.verdict.rule) == (Outcome.REGRESSED, Rule.BASELINE)
    assert (len(found.pairs), len(found.runs)) == (0, 8)


def test_a_disturbed_first_run_is_replaced_before_pairs_are_taken() -> None:
    session = PlayedSession(BUSY)
    found = session.decided(session.task(steady(80.0, 100.0), steady(100.0)))
    assert (outcome_of(found)[0], [run.disturbance for run in found.discarded]) == (Outcome.PASS, [BUSY])
    assert [run.disturbance for run in found.runs] == [None]


@pytest.mark.parametrize("first", [None, BUSY], ids=["after a quiet first run", "from the first run on"])
@pytest.mark.parametrize(
    ("now", "expected"), [(80.0, Outcome.REGRESSED), (100.0, Outcome.PASS)], ids=["slower", "as slow as the machine"]
)
def test_pairs_decide_although_the_machine_stays_busy(first: Disturbance | None, now: float, expected: Outcome) -> None:
    session = PlayedSession(first, *[BUSY] * 60)
    busy = 0.5
    found = session.decided(session.task(steady(now * busy), steady(100.0 * busy)))
    assert (outcome_of(found)[0], found.discarded_pairs) == (expected, ())
    assert len(found.discarded) == (TRIES if first else 0)


def test_our_own_worker_that_dies_in_a_pair_is_an_error() -> None:
    session = PlayedSession()
    with pytest.raises(MeasurementError, match="the worker died"):
        session.decided(session.task(steady(80.0, MeasurementError("the worker died")), steady(100.0)))


# Common drift


def test_from_eight_tests_on_what_all_lost_is_no_tests_own_loss() -> None:
    session = PlayedSession(tests=MIN_TESTS)
    tasks = [session.task(steady(96.0), test=f"a.py::test[{i}]") for i in range(MIN_TESTS)]
    first = [session.bench.check(task) for task in tasks]
    assert not any(found.is_decided for found in first)
    again = [session.bench.check(task, found) for task, found in zip(tasks, first, strict=True)]
    assert {outcome_of(found)[0] for found in again} == {Outcome.PASS}
    assert {len(found.runs) for found in again} == {1}


def checked(session: PlayedSession, tasks: list[Task]) -> list[Measurement]:
    """As a session does: all tests once, and then again those that are not decided."""
    first = [session.bench.check(task) for task in tasks]
    found = []
    for task, one in zip(tasks, first, strict=True):
        while not one.is_decided:
            one = session.bench.check(task, one)
        found.append(one)
    return found


@pytest.mark.parametrize("has_reference_environment", [True, False])
def test_tests_that_ran_first_and_lost_something_do_not_clear_each_other(has_reference_environment: bool) -> None:
    rates = [85.0] * (MIN_TESTS + 2) + [100.0] * (MIN_TESTS + 3)
    session = PlayedSession(tests=len(rates))
    target = steady(100.0) if has_reference_environment else None
    tasks = [session.task(steady(rate), target, test=f"a.py::test[{i}]") for i, rate in enumerate(rates)]
    outcomes = [outcome_of(found)[0] for found in checked(session, tasks)]
    assert outcomes == [Outcome.REGRESSED if rate < 100.0 else Outcome.PASS for rate in rates]


@pytest.mark.parametrize(("others", "lost"), [(103.0, Outcome.REGRESSED), (100.0, Outcome.PASS)])
def test_a_test_that_ran_before_the_others_is_held_against_what_they_gained(others: float, lost: Outcome) -> None:
    session = PlayedSession(tests=3)
    tasks = [session.task(steady(98.5), steady(103.0), test="a.py::first")]
    tasks += [session.task(steady(others), steady(others), test=f"a.py::test[{i}]") for i in range(2)]
    found = checked(session, tasks)
    assert [outcome_of(one)[0] for one in found] == [lost, Outcome.PASS, Outcome.PASS]


def test_a_test_alone_waits_for_no_others() -> None:
    session = PlayedSession(tests=1)
    assert session.bench.check(session.task(steady(100.0), steady(100.0))).is_decided


# Disturbed runs


def test_a_disturbed_first_run_counts_as_good_news() -> None:
    session = PlayedSession(BUSY)
    found = session.decided(session.task(steady(100.0)))
    assert (outcome_of(found)[0], found.runs[0].disturbance) == (Outcome.PASS, BUSY)


def test_a_disturbed_first_run_does_not_count_as_bad_news() -> None:
    session = PlayedSession(BUSY)
    found = session.decided(session.task(steady(80.0, 100.0)))
    assert (outcome_of(found)[0], [run.disturbance for run in found.discarded]) == (Outcome.PASS, [BUSY])


def test_runs_that_are_all_disturbed_are_an_error_with_what_they_measured() -> None:
    session, launcher = PlayedSession(*[BUSY] * TRIES), steady(100.0)
    with pytest.raises(InvalidMeasurement) as caught:
        session.bench.measure(session.task(launcher))
    assert (launcher.started, len(caught.value.runs)) == (TRIES, TRIES)
    assert caught.value.verdict == Verdict(outcome=Outcome.INVALID, reason=Reason.DISTURBED)
    assert "INVALID: other processes used 90 %" in str(worded(caught.value))


def test_a_plain_measurement_discards_a_disturbed_run() -> None:
    session = PlayedSession(BUSY)
    found = session.bench.measure(session.task(steady(100.0)))
    assert ([run.disturbance for run in found.runs], len(found.discarded)) == ([None], 1)


def test_a_machine_that_stays_busy_gives_later_tests_one_try() -> None:
    session, launcher = PlayedSession(*[BUSY] * (TRIES + 1)), steady(100.0)
    session.machine.seconds_disturbed += 1e6
    with pytest.raises(InvalidMeasurement):
        session.bench.measure(session.task(launcher))
    assert launcher.started == 1


# Errors name what failed


def test_a_failure_names_workload_and_devices() -> None:
    session = PlayedSession()
    with pytest.raises(MeasurementError) as caught:
        session.bench.check(session.task(steady(MeasurementError("the worker died"))))
    assert str(caught.value) == f"{TRIVIAL.id} on {BOX.describe()}: the worker died"


def test_a_loss_that_is_not_finite_is_an_error_where_nothing_is_judged() -> None:
    session = PlayedSession()
    with pytest.raises(InvalidMeasurement) as caught:
        session.bench.measure(session.task(steady(100.0, loss=float("nan"))))
    assert caught.value.verdict.reason is Reason.DIVERGED
    assert "INVALID: loss became NaN" in str(worded(caught.value))


def test_a_measurement_on_gpus_names_them_and_their_rate() -> None:
    session = PlayedSession(row=None)
    found = session.bench.measure(session.task(steady(100.0), topology=load("h200").take(1)))
    assert (found.gpu, found.gpu_fp32_tflops) == ("NVIDIA H200", pytest.approx(66.9, abs=0.1))


# Baselines


def recorded(session: PlayedSession, launcher: PlayedLauncher) -> Measurement:
    task = session.task(launcher)
    found = session.bench.record(task)
    while not found.is_decided:
        found = session.bench.record(task, found)
    return found


def test_a_baseline_takes_five_fresh_runs() -> None:
    launcher = steady(100.0, 101.0, 99.0, 100.5, 99.5)
    assert (len(recorded(PlayedSession(row=None), launcher).runs), launcher.started) == (5, 5)


def test_runs_that_differ_much_ask_for_twice_as_many_at_most() -> None:
    launcher = steady(100.0, 150.0, 60.0, 200.0, 70.0, 100.0, 150.0, 60.0, 200.0, 70.0)
    assert len(recorded(PlayedSession(row=None), launcher).runs) == 10
