"""Make small changes to the package that its tests should notice, and name those that no test notices.

    make mutants MUTANTS=judging/thresholds.py
    python -m tools.mutants judging --sample 150

The exit status is 1 where a mutant survives that tests/survivors.toml does not name with a reason, and where that file
names one that does not survive; of a sample, where more than a tenth of it survives, because a change of the code draws
others. A subprocess that a test starts runs the code on disk, without the mutant.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pytest_tfperf"
SURVIVORS = ROOT / "tests" / "survivors.toml"

MOST_OF_A_SAMPLE = 0.1

TESTS = {
    "judging": ["tests/judging", "tests/bench"],
    "bench": ["tests/bench", "tests/judging"],
    "programs": ["tests/programs"],
}
"""Folder of the package -> the tests that are to notice its mutants."""


def main() -> int:
    """Try the mutants, print the survivors, and count."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", default=["judging"], help=f"files or folders of {', '.join(TESTS)}")
    parser.add_argument("--sample", type=int, help="so many of them, the same ones for the same code")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    # Examples that a mutant fails are none to keep.
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
        os.chdir(ROOT)
        return try_mutants(options.paths, options.sample, options.processes)


def try_mutants(paths: Sequence[str], sample: int | None, processes: int) -> int:
    """Return the exit status."""
    from tools.mutants.coverage_of_tests import measure
    from tools.mutants.mutations import files_below, mutants_of
    from tools.mutants.trial import Trials

    begun = time.monotonic()
    files = list(dict.fromkeys(file for path in paths for file in files_below(PACKAGE, path)))
    mutants = [mutant for file in files for mutant in mutants_of(PACKAGE, file)]
    names = {mutant.name for mutant in mutants}
    if sample is not None:
        mutants = sorted(mutants, key=lambda one: hashlib.sha256(one.name.encode()).digest())[:sample]
    covering = measure(PACKAGE, dict.fromkeys(test for file in files for test in TESTS[file.partition("/")[0]]))
    reasons = named_survivors()
    tried, survived = Counter(one.file for one in mutants), Counter[str]()
    noticed: set[str] = set()
    alive: set[str] = set()
    unnamed = 0
    trials = Trials(PACKAGE, processes).run((one, *covering.of(one.file, one.line)) for one in mutants)
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
            unnamed += 1
            print(f"line {mutant.line}: {mutant.name}", flush=True)
    named = [name for name in reasons if name.partition(" ")[0] in files]
    # A sample never calls a name stale because a test noticed it: on a busy machine a test may fail for another reason.
    gone = set() if sample is not None else noticed - alive
    stale = [name for name in named if name in gone or name not in names]
    for name in stale:
        print(f"{SURVIVORS.name} names what a test notices, or what is no mutant any more: {name}")
    for file in filter(tried.get, files):
        print(f"{file}: {tried[file]} mutants, {survived[file]} survived")
    print(
        f"{len(mutants)} mutants, {survived.total()} survived ({survived.total() / max(len(mutants), 1):.1%}), "
        f"{unnamed} of them not named in {SURVIVORS.name}; {time.monotonic() - begun:.0f} s"
    )
    if sample is not None:
        return 1 if survived.total() > MOST_OF_A_SAMPLE * len(mutants) else 0
    return 1 if unnamed or stale else 0


def named_survivors() -> dict[str, str]:
    """Mutant -> why it survives."""
    groups: Iterable[dict[str, object]] = tomllib.loads(SURVIVORS.read_text()).get("because", [])
    return {str(mutant): str(group["reason"]) for group in groups for mutant in _list(group["mutants"])}


def _list(value: object) -> list[object]:
    assert isinstance(value, list), f"{SURVIVORS}: mutants is a list"
    return value


if __name__ == "__main__":
    raise SystemExit(main())
