"""`--tfperf-base`: whole sessions in git repositories, with programs whose rate is played."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.inner import NOT_MEASURED, Finished, Project
from tests.helpers.repositories import ONE_READING, TESTS, Repository
from tests.helpers.wheels import wheel

pytestmark = pytest.mark.slow

BASE = ("perf_tests", "--tfperf-base=main", *ONE_READING)


@pytest.fixture
def repository(played_project: Project) -> Repository:
    return Repository(played_project)


@pytest.fixture(scope="module")
def slower(played: Project) -> tuple[Repository, Finished]:
    """A branch whose program costs a fifth more, and main, which became slower meanwhile."""
    made = Repository(played)
    made.git("switch", "--quiet", "--create", "slower")
    made.cost(0.012)
    made.commit("slower")
    made.git("switch", "--quiet", "main")
    made.cost(0.1)
    made.commit("main went on")
    made.git("switch", "--quiet", "slower")
    return made, played.run(*BASE, TFPERF_MARKDOWN="summary.md")


def test_a_slower_branch_fails_against_the_commit_where_it_began(slower: tuple[Repository, Finished]) -> None:
    repository, session = slower
    assert (session.kinds, session.status) == ({"test_loop": "failure"}, 1), session.text
    base = repository.git("merge-base", "main", "HEAD")[:12]
    assert f"with main ({base}) (a) instead of a baseline, in at most 20 pairs of runs or 5 min each" in session.text
    assert f"examples/s: commit {base}" in session.text


def test_comparisons_are_kept_with_the_two_commits(slower: tuple[Repository, Finished]) -> None:
    repository, _ = slower
    (kept,) = repository.project.history.measurements(is_interleaved=True)
    assert kept.other.is_of_session
    commits = [side.environment["commit"] for side in (kept.other, kept)]
    assert commits == [repository.git("rev-parse", "--short=12", name) for name in ("main~1", "HEAD")]


def test_the_markdown_summary_has_the_comparison(slower: tuple[Repository, Finished]) -> None:
    repository, _ = slower
    base = repository.git("rev-parse", "--short=12", "main~1")
    assert f"| commit {base} | commit " in (repository.folder / "summary.md").read_text()


def test_the_users_checkout_is_left_as_it_was(slower: tuple[Repository, Finished]) -> None:
    repository, _ = slower
    assert repository.git("status", "--porcelain", "--branch") == "## slower\n?? summary.md"
    assert repository.worktrees == [repository.git("rev-parse", "main~1")]


def test_a_branch_that_changed_nothing_passes_and_its_uncommitted_changes_are_said(repository: Repository) -> None:
    repository.git("switch", "--quiet", "--create", "same")
    repository.project.write("cost.py", "COST = 0.01  # as before\n")
    session = repository.project.run(*BASE)
    assert (session.kinds, session.status) == ({"test_loop": "passed"}, 0), session.text
    assert ", with uncommitted changes) with main (" in session.text
    assert "REGRESSED" not in session.text


# What the base lacks


NEW = """
def test_new(throughput, on):
    run(throughput, on, "new.py", name="new")
"""

TWO_CHECKS = """
def test_two(throughput, on):
    run(throughput, on, "new.py", name="new")
    run(throughput, on, "newer.py", name="newer")
"""

# It compares two programs of this side, so it says nothing of the base.
OWN_COMPARISON = """
def test_own_comparison(throughput, on):
    old, new = (Command([sys.executable, "loop.py"], name=name, reads=RATES) for name in ("old", "new"))
    throughput.compare(old, new, on=on, tolerance=0.05)
"""

# `echo` is not of this repository, and where it runs is not either.
ELSEWHERE = """
def test_elsewhere(throughput, on, tmp_path):
    loop = "for i in 1 2 3 4 5 6; do sleep 0.2; echo step $i throughput: 5 examples/s; done"
    throughput.check(Command(["/bin/sh", "-c", loop], name="elsewhere", reads=RATES, cwd=tmp_path), on=on)
