"""The most informative tests that fit into a time budget.

For suites that take longer than a nightly session or a pull request can wait.
With `--tfperf-budget` it chooses which of the selected tests run, and in which order; the summary names the others.
"""
