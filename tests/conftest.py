"""What all kinds of tests need."""

from __future__ import annotations

import os

# A session that a test starts is no worker of the xdist that runs the test; pytest-benchmark would take it for one.
os.environ.pop("PYTEST_XDIST_WORKER", None)
