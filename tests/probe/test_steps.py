"""Steps, examples and times as the probe in a program counts them: sequences of fetches and steps, by our clock."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.probe import frameworks, steps
from pytest_tfperf.probe.link import Gone
from pytest_tfperf.probe.steps import EXPLICIT, KERAS, OPTIMIZER, Loader, Loading, Probe

FETCH, STEP = 1 / 64, 1 / 16  # seconds of our clock


class Driver:
    """The driver's end, which asks for windows of so many steps, and is there for so many of them."""

    def __init__(self) -> None:
        self.steps = 1
        self.most = 10**9
        self.holds = False
        self.stops = False  # the program between two windows
        self.traces: list[int] = []
        self.sent: list[Any] = []

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def receive(self, seconds: float) -> Any:
        if len(self.sent) == 1:
            return {"slowdown": 0.0, "hold_seconds": 900.0}
        if len(self.windows) >= self.most:
            raise Gone("it has closed the connection")
        if self.traces:
            return {"trace": self.traces.pop()}
        return {"steps": self.steps, "was_stopped": self.stops}

    def has_message(self) -> bool:
        return not self.holds

    def close(self) -> None:
        self.most = 0

    @property
    def ready(self) -> Any:
        return self.sent[1]["ready"]

    @property
    def windows(self) -> list[Any]:
        return [message["window"] for message in self.sent if "window" in message]

    def total(self, name: str) -> float:
        return float(sum(window[name] for window in self.windows))


