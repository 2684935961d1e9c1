"""A setting that is given and empty is an error: an unset variable in a CI file must not switch the gate off."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import OF_THE_SPINE, Settings
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.session.feature_hooks import features
from pytest_tfperf.session.options import read_settings

SETTINGS = (*OF_THE_SPINE, *features().settings)
each_setting = pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: one.name)
blank = pytest.mark.parametrize("text", ["", " \t"], ids=["empty", "blank"])


def read(pytester: pytest.Pytester, *arguments: str) -> Settings:
    return read_settings(pytester.parseconfig(*arguments), features().settings)


@blank
@pytest.mark.parametrize(
    "setting",
    [one for one in SETTINGS if one.is_option and one.parse is not parse.flag],
    ids=lambda one: one.name,
)
def test_no_option_may_be_empty(setting: Setting[Any], text: str, pytester: pytest.Pytester) -> None:
    with pytest.raises(TfperfError, match=f"^{setting.spelled} is empty: "):
        read(pytester, f"{setting.spelled}={text}")


@blank
@pytest.mark.parametrize("setting", [one for one in SETTINGS if not one.is_secret], ids=lambda one: one.name)
def test_no_variable_may_be_empty(
    setting: Setting[Any], text: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = f"TFPERF_{setting.name.upper()}"
    monkeypatch.setenv(variable, text)
    with pytest.raises(TfperfError, match=f"^environment variable {variable} is empty: "):
        read(pytester)


@each_setting
def test_no_ini_value_may_be_empty(setting: Setting[Any], pytester: pytest.Pytester) -> None:
    ini = pytester.makeini(f"[pytest]\ntfperf_{setting.name} =\n")
    with pytest.raises(TfperfError, match=f"^{re.escape(str(ini))}: tfperf_{setting.name} is empty: "):
        read(pytester)


@blank
@each_setting
def test_no_override_of_an_ini_value_may_be_empty(setting: Setting[Any], text: str, pytester: pytest.Pytester) -> None:
    with pytest.raises(TfperfError, match=f"^-o tfperf_{setting.name} is empty: "):
        read(pytester, "-o", f"tfperf_{setting.name}={text}")


@each_setting
def test_none_takes_the_default_where_the_ini_file_says_otherwise(
    setting: Setting[Any], pytester: pytest.Pytester
) -> None:
    usual = read(pytester)
    pytester.makeini(f"[pytest]\ntfperf_{setting.name} = of no use\n")
    found = read(pytester, "-o", f"tfperf_{setting.name}=none")
    alike = {"rerun": usual.rerun, "of_features": {}}
    assert replace(found, **alike) == replace(usual, **alike)
    assert found.of(setting) == usual.of(setting)


def test_an_empty_secret_is_not_given_as_in_jobs_of_forks(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    (secret,) = [one for one in SETTINGS if one.is_secret]
    monkeypatch.setenv("TFPERF_HISTORY_URL", "")
    assert (secret.name, read(pytester).of(secret)) == ("history_url", None)


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
