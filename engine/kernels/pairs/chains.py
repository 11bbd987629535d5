"""Counting SEQ([a,] b+ [, c]) where only neighbours of b are compared: chains from event to event.

The common form of an alert (SASE++ Query 6): predicates of b[i] on itself, b[i-1], a and c; on completion b[1],
b[b.len], a, c and bounds on count(b[]). Then whether an event may follow another does not depend on what came before,
and chains that begin alike differ in their number of events alone: one pass over the events counts all of them.

Work per pass, for n events and a bound k on the count: n k log n where all conditions on neighbours are about one key
(`links`), else n^2 k. Passes: one for each first event, whatever the last events are; one for each b[1] where the
complete match is compared with it, or where it may come before the first event.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.columns.ordered_sums import (
    MOST,
    NOBODY,
    clear,
    enter,
    is_marked,
    mark_between,
    totals_between,
    tree_height,
    tree_size,
)
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.confidence.ordering import may_precede, separated
from engine.kernels.confidence.skew import TOO_MUCH, match_confidence
from engine.kernels.confidence.skew_events import has_skew
from engine.kernels.pairs.links import mark_followed, order_members, relate
from engine.kernels.pairs.search import TOLERANCE
from engine.kernels.pairs.state import begins, completes, leaves, unbound
from engine.kernels.pairs.status import COMPLETE, OUT_OF_BUDGET
from engine.kernels.programs.opcodes import MAX_STACK, TRUE
from engine.kernels.programs.predicates import evaluate

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

NOT_THIS_FORM = 5
"""Some events of b have an open order, or the window is not certain: `kernels.pairs.counting` decides."""

ALL_AT_ONCE = -1
"""The pass for all b[1] that certainly come after the first event."""


class Layers(NamedTuple):
    """Chains by their number of events k = 1..most (all longer ones with those of `most`) and by their last event.

    numbers: int64 (most + 1, n), at most MOST. parents: int32 (most + 1, n), the event before the last one in a longest
    chain, NOBODY for none. longest: int64 (n,), the length of a longest chain of the last layer. closes: bool
    (most + 1, n), whether such a chain goes on to a match.
    """

    numbers: Int64
    parents: npt.NDArray[np.int32]
    longest: Int64
    closes: Bool


class Trees(NamedTuple):
    """Room of `ordered_sums`; ranks: int64 (n,), lengths of chains; marks_of: bool (n,), scratch of the scan."""

    sums: Int64
    tops: Int64
    ranks: Int64
    marks: Bool
    marks_of: Bool


class Bound(NamedTuple):
    """Registers and aggregates of a match under construction, and room to evaluate programs and confidences."""

    opening: Int64
    registers: Int64
    aggregates: Float64
    stack: Float64
    few: Int64


class Pairs(NamedTuple):
    """Pairs of a first and a last event that share their members, (n_pairs,): the position of the first event among
    these where the pattern begins with the Kleene component, ascending, else -1; the row of the last event; how many
    members come before it. With a Kleene component at the end the last event is the last of these."""

    positions: Int64
    lasts: Int64
    n_before: Int64


class Best(NamedTuple):
    """The best match of each pair, (n_pairs,): confidence, events of b, the pass, its last event and layer."""

    confidence: Float64
    length: Int64
    start: Int64
    end: Int64
    layer: Int64


@kernel
def count_chains(
    tables, links, events, begin_ok, take_ok, rows, first, positions, lasts, n_before, threshold, with_used, budget
):
    """Number, best and events of the matches (first, chain, last) of each pair.

    rows: int64 (n,), what may be in a chain, in the order of `search_order`, one to a block. first: the single event
    that all pairs begin with; of no use where the pattern begins with the Kleene component. positions, lasts, n_before:
    see `Pairs`. Several last events only where no condition on what precedes the last event reads it, several first
    ones where none on neighbours reads b[1], and where times are certain. with_used: whether the events in matches are
    asked for. budget: steps after which no further pass is begun.

    Returns (status, counts, confidences, offsets, chain, steps, used, n_work); the events of the best match of pair p
    are chain[offsets[p] : offsets[p + 1]], none without a match. counts stop at MOST; after OUT_OF_BUDGET they are
    lower bounds. used: bool (n_pairs, n), or (n_pairs, 0). n_work: predicates evaluated, nodes of trees and links
    looked at.

    begin_ok, take_ok: bool (n_steps, n_rows), local predicates and types.
    """
    n = rows.shape[0]
    n_pairs = lasts.shape[0]
    kl = links.kleene
    after = tables.kleene.shape[0] - 1 - kl
    work = np.zeros(1, np.int64)
    counts = np.zeros(n_pairs, np.int64)
    n_used = n if with_used else 0
    used = np.zeros((n_pairs, n_used), np.bool_)
    best = Best(
        np.full(n_pairs, -1.0), np.zeros(n_pairs, np.int64), np.full(n_pairs, -2), np.full(n_pairs, -1),
        np.zeros(n_pairs, np.int64),
    )  # fmt: skip
    offsets = np.zeros(n_pairs + 1, np.int64)
    nothing = np.empty(0, np.int64)
    pairs = Pairs(positions, lasts, n_before)
    begins_here = np.zeros(n, np.bool_)
    for p in range(n_pairs):
        row = first
        if kl == 0:
            begins_here[positions[p]] = True
            row = rows[positions[p]]
        if events.hi_ms[lasts[p]] - events.lo_ms[row] > tables.within_ms:
            return NOT_THIS_FORM, counts, best.confidence, offsets, nothing, nothing, used, 0
    opening = unbound(tables, lasts[0])
    stack = np.empty(MAX_STACK, np.float64)
    aggregates = np.full(tables.kinds.shape[0], np.nan)
    if kl == 1:
        opens = begin_ok[0, first] and begins(tables, events, 0, first, opening, aggregates, stack)
        if not (opens and leaves(tables, events, 0, opening, aggregates, stack)):
            return COMPLETE, counts, best.confidence, offsets, nothing, nothing, used, 1
    else:
        opening[0] = rows[positions[0]]
    bound = Bound(opening, opening.copy(), aggregates, stack, np.empty(4, np.int64))
    head = np.ones(n, np.float64)  # P(first < b)
    can_follow = np.zeros(n, np.bool_)
    known = _judge(
        tables, links, events, begin_ok, take_ok, rows, first, threshold, bound, head, begins_here, can_follow
    )
    work[0] += 2 * n
    seen = np.empty(n, np.int64)
    if not (known and order_members(events, rows, seen)):
        return NOT_THIS_FORM, counts, best.confidence, offsets, nothing, nothing, used, work[0]
    _copy(opening, bound.registers)
    members = relate(tables, links, events, rows, can_follow, seen, bound.registers, aggregates, stack, work)
    most = links.most_counted
    layers = Layers(
        np.zeros((most + 1, n), np.int64), np.full((most + 1, n), NOBODY, np.int32), np.zeros(n, np.int64),
        np.zeros((most + 1, n_used), np.bool_),
    )  # fmt: skip
    size = tree_size(members.n_positions)
    trees = Trees(
        np.empty(2 * size, np.int64), np.empty(2 * size, np.int64), np.zeros(n, np.int64),
        np.empty(2 * size, np.bool_), np.empty(n, np.bool_),
    )  # fmt: skip
    dependent = has_skew(events, np.array([first, lasts[0]]), 2) or has_skew(events, rows, n)
    starts = np.empty(n, np.bool_)
    chain = np.empty(n + 2, np.int64)
    steps = np.empty(n + 2, np.int64)
    status = COMPLETE
    last_start = ALL_AT_ONCE
    of_pass = 0
    end_of_pass = n_pairs
    for start in range(ALL_AT_ONCE, n):
        if not _starts_of(links, start, begins_here, head, starts):
            continue
        if work[0] > budget:
            status = OUT_OF_BUDGET
            break
        if not _go_on(tables, links, events, members, starts, max(start, 0), layers, trees, bound, budget, work):
            status = OUT_OF_BUDGET
        last_start = start
        if kl == 0:
            while positions[of_pass] < start:
                of_pass += 1
                offsets[of_pass] = offsets[of_pass - 1]
            end_of_pass = of_pass
            while end_of_pass < n_pairs and positions[end_of_pass] == start:
                end_of_pass += 1
        for p in range(of_pass, end_of_pass):
            found = _close(
                tables, links, events, members, layers, bound, pairs, p, first, start, head, threshold, dependent,
                with_used, counts, best, work,
            )  # fmt: skip
            if found < 0:
                return NOT_THIS_FORM, counts, best.confidence, offsets, nothing, nothing, used, work[0]
            if with_used and found > 0:
                _go_back(tables, links, events, members, max(start, 0), n_before[p], layers, trees, bound, work)
                for k in range(1, most + 1):
                    for i in range(n_before[p]):
                        used[p, i] |= layers.closes[k, i]
        if kl == 0:  # what is found of a first event is found in its pass
            for p in range(of_pass, end_of_pass):
                chain, steps = _with_best(rows, layers, links, first, pairs, best, after, p, offsets, chain, steps)
            of_pass = end_of_pass
        if status != COMPLETE or (kl == 0 and of_pass == n_pairs):
            break
    for p in range(of_pass if kl == 0 else 0, n_pairs):
        start = best.start[p]
        if start >= ALL_AT_ONCE and start != last_start:
            last_start = start
            _starts_of(links, start, begins_here, head, starts)
            _go_on(tables, links, events, members, starts, max(start, 0), layers, trees, bound, MOST, work)
        chain, steps = _with_best(rows, layers, links, first, pairs, best, after, p, offsets, chain, steps)
    n_found = offsets[n_pairs]
    return status, counts, best.confidence, offsets, chain[:n_found], steps[:n_found], used, work[0]


@kernel
def _with_best(rows, layers, links, first, pairs, best, after, p, offsets, chain, steps):
    """Write the best match of pair p behind those before it; returns chain and steps, longer where they have to be."""
    kl = links.kleene
    at = offsets[p]
    offsets[p + 1] = at
    if best.start[p] < ALL_AT_ONCE:
        return chain, steps
    end = at + best.length[p] + kl + after
    offsets[p + 1] = end
    if end > chain.shape[0]:
        chain = np.concatenate((chain, np.empty(end, np.int64)))
        steps = np.concatenate((steps, np.empty(end, np.int64)))
    if kl == 1:
        chain[at] = first
        steps[at] = 0
    _write(rows, layers, links.most_counted, best.end[p], best.layer[p], best.length[p], chain, at + kl)
    for position in range(at + kl, end - after):
        steps[position] = kl
    if after == 1:
        chain[end - 1] = pairs.lasts[p]
        steps[end - 1] = kl + 1
    return chain, steps


@leaf
def _copy(values, to):
    """to = values, one by one: no array is made."""
    for k in range(values.shape[0]):
        to[k] = values[k]


@leaf
def _judge(tables, links, events, begin_ok, take_ok, rows, first, threshold, bound, head, begins_here, can_follow):
    """Find which rows may be b[1] (of those marked, where that is the first event), with which probability after the
    first event, and which may be a later b[i] as far as that does not depend on the one before; False where a
    probability takes too much."""
    kl = links.kleene
    least = max(threshold - TOLERANCE, 0.0)
    registers = bound.registers
    known = True
    for j in range(rows.shape[0]):
        row = rows[j]
        if kl == 0:
            head[j] = 1.0
        elif not separated(events, first, row):
            head[j] = 0.0
            if may_precede(events, first, row):
                bound.few[0] = first
                bound.few[1] = row
                head[j] = match_confidence(events, bound.few, 2, tables.within_ms)
            known = known and head[j] != TOO_MUCH
            begins_here[j] = head[j] > 0.0 and head[j] >= least
        else:
            begins_here[j] = True
        if begins_here[j]:
            _copy(bound.opening, registers)
            begins_here[j] = begin_ok[kl, row] and begins(
                tables, events, kl, row, registers, bound.aggregates, bound.stack
            )
        if take_ok[kl, row]:
            _copy(bound.opening, registers)
            registers[registers.shape[0] - 1] = row
            holds = True
            for program in links.alone:
                start = tables.bounds[program]
                end = tables.bounds[program + 1]
                if holds:
                    truth = evaluate(
                        tables.code, start, end, tables.constants, events.columns, registers, bound.aggregates,
                        bound.stack,
                    )  # fmt: skip
                    holds = truth == TRUE
            can_follow[j] = holds
    return known


@leaf
def _starts_of(links, start, begins_here, head, starts):
    """Mark the events that are b[1] in a pass; False where there is no such pass."""
    alone = links.reads_start or links.kleene == 0
    if start != ALL_AT_ONCE and not (begins_here[start] and (alone or head[start] < 1.0)):
        return False
    found = False
    for j in range(starts.shape[0]):
        if start == ALL_AT_ONCE:
            starts[j] = begins_here[j] and not alone and head[j] >= 1.0
        else:
            starts[j] = j == start
        found = found or starts[j]
    return found


@leaf
def _go_on(tables, links, events, members, starts, begin, layers, trees, bound, budget, work):
    """Count the chains from the given events on; False when the budget ends it: then numbers are lower bounds."""
    n = starts.shape[0]
    most = links.most_counted
    for k in range(most + 1):
        for j in range(n):
            layers.numbers[k, j] = 0
            layers.parents[k, j] = NOBODY
    for j in range(n):
        layers.longest[j] = 1 if most == 1 and starts[j] else 0
        layers.numbers[1, j] = starts[j]
    if not members.by_position:
        return _go_on_by_pairs(tables, links, events, members, begin, layers, trees, bound, budget, work)
    for k in range(1 if most == 1 else 2, most + 1):
        _go_on_by_positions(members, begin, k, k == most, layers, trees, work)
        if work[0] > budget and k < most:
            return False
    return True


@leaf
def _go_on_by_positions(members, begin, k, is_last, layers, trees, work):
    """Count the chains of layer k, from those of layer k - 1 and, in the last layer, of its own."""
    clear(trees.sums, trees.tops)
    levels = tree_height(trees.sums.shape[0] // 2)
    entered = begin
    for j in range(begin, members.rows.shape[0]):
        if not members.can_follow[j]:
            continue
        while entered < members.seen[j]:
            number = layers.numbers[k - 1, entered] if k > 1 else 0
            trees.ranks[entered] = k - 1
            if is_last and layers.numbers[k, entered] > 0:
                number = min(number + layers.numbers[k, entered], MOST)
                trees.ranks[entered] = layers.longest[entered]
            if number > 0 and members.position[entered] >= 0:
                enter(trees.sums, trees.tops, trees.ranks, members.position[entered], number, entered)
                work[0] += levels
            entered += 1
        work[0] += 2 * levels
        low = members.low[j]
        high = members.high[j]
        middle = high
        if members.gap_low[j] < members.gap_high[j]:
            middle = members.gap_low[j]
        number, top = totals_between(trees.sums, trees.tops, trees.ranks, low, middle)
        if middle < high:
            work[0] += 2 * levels
            more, other = totals_between(trees.sums, trees.tops, trees.ranks, members.gap_high[j], high)
            number = min(number + more, MOST)
            if top == NOBODY or (other != NOBODY and trees.ranks[other] > trees.ranks[top]):
                top = other
        if top != NOBODY:
            _join(layers, k, j, is_last, number, top, trees.ranks[top] + 1)


@leaf
def _join(layers, k, j, is_last, number, parent, length):
    """Chains of layer k with j after others, a longest of them after `parent`."""
    layers.numbers[k, j] = min(layers.numbers[k, j] + number, MOST)
    if not is_last or length > layers.longest[j]:
        layers.parents[k, j] = parent
        if is_last:
            layers.longest[j] = length


@leaf
def _go_on_by_pairs(tables, links, events, members, begin, layers, trees, bound, budget, work):
    """Count the chains of all layers, event by event."""
    most = links.most_counted
    _copy(bound.opening, bound.registers)
    finished = True
    for j in range(begin, members.rows.shape[0]):
        if not finished or not members.can_follow[j]:
            continue
        work[0] += mark_followed(
            tables, links, events, members, j, trees.marks_of, bound.registers, bound.aggregates, bound.stack
        )
        for i in range(begin, members.seen[j]):
            if not trees.marks_of[i]:
                continue
            work[0] += most
            for k in range(1, most + 1):
                number = layers.numbers[k, i]
                if number > 0:
                    to = min(k + 1, most)
                    length = layers.longest[i] + 1 if k == most else to
                    if to == most or layers.parents[to, j] == NOBODY:
                        _join(layers, to, j, to == most, number, i, length)
                    else:
                        layers.numbers[to, j] = min(layers.numbers[to, j] + number, MOST)
        finished = work[0] <= budget
    return finished


@leaf
def _close(
    tables, links, events, members, layers, bound, pairs, p, first, start, head, threshold, dependent, with_used,
    counts, best, work,
):  # fmt: skip
    """Add the chains of a pass that make a match for pair p; returns how many ends they have, -1 where that is
    not of this form."""
    kl = links.kleene
    n_steps = tables.kleene.shape[0]
    most = links.most_counted
    least = max(threshold - TOLERANCE, 0.0)
    last = pairs.lasts[p]
    registers = bound.registers
    few = bound.few
    ends_there = kl == n_steps - 1
    once = not links.reads_end and links.count_slot < 0
    known = -1
    n_found = 0
    if with_used:
        layers.closes[:] = False
    for j in range(pairs.n_before[p] - 1 if ends_there else max(start, 0), pairs.n_before[p]):
        reached = False
        for k in range(1, most + 1):
            reached = reached or layers.numbers[k, j] > 0
        if not reached:
            continue
        row = members.rows[j]
        confidence = 1.0 if start == ALL_AT_ONCE else head[start]
        if not ends_there and not separated(events, row, last):
            if not may_precede(events, row, last):
                continue
            few[0] = row
            few[1] = last
            tail = match_confidence(events, few, 2, tables.within_ms)
            if tail == TOO_MUCH:
                return -1
            if tail <= 0.0:
                continue
            if confidence < 1.0 and j == start:
                few[0] = first
                few[1] = row
                few[2] = last
                confidence = match_confidence(events, few, 3, tables.within_ms)
            elif confidence < 1.0 and tail < 1.0 and dependent:
                # What is between the two is in order in every world, but the clock of both may be off.
                if not separated(events, members.rows[start], row):
                    return -1
                few[0] = first
                few[1] = members.rows[start]
                few[2] = row
                few[3] = last
                confidence = match_confidence(events, few, 4, tables.within_ms)
            else:
                confidence *= tail
        if confidence == TOO_MUCH:
            return -1
        if confidence <= 0.0 or confidence < least:
            continue
        for k in range(1, most + 1):
            number = layers.numbers[k, j]
            if number == 0:
                continue
            if known < 0 or not once:
                work[0] += 1
                _copy(bound.opening, registers)
                if not ends_there:
                    registers[2 * n_steps - 2] = last
                    registers[2 * n_steps - 1] = last
                registers[2 * kl] = members.rows[max(start, 0)]
                registers[2 * kl + 1] = row
                if links.count_slot >= 0:
                    bound.aggregates[links.count_slot] = k
                holds = _ends_match(tables, events, kl, last, registers, bound.aggregates, bound.stack)
                known = 1 if holds else 0
            if known == 0:
                continue
            n_found += 1
            if with_used:
                layers.closes[k, j] = True
            counts[p] = min(counts[p] + number, MOST)
            length = layers.longest[j] if k == most else k
            if confidence > best.confidence[p] + TOLERANCE or (
                confidence > best.confidence[p] - TOLERANCE and length > best.length[p]
            ):
                best.confidence[p] = confidence
                best.length[p] = length
                best.start[p] = start
                best.end[p] = j
                best.layer[p] = k
    return n_found


@leaf
def _ends_match(tables, events, kl, last, registers, aggregates, stack):
    """Whether the match is complete with this last event, the Kleene component bound."""
    if not leaves(tables, events, kl, registers, aggregates, stack):
        return False
    if kl < tables.kleene.shape[0] - 1:
        if not begins(tables, events, kl + 1, last, registers, aggregates, stack):
            return False
        if not leaves(tables, events, kl + 1, registers, aggregates, stack):
            return False
    return completes(tables, events, registers, aggregates, stack)


@leaf
def _go_back(tables, links, events, members, begin, end, layers, trees, bound, work):
    """Find all chains that go on to a match, from those that `closes` says are complete."""
    most = links.most_counted
    if not members.by_position:
        _copy(bound.opening, bound.registers)
        for j in range(end - 1, begin - 1, -1):
            leads = False
            for k in range(1, most + 1):
                leads = leads or layers.closes[k, j]
            if not leads or not members.can_follow[j]:
                continue
            work[0] += mark_followed(
                tables, links, events, members, j, trees.marks_of, bound.registers, bound.aggregates, bound.stack
            )
            for i in range(begin, members.seen[j]):
                if trees.marks_of[i]:
                    for k in range(1, most + 1):
                        if layers.closes[min(k + 1, most), j] and layers.numbers[k, i] > 0:
                            layers.closes[k, i] = True
        return
    levels = tree_height(trees.marks.shape[0] // 2)
    for k in range(most, 0, -1):
        to = min(k + 1, most)
        trees.marks[:] = False
        j = end - 1
        for i in range(end - 1, begin - 1, -1):
            while j > i and members.seen[j] > i:
                if members.can_follow[j] and layers.closes[to, j]:
                    work[0] += 2 * levels
                    if members.gap_low[j] < members.gap_high[j]:
                        mark_between(trees.marks, members.low[j], members.gap_low[j])
                        mark_between(trees.marks, members.gap_high[j], members.high[j])
                    else:
                        mark_between(trees.marks, members.low[j], members.high[j])
                j -= 1
            if layers.numbers[k, i] > 0 and not layers.closes[k, i] and members.position[i] >= 0:
                work[0] += levels
                layers.closes[k, i] = is_marked(trees.marks, members.position[i])


@leaf
def _write(rows, layers, most, end, layer, length, chain, at):
    """Write a longest chain of a layer that ends in `end` to chain[at : at + length]."""
    j = end
    k = layer
    for position in range(at + length - 1, at - 1, -1):
        chain[position] = rows[j]
        parent = layers.parents[k, j]
        if k < most or (parent != NOBODY and layers.numbers[k, parent] == 0):
            k -= 1
        j = parent


__all__ = ["MOST", "NOT_THIS_FORM", "count_chains"]
