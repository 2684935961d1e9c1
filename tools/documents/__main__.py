"""`python -m tools.documents DIR [--baselines DIR]`: write the documents' figures into baselines/*.csv again."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pytest_tfperf.errors import TfperfError
from tools.documents import regenerate


def main() -> int:
    """Read the documents, write the baselines, and print how many figures each document gave."""
    parser = argparse.ArgumentParser(prog="python -m tools.documents", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="where the three documents are")
    parser.add_argument("--baselines", type=Path, default=Path("baselines"), metavar="DIR", help="default: baselines/")
    arguments = parser.parse_args()
    try:
        for name, rows in regenerate(arguments.folder, arguments.baselines).items():
            print(f"{name}: {len(rows)} baselines")
    except TfperfError as error:
        print(f"tools.documents: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