"""


def test_what_the_base_lacks_is_measured_and_said_and_the_rest_is_compared(repository: Repository) -> None:
    repository.project.write("new.py", "import loop\n")
    repository.project.tests(TESTS + NEW, "perf_tests/test_it.py")
    session = repository.project.run(*BASE)
    assert session.kinds == {"test_loop": "passed", "test_new": "passed"}, session.text
    base = repository.git("rev-parse", "--short=12", "main")
    assert f"test_new: measured, not compared: NEW: main ({base}) has no new.py" in session.text
    assert session.status == 0


@pytest.mark.parametrize(
    ("tests", "files", "said"),
    [
        (NEW, {"new.py": "import loop\n"}, "NEW: main ("),
        (NEW + OWN_COMPARISON, {"new.py": "import loop\n"}, "NEW: main ("),
        (ELSEWHERE, {}, "nothing of this repository is in it, so both sides would be the same"),
        (
            NEW.replace("new.py", "loop.py"),
            {"loop.py": "import loop_of_head\n", "loop_of_head.py": None},
            "fails there only: the program exited with status 1 after 0 readings",
        ),
    ],
    ids=["new", "new, beside a comparison of its own", "of no repository", "fails in the base"],
)
def test_a_session_that_compared_nothing_ends_with_6(
    repository: Repository, tests: str, files: dict[str, str | None], said: str
) -> None:
    head = (repository.folder / "loop.py").read_text()
    if "loop.py" in files:
        repository.project.write("loop.py", "raise SystemExit(1)\n")
        repository.commit("broken")
    for name, text in files.items():
        repository.project.write(name, head if text is None else text)
    body = TESTS.partition("def test_loop")[0]
    repository.project.tests(body + tests, "perf_tests/test_it.py")
    session = repository.project.run(*BASE)
    assert session.status == NOT_MEASURED, session.text
    assert f"measured, not compared: {said}" in session.text
    assert "NO CHECK WAS COMPARED with the other side" in session.text


def test_each_check_that_the_base_lacks_says_why(repository: Repository) -> None:
    for name in ("new.py", "newer.py"):
        repository.project.write(name, "import loop\n")
    repository.project.tests(TESTS.partition("def test_loop")[0] + TWO_CHECKS, "perf_tests/test_it.py")
    text = repository.project.run(*BASE).text
    lacks = [line.rpartition(" has no ")[2] for line in text.splitlines() if "test_two: measured, not compared" in line]
    assert [line.split()[0] for line in lacks] == ["new.py", "newer.py"], text


def test_a_program_that_fails_on_this_side_only_fails_its_test(repository: Repository) -> None:
    repository.project.write("loop.py", "raise SystemExit(1)\n")
    session = repository.project.run(*BASE)
    assert (session.kinds, session.status) == ({"test_loop": "failure"}, 1), session.text
    assert "fails here only, and not at the base: " in session.text
    assert "rerun       pytest perf_tests/test_it.py::test_loop --tfperf-base=main" in session.text
    assert "ends with 6" not in session.text


EVALUATES = """
def test_loop(throughput, on):
    evaluation = Figure("eval_ms", pattern=r"eval took (?P<eval_ms>\\S+)", unit="ms", takes="first")
    run(throughput, on, "loop.py", also=[evaluation])
