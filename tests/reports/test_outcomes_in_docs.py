"""docs/reading-results.md says of each outcome what `tfperf explain` says."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_tfperf.core.verdict import Outcome

PAGE = Path(__file__).parents[2] / "docs" / "reading-results.md"


@pytest.mark.parametrize("outcome", Outcome)
def test_the_page_and_explain_say_the_same_of_an_outcome(outcome: Outcome) -> None:
    assert f"\n| {outcome} | {outcome.meaning} |" in PAGE.read_text("utf-8")
