"""The command `tfperf`. It needs no pytest.

Modules that take noticeable time to import (SQLAlchemy, pandas, NumPy, NVML) are imported when a command runs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

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
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.baselines import command as baselines
from pytest_tfperf.features.compare_sessions import command as compare
from pytest_tfperf.features.doctor import command as doctor
from pytest_tfperf.features.explain import command as explain
from pytest_tfperf.features.export import command as export
from pytest_tfperf.features.init import command as init
from pytest_tfperf.features.page import command as report
from pytest_tfperf.features.read import command as read
from pytest_tfperf.features.references import command as reference
from pytest_tfperf.features.replay import command as replay
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
    for command in (replay, history, explain, doctor, init, baselines, compare, export, report, read):
        command.add_to(commands)
    _add_makers(commands)
    reference.add_to(commands)
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


def _add_makers(commands: Commands) -> None:
    """`make-imagenet` and `make-tokens`."""
    images = add_command(
        commands,
        "make-imagenet",
        lambda given: _make("imagenet", given.folder, given.images, given.shards, given.seed),
        "write a small data set of real photographs, of ImageNet's schema",
        examples=("tfperf make-imagenet data", "tfperf make-imagenet data --images 2048 --shards 16"),
    )
    texts = add_command(
        commands,
        "make-tokens",
        lambda given: _make("tokens", given.folder, given.texts, given.shards, given.seed),
        "write a small data set of token ids, with the features of BERT's classifier",
        examples=("tfperf make-tokens data", "tfperf make-tokens data --texts 100000 --shards 16"),
    )
    images.add_argument("folder", type=Path, metavar="DIR", help="the folder to write to; it may hold texts already")
    texts.add_argument("folder", type=Path, metavar="DIR", help="the folder to write to; it may hold images already")
    _add_count(images, "--images", 512, "number of photographs, about 0.1 MB each")
    _add_count(texts, "--texts", 20_000, "number of texts, 0.7 kB each")
    for command in (images, texts):
        _add_count(command, "--shards", 8, "number of files")
        _add_count(command, "--seed", 1, "seed of all random choices; the same seed gives the same files")


def _add_count(command: argparse.ArgumentParser, option: str, default: int, what: str) -> None:
    command.add_argument(option, type=int, default=default, metavar="N", help=f"{what} (default: {default})")


def _topology(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.hardware.discovery import discover

    found = discover()
    if arguments.json:
        output.show_json(found.to_json())
    else:
        output.show(render(found))
    return EXIT_GREEN


def _make(data: str, folder: Path, *counts: int) -> int:
    # In a separate process, because it imports TensorFlow to write the records.
    command = [sys.executable, "-P", "-m", f"pytest_tfperf.training.make_{data}", str(folder), *map(str, counts)]
    status = subprocess.run(command, check=False).returncode
    return status if status in (EXIT_GREEN, EXIT_USAGE) else EXIT_NOT_MEASURED
