"""The lines of well-known programs: a table with an entry for each, with the source of its format string.

To add one: a name, where its format string stands, and a regular expression. Its groups say what the numbers are:

- `rate`: units per second; `mean_rate`: their mean since the first step, with the number of steps in `step`
- `seconds`, `milliseconds`: the time of a step; `mean_seconds`: its mean over `step` + 1 steps
- `step` alone: a counter of steps; `examples`: a counter of units
- `batch`: examples in a step; `loss`
- no group: a line of the program that has a number which would mislead, and is left out
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import NamedTuple

from pytest_tfperf.core.command import STEPS
from pytest_tfperf.programs.reading import NUMBER, Kind, LeftOut, Reading, loss_in, to_float


class Format(NamedTuple):
    """The lines of a program."""

    name: str
    source: str  # where its format string stands
    pattern: str  # as described at the top of this file; UNIT in it stands for the user's unit
    unit: str = ""  # of its rate; "" for the user's unit
    of_examples: bool = False  # its rate counts whole examples, and so no tokens
    per_device: bool = False  # its rate is that of a single device
    of_steps: bool = False  # its examples are steps of an environment, as reinforcement learning counts them

    def can_serve(self, unit: str) -> bool:
        """Whether its rate may be in this unit."""
        return unit == self.unit if self.unit else not (self.of_examples and unit == "tokens")

    def read(self, line: str, unit: str, devices: int, *, counts_batches: bool) -> Reading | LeftOut | None:
        """The reading of a line; None for another line.

        `counts_batches` is set where the user says how many units a step holds: a line's own batch size is ignored.
        """
        match = _compiled(self.pattern, unit).search(line)
        if match is None:
            return None
        values = {name: to_float(text) for name, text in match.groupdict().items() if text is not None}
        if not values:
            return LeftOut("it is a mean since the epoch's start")
        loss = values.pop("loss") if "loss" in values else loss_in(line)
        if unit == STEPS and not self.of_steps and not values.keys().isdisjoint(("rate", "examples")):
            return None  # it counts something else
        step = int(values.get("step", 0))
        match values:
            case {"rate": rate}:
                return Reading(Kind.RATE, rate * (devices if self.per_device else 1), loss=loss)
            case {"examples": examples}:
                return Reading(Kind.EXAMPLES, examples, loss=loss)
            case {"mean_rate": rate}:
                return Reading(Kind.MEAN_RATE, rate, step, loss)
            case {"mean_seconds": seconds}:
                return Reading(Kind.MEAN_SECONDS, seconds, step + 1, loss)
        if values.keys() == {"step"}:
            return Reading(Kind.STEP, step, loss=loss)
        seconds = values["milliseconds"] / 1000 if "milliseconds" in values else values["seconds"]
        is_of_batch = unit.rstrip("s") in ("example", "sample", "sequence", "image")
        if "batch" in values and is_of_batch and not counts_batches:
            return Reading(Kind.RATE, values["batch"] / seconds if seconds else math.inf, loss=loss)
        return Reading(Kind.SECONDS, seconds, loss=loss)


@cache
def _compiled(pattern: str, unit: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("UNIT", re.escape(unit)), re.ASCII | re.IGNORECASE)


TF_CNN_STEP = (
    rf"(?<![\w.-])(?P<step>[1-9]\d{{0,11}})\s{{1,9}}UNIT/sec:\s{{0,9}}(?P<mean_rate>{NUMBER})\s{{0,9}}(?:\+/-|±)"
    r"[^)]{0,80}\)"
)
"""A step's line of tf_cnn_benchmarks, without the loss: "10\timages/sec: 50.0 +/- 0.1 (jitter = 0.2)"."""

