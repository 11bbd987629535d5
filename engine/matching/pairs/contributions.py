"""What kept events of skip till any match are worth: how many pairs of a first and a last event they may yet be in.

Postponing keeps no partial matches: what grows under overload is the store, and what is looked at for each pair
(SASE++ 5.1). A pair that is to come has a first event that is kept, and a last one that comes within its window; an
event between them takes part in the pairs of all first events before it.
"""

from __future__ import annotations

import numpy as np

from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels.columns.partitions import BROADCAST
from engine.stream.early_filter import Masks
from engine.stream.store import EventStore


def expected_pairs(store: EventStore, masks: Masks, within_ms: int, now_ms: int) -> Float64Array:
    """For each row the number of pairs to come that it may be in, float64 (n,); infinite where the watermark `now_ms`
    has not passed it, for its own pairs are still to be decided, and where it is out of the window: nobody looks at it.

    Last events come to a partition at the rate of those that it keeps, which are those of about a window; to one that
    is new, at the rate of the others.
    """
    n = len(store)
    partition, n_groups = store.partition[:n], store.n_partitions
    ends, is_shared = masks.ends(n), partition == BROADCAST
    n_own = np.bincount(partition[ends & ~is_shared], minlength=n_groups).astype(np.float64)
    n_shared = float(np.count_nonzero(ends & is_shared))
    usual = float(n_own.mean()) if n_groups else 0.0
    expected = np.append(0.5 * (n_own + usual) + n_shared, n_own.sum() + n_shared)
    left: Float64Array = np.clip(1.0 - (now_ms - store.t_lo_ms[:n]) / max(within_ms, 1), 0.0, 1.0)
    as_first = np.where(masks.begin[0, :n], expected[partition] * left, 0.0)
    worth: Float64Array = as_first.copy()
    middle = masks.middle(n)
    worth[middle] += _firsts_before(as_first, partition, is_shared)[middle]
    worth[(store.t_hi_ms[:n] >= now_ms) | (store.t_lo_ms[:n] < now_ms - within_ms)] = np.inf
    return worth


def _firsts_before(as_first: Float64Array, partition: Int64Array, is_shared: BoolArray) -> Float64Array:
    """For each row the sum over the first events up to it that may be in a match with it."""
    by_partition = np.argsort(partition, kind="stable")
    running = np.cumsum(as_first[by_partition])
    groups = partition[by_partition]
    begins = np.flatnonzero(np.diff(groups, prepend=groups[:1] - 1)) if len(groups) else np.empty(0, np.int64)
    before_group = np.repeat(running[begins] - as_first[by_partition[begins]], np.diff(begins, append=len(groups)))
    own = np.empty_like(as_first)
    own[by_partition] = running - before_group
    of_shared = np.cumsum(np.where(is_shared, as_first, 0.0))
    found: Float64Array = np.where(is_shared, np.cumsum(as_first), own + of_shared)
    return found


__all__ = ["expected_pairs"]
