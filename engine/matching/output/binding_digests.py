"""Numbers that tell bindings of listed matches apart, without a look at one match after the other.

Two different ones agree with a probability of 2**-128, as far as their events are not chosen to make them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.events import Int64Array
from engine.matching.output.listed import Matches

Digests = npt.NDArray[np.uint64]

_FACTORS = ((0xBF58476D1CE4E5B9, 0x94D049BB133111EB), (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53))
"""Odd multipliers of two finalizers of 64 bits: SplitMix64 (Steele, Lea, Flood 2014) and MurmurHash3."""
_SHIFTS = ((30, 27, 31), (33, 33, 33))
_STEP = 0x9E3779B97F4A7C15


def set_digests(matches: Matches) -> Digests:
    """Partition, and which events stand in which component, in whatever order: (2, n)."""
    listed = matches.listed
    return _summed(matches, [listed.components, matches.events.number[listed.rows]])


def binding_digests(matches: Matches) -> Digests:
    """Partition, the events of each component in their order, and their iterations: (2, n)."""
    listed = matches.listed
    n_events = len(listed.rows)
    slot = np.repeat(np.arange(matches.n_matches), matches.n_events) * (int(listed.components.max(initial=0)) + 1)
    slot += listed.components
    order = np.argsort(slot, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(slot[order]) != 0))[:n_events]
    position = np.empty(n_events, np.int64)
    position[order] = np.arange(n_events) - np.repeat(starts, np.diff(np.append(starts, n_events)))
    iterations = [] if listed.iterations is None else list(listed.iterations.T)
    return _summed(matches, [listed.components, position, matches.events.number[listed.rows], *iterations])


def _summed(matches: Matches, of_events: list[Int64Array]) -> Digests:
    """The sums over the events of each match of hashes of these columns, with its partition."""
    found = np.zeros((2, matches.n_matches), np.uint64)
    for at in range(2):
        mixed = np.zeros(len(of_events[0]), np.uint64)
        for column in of_events:
            mixed = _mixed(mixed + column.astype(np.uint64), at)
        if matches.n_matches:
            found[at] = np.add.reduceat(mixed, matches.listed.offsets[:-1])
        found[at] = _mixed(found[at] + matches.listed.partition.astype(np.uint64), at)
    return found


def _mixed(numbers: Digests, at: int) -> Digests:
    """One round of a hash of 64 bits; what overflows is left out."""
    (one, two), (a, b, c) = _FACTORS[at], (np.uint64(shift) for shift in _SHIFTS[at])
    numbers = numbers + np.uint64(_STEP)
    numbers = (numbers ^ (numbers >> a)) * np.uint64(one)
    numbers = (numbers ^ (numbers >> b)) * np.uint64(two)
    return numbers ^ (numbers >> c)


def groups_of(digests: Digests, *others: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Equal columns: (order, starts), the members of a group in their order at order[starts[k] : starts[k + 1]]."""
    columns = (*digests, *others)
    order = np.lexsort(columns)
    changes = np.zeros(len(order), np.bool_)
    changes[:1] = True
    for column in columns:
        ordered = column[order]
        changes[1:] |= ordered[1:] != ordered[:-1]
    return order, np.append(np.flatnonzero(changes), len(order))


__all__ = ["Digests", "binding_digests", "groups_of", "set_digests"]
