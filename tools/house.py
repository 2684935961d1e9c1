"""How large the package is, and its spine: all that lies outside of features/.

python -m tools.house                # this commit
python -m tools.house d5bfacd HEAD   # two commits side by side
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import PurePosixPath
from typing import Final

PACKAGE: Final = "pytest_tfperf"


def lines_of(commit: str, pattern: str = "") -> dict[PurePosixPath, int]:
    """The Python files of a commit's package that have lines like this, and how many."""
    command = ["git", "grep", "-c", pattern, commit, "--", f"{PACKAGE}/*.py"]
    counted = (
        line.partition(":")[2].rpartition(":") for line in subprocess.check_output(command, text=True).split("\n")
    )
    return {PurePosixPath(path): int(count) for path, _, count in counted if path}


def sizes(commit: str) -> dict[str, int]:
    """What is counted in one commit, by name."""
    whole = lines_of(commit)
    spine = [lines for path, lines in whole.items() if "features" not in path.parts]
    return {
        "files": len(whole),
        "lines": sum(whole.values()),
        "classes": sum(lines_of(commit, "^class ").values()),
        "dataclasses": sum(lines_of(commit, "^@dataclass").values()),
        "files of the spine": len(spine),
        "lines of the spine": sum(spine),
    }


def main() -> None:
    """Print a column for each commit."""
    commits = sys.argv[1:] or ["HEAD"]
    columns = [sizes(commit) for commit in commits]
    print(" " * 20 + "".join(f"{commit[:10]:>12}" for commit in commits))
    for name in columns[0]:
        print(f"{name:<20}" + "".join(f"{column[name]:>12,}" for column in columns))


if __name__ == "__main__":
    main()
