"""Shared by the commands of `tfperf`: arguments, output, and the session's settings."""
