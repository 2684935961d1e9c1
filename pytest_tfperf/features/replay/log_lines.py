"""The lines that a program printed, out of the log in which they were kept: without colours, and out of JSON.

Docker's json-file driver, journalctl -o json and most collectors of logs write a JSON object for each line that was
printed. tf_cnn_benchmarks' own metric.log has one for each figure (tensorflow/models, official/utils/logs/logger.py).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

# Control sequences (colours, cursor movements), and those that set a terminal's title or a link.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_LINE_ENDS = re.compile(r"\r\n|\n|\r")
_MESSAGES = ("log", "message", "msg", "MESSAGE", "textPayload", "text", "line")
_METRICS = {
    "current_examples_per_sec": "{step}\timages/sec: {value:.6f} +/- 0.0 (jitter = 0.0)",
    "average_examples_per_sec": "total images/sec: {value:.6f}",
}


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line that was printed, with the number of the log's line that it stands in, from 1."""
    text = text.replace("\0", "")  # a log that was emptied while a program wrote to it begins with zeros
    for number, line in enumerate(_LINE_ENDS.split(text), start=1):
        for printed in _LINE_ENDS.split(_unwrapped(line)):
            yield number, _ESCAPES.sub("", printed)


def _unwrapped(line: str) -> str:
    """What a JSON object says was printed; the line itself where it is no such object."""
    if not line.lstrip().startswith("{"):
        return line
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(value, dict):
        return line
    message = next((value[key] for key in _MESSAGES if isinstance(value.get(key), str)), None)
    return _metric(value, line) if message is None else message.rstrip("\r\n")


def _metric(value: dict[str, Any], line: str) -> str:
    form, figure = _METRICS.get(str(value.get("name"))), value.get("value")
    if form is None or not isinstance(figure, (int, float)):
        return line
    try:
        return form.format(step=value.get("global_step"), value=float(figure))
    except OverflowError:  # a whole number of 400 digits
        return line
