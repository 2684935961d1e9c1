"""The command `tfperf`. It needs no pytest.

Modules that take noticeable time to import (SQLAlchemy, pandas, NumPy, NVML) are imported when a command runs.
"""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from pytest_tfperf.cli import history
from pytest_tfperf.console import output, session_settings
from pytest_tfperf.console.arguments import Commands, add_command, unread
from pytest_tfperf.core.consequence import (
    EXIT_GREEN,
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    EXIT_NOT_MEASURED,
    EXIT_USAGE,
)
from pytest_tfperf.core.documentation import DOCS
from pytest_tfperf.core.features import modules
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.reports.topology import render


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; 1 means a regression and nothing else."""
    output.prepare()
    session_settings.forget()
    try:
        made = parser()
    except TfperfError as error:  # pytest's ini file, from which defaults come
        output.warn(str(error))
        return EXIT_USAGE
    try:
        parsed, unknown = made.parse_known_args(arguments)
        if unknown:  # parse_args would print the usage of `tfperf` itself, without the options of the command
            parsed.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as ended:  # argparse has printed why, or the help
        return EXIT_USAGE if ended.code else EXIT_GREEN
    return _guarded(parsed)


def _guarded(parsed: argparse.Namespace) -> int:
    """The command's own status, or that of the error that stopped it, which is shown in one line."""
    try:
        status: int = parsed.run(parsed)
    except TfperfError as error:
        output.warn(str(error))
        return EXIT_USAGE
    except KeyboardInterrupt:
        output.warn("interrupted")
        return EXIT_INTERRUPTED
    except MemoryError:
        output.warn("not enough memory. Give fewer or smaller files, or free memory")
        return EXIT_NOT_MEASURED
    except OSError as error:
        output.discard()
        reason = error.strerror or type(error).__name__
        if error.filename is None:
            output.warn(f"the output can't be written: {reason}. Send it to another file")
        else:
            output.warn(f"{error.filename} can't be used: {reason}. Name another, or correct its permissions")
        return EXIT_NOT_MEASURED
    except Exception:
        output.warn(f"a fault of pytest-tfperf itself, please report it:\n{traceback.format_exc()}")
        return EXIT_INTERNAL
    finally:
        if left_out := unread(parsed):
            output.warn(left_out)
    return status


def parser() -> argparse.ArgumentParser:
    """The parser of `tfperf`, with all commands."""
    made: argparse.ArgumentParser = output.Parser(
        prog="tfperf",
        description="What pytest-tfperf does outside of a pytest session.",
        epilog=f"`tfperf COMMAND --help` has examples and the exit statuses. The documentation: {DOCS}",
    )
    made.add_argument("--version", action="version", version=f"pytest-tfperf {_version()}")
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    _add_topology(commands)
    actions = history.add_to(commands)
    for command in modules("command").values():
        if hasattr(command, "add_to"):
            command.add_to(commands)
        if hasattr(command, "add_to_history"):
            command.add_to_history(actions)
    return made


def _version() -> str:
    try:
        return version("pytest-tfperf")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "(not installed)"


def _add_topology(commands: Commands) -> None:
    topology = add_command(
        commands,
        "topology",
        _topology,
        "show GPUs, the links between them, and the host",
        examples=("tfperf topology", "tfperf topology --json > machine.json"),
    )
    topology.add_argument("--json", action="store_true", help="as JSON, to keep as a snapshot")


def _topology(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.hardware.discovery import discover

    found = discover()
    if arguments.json:
        output.show_json(found.to_json())
    else:
        output.show(render(found))
    return EXIT_GREEN