FORMATS = (
    Format(
        "tf_cnn_benchmarks",
        "tensorflow/benchmarks, benchmark_cnn.py, get_perf_timing_str",
        rf"{TF_CNN_STEP}\s{{0,9}}(?P<loss>{NUMBER}(?!\S))?",
    ),
    Format(
        "timm's train.py",
        "huggingface/pytorch-image-models, train.py, train_one_epoch",
        rf"Train: \d+ \[\s*\d+/\d+.*?\bTime: {NUMBER}s,\s+(?P<rate>{NUMBER})/s\s",
        of_examples=True,
    ),
    Format(
        "timm's benchmark.py",
        "huggingface/pytorch-image-models, benchmark.py, BenchmarkRunner",
        rf"(?:Train|Infer) \[(?P<step>\d+)/\d+\]\.\s+(?P<mean_rate>{NUMBER}) samples/sec\.",
        of_examples=True,
    ),
    Format(
        "nanoGPT",
        "karpathy/nanoGPT, train.py",
        rf"^iter \d+: loss (?P<loss>{NUMBER}), time (?P<milliseconds>{NUMBER})ms",
    ),
    Format(
        "minGPT",
        "karpathy/minGPT, projects/chargpt/chargpt.py and projects/adder/adder.py",
        rf"^iter_dt (?P<milliseconds>{NUMBER})ms; iter \d+: train loss (?P<loss>{NUMBER})",
    ),
    Format(
        "PyTorch's examples/imagenet",
        "pytorch/examples, imagenet/main.py, ProgressMeter",
        rf"^Epoch: \[\d+\]\[\s*(?P<step>\d+)/\d+\]\s+Time\s+{NUMBER} \(\s*(?P<mean_seconds>{NUMBER})\)"
        rf"(?:.*\bLoss (?P<loss>{NUMBER}))?",
    ),
    Format(
        "PyTorch's examples/mnist",
        "pytorch/examples, mnist/main.py, train",
        r"^Train Epoch: \d+ \[(?P<examples>\d+)/\d+ \(",
        of_examples=True,
    ),
    Format(
        "Megatron-LM",
        "NVIDIA/Megatron-LM, megatron/training/training.py, training_log",
        rf"iteration\s+\d+/\s*\d+ \|.*elapsed time per iteration \(ms\): (?P<milliseconds>{NUMBER}) \|"
        rf"(?:.*global batch size:\s*(?P<batch>\d+) \|)?(?:.*lm loss: (?P<loss>{NUMBER}) \|)?",
    ),
    Format(
        "torchtitan",
        "pytorch/torchtitan, torchtitan/components/metrics.py, MetricsProcessor.log",
        rf"step:\s+\d+\s+loss:\s+(?P<loss>{NUMBER})\s.*\btps: (?P<rate>{NUMBER})",
        unit="tokens",
        per_device=True,
    ),
    Format(
        "MaxText",
        "AI-Hypercomputer/maxtext, metric_logger.py, log_metrics",
        rf"completed step: \d+, seconds: {NUMBER}, .*Tokens/s/device: (?P<rate>{NUMBER})"
        rf"(?:,.*\bloss: (?P<loss>{NUMBER}))?",
        unit="tokens",
        per_device=True,
    ),
    Format(
        "MaxText's steps",
        "AI-Hypercomputer/maxtext, metric_logger.py, log_metrics",
        rf"completed step: \d+, seconds: (?P<seconds>{NUMBER}),(?:.*\bloss: (?P<loss>{NUMBER}))?",
    ),
    Format(
        "detectron2",
        "facebookresearch/detectron2, detectron2/utils/events.py, CommonMetricPrinter",
        # Its `time` is a mean since this process began, which a resumed training's step does not count.
        rf"\biter: (?P<step>\d+)\s+total_loss: (?P<loss>{NUMBER})\s",
    ),
    Format(
        "DeepSpeed",
        "deepspeedai/DeepSpeed, deepspeed/utils/timer.py, ThroughputTimer",
        rf"global_step=\d+, RunningAvgSamplesPerSec={NUMBER}, CurrSamplesPerSec=(?P<rate>{NUMBER}),",
        of_examples=True,
    ),
    Format(
        "Hugging Face Trainer's last line",
        "huggingface/transformers, trainer_utils.py, speed_metrics",
        rf"'train_tokens_per_second': '?(?P<rate>{NUMBER})'?",
        unit="tokens",
    ),
    Format(
        "Hugging Face Trainer's last line, samples",
        "huggingface/transformers, trainer_utils.py, speed_metrics",
        rf"'train_samples_per_second': '?(?P<rate>{NUMBER})'?",
        of_examples=True,
    ),
    Format(
        "MMEngine",
        "open-mmlab/mmengine, mmengine/runner/log_processor.py, get_log_after_iter",
        # Its `time` is of the last ten steps only, however many a line stands for.
        r"\b(?:Epoch|Iter)(?:\(train\))?\s{1,9}(?:\[\s*\d+\])?\[\s*(?P<step>\d+)/\d+\]\s.*\bdata_time: ",
    ),
    Format(
        "torchvision's references",
        "pytorch/vision, references/detection/utils.py, MetricLogger; DETR, DeiT, MAE, DINO and Swin print alike",
        r"\b(?:Epoch|Train): \[\d+(?:/\d+)?\]\s{0,9}\[\s*(?P<step>\d+)/\d+\]\s{1,9}eta:? ",
    ),
    Format(
        "Stable-Baselines3",
        "DLR-RM/stable-baselines3, stable_baselines3/common/logger.py, HumanOutputFormat",
        # Its `fps` is a mean since the start.
        r"^\|\s+total_timesteps\s+\|\s(?P<examples>\d+)\s+\|",
        of_examples=True,
        of_steps=True,
    ),
    Format(
        "CleanRL",
        "vwxyzjn/cleanrl, cleanrl/ppo.py and others",
        # Its `SPS` is a mean since the start.
        r"^global_step=(?P<examples>\d+), (?:avg_)?episodic_return=",
        of_examples=True,
        of_steps=True,
    ),
    Format(
        "fairseq",
        "facebookresearch/fairseq, fairseq/logging/progress_bar.py, SimpleProgressBar and JsonProgressBar",
        rf"\| train_inner \|.*\bwps(?:=|\": \")(?P<rate>{NUMBER})",
        unit="tokens",
    ),
    Format(
        "fairseq's updates",
        "facebookresearch/fairseq, fairseq/logging/progress_bar.py, SimpleProgressBar and JsonProgressBar",
        r"\| train_inner \|.*\bnum_updates(?:=|\": \")(?P<step>\d+)",
    ),
    Format(
        "XGBoost or LightGBM",
        "dmlc/xgboost, python-package/xgboost/callback.py, EvaluationMonitor; "
        "lightgbm-org/LightGBM, python-package/lightgbm/callback.py, log_evaluation",
        rf"^\[(?P<step>\d+)\](?:\t(?:\S+-[^:\s]+:|\S+'s [^:]+: ){NUMBER}(?:\s?\+\s?{NUMBER})?)+\s*$",
    ),
    Format(
        "CatBoost",
        "catboost/catboost, catboost/libs/loggers/logger.cpp, Log",
        # Its `total` is the time since the start.
        r"^(?P<step>\d+):\t(?:.*\t)?total: [^\t]{2,30}\tremaining: ",
    ),
    Format(
        "gensim",
        "piskvorky/gensim, gensim/models/word2vec.py, _log_progress and _log_epoch_end",
        # A progress line has the mean since the epoch's start, and only epochs of over a second have any.
        r"\bEPOCH (?:- )?\d+ ?"
        rf"(?:- PROGRESS: at |: training on .*\btook {NUMBER}s, (?P<rate>{NUMBER}) effective words/s)",
        unit="words",
    ),
)
