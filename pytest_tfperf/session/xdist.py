"""pytest-xdist: its workers measure nothing, and tell the controller how many throughput tests they got."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_tfperf.errors import MeasurementError

if TYPE_CHECKING:
    from pytest_tfperf.session.state import SessionState

_UNDER_XDIST = "tfperf_under_xdist"


def is_xdist_worker(config: pytest.Config) -> bool:
    """Whether this process is one of pytest-xdist's workers."""
    return hasattr(config, "workerinput")


def refuse_xdist(config: pytest.Config, session: SessionState) -> None:
    """Skip a test in a worker of pytest-xdist, or end it in an error for the nightly gate."""
    if not is_xdist_worker(config):
        return
    session.under_xdist += 1
    error = MeasurementError(
        "throughput is not measured under pytest-xdist: its workers would share the machine",
        next_step="Run these tests without -n",
    )
    if session.settings.require_baseline:
        raise error
    pytest.skip(str(error))


def tell_controller(config: pytest.Config, session: SessionState) -> None:
    """Send the number of throughput tests from a worker: only the controller writes a summary."""
    if is_xdist_worker(config):
        config.workeroutput[_UNDER_XDIST] = session.under_xdist  # type: ignore[attr-defined]  # xdist's


def hear_worker(worker: Any, session: SessionState) -> None:
    """Count the tests that a worker has sent; a worker that crashed has sent nothing."""
    session.under_xdist += getattr(worker, "workeroutput", {}).get(_UNDER_XDIST, 0)
