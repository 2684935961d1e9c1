"""A throughput test that pytest selected: the facts that are known before it runs."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_tfperf.errors import TfperfError


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedTest:
    """A test that uses the fixture `throughput`.

    Args:
        id: pytest's node id.
        cpu: whether it is marked `cpu`.
        gpu: whether it is marked `gpu`.
        reads_data: whether one of its parameters is a pipeline that reads a data set.
        file, line: its source location, relative to rootdir and from 1; "" and 0 where that is not known.
        faults: the errors of its parameters; empty where it can run.
        owner: as in a `Measurement`.
    """

    id: str
    cpu: bool = False
    gpu: bool = False
    reads_data: bool = False
    file: str = ""
    line: int = 0
    faults: tuple[TfperfError, ...] = ()
    owner: str = ""
