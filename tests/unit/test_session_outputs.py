"""What a session writes at its end."""

from __future__ import annotations

from typing import cast

import pytest

from pytest_tfperf.session import outputs as session_outputs
from pytest_tfperf.session.session import Session


def test_a_fault_of_one_output_is_told_and_keeps_no_other_from_being_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(session: Session) -> list[str]:
        raise UnicodeError(f"not for {session}")

    monkeypatch.setattr(session_outputs, "_OUTPUTS", (faulty, lambda _: ["report: written"]))
    told, written = session_outputs.write_outputs(cast(Session, "anyone"))
    assert told.startswith("faulty: a fault of pytest-tfperf itself, please report it: UnicodeError('not for anyone')")
    assert written == "report: written"
