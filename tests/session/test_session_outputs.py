"""What a session writes at its end."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from pytest_tfperf.features import hookimpl
from pytest_tfperf.session import feature_hooks
from pytest_tfperf.session.feature_hooks import Features
from tests.helpers.inner import Project


def plugin(name: str, session_ended: Any) -> ModuleType:
    made = ModuleType(name)
    made.session_ended = hookimpl(session_ended)  # type: ignore[attr-defined]
    return made


def test_a_fault_of_one_feature_is_told_and_keeps_no_other_from_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(record: object) -> list[str]:
        raise UnicodeError(f"not for {record}")

    found = {"faulty": plugin("faulty", faulty), "report": plugin("report", lambda: ["report: written"])}
    monkeypatch.setattr(feature_hooks, "modules", lambda _: found)
    told, written = Features().tell("session_ended", settings=None, record="anyone", history=None, baselines=None)
    assert told.startswith("faulty: a fault of pytest-tfperf itself, please report it: UnicodeError('not for anyone')")
    assert written == "report: written"


def test_a_report_is_written_without_a_terminal(played_project: Project) -> None:
    played_project.tests("def test_it(throughput, on): throughput.check(tiny(), on=on)")
    played_project.run("-p", "no:terminal", "--tfperf-html=report.html", "-o", "tfperf_steps=2")
    assert "test_it" in (played_project.folder / "report.html").read_text()