class Training:
    """A program that trains by a probe; each fetch and each step takes its time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.driver = Driver()
        self.said: list[str] = []
        self.profiled: list[float] = []  # when the profiler began
        profiler = SimpleNamespace(begin=lambda: self.profiled.append(self.now), end=lambda steps: {"steps": steps})
        parts = SimpleNamespace(Link=lambda *_: self.driver, Profiler=lambda **_: profiler)
        door = SimpleNamespace(load=lambda _: parts)
        monkeypatch.setitem(sys.modules, "sitecustomize_of_tfperf", door)
        monkeypatch.setattr(steps, "_clock", lambda: self.now)
        self.probe = Probe(("", 0, ""), self.said.append)

    def loader(self, name: str, size: int | None = 8, workers: int = 0, shards: int = 1) -> None:
        self.probe.loading.add(name, Loader(workers, size, shards))

    def fetch(self, source: str = "train", size: int | None = 8, times: int = 1) -> None:
        for _ in range(times):
            self.probe.fetching(source, self.now)
            self.now += FETCH
            self.probe.fetched(source, size, FETCH)

    def step(self, source: str = OPTIMIZER, **more: Any) -> None:
        self.now += STEP
        self.probe.step(source, **more)

    def warm_up(self, times: int = 8) -> None:
        """The steps before the first window."""
        for _ in range(times):
            self.fetch()
            self.step()

    @property
    def examples(self) -> list[Any]:
        return [window["examples"] for window in self.driver.windows]


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Iterator[Training]:
    made = Training(monkeypatch)
    yield made
    made.probe.source = ""  # its hook at forks stays


def test_a_step_holds_the_batch_before_it(training: Training) -> None:
    training.loader("train")
    training.warm_up(11)
    assert training.driver.ready["counted"] == "a step holds a batch of the DataLoader, 8 examples"
    assert training.examples == [8, 8, 8]
    assert training.driver.total("seconds") == 3 * (FETCH + STEP)
    assert training.driver.total("input_seconds") == 3 * FETCH


def test_accumulated_batches_are_of_one_step(training: Training) -> None:
    training.loader("train")
    for _ in range(12):
        training.fetch(times=4)
        training.step()
    assert training.driver.ready["counted"] == "a step holds 4 batches of the DataLoader, 32 examples"
    assert training.examples == [32] * 4


@pytest.mark.parametrize("of_a_step", [1, 4])
def test_a_batch_that_is_fetched_ahead_is_of_the_next_step(training: Training, of_a_step: int) -> None:
    training.loader("train")
    training.fetch()
    for _ in range(12):
        training.fetch(times=of_a_step)
        training.step()
    assert training.examples == [8 * of_a_step] * 4


def test_a_partial_last_batch_counts_as_what_it_holds(training: Training) -> None:
    training.loader("train")
    training.warm_up()
    for size in (8, 3, 8):
        training.fetch(size=size)
        training.step()
    assert training.examples == [8, 3, 8]


def test_an_evaluation_by_another_loader_is_not_timed(training: Training) -> None:
    training.loader("train")
    training.driver.steps = 4
    training.warm_up()
    for _ in range(4):
        training.fetch()
        training.step()
        training.fetch("eval", times=10)
    assert training.driver.total("paused_seconds") == 3 * 10 * FETCH
    assert training.driver.total("seconds") == 4 * (FETCH + STEP)
    assert training.driver.total("input_seconds") == 4 * FETCH


def test_two_evaluations_in_a_row_are_not_timed(training: Training) -> None:
    training.loader("train")
    training.warm_up()
    training.fetch("eval", times=3)
    training.fetch("test", times=3)
    training.fetch()
    training.step()
    assert training.driver.windows[-1]["seconds"] == FETCH + STEP


def test_a_new_loader_in_each_epoch_is_trained_on(training: Training) -> None:
    training.warm_up()
    for epoch in range(3):
        training.loader(f"train {epoch}")
        for _ in range(4):
            training.fetch(f"train {epoch}")
            training.step()
    assert training.examples == [8] * 12
    assert training.driver.total("paused_seconds") == 0
    assert training.driver.total("seconds") == 12 * (FETCH + STEP)


def test_evaluation_and_then_a_new_loader(training: Training) -> None:
    training.warm_up()
    for epoch in range(3):
        training.fetch("eval", times=5)
        for _ in range(4):
            training.fetch(f"train {epoch}")
            training.step()
    assert training.examples == [8] * 12
    assert training.driver.total("paused_seconds") == 3 * 5 * FETCH


def test_an_evaluation_before_a_batch_that_was_fetched_ahead(training: Training) -> None:
    """As where the last batch of an epoch is handed out after the evaluation: nothing shows where that ends."""
    training.loader("train")
    training.fetch()
    training.warm_up()
    for _ in range(3):
        training.fetch()
        training.step()
    training.fetch("eval", size=5, times=6)
    training.step()
    training.fetch(times=2)
    training.step()
    assert training.probe.loading.trained == {"train"}
    assert training.examples == [8] * 4
    assert training.driver.total("paused_seconds") == 6 * FETCH + STEP


def test_a_step_of_two_loaders_is_timed_whole_and_its_examples_are_not_known(training: Training) -> None:
    for name in ("labelled", "unlabelled"):
        training.loader(name)
    for _ in range(12):
        training.fetch("labelled")
        training.fetch("unlabelled")
        training.step()
    assert training.driver.ready["counted"] == "a step takes batches of 2 DataLoaders"
    assert training.driver.ready["examples_per_step"] is None
    assert training.examples == [None] * 4
    assert training.driver.total("paused_seconds") == 0
    assert training.driver.total("seconds") == 4 * (2 * FETCH + STEP)


def test_new_loaders_of_a_step_of_two_are_timed(training: Training) -> None:
    for epoch in range(4):
        for _ in range(6):
            training.fetch(f"labelled {epoch}")
            training.fetch(f"unlabelled {epoch}")
            training.step()
    assert training.driver.total("paused_seconds") <= 2 * (2 * FETCH + STEP)
    assert set(training.examples) == {None}


@pytest.mark.parametrize(("of_a_batch", "fetches", "number"), [(3, 9, 28), (5, 10, 52)])
def test_several_steps_that_follow_one_batch_are_timed_with_it(
    training: Training, of_a_batch: int, fetches: int, number: int
) -> None:
    """As where a GAN's critic takes several steps."""
    for epoch in range(3):
        training.loader(f"train {epoch}")
        for _ in range(4):
            training.fetch(f"train {epoch}")
            for _ in range(of_a_batch):
                training.step()
    assert training.driver.ready["counted"] == "several steps follow one batch"
    assert training.examples == [None] * number
    assert training.driver.total("seconds") == fetches * FETCH + number * STEP


