"""Recorded output of well-known programs, and lines of those that do not run here, from their format strings."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from pytest_tfperf.programs.formats import FORMATS
from pytest_tfperf.programs.output_reader import Reader
from pytest_tfperf.programs.reading import Kind, LineSplitter, Reading
from tests.helpers.measurements import command

PROGRAMS = Path(__file__).parents[1] / "data" / "programs"


def read(output: bytes, **how: object) -> tuple[str, list[Reading]]:
    """The name of the format, and the readings."""
    splitter, reader = LineSplitter(), Reader(command(**how), devices=8)
    lines = [*splitter.feed(output), splitter.unfinished]
    return reader.read_as, [reading for line in lines if (reading := reader.read(line)) is not None]


# Each was recorded from the program itself: nanoGPT 3adf61e, minGPT 37baab7, PyTorch's examples 77f55b9, timm 1.0.31,
# transformers 5.23.0, lightning 2.6.6, tqdm 4.67.
RECORDED = [
    ("nanogpt", Kind.SECONDS, 4.6258, 30),
    ("imagenet", Kind.MEAN_SECONDS, None, 20),
    ("mingpt", Kind.SECONDS, 0.0, 3),
    ("timm_train", Kind.RATE, 4.67, 20),
    ("timm_benchmark", Kind.MEAN_RATE, 25.04, 5),
    ("hf_trainer", Kind.STEP, 0.0, 30),
    ("lightning", Kind.STEP, 0.0, 36),
    ("lightning_rich", Kind.STEP, 0.0, 30),
    ("tqdm", Kind.STEP, 0.0, 30),
]


@pytest.mark.parametrize(("program", "kind", "first", "least"), RECORDED, ids=[row[0] for row in RECORDED])
def test_the_recorded_output_of_a_program_is_read(program: str, kind: Kind, first: float | None, least: int) -> None:
    _, readings = read((PROGRAMS / f"{program}.txt").read_bytes(), examples_per_step=32)
    assert {reading.kind for reading in readings} == {kind}
    assert len(readings) >= least
    assert first is None or readings[0].value == first


@pytest.mark.parametrize("program", ["hf_trainer", "lightning", "lightning_rich"])
def test_bars_of_evaluation_are_not_read_as_training(program: str) -> None:
    """The training of each has one total: 375 steps, or 500."""
    _, readings = read((PROGRAMS / f"{program}.txt").read_bytes(), examples_per_step=32)
    steps = [reading.value for reading in readings]
    assert max(steps) == (375 if program == "hf_trainer" else 500)
    assert all(later >= step or later == 0 for step, later in pairwise(steps))


def test_the_last_line_of_hugging_face_trainer_has_its_rate() -> None:
    _, readings = read((PROGRAMS / "hf_trainer.txt").read_bytes(), unit="samples/s", until_end=True)
    assert [reading.value for reading in readings] == [2068.0]


# As the programs' format strings write them, with the values that they state.
WRITTEN = [
    (
        " [2026-08-01 07:19:50] iteration        2/    5000 | consumed samples:          256 | elapsed time per "
        "iteration (ms): 12936.1 | throughput per GPU (TFLOP/s/GPU): 118.7 | learning rate: 1.395349E-07 | "
        "global batch size:   128 | lm loss: 1.044022E+01 | loss scale: 1.0 | grad norm: 26.305 |",
        {},
        Reading(Kind.RATE, 128 / 12.9361, loss=10.44022),
    ),
    (
        "[titan] 2026-08-01 - root - INFO - step: 10  loss:  7.1234  grad_norm:  1.7012  memory:  5.01GiB(6.30%)  "
        "tps: 1,500  tflops: 12.31  mfu: 1.24%",
        {"unit": "tokens/s"},
        Reading(Kind.RATE, 8 * 1500.0, loss=7.1234),
    ),
    (
        "completed step: 5, seconds: 1.186, TFLOP/s/device: 166.597, Tokens/s/device: 3452.840, total_weights: 262144, "
        "loss: 9.184",
        {"unit": "tokens/s"},
        Reading(Kind.RATE, 8 * 3452.84, loss=9.184),
    ),
    (
        "completed step: 5, seconds: 1.186, TFLOP/s/device: 166.597, Tokens/s/device: 3452.840, loss: 9.184",
        {"examples_per_step": 4},
        Reading(Kind.SECONDS, 1.186, loss=9.184),
    ),
    (
        "[08/01 02:00:00 d2.utils.events]:  eta: 0:12:34  iter: 99  total_loss: 1.251  loss_cls: 0.5  loss_box_reg: "
        "0.2    time: 0.3412  last_time: 0.3301  data_time: 0.0121  last_data_time: 0.0091   lr: 0.0019  max_mem: 2M",
        {"examples_per_step": 16},
        Reading(Kind.STEP, 99, loss=1.251),
    ),
    (
        "[2026-03-07 15:27:02,646] [INFO] [timer.py:260:stop] epoch=0/micro_step=199/global_step=199, "
        "RunningAvgSamplesPerSec=58.730622229657506, CurrSamplesPerSec=61.35304005128382, MemAllocated=6.01GB",
        {"unit": "samples/s"},
        Reading(Kind.RATE, 61.35304005128382),
    ),
    (
        "INFO:root:Epoch[0] Batch [20]\tSpeed: 1234.56 samples/sec\taccuracy=0.500000",
        {"unit": "samples/s"},
        Reading(Kind.RATE, 1234.56),
    ),
    (
        "Train: 0 [  50/1251 (  4%)]  Loss: 6.91 (6.92)  Time: 0.432s,  592.59/s  (0.500s,  512.00/s)  LR: 1.000e-05  "
        "Data: 0.010 (0.020)",
        {"unit": "images/s"},
        Reading(Kind.RATE, 592.59, loss=6.91),
    ),
    (
        "iter_dt 23.45ms; iter 100: train loss 1.20000",
        {"examples_per_step": 64},
        Reading(Kind.SECONDS, 0.02345, loss=1.2),
    ),
    ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.135", {"unit": "images/s"}, Reading(Kind.EXAMPLES, 640.0, loss=2.135)),
    ("{'train_runtime': 12.3, 'train_samples_per_second': 81.2}", {"unit": "samples/s"}, Reading(Kind.RATE, 81.2)),
    (
        "10\timages/sec: 50.0 +/- 0.1 (jitter = 0.2)\t7.5",
        {"unit": "images/s"},
        Reading(Kind.MEAN_RATE, 50.0, 10, 7.5),
    ),
    ("[100] 12.5 steps/s, 1.0% (100/10000), ETA: 3m", {"examples_per_step": 2}, Reading(Kind.STEP_RATE, 12.5)),
    ("1.50k/10.0k [00:12<00:15, 1.54kit/s]", {"examples_per_step": 2}, Reading(Kind.STEP_RATE, 1540.0)),
    ("45/100 [01:30<00:15, 2.00s/it]", {"examples_per_step": 2}, Reading(Kind.STEP, 45.0)),
]


@pytest.mark.parametrize(("line", "how", "reading"), WRITTEN, ids=[f"{line[:24]} {how}" for line, how, _ in WRITTEN])
def test_a_line_of_a_well_known_program_is_read(line: str, how: dict[str, object], reading: Reading) -> None:
    _, found = read(line.encode(), **how)
    assert found == [reading]


@pytest.mark.parametrize(
    "line",
    [
        "model.safetensors:  45%|████▌     | 45.0M/100M [00:12<00:15, 3.61MB/s]",
        "Map: 100%|██████████| 1000/1000 [00:01<00:00, 812.21 examples/s]",
        "Loading weights: 100%|██████████| 150/150 [00:00<00:00, 1200.00it/s]",
        "Validation DataLoader 0:  50%|█████     | 1/2 [00:00<00:00, 61.28it/s]",
        "Epochs:  10%|█         | 1/10 [00:30<04:30, 30.00s/epoch]",
    ],
)
def test_the_bar_of_other_work_is_not_read(line: str) -> None:
    assert read(line.encode(), examples_per_step=32) == ("", [])


def test_each_format_names_its_source() -> None:
    assert all(known.name and known.source for known in FORMATS)
