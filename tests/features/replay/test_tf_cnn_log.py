"""Logs of tf_cnn_benchmarks: which lines count, the run that is made of them, and what is refused."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.workload import Precision, Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.replay.tf_cnn_log import Log, parse
from tests.helpers.azure_logs import azure_log
from tests.helpers.expected import SameTexts

AZURE = {test: azure_log(test) for test in range(1, 8)}
HEADER = """\
TensorFlow:  1.15
Model:       resnet50
Dataset:     imagenet (synthetic)
Mode:        training
SingleSess:  False
Batch size:  64 global
             64 per device
Num batches: 100
Num epochs:  0.00
Devices:     ['/gpu:0']
NUMA bind:   False
Data format: NCHW
Optimizer:   sgd
Variables:   parameter_server
==========
"""
OUT_OF_MEMORY = "ResourceExhaustedError: OOM when allocating tensor with shape[64,256,56,56]\n"
EVALUATION = "Accuracy @ 1 = 0.0010 Accuracy @ 5 = 0.0050 [6400 examples]\ntotal images/sec: 75.00\n"
SHORT = "1\timages/sec: 50.0 +/- 0.0 (jitter = 0.0)\t7.5\n10\timages/sec: 40.0 +/- 0.1 (jitter = 0.2)\t7.4\n"
TOTAL = "total images/sec: 39.90\n"


def docker(line: str) -> str:
    return json.dumps({"log": f"{line}\n", "stream": "stdout", "time": "2019-01-01T00:00:00Z"}) + "\n"


def collected(line: str) -> str:
    return json.dumps({"level": "info", "message": line, "kubernetes": {"pod": "a"}}) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(SHORT.replace("\t", "       "), id="spaces for tabs"),
        pytest.param("Step\tImg/sec\ttotal_loss\n" + SHORT, id="a header"),
        pytest.param(SHORT.replace("\n", "\r\n"), id="Windows line ends"),
        pytest.param(SHORT.replace("\n", "\nnvidia-smi: 98 % | 10 images\n") + "Done warm up\n", id="other programs"),
        pytest.param(SHORT.replace("\n", "\t0.001\t0.006\n"), id="accuracy columns"),
        pytest.param(SHORT.replace("\n", "\t1539673200\thost-a\n"), id="a wrapper's fields"),
        pytest.param(
            SHORT.replace("1\t", "[1,0]<stdout>:1\t", 1).replace("10\t", "2018-10-16T12:00:00Z 10\t"), id="labels"
        ),
        pytest.param(SHORT.replace("10\t", "w0|10\t"), id="a label with a bar"),
        pytest.param(SHORT.replace("\n", "\r"), id="carriage returns only"),
        pytest.param("\x1b[32m" + SHORT.replace("\n", "\x1b[0m\n\x1b[1;32m") + "\x1b[0m\n", id="colours"),
        pytest.param("\0" * 64 + SHORT, id="zeros of a log that was emptied"),
        pytest.param(SHORT.replace("+/-", "±"), id="the sign as one character"),
        pytest.param('Look for "total images/sec: 57.0".\n' + SHORT, id="a quoted total"),
        pytest.param("It said total images/sec: 57.0\n" + SHORT, id="a total at the end of a sentence"),
        pytest.param("total images/sec: 57.0 is wanted\n" + SHORT, id="a total at the beginning of a sentence"),
        pytest.param("".join(docker(line) for line in SHORT.splitlines()), id="Docker's JSON"),
        pytest.param("".join(collected(line) for line in SHORT.splitlines()), id="a collector's JSON"),
    ],
)
def test_lines_are_read_whatever_surrounds_them(text: str) -> None:
    windows = (Window(10, pytest.approx(10 * 64 / 39.9), 7.4),)
    assert parse(text + TOTAL, "a.log").run(64) == Run(windows, 64, stated_examples_per_sec=39.9, log="a.log")


@pytest.mark.parametrize("test", range(1, 8))
def test_a_whole_logs_run_has_its_steps_and_the_workers_median_total(test: int) -> None:
    printed = [float(text) for text in re.findall(r"total images/sec: (\S+)", AZURE[test])]
    run = parse(AZURE[test], "a.log").run(64)
    (window,) = run.windows
    assert run.stated_examples_per_sec == median(printed)
    assert (window.steps, 100 * 64 / window.seconds) == (100, pytest.approx(median(printed)))


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        pytest.param(SHORT, 7.4, id="the last"),
        pytest.param(SHORT.replace("7.5", "nan"), math.nan, id="NaN before the last"),
        pytest.param(SHORT.replace("7.5", "nan").replace("\n", "\r"), math.nan, id="NaN between carriage returns"),
        *(pytest.param(SHORT.replace("7.4", nan), math.nan, id=nan) for nan in ("[nan]", "loss=nan", "(NaN)", "-nan")),
        pytest.param(SHORT.replace("7.4", "loss: nan"), math.nan, id="loss: nan"),
        pytest.param(SHORT.replace("7.4", "total_loss = [inf]"), math.inf, id="infinite"),
        pytest.param(SHORT.replace("7.4", "loss=7.4"), 7.4, id="with its name"),
        pytest.param(SHORT.replace("7.4", "7.4\tnan"), 7.4, id="before a wrapper's field"),
        pytest.param(SHORT.replace("7.4", f"{1.7e308:.3f}"), 1.7e308, id="as large as can be"),
        pytest.param(SHORT.replace("7.4", "7.4e2"), 740.0, id="with an exponent"),
        pytest.param(SHORT.replace("\t7.5", "").replace("\t7.4", ""), None, id="none"),
        pytest.param(SHORT.replace("\t7.5", "\thost-a").replace("\t7.4", "\thost-a"), None, id="a wrapper's field"),
    ],
)
def test_a_run_has_the_last_loss_or_one_that_is_no_number(text: str, loss: float | None) -> None:
    (window,) = parse(text + TOTAL, "a.log").run(64).windows
    assert window.loss == (loss if loss is None else pytest.approx(loss, nan_ok=True))


def test_a_log_of_totals_alone_is_one_step() -> None:
    (window,) = parse(TOTAL, "a.log").run(64).windows
    assert (window.steps, window.seconds) == (1, pytest.approx(64 / 39.9))


@pytest.mark.parametrize(("test", "factor"), [(1, 1.06), (1, 1.41), (1, 0.9), (4, 1.06), (4, 0.9), (7, 1.06)])
def test_a_total_that_the_steps_contradict_is_refused_with_both_figures(test: int, factor: float) -> None:
    text = re.sub(r"(?<=total images/sec: )\S+", lambda found: f"{factor * float(found[0]):.2f}", AZURE[test])
    rate = sum(map(float, re.findall(r"^100\s+images/sec: (\S+)", text, re.MULTILINE)))
    with pytest.raises(TfperfError, match=rf"the total is [\d.]+ images/sec, .* add up to {rate:g} at step 100"):
        parse(text, "a.log")


@pytest.mark.parametrize("rate", [0.3, 4.04, 39.96, 9876.5])
def test_a_rate_and_its_total_may_differ_by_their_rounding(rate: float) -> None:
    text = SHORT.replace("40.0", f"{rate:.1f}") + f"total images/sec: {rate:.2f}\n"
    assert parse(text, "a.log").examples_per_sec == pytest.approx(rate, abs=0.006)


GARBAGE = {
    "prose": "hello\nworld\n",
    "nothing at all": "\n",
    "cut off": SHORT,
    "cut off after the header": HEADER,
    "out of memory": HEADER + OUT_OF_MEMORY,
    "both at once": HEADER.replace("training", "training + evaluation") + SHORT,
    "a label": SHORT.replace("10\t", "host-10\t") + TOTAL,
    "no step": SHORT.replace("10\t", "\t") + TOTAL,
    "wrapped": SHORT.replace(" +/-", "\n+/-") + TOTAL,
    "wrapped early": SHORT.replace("10\t", "10\n") + TOTAL,
    "in a word": SHORT.replace("ges/sec: 40", "\nges/sec: 40") + TOTAL,
    "a loss": SHORT.replace("\t7.4", "\nnan") + TOTAL,
    "another sign": SHORT.replace("+/-", "~") + TOTAL,
    "joined lines": SHORT.replace("7.5\n", "7.5") + TOTAL,
    "joined to the total": SHORT + TOTAL.strip() + SHORT,
    "half a loss": SHORT.replace("7.4", "7.4x") + TOTAL,
    "totals": SHORT + "total images/sec: 40\ntotal images/sec: 75\n",
    "a total too many": SHORT + TOTAL * 2,
    "an evaluation": EVALUATION,
    "its header": HEADER.replace("training", "evaluation") + TOTAL,
    "training, then evaluation": SHORT + TOTAL + EVALUATION,
    "both with headers": HEADER + SHORT + TOTAL + HEADER.replace("training", "evaluation") + EVALUATION,
    "two models": HEADER + HEADER.replace("resnet50", "vgg16") + SHORT + TOTAL,
    "zero": SHORT + "total images/sec: 0.00\n",
    "nan": SHORT + "total images/sec: nan\n",
    "negative": SHORT + "total images/sec: -4\n",
    "nothing": SHORT + "total images/sec:\n",
    "two runs": SHORT * 2 + TOTAL * 2,
    "one worker of four": SHORT + "total images/sec: 159.6\n",
    "no mean": SHORT + "total images/sec: 57.0\n",
    "a low total": SHORT + "total images/sec: 30.0\n",
    "a quoted total": SHORT + "It said: total images/sec: 40\n",
}


def test_garbage_is_refused_with_its_place(same_texts: SameTexts) -> None:
    texts = {}
    for case, text in GARBAGE.items():
        with pytest.raises(TfperfError) as error:
            parse(text, "a.log")
        texts[case] = str(error.value)
    same_texts("refused_logs", texts)


def test_only_training_leaves_out_an_evaluation_and_its_header() -> None:
    evaluation = HEADER.replace("training", "evaluation").replace("64", "100") + EVALUATION
    for text in (HEADER + SHORT + TOTAL + evaluation, evaluation + HEADER + SHORT + TOTAL):
        log = parse(text, "a.log", only_training=True)
        assert (log.examples_per_sec, stated(log)["Batch size per device"]) == (39.9, "64")


def test_forward_only_is_no_evaluation() -> None:
    steps = SHORT.replace("\n", "\t0.001\t0.006\n")
    log = parse(HEADER.replace("training", "forward only") + steps + TOTAL, "a.log")
    assert (log.examples_per_sec, stated(log)["Mode"]) == (39.9, "forward only")


# The header


def stated(log: Log) -> dict[str, str]:
    return {name: fact.value for name, fact in log.facts.items()}


def test_a_header_states_what_ran() -> None:
    assert stated(parse(HEADER + SHORT + TOTAL, "a.log")) == {
        "Model": "resnet50",
        "Dataset": "imagenet (synthetic)",
        "Mode": "training",
        "Batch size per device": "64",
        "Devices": "['/gpu:0']",
        "Variables": "parameter_server",
        "Optimizer": "sgd",
    }


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(HEADER.replace("64 per device", "64.0 per device"), id="Python 3 under version 1.8"),
        pytest.param(HEADER.replace("\n", "\r\n"), id="Windows line ends"),
        pytest.param(
            re.sub("^ *", "   INFO|2019-02-13T23:02:11|/opt/launcher.py|27| ", HEADER, flags=re.MULTILINE), id="labels"
        ),
        pytest.param(HEADER * 4, id="four workers"),
        pytest.param(re.sub("(.*)\n", r"\1\1\n\n", HEADER), id="two workers' lines joined"),
        pytest.param("Model:                 79\nModel name: Xeon\nMode: 0644\n" + HEADER, id="other programs"),
        pytest.param("".join(docker(line) for line in HEADER.splitlines()), id="Docker's JSON"),
    ],
)
def test_a_header_is_read_whatever_surrounds_it(text: str) -> None:
    log = parse(text + SHORT + TOTAL, "a.log")
    assert stated(log) == stated(parse(HEADER + SHORT + TOTAL, "a.log"))
    assert log.devices == ("/gpu:0",)


@pytest.mark.parametrize(
    ("devices", "variables", "count"),
    [
        pytest.param("['/gpu:0', '/gpu:1']", "replicated", 2, id="one node"),
        pytest.param("['/cpu:0']", "parameter_server", 1, id="a CPU"),
        pytest.param("[u'/gpu:0', u'/gpu:1']", "replicated", 2, id="Python 2"),
        pytest.param("['horovod/gpu:0', 'horovod/gpu:1']", "horovod", 2, id="Horovod"),
        pytest.param("['/gpu:0']", "horovod", 0, id="Horovod, by each worker's own device"),
        pytest.param("['/job:worker/task:1/gpu:0']", "parameter_server", 0, id="one of several workers"),
    ],
)
def test_a_header_gives_the_devices_of_the_whole_run_where_it_can(devices: str, variables: str, count: int) -> None:
    text = HEADER.replace("['/gpu:0']", devices).replace("parameter_server", variables)
    assert len(parse(text + SHORT + TOTAL, "a.log").devices) == count


PRECISIONS = ["float32", "mixed_float16"]


@pytest.mark.parametrize(
    ("command", "precision"),
    [
        ("+ python3 tf_cnn_benchmarks.py --model=resnet50 --use_fp16=True", "mixed_float16"),
        ("mpirun python /opt/tf_cnn_benchmarks.py --use_fp16 --model=vgg16", "mixed_float16"),
        ("python tf_cnn_benchmarks.py --use_fp16=False", "float32"),
        ("python tf_cnn_benchmarks.py --nouse_fp16", "float32"),
        ("python tf_cnn_benchmarks.py \\\n  --model=resnet50 \\\n  --use_fp16 \\\n  --xla=True", "mixed_float16"),
        ("mpirun -np 4 \\\n> python -m \\\n> tf_cnn_benchmarks --nouse_fp16", "float32"),
        ("python -m tf_cnn_benchmarks --use_fp16", "mixed_float16"),
        ("python -m benchmarks.tf_cnn_benchmarks.tf_cnn_benchmarks --use_fp16=1", "mixed_float16"),
        ('["python", "-m", "tf_cnn_benchmarks", "--use_fp16"]', "mixed_float16"),
        ("/opt/tf_cnn_benchmarks --use_fp16", "mixed_float16"),
        ("python tf_cnn_benchmarks.py --use_fp16 | grep images/sec", "mixed_float16"),
        ("python tf_cnn_benchmarks.py --model=resnet50\npython other.py --use_fp16", None),
        ("tf_cnn_benchmarks has --use_fp16", None),
        ("python tf_cnn_benchmarks.py --model=resnet50", None),
        ("see --use_fp16", None),
    ],
)
def test_the_precision_is_read_from_a_command_line_in_the_log(command: str, precision: str | None) -> None:
    log = parse(f"{command}\n{SHORT}{TOTAL}", "a.log")
    workloads = [Workload(model="resnet50", batch_size=64, precision=Precision(value)) for value in PRECISIONS]
    agree = [str(workload.precision) for workload in workloads if not list(log.contradictions(workload, None))]
    assert agree == (PRECISIONS if precision is None else [precision])


_NUMBERS = ["0", "-1", "nan", "inf", "1e9", "9" * 20, "\u0663"]
_words = st.sampled_from([*_NUMBERS, "\t", "\n", "\r", "images/sec:", "total images/sec: ", "\x1b[", "{"])


@settings(max_examples=150)
@given(st.sampled_from(sorted(AZURE)), st.data())
def test_no_mutation_of_a_whole_log_makes_the_parser_crash(test: int, data: st.DataObject) -> None:
    text = AZURE[test]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(_words | st.text(max_size=5)) + text[at + data.draw(st.integers(0, 80)) :]
    with suppress(TfperfError):
        (window,) = parse(text, "a.log").run(64).windows
        assert 0 < window.seconds < math.inf
