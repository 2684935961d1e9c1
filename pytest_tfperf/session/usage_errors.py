"""Usage errors of pytest and of our own: without passwords, with the exit status that a feature wants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import printable


def hide_in_errors_of(parser: pytest.Parser) -> None:
    """Show no password in pytest's own errors of the command line, which repeat an unknown option with its value."""
    options: Any = getattr(parser, "optparser", None)  # pytest has no public name
    if error := getattr(options, "error", None):

        def hidden(message: str) -> None:
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
