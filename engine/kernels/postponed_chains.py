"""Counting SEQ(a, b+, c) where only neighbours of b are compared: chains over a matrix of links.

The common form of an alert (SASE++ Query 6): predicates of b[i] on itself, b[i-1], a and c; on completion b[1],
b[b.len], a, c and bounds on count(b[]). Then the chains from one b[1] to one b[b.len] differ in their number of events
alone, and whether an event may follow another does not depend on what came before. Work: the cube of the number of
candidates times the bound on the count, in additions.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.compiling import kernel
from engine.kernels.opcodes import MAX_STACK
from engine.kernels.ordering import may_precede, separated
from engine.kernels.postponed_search import COMPLETE, TOLERANCE
from engine.kernels.postponed_state import begins, completes, leaves, takes, unbound
from engine.kernels.skew import TOO_MUCH, match_confidence
from engine.kernels.skew_events import has_skew

NOT_THIS_FORM = 5
"""Some events of b have an open order, or the window is not certain: `postponed_labels` decides."""
MOST = 2**62 - 1


@kernel
def count_chains(
    tables, events, begin_ok, take_ok, candidates, blocks, first, last, threshold, count_slot, most_counted
):
    """Number, best and events of the matches (first, chain over candidates, last); see `postponed_labels.count`.

    count_slot: the aggregate slot of count(b[]), -1 without one. most_counted: numbers of events from here on are alike
    (at least 1). Returns (status, n_matches, n_work, best_confidence, chain, steps, used); n_matches is MOST when there
    are at least that many. n_work: predicates evaluated and links followed.
    """
    n = candidates.shape[0]
    no_rows = np.empty(0, np.int64)
    used = np.zeros((3, n), np.bool_)
    least = max(threshold - TOLERANCE, 0.0)
    if events.hi_ms[last] - events.lo_ms[first] > tables.within_ms:
        return NOT_THIS_FORM, 0, 0, -1.0, no_rows, no_rows, used
    for k in range(1, n):
        if blocks[k] == blocks[k - 1]:
            return NOT_THIS_FORM, 0, 0, -1.0, no_rows, no_rows, used
    n_slots = tables.kinds.shape[0]
    stack = np.empty(MAX_STACK, np.float64)
    opening = unbound(tables, last)
    aggregates = np.full(n_slots, np.nan)
    if not (begin_ok[0, first] and begins(tables, events, 0, first, opening, aggregates, stack)):
        return COMPLETE, 0, 1, -1.0, no_rows, no_rows, used
    if not leaves(tables, events, 0, opening, aggregates, stack):
        return COMPLETE, 0, 1, -1.0, no_rows, no_rows, used
    rows = opening.copy()
    trio = np.array([first, last, last])
    ends = np.array([first, first, last, last])
    dependent = has_skew(events, ends, 4) or has_skew(events, candidates, n)
    starts_with = np.zeros(n, np.bool_)
    head = np.zeros(n, np.float64)  # P(first < b)
    tail = np.zeros(n, np.float64)  # P(b < last)
    links = np.zeros((n, n), np.bool_)
    n_work = 0
    for j in range(n):
        row = candidates[j]
        if may_precede(events, first, row):
            trio[0] = first
            trio[1] = row
            head[j] = match_confidence(events, trio, 2, tables.within_ms)
        if may_precede(events, row, last):
            trio[0] = row
            trio[1] = last
            tail[j] = match_confidence(events, trio, 2, tables.within_ms)
        rows[:] = opening
        starts_with[j] = (
            begin_ok[1, row]
            and head[j] > 0.0
            and head[j] >= least
            and begins(tables, events, 1, row, rows, aggregates, stack)
        )
        n_work += 1
        if not take_ok[1, row]:
            continue
        for i in range(j):
            if not may_precede(events, candidates[i], row):
                continue
            if not separated(events, candidates[i], row):
                return NOT_THIS_FORM, 0, n_work, -1.0, no_rows, no_rows, used
            rows[:] = opening
            rows[2] = candidates[i]
            rows[3] = candidates[i]
            n_work += 1
            links[i, j] = takes(tables, events, 1, row, rows, aggregates, stack)

    numbers = np.zeros((n, most_counted + 1), np.int64)
    closes = np.zeros((n, most_counted + 1), np.bool_)
    longest = np.zeros(n, np.int64)
    n_matches = 0
    best_confidence = -1.0
    best_length = 0
    best_start = -1
    best_end = -1
    for start in range(n):
        if not starts_with[start]:
            continue
        numbers[start:] = 0
        closes[start:] = False
        longest[start:] = 0
        numbers[start, 1] = 1
        longest[start] = 1
        found = False
        for j in range(start, n):
            for i in range(start, j):
                if not links[i, j] or longest[i] == 0:
                    continue
                n_work += 1
                longest[j] = max(longest[j], longest[i] + 1)
                for c in range(1, most_counted + 1):
                    to = min(c + 1, most_counted)
                    numbers[j, to] = min(numbers[j, to] + numbers[i, c], MOST)
            if longest[j] == 0 or tail[j] <= 0.0:
                continue
            if j == start:
                trio[0] = first
                trio[1] = candidates[j]
                trio[2] = last
                confidence = match_confidence(events, trio, 3, tables.within_ms)
            else:
                confidence = head[start] * tail[j]
                if dependent and head[start] < 1.0 and tail[j] < 1.0:
                    # What is between the two is in order in every world, but the clock of both may be off.
                    if not separated(events, candidates[start], candidates[j]):
                        return NOT_THIS_FORM, 0, n_work, -1.0, no_rows, no_rows, used
                    ends[1] = candidates[start]
                    ends[2] = candidates[j]
                    confidence = match_confidence(events, ends, 4, tables.within_ms)
            if confidence == TOO_MUCH:
                return NOT_THIS_FORM, 0, n_work, -1.0, no_rows, no_rows, used
            if confidence <= 0.0 or confidence < least:
                continue
            for c in range(1, most_counted + 1):
                if numbers[j, c] == 0:
                    continue
                rows[:] = opening
                rows[2] = candidates[start]
                rows[3] = candidates[j]
                if count_slot >= 0:
                    aggregates[count_slot] = c
                n_work += 1
                if not leaves(tables, events, 1, rows, aggregates, stack):
                    continue
                if not begins(tables, events, 2, last, rows, aggregates, stack):
                    continue
                if not leaves(tables, events, 2, rows, aggregates, stack):
                    continue
                if not completes(tables, events, rows, aggregates, stack):
                    continue
                closes[j, c] = True
                found = True
                n_matches = min(n_matches + numbers[j, c], MOST)
                length = longest[j] if c == most_counted else c
                if confidence > best_confidence + TOLERANCE or (
                    confidence > best_confidence - TOLERANCE and length > best_length
                ):
                    best_confidence = confidence
                    best_length = length
                    best_start = start
                    best_end = j
        if not found:
            continue
        # Which events lead to an end: backwards over the links.
        for i in range(n - 1, start - 1, -1):
            for c in range(1, most_counted + 1):
                if numbers[i, c] == 0:
                    closes[i, c] = False
                    continue
                to = min(c + 1, most_counted)
                if not closes[i, c]:
                    for j in range(i + 1, n):
                        if links[i, j] and closes[j, to]:
                            closes[i, c] = True
                            break
                if closes[i, c]:
                    used[1, i] = True
    chain = np.empty(best_length + 2, np.int64)
    steps = np.ones(best_length + 2, np.int64)
    if best_start < 0:
        return COMPLETE, 0, n_work, -1.0, no_rows, no_rows, used
    _write_best(candidates, links, best_start, best_end, best_length, chain)
    chain[0] = first
    steps[0] = 0
    chain[best_length + 1] = last
    steps[best_length + 1] = 2
    return COMPLETE, n_matches, n_work, best_confidence, chain, steps, used


@kernel
def _write_best(candidates, links, start, end, length, chain):
    """Write a chain of `length` events from `start` to `end` to chain[1 : length + 1]."""
    n = end + 1
    reached = np.zeros((length + 1, n), np.bool_)
    reached[1, start] = True
    for c in range(2, length + 1):
        for j in range(start, n):
            for i in range(start, j):
                if links[i, j] and reached[c - 1, i]:
                    reached[c, j] = True
                    break
    j = end
    for c in range(length, 0, -1):
        chain[c] = candidates[j]
        if c > 1:
            for i in range(start, j):
                if links[i, j] and reached[c - 1, i]:
                    j = i
                    break


__all__ = ["MOST", "NOT_THIS_FORM", "count_chains"]
