"""Small data sets of real photographs and of token ids.

For users who measure an input pipeline without ImageNet at hand.
`tfperf make-imagenet` and `tfperf make-tokens` write them, by `training/make_data.py` in a process of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from pytest_tfperf.console.arguments import Commands, add_command
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_NOT_MEASURED, EXIT_USAGE


def add_to(commands: Commands) -> None:
    """Add both commands."""
    images = add_command(
        commands,
        lambda given: _make("imagenet", given.folder, given.images, given.shards, given.seed),
        "make-imagenet: write a small data set of photographs, with ImageNet's schema",
        examples=("tfperf make-imagenet data", "tfperf make-imagenet data --images 2048 --shards 16"),
    )
    texts = add_command(
        commands,
        lambda given: _make("tokens", given.folder, given.texts, given.shards, given.seed),
        "make-tokens: write a small data set of token ids for BERT's classifier",
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


def _make(data: str, folder: Path, *counts: int) -> int:
    # In a separate process, because it imports TensorFlow to write the records.
    command = [sys.executable, "-P", "-m", "pytest_tfperf.training.make_data", data, str(folder), *map(str, counts)]
    status = subprocess.run(command, check=False).returncode
    return status if status in (EXIT_GREEN, EXIT_USAGE) else EXIT_NOT_MEASURED
