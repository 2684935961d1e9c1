"""What pytest or we refuse before the first test: without passwords, with the exit status that a feature wants."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import format_exception
from typing import Any

import pytest

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import printable, without_passwords
from pytest_tfperf.session.feature_hooks import features


def hide_in_errors_of(parser: pytest.Parser, config: pytest.Config) -> None:
    """pytest's own errors of the command line repeat an unknown option with its value."""
    options: Any = getattr(parser, "optparser", None)  # pytest has no public name
    if error := getattr(options, "error", None):

        def hidden(message: str) -> None:
            with told(config):
                error(without_passwords(message))

        options.error = hidden


@contextmanager
def as_usage_error() -> Iterator[None]:
    """Turn a fault before the first test into pytest's usage error, exit status 4."""
    try:
        yield
    except TfperfError as error:
        raise pytest.UsageError(printable(str(error))) from None


@contextmanager
def without_passwords_in() -> Iterator[None]:
    """pytest's own errors before the first test repeat a path that does not exist."""
    try:
        yield
    except pytest.UsageError as error:
        raise pytest.UsageError(*(without_passwords(str(line)) for line in error.args)) from None


@contextmanager
def told(config: pytest.Config) -> Iterator[None]:
    """Show an error and end with the status of the feature that wants another one than pytest's 4.

    pytest asks no plugin for the status of what it refuses.
    """
    try:
        yield
    except Exception as error:
        arguments = tuple(map(str, config.invocation_params.args))
        status: int | None = features().ask("usage_status", arguments=arguments)
        if status is None:
            raise
        # What is no usage error is a fault of a conftest.py or of a plugin, and its traceback says where.
        lines = error.args if isinstance(error, pytest.UsageError) else format_exception(error)
        print(without_passwords("ERROR: " + "\n".join(map(str, lines))), file=sys.stderr)
        raise SystemExit(status) from None
