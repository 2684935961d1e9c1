"""The format of a baselines file: written, read again, and refused where it is faulty."""

from __future__ import annotations

import math
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.workload import ALL_REDUCES, Precision, Trainer, VariableUpdate, Workload
from pytest_tfperf.errors import BaselineError
from pytest_tfperf.stores import baseline_file

HEADER = (
    "workload,topology,value,lower,upper,unit,runs,between_runs,provenance,source,date,gpu,gpu_fp32_tflops,lock,"
    "commit,environment,note"
)
ROW = (
    'resnet50-b64-replicated-device,1x8,1612,-0.05,0.05,images/s,1,,published,"a.md, row 1",2017,Tesla P100,10.6,,,'
    "tensorflow=1.3.0,"
)
KEY = Key("resnet50-b64-replicated-device", "1x8")


def row(value: float = 1612.0, key: Key = KEY, machine: str = "box", **changes: object) -> Baseline:
    return Baseline(machine=machine, key=key, value=value, **changes)  # type: ignore[arg-type]


def parse(text: str | bytes) -> dict[Key, Baseline]:
    return baseline_file.parse(text if isinstance(text, bytes) else text.encode(), "box", "box.csv")


def with_cell(column: str, value: str) -> str:
    """A file of one row in which this cell is replaced."""
    names = HEADER.split(",")
    cells = ROW.replace('"a.md, row 1"', "a.md").split(",")
    cells[names.index(column)] = value
    return f"{HEADER}\n{','.join(cells)}\n"


# Writing, and reading back


def test_a_row_is_written_as_people_write_it() -> None:
    published = row(
        lower=-0.05,
        upper=0.05,
        provenance=Provenance.PUBLISHED,
        source="a.md, row 1",
        date="2017",
        gpu="Tesla P100",
        gpu_fp32_tflops=10.6,
        environment="tensorflow=1.3.0",
    )
    assert baseline_file.render([published]) == f"{HEADER}\n{ROW}\n".encode()


def test_rows_are_sorted_as_people_count() -> None:
    keys = [Key(f"resnet50-b{b}-replicated-device", f"1x{n}") for b in (128, 64, 8) for n in (16, 8, 1)]
    text = baseline_file.render(row(key=key) for key in keys).decode()
    written = [line.split(",")[:2] for line in text.splitlines()[1:]]
    assert written == [[f"resnet50-b{b}-replicated-device", f"1x{n}"] for b in (8, 64, 128) for n in (1, 8, 16)]


def test_a_line_break_in_a_text_becomes_a_space() -> None:
    assert parse(baseline_file.render([row(note="one\r\ntwo")]))[KEY].note == "one two"


_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=40)
_trainers = [{}, {"trainer": Trainer.KERAS}, {"forward_only": True}]  # not both: fit trains
_workloads = st.builds(
    lambda trainer, **choices: Workload(**choices, **trainer),
    trainer=st.sampled_from(_trainers),
    model=st.sampled_from(["resnet50", "trivial", "mypkg.nets:build"]),
    batch_size=st.integers(1, 10**6),
    input_pipeline=st.sampled_from(["device", "host", "imagenet-distortions", "mypkg.data:images"]),
    variable_update=st.just(VariableUpdate.REPLICATED),
    all_reduce=st.sampled_from(ALL_REDUCES[VariableUpdate.REPLICATED]),
    precision=st.sampled_from(Precision),
    xla=st.booleans(),
)
_topologies = st.builds("{}x{}".format, st.integers(1, 999), st.integers(1, 999))
_baselines = st.builds(
    Baseline,
    machine=st.just("box"),
    key=st.builds(Key, st.builds(str, _workloads), _topologies, st.just("")),
    value=st.floats(1e-6, 1e21),
    lower=st.none() | st.just(-math.inf) | st.floats(-0.5, 0, exclude_max=True),
    upper=st.none() | st.just(math.inf) | st.floats(0, 0.5, exclude_min=True),
    source=_texts,
    date=st.just("") | st.dates(date(2000, 1, 1), date(2026, 1, 1)).map(str) | st.sampled_from(["2017", "2018-10"]),
    runs=st.integers(2, 9999),
    between_runs=st.none() | st.floats(0, 0.1),
    gpu=_texts.map(lambda text: f"GPU {text}"),
    gpu_fp32_tflops=st.none() | st.floats(0.01, 1000),
    lock=st.sampled_from(["", "box-1e520b95.lock.txt"]),
    commit=st.sampled_from(["", "2daf43d1dd18", "2daf43d1dd18-dirty"]),
    environment=st.sampled_from(["", "tensorflow=2.21.0 keras=3.15.1", "variables=NCCL_ALGO=Ring,TF_CUDNN_X=0"]),
    note=_texts,
)


@settings(deadline=None)
@given(st.lists(_baselines, max_size=6, unique_by=lambda baseline: baseline.key))
def test_what_is_written_is_read_back(baselines: list[Baseline]) -> None:
    assert parse(baseline_file.render(baselines)) == {baseline.key: baseline for baseline in baselines}


