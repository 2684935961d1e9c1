"""The most informative tests that fit into a time.

For suites that are longer than a night, or a pull request's patience.
It chooses which of the selected tests run, and in which order, and the summary names those that were left out.
"""
