"""`--tfperf-launcher`, and where its ranks call this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.features import Feature
from pytest_tfperf.features.cluster.engine import LOCAL, NAMES, find_engine, split_launcher

if TYPE_CHECKING:
    from pytest_tfperf.workers.launcher import Nodes


def _launcher(text: str) -> str:
    split_launcher(text)
    return text


LAUNCHER: Final[Setting[str]] = Setting(
    name="launcher",
    default=LOCAL,
    parse=_launcher,
    help=f"what starts tests on several nodes, with its options: {', '.join([LOCAL, *NAMES])}",
    metavar="'NAME [OPTIONS]'",
    excludes={"split_gpu": "ranks on several nodes can't share one GPU"},
)
INTERFACE: Final[Setting[str]] = Setting(
    name="interface",
    default="",
    parse=str,
    help="network interface, or address, at which ranks on other nodes call this machine",
    is_option=False,
)
PORT: Final[Setting[int]] = Setting(
    name="port",
    default=0,
    parse=parse.port,
    help="port at which ranks on other nodes call this machine; 0 for any that is free",
    is_option=False,
)
KEY_FILE: Final[Setting[Path | None]] = Setting(
    name="key_file",
    default=None,
    parse=parse.file,
    help="file with the key of ranks that --tfperf-launcher=external awaits",
    is_option=False,
)


def nodes(settings: Settings) -> Nodes | None:
    """Make the launcher of `--tfperf-launcher`; None for `local`."""
    engine = find_engine(settings.of(LAUNCHER))
    if engine is None:
        return None
    from pytest_tfperf.features.cluster.nodes import ClusterNodes

    return ClusterNodes(
        engine,
        named=settings.of(LAUNCHER),
        interface=settings.of(INTERFACE),
        port=settings.of(PORT),
        key_file=settings.of(KEY_FILE),
        folder=settings.dir,
        silence_seconds=settings.timeout,
    )


FEATURE: Final = Feature(settings=(LAUNCHER, INTERFACE, PORT, KEY_FILE), nodes=nodes)