@settings(deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace")))
def test_no_bytes_make_reading_crash(data: bytes) -> None:
    with pytest.raises(BaselineError, match=r"^box\.csv, line \d+: "):
        parse(data)


# Malformed files


@pytest.mark.parametrize(
    ("text", "line", "fact"),
    [
        pytest.param("", 1, "empty", id="empty"),
        pytest.param(
            f"{HEADER.replace(',value', '')}\n",
            1,
            "the first line must name each of these columns once",
            id="missing-column",
        ),
        pytest.param(f"{HEADER.replace('between_runs', 'spread')}\n", 1, "unknown column 'spread'", id="old-column"),
        pytest.param(f"{HEADER},note\n", 1, "the first line must name each of these columns once", id="column-twice"),
        pytest.param(f"{HEADER}\n{ROW}", 2, "cut off", id="no-line-end"),
        pytest.param(f"{HEADER}\n{ROW}\nresnet50-b64-rep\n", 3, "1 fields", id="too-few-fields"),
        pytest.param("garbage\n", 1, "unknown column 'garbage'. Known: between_runs", id="no-header"),
        pytest.param(f"{HEADER}\n{ROW}\n{ROW}\n", 3, "is on line 2 already: keep one", id="duplicate-key"),
        pytest.param(f'{HEADER}\n"{ROW}\n', 2, "not a CSV line", id="broken-quotes"),
        pytest.param(f"{HEADER}\n<<<<<<< HEAD\n{ROW}\n", 2, "merge of this file is unfinished", id="merge-conflict"),
        pytest.param(with_cell("value", "fast"), 2, "value 'fast' is not a number", id="text-for-a-number"),
        pytest.param(with_cell("value", ""), 2, "no value", id="no-reference"),
        pytest.param(with_cell("value", "inf"), 2, "value inf is not a throughput", id="infinity"),
        pytest.param(with_cell("value", "0"), 2, "value 0.0 is not a throughput", id="zero"),
        pytest.param(with_cell("lower", "5%"), 2, "'5%' is not a number: write digits only", id="percent"),
        pytest.param(with_cell("lower", "0.05"), 2, "lower 0.05", id="lower-without-sign"),
        pytest.param(with_cell("unit", "images/hour"), 2, "unit 'images/hour'", id="wrong-unit"),
        pytest.param(with_cell("runs", "1.5"), 2, "runs '1.5'", id="half-a-run"),
        pytest.param(with_cell("runs", "0"), 2, "runs 0", id="no-run"),
        pytest.param(with_cell("provenance", "guessed"), 2, "unknown provenance 'guessed'", id="provenance"),
        pytest.param(
            with_cell("provenance", "provisional"), 2, "unknown provenance 'provisional'", id="earlier sessions"
        ),
        *(
            pytest.param(with_cell("workload", id), 2, "is not a workload id", id=id)
            for id in ("resnet50-B64-replicated-device", "resnet50-64-replicated-device", "a-b64_replicated-device")
        ),
        pytest.param(with_cell("workload", "resnet50-b64-all"), 2, "-b64-all' is not a workload id", id="workload"),
        pytest.param(with_cell("topology", "1x0"), 2, "topology '1x0'", id="topology-0"),
    ],
)
def test_a_malformed_file_is_refused_with_file_and_line(text: str, line: int, fact: str) -> None:
    with pytest.raises(BaselineError) as error:
        parse(text)
    assert str(error.value).startswith(f"box.csv, line {line}: ")
    assert fact in str(error.value)


def test_a_file_that_is_not_utf_8_is_refused_with_its_line() -> None:
    with pytest.raises(BaselineError, match=r"box\.csv, line 2: not UTF-8"):
        parse(f"{HEADER}\n{ROW}caf".encode() + b"\xe9\n")


def test_a_spreadsheets_byte_order_mark_and_line_ends_are_accepted() -> None:
    assert parse(b"\xef\xbb\xbf" + f"{HEADER}\r\n{ROW}\r\n".encode()) == parse(f"{HEADER}\n{ROW}\n")


def test_columns_in_another_order_are_accepted() -> None:
    names = HEADER.split(",")
    cells = with_cell("note", "").splitlines()[1].split(",")
    assert parse(f"{','.join(names[::-1])}\n{','.join(cells[::-1])}\n")[KEY].value == 1612


def figure_row(figure: str = "peak_memory", value: float = 18.25 * 2**30, unit: str = "bytes") -> Baseline:
    return Baseline(machine="box", key=KEY._replace(figure=figure), value=value, unit=unit)


def test_a_row_of_a_figure_is_read_back() -> None:
    rows = [row(), figure_row(), figure_row("eval_loss", -0.25, ""), figure_row("loss", 0.0, "")]
    assert parse(baseline_file.render(rows)) == {one.key: one for one in rows}


def test_a_file_without_figures_has_no_column_for_them() -> None:
    assert baseline_file.render([row()]).splitlines()[0] == HEADER.encode()


def test_rows_of_figures_follow_the_throughput_of_their_workload() -> None:
    other = KEY._replace(topology="1x16")
    lines = baseline_file.render([figure_row(), row(key=other), row()]).decode().splitlines()
    assert [line.split(",")[1:3] for line in lines[1:]] == [["1x8", ""], ["1x8", "peak_memory"], ["1x16", ""]]


def test_a_row_of_a_figure_has_no_tolerance_of_its_own() -> None:
    text = baseline_file.render([figure_row()]).decode().replace("19595788288,,", "19595788288,-0.05,")
    with pytest.raises(BaselineError, match="the tolerance of peak_memory is given in the test"):
        parse(text)
