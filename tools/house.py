"""How large the package is, and in how many rooms each capability lies.

    python -m tools.house                # this commit
    python -m tools.house d5bfacd HEAD   # two commits side by side

A capability's files are those whose names say so; a room is a folder of the package, and the package's top is one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

PACKAGE: Final = "pytest_tfperf"
CAPABILITIES: Final[Mapping[str, str]] = {
    "baselines": r"cli/baselines|reports/baselines|features/baselines",
    "budget": r"budget",
    "changes": r"/changes|lasting_\w+|drift_over_sessions|change_(?:points|shapes)|core/change\b",
    "ci": r"ci_outputs|annotations|junit|markdown|features/ci/",
    "cluster": r"cluster|engine|rank_calls|session_key|unresponsive|network",
    "compare_sessions": r"cli/compare|side_comparison|baseline_revisions|compare_sessions",
    "comparing": r"comparing|features/against|ratios|reports/comparisons|core/comparison",
    "doctor": r"doctor|fitness|finding",
    "explain": r"explain|explanation",
    "export": r"export|otava",
    "init": r"cli/init|starter_files|ini_section|features/init",
    "page": r"/page/|cli/report|report_source",
    "profiles": r"profil(?!e\.py)|traces|reports/profile|core/profile",
    "programs": r"programs/|command_run|command_windows|supervisor|core/readings|core/reads|core/command",
    "references": r"reference_|cli/reference|virtual_env|worktree|(?:workers|revisions)/lock|features/references",
    "replay": r"replay|log_description|log_lines|tf_cnn_(?:log|header)",
    "team": r"history_push|push_process|silence|features/team",
}


def files(commit: str) -> dict[PurePosixPath, int]:
    """The Python files of a commit's package, with their lines."""
    listed = subprocess.run(
        ["git", "grep", "-c", "", commit, "--", f"{PACKAGE}/*.py"], capture_output=True, text=True, check=True
    )
    found = {}
    for line in listed.stdout.splitlines():
        path, _, lines = line.partition(":")[2].rpartition(":")
        found[PurePosixPath(path)] = int(lines)
    return found


def rooms(capability: str, paths: Mapping[PurePosixPath, int]) -> set[str]:
    """The folders that hold the capability's files; what trains lies in training/ by rule, and does not count."""
    named = [path for path in paths if re.search(CAPABILITIES[capability], str(path)) and "training" not in path.parts]
    return {str(path.parent.relative_to(PACKAGE)) for path in named}


def main() -> None:
    """Print the sizes and the rooms, a column for each commit."""
    commits = sys.argv[1:] or ["HEAD"]
    counted = [files(commit) for commit in commits]
    rows = {"": commits}
    rows["files"] = [str(len(one)) for one in counted]
    rows["lines"] = [f"{sum(one.values()):,}" for one in counted]
    spine = [{path: lines for path, lines in one.items() if "features" not in path.parts} for one in counted]
    rows["files of the spine"] = [str(len(one)) for one in spine]
    rows["lines of the spine"] = [f"{sum(one.values()):,}" for one in spine]
    rows["files under 60 lines"] = [
        str(sum(lines < 60 and path.name != "__init__.py" for path, lines in one.items())) for one in counted
    ]
    for capability in CAPABILITIES:
        rows[f"rooms of {capability}"] = [str(len(rooms(capability, one))) for one in counted]
    for name, cells in rows.items():
        print(f"{name:<26}" + "".join(f"{cell[:10]:>12}" for cell in cells))


if __name__ == "__main__":
    main()
