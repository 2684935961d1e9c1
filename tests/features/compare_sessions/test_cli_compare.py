"""`tfperf compare`: what the sides may be, which workloads moved, and what the caller is told."""

from __future__ import annotations

import json
import math
import random
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf import cli
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.figure import THROUGHPUT, Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Noise, Outcome, Reason, Verdict
from pytest_tfperf.features.compare_sessions.command import render
from pytest_tfperf.features.compare_sessions.side_comparison import (
    FigureValue,
    Movement,
    compare_sides,
    values_of_measurements,
    values_of_rows,
)
from pytest_tfperf.stores import measurement_file
from pytest_tfperf.stores.baseline_file import BaselineStore
from pytest_tfperf.stores.history import History
from tests.helpers.expected import SameTexts
from tests.helpers.measurements import BUSY, KEY, baseline, interleaved, measurement, run_at, throughput, verdict

GREEN, REGRESSED, USAGE, NOT_MEASURED = 0, 1, 4, 6
QUIET = Noise(between_runs=0.005, degrees_of_freedom=100, rows=20, between_sessions=0.002)


def figure(change: float = 0.0, topology: str = "1x8", **more: object) -> FigureValue:
    """1,000 images/s and this change of it, from five runs."""
    given = {"machine": "box", "key": Key(KEY.workload, topology), "unit": "images", "runs": 5, "noise": QUIET}
    log_value = math.log(1000.0) + math.log1p(change)
    return FigureValue(**{"figure": THROUGHPUT, "log_value": log_value} | given | more)  # type: ignore[arg-type]


def figures(*changes: float) -> list[FigureValue]:
    """As many workloads as changes."""
    return [figure(change, f"1x{number}") for number, change in enumerate(changes, 1)]


def movements(*changes: float) -> dict[str, Movement]:
    """Of workloads that changed so, by their topologies."""
    compared = compare_sides(figures(*[0.0] * len(changes)), figures(*changes))
    return {one.b.key.topology: one.movement for one in compared.ratios}


# Which moved


@pytest.mark.parametrize(
    ("change", "movement"), [(-0.1, Movement.SLOWER), (0.1, Movement.FASTER), (-0.003, Movement.NONE)]
)
def test_only_a_change_beyond_noise_is_a_movement(change: float, movement: Movement) -> None:
    assert movements(change) == {"1x1": movement}


def test_what_all_have_in_common_moves_none_of_them() -> None:
    compared = compare_sides(figures(*[0.0] * 10), figures(*[-0.1] * 9, -0.3))
    assert compared.common == pytest.approx(-0.1)
    assert [one.b.key.topology for one in compared.moved] == ["1x10"]


def test_few_workloads_have_nothing_in_common() -> None:
    compared = compare_sides(figures(0.0, 0.0), figures(-0.1, -0.1))
    assert (compared.common, len(compared.moved)) == (None, 2)


@given(st.lists(st.floats(-0.5, 1.0), min_size=1, max_size=12))
def test_both_directions_tell_the_same(changes: list[float]) -> None:
    there = compare_sides(figures(*[0.0] * len(changes)), figures(*changes))
    back = compare_sides(figures(*changes), figures(*[0.0] * len(changes)))
    opposite = {Movement.SLOWER: Movement.FASTER, Movement.FASTER: Movement.SLOWER, Movement.NONE: Movement.NONE}
    ratios = {one.a.key: one for one in back.ratios}
    for one in there.ratios:
        assert ratios[one.a.key].movement is opposite[one.movement]
        assert one.low <= one.ratio <= one.high
        assert ratios[one.a.key].ratio == pytest.approx(1 / one.ratio)


@given(st.lists(st.floats(-0.5, 1.0), min_size=1, max_size=12))
def test_slower_ones_come_first_and_the_slowest_of_them_at_the_top(changes: list[float]) -> None:
    found = compare_sides(figures(*[0.0] * len(changes)), figures(*changes)).ratios
    ranks = [(list(Movement).index(one.movement), one.ratio) for one in found]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize("tests", [3, 12])
def test_noise_alone_moves_a_workload_in_few_comparisons(tests: int) -> None:
    chance = random.Random(1)

    def session() -> list[FigureValue]:
        rates = [chance.gauss(0.0, 0.005) / math.sqrt(5) + chance.gauss(0.0, 0.002) for _ in range(tests)]
        return figures(*map(math.expm1, rates))

    moved = sum(bool(compare_sides(session(), session()).moved) for _ in range(300))
    assert moved <= 9  # 3 of 300 are expected at most


