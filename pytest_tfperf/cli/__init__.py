"""The command `tfperf`. It needs no pytest.

Modules that take noticeable time to import (Jinja2, NumPy, NVML) are imported when a command runs.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version

from pytest_tfperf import features
from pytest_tfperf.cli import history
from pytest_tfperf.console import output, session_settings
from pytest_tfperf.console.arguments import Group, status_lines, unread, wrapped
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_NOT_MEASURED, EXIT_USAGE
from pytest_tfperf.errors import DOCS, TfperfError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status; 1 means a regression and nothing else."""
    output.prepare()
    if sys.platform == "win32":  # which lacks modules that the commands import
        output.warn(f"this command needs Linux, and this is {sys.platform}")
        return EXIT_USAGE
    session_settings.forget()
    try:
        parsed, unknown = parser().parse_known_args(arguments)
        if unknown:  # parse_args would print the usage of `tfperf` itself, without the options of the command
            near = get_close_matches(unknown[0].partition("=")[0], parsed.parser._option_string_actions, n=1)
            meant = f". Did you mean {near[0]!r}?" if near else ""
            parsed.parser.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
    except SystemExit as ended:  # argparse has printed the error, or the help
        return EXIT_USAGE if ended.code else EXIT_GREEN
    except TfperfError as error:  # of pytest's ini file, which has defaults
        output.warn(str(error))
        return EXIT_USAGE
    return _guarded(parsed)


def _guarded(parsed: argparse.Namespace) -> int:
    """The command's own status, or that of the error that stopped it, which is shown in one line."""
    try:
        with output.never_silent(parsed.parser.prog):
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
    about = (
        "pytest runs the tests that gate training speed. These commands prepare such tests and their machine, and "
        "explain, compare and report what was measured."
    )
    top: argparse.ArgumentParser = output.Parser(
        prog="tfperf",
        description=wrapped(about),
        epilog="\n".join(("exit status of every command:", *status_lines(), "", f"Documentation: {DOCS}")),
        add_help=False,  # its options come below the commands
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    actions = history.add_to(commands)
    for command in features.commands():
        if hasattr(command, "add_to"):
            command.add_to(commands)
        if hasattr(command, "add_to_history"):
            command.add_to_history(actions)
    top._positionals._group_actions.remove(commands)  # its commands are listed in groups
    for group in Group:
        listed = [row for row in commands._choices_actions if commands.choices[row.dest].get_default("group") is group]
        top.add_argument_group(group)._group_actions += sorted(listed, key=lambda row: row.dest)
    options = top.add_argument_group("options")
    options.add_argument("-h", "--help", action="help", help="show this; after a COMMAND its options and examples")
    options.add_argument("--version", action="version", version=f"pytest-tfperf {_version()}", help="show the version")
    return top


def _version() -> str:
    try:
        return version("pytest-tfperf")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "(not installed)"
