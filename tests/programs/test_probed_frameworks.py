"""Programs of PyTorch, Keras and JAX, measured by their steps; each imports its framework anew."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import pytest

from pytest_tfperf.core.command import Command
from pytest_tfperf.programs import probed_run
from pytest_tfperf.programs.own_formats import FigureLines
from pytest_tfperf.programs.probed_run import ProbedRun
from pytest_tfperf.workers.launcher import PreparedCommand
from tests.helpers.patience import SESSION_SECONDS

pytestmark = pytest.mark.slow  # each imports a framework, which takes seconds

Start = Callable[..., ProbedRun]

TORCH = """
import itertools, os, sys, time, torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
torch.set_num_threads(1)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
data = TensorDataset(torch.randn(100, 4), torch.randint(0, 2, (100,)))
def loss_of(x, y):
    return torch.nn.functional.cross_entropy(model(x), y)
def train(x, y):
    optimizer.zero_grad()
    loss_of(x, y).backward()
    optimizer.step()
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    runs: list[ProbedRun] = []

    def start(text: str, *argv: str, after: tuple[str, ...] = (), **variables: str) -> ProbedRun:
        file, scratch = tmp_path / "program.py", tmp_path / "scratch"
        file.write_text(text)
        scratch.mkdir()
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
        words = [sys.executable, *argv, str(file), *after]
        command = Command(words, name="it", env={**os.environ, **quiet, **variables}, cwd=tmp_path)
        prepared = PreparedCommand(
            command=command, log=tmp_path / "log", silence_seconds=SESSION_SECONDS, facts={}, scratch=scratch
        )
        run = probed_run.start(
            prepared, command, slowdown=0.0, figures=FigureLines([]), phase=lambda _: None, notice=lambda _: None
        )
        runs.append(run)
        return run

    yield start
    for run in runs:
        run.close()


@pytest.fixture
def torch(start: Start) -> Start:
    if find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    return lambda program, *argv, **more: start(TORCH + dedent(program), *argv, **more)


def examples(run: ProbedRun, windows: int = 3, steps: int = 10) -> list[int | None]:
    found = []
    for _ in range(windows):
        run.request(steps)
        found.append(run.receive().examples)
    return found


# PyTorch


def test_a_plain_loop_of_pytorch_counts_what_its_loader_gives(torch: Start) -> None:
    run = torch("""
        loader = DataLoader(data, 10)
        while True:
            for x, y in loader:
                train(x, y)
    """)
    assert (run.examples_per_step, run.note, run.fetches) == (10, "", True)
    assert run.environment["measured"] == "optimizer-steps"
    assert examples(run) == [100] * 3


def test_a_compiled_step_is_compiled_as_without_the_probe(torch: Start, tmp_path: Path) -> None:
    program = """
        from torch._dynamo.utils import counters
        step = torch.compile(train, backend="eager")
        for _ in range(5):
            step(torch.randn(4, 4), torch.zeros(4, dtype=torch.long))
        open(sys.argv[1], "w").write(f"{counters['stats']['unique_graphs']} {counters['frames']['total']}")
        while __name__ == "__main__" and sys.argv[2:] != ["alone"]:
            train(torch.randn(4, 4), torch.zeros(4, dtype=torch.long))
    """
    found = []
    for options in ((), ("alone",)):
        file = tmp_path / f"frames {len(options)}"
        if options:
            subprocess.run([sys.executable, tmp_path / "program.py", file, *options], check=True)
        else:
            torch(program, after=(str(file),))
        found.append([int(number) for number in file.read_text().split()])
    (graphs, frames), (graphs_alone, frames_alone) = found
    assert graphs == graphs_alone
    assert frames <= frames_alone  # it had 18 more where the probe's functions were traced


def test_a_partial_last_batch_and_a_new_loader_in_each_epoch(torch: Start) -> None:
    run = torch("""
        while True:
            for x, y in DataLoader(data, 16, shuffle=True):  # 6 batches of 16, and one of 4
                train(x, y)
    """)
    assert sum(number or 0 for number in examples(run, 10, 7)) == 10 * 100


def test_accumulated_gradients_are_of_one_step(torch: Start) -> None:
    run = torch("""
        for number, (x, y) in enumerate(itertools.chain.from_iterable(itertools.repeat(DataLoader(data, 10))), 1):
            loss_of(x, y).backward()
            if number % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
    """)
    assert run.examples_per_step == 40
    assert examples(run) == [400] * 3