def test_a_new_loader_in_each_epoch_after_a_step_that_was_skipped_at_first(training: Training) -> None:
    """As where a GradScaler begins with a scale that is too large: it looks as if a batch was fetched ahead."""
    training.fetch("train 0")
    for epoch in range(3):
        for _ in range(20):
            training.fetch(f"train {epoch}")
            training.step()
    assert len(training.examples) >= 60 - 8 - 2
    assert set(training.examples) == {8}


def test_a_warm_up_without_a_loader_comes_before_the_training(training: Training) -> None:
    training.loader("train")
    for _ in range(8):
        training.step()
    for _ in range(20):
        training.fetch()
        training.step()
    assert training.examples[-10:] == [8] * 10
    assert training.driver.total("seconds") >= 17 * (FETCH + STEP)


def test_evaluation_by_a_loader_of_a_training_without_one_is_not_timed(training: Training) -> None:
    for _ in range(8):
        training.step()
    for _ in range(10):
        training.fetch("eval", times=4)
        for _ in range(5):
            training.step()
    assert training.driver.total("input_seconds") == 0
    assert training.driver.total("paused_seconds") == 10 * (4 * FETCH + STEP)


def test_evaluation_by_a_loader_of_which_a_batch_was_taken_before_the_first_step(training: Training) -> None:
    training.fetch("eval")
    for _ in range(10):
        for _ in range(5):
            training.step()
        training.fetch("eval", times=4)
    # The first one comes before the first window, and no step follows the last.
    assert training.driver.total("paused_seconds") == 8 * (4 * FETCH + STEP)


@pytest.mark.parametrize(("counted", "stated"), [(70, 10), (1, 8)], ids=["graphs", "packed sequences"])
def test_batches_of_another_size_than_stated_are_not_counted(training: Training, counted: int, stated: int) -> None:
    training.loader("train", size=stated)
    for _ in range(10):
        training.fetch(size=counted)
        training.step()
    doubt = f"its batches hold {counted} examples, and its loader says {stated}"
    assert (training.driver.ready["counted"], training.driver.ready["examples_per_step"]) == (doubt, None)
    assert training.examples == [None, None]


def test_batches_that_become_larger_than_stated_are_in_doubt(training: Training) -> None:
    training.loader("train")
    training.warm_up()
    training.fetch(size=9)
    training.step()
    assert training.driver.windows[-1]["doubt"] == "its batches hold 9 examples, and its loader says 8"


def test_each_worker_of_an_iterable_dataset_may_end_with_a_partial_batch(training: Training) -> None:
    training.loader("train", workers=4)
    training.warm_up()
    for _ in range(2):
        training.fetch(size=3)
        training.step()
    assert training.examples == [3, 3]


def test_batches_without_a_step_are_skipped_and_not_counted(training: Training) -> None:
    """As where a GradScaler finds an infinity."""
    training.loader("train")
    training.warm_up()
    for number in range(20):
        training.fetch()
        if number % 4:
            training.step()
    assert training.examples == [8] * 15
    assert training.driver.total("skipped") == 20 - 15 - 2  # two may have been fetched ahead


def test_steps_that_come_to_hold_more_batches_are_in_doubt(training: Training) -> None:
    training.loader("train")
    training.warm_up()
    for _ in range(8):
        training.fetch(times=4)
        training.step()
    assert training.driver.windows[-1]["doubt"] == "its steps hold more batches now than at first, 1"


def test_batches_whose_size_is_not_known_make_a_step_unknown(training: Training) -> None:
    for _ in range(10):
        training.fetch(size=None)
        training.step()
    assert training.driver.ready["counted"] == "its batches have no tensor whose examples could be counted"
    assert training.examples == [None, None]


def test_ranks_whose_sampler_does_not_split_the_data_are_not_counted() -> None:
    loading = Loading()
    loading.add("train", Loader(0, 8, 1))
    for _ in range(4):
        loading.fetched("train", 8)
        loading.step(0.0)
    assert loading.in_a_step(1) == 8
    assert loading.in_a_step(2) is None
    assert loading.how(2) == "nothing shows that its 2 ranks train on different examples"