"""


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("print('eval took nan ms')", "the figure eval_ms is 'nan', which can't be its value"),
        (
            "print('eval took 0.98 s')",
            "the figure eval_ms is 0.98 s in the line 'eval took 0.98 s', and its unit is 'ms'",
        ),
        ("pass", "the figure eval_ms was never printed"),
        ("sys.exit(1)", "the program exited with status 1 after "),
    ],
    ids=["NaN", "another unit", "gone", "a late crash"],
)
def test_a_branch_that_alone_gives_no_figure_or_crashes_late_fails_its_test(
    repository: Repository, line: str, fact: str
) -> None:
    loop = (repository.folder / "loop.py").read_text().replace("import time", "import sys, time")
    loop += "    if step == 3:\n        "
    repository.project.write("loop.py", loop + "print('eval took 980.0 ms')")
    tests = "from pytest_tfperf import Figure\n" + TESTS.partition("def test_loop")[0] + EVALUATES
    repository.project.tests(tests, "perf_tests/test_it.py")
    repository.commit("it evaluates")
    repository.project.write("loop.py", loop + line)
    options = ("--tfperf-base=main", "--tfperf-json=r.json", "-o", "tfperf_steps=3")
    session = repository.project.run("perf_tests", *options, GITHUB_ACTIONS="true")
    assert (session.kinds, session.status) == ({"test_loop": "failure"}, 1), session.text
    (told,) = json.loads((repository.folder / "r.json").read_text())["not_measured"]
    assert (told["test"], told["effect"]) == ("perf_tests/test_it.py::test_loop", "fails")
    assert f": {fact}" in told["fact"]
    assert ",title=FAILED%3A perf_tests/test_it.py%3A%3Atest_loop::" in session.text


def test_a_program_that_fails_in_the_base_only_is_shown_with_its_last_lines_and_its_log(repository: Repository) -> None:
    works = (repository.folder / "loop.py").read_text()
    repository.project.write("loop.py", "print('reading the flags')\nraise SystemExit('no such flag')\n")
    repository.commit("broken")
    repository.git("switch", "--quiet", "--create", "mended")
    repository.project.write("loop.py", works)
    repository.commit("mended")
    session = repository.project.run(*BASE, TFPERF_COMMENT="comment.md")
    assert session.kinds == {"test_loop": "passed"}, session.text
    lines = session.text.splitlines()
    begin = next(number for number, line in enumerate(lines) if "measured, not compared: fails there only" in line)
    assert lines[begin].endswith(": the program exited with status 1 after 0 readings")
    assert lines[begin + 1].startswith("the end of its output (")
    assert lines[begin + 2 : begin + 4] == ["  | reading the flags", "  | no such flag"]
    assert "exited with status 1 after 0 readings: no such flag (" in (repository.folder / "comment.md").read_text()


def test_a_program_that_fails_once_by_chance_is_nobodys_fault(repository: Repository) -> None:
    once = "import os, sys\nif not os.path.exists('failed'):\n    open('failed', 'w')\n    sys.exit(1)\n"
    repository.project.write("loop.py", once + (repository.folder / "loop.py").read_text())
    session = repository.project.run(*BASE)
    assert (session.kinds, session.status) == ({"test_loop": "error"}, NOT_MEASURED), session.text


def test_a_program_that_fails_on_both_sides_is_an_error_that_says_so(repository: Repository) -> None:
    repository.project.write("loop.py", "raise SystemExit(1)\n")
    repository.commit("broken")
    session = repository.project.run(*BASE)
    assert (session.kinds, session.status) == ({"test_loop": "error"}, NOT_MEASURED), session.text
    assert "there, too  " in session.text
    assert "fails there only" not in session.text


# Both sides must be two


def install(repository: Repository, *, editable: bool) -> str:
    """Install `cost` from the repository as pip does, into a folder of packages; returns PYTHONPATH."""
    packages = repository.folder.parent / "packages" / "site-packages"
    info = packages / "cost-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: cost\nVersion: 1.0\n")
    (info / "top_level.txt").write_text("cost\n")
    flag = ', "dir_info": {"editable": true}' if editable else ', "dir_info": {}'
    (info / "direct_url.json").write_text(f'{{"url": "{repository.folder.as_uri()}"{flag}}}')
    if not editable:
        (packages / "cost.py").write_text((repository.folder / "cost.py").read_text())
    return str(packages)


def test_a_copy_among_the_installed_packages_is_refused_with_the_way_to_mend_it(repository: Repository) -> None:
    path = install(repository, editable=False)
    repository.git("mv", "loop.py", "perf_tests/loop.py")
    repository.project.tests(TESTS.replace('"loop.py"', '"perf_tests/loop.py"'), "perf_tests/test_it.py")
    repository.commit("moved")
    session = repository.project.run(*BASE, PYTHONPATH=path)
    assert (session.kinds, session.status) == ({"test_loop": "error"}, NOT_MEASURED), session.text
    assert "both sides would run the same code" in session.text
    assert "PYTHONPATH=. pytest ..." in session.text
    mended = repository.project.run(*BASE, PYTHONPATH=f".:{path}")
    assert mended.kinds == {"test_loop": "passed"}, mended.text


IN_A_VARIABLE = """
def test_in_a_variable(throughput, on, request):
    path = f"{request.config.rootpath}/src:{os.environ.get('PYTHONPATH', '')}"
    run(throughput, on, "loop.py", name="in-a-variable", env={"PYTHONPATH": path})
