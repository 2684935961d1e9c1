"""Which small changes `make mutants` makes, and whether a test notices them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

pytest.importorskip("mutmut", reason="mutmut is not installed: make mutants installs it")
pytest.importorskip("coverage", reason="coverage is not installed: make mutants installs it")

from tests.helpers.repositories import git
from tools.mutants import __main__ as mutants
from tools.mutants.__main__ import CHANGES, PACKAGE, ROOT, changed_lines, named_survivors
from tools.mutants.changes_of_meaning import read
from tools.mutants.mutations import mutants_of

SOURCE = """
    from functools import cache

    LIMIT = 0.25
    NAMES: dict[str, int] = {}

    class Judge:
        least: int = 2

        @property
        def is_bad(self):
            return self.value > LIMIT

        @cache
        def share(self, error, tests):
            if tests <= 0:
                raise ValueError("no tests: give 1 or more", tests + 1)
            return dict(zip([error], [tests], strict=True))
"""


def changes(tmp_path: Path, source: str = SOURCE) -> set[tuple[str, str]]:
    (tmp_path / "judge.py").write_text(dedent(source))
    return {(mutant.before, mutant.after) for mutant in mutants_of(tmp_path, "judge.py")}


@pytest.mark.parametrize(
    "change",
    [
        ("LIMIT = 0.25", "LIMIT = 0.5"),
        ("least: int = 2", "least: int = 3"),
        ("return self.value > LIMIT", "return self.value >= LIMIT"),
        ("if tests <= 0:", "if tests < 0:"),
    ],
    ids=["a constant", "a field", "a property", "a decorated method"],
)
def test_all_code_is_changed(tmp_path: Path, change: tuple[str, str]) -> None:
    assert change in changes(tmp_path)


def test_what_raises_annotations_assertions_and_words_of_help_stay(tmp_path: Path) -> None:
    made = changes(tmp_path, f"{SOURCE}\n    add('--json', help='print JSON', type=int)\n")
    assert not [before for before, _ in made if "raise" in before or "NAMES" in before]
    assert not [after for _, after in made if "strict=False" in after]
    assert not [after for _, after in made if "--json" in after and "help='print JSON'" not in after]


def test_a_name_stays_the_same_when_lines_above_are_added(tmp_path: Path) -> None:
    assert changes(tmp_path) == changes(tmp_path, "\n\n" + SOURCE)


@pytest.mark.parametrize(
    ("expected", "noticed"), [(0.25, True), (None, False)], ids=["a test", "no test that can fail"]
)
def test_a_mutant_is_noticed_by_a_test_that_fails_with_it(
    tmp_path: Path, expected: float | None, noticed: bool
) -> None:
    """In a process of its own: trials fork it, and it must not have imported the package."""
    package = tmp_path / "small"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "limits.py").write_text("LIMIT = 0.25\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(
        f"from small.limits import LIMIT\ndef test_it():\n    assert {expected} in (None, LIMIT)\n"
    )
    (tmp_path / "tests" / "conftest.py").write_text(
        "from hypothesis import settings\nsettings.register_profile('mutants')\n"
    )
    script = dedent(f"""
        from pathlib import Path
        from tools.mutants.mutations import mutants_of
        from tools.mutants.trial import Trials

        package = Path({str(package)!r})
        trials = ((mutant, [{str(tmp_path / "tests")!r}], 1.0) for mutant in mutants_of(package, "limits.py"))
        print([noticed for _, noticed in Trials(package, 1, Path({str(tmp_path)!r})).run(trials)])
    """)
    environment = {"PYTHONPATH": f"{PACKAGE.parent}:{tmp_path}", "PATH": "/usr/bin:/bin"}
    found = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=tmp_path, text=True, capture_output=True, check=False
    )
    assert found.stdout.splitlines()[-1:] == [str([noticed])], found


def test_each_change_of_meaning_is_one_of_the_code_and_names_a_test() -> None:
    for mutant, test in read(PACKAGE, CHANGES):
        file, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(), (mutant.name, test)


def test_a_change_of_meaning_that_is_not_in_the_code_any_more_is_named(tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text("LIMIT = 0.3\n")
    listed = tmp_path / "changes.toml"
    change = {"file": "judge.py", "old": "LIMIT = 0.25", "new": "LIMIT = 1", "test": "t.py::test", "why": "too wide"}
    listed.write_text("[[change]]\n" + "".join(f"{name} = {text!r}\n" for name, text in change.items()))
    with pytest.raises(SystemExit, match=r"change 1 \(too wide\): judge\.py has its old text 0 times, and not once"):
        list(read(tmp_path, listed))


def test_only_lines_that_are_new_or_other_than_in_the_base_count_as_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "small"
    package.mkdir()
    for name in ("same.py", "other.py"):
        (package / name).write_text("A = 1\nB = 2\nC = 3\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "--quiet", "--message=base")
    (package / "other.py").write_text("A = 1\nB = 3\nC = 3\nD = 4\n")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "PACKAGE", package)
    assert changed_lines("HEAD") == {"other.py": {2, 4}}


def test_each_named_survivor_has_its_reason_and_its_file() -> None:
    for name, reason in named_survivors().items():
        assert (PACKAGE / name.partition(" ")[0]).is_file(), name
        assert reason, name
