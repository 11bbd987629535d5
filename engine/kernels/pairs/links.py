"""Which events of a Kleene component may follow one another, where predicates compare neighbours alone.

b[j] may follow b[i] if every condition on the two holds. Conditions that compare one key of b[i] admit the events at a
range of positions in the order of that key (`Members.low`, `high`), found by bisection; then nobody looks at all pairs.
Other conditions are asked of each pair, one event against all before it at a time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.columns.ordered_sums import first_above, first_not_below, tree_height, tree_size
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.confidence.ordering import may_precede, separated
from engine.kernels.programs.opcodes import EQ, GE, GT, LE, LT, NE, TRUE, UNKNOWN
from engine.kernels.programs.predicates import evaluate

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

KEY_AGAINST_VALUE = 0
LOW_KEYS = 1
HIGH_KEYS = 2
OTHER = 3
"""How a condition depends on the event before: key OP value of the event at hand; true for keys up to some one, and for
keys from some one on; in another way."""

PROGRAM = 0
KIND = 1
OPERATION = 2
KEY_FROM = 3
KEY_TO = 4
VALUE_FROM = 5
VALUE_TO = 6


class LinkTables(NamedTuple):
    """Conditions on the Kleene component of SEQ([a,] b+ [, c]) as arrays (`engine.plan.sequence.links`).

    alone: int32, programs that b[i], i > 1, must fulfil whatever is before it. links: int32 (n, 7): program, kind,
    comparison, and where in the code the key and the value are (`PROGRAM` and so on). ordered: all of them are about
    one key, that of the first. kleene: position of the component. count_slot: the aggregate slot of count(b[]), -1
    without one. most_counted: numbers of events from here on are alike (at least 1). reads_start, reads_end: conditions
    on the complete match read b[1], or b[b.len].
    """

    alone: Int32
    links: Int32
    ordered: bool
    kleene: int
    count_slot: int
    most_counted: int
    reads_start: bool
    reads_end: bool


class Members(NamedTuple):
    """Events between two others that may be in a chain, in their order, and which may follow which; arrays (n,).

    can_follow: the event may be b[i], i > 1. seen: how many of the events it may come after, its order apart. position:
    in the order of the key, -1 without a key. low, high, gap_low, gap_high: the positions of the events it may follow,
    but for the gap. n_positions: events with a key. by_position: whether all this is there. keys, values: float64
    (n_links, n) for conditions of KEY_AGAINST_VALUE where it is not.
    """

    rows: Int64
    can_follow: Bool
    seen: Int64
    position: Int64
    low: Int64
    high: Int64
    gap_low: Int64
    gap_high: Int64
    n_positions: int
    by_position: bool
    keys: Float64
    values: Float64


@leaf
def order_members(events, rows, seen):
    """Find for each row how many of those before it it may come after; False where the order of two is open."""
    latest = np.int64(-(2**62))
    is_plain = True  # precise, one after the other
    for j in range(rows.shape[0]):
        row = rows[j]
        seen[j] = j
        is_plain = is_plain and events.lo_ms[row] == events.hi_ms[row]
        if j > 0 and is_plain:
            before = rows[j - 1]
            tied = events.lo_ms[before] == events.lo_ms[row]
            is_plain = before < row if tied else events.lo_ms[before] < events.lo_ms[row]
            if tied and events.strict:
                seen[j] = seen[j - 1]
        if not is_plain and latest >= events.lo_ms[row]:
            for i in range(j - 1, -1, -1):
                if separated(events, rows[i], row):
                    continue
                # Those at one time with it, which stand just before it, are neither before nor after it.
                if may_precede(events, rows[i], row) or may_precede(events, row, rows[i]) or seen[j] != i + 1:
                    return False
                seen[j] = i
        if j > 0 and seen[j] < seen[j - 1]:
            return False
        latest = max(latest, events.hi_ms[row])
    return True


@kernel
def relate(tables, links, events, rows, can_follow, seen, registers, aggregates, stack, work):
    """The members of chains; can_follow, seen: what is known of them already. work: int64 (1,), counts what is
    evaluated. registers: everything that is known from the start is bound."""
    n = rows.shape[0]
    n_links = links.links.shape[0]
    position = np.full(n, -1, np.int64)
    low = np.zeros(n, np.int64)
    high = np.zeros(n, np.int64)
    gap_low = np.zeros(n, np.int64)
    gap_high = np.zeros(n, np.int64)
    if links.ordered and n_links > 0:
        keys = np.empty((1, n), np.float64)
        _evaluate_keys(tables, links, events, rows, 0, registers, aggregates, stack, keys)
        has_key = np.flatnonzero(~np.isnan(keys[0]))
        by_key = has_key[np.argsort(keys[0][has_key], kind="mergesort")]
        sorted_keys = keys[0][by_key]
        for at in range(by_key.shape[0]):
            position[by_key[at]] = at
        work[0] += n + by_key.shape[0] * tree_height(tree_size(by_key.shape[0]))
        if _find_ranges(
            tables, links, events, rows, can_follow, by_key, sorted_keys, low, high, gap_low, gap_high, registers,
            aggregates, stack, work,
        ):  # fmt: skip
            none = np.empty((0, 0), np.float64)
            return Members(
                rows, can_follow, seen, position, low, high, gap_low, gap_high, by_key.shape[0], True, none, none
            )
    elif n_links == 0:
        position[:] = np.arange(n)
        high[:] = n
        none = np.empty((0, 0), np.float64)
        return Members(rows, can_follow, seen, position, low, high, gap_low, gap_high, n, True, none, none)
    keys = np.full((n_links, n), np.nan)
    values = np.full((n_links, n), np.nan)
    for k in range(n_links):
        if links.links[k, KIND] == KEY_AGAINST_VALUE:
            _evaluate_keys(tables, links, events, rows, k, registers, aggregates, stack, keys)
            _evaluate_values(tables, links, events, rows, k, registers, aggregates, stack, values)
            work[0] += 2 * n
    return Members(rows, can_follow, seen, position, low, high, gap_low, gap_high, 0, False, keys, values)


@leaf
def _evaluate_keys(tables, links, events, rows, k, registers, aggregates, stack, keys):
    """Write the key of condition k for each row as the event before."""
    previous = 2 * links.kleene + 1
    was = registers[previous]
    start = links.links[k, KEY_FROM]
    end = links.links[k, KEY_TO]
    for i in range(rows.shape[0]):
        registers[previous] = rows[i]
        keys[k, i] = evaluate(tables.code, start, end, tables.constants, events.columns, registers, aggregates, stack)
    registers[previous] = was


@leaf
def _evaluate_values(tables, links, events, rows, k, registers, aggregates, stack, values):
    """Write the value of condition k for each row as the event at hand."""
    current = registers.shape[0] - 1
    was = registers[current]
    start = links.links[k, VALUE_FROM]
    end = links.links[k, VALUE_TO]
    for j in range(rows.shape[0]):
        registers[current] = rows[j]
        values[k, j] = evaluate(tables.code, start, end, tables.constants, events.columns, registers, aggregates, stack)
    registers[current] = was


@leaf
def _find_ranges(
    tables, links, events, rows, can_follow, by_key, sorted_keys, low, high, gap_low, gap_high, registers, aggregates,
    stack, work,
):  # fmt: skip
    """Find the positions of those that each member may follow; False when a condition is unknown for some keys alone,
    as infinite numbers make it."""
    n = by_key.shape[0]
    current = registers.shape[0] - 1
    was = registers[current]
    levels = tree_height(tree_size(n))
    ordered = True
    for j in range(rows.shape[0]):
        if not can_follow[j]:
            continue
        registers[current] = rows[j]
        high[j] = n
        for k in range(links.links.shape[0]):
            kind = links.links[k, KIND]
            work[0] += levels
            if kind == KEY_AGAINST_VALUE:
                operation = links.links[k, OPERATION]
                start = links.links[k, VALUE_FROM]
                end = links.links[k, VALUE_TO]
                value = evaluate(
                    tables.code, start, end, tables.constants, events.columns, registers, aggregates, stack
                )
                below = first_not_below(sorted_keys, n, value)
                upto = first_above(sorted_keys, n, value)
                if math.isnan(value):
                    high[j] = 0
                elif operation == NE:
                    gap_low[j] = below
                    gap_high[j] = upto
                else:
                    if operation in (GT, GE, EQ):
                        low[j] = max(low[j], upto if operation == GT else below)
                    if operation in (LT, LE, EQ):
                        high[j] = min(high[j], below if operation == LT else upto)
            elif n > 0:
                program = links.links[k, PROGRAM]
                at_first = _holds(tables, links, events, rows[by_key[0]], program, registers, aggregates, stack)
                at_last = _holds(tables, links, events, rows[by_key[n - 1]], program, registers, aggregates, stack)
                if UNKNOWN in (at_first, at_last):
                    ordered = ordered and at_first == at_last
                    high[j] = 0
                    continue
                a = 0
                b = n
                while a < b:
                    middle = (a + b) // 2
                    truth = _holds(tables, links, events, rows[by_key[middle]], program, registers, aggregates, stack)
                    if (truth == TRUE) == (kind == LOW_KEYS):
                        a = middle + 1
                    else:
                        b = middle
                if kind == LOW_KEYS:
                    high[j] = min(high[j], a)
                else:
                    low[j] = max(low[j], a)
        low[j] = min(low[j], high[j])
        gap_low[j] = min(max(gap_low[j], low[j]), high[j])
        gap_high[j] = max(min(gap_high[j], high[j]), gap_low[j])
    registers[current] = was
    return ordered


@leaf
def _holds(tables, links, events, previous, program, registers, aggregates, stack):
    """What a condition is of the event at hand after another one."""
    at = 2 * links.kleene + 1
    was = registers[at]
    registers[at] = previous
    truth = evaluate(
        tables.code, tables.bounds[program], tables.bounds[program + 1], tables.constants, events.columns, registers,
        aggregates, stack,
    )  # fmt: skip
    registers[at] = was
    return truth


@leaf
def mark_followed(tables, links, events, members, j, marks, registers, aggregates, stack):
    """Mark in bool (n,) which of the members that j comes after it may follow; returns what was evaluated."""
    n = members.seen[j] if members.can_follow[j] else 0
    marks[:n] = True
    current = registers.shape[0] - 1
    was = registers[current]
    registers[current] = members.rows[j]
    for k in range(links.links.shape[0]):
        if links.links[k, KIND] == KEY_AGAINST_VALUE:
            keys = members.keys
            value = members.values[k, j]
            operation = links.links[k, OPERATION]
            # A NaN is not equal to itself; it compares as FALSE with everything else but by !=.
            if operation == LT:
                for i in range(n):
                    marks[i] &= keys[k, i] < value
            elif operation == LE:
                for i in range(n):
                    marks[i] &= keys[k, i] <= value
            elif operation == GT:
                for i in range(n):
                    marks[i] &= keys[k, i] > value
            elif operation == GE:
                for i in range(n):
                    marks[i] &= keys[k, i] >= value
            elif operation == EQ:
                for i in range(n):
                    marks[i] &= keys[k, i] == value
            else:
                for i in range(n):
                    marks[i] &= (keys[k, i] < value) | (keys[k, i] > value)
        else:
            for i in range(n):
                if marks[i]:
                    truth = _holds(
                        tables, links, events, members.rows[i], links.links[k, PROGRAM], registers, aggregates, stack
                    )
                    marks[i] = truth == TRUE
    registers[current] = was
    return n * links.links.shape[0]


__all__ = [
    "HIGH_KEYS",
    "KEY_AGAINST_VALUE",
    "LOW_KEYS",
    "OTHER",
    "LinkTables",
    "Members",
    "mark_followed",
    "order_members",
    "relate",
]
