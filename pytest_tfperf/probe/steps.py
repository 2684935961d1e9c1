"""Counts and times the steps of a training in its own process, and holds it between two windows.

A *step* is told by the program (`sys.audit("tfperf.step", examples, value)`), by Keras' `fit`, or by PyTorch's
optimizers; the best of these that is seen during the first steps counts. The driver is answered by the thread that
trains, at a step's end. While there is no request the training waits there: it is *held*.

Any Python from 3.8 runs this file, without this package.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Any, NamedTuple

EXPLICIT, KERAS, OPTIMIZER = "the audit event", "Keras", "PyTorch's optimizer"
_RANKING = (EXPLICIT, KERAS, OPTIMIZER)
_FIRST_STEPS = 3  # of one source, before it counts
_PATIENT_STEPS = 8  # of an optimizer: others may have several of its steps in one of theirs
_PATIENT_SECONDS = 10.0
_FEW_OTHERS, _MANY_OTHERS = 20, 1000  # steps of other optimizers in a row; a GAN's critic takes five
_MOST_BATCHES = 4096  # of a step, that are noted
_MOST_LOADERS = 1024  # that are known; some programs make one for each epoch
_LARGER_STEPS = 8  # in a row: more than a GradScaler skips but in its first steps
_MOST_EXAMPLES = 2**53
_COLD_PART = 10  # one in so many of a window's steps
_LOOKED_AHEAD = 2  # batches, beyond those of a step, that a loop may fetch before it trains on them

_clock = time.perf_counter


class Probe:
    """The steps of this process.

    Args:
        address: host, port and key of the driver; empty where windows are noted only, and nothing is held.
        say: takes what was seen, for errors.
    """

    def __init__(self, address: tuple[Any, ...], say: Callable[[str], None]) -> None:
        self._address = address
        self.say = say
        self.hooks: list[Callable[[], None]] = []  # wait until the devices have done all that was asked of them
        self.counters: dict[str, Callable[[], int]] = {}  # of what happened since the start, by figure
        self.readers: dict[str, Callable[[], Any]] = {}  # figures by name
        self.loading = Loading()
        os.register_at_fork(after_in_child=self._forget)
        self._forget(first=True)

    def _forget(self, first: bool = False) -> None:
        """Begin anew, as a forked child must: it may be the one that trains."""
        if not first and self._link is not None:
            self._link.close()
        self._link: Any = None
        self.source: str | None = None  # that counts; "" for none any more
        self._seen: dict[str, int] = {}
        self._first_at: dict[str, float] = {}  # the end of each source's first step
        self.thread: int | None = None  # that trains
        self._others_in_a_row = 0
        self._value: Any = None  # the last that came with a step, such as the loss
        self.latest: Any = None  # that of the last step
        self._slowdown, self._hold_seconds = 0.0, 60.0
        self._total = 0
        self._first_counts: dict[str, int] = {}  # at the end of the first step
        self._until = self._wanted = self._untimed = 0
        self._started: float | None = None
        self._profiler: Any = None
        self._paused_at: float | None = None
        self._paused_by: Any = None  # the source of the batches
        self.optimizer: Any = None  # a weak reference to the one whose steps count
        self.parameter = 0  # the id of the first that it steps on
        self.other_groups: set[int] = set()  # ids of the first ones of groups whose steps don't count
        self.loading.forget()
        self._reset()

    def _reset(self) -> None:
        """Begin a window's counts."""
        self._steps = 0
        self._examples: int | None = 0
        self._paused = self.loading.waited = self.loading.between = 0.0
        self._others = 0
        self._skipped = self.loading.skipped

    # What frameworks tell

    def told(self, arguments: tuple[Any, ...]) -> None:
        """Take the program's own event: at most its examples, and a value such as the loss."""
        examples, value = (*arguments, None, None)[:2]
        # A loss of PyTorch would keep the step's whole graph in memory.
        if type(value) is not float and hasattr(value, "detach"):
            value = value.detach()
        self.step(EXPLICIT, examples=examples, value=value)

    def step(self, source: str, steps: int = 1, examples: Any = None, value: Any = None) -> None:
        """A training step has ended, or several that ran as one; the program never fails for it."""
        self._others_in_a_row = 0
        try:
            if source is not self.source and not self._counts(source):
                return
            if self.thread != get_ident():
                if self._is_another_thread():
                    return
                self.thread = get_ident()  # the one that trained has ended
            now, loading = _clock(), self.loading
            held: int | None
            if loading.regular is not None and loading.fetches == loading.usual:  # it is like the steps before it
                held, loading.last_at, loading.fetches = loading.of_last, now, 0
            else:
                held = loading.step(now)
            self._total += steps
            if self._paused_at is not None:
                was_training = self._paused_by in loading.trained
                self.resume(was_training)
                if not was_training:  # nothing shows where in this step training went on, so it does not count
                    return
            self._steps += steps
            self.latest = value
            if value is not None:
                self._value = value
            if examples is None:
                examples = held if steps == 1 else None
            else:
                told, examples = examples, int(examples)
                if float(told) != examples or not 0 <= examples <= _MOST_EXAMPLES:
                    self._end(f"a step told {str(told)[:40]} examples, which is no number of them")
                    return
            if examples is None or self._examples is None:
                self._examples = None
            else:
                self._examples += examples
            if self._steps >= self._until:
                self._attend()
        except Exception as error:  # the driver is gone, or a device failed: the program goes on without a probe
            self._end(f"{type(error).__name__}: {error}")

    def _is_another_thread(self) -> bool:
        """Whether the thread that trains is another one, and still there; then no step counts any more."""
        if self.thread == get_ident() or self.thread not in sys._current_frames():
            return False
        names = [thread.name for thread in threading.enumerate() if thread.ident in (self.thread, get_ident())]
        self._end(f"two threads take steps, {' and '.join(names)}; next: measure one training at a time, in one thread")
        return True

    def other_step(self) -> None:
        """Another optimizer than the one that counts has taken a step."""
        if self.source is OPTIMIZER and self._is_another_thread():
            return
        self._others += 1
        self._others_in_a_row += 1
        if self.source is None and self._others_in_a_row >= _FEW_OTHERS:
            self.optimizer = None  # it took a few steps before the training
            self._seen.pop(OPTIMIZER, None)
        elif self._others_in_a_row >= _MANY_OTHERS and self.source is OPTIMIZER:
            self._end("the optimizer whose steps were counted takes none any more, and another does")

    def fetching(self, source: Any, now: float) -> None:
        """A batch is about to be fetched."""
        loading = self.loading
        if self._started is None or self.source is None:
            return
        if self._paused_at is not None and source != self._paused_by:
            self.resume()
        if loading.is_foreign(source):
            self.pause(source)
        elif loading.last_at is not None and get_ident() == self.thread:
            loading.between += now - loading.last_at
            loading.last_at = None

    def fetched(self, source: Any, size: int | None, seconds: float) -> None:
        """A batch of so many examples was fetched; None where they can't be counted."""
        is_own = self.thread == get_ident()
        if not is_own and self.thread is not None:
            self.loading.is_shared = True
            self.loading.end_regular()
        self.loading.fetched(source, size)
        if self._paused_at is None and is_own:
            self.loading.waited += seconds

    def pause(self, source: Any = None) -> None:
        """What follows is no training, such as an evaluation: stop the clock."""
        if self._started is not None and self._paused_at is None and self.thread == get_ident():
            self.loading.end_regular()
            self._synchronise()
            self._paused_at, self._paused_by = _clock(), source

    def resume(self, was_training: bool = False) -> None:
        """Training goes on, or never paused: the first batch of a new data set was taken for an evaluation's."""
        if self._paused_at is not None and self.thread == get_ident():
            if not was_training:
                self._synchronise()
                self._paused += _clock() - self._paused_at
            self._paused_at = None
            self.loading.last_at = None

    # Which source counts

    def _counts(self, source: str) -> bool:
        """Whether this source's steps count from now on."""
        if self.source == "":
            return False
        if self.source is not None:
            if source is EXPLICIT:  # it was to be preferred, and its first step came late
                late = f"the program tells its steps from step {self._total} on, after {self.source}"
                self._end(f"{late}; next: tell them from the first step on")
            return False
        now = _clock()
        seen = self._seen[source] = self._seen.get(source, 0) + 1
        if seen == 1:
            self._synchronise()
            self._first_at[source] = _clock()
            self._first_counts = self._counts_so_far()
            self.say(f"step of {source}")
            self.loading.restart()
        best = next(each for each in _RANKING if each in self._seen)
        # Ranks that train together must begin at the same step.
        hurries = now - self._first_at[best] >= _PATIENT_SECONDS and rank_of_process()[1] == 1
        patient = best is OPTIMIZER and seen < _PATIENT_STEPS and not hurries
        if source is not best or seen < _FIRST_STEPS or patient:
            if source is best:
                self.loading.step(now)
            return False
        self.source, self.thread = source, get_ident()
        return True

    # The driver's requests

    def _attend(self) -> None:
        """End the window, answer, and wait for the next request."""
        self._synchronise()
        now = _clock()
        # Looked for before the answer is sent: the driver may stop this process at once when it has it.
        was_held = self._link is None or not self._link.has_message()
        if self._link is None:
            self._call()
        elif self._started is None:  # the steps after a stop are over that are not timed
            self._begin(_clock())
            return
        elif self._profiler is not None:
            self._link.send({"trace": self._profiler.end(self._steps)})
            self._profiler = None
        else:
            window = self._window(now)
            now += window.pop("slowed")
            self._link.send({"window": window})
        self._started = None
        while True:
            request = self._link.receive(self._hold_seconds)
            if "trace" in request:
                profile = sys.modules["sitecustomize_of_tfperf"].load("tfperf_profile")
                self._profiler = profile.Profiler(prefers_torch=self.source is OPTIMIZER)
                request = {"steps": request["trace"]}
            if "steps" in request:
                break
            was_held = True
            if "figures" in request:
                self._link.send({"figures": {name: self._figure(name) for name in request["figures"]}})
        self._wanted = int(request["steps"])
        self._untimed = self._steps_to_leave_out() if request.get("was_stopped") else 0
        if self._profiler is not None:
            self._untimed = self._wanted  # loaders have filled their buffers while it was made
        if self._untimed:
            self._reset()
            self._until = self._untimed
        else:
            # The answer itself is part of the time, unless the program was held.
            self._begin(_clock() if was_held else now)

    def _steps_to_leave_out(self) -> int:
        """How many steps after a stop are not timed: caches are cold, and what workers asked a disk for is there."""
        loading = self.loading
        return max(self._wanted // _COLD_PART, -(-loading.in_flight // max(1, loading.usual or 1)))

    def _begin(self, at: float) -> None:
        self._reset()
        self._until = self._wanted
        self.loading.last_at = None
        if self._profiler is not None:
            self._profiler.begin()
            at = _clock()
        self._started = at

    def _call(self) -> None:
        # Imported only now: most of a program's processes take no step.
        link = sys.modules["sitecustomize_of_tfperf"].load("tfperf_link")
        self._link = link.Link(*self._address) if self._address else link.Notes(self.say)
        rank, ranks = rank_of_process()
        self._link.send({"hello": "probe", "rank": rank, "ranks": ranks, "pid": os.getpid()})
        job = self._link.receive(10.0)
        self._slowdown, self._hold_seconds = float(job["slowdown"]), float(job["hold_seconds"])
        self._link.send({"ready": self._ready(ranks)})

    def _ready(self, ranks: int) -> dict[str, Any]:
        loading, source = self.loading, self.source
        examples = None if not self._examples else self._examples / max(1, self._steps)
        if examples is not None and source is not EXPLICIT and source is not KERAS:
            examples = loading.in_a_step(ranks)
        return {
            "source": source,
            "steps": self._seen[source or ""],
            "examples_per_step": examples,
            "counted": loading.how(ranks) if source is OPTIMIZER else "",
            "fetches": bool(loading.trained),
            "batches": loading.usual,
            "first_step_at": self._first_at[source or ""],
            "counts": self._first_counts,
            "environment": versions(),
        }

    def _window(self, now: float) -> dict[str, Any]:
        assert self._started is not None
        seconds = now - self._started - self._paused
        slowed = seconds * self._slowdown / (1 - self._slowdown)
        if slowed:
            time.sleep(slowed)
        try:
            loss = None if self._value is None else float(self._value)
        except Exception:  # a value of another kind, or a buffer that was donated
            loss = None
        return {
            "steps": self._steps,
            "untimed": self._untimed,
            "seconds": seconds + slowed,
            "slowed": slowed,
            "loss": loss if loss is None or loss - loss == 0 else str(loss),
            "examples": self._examples,
            "input_seconds": self.loading.waited,
            "between_seconds": self.loading.between,
            "paused_seconds": self._paused,
            "skipped": self.loading.skipped - self._skipped,
            "others": self._others,
            "doubt": self.loading.doubt,
            "counts": self._counts_so_far(),
        }

    def _counts_so_far(self) -> dict[str, int]:
        return {name: count() for name, count in self.counters.items()}

    def _figure(self, name: str) -> Any:
        reader = self.readers.get(name)
        return None if reader is None else reader()

    def _synchronise(self) -> None:
        if not self._address:  # it must not change what others measure
            return
        try:
            for wait in self.hooks:
                wait()
        except Exception as error:
            self._end(f"its device can't be waited for: {error!r}")

    def _end(self, why: str) -> None:
        """Count no more; the program goes on. The reason may end with "; next: " and what to do."""
        self.say(f"ended {why}")
        self.source = ""
        if self._link is not None:
            self._link.close()


class Loader(NamedTuple):
    """What a DataLoader states."""

    workers: int
    size: int | None  # of a batch
    shards: int  # into which its sampler splits the data


class Loading:
    """The batches that were fetched, and how many of them a step holds."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.last_at: float | None = None  # the last step's end, until a batch is fetched
        self.is_shared = False  # another thread than the one that trains fetches batches
        self.waited = self.between = 0.0  # in a window: for batches, and from a step's end until one is fetched
        self.skipped = 0  # batches that no step followed
        self.loaders: dict[Any, Loader] = {}  # by source
        self.trained: set[Any] = set()  # the sources of the batches that steps follow
        self._last: Any = None
        self._sizes: deque[int | None] = deque(maxlen=_MOST_BATCHES)
        self._foreign: deque[int | None] = deque(maxlen=_MOST_BATCHES)  # of the last source, since another one's
        self.of_last = 0  # examples of the last step
        self._of_source: dict[Any, int] = {}  # batches of each source since the last step, while it learns
        self._since = 0  # batches since the last step
        self.regular: Any = None  # the source while steps are alike: they hold `usual` batches of the stated size
        self.regular_size: int | None = None
        self.fetches = 0  # since the last step, while steps are alike
        self.restart()

    def restart(self) -> None:
        """Learn anew how many batches a step holds: other steps count from now on."""
        self.end_regular()
        self.doubt = ""  # why examples can't be counted
        self._short = 0  # batches in a row that hold less than their loader says
        self.usual: int | None = None  # batches in a step; None until steps have shown it, 0 for none
        self._first: list[dict[Any, int]] = []  # batches of each source before each of the first steps
        self._ahead = 0  # the fewest batches that were left after a step that fetched some
        self._larger = 0  # steps in a row that hold more batches than usual
        self._single = 0  # where several steps follow one batch: how much more often one came than several
        self._foreign_steps = 0  # in a row, each after batches of a source that is not trained on
        self._foreign.clear()

    def add(self, source: Any, loader: Loader) -> None:
        """Note what a DataLoader states."""
        self.loaders[source] = loader
        if len(self.loaders) > _MOST_LOADERS:
            del self.loaders[next(other for other in self.loaders if other not in self.trained)]

    @property
    def in_flight(self) -> int:
        """Batches that its loaders' workers load at one time."""
        return sum(self.loaders[source].workers for source in self.trained if source in self.loaders)

    def is_foreign(self, source: Any) -> bool:
        """Whether batches of this source are followed by no step, as those of an evaluation."""
        return self.usual is not None and source not in self.trained

    def fetched(self, source: Any, size: int | None) -> None:
        """Note a batch."""
        if source is self.regular:
            if size == self.regular_size:
                self.fetches += 1
                return
            self.end_regular()
        if source != self._last:
            self._foreign.clear()
            self._last = source
        if self.usual is None:
            self._of_source[source] = self._of_source.get(source, 0) + 1
        elif source not in self.trained:
            self._foreign.append(size)
            return
        self._since += 1
        self._sizes.append(size)
        stated = self._stated(source)
        if size == stated:
            self._short = 0
        elif stated is not None and size is not None:
            self._short += 1
            # The last batch of an epoch holds less, and with an IterableDataset the last one of each worker.
            if size > stated or self._short > 1 + self.loaders[source].workers:
                self.doubt = f"its batches hold {size} examples, and its loader says {stated}"

    def step(self, now: float) -> int | None:
        """Note the end of a step that is not like the ones before it; returns its examples, None if not known."""
        self.last_at = now
        self.end_regular()
        since, self._since = self._since, 0
        if self.usual is None:
            of_source, self._of_source = self._of_source, {}
            self._learn(of_source)
        elif not since:
            self._look_for_a_new_source()
        elif not self.usual:
            self._single += 1 if since == 1 else -1
            if self._single < 0:  # an evaluation, of whose loader a batch was taken before the first step
                self.trained = set()
        usual, left = self.usual, self._sizes
        if not usual:
            return None
        sizes = [left.popleft()] if usual == 1 and left else [left.popleft() for _ in range(min(usual, len(left)))]
        if since and len(left) < self._ahead:
            self._ahead = len(left)
        if len(left) > _LOOKED_AHEAD * usual:
            self._drop(_LOOKED_AHEAD * usual)
        if since <= usual:
            self._larger = 0
        else:
            self._larger += 1
            if self._larger >= _LARGER_STEPS:
                self.doubt = f"its steps hold more batches now than at first, {usual}"
        if self.doubt or None in sizes:
            return None
        self.of_last = sum(size or 0 for size in sizes)
        if since == usual and len(self.trained) == 1 and self._last in self.trained and not self.is_shared:
            stated = self._stated(self._last)
            if {*sizes, *left} == {stated}:
                self.regular, self.regular_size = self._last, stated
        return self.of_last

    def end_regular(self) -> None:
        """Note the batches since the last step, which is not like the ones before it, or may not be."""
        if self.regular is not None:
            self.regular = None
            self._since, self.fetches = self.fetches, 0
            self._sizes.extend([self.regular_size] * self._since)

    def _stated(self, source: Any) -> int | None:
        """The size of a batch that a loader states."""
        loader = self.loaders.get(source)
        return None if loader is None else loader.size

    def _learn(self, since: dict[Any, int]) -> None:
        """Take one of the first steps, and the batches before it."""
        first = self._first
        first.append(since)
        if len(first) < _FIRST_STEPS:
            return
        sources = {source for batches in first for source in batches}
        # An evaluation between two of them is none of their training.
        often = {source for source in sources if sum(source in batches for batches in first) > len(first) // 2}
        # Several steps may follow one batch; an evaluation takes more batches at a time.
        self.trained = often or {source for batches in first for source, n in batches.items() if n == 1}
        counts = [sum(n for source, n in batches.items() if source in often or not often) for batches in first]
        self.usual = sorted(counts)[len(counts) // 2]
        ahead = sum(counts) - len(counts) * self.usual
        self._ahead = ahead if 0 < ahead <= _LOOKED_AHEAD * self.usual else 0
        while len(self._sizes) > self.usual + self._ahead:
            self._sizes.popleft()
        if len(self.trained) > 1:
            self.doubt = f"a step takes batches of {len(self.trained)} DataLoaders"

    def _look_for_a_new_source(self) -> None:
        """Before this step no batch was fetched but of a source that is not trained on, or none at all."""
        if not self._foreign:
            self._foreign_steps = 0
        elif self.trained and not self.usual and len(self._foreign) == 1:
            self.trained = {self._last}  # a new loader, of which several steps follow a batch
        elif not self.usual:
            # A warm-up without a loader comes before the training, or an evaluation with one between its steps.
            self._foreign_steps += 1
            if self._foreign_steps >= _FIRST_STEPS:
                self.restart()
        elif self._ahead < self.usual or len(self._sizes) < self.usual:
            # No evaluation, before which the step's own batches were fetched.
            if len(self.trained) > 1:
                self.restart()
            else:  # a new loader, as some programs make for each epoch
                self.trained = {self._last}
                self._drop(max(0, self.usual - len(self._foreign)))
                self._sizes.extend(self._foreign)
        self._foreign.clear()

    def _drop(self, most: int) -> None:
        """Keep so many of the last batches that were fetched; no step followed the others."""
        while len(self._sizes) > most:
            self._sizes.popleft()
            self.skipped += 1

    def _is_split(self, ranks: int) -> bool:
        shards = [self.loaders[source].shards for source in self.trained if source in self.loaders]
        return ranks == 1 or (bool(shards) and all(number == ranks for number in shards))

    def in_a_step(self, ranks: int) -> int | None:
        """Examples in a step of this process; None where they are not known."""
        if self.doubt or not self.of_last or not self._is_split(ranks):
            return None
        return self.of_last

    def how(self, ranks: int) -> str:
        """How examples are counted, or why not."""
        if self.doubt:
            return self.doubt
        if not self.usual:
            return "several steps follow one batch" if self.trained else "no DataLoader of PyTorch gave its batches"
        if not self._is_split(ranks):
            return f"nothing shows that its {ranks} ranks train on different examples"
        if not self.of_last:
            return "its batches have no tensor whose examples could be counted"
        batches = "a batch" if self.usual == 1 else f"{self.usual} batches"
        return f"a step holds {batches} of the DataLoader, {self.of_last} examples"


def rank_of_process() -> tuple[int, int]:
    """This process' place among those that train together, and their number."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    for rank, ranks in (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")):
        if os.environ.get(rank, "").isdigit() and os.environ.get(ranks, "").isdigit():
            return int(os.environ[rank]), int(os.environ[ranks])
    return 0, 1


def versions() -> dict[str, str]:
    """The versions of what trains."""
    import platform

    names = [
        name for name in ("torch", "jax", "keras", "tensorflow", "lightning", "transformers") if name in sys.modules
    ]
    known = {name: str(getattr(sys.modules[name], "__version__", "")) for name in names}
    return {"python": platform.python_version(), **{name: version for name, version in known.items() if version}}
