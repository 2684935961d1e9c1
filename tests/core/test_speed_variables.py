"""The environment variables that a measurement keeps: which, as one text, and each apart again."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.speed_variables import FACT, NAME, NAMES, each_apart, speed_variables


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("OMP_NUM_THREADS", True),
        ("CUDA_LAUNCH_BLOCKING", True),
        ("NVIDIA_TF32_OVERRIDE", True),
        ("LD_PRELOAD", True),
        ("PYTORCH_CUDA_ALLOC_CONF", True),
        ("TF_ENABLE_ONEDNN_OPTS", True),
        ("CUDA_VISIBLE_DEVICES", False),  # a test's devices
        ("PYTHON_SHA256", False),  # of Docker's image python
        ("CUDA_HOME", False),
        ("AWS_SECRET_ACCESS_KEY", False),
        ("HOME", False),
        ("OMP", False),
    ],
)
def test_a_variable_that_may_change_the_speed_is_kept(name: str, kept: bool) -> None:
    assert (NAME.match(name) is not None) is kept


def test_passwords_in_a_value_are_hidden_and_blanks_are_none() -> None:
    given = {"JAX_PLATFORMS": "x://ann:secret@host", "XLA_FLAGS": "--a=1  --b", "OMP_SCHEDULE": "", "TOKEN": "secret"}
    assert speed_variables(given) == "JAX_PLATFORMS=x://ann:***@host,XLA_FLAGS=--a=1_--b"


def test_none_is_said_where_no_variable_is_set() -> None:
    assert speed_variables({"HOME": "/root"}) == "none"


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert (
        speed_variables({"LD_PRELOAD": os.fsdecode(b"/lib/\xff.so")}) == "LD_PRELOAD=/lib/\N{REPLACEMENT CHARACTER}.so"
    )


names = st.sampled_from(sorted(name.replace("*", "X1") for name in NAMES if name != "CUDA_*"))
values = st.text("abc012,:=-{}/", min_size=1).filter(lambda value: not value.isupper() and "://" not in value)


@given(st.dictionaries(names, values))
def test_variables_are_found_apart_as_they_were_set(variables: dict[str, str]) -> None:
    assert each_apart({FACT: speed_variables(variables)}) == variables
