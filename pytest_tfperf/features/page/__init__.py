"""The HTML report.

For readers who want to see a session, or weeks of a machine, at a glance and without a server.
A session writes one file at its end (`--tfperf-html`), and `tfperf report` writes it from the history.
"""
