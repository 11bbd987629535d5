"""The order in which matches are listed: last event, first event, then the ids by variable."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.events import Int64Array
from engine.kernels.columns.selection import order_of_sequences
from engine.matching.output.bindings import Nested, bindings
from engine.matching.output.listed import Matches
from engine.plan.model import BoundVariable

_END, _LIST = 0, 1


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
        within = _order_of_nested(of_ties, pair[tied], variables)
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
    position = np.arange(n_events) + 2 * np.cumsum(begins) - 1 + 2 * match + 1
    lengths = 2 + matches.n_events + 2 * np.bincount(match[begins], minlength=n)
    offsets = np.append(0, np.cumsum(lengths))
    numbers = np.full(offsets[-1], _END)
    numbers[offsets[:-1]] = pair
    numbers[position] = _ranks(matches)[listed.rows[by_slot]]
    numbers[position[begins] - 1] = rank_of_name[listed.components[by_slot][begins]]
    return np.asarray(order_of_sequences(numbers, offsets), np.int64)


def _order_of_nested(matches: Matches, pair: Int64Array, variables: Sequence[BoundVariable]) -> Int64Array:
    """The same for matches of repeated groups: LIST and END stand around what is nested. Lists come before ids."""
    listed = matches.listed
    assert listed.iterations is not None
    names = sorted(variable.name for variable in variables)
    rank_of_name = {name: rank for rank, name in enumerate(names, _END + 1)}
    ranks, components = (_ranks(matches) + _LIST)[listed.rows].tolist(), listed.components.tolist()
    iterations = list(map(tuple, listed.iterations.tolist()))
    numbers: list[int] = []
    offsets = [0]
    for number, (start, end) in zip(pair.tolist(), pairwise(listed.offsets.tolist()), strict=True):
        own = slice(start, end)
        numbers.append(number)
        for name, binding in bindings(variables, ranks[own], components[own], iterations[own]).items():
            numbers.append(rank_of_name[name])
            _spell(binding, numbers)
        numbers.append(_END)
        offsets.append(len(numbers))
    return np.asarray(order_of_sequences(np.array(numbers, np.int64), np.array(offsets, np.int64)), np.int64)


def _spell(binding: Nested[int], numbers: list[int]) -> None:
    for each in binding:
        if isinstance(each, int):
            numbers.append(each)
        else:
            numbers.append(_LIST)
            _spell(each, numbers)
    numbers.append(_END)


def _ranks(matches: Matches) -> Int64Array:
    """The position of each event's id among all, from 1 on, (e,)."""
    ids: pa.Array = matches.events.ids
    return np.asarray(pc.rank(ids, tiebreaker="dense"), np.int64)


__all__ = ["listing_order"]
