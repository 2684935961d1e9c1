"""What a session writes at its end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.bench.session import Session
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features import Feature
from pytest_tfperf.session.feature_hooks import Features, features
from tests.helpers.inner import Project


def test_a_fault_of_one_feature_is_told_and_keeps_no_other_from_writing() -> None:
    def faulty(*_: object) -> list[str]:
        raise UnicodeError("no such letter")

    def full(*_: object) -> list[str]:
        raise TfperfError("the disk is full")

    ends: dict[str, Any] = {"faulty": faulty, "full": full, "report": lambda *_: ["report: written"]}
    found = Features({name: Feature(always=True, session_ended=end) for name, end in ends.items()})
    record: Any = None
    told, *others = found.session_ended(Session(settings=Settings()), record)
    assert told.startswith("faulty: a fault of pytest-tfperf itself, please report it: UnicodeError('no such letter')")
    assert others == ["the disk is full", "report: written"]


def test_a_plain_session_asks_only_features_that_are_for_every_session() -> None:
    assert {*features().active(Settings())} == {"ack", "baselines", "ci", "figures", "references", "retention"}


@pytest.mark.parametrize(
    ("setting", "value", "feature"),
    [("against", Path("python"), "against"), ("port", 4000, "cluster"), ("fail_on_drift", True, "changes")],
)
def test_a_setting_that_was_given_makes_its_feature_take_part(setting: str, value: object, feature: str) -> None:
    assert feature in features().active(replace(Settings(), of_features={setting: value}))


def test_a_job_whose_secret_is_empty_is_told_so_by_its_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFPERF_HISTORY_URL", "")
    assert "team" in features().active(Settings())


def test_a_hook_that_does_not_exist_is_an_error() -> None:
    hook: Any = {"sesion_ended": list}
    with pytest.raises(TypeError, match="sesion_ended"):
        Feature(**hook)


def test_a_report_is_written_without_a_terminal(played_project: Project) -> None:
    played_project.tests("def test_it(throughput, on): throughput.check(tiny(), on=on)")
    played_project.run("-p", "no:terminal", "--tfperf-html=report.html", "-o", "tfperf_steps=2")
    assert "test_it" in (played_project.folder / "report.html").read_text()
