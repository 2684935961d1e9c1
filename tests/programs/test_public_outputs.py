"""What well-known programs print, in time: the rate is that of the steps, or the output is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from pytest_tfperf.errors import MeasurementError
from tests.helpers.expected import SameTexts
from tests.helpers.played_program import PlayedProgram, measured, per_sec

BATCH = 32
STEP = 0.25  # seconds
RATE = BATCH / STEP


@dataclass
class Output:
    """What a program prints, at times since its start."""

    now: float = 3.0
    printed: list[tuple[float, str]] = field(default_factory=list)

    def say(self, text: str, after: float = 0.0) -> None:
        self.now += after
        self.printed.append((self.now, text))

    def __add__(self, other: Output) -> Output:
        """Both at once, as two processes print."""
        return Output(0.0, sorted(self.printed + other.printed, key=lambda each: each[0]))

    def later(self, seconds: float, edit: Callable[[str], str] = str) -> Output:
        return Output(0.0, [(at + seconds, edit(text)) for at, text in self.printed])

    @property
    def program(self) -> PlayedProgram:
        times = [0.0, *(at for at, _ in self.printed)]
        return PlayedProgram([(at - before, text) for (at, text), before in zip(self.printed, times, strict=False)])


def lines(
    form: str, count: int = 60, *, per: int = 10, summary: str = "", every: int = 20, batch: float = BATCH
) -> Output:
    """A line for every `per` steps, of which no two take as long, and a summary of many after an evaluation."""
    output = Output()
    begun = output.now
    for n in range(1, count + 1):
        seconds = per * STEP * (1 + 0.05 * math.sin(n * n))
        values = {"step": n * per, "epoch": n // every, "s": seconds / per, "ms": 1000 * seconds / per}
        rate, since_start = per * batch / seconds, n * per * batch / (output.now + seconds)
        output.say(form.format(rate=rate, device=rate / 4, average=since_start, **values) + "\n", after=seconds)
        if summary and n % every == 0:
            mean = every * per * batch / (output.now + 3 - begun)
            output.say(summary.format(rate=mean, **values) + "\n", after=3)
            begun = output.now
    return output


def counter(form: str, count: int = 60, *, per: int = 10, epochs: int = 1) -> Output:
    output = Output()
    for epoch in range(epochs):
        for n in range(1, count + 1):
            output.say(form.format(step=n * per, epoch=epoch, ms=1000 * n * per * STEP) + "\n", after=per * STEP)
        output.now += 4
    return output


def gensim() -> Output:
    """Epochs of one step to eight steps; only those of over a second print their mean so far, which is lower here."""
    output = Output()
    for epoch in range(40):
        seconds = STEP * (1 + 7 * (epoch % 3 == 0))
        words = round(RATE * seconds)
        if seconds > 1:
            output.say(f"INFO : EPOCH {epoch} - PROGRESS: at 86.25% examples, {RATE / 2:.0f} words/s\n", 1.0)
            output.now -= 1.0
        took = f"took {seconds:.1f}s, {RATE:.0f} effective words/s"
        output.say(f"INFO : EPOCH {epoch}: training on 900 raw words ({words} effective words) {took}\n", seconds)
    return output


def keras(total: int, group: int, epochs: int = 5, *, evaluation: float = 0.0, counts_first: bool = True) -> Output:
    """Keras' bar under `steps_per_execution`: until 3.8 a line counts the first of its steps."""
    output = Output()
    for epoch in range(epochs):
        output.say(f"Epoch {epoch + 1}/{epochs}\n")
        for done in range(0, total, group):
            steps = min(group, total - done)
            shown = done + 1 if counts_first else done + steps
            output.say(f"\r{shown}/{total} ━━━━━ 1s 250ms/step - loss: 0.5", after=steps * STEP)
        output.say(f"\r{total}/{total} ━━━━━ 1s 250ms/step - loss: 0.5\n", after=evaluation)
    return output


