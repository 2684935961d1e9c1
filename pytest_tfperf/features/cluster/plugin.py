"""`--tfperf-launcher`, and where its ranks call this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings
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


@dataclass(frozen=True, slots=True)
class Listen:
    """Where ranks on other nodes call this machine.

    Args:
        interface: the network interface, or an address of it; "" for the interface that leads to other machines.
        port: 0 for any free port.
        key_file: the key of ranks that something else starts; None for a new key.
    """

    interface: str = ""
    port: int = 0
    key_file: Path | None = None


_LISTEN: Final = re.compile(r"([^\s:=]*)(?::(\d{1,5}))?(?:(?:^|\s+)key=(.+))?")


def _listen(text: str) -> Listen:
    found = _LISTEN.fullmatch(text.strip())
    if found is None or int(found[2] or 0) > 65535:
        raise ValueError("must be INTERFACE:PORT key=FILE, as in eth0:7600 key=~/tfperf.key; each part may be left out")
    return Listen(found[1], int(found[2] or 0), parse.file(found[3]) if found[3] else None)


LISTEN: Final[Setting[Listen]] = Setting(
    name="listen",
    default=Listen(),
    parse=_listen,
    help="INTERFACE:PORT at which ranks on other nodes call this machine, and key=FILE with the key of ranks that "
    "--tfperf-launcher=external awaits",
    is_option=False,
)


def nodes(settings: Settings) -> Nodes | None:
    """Make the launcher of `--tfperf-launcher`; None for `local`."""
    engine = find_engine(settings.of(LAUNCHER))
    if engine is None:
        return None
    from pytest_tfperf.features.cluster.nodes import ClusterNodes

    listen = settings.of(LISTEN)
    if listen.key_file is not None:
        listen = replace(listen, key_file=settings.root / listen.key_file)
    return ClusterNodes(
        engine,
        named=settings.of(LAUNCHER),
        listen=listen,
        folder=settings.dir,
        silence_seconds=settings.timeout,
    )


FEATURE: Final = Feature(settings=(LAUNCHER, LISTEN), nodes=nodes)
