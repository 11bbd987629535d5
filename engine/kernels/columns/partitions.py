"""Events by partition, and numbers in place of a partition's."""

from __future__ import annotations

from engine.kernels.compile.ways import leaf

BROADCAST = -1
"""Of an event that is in every partition."""

NOWHERE = -2
"""Of an event that is in none."""


@leaf
def order_by_partition(partition, t_ms, position, rows, times):
    """The events of each partition one after the other, each partition's as they come, and their times (a counting
    sort): rows and times int64 (n,), filled.

    partition: int64 (n,). t_ms: int64 (n,). position: int64 (n_partitions,), where those of each begin; scratch.
    """
    for event in range(partition.shape[0]):
        at = position[partition[event]]
        position[partition[event]] = at + 1
        rows[at] = event
        times[at] = t_ms[event]


__all__ = ["BROADCAST", "NOWHERE", "order_by_partition"]
