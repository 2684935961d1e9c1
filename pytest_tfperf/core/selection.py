"""A throughput test that pytest selected: the facts that are known before it runs."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_tfperf.errors import TfperfError


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedTest:
    """A test that uses the fixture `throughput`."""

    id: str  # pytest's node id
    cpu: bool = False  # whether it is marked `cpu`
    gpu: bool = False  # whether it is marked `gpu`
    reads_data: bool = False  # whether one of its parameters is a pipeline that reads a data set
    # file, line: its source location, relative to rootdir and from 1; "" and 0 where that is not known
    file: str = ""
    line: int = 0
    faults: tuple[TfperfError, ...] = ()  # the errors of its parameters; empty where it can run
    owner: str = ""
