"""Machines for tests: the snapshots, ones with given links, and any that the nouns allow."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

from hypothesis import strategies as st

from pytest_tfperf.core.plain_json import build
from pytest_tfperf.core.topology import Gpu, Host, Link, Topology

DATA = Path(__file__).parents[1] / "data" / "topologies"
NAMES = sorted(path.stem for path in DATA.glob("*.json"))


def load(name: str) -> Topology:
    facts = json.loads((DATA / f"{name}.json").read_text())
    return build(
        Topology, {field: value for field, value in facts.items() if field not in ("version", "machine")}, name
    )


def linked(count: int, pairs: dict[tuple[int, int], str], rest: str = "SYS") -> Topology:
    """Equal GPUs with these links, and `rest` between all others."""
    gpus = tuple(Gpu(index=i, uuid=f"GPU-{i}", name="Tesla V100") for i in range(count))
    link = {frozenset(pair): Link.parse(word) for pair, word in pairs.items()}
    other = Link.parse(rest)
    rows = tuple(
        tuple(None if i == j else link.get(frozenset((i, j)), other) for j in range(count)) for i in range(count)
    )
    return Topology(host=Host(cpu_model="AMD EPYC", usable_cores=2, total_cores=2), gpus=gpus, links=rows)


counts = st.none() | st.integers(1, 2**50)
links = st.sampled_from(["NV1", "NV2", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS", "?"]).map(Link.parse)
models = st.sampled_from([("NVIDIA A100", 40 * 2**30), ("NVIDIA A100", 80 * 2**30), ("Tesla T4", 15 * 2**30)])
hosts = st.builds(
    Host,
    cpu_model=st.text(max_size=60),
    usable_cores=st.integers(1, 999),
    total_cores=st.integers(1, 999),
    physical_cores=counts,
    memory_bytes=counts,
    kernel=st.text(max_size=9),
    hostname=st.text(max_size=9),
)


@st.composite
def machines(draw: st.DrawFn, max_gpus: int = 6) -> Topology:
    size = draw(st.integers(0, max_gpus))
    gpus = []
    for i in range(size):
        name, memory = draw(models)
        gpus.append(
            Gpu(
                index=i,
                uuid=f"GPU-{i}-{draw(st.text(max_size=3))}",
                name=name,
                memory_bytes=memory,
                compute_capability=draw(st.none() | st.tuples(st.integers(1, 12), st.integers(0, 9))),
                cores=draw(counts),
                max_sm_clock_mhz=draw(counts),
                numa_node=draw(st.none() | st.integers(0, 7)),
                cpu_affinity=draw(st.none() | st.text(max_size=5)),
            )
        )
    above = {pair: draw(links) for pair in combinations(range(size), 2)}
    matrix = tuple(tuple(None if i == j else above[min(i, j), max(i, j)] for j in range(size)) for i in range(size))
    return Topology(host=draw(hosts), gpus=tuple(gpus), links=matrix, driver_version=draw(st.text(max_size=9)))
