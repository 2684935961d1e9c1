"""pytest's own errors of the command line, without the passwords of URLs that stand where they do not belong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pytest_tfperf.safe_text import without_passwords


def hide_in_errors_of(parser: pytest.Parser) -> None:
    """pytest's own errors of the command line repeat an unknown option with its value."""
    options: Any = getattr(parser, "optparser", None)  # pytest has no public name
    if error := getattr(options, "error", None):
        options.error = lambda message: error(without_passwords(message))


@contextmanager
def hidden_in_usage_errors() -> Iterator[None]:
    """pytest's own errors before the first test repeat a path that does not exist."""
    try:
        yield
    except pytest.UsageError as error:
        raise pytest.UsageError(*(without_passwords(str(line)) for line in error.args)) from None
