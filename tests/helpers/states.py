"""A session of pytest's side that no pytest runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.selection import SelectedTest
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.session.state import SessionState


def state_of(folder: Path, tests: Iterable[SelectedTest] = (), **settings: Any) -> SessionState:
    """A session with these settings, of the spine and of features, in which these tests are selected."""
    values = {"dir": folder / "dir", "baselines": folder / "baselines"} | settings
    of_session = {field.name: values.pop(field.name) for field in fields(Settings) if field.name in settings}
    made = SessionState(Settings(**{"root": folder} | of_session, values=values))
    selects(made, tests)
    return made


def selects(made: SessionState, tests: Iterable[SelectedTest]) -> None:
    """Select these tests, and no others."""
    made.selection.clear()
    made.selection.update({test.id: test for test in tests})


def state_after(folder: Path, *measurements: Measurement, **settings: Any) -> SessionState:
    """A session that has measured these, each in one call of its test."""
    made = state_of(
        folder, [SelectedTest(id=m.test) for m in measurements] or [SelectedTest(id="a.py::test")], **settings
    )
    for m in measurements:
        made.queue.keep(m.test, len(made.queue.results_of(m.test)), m)
    return made
