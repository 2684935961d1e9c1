"""The ranks of a job that trains in several processes, and how they reach each other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What the driver tells a rank when all ranks have called.

    Args:
        rank: this process's place, from 0.
        addresses: "host:port" for each rank, by rank; each reserved its own.
        hosts: the name of each rank's host, by rank.
        timeout_seconds: an exchange of gradients that takes longer fails.
    """

    rank: int
    addresses: tuple[str, ...]
    hosts: tuple[str, ...]
    timeout_seconds: float

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return len(self.addresses)

    @property
    def local_rank(self) -> int:
        """This rank's place among those of its host, from 0."""
        return self.hosts[: self.rank].count(self.hosts[self.rank])

    @property
    def local_size(self) -> int:
        """How many ranks run on this rank's host."""
        return self.hosts.count(self.hosts[self.rank])
