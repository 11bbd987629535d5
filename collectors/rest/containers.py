"""Containers of an application as the ResourceManager's list tells them: those it has and those it asks for.

The capacity scheduler tells both; other schedulers, older versions and viewers without access to the application get
less: what is not told is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from collectors.counters import is_count

MIB = 2**20

ANYWHERE = "*"
"""The resource name whose requests count: those for racks and hosts are wishes about the same containers."""


@dataclass(frozen=True, slots=True)
class Containers:
    """What an application holds and what it still asks for."""

    n_containers: int | None = None
    allocated_bytes: int | None = None
    allocated_vcores: int | None = None
    n_pending: int | None = None
    """Containers asked for and not given."""
    pending_bytes: int | None = None
    pending_vcores: int | None = None

    @property
    def asks(self) -> bool:
        """It asks for more than it has, as far as is told."""
        return bool(self.n_pending or self.pending_bytes or self.pending_vcores)

    def attributes(self) -> dict[str, int | None]:
        """As event attributes."""
        return {name: getattr(self, name) for name in self.__slots__}


def read_containers(app: Mapping[str, Any]) -> Containers:
    """Of an entry of the list of applications."""
    requests = _anywhere(app.get("resourceRequests"))
    pending = _pending(app.get("resourceInfo"))
    n_pending = _sum(request.get("numContainers") for request in requests)
    if n_pending is None and pending is not None and not any(pending):
        n_pending = 0  # who asks for nothing has no requests listed
    if pending is None:
        pending = _requested(requests, "memory"), _requested(requests, "vCores")
    return Containers(
        n_containers=_count(app.get("runningContainers")),
        allocated_bytes=_bytes(app.get("allocatedMB")),
        allocated_vcores=_count(app.get("allocatedVCores")),
        n_pending=n_pending,
        pending_bytes=_bytes(pending[0]),
        pending_vcores=pending[1],
    )


def _anywhere(requests: object) -> list[Mapping[str, Any]]:
    return [request for request in _dicts(requests) if request.get("resourceName") == ANYWHERE]


def _pending(info: object) -> tuple[int | None, int | None] | None:
    """(MiB, vcores) over all partitions; None where the list does not have them."""
    partitions = _dicts(info.get("resourceUsagesByPartition")) if isinstance(info, Mapping) else []
    found = [partition["pending"] for partition in partitions if isinstance(partition.get("pending"), Mapping)]
    if not found:
        return None
    return _sum(one.get("memory") for one in found), _sum(one.get("vCores") for one in found)


def _requested(requests: list[Mapping[str, Any]], name: str) -> int | None:
    """The sum of what the requested containers are to have of one resource."""
    amounts = []
    for request in requests:
        capability, n = request.get("capability"), request.get("numContainers")
        each = capability.get(name) if isinstance(capability, Mapping) else None
        amounts.append(each * n if is_count(each) and is_count(n) else None)
    return _sum(amounts)


def _dicts(items: object) -> list[Mapping[str, Any]]:
    listed = [items] if isinstance(items, Mapping) else items  # some versions write a list of one without its brackets
    return [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []


def _sum(values: Iterable[object]) -> int | None:
    """None for the sum of nothing, and where one of them is no count."""
    listed = list(values)
    counts = [value for value in listed if is_count(value)]
    return _count(sum(counts)) if counts and len(counts) == len(listed) else None


def _count(value: object) -> int | None:
    return value if is_count(value) else None  # -1 is "not yours to see"


def _bytes(mebibytes: object) -> int | None:
    return _count(mebibytes * MIB) if is_count(mebibytes) else None


__all__ = ["Containers", "read_containers"]
