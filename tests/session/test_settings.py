"""What each option's text is taken for; where options are given is tested with pytest itself."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.disturbance import DisturbanceLimits
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.settings import OF_THE_SPINE, Settings
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features import settings_of_features
from pytest_tfperf.session.options import read_settings

PARSERS = {one.name: one.parse for one in (*OF_THE_SPINE, *settings_of_features())}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("tolerance", "0.05", 0.05),
        ("steps", "1", 1),
        ("warmup_steps", "0", 0),
        ("timeout", "0.5", 0.5),
        ("busy", "0.1", 0.1),
        ("max_time", "inf", float("inf")),
        ("inject_slowdown", "0", 0.0),
        ("strict", "Yes", True),
        ("strict", "off", False),
        ("worker", "fresh", "fresh"),
        ("launcher", "local", "local"),
        ("launcher", "mpirun -H nodea:4,nodeb:4", "mpirun -H nodea:4,nodeb:4"),
    ],
)
def test_a_good_value_is_taken(name: str, text: str, value: Any) -> None:
    assert PARSERS[name](text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tolerance", "0"),
        ("tolerance", "0.51"),
        ("tolerance", "1"),
        ("tolerance", "5"),
        ("tolerance", "nan"),
        ("tolerance", "5 %"),
        ("steps", "0"),
        ("steps", "1.5"),
        ("warmup_steps", "-1"),
        ("timeout", "0"),
        ("busy", "0"),
        ("busy", "1.1"),
        ("busy", "5"),
        ("timeout", "nan"),
        ("timeout", "inf"),
        ("inject_slowdown", "1"),
        ("inject_slowdown", "-0.1"),
        ("inject_slowdown", "nan"),
        ("strict", "maybe"),
        ("worker", "spoon"),
        ("launcher", "slrum"),
        ("launcher", "local -H nodea"),
        ("launcher", "mpirun -H 'nodea"),
        ("launcher", "ray --address="),
        ("launcher", "mpirun -H ''"),
        ("listen", "eth0:65536"),
        ("listen", "eth0:http"),
        ("listen", "eth0:7600 ~/key"),
        ("listen", "eth0:7600key=key"),
        pytest.param("against", "x" * 300, id="against-too-long"),
        ("against", "~nobody-has-this-name/venv"),
    ],
)
def test_a_bad_value_is_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        PARSERS[name](text)


@pytest.mark.parametrize("text", [",", " , "])
def test_a_list_of_no_figures_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^names no figure\. Known: peak_memory, first_step, loss, input_wait, "):
        PARSERS["also"](text)


def test_the_limits_of_disturbance_are_the_nouns_own_where_nothing_is_set() -> None:
    assert Settings().disturbance_limits == DisturbanceLimits()


@pytest.mark.parametrize(
    ("asked", "limits"),
    [
        ({"busy": 0.1}, {"other_cpu_fraction": 0.1, "steal_fraction": 0.1}),
        ({"busy": 1.0}, {"other_cpu_fraction": 1.0, "steal_fraction": 1.0, "swap_bytes_per_sec": math.inf}),
    ],
)
def test_a_user_accepts_more_of_a_disturbance(asked: dict[str, float], limits: dict[str, float]) -> None:
    assert Settings(values=asked).disturbance_limits == DisturbanceLimits(**limits)  # type: ignore[arg-type]


@given(st.sampled_from(sorted(PARSERS)), st.text())
def test_any_text_is_taken_or_refused(name: str, text: str) -> None:
    with suppress(ValueError, TfperfError):
        PARSERS[name](text)


class Config:
    """pytest's, where only these options are given."""

    rootpath = Path("/home/u/project")
    inipath = None
    invocation_params = SimpleNamespace(dir=rootpath, args=())

    def __init__(self, **given: Any) -> None:
        self._given = given

    def getoption(self, name: str, default: str | None = None) -> Any:
        return self._given.get(name, default)

    def getini(self, name: str) -> None:
        return None


def asked(**given: Any) -> Settings:
    config: Any = Config(**given)
    return read_settings(config)


def test_a_command_repeats_what_the_environment_says_for_a_shell_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFPERF_MACHINE", "h200")
    monkeypatch.setenv("TFPERF_MARKDOWN", "summary.md")  # of this session alone
    settings = asked()
    assert (settings.machine, settings.rerun.options) == ("h200", " -o tfperf_machine=h200")
    assert settings.rerun.recording == "pytest -o tfperf_machine=h200 --update-baselines"


def test_an_unknown_launcher_is_refused_with_the_known_ones_and_where_it_was_given() -> None:
    known = r"--tfperf-launcher: 'slrum' is not a launcher\. Did you mean 'slurm'\? Known: external, local, mpirun, "
    with pytest.raises(TfperfError, match=known):
        asked(tfperf_launcher="slrum")


