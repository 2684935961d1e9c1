"""Make changes to the package that its tests should notice, and name those that no test notices.

    make mutants MUTANTS=judging/noise.py
    python -m tools.mutants judging --sample 150
    python -m tools.mutants --changed main

First the changes of meaning, which tests/changes_of_meaning.toml lists: each must fail the test that it names. Then
mechanical ones, the mutants; a sample, or changed lines, are of these alone. The exit status is 1 where a change of
meaning survives or is not in the code any more; where a mutant of judging/ survives that tests/survivors.toml does not
name with a reason, and where that file names one that does not survive. Of other rooms, of a sample, and of changed
lines a tenth may survive: a change of the code draws others. A subprocess that a test starts runs the code on disk,
without the change, but for what it is given as text.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pytest_tfperf"
SURVIVORS = ROOT / "tests" / "survivors.toml"
CHANGES = ROOT / "tests" / "changes_of_meaning.toml"

MOST_UNNAMED = 0.1
NAMED_WHOLE = "judging/"
"""The room all of whose survivors have to be named."""

TESTS = {
    "judging": ["tests/judging", "tests/bench"],
    "bench": ["tests/bench", "tests/judging"],
    "features/read/proposals.py": ["tests/features/read"],
    "programs": ["tests/programs", "tests/features/read"],
    "revisions/own_code.py": [f"tests/revisions/test_{of}_code.py" for of in ("own", "each_sides", "shared")],
    "revisions/source_hook.py": [f"tests/revisions/test_{of}.py" for of in ("source_hook", "own_code", "shared_code")],
    "revisions": ["tests/revisions"],
    "features/ack": ["tests/features/ack"],
    "features/baselines": ["tests/features/baselines"],
    "features/notify": ["tests/features/notify"],
    "features/trial": ["tests/features/trial"],
}
"""Room or file of the package -> the tests that are to notice its mutants; the first that fits counts."""

ROOMS = (
    "judging",
    "features/ack",
    "features/baselines/accept.py",
    "features/notify",
    "features/trial",
    "features/read/proposals.py",
    "revisions/own_code.py",
    "revisions/source_hook.py",
)
"""Where mutants are made unless others are named."""


def main() -> int:
    """Try the changes, print the survivors, and count."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", help=f"files or folders of {', '.join(TESTS)} (default: {' '.join(ROOMS)})")
    parser.add_argument("--sample", type=int, help="so many mutants, the same ones for the same code")
    parser.add_argument("--changed", metavar="BASE", help="only mutants of lines that changed since this commit of git")
    parser.add_argument("--meaning", action="store_true", help="only the changes of meaning")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    # Examples that a mutant fails are none to keep.
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
        os.chdir(ROOT)
        is_part = options.sample is not None or options.changed is not None
        status = 0 if is_part else try_changes_of_meaning(options.paths, options.processes, Path(folder))
        if not options.meaning:
            lines = None if options.changed is None else changed_lines(options.changed)
            status |= try_mutants(options.paths, options.sample, lines, options.processes, Path(folder))
        return status


def try_changes_of_meaning(paths: Sequence[str], processes: int, folder: Path) -> int:
    """Return the exit status: 1 where a test that a change names does not fail.

    Raises:
        SystemExit: a change is not one of the code any more, or a test fails without it.
    """
    from tools.mutants.changes_of_meaning import read, require_passing
    from tools.mutants.trial import Trials

    begun = time.monotonic()
    changes = {mutant: test for mutant, test in read(PACKAGE, CHANGES) if not paths or _is_below(mutant.file, paths)}
    seconds = require_passing(dict.fromkeys(changes.values()))
    survived = 0
    for mutant, is_noticed in Trials(PACKAGE, processes, folder).run(
        (mutant, [test], seconds) for mutant, test in changes.items()
    ):
        if not is_noticed:
            survived += 1
            print(f"{changes[mutant]} passes in spite of line {mutant.line}: {mutant.name}", flush=True)
    print(f"{len(changes)} changes of meaning, {survived} survived; {time.monotonic() - begun:.0f} s", flush=True)
    return 1 if survived else 0


