"""The files that `tfperf init` writes into a user's repository."""

from __future__ import annotations

from pytest_tfperf.core.documentation import page
from pytest_tfperf.reports.table import aligned

TEST = '''"""How fast do our models train? `pytest {tests}` measures."""

import pytest
from pytest_tfperf import Workload


@pytest.mark.{marker}
def test_training_speed(throughput, gpu_topology):
    """On {where}; replace resnet20 by "package.module:function" of your own."""
    workload = Workload(model="resnet20", batch_size=8)
    throughput.check(workload, on=gpu_topology.take(1))
'''

BASELINES = """# Baselines

One CSV for each machine, written by `pytest {tests} --update-baselines` on that machine. Commit them: a change is then
reviewed as a diff of rows. `tfperf baselines list` shows what is here.
"""

GITIGNORE = ".tfperf/"

GITHUB = """\
# The nightly gate of training throughput. It needs a runner of your own, whose Python has pytest-tfperf and TensorFlow.
name: throughput
on:
  schedule: [{{cron: "0 3 * * *"}}]
  workflow_dispatch:
jobs:
  throughput:
    runs-on: [self-hosted]    # add the label of the machine whose baselines are committed
    concurrency: {{group: throughput, cancel-in-progress: false}}    # one job at a time on a host
    env: {{TFPERF_HTML: throughput.html}}    # the report
    steps:
      - uses: actions/checkout@v4
        with: {{fetch-depth: 0}}    # the reference environment needs the baselines' commits
      - run: tfperf doctor
        continue-on-error: true    # the session itself discards disturbed runs
      - run: tfperf reference create --dir="$HOME/.cache/tfperf"
        continue-on-error: true    # without it, slowdowns are confirmed against the baselines alone
      - run: >
          pytest {tests} --tfperf-require-baseline --continue-on-collection-errors
          --tfperf-dir="$HOME/.cache/tfperf" --junitxml=throughput.xml
      - uses: actions/upload-artifact@v4
        if: always()
        with: {{name: throughput, path: throughput.*}}
"""

GITLAB = """\
# The nightly gate of training throughput. It needs a runner of your own, whose Python has pytest-tfperf and TensorFlow.
throughput:
  tags: [throughput]    # of the machine whose baselines are committed
  resource_group: throughput    # one job at a time on a host
  rules:
    - if: $CI_PIPELINE_SOURCE == "schedule" || $CI_PIPELINE_SOURCE == "web"
  variables:
    GIT_DEPTH: 0    # the reference environment needs the baselines' commits
    TFPERF_HTML: throughput.html    # the report
  script:
    - tfperf doctor || true    # the session itself discards disturbed runs
    - tfperf reference create --dir="$HOME/.cache/tfperf" || echo "slowdowns are confirmed against the baselines"
    - >
      pytest {tests} --tfperf-require-baseline --continue-on-collection-errors
      --tfperf-dir="$HOME/.cache/tfperf" --junitxml=throughput.xml
  allow_failure:
    exit_codes: [6, 7]    # could not measure, or the machine is slower: a warning, and no failed pipeline
  artifacts:
    when: always
    paths: [throughput.html]
    reports: {{junit: throughput.xml}}
"""


def next_steps(tests: str, *, with_ci: bool) -> list[str]:
    """What to do after `tfperf init`."""
    steps = [
        ("tfperf doctor", "is this machine fit to measure?"),
        (f"pytest {tests}", "measure once; there is no baseline yet"),
        (f"pytest {tests} --update-baselines", "record baselines, then commit them"),
    ]
    steps.append((page("writing-tests.md"), "how to write tests"))
    return aligned([*steps, *([("add a runner of your own", "the CI file says what it needs")] if with_ci else [])])
