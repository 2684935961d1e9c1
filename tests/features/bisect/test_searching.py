"""`tfperf bisect` from its first comparison to its result, with sessions that answer what a test lets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_tfperf.bench.comparing import OtherSide, State
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Outcome, Reason, Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.bisect.search import MOST_PAIRS, Search
from pytest_tfperf.features.bisect.states import States
from pytest_tfperf.features.bisect.step import Answer, Fault, answer_file, read, write
from pytest_tfperf.reports.verdict import why_of
from tests.helpers.measurements import interleaved

TEST = "a.py::test"
FOUND, NOT_SLOWER, NOT_MEASURED = 0, 1, 6

STATES = States(
    key=("0", "4"),
    names=("0", "1", "2", "3", "4"),
    state=lambda index: State(title=str(index)),
    about=lambda index: [("subject", f"the change of {index}")],
)
"""The states "0", which is good, to "4"."""


def found(outcome: Outcome, ratio: float, *, test: str = TEST, model: str = "resnet50", **more: Reason) -> Measurement:
    return interleaved(outcome, ratio, test=test, workload=Workload(model=model, batch_size=64), **more)


def within(one: Measurement, tolerance: Tolerance | None) -> Measurement:
    """The same with this tolerance."""
    verdict = one.verdicts[0]
    return replace(one, verdicts=(replace(verdict, tolerance=tolerance or verdict.tolerance),))


FAST, SLOW = found(Outcome.PASS, 1.0), found(Outcome.REGRESSED, 0.9)
UNDECIDED = found(Outcome.INCONCLUSIVE, 0.93, reason=Reason.WITHIN_NOISE)
DISTURBED = found(Outcome.INVALID, 0.5)
DIED = Answer(faults={TEST: Fault(why="the program exited with status 1")})
HUNG = Answer(faults={TEST: Fault(why="the program printed nothing for 60 s", may_pass=True)})
Said = Measurement | Answer | list[Measurement | Answer]
"""The answer of each session on two states, or those of its sessions one after the other."""
SECOND_IS_SLOW: Mapping[str, Said] = {"0 4": SLOW, "0 2": SLOW, "0 1": FAST, "1 2": SLOW}
"""By the two states that are compared."""


class Played:
    """Searches in one folder, each as a command of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.compared: list[str] = []
        self.pairs: set[int] = set()

    def search(self, answers: Mapping[str, Said], test: str = TEST) -> tuple[int, str]:
        """The status and the text of a search; `compared` has the states that it compared, `pairs` the most pairs."""
        self.compared, said = [], []
        session = self._session(answers)
        status = Search(test, STATES, self._folder, said.append, run_pytest=session).run()
        return status, "\n".join(map(str, said))

    def _session(self, answers: Mapping[str, Said]) -> Callable[[str, Path], str]:
        def run_pytest(test: str, step_file: Path) -> str:
            del test
            step = read(OtherSide, step_file)
            assert step is not None
            self.compared.append(f"{step.a.title} {step.b.title}")
            self.pairs.add(step.terms.max_pairs)
            said = answers[self.compared[-1]]
            answer = (
                said[min(self.compared.count(self.compared[-1]), len(said)) - 1] if isinstance(said, list) else said
            )
            answer = answer if isinstance(answer, Answer) else Answer(comparisons=(answer,))
            judged = tuple(within(one, step.terms.tolerance) for one in answer.comparisons)
            write(answer_file(step_file), replace(answer, comparisons=judged))
            return ""

        return run_pytest


@pytest.fixture
def played(tmp_path: Path) -> Played:
    return Played(tmp_path)


def test_the_first_slow_state_is_named_with_its_size_beside_the_one_before(played: Played) -> None:
    status, text = played.search(SECOND_IS_SLOW)
    assert (status, "2 is the first slow one: -10" in text, "beside 1" in text) == (FOUND, True, True), text


def test_each_comparison_may_take_as_many_pairs_as_its_error_rates_need(played: Played) -> None:
    played.search(SECOND_IS_SLOW)
    assert played.pairs == {MOST_PAIRS}


# The last comparison


def test_a_last_comparison_that_was_disturbed_confirms_nothing(played: Played) -> None:
    status, text = played.search({**SECOND_IS_SLOW, "1 2": DISTURBED})
    assert (status, "its size is not known: INVALID: every run was disturbed" in text) == (NOT_MEASURED, True), text