def few_lines_of_keras(*shown: int, total: int, epochs: int) -> Output:
    """Keras' bar of a fast model: a line when a tenth of a second has passed, at whichever step that is."""
    output = Output()
    for epoch in range(epochs):
        output.say(f"Epoch {epoch + 1}/{epochs}\n")
        for before, step in pairwise((0, *shown, total)):
            output.say(f"\r{step}/{total} ━━━━━ 1s 250ms/step - loss: 0.5", after=(step - before) * STEP)
        output.say("\n")
    return output


def percent(step: int, total: int) -> str:
    filled = 10 * step // total
    return f"{100 * step // total:3d}%|{'█' * filled}{' ' * (10 - filled)}|"


def bars(form: str, total: int = 40, epochs: int = 3, *, step: float = STEP, other: str = "") -> Output:
    """A bar for each epoch, drawn before its first step and after each one, and one of other work between."""
    output = Output()

    def draw(form: str, epoch: int, total: int, seconds: float) -> None:
        for n in range(total + 1):
            values = {
                "n": n,
                "total": total,
                "epoch": epoch,
                "percent": percent(n, total),
                "rest": "━" * (9 - 9 * n // total),
            }
            text = form.format(drawn="━" * (9 * n // total), left=f"[00:0{n % 9}<00:09", **values)
            output.say(f"\r{text}", after=seconds if n else 0.0)
        output.say("\n")

    for epoch in range(epochs):
        draw(form, epoch, total, step)
        if other:
            draw(other, epoch, 15, step / 5)
    return output


TQDM = "{percent} {n}/{total} {left},  4.00it/s]"
UNBLANKED = "{percent} {n}/{total}{left}, 4.00it/s]"
SAMPLES = {"unit": "samples/s"}
IMAGES = {"unit": "images/s"}
TOKENS = {"unit": "tokens/s"}
STEPS = {"examples_per_step": BATCH}
ENV_STEPS = {"unit": "steps/s"}
TABLE = (
    "---------------------------------\n| time/              |          |\n|    fps             | 9        |\n"
    "|    iterations      | 1        |\n|    total_timesteps | {:<8} |\n---------------------------------\n"
)


def by(pattern: str) -> dict[str, object]:
    return {"pattern": pattern, "examples_per_step": BATCH}


READ: dict[str, tuple[Output, dict[str, object]]] = {
    "Keras, single steps and an evaluation": (keras(12, 1, evaluation=7.0), STEPS),
    "Keras, groups of steps": (keras(60, 20), STEPS),
    "Keras, groups of steps and an evaluation": (keras(60, 20, evaluation=7.0), STEPS),
    "Keras, a last group of one": (keras(61, 20), STEPS),
    "Keras, a last group of two and an evaluation": (keras(42, 20, evaluation=7.0), STEPS),
    "Keras, lines that count the last of their steps": (keras(60, 20, evaluation=7.0, counts_first=False), STEPS),
    "Keras, four lines an epoch": (few_lines_of_keras(1, 16, 32, total=40, epochs=8), STEPS),
    "Keras, one epoch of groups": (keras(200, 20, 1, evaluation=7.0), STEPS),
    "Keras, a last group beyond the epoch": (
        Output(
            3.0,
            [
                (20.0 * e + n * STEP, f"\r{n}/50 ━━━ 1s 250ms/step{end}")
                for e in range(5)
                for n, end in ((20, ""), (40, ""), (60, "\r50/50 ━━━ 9s 250ms/step\n"))
            ],
        ),
        STEPS,
    ),
    "Keras 2": (bars("{n}/{total} [{drawn}>.....] - ETA: 3s - loss: 0.5".replace("{drawn}", "===")), STEPS),
    "Keras 2, an epoch a line": (
        Output(
            3.0, [(10.0 * n, f"Epoch {n}/9\n40/40 - 10s - loss: 0.5 - 10s/epoch - 250ms/step\n") for n in range(1, 9)]
        ),
        STEPS,
    ),
    "PaddlePaddle": (
        Output(3.0, [(n * 10 * STEP, f"step {n % 10 * 10 + 10}/100 - loss: 0.5 - 250ms/step\n") for n in range(2, 60)]),
        STEPS,
    ),
    "tqdm": (bars(TQDM, other=TQDM), STEPS),
    "tqdm without the blank": (bars(UNBLANKED, other=UNBLANKED.replace("4.00", "20.00")), STEPS),
    "tqdm drawn again with a loss": (
        bars("{percent} {n}/{total} {left},  4.00it/s]\r{percent} {n}/{total} {left},  4.00it/s, loss=0.5]"),
        STEPS,
    ),
    "tqdm of rich": (bars("{drawn}{rest} {n}/{total}  [ 0:00:01 < 0:00:09 , 4 it/s ]"), STEPS),
    "tqdm of NeMo": (bars("Epoch {epoch}: {percent} {n}/{total} {left}, v_num=0, global_step={n}.0]"), STEPS),
    "two bars of rich": (bars("train {epoch} {drawn}{rest} {n}/{total} 0:00:01\nval ━━━━━ 3/15 0:00:01\n"), STEPS),
    "bars of rich of which one rests": (
        bars("a {drawn}{rest} {n}/{total} 0:00:01\nb ━━━━━ 0/{total} -:--:--\n"),
        STEPS,
    ),
    "fastprogress": (bars("|███-----| 45.00% [{n}/{total} 00:01<00:09 0.4]"), STEPS),
    "alive-progress": (bars("|███     | ▃▅▇ {n}/{total} [45%] in 2.5s (~9s, 4.0/s)"), STEPS),
    "click": (bars("Training  [###-----]  {n}/{total}  00:00:12"), STEPS),
    "a bar of epochs around those of steps": (
        bars("Iteration: " + TQDM, other="Epoch: {percent} 1/3 {left}, 9.00s/it]"),
        STEPS,
    ),
    "a bar that jumps to its total when it is left early": (bars("{percent} {n}/100 {left}]", 40), STEPS),
    "a step's time beside its rate": (lines("Iter {step} | {ms:.1f} ms/it | {rate:.1f} samples/s"), SAMPLES),
    "an epoch's mean": (
        lines(
            "epoch {epoch} step {step} {rate:.1f} images/s", summary="epoch {epoch} mean {rate:.1f} images/s", every=2
        ),
        IMAGES,
    ),
    "an epoch's line as often as those of steps": (
        lines("[{step}/600] {rate:.1f} images/s", summary="Epoch {epoch}: {rate:.1f} images/s", every=2),
        IMAGES,
    ),
    "an epoch's line that names the last step": (
        lines("step {step}: loss 0.5, {rate:.1f} images/s", summary="step {step}: done, {rate:.1f} images/s", every=2),
        IMAGES,
    ),
    "a rate before its epoch": (
        lines("{rate:.1f} images/s, step {step}", summary="{rate:.1f} images/s in epoch {epoch}", every=2),
        IMAGES,
    ),
    "an epoch's line that a pattern finds": (
        lines("[{step}/600] {rate:.1f} images/s", summary="epoch mean {rate:.1f} images/s", every=2),
        {"pattern": r"(?P<rate>[\d.]+) images/s", **IMAGES},
    ),
    "an epoch's JSON line": (
        lines('{{"step": {step}, "ips": {rate:.1f}}}', summary='{{"epoch": {epoch}, "ips": {rate:.1f}}}', every=2),
        {"field": "ips"},
    ),
    "a line about the data before those of steps": (
        Output(1.0, [(1.0, "5000 images, read at 9000.1 images/s\n")]) + lines("[{step}/600] {rate:.1f} images/s"),
        IMAGES,
    ),
    "a checkpoint in some lines": (
        lines("step {step}: {rate:.1f} images/s", summary="step {step}1: {rate:.1f} images/s, saved"),
        IMAGES,
    ),
    "PaddleDetection": (
        lines(
            "ppdet INFO: Epoch: [0] [{step:4d}/600] loss: 1.5 eta: 1 day, 0:01:02 batch_cost: {s:.4f} "
            "ips: {rate:.4f} images/s"
        ),
        IMAGES,
    ),
    "MXNet": (
        lines("Epoch[0] Batch [{step}]\tSpeed: {rate:.2f} samples/sec", summary="Epoch[0] Time cost=12.3"),
        SAMPLES,
    ),
    "Estimator": (
        lines("INFO:tensorflow:global_step/sec: {rate:.4f}\nINFO:tensorflow:loss = 0.3, step = {step}", batch=1),
        STEPS,
    ),
    "Composer": (lines("[batch={step}/600]:\n\t Train throughput/samples_per_sec: {rate:.4f}"), SAMPLES),
    "big_vision": (lines("[{step}] img/sec/core = {device:.2f}"), {"unit": "img/s", "devices": 4}),
    "Horovod on CPUs": (lines("Iter #{step}: {device:.1f} img/sec per CPU"), {"unit": "img/s", "devices": 4}),
    "torchvision": (
        lines("Epoch: [0] [{step}/1000] eta: 0:05:00 lr: 0.1 img/s: {rate:.4f} (800.1) loss: 6.9 (6.9) time: {s:.4f}"),
        {"unit": "img/s"},
    ),
    "nanoGPT": (lines("iter {step}: loss 4.0, time {ms:.2f}ms, mfu 1.23%"), STEPS),
    "fairseq": (
        lines(
            "2026-11-27 04:01:02 | INFO | train_inner | epoch 001: {step} / 1000 loss=9.1, "
            "wps={rate:.1f}, ups=4.0, num_updates={step}, wall=12",
            summary="2026-11-27 04:01:02 | INFO | train | epoch 001 | loss 9.2 | wps {rate:.1f} | num_updates {step}",
        ),
        TOKENS,
    ),
    "fairseq, as JSON": (
        lines(
            '2026-11-27 04:01:02 | INFO | train_inner | {{"epoch": 1, "update": 0.04, "loss": "9.1", '
            '"wps": "{rate:.1f}", "ups": "4", "wpb": "32", "bsz": "8", "num_updates": "{step}", "wall": "12"}}',
            summary='2026-11-27 04:01:02 | INFO | train | {{"epoch": 1, "train_loss": "9", "train_wps": "99"}}',
        ),
        TOKENS,
    ),
    "fairseq's updates": (
        lines("2026 | INFO | train_inner | epoch 001: 9 / 600 wps=99, num_updates={step}, wall=1"),
        STEPS,
    ),
    "MMEngine": (
        counter(
            "11/27 03:54:45 - mmengine - INFO - Epoch(train) [{epoch}][{step:4d}/200]  lr: 1.0000e-02  "
            "eta: 1 day, 2:03:04  "
            "time: 9.1  data_time: 0.0016  loss: 0.2195\n"
            "11/27 03:54:48 - mmengine - INFO - Epoch(val) [{epoch}][30/50]    eta: 0:00:00  time: 9.1  data_time: 0.1",
            20,
            epochs=3,
        ),
        STEPS,
    ),
    "MMEngine, by iterations": (
        lines("11/27 03:54:45 - mmengine - INFO - Iter(train) [{step:4d}/600]  lr: 1e-02  time: 9.1  data_time: 0.1"),
        STEPS,
    ),
    "torchvision's references": (
        counter(
            "Epoch: [{epoch}]  [{step:4d}/200]  eta: 1:20:01  lr: 0.04  loss: 4.1 (4.1)  time: 9.1  data: 0.0105\n"
            "Test:  [  10/50]  eta: 0:00:01  model_time: 0.1  time: 0.2",
            20,
            epochs=3,
        ),
        STEPS,
    ),
    "Stable-Baselines3": (Output(0.0, [(2.5 * n, TABLE.format(320 * n)) for n in range(1, 60)]), {}),
    "Stable-Baselines3, in steps": (Output(0.0, [(2.5 * n, TABLE.format(320 * n)) for n in range(1, 60)]), ENV_STEPS),
    "CleanRL": (
        Output(0.0, [(2.5 * n, f"global_step={320 * n}, episodic_return=[17.]\nSPS: 99\n") for n in range(1, 60)]),
        ENV_STEPS,
    ),
    "XGBoost": (counter("[{step}]\ttrain-logloss:0.59666\teval-logloss:0.60568", per=1), STEPS),
    "XGBoost, cross-validated": (counter("[{step}]\ttrain-rmse:0.59+0.01\ttest-rmse:0.6+0.02", per=10), STEPS),
    "LightGBM": (counter("[{step}]\ttraining's binary_logloss: 0.65573\tvalid_1's auc: 0.7", per=1), STEPS),
    "CatBoost": (
        counter("{step}:\tlearn: 0.634\ttest: 0.636\tbest: 0.636 (0)\ttotal: {ms:.1f}ms\tremaining: 18.7s", per=1),
        STEPS,
    ),
    "gensim, whose fast epochs have no line of progress": (gensim(), {"unit": "words/s"}),
    "a counter of batches in each epoch": (
        counter("[Epoch {epoch}] [Batch {step}/200] [D loss: 0.5]", 20, epochs=3),
        by(r"\[Batch (?P<step>\d+)/"),
    ),
    "units that change with their size": (
        Output(3.0, [(2.0 + n, f"[{n}] " + ("950ms/step\n" if n % 2 else "1.05s/step\n")) for n in range(40)]),
        {"examples_per_step": round(RATE)},
    ),
    "an average of steps that is declared": (
        lines("step {step}: {average:.4f} it/s", batch=1),
        {"rate_is": "average", **STEPS},
    ),
    "an average that is declared": (lines("step {step}: {average:.4f} images/s"), {"rate_is": "average", **IMAGES}),
}


@pytest.mark.parametrize("name", READ)
def test_the_rate_is_that_of_the_steps(name: str) -> None:
    output, how = READ[name]
    assert per_sec(measured(output.program, **how)) == pytest.approx(RATE, rel=0.03)


SAMPLES_OF_A_RANK = Output(0.0, [(5.0 * n, f"samples {640 * n} loss 0.5\n") for n in range(1, 40)])
BAR = bars(TQDM, 200, 1)
LINES = lines("step {step}: loss 0.5, {device:.1f} images/s")

REFUSED: dict[str, tuple[Output, dict[str, object]]] = {
    "four ranks' bars, 1.5 steps apart": (
        BAR + BAR.later(1.5 * STEP) + BAR.later(3 * STEP) + BAR.later(4.5 * STEP),
        STEPS,
    ),
    "two programs far apart": (
        counter("step {step} loss 0.5") + counter("step 9{step} loss 0.5").later(1.0),
        by(r"step (?P<step>\d+)"),
    ),
    "three ranks of which one is a step behind": (
        Output(0.0, [(3.0 + n, f"step {n}\nstep {n - 1}\nstep {n}\n") for n in range(2, 40)]),
        by(r"step (?P<step>\d+)"),
    ),
    "two ranks that count alike": (
        SAMPLES_OF_A_RANK + SAMPLES_OF_A_RANK.later(0.01),
        {"pattern": r"samples (?P<step>\d+)", "examples_per_step": 1},
    ),
    "two ranks' bars of their own images": (
        bars("{percent} {n}/{total} {left}, 128.00images/s]") + bars("{percent} {n}/{total} {left}, 128.00images/s]"),
        IMAGES,
    ),
    "four ranks' lines": (LINES + LINES.later(0.01) + LINES.later(0.02), IMAGES),
    "four ranks' times": (lines("loss 0.5 | {s:.3f} s/it", per=1) + lines("loss 0.5 | {s:.3f} s/it", per=1), STEPS),
    "CatBoost's time since the start": (
        counter("{step}:\tlearn: 0.5\ttotal: {ms:.0f}ms", per=1),
        by(r"total: (?P<milliseconds>[\d.]+)ms"),
    ),
    "Estimator's time of ten steps": (
        counter("loss = 0.3, step = {step} (2.500 sec)"),
        by(r"\((?P<seconds>[\d.]+) sec\)"),
    ),
    "the time that is left": (
        Output(3.0, [(2.0 + n, f"[{n}/600] eta {600 - n} s\n") for n in range(60)]),
        by(r"eta (?P<seconds>\d+) s"),
    ),
    "CleanRL's rate since the start": (
        lines("SPS: {average:.0f}", 15),
        {"pattern": r"SPS: (?P<rate>\d+)", "unit": "steps/s"},
    ),
    "an average over steps that no line stands for": (
        Output(0.0, [(2.0 + n, f"SPS: {int((10_000 + 100 * n) / (2 + n))}\n") for n in range(1, 60)]),
        {"pattern": r"SPS: (?P<rate>\d+)", "unit": "steps/s", "rate_is": "average"},
    ),
    "Keras, one group": (keras(20, 20), STEPS),
    "Keras, evaluate before fit": (
        Output(0.0, [(0.1 * n, f"\r{n}/20 ━━━ 1s 100ms/step - loss: 2.3\n") for n in range(1, 21)])
        + keras(60, 1).later(3.0),
        STEPS,
    ),
    "a bar of epochs alone": (bars("Epochs: " + TQDM, step=9.0), STEPS),
    "what looks like a bar": (lines("[00:12<00:30, {rate:.2f} it/s]", batch=1), STEPS),
    "bars of training and evaluation that nothing tells apart": (
        bars(TQDM, 15, 2, other="{percent} {n}/{total} {left}, 20.00it/s]"),
        STEPS,
    ),
    "the time in which a step is dispatched": (lines("step {step} | 2.1 ms/step"), STEPS),
    "another batch than was said": (lines("step {step} | {rate:.1f} images/s", batch=128), {**IMAGES, **STEPS}),
    "lines that change their form": (
        lines("[{step}/600] {rate:.1f} images/s", 20) + lines("{step} of 600: {rate:.1f} images/s").later(60),
        IMAGES,
    ),
}


def test_what_would_be_read_wrongly_is_refused_with_a_next_step(same_texts: SameTexts) -> None:
    texts = {}
    for name, (output, how) in REFUSED.items():
        with pytest.raises(MeasurementError) as refused:
            measured(output.program, **how)
        texts[name] = refused.value
    same_texts("refused_outputs", texts)


def test_epochs_that_become_faster_are_those_of_one_training() -> None:
    """As where the data is cached."""
    output = Output(0.0)
    for seconds in (0.25, 0.18, 0.125, 0.125):
        for n in range(9):
            output.say(f"\r{percent(n, 8)} {n}/8 [00:01<00:09, 4.00it/s]", after=seconds if n else 0.0)
    assert measured(output.program, **STEPS).windows


def test_epochs_of_a_few_lines_that_are_printed_by_time_are_of_one_process() -> None:
    """Keras' lines of a fast model: each epoch's come at other steps."""
    output = Output(0.0)
    for steps in ((1, 50, 101, 153, 200), (1, 53, 107, 161, 200), (1, 54, 108, 161, 200), (1, 44, 95, 144, 200)) * 3:
        for before, step in pairwise((0, *steps)):
            output.say(f"\r{step}/200 ━━━━ 0s 1ms/step - loss: 0.5", after=(step - before) / 200)
        output.say("\n")
    assert per_sec(measured(output.program, **STEPS)) == pytest.approx(200 * BATCH, rel=0.02)
