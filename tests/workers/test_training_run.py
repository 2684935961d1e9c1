"""A training run in several ranks: what it makes of their answers, and which of them is to blame when it fails."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.core.job import Job
from pytest_tfperf.core.profile import Input, RankStep, StepProfile, Trace
from pytest_tfperf.core.run import Window
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import VariableUpdate, Workload
from pytest_tfperf.errors import Hung, MeasurementError
from pytest_tfperf.workers.training_run import OfRank, TrainingRun, rank_name
from pytest_tfperf.workers.wire import Channel, Listener
from pytest_tfperf.workers.worker_run import WorkerRun
from tests.helpers.callers import joined
from tests.helpers.patience import PATIENCE_SECONDS

WORKLOAD = Workload(model="trivial", batch_size=4, variable_update=VariableUpdate.COLLECTIVE)
HOSTS = ("nodea", "nodeb", "nodec")
MESSAGE = {"job": "to train"}
READY = {
    "examples_per_step": 8,
    "unit": "images",
    "replicas": 2,
    "compile_seconds": 1.5,
    "fetches": True,
    "environment": {"tensorflow": "2.21.0"},
}


@dataclass
class Process:
    """A rank's process, on another machine."""

    rank: int
    diary: list[str]
    pid: int = 4711
    is_here: bool = False

    def exit_status(self, timeout_seconds: float, /) -> int | None:
        return None

    def end(self) -> None:
        self.diary.append(f"rank {self.rank} ended")


@dataclass
class Ranks:
    """The ranks' own ends of their channels, by which a test sends what they would; `end` closes all."""

    folder: Path
    end: ExitStack
    ranks: list[Channel] = field(default_factory=list)
    diary: list[str] = field(default_factory=list)

    def start(self, count: int = 2, *, silence: float = PATIENCE_SECONDS) -> TrainingRun:
        """The run of ranks that have called, and have sent what they send before their first window."""
        workers = self.called(count, silence)
        for rank, channel in enumerate(self.ranks):
            channel.send({"address": f"10.0.0.{rank}:80"})
            channel.send({"ready": {**READY, "examples_per_step": 4 * count, "replicas": count}})
        return self.together(workers, silence)

    def called(self, count: int = 2, silence: float = PATIENCE_SECONDS) -> list[WorkerRun]:
        listener = self.end.enter_context(closing(Listener()))
        workers = []
        for rank in range(count):
            driver, called = joined(listener, {"hello": "rank"})
            self.ranks.append(self.end.enter_context(closing(called)))
            worker = WorkerRun(
                Process(rank, self.diary),
                self.folder / f"rank{rank}.log",
                None,
                MESSAGE,
                python="python",
                on_cpus=True,
                silence_seconds=silence,
                name=rank_name(rank, count, HOSTS[rank]),
            )
            self.end.callback(worker.close)
            worker.adopt(driver, lambda phase: None)
            workers.append(worker)
        return workers

    def together(self, workers: list[WorkerRun], silence: float = PATIENCE_SECONDS) -> TrainingRun:
        job = Job(workload=WORKLOAD, devices=Devices(kind=DeviceKind.CPU, count=1), nodes=len(workers))
        hosts = HOSTS[: len(workers)]
        return TrainingRun.of_job(workers, hosts, job, silence, end=lambda: self.diary.append("engine ended"))

    def answer(self, *windows: dict[str, Any]) -> None:
        """Each rank answers its window."""
        for channel, window in zip(self.ranks, windows, strict=True):
            channel.send({"window": window})


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    with ExitStack() as end:
        yield Ranks(tmp_path, end)


def window(seconds: float = 0.1, *, steps: int = 1, loss: float | None = 0.5) -> dict[str, Any]:
    return {"steps": steps, "seconds": seconds, "loss": loss}


# The start


def test_each_rank_learns_its_place_where_all_are_and_how_long_an_exchange_may_take(ranks: Ranks) -> None:
    ranks.start(silence=60.0)
    for rank, channel in enumerate(ranks.ranks):
        assert channel.receive(PATIENCE_SECONDS) == MESSAGE
        cluster = channel.receive(PATIENCE_SECONDS)["cluster"]
        assert cluster.pop("timeout_seconds") < 60.0  # so that a rank reports its peer before the driver gives up both
        assert cluster == {"rank": rank, "addresses": ["10.0.0.0:80", "10.0.0.1:80"], "hosts": ["nodea", "nodeb"]}