def changed_lines(base: str) -> dict[str, set[int]]:
    """File of the package -> its lines that were added or changed since the branch left `base`, committed or not."""
    diff = subprocess.run(
        ["git", "diff", "--merge-base", "--unified=0", "--no-color", "--no-ext-diff", base, "--", PACKAGE.name],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if diff.returncode:
        raise SystemExit(f"--changed={base}: {diff.stderr.strip()}")
    changed: dict[str, set[int]] = defaultdict(set)
    file = ""
    for line in diff.stdout.splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix(f"+++ b/{PACKAGE.name}/") if line.endswith(".py") else ""
        elif file and (hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            changed[file] |= {*range(first, first + count)}
    return dict(changed)


def try_mutants(
    paths: Sequence[str],
    sample: int | None,
    lines: Mapping[str, set[int]] | None,
    processes: int,
    folder: Path,
) -> int:
    """Return the exit status.

    Args:
        paths: files and folders; none for `ROOMS`.
        sample: the number of mutants; None for all.
        lines: file -> the lines to look at; None for all.
        processes: how many mutants are tried at a time.
        folder: for temporary files.
    """
    from tools.mutants.coverage_of_tests import measure
    from tools.mutants.mutations import files_below, mutants_of
    from tools.mutants.trial import Trials

    begun = time.monotonic()
    if lines is None:
        files = list(dict.fromkeys(file for path in paths or ROOMS for file in files_below(PACKAGE, path)))
    else:
        files = [file for file in sorted(lines) if _is_below(file, paths or ROOMS)]
        print(f"{len(files)} of {len(lines)} changed files are below {' '.join(paths or ROOMS)}")
    mutants = [mutant for file in files for mutant in mutants_of(PACKAGE, file)]
    names = {mutant.name for mutant in mutants}
    if lines is not None:
        mutants = [mutant for mutant in mutants if mutant.line in lines[mutant.file]]
    if sample is not None:
        mutants = sorted(mutants, key=lambda one: hashlib.sha256(one.name.encode()).digest())[:sample]
    if not mutants:
        print("no mutants")
        return 0
    tests = dict.fromkeys(test for mutant in mutants for test in _tests_of(mutant.file))
    covering = measure(PACKAGE, tests)
    reasons = named_survivors()
    tried, survived, unnamed = Counter(one.file for one in mutants), Counter[str](), Counter[str]()
    noticed: set[str] = set()
    alive: set[str] = set()
    trials = Trials(PACKAGE, processes, folder).run((one, *covering.of(one.file, one.line)) for one in mutants)
    for number, (mutant, is_noticed) in enumerate(trials, 1):
        if number % 100 == 0:
            print(
                f"{number} of {len(mutants)} tried, {len(alive)} survived; {time.monotonic() - begun:.0f} s", flush=True
            )
        if is_noticed:
            noticed.add(mutant.name)
            continue
        alive.add(mutant.name)
        survived[mutant.file] += 1
        if mutant.name not in reasons:
            unnamed[mutant.file] += 1
            print(f"line {mutant.line}: {mutant.name}", flush=True)
    for file in filter(tried.get, files):
        print(f"{file}: {tried[file]} mutants, {survived[file]} survived")
    print(
        f"{len(mutants)} mutants, {survived.total()} survived ({survived.total() / len(mutants):.1%}), "
        f"{unnamed.total()} of them not named in {SURVIVORS.name}; {time.monotonic() - begun:.0f} s"
    )
    are_too_many = unnamed.total() > MOST_UNNAMED * len(mutants)
    # A part never calls a name stale because a test noticed it: on a busy machine a test may fail for another reason.
    if sample is not None or lines is not None:
        return 1 if are_too_many else 0
    named = [name for name in reasons if name.partition(" ")[0] in files]
    stale = [name for name in named if name in noticed - alive or name not in names]
    for name in stale:
        print(f"{SURVIVORS.name} names what a test notices, or what is no mutant any more: {name}")
    return 1 if are_too_many or stale or any(file.startswith(NAMED_WHOLE) for file in unnamed) else 0


def _is_below(file: str, paths: Iterable[str]) -> bool:
    return any(Path(file).is_relative_to(path) for path in paths)


def _tests_of(file: str) -> list[str]:
    found = next((tests for room, tests in TESTS.items() if _is_below(file, [room])), None)
    if found is None:
        raise SystemExit(f"no tests are named for {file}: add its room to TESTS in {Path(__file__).relative_to(ROOT)}")
    return found


def named_survivors() -> dict[str, str]:
    """Mutant -> why it survives."""
    groups: Iterable[dict[str, object]] = tomllib.loads(SURVIVORS.read_text()).get("because", [])
    return {str(mutant): str(group["reason"]) for group in groups for mutant in _list(group["mutants"])}


def _list(value: object) -> list[object]:
    assert isinstance(value, list), f"{SURVIVORS}: mutants is a list"
    return value


if __name__ == "__main__":
    raise SystemExit(main())
