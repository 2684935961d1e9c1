"""The canaries: their text, their changes, and the probe."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import SESSION_SECONDS

from pytest_tfperf.core.canary import Canaries, Moved, in_words, moved
from pytest_tfperf.errors import BaselineError
from pytest_tfperf.hardware import canaries as hardware


def canaries(product: float = 100.0, copy: float = 10.0) -> Canaries:
    return Canaries(matrix_product_gflops=product, memory_copy_gigabytes=copy)


QUIET = canaries()


def test_their_text_names_rate_and_unit() -> None:
    assert str(QUIET) == "matrix_product_gflops=100 memory_copy_gigabytes=10"


@given(st.floats(1e-6, 1e12), st.floats(1e-6, 1e12))
def test_their_text_is_read_back_to_five_digits(product: float, copy: float) -> None:
    read = Canaries.parse(str(canaries(product, copy)))
    assert (read.matrix_product_gflops, read.memory_copy_gigabytes) == pytest.approx((product, copy), rel=1e-4)


@pytest.mark.parametrize(
    "text",
    [
        "fast",
        "matrix_product_gflops=100",
        "matrix_product_gflops=100 memory_copy_gigabytes=fast",
        "matrix_product_gflops=100 memory_copy_gigabytes=10 memory_copy_gigabytes=11",
        "matrix_product_gflops=100 memory_copy_gigabytes=0",
        "matrix_product_gflops=100 memory_copy_gigabytes=-1",
        "matrix_product_gflops=100 memory_copy_gigabytes=1e999",
        "matrix_product_gflops=100 bandwidth=10",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(BaselineError, match="canaries"):
        Canaries.parse(text)


@given(st.text(max_size=60))
def test_no_text_makes_reading_crash(text: str) -> None:
    with pytest.raises(BaselineError, match="canaries"):
        Canaries.parse(text)


def test_of_several_looks_each_canary_has_its_median() -> None:
    assert Canaries.median([canaries(1.0, 6.0), canaries(2.0, 5.0), canaries(9.0, 1.0)]) == canaries(2.0, 5.0)


def test_no_look_has_no_median() -> None:
    assert Canaries.median([]) is None


# How far they moved


def test_canaries_move_from_median_to_median_in_logarithms() -> None:
    then, now = [canaries(90.0), canaries(100.0), canaries(500.0)], [canaries(1.0), canaries(50.0), canaries(60.0)]
    by = {name: canary.by for name, canary in moved(now, then).items()}
    assert by == pytest.approx({"matrix product": math.log(0.5), "memory copy": 0.0})


def test_steady_canaries_are_known_exactly() -> None:
    assert moved([canaries()] * 10, [canaries()])["matrix product"].error == 0.0


def test_more_looks_of_the_same_restlessness_are_known_better() -> None:
    looks = [canaries(80.0), canaries(120.0)]
    few, many = (moved(looks * times, [canaries()])["matrix product"].error for times in (2, 20))
    assert many < few / 3


@pytest.mark.parametrize(("now", "then"), [([], [QUIET]), ([QUIET], [QUIET]), ([QUIET] * 2, [])])
def test_too_few_looks_moved_nowhere(now: list[Canaries], then: list[Canaries]) -> None:
    assert moved(now, then) == {}


def test_how_far_they_moved_is_said_with_its_error() -> None:
    found = {"matrix product": Moved(math.log(0.88), 0.03), "memory copy": Moved(math.log(1.01), 0.0)}
    assert in_words(found) == "matrix product -12 +/- 3 %, memory copy +1 +/- 0 %"


# The probe


def test_a_look_at_this_machine_finds_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_PATIENCE_SECONDS", SESSION_SECONDS)
    assert hardware.look() is not None


@pytest.mark.parametrize("program", ["raise SystemExit(1)", "print('{}')", "print('hello')", "print('[1]')"])
def test_a_probe_that_fails_is_no_look(program: str, tmp_path, monkeypatch) -> None:
    script = tmp_path / "probe.py"
    script.write_text(program)
    monkeypatch.setattr(hardware, "_PROBE", script)
    assert hardware.look() is None
