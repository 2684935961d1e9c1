"""Numbers and texts that make no sense in a committed row: each is refused with file and line, and what to write."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.errors import BaselineError
from pytest_tfperf.stores import baseline_file

GOOD = {
    "workload": "resnet50-b64-replicated-device",
    "topology": "1x8",
    "figure": "",
    "value": "1612",
    "lower": "",
    "upper": "",
    "unit": "images/s",
    "runs": "5",
    "between_runs": "0.004",
    "provenance": "measured",
    "source": "--update-baselines",
    "date": "2026-01-31",
    "gpu": "Tesla P100",
    "gpu_fp32_tflops": "10.6",
    "lock": "box-1e520b95.lock.txt",
    "commit": "2daf43d1dd18",
    "environment": "tensorflow=2.21.0 keras=3.15.1",
    "note": "",
}
MEMORY = {"figure": "peak_memory", "unit": "bytes", "value": "19595788288"}
LOSS = {"figure": "eval_loss", "unit": ""}
TOMORROW, IN_TWO_DAYS = (str(date.today() + timedelta(days=days)) for days in (1, 2))


def read(**cells: str) -> Baseline:
    row = GOOD | cells
    text = f"{','.join(row)}\n{','.join(row.values())}\n"
    (found,) = baseline_file.parse(text.encode(), "box", "box.csv").values()
    return found


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ({"value": "1e22"}, "value 1e+22 is none that can be measured"),
        ({"value": "1e-7"}, "value 1e-07 is none that can be measured"),
        ({"value": "1e400"}, "value inf is not a throughput"),
        (MEMORY | {"value": "1e22"}, "value 1e+22 is none"),
        (MEMORY | {"value": "0"}, "value 0: peak_memory is above 0 bytes"),
        (MEMORY | {"unit": "MiB"}, "unit 'MiB': peak_memory is in bytes"),
        ({"figure": "first_step", "unit": "ms"}, "unit 'ms': first_step is in s"),
        ({"unit": "1612/s"}, "unit 1612/s: write the word for what is counted"),
        ({"lower": "-0.95"}, "lower -0.95: write the accepted drop as a negative fraction, -0.05 for 5 %, at most 0.5"),
        ({"lower": "-5"}, "lower -5: write the accepted drop"),
        ({"upper": "1.05"}, "upper 1.05: write the accepted rise"),
        ({"upper": "-0.05"}, "upper -0.05: write the accepted rise"),
        ({"runs": "10000"}, "runs 10000: write how many runs"),
        (
            {"between_runs": "2"},
            "between_runs 2 is above 0.1: write the standard deviation between the runs",
        ),
        ({"between_runs": "0.3"}, "between_runs 0.3 is above 0.1"),
        ({"between_runs": "1e300"}, "between_runs 1e+300 is above 0.1"),
        ({"between_runs": "-0.01"}, "between_runs -0.01: a standard deviation is 0 or more"),
        ({"runs": "1"}, "between_runs 0.004 of a single run"),
        (MEMORY | {"between_runs": "2"}, "between_runs 2 is above 1"),
        (LOSS | {"between_runs": "1e300"}, "between_runs 1e+300 is above 1e+06"),
        ({"provenance": "published"}, "provenance published: name the document in source"),
        ({"date": "9999-01-01"}, "date 9999-01-01 is in the future"),
        ({"date": "9999"}, "date 9999 is in the future"),
        ({"date": IN_TWO_DAYS}, f"date {IN_TWO_DAYS} is in the future"),
        ({"date": "2026-02-30"}, "date '2026-02-30': write the day of the measurement"),
        ({"date": "1970-01-01"}, "date '1970-01-01': write the day"),
        ({"date": "31.01.2026"}, "date '31.01.2026': write the day"),
        ({"gpu_fp32_tflops": "10600"}, "gpu_fp32_tflops 10600: write one GPU's rate in TFLOP/s"),
        ({"gpu_fp32_tflops": "-1"}, "gpu_fp32_tflops -1: write one GPU's rate"),
        ({"gpu_fp32_tflops": "inf"}, "gpu_fp32_tflops inf: write one GPU's rate"),
        ({"gpu": ""}, "gpu_fp32_tflops 10.6 without a gpu"),
        ({"lock": "../box.lock.txt"}, "lock '../box.lock.txt': write the name of a file beside this one"),
        ({"lock": "requirements.txt"}, "lock 'requirements.txt': write the name of a file"),
        ({"commit": "main"}, "commit 'main': write the hash that git shows, or nothing; a branch would move"),
        ({"environment": "tensorflow 2.21.0"}, "environment: 'tensorflow' must be NAME=VERSION"),
        ({"environment": "keras=3.15.1 keras=3.3"}, "environment: keras is given twice"),
        ({"figure": "Loss"}, "figure 'Loss': write its name as in eval_loss"),
        (LOSS | {"figure": "throughput"}, "figure 'throughput': write its name as in eval_loss, or nothing for"),
    ],
    ids=lambda value: " ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else "",
)
def test_what_makes_no_sense_is_refused_with_file_and_line(cells: dict[str, str], says: str) -> None:
    with pytest.raises(BaselineError) as refused:
        read(**cells)
    assert str(refused.value).startswith(f"box.csv, line 2: {says}")


@pytest.mark.parametrize(
    "cells",
    [
        {},
        {"date": TOMORROW},
        {"date": ""},
        {"date": "2017"},
        {"date": "2018-10"},
        {"lower": "-inf", "upper": "inf"},
        {"lower": "-0.5", "upper": "0.5"},
        {"between_runs": "0"},
        {"between_runs": ""},
        {"runs": "1", "between_runs": ""},
        {"commit": "2daf43d1dd18-dirty"},
        {"commit": "", "lock": "", "environment": ""},
        {"gpu": "", "gpu_fp32_tflops": ""},
        {"provenance": "published", "source": "a.md", "lock": "", "commit": ""},
        MEMORY,
        LOSS | {"value": "-0.25"},
        LOSS | {"value": "0", "between_runs": ""},
        LOSS | {"value": "0.001", "between_runs": "40"},
        {"figure": "staleness", "unit": "s", "value": "-2", "between_runs": "3"},
    ],
    ids=str,
)
def test_what_makes_sense_is_read(cells: dict[str, str]) -> None:
    assert read(**cells).machine == "box"


@given(st.sampled_from(sorted(set(GOOD) - {"note", "source", "gpu"})), st.floats(0.5, 1e308).map(repr))
def test_no_large_number_in_any_column_gives_an_arithmetic_error(column: str, number: str) -> None:
    with suppress(BaselineError):
        read(**{column: number})
