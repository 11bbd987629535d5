"""Lists by value of what inequalities bring to the events of a batch: see `engine.kernels.trends.ahead`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.events import Float64Array, Int64Array
from engine.kernels.programs.opcodes import GT, LT
from engine.kernels.trends import arrays as ta
from engine.kernels.trends.arrays import FOLLOWS, IS_FOLLOWED, KIND_BITS
from engine.trends.template_arrays import BroughtScan, Values


class Sweep(NamedTuple):
    """Vertices that stand before a batch and its events, by the first value: entries, their ranks in the second one,
    and how many ranks there are."""

    entries: np.ndarray
    ranks: np.ndarray
    n_ranks: int


def lists_of(scan: BroughtScan, batch: ta.Batch, begin: int, after: int, source: int) -> list[np.ndarray]:
    """The entries of the events [begin, after) by each of the compared values; `source`: the state that is followed.
    What lacks one of the values is in none."""
    rows, states = batch.rows[begin:after], batch.states[begin:after]
    followed = _with_all(np.flatnonzero((states >> source) & 1), batch.derived, rows, [by.earlier for by in scan.by])
    follow = _with_all(np.flatnonzero((states >> scan.target) & 1), batch.derived, rows, [by.later for by in scan.by])
    return [
        _list(by, followed, follow, batch.derived[by.earlier, rows[followed]], batch.derived[by.later, rows[follow]])
        for by in scan.by
    ]


def _with_all(events: Int64Array, derived: Float64Array, rows: Int64Array, values: list[int]) -> Int64Array:
    """Those of the events that have all of these derived values."""
    lacks = np.zeros(len(events), np.bool_)
    for value in values:
        lacks |= np.isnan(derived[value, rows[events]])
    return events[~lacks] if lacks.any() else events


def _list(
    by: Values, followed: Int64Array, follow: Int64Array, earlier: Float64Array, later: Float64Array
) -> np.ndarray:
    keys, values = by.sign * earlier, by.sign * later
    if np.array_equal(followed, follow) and np.array_equal(keys, values):  # others may have the same values, too
        by_value = np.argsort(keys)
        ordered = keys[by_value]
        if np.all(ordered[1:] > ordered[:-1]):
            return _entries_of(followed[by_value], IS_FOLLOWED | FOLLOWS)
    parts = _ordered(by, (_entries_of(followed, IS_FOLLOWED), keys), (_entries_of(follow, FOLLOWS), values))
    every, numbers = (np.concatenate(both) for both in zip(*parts, strict=True))
    found: np.ndarray = every[np.argsort(numbers, kind="stable")]
    return found


def sweep(
    scan: BroughtScan, batch: ta.Batch, begin: int, after: int, vertices: ta.Vertices, start: int, first: int, last: int
) -> Sweep:
    """Of the vertices [first, last) of the region that begins at `start`, for the events [begin, after) of a batch."""
    rows, states = batch.rows[begin:after], batch.states[begin:after]
    one, two = scan.by
    positions = np.arange(first, last)
    followed = _with_all(positions, vertices.derived, start + np.arange(last), [by.earlier for by in scan.by])
    follow = _with_all(np.flatnonzero((states >> scan.target) & 1), batch.derived, rows, [by.later for by in scan.by])
    earlier = two.sign * vertices.derived[two.earlier, start + followed]
    by_rank = np.argsort(earlier)
    rank = np.empty(len(followed), np.int32)
    rank[by_rank] = np.arange(1, len(followed) + 1, dtype=np.int32)
    admitted = np.searchsorted(
        earlier[by_rank], two.sign * batch.derived[two.later, rows[follow]], "left" if _is_strict(two) else "right"
    )
    keys = one.sign * vertices.derived[one.earlier, start + followed]
    values = one.sign * batch.derived[one.later, rows[follow]]
    parts = _ordered(
        one, (_entries_of(followed, IS_FOLLOWED), rank, keys),
        (_entries_of(follow, FOLLOWS), admitted.astype(np.int32), values),
    )  # fmt: skip
    entries, ranks, numbers = (np.concatenate(both) for both in zip(*parts, strict=True))
    by_value = np.argsort(numbers, kind="stable")
    return Sweep(entries[by_value], ranks[by_value], len(followed))


def _ordered(
    by: Values, followed: tuple[np.ndarray, ...], follow: tuple[np.ndarray, ...]
) -> list[tuple[np.ndarray, ...]]:
    """Of what is equal those that follow come first where it is not admitted."""
    return [follow, followed] if _is_strict(by) else [followed, follow]


def _is_strict(by: Values) -> bool:
    return by.how in (LT, GT)


def _entries_of(events: Int64Array, kind: int) -> np.ndarray:
    return (events << KIND_BITS | kind).astype(np.int32)


__all__ = ["Sweep", "lists_of", "sweep"]
