"""Figures of two sides: sessions in which only memory or only the loss differs, and one without a difference."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.helpers.inner import Finished, Project
from tests.helpers.repositories import ONE_READING, Repository

pytestmark = pytest.mark.slow

# The rate is played, so that the machine decides nothing; memory is real.
PROGRAM = """
    import json, time
    from losing import LOSS, MORE
    held = bytearray(MORE * 2**20)
    held[::4096] = b"x" * len(held[::4096])
    for step in range(1, 10_000):
        time.sleep(0.16)
        rate = 100 * (1 + (step % 3 - 1) / 100)
        print(json.dumps({"rate": rate, "loss": LOSS + step} | ({"bleu": 3.0} if MORE else {})), flush=True)
"""
TESTS = """
    import sys
    from pytest_tfperf import Command, Figure, Reads

    def program(throughput, on, name, *also):
        program = Command([sys.executable, "train.py"], name=name, reads=Reads(field="rate"))
        throughput.check(program, on=on, tolerance=0.05, also=also)

    def test_memory(throughput, on):
        program(throughput, on, "memory", "peak_memory")

    def test_loss(throughput, on):
        program(throughput, on, "loss", "loss")

    def test_limit(throughput, on):
        program(throughput, on, "limit", Figure("loss", absolute=9.0, limit=9.0))

    def test_bleu(throughput, on):
        program(throughput, on, "bleu", Figure("bleu", field="bleu", takes="first", better="higher"))
"""
BASE = ("perf_tests", "--tfperf-base=main", *ONE_READING)


def on_a_branch(project: Project) -> Repository:
    """A repository whose branch has nothing changed yet."""
    made = Repository(project, TESTS)
    project.write("train.py", PROGRAM)
    project.write("losing.py", "LOSS, MORE = 1.0, 0\n")
    made.commit("the base")
    made.git("switch", "--quiet", "--create", "branch")
    return made


@pytest.fixture(scope="module")
def session(played: Project) -> Finished:
    """A branch whose program needs 200 MB more and has twice the loss, at the same rate."""
    made = on_a_branch(played)
    played.write("losing.py", "LOSS, MORE = 6.0, 200\n")
    made.commit("worse")
    return played.run(*BASE, TFPERF_MARKDOWN="summary.md", TFPERF_COMMENT="comment.md")


def test_a_side_that_differs_by_a_figure_only_fails_by_it(session: Finished) -> None:
    kinds = {"test_memory": "failure", "test_loss": "failure", "test_limit": "failure", "test_bleu": "passed"}
    assert (session.kinds, session.status) == (kinds, 1), session.text


def test_the_message_names_the_figure_first_and_then_the_throughput(session: Finished) -> None:
    text = session.cases["test_memory"].text
    assert text.startswith("peak memory ")
    assert " more than a's " in text.splitlines()[0]
    assert "  throughput  PASS: b is " in text


def test_the_limit_holds_for_this_side(session: Finished) -> None:
    assert session.cases["test_limit"].text.startswith("loss 10 at reading 4, beyond its limit of 9: limit on ")


def test_a_figure_that_the_base_lacks_is_said(session: Finished) -> None:
    assert [line for line in session.text.splitlines() if line.split()[:2] == ["NO_BASELINE", "bleu"]], session.text


def test_comment_summary_and_junit_have_the_figures(session: Finished, played: Project) -> None:
    comment = (played.folder / "comment.md").read_text()
    assert (
        "| REGRESSED | perf\\_tests/test\\_it.py::test\\_loss | loss 10 at reading 4, 100.0 % higher than a's 5 |"
        in comment
    )
    assert "| REGRESSED | loss | loss | 1x1 | 5 | 10 | +100.0 % |" in (played.folder / "summary.md").read_text()
    assert dict(session.cases["test_loss"].properties)["tfperf_figure.loss.a"] == "5.0"


def test_the_history_keeps_them_as_rows_beside_the_other_sides_value(session: Finished, played: Project) -> None:
    assert session.cases
    with closing(sqlite3.connect(played.folder / ".tfperf/history.sqlite")) as connection:
        rows = connection.execute(
            "select value, baseline, outcome from tfperf_results where workload = 'loss' and figure != ''"
        )
        assert list(rows) == [(10.0, 5.0, "REGRESSED")]
    (kept,) = (one for one in played.history.measurements(is_interleaved=True) if one.test.endswith("test_loss"))
    assert (kept.outcome, kept.verdict.outcome, len(kept.pairs)) == ("REGRESSED", "PASS", 6)


def test_sides_without_a_difference_pass(played_project: Project) -> None:
    on_a_branch(played_project)
    session = played_project.run(*BASE, "-k", "memory or loss")
    assert (session.kinds, session.status) == ({"test_memory": "passed", "test_loss": "passed"}, 0), session.text


# Workloads, in interleaved windows

WORKLOADS = """
    ALL = ("peak_memory", "first_step", "loss")

    @pytest.mark.parametrize("model", ["hungry", "wrong", "another"])
    def test_of(throughput, on, model):
        found = throughput.compare(tiny(), tiny(model=f"nets:{model}"), on=on, tolerance=0.3, also=ALL)
        assert found.other.interleaving == "interleaved windows"
        assert len(found.pairs) <= 6
"""


def test_two_workloads_are_told_apart_by_memory_and_by_loss(played_project: Project) -> None:
    played_project.tests(WORKLOADS)
    session = played_project.run()
    kinds = {"test_of[hungry]": "failure", "test_of[wrong]": "failure", "test_of[another]": "passed"}
    assert session.kinds == kinds, session.text
    assert session.cases["test_of[hungry]"].text.startswith("peak memory 400 MiB, 100.0 % more than a's 200 MiB: ")
    assert session.cases["test_of[wrong]"].text.startswith("loss 1.1, 10.0 % higher than a's 1: ")
