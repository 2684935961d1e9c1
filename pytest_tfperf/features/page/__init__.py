"""The HTML report.

For whoever wants to see a session, or a machine's weeks, at a glance and without a server.
It writes one file when a session ends (`--tfperf-html`), and `tfperf report` writes it from the history.
"""