def test_a_gan_counts_its_first_optimizer(torch: Start) -> None:
    run = torch("""
        generator = torch.nn.Linear(4, 4)
        other = torch.optim.Adam(generator.parameters())
        while True:
            for x, y in DataLoader(data, 10):
                train(x, y)
                for _ in range(2):
                    other.zero_grad()
                    loss_of(generator(x), y).backward()
                    other.step()
    """)
    assert examples(run) == [100] * 3
    assert run.not_counted(1) == "20 steps of other optimizers"


def test_steps_that_a_grad_scaler_skips_are_no_steps(torch: Start) -> None:
    run = torch("""
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30, growth_interval=10**6)
        while True:
            for number, (x, y) in enumerate(DataLoader(data, 10)):
                optimizer.zero_grad()
                loss = loss_of(x, y) * (float("inf") if number % 5 == 4 else 1.0)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
    """)
    assert examples(run, steps=8) == [80] * 3  # an epoch each
    assert "2 of its batches, which no step followed" in run.not_counted(1)


def test_an_iterable_data_set_that_gives_whole_batches(torch: Start) -> None:
    run = torch("""
        class Batches(IterableDataset):
            def __iter__(self):
                while True:
                    yield torch.randn(12, 4), torch.randint(0, 2, (12,))
        for x, y in DataLoader(Batches(), batch_size=None):
            train(x, y)
    """)
    assert examples(run) == [120] * 3


def printed(run: ProbedRun) -> str:
    run._program.drain()
    return run._program.run._log.end


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_a_loader_take_no_step_and_load_nothing_while_held(torch: Start, context: str) -> None:
    run = torch(f"""
        class Slow(torch.utils.data.Dataset):
            def __len__(self):
                return 10**6
            def __getitem__(self, number):
                time.sleep(0.01)
                print("loads", flush=True)
                return torch.randn(4), number % 2
        def main():
            for x, y in DataLoader(Slow(), 10, num_workers=2, prefetch_factor=9, multiprocessing_context="{context}"):
                train(x, y)
        if __name__ == "__main__":
            main()
    """)
    assert examples(run, 1) == [100]
    run.hold()
    time.sleep(0.2)  # what was written before they stopped is there
    loaded = printed(run)
    time.sleep(0.3)
    assert printed(run) == loaded
    assert examples(run, 1) == [100]
    assert printed(run) != loaded


def test_evaluation_on_the_training_data_is_no_training(torch: Start) -> None:
    run = torch("""
        while True:
            for x, y in DataLoader(data, 10):
                train(x, y)
            with torch.no_grad():
                for x, y in DataLoader(data, 50):
                    model(x)
    """)
    assert examples(run, 3, 10) == [100] * 3
    assert run._windows[-1].paused_seconds > 0


@pytest.mark.parametrize("kind", ["LBFGS", "AdamW", "Adafactor", "SparseAdam"])
def test_each_optimizer_takes_one_step(torch: Start, kind: str) -> None:
    run = torch(f"""
        model = torch.nn.Embedding(4, 2, sparse={kind == "SparseAdam"})
        optimizer = torch.optim.{kind}(model.parameters())
        def closure():
            optimizer.zero_grad()
            loss = model(torch.tensor([1, 2])).square().sum()
            loss.backward()
            return loss
        for x, y in itertools.chain.from_iterable(itertools.repeat(DataLoader(data, 10))):
            closure()
            optimizer.step(closure)
    """)
    assert examples(run) == [100] * 3


def test_a_training_without_a_loader_is_in_steps(torch: Start) -> None:
    run = torch("""
        x, y = torch.randn(10, 4), torch.randint(0, 2, (10,))
        while True:
            train(x, y)
    """)
    assert run.unit == "steps"
    assert run.note == "steps are counted, because no DataLoader of PyTorch gave its batches: give examples_per_step="


def test_torch_compile_is_no_different(torch: Start) -> None:
    run = torch("""
        step = torch.compile(loss_of, backend="aot_eager")
        for x, y in itertools.chain.from_iterable(itertools.repeat(DataLoader(data, 10))):
            optimizer.zero_grad()
            step(x, y).backward()
            optimizer.step()
    """)
    assert examples(run) == [100] * 3


