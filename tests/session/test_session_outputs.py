"""What a session writes at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core.selection import SelectedTest
from pytest_tfperf.core.settings import Update
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.session import state
from tests.helpers.inner import Project
from tests.helpers.states import state_of


def test_a_fault_of_one_feature_is_told_and_keeps_no_other_from_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(*_: object) -> list[str]:
        raise UnicodeError("no such letter")

    def full(*_: object) -> list[str]:
        raise TfperfError("the disk is full")

    ends: dict[str, Any] = {"faulty": faulty, "full": full, "report": lambda *_: ["report: written"]}
    made = state_of(tmp_path, [SelectedTest(id="a.py::test")])
    played = {name: Feature(asked=bool, session_ended=end) for name, end in ends.items()}  # asked for by any settings
    monkeypatch.setattr(state, "features", lambda: played)
    made.conclude()
    assert made.output_lines == [
        "faulty: a fault of pytest-tfperf itself, please report it: UnicodeError('no such letter')",
        "the disk is full",
        "report: written",
    ]


@pytest.fixture(autouse=True)
def without_github(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)


def test_a_plain_session_asks_only_features_that_are_for_every_session(tmp_path: Path) -> None:
    assert {*state_of(tmp_path).features} == {"retention"}


@pytest.mark.parametrize(
    ("file", "more"),
    [("box.csv", {"baselines", "references"}), ("acknowledged.toml", {"ack"})],
)
def test_a_file_makes_the_features_that_are_for_it_take_part(tmp_path: Path, file: str, more: set[str]) -> None:
    (tmp_path / "baselines").mkdir()
    (tmp_path / "baselines" / file).write_text("")
    assert {*state_of(tmp_path).features} == {"retention", *more}


@pytest.mark.parametrize(
    ("settings", "feature"),
    [
        ({"against": Path("python")}, "against"),
        ({"launcher": "external --nodes=2"}, "cluster"),
        ({"fail_on_drift": True}, "changes"),
        ({"update_baselines": Update.ALL}, "references"),
    ],
)
def test_a_setting_that_was_given_makes_its_feature_take_part(
    tmp_path: Path, settings: dict[str, object], feature: str
) -> None:
    assert feature in state_of(tmp_path, **settings).features


@pytest.mark.parametrize(
    ("variable", "value", "feature"),
    [
        ("TFPERF_HISTORY_URL", "", "sharing"),  # a job whose secret is empty is told so
        ("GITHUB_ACTIONS", "true", "ci"),
        ("GITHUB_STEP_SUMMARY", "summary.md", "ci"),
    ],
)
def test_a_variable_makes_its_feature_take_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, feature: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert feature in state_of(tmp_path).features


def test_a_hook_that_does_not_exist_is_an_error() -> None:
    hook: Any = {"sesion_ended": list}
    with pytest.raises(TypeError, match="sesion_ended"):
        Feature(**hook)


def test_a_report_is_written_without_a_terminal(played_project: Project) -> None:
    played_project.tests("def test_it(throughput, on): throughput.check(tiny(), on=on)")
    played_project.run("-p", "no:terminal", "--tfperf-html=report.html", "-o", "tfperf_steps=2")
    assert "test_it" in (played_project.folder / "report.html").read_text()
