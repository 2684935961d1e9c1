"""Lasting changes over the sessions of a history: steps, and slow declines.

For teams whose losses come a percent at a time.
A session can fail for them at its end (`--tfperf-fail-on-drift`), and `tfperf history changes` lists all changes.
"""
