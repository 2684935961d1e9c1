"""A setting that is given and empty is an error: an unset variable in a CI file must not switch the gate off."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import OF_THE_SPINE, Settings
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features import settings_of_features
from pytest_tfperf.session.options import read_settings

SETTINGS = (*OF_THE_SPINE, *settings_of_features())


def read(pytester: pytest.Pytester, *arguments: str) -> Settings:
    return read_settings(pytester.parseconfig(*arguments))


def test_no_setting_may_be_empty(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    config = pytester.parseconfig()
    for setting in (one for one in SETTINGS if not one.is_secret):
        with monkeypatch.context() as patch:
            patch.setenv(f"TFPERF_{setting.name.upper()}", "")
            with pytest.raises(TfperfError, match=f"^environment variable TFPERF_{setting.name.upper()} is empty: "):
                read_settings(config)


@pytest.mark.parametrize("text", ["", " \t"], ids=["empty", "blank"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tfperf-machine="], "--tfperf-machine"),
        (["-o", "tfperf_machine="], "-o tfperf_machine"),
        (["-o", "tfperf_strict="], "-o tfperf_strict"),
        (["-o", "tfperf_history_url="], "-o tfperf_history_url"),
    ],
    ids=["option", "override", "flag", "secret"],
)
def test_no_argument_may_be_empty(arguments: list[str], said: str, text: str, pytester: pytest.Pytester) -> None:
    with pytest.raises(TfperfError, match=f"^{said} is empty: "):
        read(pytester, *arguments[:-1], arguments[-1] + text)


def test_no_ini_value_may_be_empty(pytester: pytest.Pytester) -> None:
    ini = pytester.makeini("[pytest]\ntfperf_machine =\n")
    with pytest.raises(TfperfError, match=f"^{re.escape(str(ini))}: tfperf_machine is empty: "):
        read(pytester)


def test_none_takes_each_default_where_the_ini_file_says_otherwise(pytester: pytest.Pytester) -> None:
    usual = read(pytester)
    pytester.makeini("".join(["[pytest]\n", *(f"tfperf_{one.name} = of no use\n" for one in SETTINGS)]))
    found = read(pytester, *(word for one in SETTINGS for word in ("-o", f"tfperf_{one.name}=none")))
    alike = {"rerun": usual.rerun, "values": {}}
    assert replace(found, **alike) == replace(usual, **alike)
    assert [found.of(one) for one in SETTINGS] == [usual.of(one) for one in SETTINGS]


@pytest.mark.parametrize("secret", [one for one in SETTINGS if one.is_secret], ids=lambda one: one.name)
def test_an_empty_secret_is_not_given_as_in_jobs_of_forks(
    secret: Setting[Any], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"TFPERF_{secret.name.upper()}", "")
    assert read(pytester).of(secret) == secret.default


def test_the_base_of_an_unset_variable_ends_the_session(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(throughput): pass")
    result = pytester.runpytest("--tfperf-base=")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        "ERROR: --tfperf-base is empty: a shell or CI variable in it may not be set. Give a value, or leave it out; "
        "none stands for the default"
    )


# Misspelt variables, which would leave the gate as if they were not set


@pytest.mark.parametrize(("name", "meant"), [("TFPERF_BSAE", "TFPERF_BASE"), ("TFPERF_STRICTS", "TFPERF_STRICT")])
def test_a_misspelt_variable_is_refused_with_the_one_that_was_meant(
    name: str, meant: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "origin/main")
    with pytest.raises(TfperfError, match=f"^environment variable {name} is no setting. Did you mean {meant}\\?"):
        read(pytester)


@pytest.mark.parametrize("name", ["TFPERF_RANK", "TFPERF_OUR_PROJECT"])
def test_variables_of_ranks_and_of_others_are_no_settings(
    name: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")
    read(pytester)
