"""Where frameworks tell their steps, batches and figures; each function is called once its module is imported.

Any Python from 3.8 runs this file, without this package.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any

_clock = time.perf_counter


# PyTorch


def in_torch_optim(module: Any, probe: Any) -> None:
    """`torch.optim.optimizer`: every optimizer's step, also of the user's own classes (hooks since PyTorch 2.0)."""
    source = sys.modules["tfperf_steps"].OPTIMIZER
    depth = [0]

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if depth[0]:  # it is inside of another optimizer's step, or an earlier step has raised
            depth[0] = _depth(sys._getframe(1))
        depth[0] += 1

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        depth[0] -= 1
        if depth[0] > 0:  # an optimizer inside of another
            return
        depth[0] = 0
        try:
            parameter = id(optimizer.param_groups[0]["params"][0])
        except (AttributeError, LookupError, TypeError):
            parameter = 0
        counts = probe.optimizer and probe.optimizer()
        if counts is None:  # the first that steps, or the one that counted is gone
            counts, probe.optimizer = optimizer, weakref.ref(optimizer)
            probe.parameter, probe.other_groups = parameter, set()
        # DeepSpeed's ZeRO lets the optimizer step once for each group of parameters, from the first step on.
        if probe.source is None and parameter != probe.parameter:
            probe.other_groups.add(parameter)
        if counts is optimizer and parameter not in probe.other_groups:
            probe.step(source)
        else:
            probe.other_step()

    module.register_optimizer_step_pre_hook(before)
    module.register_optimizer_step_post_hook(after)
    for name in ("recompiles", "compilations", "graph_breaks"):
        probe.counters.setdefault(name, lambda: 0)  # until torch.compile is used
    probe.hooks.append(_wait_for_cuda)
    probe.readers["peak_memory"] = _allocated


def _depth(frame: Any) -> int:
    """The number of other calls of this frame's function that are running."""
    code, depth = frame.f_code, 0
    while frame.f_back is not None:
        frame = frame.f_back
        depth += frame.f_code is code
    return depth


def in_dynamo(module: Any, probe: Any) -> None:
    """`torch._dynamo`: what torch.compile does, by counters that are not public."""
    # Where a program compiles its optimizer's step, our hooks would be compiled, too. `torch._dynamo.disable` keeps
    # them out as well, and costs 10 us a call.
    rules = sys.modules.get("torch._dynamo.trace_rules") or sys.modules["torch._dynamo.skipfiles"]  # before 2.2
    for name in ("tfperf_frameworks", "tfperf_steps"):
        rules.add(name)
    counters = sys.modules["torch._dynamo.utils"].counters
    probe.counters["recompiles"] = lambda: int(counters["stats"].get("unique_graphs", 0))
    probe.counters["compilations"] = probe.counters["recompiles"]
    probe.counters["graph_breaks"] = lambda: int(sum(counters["graph_break"].values()))


def _wait_for_cuda() -> None:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized() and not cuda.is_current_stream_capturing():
        for device in range(cuda.device_count()):
            if cuda.memory_allocated(device):
                cuda.synchronize(device)


def _allocated() -> int | None:
    """The most bytes of tensors on a GPU; None on CPUs."""
    cuda = sys.modules["torch"].cuda
    if not (cuda.is_available() and cuda.is_initialized()):
        return None
    return int(max(cuda.max_memory_allocated(device) for device in range(cuda.device_count())))


