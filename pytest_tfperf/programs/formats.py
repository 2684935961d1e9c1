"""The lines of well-known programs, by the names that `Reads(format=...)` takes: a table with the source of each.

To add one: a name, which `core/command.py` lists, too; where its format string stands; and a regular expression. Its
groups say what the numbers are: `rate` (units per second), `step` (a counter of steps), `milliseconds` (of a step),
`mean_rate` (units per second since the first step, with the number of steps in `step`) and `loss`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from pytest_tfperf.programs.reading import NUMBER, Kind, Reading, Unreadable, loss_in, shown, to_float

_MOST_OF_A_LINE = 2048  # known formats have shorter lines, and searching longer ones takes long


class Format(NamedTuple):
    """The lines of a program."""

    name: str
    source: str  # where its format string stands
    pattern: str  # as described at the top of this file; UNIT in it stands for the user's unit
    per_device: bool = False  # its rate is that of a single device

    def read(self, line: str, unit: str, devices: int) -> Reading | None:
        """The reading of a line; None for another line."""
        match = _compiled(self.pattern, unit).search(line) if len(line) <= _MOST_OF_A_LINE else None
        if match is None:
            return None
        values = {name: to_float(text) for name, text in match.groupdict().items() if text is not None}
        loss = values.pop("loss") if "loss" in values else loss_in(line)
        match values:
            case {"rate": rate}:
                return Reading(Kind.RATE, rate * (devices if self.per_device else 1), loss=loss)
            case {"mean_rate": rate, "step": step}:
                return Reading(Kind.MEAN_RATE, rate, int(step), loss)
            case {"step": step}:
                return Reading(Kind.STEP, step, loss=loss)
        return Reading(Kind.SECONDS, values["milliseconds"] / 1000, loss=loss)


@cache
def _compiled(pattern: str, unit: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("UNIT", re.escape(unit)), re.ASCII | re.IGNORECASE)


TF_CNN_STEP = (
    rf"(?<![\w.-])(?P<step>[1-9]\d{{0,11}})\s{{1,9}}UNIT/sec:\s{{0,9}}(?P<mean_rate>{NUMBER})\s{{0,9}}(?:\+/-|±)"
    r"[^)]{0,80}\)"
)
"""A step's line of tf_cnn_benchmarks, without the loss: "10\timages/sec: 50.0 +/- 0.1 (jitter = 0.2)"."""

_ROUND = rf"^\[(?P<step>\d+)\](?:\t(?:\S+-[^:\s]+:|\S+'s [^:]+: ){NUMBER}(?:\s?\+\s?{NUMBER})?)+\s*$"

FORMATS = (
    Format(
        "tf_cnn_benchmarks",
        "tensorflow/benchmarks, benchmark_cnn.py, get_perf_timing_str",
        rf"{TF_CNN_STEP}\s{{0,9}}(?P<loss>{NUMBER}(?!\S))?",
    ),
    Format(
        "megatron-lm",
        "NVIDIA/Megatron-LM, megatron/training/training.py, training_log",
        rf"iteration\s+\d+/\s*\d+ \|.*elapsed time per iteration \(ms\): (?P<milliseconds>{NUMBER}) \|"
        rf"(?:.*lm loss: (?P<loss>{NUMBER}) \|)?",
    ),
    Format(
        "torchtitan",
        "pytorch/torchtitan, torchtitan/components/metrics.py, MetricsProcessor.log",
        rf"step:\s+\d+\s+loss:\s+(?P<loss>{NUMBER})\s.*\btps: (?P<rate>{NUMBER})",
        per_device=True,
    ),
    Format(
        "maxtext",
        "AI-Hypercomputer/maxtext, metric_logger.py, log_metrics",
        rf"completed step: \d+, seconds: {NUMBER}, .*Tokens/s/device: (?P<rate>{NUMBER})"
        rf"(?:,.*\bloss: (?P<loss>{NUMBER}))?",
        per_device=True,
    ),
    Format(
        "stable-baselines3",
        "DLR-RM/stable-baselines3, stable_baselines3/common/logger.py, HumanOutputFormat",
        # Its `fps` is a mean since the start.
        r"^\|\s+total_timesteps\s+\|\s(?P<step>\d+)\s+\|",
    ),
    Format(
        "cleanrl",
        "vwxyzjn/cleanrl, cleanrl/ppo.py and others",
        # Its `SPS` is a mean since the start.
        r"^global_step=(?P<step>\d+), (?:avg_)?episodic_return=",
    ),
    Format("xgboost", "dmlc/xgboost, python-package/xgboost/callback.py, EvaluationMonitor", _ROUND),
    Format("lightgbm", "lightgbm-org/LightGBM, python-package/lightgbm/callback.py, log_evaluation", _ROUND),
    Format(
        "catboost",
        "catboost/catboost, catboost/libs/loggers/logger.cpp, Log",
        # Its `total` is the time since the start.
        r"^(?P<step>\d+):\t(?:.*\t)?total: [^\t]{2,30}\tremaining: ",
    ),
    Format(
        "gensim",
        "piskvorky/gensim, gensim/models/word2vec.py, _log_epoch_end",
        # A line of progress has the mean since the epoch's start, and only epochs of over a second have any.
        rf"\bEPOCH (?:- )?\d+ ?: training on .*\btook {NUMBER}s, (?P<rate>{NUMBER}) effective words/s",
    ),
)


# tqdm/tqdm, std.py, format_meter: "Epoch 0:  45%|████▌     | 45/100 [00:12<00:15,  3.61it/s, loss=0.5]".
_TQDM = re.compile(
    r"^(?P<title>[^|]{0,200}?)\s{0,9}\d{1,3}%\|[^|]{0,400}\|\s{0,9}(?P<step>\d{1,12})/(?P<total>\d{1,12})\s"
    r"\[[\d:]{4,12}<[^,\]]{1,20},\s{0,9}(?:\?|[\d.]{1,12})(?:it/s|s/it)"
)


class TqdmLines:
    """Reads the bars of tqdm, of one title, apart from its digits, and one total.

    A bar of another title or total, such as that of evaluation or of a download, is refused.
    """

    def __init__(self) -> None:
        self._first: tuple[str, str] | None = None
        self._first_line = ""

    def read(self, line: str) -> Reading | None:
        """The reading of a bar; None for any other line.

        Raises:
            Unreadable: a second bar advances.
        """
        bar = _TQDM.search(line) if len(line) <= _MOST_OF_A_LINE else None
        if bar is None or bar["step"] == "0":
            return None
        key = (re.sub(r"[\d.]+", "", bar["title"]).strip(), bar["total"])
        if self._first is None:
            self._first, self._first_line = key, line
        if key != self._first:
            title = re.escape(self._first[0].strip(": "))
            raise Unreadable(
                f"two progress bars advance: {shown(self._first_line)!r} and {shown(line)!r}",
                "give a pattern that finds that of training, as "
                rf"reads=Reads(pattern=r'^{title}.*\| *(?P<step>\d+)/'), or measure it by its steps, without reads",
            )
        return Reading(Kind.STEP, float(bar["step"]), loss=loss_in(line))
