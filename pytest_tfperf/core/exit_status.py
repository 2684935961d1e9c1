"""The exit status of a session and of a command."""

from __future__ import annotations

from typing import Final

EXIT_GREEN: Final = 0
EXIT_REGRESSED: Final = 1
"""pytest's own status for failed tests."""

EXIT_INTERRUPTED: Final = 2
"""pytest's own status for Ctrl-C."""

EXIT_INTERNAL: Final = 3
"""pytest's own status for a fault of the program itself."""

EXIT_USAGE: Final = 4
"""pytest's own status for a wrong command line."""

EXIT_NOT_MEASURED: Final = 6
"""Nothing regressed as far as is known, but something could not be measured.

pytest itself uses 0 to 5, and from 9.1 on 6 where there are more warnings than `--max-warnings` allows.
"""

EXIT_MACHINE: Final = 7
"""No test regressed, but the machine itself is slower than when its baselines were recorded."""

EXIT_UNFIT: Final = 8
"""`tfperf doctor`: a measurement on this machine would be discarded, lost or wrong."""


def exit_status(
    status: int, *, failed: int, not_measured: int, measured_nothing: bool = False, machine_slower: bool = False
) -> int:
    """Return the session's status; "regressed", "could not measure" and "the machine is slower" have their own.

    Args:
        status: pytest's own: 1 where any test failed or errored, 0 where all is well.
        failed: tests that failed by assertion, a regression among them.
        not_measured: tests that ended in an error because they could not be measured.
        measured_nothing: a nightly gate selected throughput tests, and none of them measured anything.
        machine_slower: the session's verdict on the machine is REGRESSED.
    """
    if status not in (EXIT_GREEN, EXIT_REGRESSED) or failed:
        return status
    if machine_slower:
        return EXIT_MACHINE
    if not_measured or (status == EXIT_GREEN and measured_nothing):
        return EXIT_NOT_MEASURED
    return status
