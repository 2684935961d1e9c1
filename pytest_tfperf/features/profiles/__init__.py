"""Traces of regressions."""
