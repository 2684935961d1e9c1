"""`python -m pytest_tfperf.cli`."""

import sys

from pytest_tfperf.cli import main

if __name__ == "__main__":
    sys.exit(main())
