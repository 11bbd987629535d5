"""Which event stands before each one in its partition."""

from __future__ import annotations

from engine.kernels.compile.ways import leaf

KEYED = 0
IN_EVERY = 1
IN_NONE = 2


@leaf
def precede(kind, partition, first_position, last, last_broadcast, previous):
    """Write to previous (int64 (n,)) the position of the event before each one in its partition, -1 for none.

    kind: int8 (n,), KEYED, IN_EVERY (in every partition) or IN_NONE. partition: int64, of the keyed events one after
    the other. Positions count from `first_position`. last: int64, the newest position by partition, brought up to date.
    Returns the newest position of a broadcast event.

    partition: int64 (n_keyed,). last: int64 (n_partitions,).
    """
    at = 0
    for row in range(kind.shape[0]):
        previous[row] = last_broadcast
        if kind[row] == KEYED:
            previous[row] = max(last_broadcast, last[partition[at]])
            last[partition[at]] = first_position + row
            at += 1
        elif kind[row] == IN_EVERY:
            last_broadcast = first_position + row
    return last_broadcast
