"""The tests of a feature lie in its folders: who deletes both leaves no other test without what it imports."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
IMPORTED = re.compile(r"^\s*(?:from|import) pytest_tfperf\.features\.(\w+)", re.MULTILINE)


def test_no_test_imports_a_feature_but_those_in_its_folders() -> None:
    imports = {path: set(IMPORTED.findall(path.read_text())) for path in TESTS.rglob("*.py")}
    outside = {
        f"{path.relative_to(TESTS)}: {feature}"
        for path, features in imports.items()
        for feature in features
        if not {TESTS / room / feature for room in ("features", "services")} & {*path.parents}
    }
    assert outside == set()