def test_a_run_is_ready_when_its_slowest_rank_has_compiled(ranks: Ranks, tmp_path: Path) -> None:
    workers = ranks.called()
    for seconds, channel in zip((1.5, 9.5), ranks.ranks, strict=True):
        channel.send({"address": "10.0.0.1:80"})
        channel.send({"phase": "compile"})
        channel.send({"ready": {**READY, "compile_seconds": seconds}})
    run = ranks.together(workers)
    assert (run.compile_seconds, run.examples_per_step, run.fetches) == (9.5, 8, True)
    assert (run.environment, run.log) == ({"tensorflow": "2.21.0"}, str(tmp_path / "rank0.log"))


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        ((1, 1), r"1 replicas train together, not one on each of 2 devices: some did not join"),
        ((2, 1), r"they differ in replicas \(rank 0: 2, rank 1: 1\)"),
    ],
)
def test_ranks_that_do_not_train_together_are_an_error(ranks: Ranks, replicas: tuple[int, int], message: str) -> None:
    workers = ranks.called()
    for number, channel in zip(replicas, ranks.ranks, strict=True):
        channel.send({"address": "10.0.0.1:80"})
        channel.send({"ready": {**READY, "replicas": number}})
    with pytest.raises(MeasurementError, match=message):
        ranks.together(workers)


def test_a_rank_that_fails_before_it_is_ready_is_named_with_its_phase(ranks: Ranks) -> None:
    workers = ranks.called()
    for channel in ranks.ranks:
        channel.send({"address": "10.0.0.1:80"})
    ranks.ranks[1].send({"phase": "model"})
    ranks.ranks[1].send({"error": OWN})
    with pytest.raises(MeasurementError, match=r"^rank 1 of 2 on nodeb raised ValueError in phase 'model': no\n"):
        ranks.together(workers)


# Windows


def test_a_window_lasts_as_long_as_that_of_its_slowest_rank(ranks: Ranks) -> None:
    run = ranks.start(3)
    ranks.answer(window(0.1), window(0.3), window(0.2))
    assert run.receive() == Window(1, 0.3, 0.5)


def test_all_ranks_take_the_windows_in_the_order_of_their_requests(ranks: Ranks) -> None:
    run = ranks.start()
    for steps in (1, 2):
        run.request(steps)
        ranks.answer(window(steps=steps), window(steps=steps))
    assert [run.receive().steps for _ in range(2)] == [1, 2]
    for channel in ranks.ranks:
        assert [channel.receive(PATIENCE_SECONDS) for _ in range(4)][2:] == [{"steps": 1}, {"steps": 2}]


@pytest.mark.parametrize(("losses", "loss"), [((0.5, 0.5), 0.5), ((0.5, 0.500001), 0.5), ((None, None), None)])
def test_ranks_that_train_one_model_have_one_loss(
    ranks: Ranks, losses: tuple[float | None, float | None], loss: float | None
) -> None:
    run = ranks.start()
    ranks.answer(*(window(loss=each) for each in losses))
    assert run.receive().loss == loss


@pytest.mark.parametrize("losses", [(0.5, 0.6), (0.5, math.nan), (0.5, None)])
def test_losses_that_differ_are_an_error_that_shows_them(
    ranks: Ranks, losses: tuple[float | None, float | None]
) -> None:
    run = ranks.start()
    ranks.answer(*(window(loss=each) for each in losses))
    with pytest.raises(MeasurementError, match=rf"differ in loss \(rank 0: {losses[0]}, rank 1: {losses[1]}\)"):
        run.receive()


def test_a_loss_that_is_no_number_is_left_to_what_judges_losses(ranks: Ranks) -> None:
    run = ranks.start()
    ranks.answer(window(loss=math.nan), window(loss=math.nan))
    loss = run.receive().loss
    assert loss is not None
    assert math.isnan(loss)


# Who is to blame

OWN = {"type": "ValueError", "message": "no", "below": [], "hint": "", "ours": False, "out_of_memory": False}
ABOUT_A_PEER = {**OWN, "type": "UnavailableError", "message": "gone", "about_a_peer": True}

Act = Callable[[Channel], None]


def raises(channel: Channel) -> None:
    channel.send({"error": OWN})


def misses_another(channel: Channel) -> None:
    channel.send({"error": ABOUT_A_PEER})


def is_lost(channel: Channel) -> None:
    channel.close()


def answers(channel: Channel) -> None:
    channel.send({"window": window()})


def says_nothing(channel: Channel) -> None:
    pass


RAISED = "raised ValueError in phase 'steps': no"
LOST = r"\(pid 4711\) closed its connection in phase 'steps'"


@pytest.mark.parametrize(
    ("acts", "blamed"),
    [
        ((answers, raises), f"rank 1 of 2 on nodeb {RAISED}"),
        ((misses_another, raises), f"rank 1 of 2 on nodeb {RAISED}"),
        ((is_lost, raises), f"rank 1 of 2 on nodeb {RAISED}"),
        ((says_nothing, raises), f"rank 1 of 2 on nodeb {RAISED}"),
        ((misses_another, is_lost), f"rank 1 of 2 on nodeb {LOST}"),
        ((misses_another, misses_another, is_lost), f"rank 2 of 3 on nodec {LOST}"),
        ((misses_another, is_lost, raises), f"rank 2 of 3 on nodec {RAISED}"),
        ((misses_another, misses_another), "rank 0 of 2 on nodea raised UnavailableError in phase 'steps': gone"),
    ],
)
def test_a_rank_with_an_error_of_its_own_is_blamed_then_one_that_was_lost_then_one_that_misses_another(
    ranks: Ranks, acts: tuple[Act, ...], blamed: str
) -> None:
    run = ranks.start(len(acts))
    for act, channel in zip(acts, ranks.ranks, strict=True):
        act(channel)
    with pytest.raises(MeasurementError, match=f"^{blamed}"):
        run.receive()


