"""The exit status of a session and of a command; 1 to 4 are pytest's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXIT_GREEN: Final = 0
EXIT_REGRESSED: Final = 1
EXIT_INTERRUPTED: Final = 2
EXIT_INTERNAL: Final = 3
EXIT_USAGE: Final = 4
EXIT_NOT_MEASURED: Final = 6
"""Nothing regressed as far as is known, but something could not be measured.

pytest itself uses 0 to 5, and from 9.1 on 6 where there are more warnings than `--max-warnings` allows.
"""

EXIT_MACHINE: Final = 7
"""No test regressed, but the machine itself is slower than when its baselines were recorded."""

EXIT_UNFIT: Final = 8
"""`tfperf doctor`: a measurement on this machine would be discarded, lost or wrong."""

OF_COMMANDS: Final[Mapping[int, str]] = {
    EXIT_GREEN: "done, and nothing is slower",
    EXIT_REGRESSED: "a regression, or what the command's own help says",
    EXIT_INTERRUPTED: "interrupted",
    EXIT_INTERNAL: "a fault of pytest-tfperf itself",
    EXIT_USAGE: "an option, a file or a name is wrong",
    EXIT_NOT_MEASURED: "something was not measured; or no memory, space or permission",
}
"""The exit statuses of every command of `tfperf`; a command adds what one means for it alone."""