DISTRIBUTED = """
    from torch.utils.data import DistributedSampler
    def main(rank=None):
        if rank is not None:
            os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1")
        torch.distributed.init_process_group("gloo")
        both = torch.nn.parallel.DistributedDataParallel(model)
        loader = DataLoader(data, 10, sampler=SAMPLER)
        while True:
            for x, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(both(x), y).backward()
                optimizer.step()
    if __name__ == "__main__":
        START
"""


@pytest.mark.parametrize(
    ("argv", "begin"),
    [
        (("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"), "main()"),
        ((), "torch.multiprocessing.spawn(main, nprocs=2)"),
    ],
    ids=["torchrun", "mp.spawn"],
)
def test_the_examples_of_all_ranks_count(torch: Start, argv: tuple[str, ...], begin: str, free_port: int) -> None:
    text = DISTRIBUTED.replace("SAMPLER", "DistributedSampler(data)").replace("START", begin)
    run = torch(text, *argv, MASTER_PORT=str(free_port))
    assert (run.examples_per_step, run.note, len(run.pids)) == (20, "", 2)
    assert examples(run) == [200] * 3
    assert run.why_not_held == "2 processes train together"


SPLITS = """
    class BatchSamplerShard:  # as accelerate has it
        batch_size, num_processes, split_batches = 20, 2, True
        def __iter__(self):
            rank = int(os.environ["RANK"])
            return (list(range(i + 10 * rank, i + 10 * rank + 10)) for i in range(0, 100, 20))
"""


def test_a_rank_takes_its_part_of_each_batch(torch: Start, free_port: int) -> None:
    text = SPLITS + DISTRIBUTED.replace("10, sampler=SAMPLER", "batch_sampler=BatchSamplerShard()")
    run = torch(text.replace("START", "torch.multiprocessing.spawn(main, nprocs=2)"), MASTER_PORT=str(free_port))
    assert (run.examples_per_step, run.note) == (20, "")
    assert examples(run) == [200] * 3


def test_ranks_that_train_on_the_same_data_are_counted_in_steps(torch: Start, free_port: int) -> None:
    text = DISTRIBUTED.replace("SAMPLER", "None").replace("START", "torch.multiprocessing.spawn(main, nprocs=2)")
    run = torch(text, MASTER_PORT=str(free_port))
    assert run.note.startswith("steps are counted, because nothing shows that its 2 ranks train on different examples")


@pytest.fixture
def free_port() -> int:
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


# Keras

KERAS = """
import numpy as np, keras
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
model.compile("sgd", "mse", steps_per_execution=PER_CALL)
x, y = np.random.rand(80, 4), np.random.rand(80, 2)
"""


@pytest.fixture(params=["tensorflow", "jax", "torch"])
def keras(request: pytest.FixtureRequest, start: Start) -> Start:
    if find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed")

    def run(program: str, per_call: int = 1) -> ProbedRun:
        text = KERAS.replace("PER_CALL", str(per_call)) + dedent(program)
        return start(text, KERAS_BACKEND=request.param)

    return run


FIT = "model.fit(x, y, batch_size=8, epochs=10**6, verbose=0, validation_data=(x, y))"


def test_keras_fit_on_any_backend_tells_its_batches(keras: Start) -> None:
    run = keras(FIT)
    assert (run.examples_per_step, run.environment["measured"]) == (8, "keras-steps")
    assert examples(run) == [80] * 3
    assert run._windows[-1].paused_seconds > 0  # the validation


@pytest.mark.parametrize("per_call", [5, 4])
def test_steps_that_keras_runs_in_one_call_are_all_counted(start: Start, per_call: int) -> None:
    """An epoch has 10 steps, so the last call of four has two."""
    run = start(KERAS.replace("PER_CALL", str(per_call)) + FIT, KERAS_BACKEND="tensorflow")
    run.request(10)
    window = run.receive()
    assert (window.steps, window.examples) == (10, 80)


def test_kerass_train_on_batch_tells_its_batch(start: Start) -> None:
    run = start(KERAS.replace("PER_CALL", "1") + "while True: model.train_on_batch(x, y)", KERAS_BACKEND="tensorflow")
    assert (run.examples_per_step, examples(run)) == (80, [800] * 3)


# JAX