def test_a_noisier_source_widens_the_interval() -> None:
    noisy = replace(QUIET, between_runs=0.05)
    (quiet,) = compare_sides([figure()], [figure(-0.05)]).ratios
    (wide,) = compare_sides([figure()], [figure(-0.05, noise=noisy)]).ratios
    assert wide.low < quiet.low
    assert (quiet.movement, wide.movement) == (Movement.SLOWER, Movement.NONE)


# What is compared


OLD, NEW = (
    values_of_rows([baseline(environment=f"tensorflow={version} python=3.11")]) for version in ("2.16.2", "2.21.0")
)
COMPARED = {
    "missing workloads and another unit": (
        [figure(topology="1x1"), figure(topology="1x2"), figure(topology="1x4")],
        [figure(topology="1x1"), figure(topology="1x4", unit="tokens"), figure(topology="1x8")],
    ),
    "two machines": ([figure()], [figure(machine="tower")]),
    "changed software": (OLD, NEW),
    "a setting that one side has": (
        [figure(environment={"python": "3.11"})],
        [figure(environment={"python": "3.11", "injected_slowdown": "0.1"})],
    ),
    "one moved beyond what all have in common": (figures(*[0.0] * 10), figures(*[-0.1] * 9, -0.3)),
    "no common workload": ([figure()], [figure(topology="1x1")]),
}


def test_what_is_said_of_two_sides(same_texts: SameTexts) -> None:
    same_texts(
        "compared", {case: "\n".join(render(compare_sides(a, b), "one", "two")) for case, (a, b) in COMPARED.items()}
    )


def test_with_several_machines_only_equal_ones_are_compared() -> None:
    compared = compare_sides([figure(), figure(machine="tower")], [figure(machine="tower")])
    assert [one.a.machine for one in compared.ratios] == ["tower"]


def test_figures_of_different_places_are_named_and_not_compared() -> None:
    a, b = ([figure(figure=Figure("loss"), place=place)] for place in ("at step 400", "at step 460"))
    compared = compare_sides(a, b)
    assert (compared.ratios, compared.other_units) == ((), ((a[0], b[0]),))
    assert f"other step   {KEY.workload} 1x8" in "\n".join(render(compared, "one", "two"))


def test_rows_and_measurements_say_where_a_figure_was_printed() -> None:
    loss = Verdict(figure=Figure("loss"), value=2.0, places=("at step 400",))
    row = baseline(2.0, key=KEY._replace(figure="loss"), unit="", note="read at step 400")
    (_, measured), (recorded,) = values_of_measurements([measurement(figures=(loss,))]), values_of_rows([row])
    assert measured.place == recorded.place == "at step 400"


def test_invalid_measurements_are_left_out() -> None:
    invalid = verdict(Outcome.INVALID, reason=Reason.DISTURBED, baseline=None)
    assert values_of_measurements([measurement(verdict=invalid, discarded=(run_at(1.0, disturbance=BUSY),))]) == []


def test_the_noise_of_measurements_without_a_verdict_comes_from_their_runs() -> None:
    (quiet,) = values_of_measurements([measurement(throughput(*[1000.0, 1001.0] * 20))])
    (noisy,) = values_of_measurements([measurement(throughput(*[1000.0, 1200.0] * 20))])
    assert quiet.noise is not None
    assert noisy.noise is not None
    assert quiet.noise.between_runs < 0.01 < noisy.noise.between_runs


# The command