"""


def test_a_variable_with_a_list_of_folders_gives_each_side_its_own(repository: Repository) -> None:
    repository.git("switch", "--quiet", "--create", "branch")
    (repository.folder / "src").mkdir()
    repository.git("mv", "cost.py", "src/cost.py")
    body = TESTS.partition("def test_loop")[0]
    repository.project.tests(f"import os{body}{IN_A_VARIABLE}", "perf_tests/test_it.py")
    base = repository.commit("moved")
    repository.project.write("src/cost.py", "COST = 0.012\n")
    session = repository.project.run("perf_tests", f"--tfperf-base={base}", *ONE_READING)
    assert session.kinds == {"test_in_a_variable": "failure"}, session.text


# What proves that they are two


def test_a_branch_that_a_program_does_not_read_passes_without_a_remark(repository: Repository) -> None:
    repository.git("switch", "--quiet", "--create", "docs")
    repository.project.write("README.md", "Read me.")
    repository.commit("docs")
    session = repository.project.run(*BASE)
    assert outcomes(session) == {"test_loop": "PASS"}, session.text
    assert "loop: " not in session.text


def outcomes(session: Finished) -> dict[str, object]:
    return {name: dict(case.properties)["tfperf_outcome"] for name, case in session.cases.items()}


TWO_TESTS = """
def test_again(throughput, on):
    for _ in range(2):
        run(throughput, on, "build/app", name="again")
"""


def test_each_test_of_a_program_that_both_sides_share_is_inconclusive_and_says_why(repository: Repository) -> None:
    repository.project.write(".gitignore", (repository.folder / ".gitignore").read_text() + "build/\n")
    repository.project.tests(TESTS.replace("loop.py", "build/app") + TWO_TESTS, "perf_tests/test_it.py")
    repository.commit("build")
    repository.git("switch", "--quiet", "--create", "slower")
    repository.cost(0.02)
    repository.project.write(
        "build/app", (repository.folder / "loop.py").read_text().replace("from cost", "COST = 1 #")
    )
    app = (repository.folder / "build" / "app").read_text()
    repository.project.write("build/app", f"open('cost.py')\n{app}")
    session = repository.project.run(*BASE, TFPERF_MARKDOWN="summary.md")
    assert outcomes(session) == {"test_loop": "INCONCLUSIVE", "test_again": "INCONCLUSIVE"}, session.text
    for test in ("test_loop", "test_again"):
        doubt = f"::{test}: loop: both sides run {repository.folder}/build/app, which is in no commit"
        assert session.text.count(doubt) == 1
    assert (
        "not proved that each side ran its own code in 3 fresh pairs" in (repository.folder / "summary.md").read_text()
    )
    assert "REGRESSED" in repository.project.run(*BASE, "--tfperf-inject-slowdown=0.3").text


# Packages


def test_the_base_runs_with_the_packages_of_its_lock(repository: Repository, tmp_path: Path) -> None:
    (repository.folder / "cost.py").unlink()
    repository.project.write("packages.lock", wheel(tmp_path / "wheels", "cost", "1.0", "COST = 0.02\n"))
    repository.commit("the cost is a package")
    repository.git("switch", "--quiet", "--create", "branch")
    repository.cost(0.01)
    session = repository.project.run(*BASE, "--tfperf-base-lock=packages.lock")
    assert dict(session.cases["test_loop"].properties)["tfperf_outcome"] == "IMPROVED", session.text
    assert "the base runs with packages of its own: " in session.text


def test_a_test_in_a_folder_that_the_base_lacks_is_new_and_the_others_are_compared(repository: Repository) -> None:
    new = TESTS.replace("test_loop", "test_new").replace('name="loop"', 'name="new"')
    repository.project.tests(new, "new_tests/test_new.py")
    session = repository.project.run("new_tests", *BASE)
    assert session.status == 0, session.text
    assert "test_new: measured, not compared: NEW: main (" in session.text
    assert " has no folder new_tests/" in session.text
    (kept,) = repository.project.history.measurements(is_interleaved=True)
    assert kept.test.endswith("::test_loop")


def test_a_line_says_that_the_base_is_checked_out_which_happens_once(repository: Repository) -> None:
    texts = [repository.project.run(*BASE).text for _ in range(2)]
    assert [text.count("checking out ") for text in texts] == [1, 0]
