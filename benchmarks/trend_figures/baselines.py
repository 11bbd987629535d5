"""The approaches that GRETA is compared with (section 10.1), our own implementations, compiled as the engine is.

All get the events of one window, in order of time, and aggregate COUNT(*) and SUM over `M+` with one edge predicate
`M.value * factor < NEXT(M).value` or no predicate, by key; equal times are not ordered. What they lack of a whole
engine (windows, other patterns, exactness beyond doubles, state) makes them faster, not slower.

- `two_step`: SASE. Each event is put on the stack of its key with pointers to the events that it may follow; when the
  window closes a depth-first search over the pointers constructs every trend, one at a time, and aggregates it.
- `shared`: CET. The trends that end at an event are stored, each as a pointer to the one that it continues, and reused
  by those that continue them; what is stored is then aggregated.
- `flattened`: Flink. One query for each length up to that of the longest trend, each a sequence of a fixed length that
  constructs all of its partial sequences for itself; all that are complete are stored, then aggregated.
- `quadratic`: GRETA itself as in algorithm 2: each event looks at every earlier one of its key and adds up their
  aggregates; doubles, no index.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(inline="always")
def _follows(t_s: Any, value: Any, factor: float, earlier: int, later: int) -> bool:
    """Whether `later` may follow `earlier`; a factor below 0: whatever comes later."""
    return t_s[earlier] < t_s[later] and (factor < 0.0 or value[earlier] * factor < value[later])


@njit(cache=True)
def pointers(t_s: Any, value: Any, factor: float, by_key: Any, bounds: Any) -> Any:
    """For each event of `by_key` (by key, in order of time) its predecessors: bounds int64 (n + 1,), events int32."""
    n = len(by_key)
    begins = np.zeros(n + 1, np.int64)
    found = np.empty(1024, np.int32)
    size = 0
    for key in range(len(bounds) - 1):
        for at in range(bounds[key], bounds[key + 1]):
            begins[at] = size
            for before in range(bounds[key], at):
                if _follows(t_s, value, factor, by_key[before], by_key[at]):
                    if size == len(found):
                        found = np.append(found, np.empty(size, np.int32))
                    found[size] = before
                    size += 1
    begins[n] = size
    return begins, found[:size]


@njit(cache=True)
def two_step(summed: Any, by_key: Any, bounds: Any, may_begin: Any, begins: Any, links: Any) -> Any:
    """See the module; begins, links: see `pointers`. Returns counts, sums float64 (n_keys,), and bytes stored."""
    n_keys = len(bounds) - 1
    counts, sums = np.zeros(n_keys), np.zeros(n_keys)
    longest = 1
    trend = np.empty(len(by_key) + 1, np.int64)  # the trend under construction, from its end
    cursor = np.empty(len(by_key) + 1, np.int64)
    for key in range(n_keys):
        for end in range(bounds[key], bounds[key + 1]):
            depth = 0
            trend[0], cursor[0] = end, begins[end]
            while depth >= 0:
                at = trend[depth]
                if cursor[depth] == begins[at] and may_begin[by_key[at]]:  # first seen: a trend from here to the end
                    total = 0.0
                    for k in range(depth + 1):
                        total += summed[by_key[trend[k]]]
                    counts[key] += 1.0
                    sums[key] += total
                if cursor[depth] == begins[at + 1]:
                    depth -= 1
                    if depth >= 0:
                        cursor[depth] += 1
                    continue
                before = links[cursor[depth]]
                depth += 1
                trend[depth], cursor[depth] = before, begins[before]
                longest = max(longest, depth + 1)
    return counts, sums, begins.nbytes + links.nbytes + 16 * longest


@njit(cache=True)
def shared(summed: Any, by_key: Any, bounds: Any, may_begin: Any, begins: Any, links: Any, most: int) -> Any:
    """See the module; begins, links: see `pointers`. Stops at `most` stored trends. Returns counts, sums, bytes stored,
    and whether all were."""
    n_keys = len(bounds) - 1
    counts, sums = np.zeros(n_keys), np.zeros(n_keys)
    capacity = 1024
    continued = np.empty(capacity, np.int64)  # the trend that a trend continues, -1: none
    totals = np.empty(capacity, np.float64)
    greatest = 0
    for key in range(n_keys):
        first = bounds[key]
        trends_of = np.zeros(bounds[key + 1] - first + 1, np.int64)
        size = 0  # trends of other keys are aggregated and gone
        for end in range(first, bounds[key + 1]):
            trends_of[end - first] = size
            if may_begin[by_key[end]]:
                if size + 1 > capacity:
                    continued, totals = np.append(continued, continued), np.append(totals, totals)
                    capacity *= 2
                continued[size], totals[size] = -1, summed[by_key[end]]
                size += 1
            for number in range(begins[end], begins[end + 1]):
                before = links[number] - first
                for trend in range(trends_of[before], trends_of[before + 1]):
                    if size == most:
                        return counts, sums, 16 * size, False
                    if size + 1 > capacity:
                        continued, totals = np.append(continued, continued), np.append(totals, totals)
                        capacity *= 2
                    continued[size], totals[size] = trend, totals[trend] + summed[by_key[end]]
                    size += 1
            trends_of[end - first + 1] = size
        for trend in range(size):
            counts[key] += 1.0
            sums[key] += totals[trend]
        greatest = max(greatest, size)
    return counts, sums, begins.nbytes + links.nbytes + 16 * greatest, True


@njit(cache=True)
def flattened(
    t_s: Any, value: Any, summed: Any, factor: float, by_key: Any, bounds: Any, may_begin: Any, most: int
) -> Any:
    """See the module; stops at `most` stored events of sequences. Returns counts, sums, bytes stored, and whether all
    lengths were evaluated."""
    n_keys = len(bounds) - 1
    counts, sums = np.zeros(n_keys), np.zeros(n_keys)
    stored = 0  # events of complete sequences, of all queries
    greatest = 0
    for key in range(n_keys):
        first, stop = bounds[key], bounds[key + 1]
        longest = np.zeros(stop - first, np.int64)
        for at in range(first, stop):
            longest[at - first] = 1 if may_begin[by_key[at]] else 0
            for before in range(first, at):
                if longest[before - first] > 0 and _follows(t_s, value, factor, by_key[before], by_key[at]):
                    longest[at - first] = max(longest[at - first], longest[before - first] + 1)
        for length in range(1, longest.max() + 1 if len(longest) else 1):
            # SEQ of `length` components: all partial sequences, component after component.
            chosen = np.empty(length, np.int64)
            following = np.empty(length, np.int64)
            depth, following[0] = 0, first
            while depth >= 0:
                at = following[depth]
                if at == stop:
                    depth -= 1
                    continue
                following[depth] = at + 1
                if depth == 0:
                    if not may_begin[by_key[at]]:
                        continue
                elif not _follows(t_s, value, factor, by_key[chosen[depth - 1]], by_key[at]):
                    continue
                chosen[depth] = at
                if depth + 1 < length:
                    depth += 1
                    following[depth] = at + 1
                    continue
                total = 0.0
                for k in range(length):
                    total += summed[by_key[chosen[k]]]
                counts[key] += 1.0
                sums[key] += total
                stored += length
                if stored > most:
                    return counts, sums, 4 * stored, False
        greatest = max(greatest, stored)
    return counts, sums, 4 * greatest, True


@njit(cache=True)
def quadratic(
    t_s: Any, value: Any, summed: Any, factor: float, by_key: Any, bounds: Any, may_begin: Any, begin: int, end: int,
    size: Any, own_counts: Any, own_sums: Any, counts: Any, sums: Any, key: Any,
) -> None:  # fmt: skip
    """See the module; goes on with the events begin..end-1. size: int64 (n_keys,), events so far; own_counts, own_sums:
    float64 (n,), trends that end at an event, as by_key; counts, sums: float64 (n_keys,). All are written."""
    for event in range(begin, end):
        if key[event] < 0:
            continue
        first = bounds[key[event]]
        at = first + size[key[event]]
        count = 1.0 if may_begin[event] else 0.0
        total = 0.0
        for before in range(first, at):
            if _follows(t_s, value, factor, by_key[before], event):
                count += own_counts[before]
                total += own_sums[before]
        own_counts[at] = count
        own_sums[at] = total + summed[event] * count
        counts[key[event]] += own_counts[at]
        sums[key[event]] += own_sums[at]
        size[key[event]] += 1


__all__ = ["flattened", "pointers", "quadratic", "shared", "two_step"]
