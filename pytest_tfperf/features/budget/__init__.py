"""The most informative tests that fit into a time.

For suites that take longer than a nightly session or a pull request can wait.
It chooses which of the selected tests run, and in which order, and the summary names those that were left out.
"""
