#!/usr/bin/env bash
# Make a repository to try action.yml on: `tools/sample_repository.sh FOLDER`. Its branch `equal` changes a comment, and
# its branch `slower` makes each step of its program last a third longer.
set -euo pipefail
cd "$1"
git init --quiet --initial-branch=main
printf '/*/\n!/perf_tests/\n' > .git/info/exclude # nothing else in the folder is the repository's
git config user.name sample
git config user.email sample@example.com

mkdir perf_tests
cat > perf_tests/test_speed.py <<'PYTHON'
import sys

from pytest_tfperf import Command


def test_train(throughput, on):
    throughput.check(Command([sys.executable, "train.py"], name="train"), on=on, tolerance=0.1)
PYTHON
cat > perf_tests/conftest.py <<'PYTHON'
import pytest


@pytest.fixture
def on(gpu_topology):
    return gpu_topology.take(1)
PYTHON
cat > train.py <<'PYTHON'
import sys
import time

SECONDS = 0.015

while True:
    time.sleep(SECONDS)
    sys.audit("tfperf.step", 1)
PYTHON
git add train.py perf_tests
git commit --quiet --message "A program and the test of its speed"

git switch --quiet --create equal
echo '# as fast as before' >> train.py
git commit --quiet --all --message "A comment"

git switch --quiet --create slower main
sed -i 's/SECONDS = 0.015/SECONDS = 0.020/' train.py
git commit --quiet --all --message "Slower"
git switch --quiet main