def test_an_undecided_last_comparison_is_a_doubt(played: Played) -> None:
    status, text = played.search({**SECOND_IS_SLOW, "1 2": UNDECIDED})
    assert (status, "doubt    2 beside 1 stayed undecided" in text) == (FOUND, True), text


def test_a_last_comparison_that_is_decided_says_that_an_earlier_answer_was_wrong(played: Played) -> None:
    status, text = played.search({**SECOND_IS_SLOW, "1 2": FAST})
    assert (status, "an earlier answer was wrong" in text) == (NOT_MEASURED, True), text


def test_an_undecided_last_comparison_blames_no_earlier_answer(played: Played) -> None:
    status, text = played.search({**SECOND_IS_SLOW, "1 2": found(Outcome.INCONCLUSIVE, 0.97)})
    assert (status, "this undecided answer or an earlier one is wrong" in text) == (NOT_MEASURED, True), text


# What could not be measured


@pytest.mark.parametrize("why", [DISTURBED, HUNG], ids=["disturbed", "hung"])
def test_a_state_that_was_skipped_for_a_busy_moment_is_measured_again_before_the_end(
    played: Played, why: Measurement | Answer
) -> None:
    status, text = played.search({**SECOND_IS_SLOW, "0 1": [why, FAST]})
    assert (status, "going back to 1\n" in text, "2 is the first slow one" in text) == (FOUND, True, True), text
    assert played.compared == ["0 4", "0 2", "0 1", "0 1", "1 2"]


@pytest.mark.parametrize("compared", ["0 4", "0 2", "1 2"])
def test_a_comparison_whose_sides_are_not_proved_to_be_two_answers_nothing(played: Played, compared: str) -> None:
    one = found(Outcome.INCONCLUSIVE, 1.0, reason=Reason.NOT_PROVED)
    assert one.other is not None
    doubted = replace(one, other=replace(one.other, doubt="both sides run /repo/build/app"))
    status, text = played.search({**SECOND_IS_SLOW, "0 3": SLOW, compared: doubted})
    assert status == NOT_MEASURED, text
    assert "not proved that each side ran its own code" in text


def test_a_state_whose_own_program_died_is_not_measured_again(played: Played) -> None:
    status, text = played.search({**SECOND_IS_SLOW, "0 1": DIED})
    assert (status, played.compared) == (NOT_MEASURED, ["0 4", "0 2", "0 1"])
    assert text.endswith("because those between can't be measured: 1, 2")


def test_a_state_that_is_disturbed_twice_is_left_to_the_next_command(played: Played) -> None:
    status, text = played.search({**SECOND_IS_SLOW, "0 1": DISTURBED})
    assert (status, played.compared) == (NOT_MEASURED, ["0 4", "0 2", "0 1", "0 1"])
    assert text.endswith("The same command measures those again that were disturbed")


def test_a_skipped_state_that_cannot_be_the_first_slow_one_is_left_out(played: Played) -> None:
    _, text = played.search({"0 4": SLOW, "0 2": [DISTURBED], "0 1": SLOW, "0 3": SLOW})
    assert "going back" not in text


@pytest.mark.parametrize("states", ["0 4", "1 2"], ids=["the first", "the last"])
def test_the_first_and_the_last_comparison_are_made_once_more_if_they_were_disturbed(
    played: Played, states: str
) -> None:
    status, text = played.search({**SECOND_IS_SLOW, states: [DISTURBED, SLOW]})
    assert (status, played.compared.count(states)) == (FOUND, 2), text


# What is kept


@pytest.mark.parametrize("ends", [DISTURBED, UNDECIDED], ids=["disturbed", "undecided"])
def test_ends_that_could_not_be_compared_are_said_to_be_that(played: Played, ends: Measurement) -> None:
    status, text = played.search({"0 4": ends})
    assert status == NOT_MEASURED
    assert f"4 could not be compared with 0: {why_of(ends)}" in text
    assert "is not slower" not in text


@pytest.mark.parametrize("ends", [DISTURBED, UNDECIDED], ids=["disturbed", "undecided"])
def test_ends_that_could_not_be_compared_are_compared_again(played: Played, ends: Measurement) -> None:
    played.search({"0 4": ends})
    status, text = played.search(SECOND_IS_SLOW)
    assert status == FOUND, text


@pytest.mark.parametrize("skipped", [DISTURBED, DIED], ids=["disturbed", "died"])
def test_a_state_that_was_skipped_is_measured_again(played: Played, skipped: Measurement | Answer) -> None:
    status, _ = played.search({**SECOND_IS_SLOW, "0 1": skipped})
    assert status == NOT_MEASURED
    status, text = played.search(SECOND_IS_SLOW)
    assert (status, played.compared) == (FOUND, ["0 1", "1 2"]), text