def measured(rate: float, session: str, topology: str = "1x8") -> Measurement:
    return measurement(throughput(*[rate] * 3), session=session, topology=topology, verdict=verdict(noise=QUIET))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder whose history has three sessions; the last is 20 % slower."""
    monkeypatch.chdir(tmp_path)
    history = History(tmp_path / ".tfperf" / "history.sqlite")
    for session, rate in (("one", 990.0), ("two", 1000.0), ("three", 800.0)):
        history.append(measured(rate, session))
    return tmp_path


def compare(*arguments: str) -> int:
    return cli.main(["compare", *arguments])


@pytest.mark.parametrize("sides", [("two", "three"), ("previous", "latest"), ("two", "latest")], ids=" ".join)
def test_two_sessions_are_compared(sides: tuple[str, str], project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(*sides) == GREEN
    said = capsys.readouterr().out
    assert "\nslower  resnet50" in said
    assert "0.800" in said
    assert said.endswith("1 of 1 workload moved by more than noise explains: 1 slower.\n")


def test_the_previous_session_is_one_of_the_latest_one_s_machine(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = History(project / ".tfperf" / "history.sqlite")
    history.append(replace(measured(2000.0, "elsewhere"), machine="tower"))
    history.append(measured(600.0, "four"))
    assert compare("previous", "latest") == GREEN
    assert "0.750" in capsys.readouterr().out


def test_a_session_that_only_compared_is_not_the_latest(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    when = "2026-01-09T03:00:00+00:00"
    History(project / ".tfperf" / "history.sqlite").append(interleaved(session="four", time=when))
    assert compare("previous", "latest") == GREEN
    assert "b: session three" in capsys.readouterr().out


def test_a_machine_s_only_session_has_no_previous_one(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = History(project / ".tfperf" / "history.sqlite")
    history.append(replace(measured(2000.0, "elsewhere"), machine="tower"))
    assert compare("previous", "latest") == USAGE
    assert "previous: the history has 1 session of tower. " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["two", "three", "--tolerance=0.05"], REGRESSED),
        (["two", "three", "--tolerance=0.3"], GREEN),
        (["three", "two", "--tolerance=0.05"], GREEN),
        (["one", "two", "--tolerance=0.001"], GREEN),
    ],
    ids=["slower", "tolerated", "faster", "within noise"],
)
def test_a_tolerance_makes_it_a_gate(arguments: list[str], status: int, project: Path) -> None:
    assert compare(*arguments) == status


def test_a_common_slowdown_fails_the_gate_too() -> None:
    compared = compare_sides(figures(*[0.0] * 10), figures(*[-0.1] * 10))
    assert (compared.moved, compared.is_slower_than(0.05)) == ((), True)


@pytest.mark.parametrize(
    ("common", "own", "fails"), [(0.04, -0.05, True), (-0.015, -0.01, False)], ids=["hidden", "blamed"]
)
def test_what_all_have_in_common_neither_hides_nor_makes_a_slowdown(common: float, own: float, fails: bool) -> None:
    compared = compare_sides(figures(*[0.0] * 10), figures(common + own, *[common] * 9))
    assert compared.is_slower_than(0.02) is fails


def test_two_exports_are_compared(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measurement_file.write(project / "a.json", measurement_file.render([measured(1000.0, "x")]))
    measurement_file.write(project / "b.json", measurement_file.render([measured(1200.0, "y")]))
    assert compare("a.json", "b.json", "--json") == GREEN
    found = json.loads(capsys.readouterr().out)
    assert [(one["movement"], round(one["ratio"], 3)) for one in found["ratios"]] == [("faster", 1.2)]


@pytest.fixture
def revisions(project: Path) -> Path:
    """The current folder is a repository, whose second commit has a slower baseline."""
    subprocess.run(["git", "init", "-q"], check=True)
    for rate in (1000.0, 900.0):
        BaselineStore(project / "baselines", published=None).update("box", {KEY: baseline(rate)})
        subprocess.run(["git", "add", "baselines"], check=True)
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"], check=True)
    return project


@pytest.mark.parametrize(
    "sides", [("HEAD~1..HEAD",), ("HEAD~1..",), ("HEAD~1", "baselines"), ("HEAD~1", "baselines/box.csv")], ids=" ".join
)
def test_revisions_and_files_of_baselines_are_compared(
    sides: tuple[str, ...], revisions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(*sides) == GREEN
    assert "0.900" in capsys.readouterr().out


def test_a_session_is_compared_with_baselines(revisions: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare("HEAD~1", "three") == GREEN
    assert "0.800" in capsys.readouterr().out


def test_sides_without_a_common_workload_have_a_status_of_their_own(project: Path) -> None:
    measurement_file.write(project / "a.json", measurement_file.render([measured(1000.0, "x", topology="1x1")]))
    assert compare("a.json", "latest") == NOT_MEASURED


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["two"], "two: give what to compare it with"),
        (["../{folder}/a.json"], "a.json: give what to compare it with"),
        (["two", "none"], "nor has the history such a session"),
        (["two", "three", "--machine=tower"], "git knows no such revision"),
        (["two", "three", "--tolerance=2"], "--tolerance: '2' must be a fraction above 0, up to 0.5"),
        (["a.csv", "two"], "git knows no such revision"),
    ],
    ids=["one side", "one file above", "no session", "machine", "tolerance", "file"],
)
def test_what_can_not_be_compared_is_refused(
    arguments: list[str], said: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measurement_file.write(project / "a.json", measurement_file.render([measured(1000.0, "x")]))
    assert compare(*(argument.format(folder=project.name) for argument in arguments)) == USAGE
    assert said in capsys.readouterr().err


# Figures beside the throughput


def with_figure(figure: Figure, value: float) -> list[FigureValue]:
    """The rate and the figure of one measurement."""
    one = Verdict(figure=figure, value=value)
    return values_of_measurements([measurement(throughput(1000.0, 1000.0), verdict=verdict(), figures=(one,))])


def moved(figure: Figure, before: float, after: float) -> Movement:
    compared = compare_sides(with_figure(figure, before), with_figure(figure, after))
    return next(one.movement for one in compared.ratios if not one.b.is_throughput)


MEMORY, SCORE, LOSS = Figure("peak_memory"), Figure("score", field="score", better="higher"), Figure("loss")


@pytest.mark.parametrize(
    ("figure", "before", "after", "movement"),
    [
        (MEMORY, 8e9, 16e9, Movement.WORSE),
        (MEMORY, 16e9, 8e9, Movement.BETTER),
        (SCORE, 20.0, 10.0, Movement.WORSE),
        (SCORE, 10.0, 20.0, Movement.BETTER),
        (LOSS, 4.0, 2.0, Movement.WORSE),
    ],
)
def test_a_figure_moves_in_its_own_direction(figure: Figure, before: float, after: float, movement: Movement) -> None:
    assert moved(figure, before, after) is movement


def test_a_figure_that_moves_within_its_absolute_tolerance_did_not_move() -> None:
    assert moved(MEMORY, 10e6, 60e6) is Movement.NONE


def test_figures_are_no_part_of_what_all_workloads_have_in_common() -> None:
    before, after = (figures(*[0.0] * 7) + with_figure(MEMORY, value)[1:] for value in (8e9, 16e9))
    assert compare_sides(before, after).common is None


def test_a_figure_that_is_worse_exceeds_the_tolerance() -> None:
    assert compare_sides(with_figure(MEMORY, 8e9), with_figure(MEMORY, 16e9)).is_slower_than(0.02)


def test_a_row_of_a_figure_shows_it_in_its_unit() -> None:
    text = "\n".join(
        render(compare_sides(with_figure(MEMORY, 8 * 2**30), with_figure(MEMORY, 16 * 2**30)), "old", "new")
    )
    assert "peak memory 8 GiB 16 GiB" in " ".join(text.split())


def test_rows_of_figures_of_two_revisions_are_compared_as_figures() -> None:
    key = KEY._replace(figure="peak_memory")
    sides = [values_of_rows([baseline(value, key=key, unit="bytes")]) for value in (8e9, 16e9)]
    assert [one.movement for one in compare_sides(*sides).ratios] == [Movement.WORSE]


def test_rows_of_a_figure_of_ones_own_changed_because_they_do_not_say_what_is_worse() -> None:
    key = KEY._replace(figure="bleu")
    compared = compare_sides(*(values_of_rows([baseline(value, key=key, unit="")]) for value in (20.0, 40.0)))
    assert [one.movement for one in compared.ratios] == [Movement.CHANGED]
    assert not compared.is_slower_than(0.02)


def test_a_measurement_tells_the_direction_of_the_row_that_it_is_compared_with() -> None:
    row = values_of_rows([baseline(20.0, key=KEY._replace(figure="score"), unit="")])
    compared = compare_sides(with_figure(SCORE, 40.0), row)
    assert [one.movement for one in compared.ratios] == [Movement.WORSE]


def test_figures_do_not_make_few_workloads_enough_for_what_all_have_in_common() -> None:
    unlearnt = replace(QUIET, between_sessions=0.0)

    def side(change: float) -> list[FigureValue]:
        rates = [figure(change, f"1x{number}", noise=unlearnt) for number in range(1, 6)]
        memory = {"figure": MEMORY, "unit": "bytes", "log_value": math.log(8e9)}
        return [*rates, *(replace(one, key=one.key._replace(figure="peak_memory"), **memory) for one in rates)]

    assert compare_sides(side(0.0), side(-0.03)).moved == ()


@pytest.mark.parametrize(
    ("before", "after", "movement", "shown"),
    [
        (0, 0, Movement.NONE, "0 0 - 1.000 - +0.0 % -"),
        (0, 2, Movement.WORSE, "0 2 - - - - -"),
        (2, 0, Movement.BETTER, "2 0 - 0.000 - -100.0 % -"),
        (100, 101, Movement.WORSE, "100 101 - 1.010 - +1.0 % -"),
    ],
)
def test_a_count_is_compared_exactly_also_if_it_is_0(before: int, after: int, movement: Movement, shown: str) -> None:
    def side(count: int) -> list[FigureValue]:
        recompiles = Verdict(figure=Figure("recompiles"), value=float(count))
        return values_of_measurements([measurement(figures=(recompiles,))])

    compared = compare_sides(side(before), side(after))
    row = next(ratio for ratio in compared.ratios if not ratio.b.is_throughput)
    assert row.movement is movement
    (line,) = [line for line in render(compared, "one", "two") if "recompiles" in line]
    assert line.partition("recompiles")[2].split() == shown.split()


def test_recorded_rows_with_a_count_of_0_are_compared() -> None:
    row = baseline(0.0, key=KEY._replace(figure="recompiles"), unit="")
    (compared,) = compare_sides(values_of_rows([row]), values_of_rows([row])).ratios
    assert compared.movement is Movement.NONE