def in_torch_loader(module: Any, probe: Any) -> None:
    """`torch.utils.data.dataloader`: each batch that a DataLoader gives."""
    iterator = module._BaseDataLoaderIter  # its name is not public
    begin, following = iterator.__init__, iterator.__next__
    tensor = sys.modules["torch"].Tensor
    sources = itertools.count()
    loader_facts = sys.modules["tfperf_steps"].Loader
    loading = probe.loading

    def __init__(self: Any, loader: Any) -> None:
        begin(self, loader)
        sampler = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
        size = loader.batch_size or getattr(sampler, "batch_size", None)
        if getattr(sampler, "split_batches", False):  # of accelerate: each rank takes its part of every batch
            size //= sampler.num_processes
        # Each loader has a number of its own: evaluation may read the same data set by another one, and ids come again.
        source = self._tfperf_source = loader.__dict__.setdefault("_tfperf_source", (os.getpid(), next(sources)))
        self._tfperf_facts = loader_facts(loader.num_workers, size if isinstance(size, int) else None, _shards(loader))
        probe.loading.add(source, self._tfperf_facts)

    def __next__(self: Any) -> Any:
        source = self._tfperf_source
        began = _clock()
        # Nothing is called where steps are alike: in a fast training each call takes microseconds.
        is_own = get_ident() == probe.thread
        if source is not loading.regular or not is_own:
            probe.fetching(source, began)
        elif loading.last_at is not None:
            loading.between += began - loading.last_at
            loading.last_at = None
        batch = following(self)
        first: Any = batch[0] if type(batch) is list and batch else None
        is_alike = type(first) is tensor and first.dim() and first.size(0) == loading.regular_size
        if is_alike and source is loading.regular and is_own:
            loading.fetches += 1
            loading.waited += _clock() - began
        else:
            size = _examples(batch, tensor, is_stated=bool(self._tfperf_facts.size)) or None
            probe.fetched(source, size, _clock() - began)
        return batch

    iterator.__init__, iterator.__next__ = __init__, __next__


def _shards(loader: Any) -> int:
    """The number of ranks among which a loader's sampler splits its data, as PyTorch and accelerate name it."""
    sampler: Any = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    for _ in range(5):
        for name in ("num_replicas", "num_processes"):
            number = getattr(sampler, name, None)
            if isinstance(number, int):
                return number
        sampler = getattr(sampler, "sampler", None) or getattr(sampler, "batch_sampler", None)
    return 1


def _examples(batch: Any, tensor: Any, is_stated: bool, depth: int = 4) -> int | None:
    """The examples in a batch, the first dimension of its first tensor; None without one, 0 where nobody knows.

    Where the loader states no batch size, a tensor of one dimension may be a single example.
    """
    try:
        if isinstance(batch, tensor):
            if batch.dim() > (0 if is_stated else 1):
                return int(batch.size(0))
            return None if is_stated else 0
        if hasattr(batch, "values") and hasattr(batch, "keys"):
            batch = batch.values()
        elif not isinstance(batch, (list, tuple)):
            return None
        parts = itertools.islice(batch, 2 * depth) if depth else ()
        sizes = (_examples(part, tensor, is_stated, depth - 1) for part in parts)
        return next((size for size in sizes if size is not None), None)
    except Exception:  # a class of the program's own, whose methods mean something else
        return None


# Keras


def in_keras_fit(module: Any, probe: Any) -> None:
    """`keras.src.callbacks.callback_list`: `fit` of every backend tells its batches here, in its own thread.

    A callback of ours would not do: Keras calls those that it takes for safe in a pool of threads.
    """
    source = sys.modules["tfperf_steps"].KERAS
    kind = module.CallbackList
    begin, end = kind.on_train_batch_begin, kind.on_train_batch_end
    first = [0]

    def on_train_batch_begin(self: Any, batch: int, logs: Any = None) -> Any:
        first[0] = batch
        return begin(self, batch, logs)

    def on_train_batch_end(self: Any, batch: int, logs: Any = None) -> Any:
        result = end(self, batch, logs)
        epoch = sys._getframe(1).f_locals.get("epoch_iterator")
        adapter = getattr(epoch, "data_adapter", None)
        total = getattr(adapter, "num_batches", None)
        if total and getattr(epoch, "steps_per_epoch", None) is None:
            batch = min(batch, total - 1)  # Keras may name a last batch beyond the data's end
        steps = batch - first[0] + 1  # `steps_per_execution`
        probe.step(source, steps, _of_keras(adapter, steps, batch), logs.get("loss") if logs else None)
        return result

    kind.on_train_batch_begin, kind.on_train_batch_end = on_train_batch_begin, on_train_batch_end
    # From an epoch's end to the next one's begin are evaluation, checkpoints, and the start of the input pipeline.
    for name in ("on_epoch_end", "on_test_begin"):
        setattr(kind, name, _before(getattr(kind, name), probe.pause))
    for name in ("on_epoch_begin", "on_test_end"):
        setattr(kind, name, _after(getattr(kind, name), probe.resume))