def test_a_skipped_state_says_why(played: Played) -> None:
    _, text = played.search({**SECOND_IS_SLOW, "0 1": DISTURBED})
    assert "1: skipped: INVALID: every run was disturbed" in text


def test_ends_that_do_not_differ_are_kept(played: Played) -> None:
    status, text = played.search({"0 4": FAST})
    assert (status, "4 is not slower than 0" in text) == (NOT_SLOWER, True), text
    assert (played.search({})[0], played.compared) == (NOT_SLOWER, [])


# Several tests or calls


def several(*comparisons: Measurement, **faults: str) -> Answer:
    return Answer(comparisons=comparisons, faults={f"{TEST}[{name}]": Fault(why=why) for name, why in faults.items()})


def of_parameter(name: str, one: Measurement) -> Measurement:
    return replace(one, test=f"{TEST}[{name}]")


def test_a_parameter_that_ends_in_an_error_shifts_no_other(played: Played) -> None:
    both = several(of_parameter("a", FAST), of_parameter("b", SLOW))
    status, text = played.search(
        {
            "0 4": several(of_parameter("a", FAST), of_parameter("b", SLOW), of_parameter("c", FAST)),
            "0 2": several(of_parameter("b", SLOW), of_parameter("c", FAST), a="the program exited with status 1"),
            "0 1": several(of_parameter("a", FAST), of_parameter("b", FAST)),
            "1 2": both,
        }
    )
    assert (status, "2 is the first slow one" in text) == (FOUND, True), text


def test_the_parameter_that_lost_most_is_named(played: Played) -> None:
    both = several(of_parameter("a", FAST), of_parameter("b", SLOW))
    _, text = played.search(dict.fromkeys(("0 4", "0 2", "0 1"), both))
    assert f"3 pairs of {TEST}[b]" in text


def test_a_state_in_which_the_slow_parameter_fails_is_skipped_with_its_error(played: Played) -> None:
    ends = several(of_parameter("a", FAST), of_parameter("b", SLOW))
    lacking = several(of_parameter("a", SLOW), b="the program exited with status 1\nand more")
    _, text = played.search(dict.fromkeys(("0 1", "0 2", "0 3"), lacking) | {"0 4": ends})
    assert "2: skipped: the program exited with status 1\n" in text


def test_a_slow_call_is_not_taken_for_another_of_the_same_test(played: Played) -> None:
    slow = found(Outcome.REGRESSED, 0.9, model="alexnet")
    status, text = played.search(
        {
            "0 4": several(FAST, slow),
            "0 2": several(slow),
            "0 1": several(FAST, found(Outcome.PASS, 1.0, model="alexnet")),
            "1 2": several(FAST, slow),
        }
    )
    assert (status, "2 is the first slow one" in text) == (FOUND, True), text


def test_a_call_that_could_not_be_compared_keeps_the_others_from_an_answer(played: Played) -> None:
    status, text = played.search({"0 4": several(FAST, found(Outcome.INVALID, 1.2, model="alexnet"))})
    assert (status, "could not be compared with 0: INVALID: every run was disturbed" in text) == (NOT_MEASURED, True), (
        text
    )


def test_a_regression_counts_more_than_a_larger_loss_that_is_invalid(played: Played) -> None:
    status, text = played.search(
        {
            "0 4": several(found(Outcome.INVALID, 0.5, test="b.py::test"), SLOW),
            **{states: one for states, one in SECOND_IS_SLOW.items() if states != "0 4"},
        }
    )
    assert status == FOUND, text


# What can't be searched


def test_an_end_that_can_not_be_measured_says_why(played: Played) -> None:
    with pytest.raises(TfperfError, match="the program exited with status 1"):
        played.search({"0 4": DIED})


def test_a_parameter_that_can_not_be_measured_at_the_ends_keeps_the_others_from_an_answer(played: Played) -> None:
    with pytest.raises(TfperfError, match="the program exited with status 1"):
        played.search({"0 4": several(of_parameter("a", FAST), b="the program exited with status 1")})


def test_a_kept_search_that_can_not_be_read_names_the_way_out(played: Played, tmp_path: Path) -> None:
    played.search({"0 4": FAST})
    (kept,) = (tmp_path / "bisect").glob("*/0-4.json")
    kept.write_text('{"comparisons": 3}')
    with pytest.raises(TfperfError, match="Begin anew with --again"):
        played.search({})