def test_a_loop_of_jax_tells_its_steps_by_one_line(start: Start) -> None:
    if find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    run = start(
        dedent("""
        import sys, jax, jax.numpy as jnp
        @jax.jit
        def train(w, x):
            loss, gradient = jax.value_and_grad(lambda w: ((x @ w) ** 2).mean())(w)
            return w - 0.01 * gradient, loss
        w, x = jnp.ones((4, 2)), jnp.ones((16, 4))
        while True:
            w, loss = train(w, x)
            sys.audit("tfperf.step", 16, loss)
        """)
    )
    run.request(10)
    window = run.receive()
    assert (window.examples, run.environment["measured"]) == (160, "told-steps")
    assert window.loss is not None


# What is built on PyTorch: `make test-frameworks` installs it, in an environment of its own


def needs(package: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed: `make test-frameworks` installs it")


def test_lightning_accumulates_and_validates(torch: Start) -> None:
    needs("lightning")
    run = torch("""
        import lightning
        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.model = model
            def training_step(self, batch, number):
                return loss_of(*batch)
            validation_step = training_step
            def configure_optimizers(self):
                return optimizer
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        trainer = lightning.Trainer(accelerator="cpu", max_epochs=-1, accumulate_grad_batches=2, **quiet)
        trainer.fit(Module(), DataLoader(data, 10), DataLoader(data, 50))
    """)
    assert (run.examples_per_step, run.note) == (20, "")
    assert examples(run) == [200] * 3


def test_the_trainer_of_hugging_face_accumulates(torch: Start) -> None:
    needs("transformers")
    needs("accelerate")
    run = torch("""
        from transformers import Trainer, TrainingArguments
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = model
            def forward(self, x, labels):
                return {"loss": torch.nn.functional.cross_entropy(self.layer(x), labels)}
        arguments = TrainingArguments(
            output_dir="out", max_steps=10**6, per_device_train_batch_size=5, gradient_accumulation_steps=4,
            use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True,
        )
        Trainer(Model(), arguments, train_dataset=[{"x": x, "labels": y} for x, y in data]).train()
    """)
    assert (run.examples_per_step, run.note) == (20, "")
    assert examples(run) == [200] * 3


def test_accelerate_wraps_loader_and_optimizer(torch: Start) -> None:
    needs("accelerate")
    run = torch("""
        from accelerate import Accelerator
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, 10))
        while True:
            for x, y in loader:
                with accelerator.accumulate(model):
                    accelerator.backward(loss_of(x, y))
                    optimizer.step()
                    optimizer.zero_grad()
    """)
    assert (run.examples_per_step, run.note) == (20, "")
    assert examples(run) == [200] * 3


# What a profile gives


def operations(run: ProbedRun) -> dict[str, float]:
    """How often each operation runs in a step."""
    run.request(5)
    run.receive()
    (trace,) = run.trace(10)
    assert (trace.steps, trace.fault) == (10, "")
    return {op.name: op.count for op in trace.ops}


def test_pytorchs_profiler_tells_how_often_a_layer_runs(torch: Start) -> None:
    run = torch("""
        layer = torch.nn.Linear(4, 4)
        for x, y in itertools.chain.from_iterable(itertools.repeat(DataLoader(data, 10))):
            for _ in range(14):
                x = layer(x)
            train(x, y)
    """)
    found = operations(run)
    assert found["aten::addmm"] == 14 + 1
    assert examples(run) == [100] * 3  # the training goes on


def test_jaxs_profiler_tells_how_often_an_operation_runs(start: Start) -> None:
    if find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    run = start(
        dedent("""
        import sys, jax, jax.numpy as jnp
        @jax.jit
        def train(w, x):
            for _ in range(14):
                x = jnp.sort(x, axis=0) + w
            return w + x.mean()
        w, x = jnp.ones((64,)), jnp.ones((64, 64))
        while True:
            w = train(w, x)
            sys.audit("tfperf.step", 64)
        """),
        JAX_PLATFORMS="cpu",
    )
    assert 14 in operations(run).values()  # its name depends on what XLA fuses


def test_a_profile_that_the_program_has_begun_itself_goes_on(torch: Start) -> None:
    run = torch("""
        with torch.profiler.profile():
            for x, y in itertools.chain.from_iterable(itertools.repeat(DataLoader(data, 10))):
                train(x, y)
    """)
    (trace,) = run.trace(3)
    assert (trace.ops, trace.fault) == ((), "the profiler failed: RuntimeError: the program profiles itself")
    assert examples(run) == [100] * 3