@pytest.mark.parametrize("option", ["baselines", "dir", "data_dir", "profile_on_regression"])
def test_a_home_is_found_in_each_folder(option: str) -> None:
    found = asked(
        **{f"tfperf_{option}": "~/x"}, tfperf_update_baselines="all"
    )  # which makes the folder of the baselines
    assert found.values[option] == Path("~/x").expanduser()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"tfperf_update_baselines": "all", "tfperf_inject_slowdown": "0.1"},
            "--tfperf-inject-slowdown with --update-baselines: the slowdown would become the baseline",
        ),
        (
            {"tfperf_launcher": "slurm", "tfperf_split_gpu": "true"},
            "--tfperf-launcher with tfperf_split_gpu: ranks on several nodes can't share one GPU",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(TfperfError, match=f"^{said}. Leave one of them out.$"):
        asked(**given)


def test_a_contradiction_names_the_file_that_has_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Config, "inipath", Path("pyproject.toml"))
    monkeypatch.setattr(Config, "getini", lambda self, name: "true" if name == "tfperf_require_baseline" else None)
    with pytest.raises(TfperfError) as raised:
        asked(tfperf_smoke="true")
    assert str(raised.value) == (
        "--tfperf-smoke with pyproject.toml: tfperf_require_baseline: a smoke run judges nothing. Leave one of them "
        "out; for one session -o tfperf_require_baseline=none does so."
    )


def test_no_baselines_are_recorded_under_pytest_xdist() -> None:
    with pytest.raises(TfperfError, match=r"--update-baselines with -n: .* Add -n 0"):
        asked(tfperf_update_baselines="all", numprocesses=2)
    assert asked(tfperf_update_baselines="all", numprocesses=0).update_baselines


@pytest.mark.parametrize(("given", "recorded"), [("5", None), ("60", 60.0), ("inf", math.inf)])
def test_baselines_are_not_recorded_from_runs_that_are_cut_short(
    monkeypatch: pytest.MonkeyPatch, given: str, recorded: float | None
) -> None:
    monkeypatch.setenv("TFPERF_MAX_TIME", given)
    assert (asked().max_time, asked(tfperf_update_baselines="all").max_time) == (float(given), recorded)


@pytest.mark.parametrize(
    ("max_time", "asks", "seconds"),
    [
        (None, {}, (30.0, 30.0)),
        (None, {"steps": 50}, (math.inf, 30.0)),
        (None, {"warmup_steps": 50}, (30.0, math.inf)),
        (None, {"also": (Figure("peak_memory"),)}, (math.inf, 30.0)),
        (5.0, {"steps": 50}, (5.0, 30.0)),
        (math.inf, {}, (math.inf, 30.0)),
    ],
)
def test_runs_end_by_time_where_a_test_asks_for_no_steps_of_its_own(
    max_time: float | None, asks: dict[str, Any], seconds: tuple[float, float]
) -> None:
    plan = Settings(values={"max_time": max_time}).plan(**asks)
    assert (plan.max_seconds, plan.max_warmup_seconds) == seconds


@pytest.mark.parametrize("option", ["collectonly", "showfixtures", "show_fixtures_per_test", "setupplan"])
def test_a_session_that_only_lists_measures_nothing(option: str) -> None:
    assert (asked().collects_only, asked(**{option: True}).collects_only) == (False, True)


