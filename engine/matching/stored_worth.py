"""What kept events of skip till any match are worth: how many pairs of a first and a last event they may yet be in.

Postponing keeps no partial matches: what grows under overload is the store, and what is looked at for each pair
(SASE++ 5.1). A pair that is to come has a first event that is kept, and a last one that comes within its window; an
event between them takes part in the pairs of all first events before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels.columns.partitions import BROADCAST
from engine.stream.store import EventStore

_FEW = 1e-6
"""Last events in a window where none has come yet."""


class Pair(NamedTuple):
    """Rows that may be the first event of a match, and those that may be the last one then: bool (n,)."""

    first: BoolArray
    last: BoolArray


def expected_pairs(
    store: EventStore, pairs: Sequence[Pair], middle: BoolArray, within_ms: int, now_ms: int
) -> Float64Array:
    """For each row the number of pairs to come that it may be in, float64 (n,); infinite where the watermark `now_ms`
    has not passed it, for its own pairs are still to be decided, and where it is out of the window: nobody looks at it.

    Last events come to a partition at the rate of those that it keeps, which are those of about a window; to one that
    is new, at the rate of the others. Where there was none yet, few are expected: 0.0 says that no match to come can
    have the event.

    pairs: the most of any that it may be the first of counts. middle: bool (n,), rows that may stand between the first
    and the last event of a match.
    """
    n = len(store)
    partition = store.partition[:n]
    is_shared = partition == BROADCAST
    # The window is closed: of an event that is as old as it a last one at the watermark may yet come.
    left: Float64Array = np.clip(1.0 - (now_ms - store.t_lo_ms[:n]) / (within_ms + 1), 0.0, 1.0)
    as_first = np.zeros(n)
    for pair in pairs:
        expected = _expected_lasts(pair.last, partition, is_shared, store.n_partitions)
        np.maximum(as_first, expected[partition] * left, out=as_first, where=pair.first)
    worth: Float64Array = as_first.copy()
    precise = store.n_imprecise == 0  # else one that stands later may have happened earlier
    worth[middle] += _firsts_before(as_first, partition, is_shared, in_order=precise)[middle]
    worth[(store.t_hi_ms[:n] >= now_ms) | (store.t_lo_ms[:n] < now_ms - within_ms)] = np.inf
    return worth


def _expected_lasts(ends: BoolArray, partition: Int64Array, is_shared: BoolArray, n_groups: int) -> Float64Array:
    """By partition, the last one for none, the last events within a window."""
    n_own = np.bincount(partition[ends & ~is_shared], minlength=n_groups).astype(np.float64)
    n_shared = float(np.count_nonzero(ends & is_shared))
    usual = float(n_own.mean()) if n_groups else 0.0
    return np.append(0.5 * (n_own + usual) + n_shared, n_own.sum() + n_shared) + _FEW


def _firsts_before(
    as_first: Float64Array, partition: Int64Array, is_shared: BoolArray, *, in_order: bool
) -> Float64Array:
    """For each row the sum over the first events that may be in a match with it: those up to it, all if not
    `in_order`."""
    if not in_order:
        of_group = np.bincount(partition + 1, as_first)
        all_of_it: Float64Array = np.where(is_shared, as_first.sum(), of_group[partition + 1] + of_group[0])
        return all_of_it
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


__all__ = ["Pair", "expected_pairs"]
