"""`throughput.compare` of two programs, run one after the other, and their figures."""

from __future__ import annotations

import pytest

from tests.helpers.inner import Finished, Project

# A rate that is played, so that the machine decides nothing.
PROGRAM = """
    import sys, time
    for step in range(1, 10_000):
        time.sleep(0.16)
        print(f"step {step} throughput: {(1 + (step % 3 - 1) / 100) * float(sys.argv[1]):.3f} examples/s")
"""

TESTS = """
import sys

def test_slower(throughput, on):
    a = Command([sys.executable, "program.py", "100"], name="old", reads=RATES)
    b = Command([sys.executable, "program.py", "80"], name="new", reads=RATES)
    found = throughput.compare(a, b, on=on, tolerance=0.05)
    assert [side.workload.id for side in (found.other, found)] == ["old", "new"]
    print("the body came to its end")
"""


def test_a_slower_program_fails_its_test_and_both_names_are_shown(played_project: Project) -> None:
    played_project.write("program.py", PROGRAM)
    played_project.tests(TESTS)
    session = played_project.run("-o", "tfperf_steps=1")
    assert (session.kinds, session.status) == ({"test_slower": "failure"}, 1), session.text
    assert "the body came to its end" in session.text
    assert "slower than old" in session.text


# Both print the same rate at once, and what their argument says.
PRINTS = """
    import json, sys
    for step in range(9):
        print(json.dumps({"rate": 100.0, **json.loads(sys.argv[1])}))
"""
FIGURES = """
    import json, sys
    from pytest_tfperf import Command, Figure, Reads

    BLEU = Figure("bleu", field="eval.bleu", better="higher")

    @pytest.mark.parametrize(("a", "b"), [
        pytest.param({"loss": 5.0}, {"loss": 10.0}, id="loss"),
        pytest.param({"eval": {"bleu": 4.0}}, {"eval": {"bleu": 3.0}}, id="bleu"),
        pytest.param({"loss": 5.0}, {"loss": 5.0}, id="same"),
        pytest.param({"loss": 5.0}, {"loss": 5.0, "eval": {"bleu": 3.0}}, id="new"),
        pytest.param({"loss": 5.0, "eval": {"bleu": 3.0}}, {"loss": 5.0}, id="gone"),
    ])
    def test_of(throughput, on, a, b):
        also = [*(["loss"] if "loss" in b else []), *([BLEU] if "eval" in a | b else [])]
        reads = Reads(field="rate", until_end=True)
        old = Command([sys.executable, "prints.py", json.dumps(a)], name="old", reads=reads)
        new = Command([sys.executable, "prints.py", json.dumps(b)], name="new", reads=reads)
        throughput.compare(old, new, on=on, tolerance=0.05, also=also)
"""


@pytest.fixture(scope="module")
def figures(played: Project) -> Finished:
    played.write("prints.py", PRINTS)
    played.tests(FIGURES)
    return played.run("-o", "tfperf_also=first_step")


@pytest.mark.parametrize(
    ("test", "begins"),
    [
        ("loss", "loss 10 at the end, 100.0 % higher than a's 5: "),
        ("bleu", "bleu 3 at the end, 25.0 % lower than a's 4: "),
    ],
)
def test_a_program_that_differs_by_a_figure_only_fails_by_it(figures: Finished, test: str, begins: str) -> None:
    assert figures.cases[f"test_of[{test}]"].text.startswith(begins), figures.text


def test_programs_without_a_difference_pass(figures: Finished) -> None:
    assert figures.cases["test_of[same]"].kind == "passed", figures.text


def test_a_figure_that_only_b_prints_is_said_and_fails_nothing(figures: Finished) -> None:
    assert figures.cases["test_of[new]"].kind == "passed", figures.text
    assert [line for line in figures.text.splitlines() if line.split()[:2] == ["NO_BASELINE", "bleu"]]


def test_a_figure_that_b_never_prints_fails_the_test(figures: Finished) -> None:
    gone = figures.cases["test_of[gone]"]
    assert (gone.kind, "the figure bleu was never printed" in gone.text) == ("failure", True), figures.text


def test_the_suites_figures_are_not_compared(figures: Finished) -> None:
    assert "tfperf_first_step_a" not in dict(figures.cases["test_of[same]"].properties)
