"""Usage errors of pytest and of our own: without passwords, with the exit status that a feature wants."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import format_exception
from typing import Any

import pytest

from pytest_tfperf.bench.feature import first
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features import features
from pytest_tfperf.lines import printable


def hide_in_errors_of(parser: pytest.Parser, config: pytest.Config) -> None:
    """Show no password in pytest's own errors of the command line, which repeat an unknown option with its value."""
    options: Any = getattr(parser, "optparser", None)  # pytest has no public name
    if error := getattr(options, "error", None):

        def hidden(message: str) -> None:
            with with_status_of_features(config):
                error(printable(message))

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
    """Show no password in pytest's own errors before the first test, which repeat a path that does not exist."""
    try:
        yield
    except pytest.UsageError as error:
        raise pytest.UsageError(*(printable(str(line)) for line in error.args)) from None


@contextmanager
def with_status_of_features(config: pytest.Config) -> Iterator[None]:
    """Show a usage error and end with the status of a feature that wants another than pytest's 4.

    pytest asks no plugin for the status of a usage error.
    """
    try:
        yield
    except Exception as error:
        arguments = tuple(map(str, config.invocation_params.args))
        status = first(feature.usage_status(arguments) for feature in features().values())
        if status is None:
            raise
        # Any other error is a fault of a conftest.py or of a plugin, and its traceback says where.
        lines = error.args if isinstance(error, pytest.UsageError) else format_exception(error)
        print(printable("ERROR: " + "\n".join(map(str, lines))), file=sys.stderr)
        raise SystemExit(status) from None
