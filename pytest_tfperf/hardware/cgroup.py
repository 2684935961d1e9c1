"""What control groups leave of the CPUs and the memory, versions 1 and 2, nested, from inside a container or not.

A limit holds for every group below it, so the lowest one on the way up counts.
"""

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pytest_tfperf.hardware.kernel_files import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

# Version 1 writes "no limit" as the largest multiple of a page; nothing has an exbibyte of memory.
_NO_LIMIT_BYTES = 2**60


def cpu_quota(root: Path) -> float | None:
    """CPUs' worth of time that the groups of this process may use; None without a quota."""
    quotas = [_quota(folder) for folder in _folders(root, "cpu")]
    return min((quota for quota in quotas if quota is not None), default=None)


def whole_cores(quota: float | None) -> int | None:
    """Cores that a quota keeps busy: rounded up, as a share of a core still needs one."""
    return None if quota is None else max(1, math.ceil(quota))


def memory_limit_bytes(root: Path) -> int | None:
    """The lowest memory limit; None without one."""
    names = ("memory.max", "memory.limit_in_bytes")
    limits = [_number(folder / name) for folder in _folders(root, "memory") for name in names]
    return min((int(limit) for limit in limits if limit is not None and limit < _NO_LIMIT_BYTES), default=None)


def _quota(folder: Path) -> float | None:
    fields = _words(folder / "cpu.max")
    if not fields:
        fields = _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
    # "max" (version 2) and -1 (version 1) are no limit.
    if len(fields) == 2 and all(field.isdecimal() for field in fields) and int(fields[1]) > 0:
        return int(fields[0]) / int(fields[1])
    return None


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's groups for a controller, from its own up to each mount's top."""
    own = _own_groups(root)
    for top, mount, controllers in _mounts(root):
        if controllers is not None and controller not in controllers:
            continue
        path = own.get(controller if controllers is not None else "")
        if path is None:
            continue
        # In a container the mount shows a subtree, but /proc/self/cgroup may give the path from the real top.
        below = path.relative_to(top) if path.is_relative_to(top) else path.relative_to("/")
        for group in (below, *below.parents):
            yield root / mount.relative_to("/") / group


def _own_groups(root: Path) -> dict[str, PurePosixPath]:
    """Controller to path, from lines such as `4:cpu,cpuacct:/docker/1f`; version 2's single line is under ""."""
    groups: dict[str, PurePosixPath] = {}
    for line in text_of(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon and path.startswith("/"):
            # A group outside this cgroup namespace reads "/../..": nothing of it is visible but the mount.
            inside = PurePosixPath(path) if ".." not in path.split("/") else PurePosixPath("/")
            groups |= dict.fromkeys(controllers.split(","), inside)
    return groups


def _mounts(root: Path) -> Iterator[tuple[PurePosixPath, PurePosixPath, set[str] | None]]:
    """Top within the hierarchy, mount point, and controllers (None: version 2) of each cgroup mount."""
    for line in text_of(root / "proc/self/mountinfo").splitlines():
        mount, _, source = line.partition(" - ")
        fields, kind = mount.split(), source.split()
        if len(fields) < 5 or not kind or not fields[4].startswith("/") or not fields[3].startswith("/"):
            continue
        if kind[0] in ("cgroup", "cgroup2"):
            controllers = None if kind[0] == "cgroup2" else set(kind[-1].split(","))
            top = PurePosixPath(fields[3]) if ".." not in fields[3].split("/") else PurePosixPath("/")
            yield top, PurePosixPath(fields[4]), controllers


def _number(path: Path) -> int | None:
    words = _words(path)
    return int(words[0]) if words and words[0].isdecimal() else None


def _words(path: Path) -> list[str]:
    return text_of(path).split()