def test_a_rank_that_says_nothing_is_blamed_before_one_that_misses_it(ranks: Ranks) -> None:
    run = ranks.start(silence=0.2)
    misses_another(ranks.ranks[0])
    with pytest.raises(Hung, match=r"^rank 1 of 2 on nodeb \(pid 4711\) said nothing for [\d.]+ s in phase 'steps'"):
        run.receive()


def test_a_rank_that_was_lost_is_blamed_before_one_that_says_nothing(ranks: Ranks) -> None:
    run = ranks.start()
    is_lost(ranks.ranks[1])
    with pytest.raises(MeasurementError, match=f"^rank 1 of 2 on nodeb {LOST}"):
        run.receive()


def test_a_rank_that_crashed_after_it_had_waited_for_an_exchange_is_not_blamed(ranks: Ranks) -> None:
    run = ranks.start(silence=0.4)
    time.sleep(0.4)
    is_lost(ranks.ranks[0])
    with pytest.raises(Hung, match=r"^rank 1 of 2 on nodeb \(pid 4711\) said nothing .*\nand so rank 0 of 2 on nodea"):
        run.receive()


def test_of_ranks_that_all_wait_the_one_without_an_answer_hangs(ranks: Ranks) -> None:
    run = ranks.start(silence=0.2)
    answers(ranks.ranks[0])
    with pytest.raises(Hung, match=r"^rank 1 of 2 on nodeb \(pid 4711\) said nothing for [\d.]+ s"):
        run.receive()


# The step's profile, and the end


def test_a_step_profile_puts_together_what_the_ranks_found(ranks: Ranks) -> None:
    run = ranks.start()
    for host, pipeline, seconds in (("nodea", 900.0, 0.01), ("nodeb", 700.0, 0.02)):
        profile = StepProfile(
            input=Input.FETCHED,
            pipeline_examples_per_sec=pipeline,
            pipeline_core_seconds_per_example=0.001,
            forward_multiply_adds=4_000,
            products_multiply_adds_per_sec=2e9,
            ranks=(RankStep(host=host, seconds=seconds),),
        )
        ranks.ranks[HOSTS.index(host)].send({"step_profile": asdict(profile)})
    assert run.profile_step(matrix_products=True, multiply_adds=True) == StepProfile(
        input=Input.FETCHED,
        pipeline_examples_per_sec=700.0,
        pipeline_core_seconds_per_example=0.002,
        forward_multiply_adds=4_000,
        products_multiply_adds_per_sec=4e9,
        ranks=(RankStep(host="nodea", seconds=0.01), RankStep(host="nodeb", seconds=0.02)),
    )


def test_the_largest_value_of_a_figure_is_named_by_its_rank(ranks: Ranks) -> None:
    run = ranks.start()
    for size, seconds, channel in zip((2e9, 3e9), (9.5, 2.5), ranks.ranks, strict=True):
        channel.send({"figures": {"peak_memory": size, "first_step": seconds}})
    found = run.figures(["peak_memory", "first_step"])
    assert found == {
        "peak_memory": OfRank(3e9, "rank 1 of 2 on nodeb"),
        "first_step": OfRank(9.5, "rank 0 of 2 on nodea"),
    }


def test_a_figure_that_one_rank_can_not_tell_is_not_known_of_all(ranks: Ranks) -> None:
    run = ranks.start()
    for size, channel in zip((2e9, None), ranks.ranks, strict=True):
        channel.send({"figures": {"peak_memory": size}})
    assert run.figures(["peak_memory"]) == {}


def test_what_no_rank_found_out_is_not_known_of_all(ranks: Ranks) -> None:
    run = ranks.start()
    nothing = StepProfile(input=Input.RESIDENT)
    for channel in ranks.ranks:
        channel.send({"step_profile": asdict(nothing)})
    assert run.profile_step(matrix_products=False, multiply_adds=False) == nothing


def test_each_rank_traces_the_same_steps(ranks: Ranks) -> None:
    run = ranks.start()
    for host, channel in zip(HOSTS, ranks.ranks, strict=False):
        channel.send({"trace": asdict(Trace(host=host, steps=3, ops=()))})
    assert [trace.host for trace in run.trace(3)] == ["nodea", "nodeb"]


def test_closing_ends_all_ranks_and_then_what_started_them(ranks: Ranks) -> None:
    ranks.start().close()
    assert sorted(ranks.diary[:2]) == ["rank 0 ended", "rank 1 ended"]
    assert ranks.diary[2:] == ["engine ended"]