OWN_OPTIONS = """
    def pytest_addoption(parser):
        parser.addoption("--models", nargs="+")
        parser.addoption("--hub-token")
        parser.getgroup("reports").addoption("--pages", action="append")
"""


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        (["-m", "cpu and not slow", "-q"], "-m 'cpu and not slow'"),
        (["-x", "--lf", "--junitxml=a.xml", "-ra", "--durations", "3", "--pages", "a.html"], ""),
        (["-xvk", "small", "--tb", "short"], "-k small"),
        (["-ksmall", "--ignore=old", "--deselect", "a.py::test"], "-ksmall --ignore=old --deselect a.py::test"),
        (["--tfperf-inject-slowdown", "0.2", "--tfperf-strict", "--tfperf-html=x.html"], ""),
        (["--tfperf-machine", "box", "-o", "tfperf_split_gpu=true"], "--tfperf-machine box -o tfperf_split_gpu=true"),
        (["-o", "tfperf_max_time=10", "-otfperf_strict=1", "-o", "tfperf_busy=1"], "-o tfperf_busy=1"),
        (["--models", "a", "b", "-v"], "--models a b"),
        (["--hub-token=abc"], "'--hub-token=***'"),
        (["--hub-token", "abc", "-x"], "--hub-token '***'"),
        (["-n", "0"], "-n 0"),
        (["-n0", "--dist=load"], "-n0"),
        (["--update-baselines"], ""),
        (["-o", "tfperf_history_url=postgresql://me:secret@db/speed"], ""),
        (["-otfperf_history_url=postgresql://me:secret@db/speed"], ""),
        (["--override-ini=tfperf_history_url=postgresql://me:secret@db/speed"], ""),
    ],
    ids=str,
)
def test_the_command_that_records_takes_over_only_what_changes_what_is_measured(
    pytester: pytest.Pytester, typed: list[str], kept: str
) -> None:
    pytester.makeconftest(OWN_OPTIONS)
    pytester.mkdir("perf_tests")
    recording = read_settings(pytester.parseconfig("perf_tests", *typed)).rerun.recording
    added = " -p no:cacheprovider" if "-p" in recording else ""
    assert recording.replace(added, "") == f"pytest perf_tests{f' {kept}' if kept else ''} --update-baselines"


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        (["-m", "cpu", "-k", "small", "--ignore=old", "-x", "-q"], ""),
        (
            ["--tfperf-dir=my runs", "--tfperf-machine", "h200", "--tfperf-strict"],
            "'--tfperf-dir=my runs' --tfperf-machine h200",
        ),
        (["--models", "a", "b", "--import-mode=importlib"], "--models a b --import-mode=importlib"),
        (["-o", "tfperf_busy=1", "-n", "0"], "-o tfperf_busy=1 -n 0"),
    ],
    ids=str,
)
def test_the_command_that_runs_one_test_takes_over_all_but_what_chooses_tests(
    pytester: pytest.Pytester, typed: list[str], kept: str
) -> None:
    pytester.makeconftest(OWN_OPTIONS)
    pytester.mkdir("perf_tests")
    rerun = read_settings(pytester.parseconfig("perf_tests", *typed)).rerun.of("a.py::test")
    added = " -p no:cacheprovider" if "-p" in rerun else ""
    assert rerun.replace(added, "") == f"pytest a.py::test{f' {kept}' if kept else ''}"


def test_a_number_of_pytest_9s_own_toml_is_asked_for_as_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def getini(self: Config, name: str) -> None:
        raise TypeError(f"{name} expects a string")

    monkeypatch.setattr(Config, "inipath", Path("pytest.toml"))
    monkeypatch.setattr(Config, "getini", getini)
    with pytest.raises(TfperfError, match=r"^pytest.toml: tfperf_\w+ must be a text in quotes"):
        asked()


def test_a_wrong_url_of_the_history_is_refused_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFPERF_HISTORY_URL", "postgresql://me:secret@db")
    with pytest.raises(TfperfError, match=r"^environment variable TFPERF_HISTORY_URL: .* must look like") as raised:
        asked()
    assert "secret" not in str(raised.value)


def test_a_wrong_value_is_placed_in_the_file_or_the_override_that_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Config, "inipath", Path("pyproject.toml"))
    monkeypatch.setattr(Config, "getini", lambda self, name: "postgresql://x" if name == "tfperf_history_url" else None)
    with pytest.raises(TfperfError, match=r"^pyproject.toml: tfperf_history_url: "):
        asked()
    with pytest.raises(TfperfError, match=r"^-o tfperf_history_url: "):
        asked(override_ini=["tfperf_history_url=postgresql://x"])


def test_settings_as_text_have_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFPERF_HISTORY_URL", "postgresql://me:secret@db/speed")
    settings = asked()
    assert (str(settings.values["history_url"]), "secret" in repr(settings)) == ("postgresql://db/speed", False)


def test_the_help_of_pytest_says_what_the_plugin_is_for_and_shows_its_flags_as_such(
    pytester: pytest.Pytester,
) -> None:
    said = pytester.runpytest_inprocess("--help").stdout.str()
    assert "\npytest-tfperf: fail tests whose training program became slower than accepted:\n" in said
    assert "\n  tfperf_strict (bool):" in said


@pytest.mark.parametrize("text", ["yes", "true", "on"])
def test_a_flag_of_the_ini_file_takes_each_word_for_true(pytester: pytest.Pytester, text: str) -> None:
    pytester.makeini(f"[pytest]\ntfperf_strict = {text}\n")
    assert read_settings(pytester.parseconfig()).strict


@pytest.mark.parametrize("text", ["maybe", "none"])
def test_a_flag_of_the_ini_file_that_is_neither_true_nor_false_is_refused(pytester: pytest.Pytester, text: str) -> None:
    pytester.makeini(f"[pytest]\ntfperf_strict = {text}\n")
    pytester.runpytest_inprocess().stderr.fnmatch_lines(["ERROR: *tox.ini: tfperf_strict must be true or false*"])