@pytest.mark.parametrize(
    ("workers", "untimed"), [(0, 2), (6, 3), (7, 4)], ids=["a tenth", "a batch of each worker", "also of a part"]
)
def test_the_first_steps_after_a_stop_are_not_timed(training: Training, workers: int, untimed: int) -> None:
    training.loader("train", workers=workers)
    training.driver.steps = 20
    for _ in range(8):
        training.fetch(times=2)
        training.step()
    training.driver.stops = True
    for _ in range(20 + untimed + 20):
        training.fetch(times=2)
        training.step()
    windows = training.driver.windows
    assert [(window["steps"], window["untimed"]) for window in windows] == [(20, 0), (20, untimed)]
    assert [window["seconds"] for window in windows] == [20 * (2 * FETCH + STEP)] * 2


def test_a_stop_right_after_the_answer_is_not_timed(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    training.loader("train")
    send, receive = training.driver.send, training.driver.receive

    def sends(message: Any) -> None:
        send(message)
        training.driver.holds = False  # the next request is there when the program goes on

    def stopped(seconds: float) -> Any:
        training.now += 1000
        training.driver.holds = True
        return receive(seconds)

    monkeypatch.setattr(training.driver, "send", sends)
    monkeypatch.setattr(training.driver, "receive", stopped)
    training.driver.holds = True
    training.warm_up(12)
    assert training.driver.total("seconds") == 4 * (FETCH + STEP)


def test_a_profile_is_of_later_steps_than_those_after_its_request(training: Training) -> None:
    training.loader("train")
    training.driver.holds = True
    training.warm_up()
    training.driver.traces = [10]
    training.warm_up(1)  # the window that was asked for before
    began = training.now
    training.warm_up(10 + 10)
    assert training.driver.sent[-1] == {"trace": {"steps": 10}}
    assert training.profiled == [began + 10 * (FETCH + STEP)]  # loaders had filled their buffers meanwhile
    training.warm_up(1)
    assert [window["steps"] for window in training.driver.windows] == [1, 1]


def test_a_hold_is_not_timed(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    training.loader("train")
    receive = training.driver.receive

    def late(seconds: float) -> Any:
        training.now += 1000
        return receive(seconds)

    monkeypatch.setattr(training.driver, "receive", late)
    training.driver.holds = True
    training.warm_up(12)
    assert training.driver.total("seconds") == 4 * (FETCH + STEP)


# Which source counts


def test_the_audit_event_wins_over_optimizers(training: Training) -> None:
    for _ in range(6):
        training.step(OPTIMIZER)
        training.step(EXPLICIT, examples=32)
    assert training.driver.ready["source"] == EXPLICIT
    assert training.examples == [32] * 3


def test_keras_wins_over_optimizers(training: Training) -> None:
    for _ in range(6):
        training.step(OPTIMIZER)
        training.step(KERAS, steps=10, examples=320)
    assert training.driver.ready["source"] == KERAS
    assert [window["steps"] for window in training.driver.windows] == [10] * 3


def test_an_audit_event_that_comes_late_ends_the_measurement(training: Training) -> None:
    training.warm_up(10)
    training.probe.told((32, None))
    late = f"the program tells its steps from step 3 on, after {OPTIMIZER}"
    assert training.said[-1] == f"ended {late}; next: tell them from the first step on"
    training.warm_up(10)
    assert len(training.driver.windows) == 2


def test_a_slow_optimizer_counts_before_many_of_its_steps(training: Training) -> None:
    for _ in range(4):
        training.now += 6
        training.step()
    assert training.driver.ready["steps"] == 3


def test_ranks_begin_with_the_same_step_however_long_it_takes(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for _ in range(8):
        training.now += 6
        training.step()
    assert training.driver.ready["steps"] == 8


@pytest.mark.parametrize(("told", "waits_for"), [((8, "loss"), "loss"), ((8,), "all arrays"), ((8, 0.5), "all arrays")])
def test_jax_is_waited_for_by_what_the_last_step_has_told(
    training: Training, monkeypatch: pytest.MonkeyPatch, told: tuple[Any, ...], waits_for: str
) -> None:
    """A loss of an earlier step would be ready long before."""
    waited: list[object] = []
    jax = SimpleNamespace(Array=str, live_arrays=lambda: "all arrays", block_until_ready=waited.append)
    monkeypatch.setitem(sys.modules, "jax", jax)
    frameworks.in_jax(SimpleNamespace(register_event_duration_secs_listener=lambda _: None), training.probe)
    for _ in range(4):
        training.probe.told((8, "an earlier loss"))
    training.probe.told(told)
    assert waited[-1] == waits_for


@pytest.mark.parametrize("told", [(), (None,), (None, None), (None, 0.5, "more")])
def test_the_events_arguments_may_be_left_out(training: Training, told: tuple[Any, ...]) -> None:
    for _ in range(5):
        training.probe.told(told)
    assert training.examples == [None, None]


@pytest.mark.parametrize(
    ("value", "loss"),
    [
        (0.5, 0.5),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        ("high", None),
        ([1, 2], None),
        (10**400, None),
        (True, 1),
    ],
)
def test_a_value_that_is_no_number_is_no_loss(training: Training, value: Any, loss: Any) -> None:
    for _ in range(5):
        training.probe.told((8, value))
    assert [window["loss"] for window in training.driver.windows] == [loss, loss]


@pytest.mark.parametrize("examples", ["many", -1, 6.5, float("nan"), float("inf"), 10**400, [8]])
def test_examples_that_are_no_number_end_the_measurement_and_not_the_program(training: Training, examples: Any) -> None:
    for _ in range(5):
        training.probe.told((8, None))
    training.probe.told((examples, None))
    assert training.said[-1].startswith("ended ")
    assert training.probe.source == ""


def test_a_loss_of_pytorch_keeps_no_graph(training: Training) -> None:
    training.probe.told((8, SimpleNamespace(detach=lambda: 0.25)))
    for _ in range(4):
        training.probe.told((8, SimpleNamespace(detach=lambda: 0.25)))
    assert training.driver.windows[-1]["loss"] == 0.25


def test_a_driver_that_is_gone_lets_the_program_go_on(training: Training) -> None:
    training.driver.most = 2
    training.warm_up(20)
    assert training.said[-1] == "ended Gone: it has closed the connection"
    assert len(training.driver.windows) == 2


def test_a_program_that_makes_a_loader_for_each_epoch_does_not_fill_the_memory(training: Training) -> None:
    training.loader("train")
    training.warm_up(9)
    for number in range(2000):
        training.loader(f"evaluation {number}")
    assert len(training.probe.loading.loaders) == 1024
    assert "train" in training.probe.loading.loaders


# Threads


ONE_AT_A_TIME = "measure one training at a time, in one thread"


def in_a_thread(call: Callable[[], None], until: threading.Event | None = None) -> threading.Thread:
    done = threading.Event()

    def run() -> None:
        call()
        done.set()
        if until is not None:
            until.wait()

    thread = threading.Thread(target=run, name="trains")
    thread.start()
    done.wait()
    if until is None:
        thread.join()
    return thread


def test_steps_of_two_threads_end_the_measurement(training: Training) -> None:
    training.warm_up(9)
    in_a_thread(training.step)
    training.warm_up(2)
    assert training.said[-1] == "ended two threads take steps, MainThread and trains; next: " + ONE_AT_A_TIME
    assert len(training.driver.windows) == 1


def test_a_training_that_moves_to_another_thread_ends_the_measurement(training: Training) -> None:
    training.warm_up(9)
    in_a_thread(lambda: training.warm_up(20))
    assert training.said[-1] == "ended two threads take steps, MainThread and trains; next: " + ONE_AT_A_TIME


def test_two_trainings_in_two_threads_end_the_measurement_also_with_an_optimizer_each(training: Training) -> None:
    training.warm_up(9)
    in_a_thread(training.probe.other_step)
    training.warm_up(1)
    assert training.said[-1] == "ended two threads take steps, MainThread and trains; next: " + ONE_AT_A_TIME


def test_a_thread_takes_over_from_one_that_has_ended(training: Training) -> None:
    training.loader("train")
    in_a_thread(lambda: training.warm_up(9))
    in_a_thread(lambda: training.warm_up(3))
    assert training.examples == [8] * 4


def test_a_programs_own_loading_thread_is_none_of_its_input_wait(training: Training) -> None:
    training.loader("train")
    end = threading.Event()
    threads = []
    for _ in range(10):
        threads.append(in_a_thread(training.fetch, end))
        training.step()
    end.set()
    for thread in threads:
        thread.join()
    assert training.examples == [8, 8]
    assert training.driver.total("input_seconds") == 0


# Laws

EVENTS = st.lists(
    st.sampled_from([("fetch", 8), ("fetch", 5), ("eval", 8), ("other", 3), ("step", 0), ("pause", 0), ("resume", 0)]),
    max_size=60,
)


@given(EVENTS, st.integers(1, 3))
def test_times_and_counts_of_any_sequence_are_consistent(events: list[tuple[str, int]], of_window: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        training = Training(monkeypatch)
        training.loader("train")
        training.driver.steps = of_window
        training.warm_up()
        for event, size in events:
            if event == "step":
                training.step()
            elif event in ("pause", "resume"):
                getattr(training.probe, event)()
            else:
                training.fetch({"fetch": "train"}.get(event, event), size)
        training.probe.source = ""
    for window in training.driver.windows:
        assert window["steps"] == of_window
        assert window["seconds"] > 0
        assert min(window[name] for name in ("paused_seconds", "input_seconds", "between_seconds", "skipped")) >= 0
        assert window["examples"] is None or window["examples"] >= 0
    seconds = training.driver.total("seconds") + training.driver.total("paused_seconds")
    assert seconds <= training.now - 8 * (FETCH + STEP)


class Tensor:
    def __init__(self, examples: int) -> None:
        self.shape = (examples, 4)

    def dim(self) -> int:
        return 2

    def size(self, dimension: int) -> int:
        return self.shape[dimension]


def windows_of_loaders(events: list[tuple[str, int]], of_window: int, batch: type) -> list[Any]:
    """The windows of a program whose loaders give such batches; only lists take the short way."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        training = Training(monkeypatch)
        training.driver.steps = of_window
        monkeypatch.setattr(frameworks, "_clock", lambda: training.now)
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor))
        monkeypatch.setitem(sys.modules, "tfperf_steps", steps)

        class Fetches:
            def __init__(self, loader: Any) -> None:
                self.size = 8

            def __next__(self) -> Any:
                training.now += FETCH
                return batch([Tensor(self.size)])

        frameworks.in_torch_loader(SimpleNamespace(_BaseDataLoaderIter=Fetches), training.probe)
        facts = {"batch_sampler": None, "sampler": None, "batch_size": 8, "num_workers": 0}
        loaders = {name: Fetches(SimpleNamespace(**facts)) for name in ("fetch", "eval", "other")}
        for event, size in [("fetch", 8), ("step", 0)] * 8 + events:
            if event == "step":
                training.step()
            elif event in ("pause", "resume"):
                getattr(training.probe, event)()
            else:
                loaders[event].size = size
                next(loaders[event])  # type: ignore[call-overload]
        training.probe.source = ""
    return training.driver.windows


@given(EVENTS, st.integers(1, 3))
def test_steps_that_are_alike_are_measured_as_any_others(events: list[tuple[str, int]], of_window: int) -> None:
    assert windows_of_loaders(events, of_window, list) == windows_of_loaders(events, of_window, tuple)


@given(
    epochs=st.lists(st.lists(st.integers(1, 8), min_size=4, max_size=12), min_size=1, max_size=4),
    of_a_step=st.integers(1, 4),
    ahead=st.booleans(),
    is_new=st.booleans(),
    evaluates=st.booleans(),
)
def test_the_examples_of_all_windows_are_those_that_were_trained_on(
    epochs: list[list[int]], of_a_step: int, ahead: bool, is_new: bool, evaluates: bool
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        training = Training(monkeypatch)
        trained = 0
        for _ in range(8):
            training.fetch(times=of_a_step)
            training.step()
        for number, sizes in enumerate(epochs):
            source = f"train {number}" if is_new else "train"
            whole = sizes[: len(sizes) // of_a_step * of_a_step]
            fetched = iter(whole)
            if ahead:
                training.fetch(source, next(fetched, 8))
            for step in range(len(whole) // of_a_step):
                for size in [size for _, size in zip(range(of_a_step), fetched, strict=False)]:
                    training.fetch(source, size)
                training.step()
                trained += sum(whole[step * of_a_step : (step + 1) * of_a_step])
            if evaluates:
                training.fetch("eval", 8, times=3)
        training.probe.source = ""
    assert training.driver.total("examples") == trained
    assert training.driver.total("skipped") == 0