def _of_keras(adapter: Any, steps: int, last: int) -> int | None:
    """The examples of so many steps up to this batch of an epoch; None where Keras does not know its batch size."""
    size = getattr(adapter, "batch_size", None)
    if not size:
        return None
    partial = getattr(adapter, "partial_batch_size", None)
    is_partial = bool(partial) and last + 1 == getattr(adapter, "num_batches", None)
    return int(size * steps - (size - partial if is_partial else 0))


def _before(method: Callable[..., Any], call: Callable[[], None]) -> Callable[..., Any]:
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        call()
        return method(self, *args, **kwargs)

    return wrapped


def _after(method: Callable[..., Any], call: Callable[[], None]) -> Callable[..., Any]:
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        finally:
            call()

    return wrapped


def in_keras_trainer(module: Any, probe: Any) -> None:
    """`keras.src.trainers.trainer`: `train_on_batch`, which has no callbacks, in each backend's own class."""
    source = sys.modules["tfperf_steps"].KERAS
    begin = module.Trainer.__init__
    done = set()

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        kinds: Any = type(self).__mro__
        for kind in kinds:
            if "train_on_batch" in vars(kind) and kind not in done:
                done.add(kind)
                kind.train_on_batch = _told(vars(kind)["train_on_batch"], source, probe)

    module.Trainer.__init__ = __init__


def _told(method: Callable[..., Any], source: str, probe: Any) -> Callable[..., Any]:
    def train_on_batch(self: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        logs = method(self, x, *args, **kwargs)
        first = x
        while isinstance(first, (list, tuple, dict)) and len(first):
            first = next(iter(first.values())) if isinstance(first, dict) else first[0]
        shape = getattr(first, "shape", None)
        probe.step(source, 1, int(shape[0]) if shape else None)
        return logs

    return train_on_batch


# TensorFlow


def in_tensorflow(module: Any, probe: Any) -> None:
    """`tensorflow.python.eager.context`: GPUs are waited for. Its names are not public, and start nothing.

    `tf.test.experimental.sync_devices` would start TensorFlow, and fails where several processes train together.
    """
    current = module.context_safe

    def wait() -> None:
        context = current()
        if getattr(context, "_initialized", False) and context.executing_eagerly():
            tensorflow = sys.modules["tensorflow"]
            for number in range(context.num_gpus()):
                with tensorflow.device(f"/GPU:{number}"):
                    tensorflow.raw_ops.SyncDevice()

    probe.hooks.append(wait)


# JAX


def in_jax(module: Any, probe: Any) -> None:
    """`jax.monitoring`: compilations; devices are waited for by the arrays that are alive."""
    compiled = [0]

    def hear(event: str, seconds: float, **_: Any) -> None:
        if event.endswith("backend_compile_duration"):
            compiled[0] += 1

    def wait() -> None:
        jax = sys.modules["jax"]
        jax.block_until_ready(probe.latest if isinstance(probe.latest, jax.Array) else jax.live_arrays())

    module.register_event_duration_secs_listener(hear)
    probe.counters["compilations"] = lambda: compiled[0]
    probe.readers["peak_memory"] = _allocated_by_jax
    probe.hooks.append(wait)


def _allocated_by_jax() -> int | None:
    known: dict[str, Any]
    peaks = [
        known["peak_bytes_in_use"]
        for device in sys.modules["jax"].local_devices()
        if (known := device.memory_stats() or {})
    ]
    return max(peaks, default=None)
