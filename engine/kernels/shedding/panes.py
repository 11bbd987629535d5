"""Predecessor panes followed over a stream, and their Zobrist keys (gSPICE, sections II-B and III-B3).

The pane of an event has the last events before it, so many or of so long; what matters of it is how many of each type
it has, in bins. Its key is the XOR of one random number per type, that of the type's bin: when an event enters or
leaves, two numbers are exchanged, and only if the bin changes.

State between batches: `ring_types`, `ring_ms` int64 (c,): the events of the pane, a ring; `counts` int64 (n_types,);
`state` int64 (3,): FIRST (of the ring), LENGTH, KEY.
"""

from __future__ import annotations

from engine.kernels.compile.ways import inlined, leaf

FIRST = 0
LENGTH = 1
KEY = 2
N_STATE = 3


@leaf
def follow(
    types, t_ms, start, ring_types, ring_ms, counts, state, most_events, most_ms, bin_size, numbers, keys, seen
):  # fmt: skip
    """The key of the pane of each event from `start` on; the position at which it stopped: their number, or that of an
    event for which the ring has no room.

    types, t_ms: int64 (n,), in the order of the stream, types numbered from 0. most_events: the pane has so many events
    (the ring has room for them), or most_ms: those of so long before; the other one is negative. bin_size: counts of a
    type within one bin are one; numbers: int64 (n_types, n_bins), random; the last bin has all larger counts. keys:
    int64 (n,), written. seen: int64 (n, n_types), or with no rows: written if it has, the bins of the pane.
    """
    capacity = ring_types.shape[0]
    last_bin = numbers.shape[1] - 1
    for position in range(start, types.shape[0]):
        if most_ms >= 0:
            while state[LENGTH] > 0 and ring_ms[state[FIRST]] < t_ms[position] - most_ms:
                _leave(ring_types, counts, state, capacity, bin_size, last_bin, numbers)
            if state[LENGTH] == capacity:
                return position
        keys[position] = state[KEY]
        if seen.shape[0] > 0:
            for kind in range(counts.shape[0]):
                seen[position, kind] = min(counts[kind] // bin_size, last_bin)
        if most_ms < 0:
            if most_events == 0:
                continue
            if state[LENGTH] == most_events:
                _leave(ring_types, counts, state, capacity, bin_size, last_bin, numbers)
        _enter(
            types[position], t_ms[position], ring_types, ring_ms, counts, state, capacity, bin_size, last_bin, numbers
        )
    return types.shape[0]


@inlined
def _leave(ring_types, counts, state, capacity, bin_size, last_bin, numbers):
    kind = ring_types[state[FIRST]]
    state[FIRST] = (state[FIRST] + 1) % capacity
    state[LENGTH] -= 1
    _change(kind, -1, counts, state, bin_size, last_bin, numbers)


@inlined
def _enter(kind, at_ms, ring_types, ring_ms, counts, state, capacity, bin_size, last_bin, numbers):
    slot = (state[FIRST] + state[LENGTH]) % capacity
    ring_types[slot] = kind
    ring_ms[slot] = at_ms
    state[LENGTH] += 1
    _change(kind, 1, counts, state, bin_size, last_bin, numbers)


@inlined
def _change(kind, by, counts, state, bin_size, last_bin, numbers):
    before = min(counts[kind] // bin_size, last_bin)
    counts[kind] += by
    after = min(counts[kind] // bin_size, last_bin)
    if after != before:
        state[KEY] ^= numbers[kind, before] ^ numbers[kind, after]


__all__ = ["FIRST", "KEY", "LENGTH", "N_STATE", "follow"]
