"""The order in which matches are listed: last event, first event, then the ids by variable."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.events import Int64Array
from engine.kernels.selection import order_of_sequences
from engine.matching.bindings import BoundVariable, comparable
from engine.matching.formed_rows import bindings_of
from engine.matching.listed import Matches

_END = 0


def listing_order(matches: Matches, variables: Sequence[BoundVariable]) -> Int64Array:
    """The numbers of the matches in listing order, (n,); equal ones as they come."""
    number = matches.events.number
    first, last = number[matches.first], number[matches.last]
    order = np.lexsort((first, last))
    changes = np.append(True, (np.diff(first[order]) != 0) | (np.diff(last[order]) != 0))[: len(order)]
    pair = np.cumsum(changes) - 1
    tied = np.flatnonzero(np.bincount(pair)[pair] > 1)
    if not len(tied):
        return order
    chosen = order[tied]
    of_ties = matches.chosen(chosen)
    if matches.listed.iterations is None:
        within = _order_of_plain(of_ties, pair[tied], variables)
    else:
        found = bindings_of(variables, of_ties, of_ties.listed)
        keys = [tuple((name, comparable(binding)) for name, binding in bound.items()) for bound in found]
        pairs = pair[tied].tolist()
        within = np.array(sorted(range(len(keys)), key=lambda at: (pairs[at], keys[at])), np.int64)
    order[tied] = chosen[within]
    return order


def _order_of_plain(matches: Matches, pair: Int64Array, variables: Sequence[BoundVariable]) -> Int64Array:
    """The order of matches of no repeated groups by pair and bindings.

    Each is a sequence of numbers: its pair; of each variable that it binds the rank of its name, those of its ids,
    END; and END. Names and ids never stand in one place.
    """
    listed = matches.listed
    names = np.array([variable.name for variable in variables])
    rank_of_name = np.argsort(np.argsort(names)) + 1
    n, n_events = listed.n_matches, len(listed.rows)
    slot = np.repeat(np.arange(n), matches.n_events) * len(variables) + listed.components
    by_slot = np.argsort(slot, kind="stable")
    begins = np.append(True, np.diff(slot[by_slot]) != 0)[:n_events]
    match = slot[by_slot] // len(variables)
    # Before an event stand the numbers of all events before it, two for each variable begun (name and END), with the
    # own one's name, and of each match begun its pair, and the END of those before.
    place = np.arange(n_events) + 2 * np.cumsum(begins) - 1 + 2 * match + 1
    lengths = 2 + matches.n_events + 2 * np.bincount(match[begins], minlength=n)
    offsets = np.append(0, np.cumsum(lengths))
    numbers = np.full(offsets[-1], _END)
    numbers[offsets[:-1]] = pair
    numbers[place] = _ranks(matches)[listed.rows[by_slot]]
    numbers[place[begins] - 1] = rank_of_name[listed.components[by_slot][begins]]
    return np.asarray(order_of_sequences(numbers, offsets), np.int64)


def _ranks(matches: Matches) -> Int64Array:
    """The place of each event's id among all, from 1 on, (e,)."""
    ids: pa.Array = matches.events.ids
    return np.asarray(pc.rank(ids, tiebreaker="dense"), np.int64)


__all__ = ["listing_order"]
