"""`python -m tools.documents [FOLDER] [--write]`: check the published figures against the documents in a folder.

Without a folder, only baselines/*.csv are checked, against figures.csv; --write writes them again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pytest_tfperf.errors import TfperfError
from tools.documents import FIGURES, baseline_files, differences, figures

BASELINES = Path(__file__).parents[2] / "baselines"


def main() -> int:
    """Print each difference; the status is 1 where there is one."""
    parser = argparse.ArgumentParser(prog="python -m tools.documents", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", metavar="FOLDER", help="where the three documents are")
    parser.add_argument("--write", action="store_true", help="write baselines/*.csv as figures.csv gives them")
    arguments = parser.parse_args()
    try:
        found = list(differences(arguments.folder)) if arguments.folder else []
    except TfperfError as error:
        print(f"tools.documents: {error}", file=sys.stderr)
        return 1
    for name, content in baseline_files().items():
        path = BASELINES / name
        if arguments.write:
            path.write_bytes(content)
        elif not path.exists() or path.read_bytes() != content:
            found.append(f"baselines/{name} is not what {FIGURES.name} gives: write it with --write")
    print("\n".join([*found, f"{len(figures())} figures, differences: {len(found)}"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
