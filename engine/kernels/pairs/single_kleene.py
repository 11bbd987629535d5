"""Pairs of a first and a last event of queries of the form S+ K S+, counted in closed form
(`plan.sequence.single_kleene`).

Once all single events are chosen, let c[0], ..., c[n - 1] be the candidates of the Kleene component, apart from each
other in time. A selection of them is in order whatever lies in its middle; its confidence depends on its first and its
last event alone, on the first where that overlaps the single event before (c[f], f < p), on the last where it overlaps
the single event after (c[g], g >= q). So there are (p + 1) * (n - q + 1) confidences, and behind each of them as many
selections as the others between can be chosen freely.

What does not lie apart, orders within one clock that are no matter of time, and offsets of clocks are left to
`kernels.pairs.counting` (status OTHER_FORM).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.automaton.search import allowance_at, settle
from engine.kernels.columns.partitions import BROADCAST
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.confidence.ordering import both_precise, may_precede, one_clock, separated, ties_ordered
from engine.kernels.confidence.sequences import chain_confidence
from engine.kernels.pairs.independent import CAN_BEGIN, CAN_TAKE, MOST, IndependentTables, judge_members
from engine.kernels.pairs.pairs import first_from
from engine.kernels.pairs.possible import COUNTED, NO_MATCH, OTHER_FORM
from engine.kernels.pairs.search import TOLERANCE
from engine.kernels.programs.opcodes import MAX_STACK, TRUE
from engine.kernels.programs.predicates import evaluate

_PER_PAIR = 6
_PER_CONFIDENCE = 10
_ROWS_PER_STEP = 16
"""Steps of the work budget in the time of a pair and of a confidence; events that are looked at in that of one."""
_STEPS_PER_CANDIDATE = 64
"""Choices of single events and candidates looked at for one pair, for each of its candidates, before it is left to
`kernels.pairs.counting`, whose work is polynomial."""


class SingleKleeneTables(NamedTuple):
    """each: what Kleene events must fulfil. on: int32, the programs on single events of component k are
    on[on_starts[k] : on_starts[k + 1]]. least: the least number of Kleene events."""

    each: IndependentTables
    on: npt.NDArray[np.int32]
    on_starts: npt.NDArray[np.int64]
    least: int


class Choice(NamedTuple):
    """Scratch: what is chosen and found for one pair, by component (n_steps,) or by candidate (capacity,).

    rows: int64, candidates of all inner components one after the other, those of component k from starts[k] to
    starts[k + 1] (int64 (n_steps + 1,)); allowed, used: bool, whether each may be, and is, in a match. chosen, at:
    int64 (n_steps,), the single events and their positions. closure: int64 (capacity,), the Kleene events of one
    choice; marks: int64 (room + 1,). chain: int64 (room + n_steps,); best: int64 alike, the best match, best_steps its
    components. roles, masks: int64 (capacity,).
    """

    rows: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    allowed: npt.NDArray[np.bool_]
    used: npt.NDArray[np.bool_]
    chosen: npt.NDArray[np.int64]
    at: npt.NDArray[np.int64]
    closure: npt.NDArray[np.int64]
    marks: npt.NDArray[np.int64]
    chain: npt.NDArray[np.int64]
    best: npt.NDArray[np.int64]
    best_steps: npt.NDArray[np.int64]
    roles: npt.NDArray[np.int64]
    masks: npt.NDArray[np.int64]


class Best(NamedTuple):
    """confidence: float64 (1,), of the best match so far. length: int64 (1,), of its chain."""

    confidence: npt.NDArray[np.float64]
    length: npt.NDArray[np.int64]


@kernel
def count_single_kleene(
    tables, events, begin_ok, take_ok, inner, inner_starts, pairs, longest_ms, threshold, most, with_candidates,
    positions, terms, account, times,
):  # fmt: skip
    """Count the matches of the pairs, int64 (n, 3): first, last, partition, that have confidence > 0 and >= threshold.
    Those of one last event stand together.

    tables: `SingleKleeneTables`. inner: int64, rows that may be of each component between the ends, grouped by
    partition; inner_starts: int64 (n_steps - 2, n_groups + 1), see `postponed_context.Groups.stacked`. longest_ms: of
    any interval. most: pairs with matches that are looked for. with_candidates: find whether every combination in order
    of the events in matches is one. positions: int64 (n_rows,), positions in the stream: the pairs of a last event may
    take what `account` allows at its place (`automaton.search.allowance_at`, with `terms`), a step being `times` of its
    steps; when that is spent its other pairs are left out, and what was counted last is a lower bound.

    Returns (n_cut, status int8 (n,), counts int64 (n,), complete bool (n,), confidences float64 (n,), exact bool (n,),
    bounds int64 (n, 4), rows int64, steps int64): so many last events have pairs that were left out. Of pair k the
    longest of the most confident matches is rows[bounds[k, 0] : bounds[k, 1]], the inner events in matches are
    rows[bounds[k, 2] : bounds[k, 3]], by component, then row; steps has the component of each. Counts stop at MOST.
    """
    n_pairs = pairs.shape[0]
    n_steps = tables.each.n_steps
    work = np.zeros(1, np.int64)
    allowed = 0
    n_cut = 0
    status = np.full(n_pairs, NO_MATCH, np.int8)
    counts = np.zeros(n_pairs, np.int64)
    confidences = np.zeros(n_pairs, np.float64)
    exact = np.zeros(n_pairs, np.bool_)
    complete = np.ones(n_pairs, np.bool_)
    bounds = np.zeros((n_pairs, 4), np.int64)
    pool = np.empty(1024, np.int64)
    pool_steps = np.empty(1024, np.int64)
    n_pool = 0
    least = max(threshold - TOLERANCE, 0.0)
    choice = _capacity_for(64, n_steps)
    ways = _ways(64, tables.least)
    best = Best(np.zeros(1, np.float64), np.zeros(1, np.int64))
    registers = np.empty(2 * n_steps + 1, np.int64)
    stack = np.empty(MAX_STACK, np.float64)
    n_counted = 0
    is_cut = False
    for k in range(n_pairs):
        if n_counted == most:
            break
        first = pairs[k, 0]
        last = pairs[k, 1]
        if k == 0 or last != pairs[k - 1, 1]:
            settle(account, times * (allowed - work[0]))
            allowed = allowance_at(account, terms, positions[last]) // times
            work[0] = allowed
            is_cut = False
        if work[0] <= 0:
            n_cut += not is_cut
            is_cut = True
            continue
        work[0] -= _PER_PAIR
        if first == last or not _end_fits(tables, events, begin_ok, first, last, registers, stack):
            continue
        n = _collect(events, inner, inner_starts, pairs[k, 2], first, last, longest_ms, choice)
        while n > choice.rows.shape[0]:
            choice = _capacity_for(2 * n, n_steps)
            ways = _ways(2 * n, tables.least)
            n = _collect(events, inner, inner_starts, pairs[k, 2], first, last, longest_ms, choice)
        kleene = tables.each.kleene
        if n < 0:
            status[k] = OTHER_FORM
            continue
        if choice.starts[kleene + 1] - choice.starts[kleene] < tables.least:
            continue
        work[0] -= n // _ROWS_PER_STEP
        choice.allowed[:n] = True
        choice.used[:n] = False
        status[k], counts[k], some_left = _tally(
            tables, events, begin_ok, take_ok, choice, ways, first, last, tables.least, least, True, best, registers,
            stack, work,
        )  # fmt: skip
        complete[k] = work[0] >= 0
        if status[k] != COUNTED:
            if status[k] == NO_MATCH and work[0] < 0:
                n_cut += not is_cut
                is_cut = True
            continue
        n_counted += 1
        confidences[k] = best.confidence[0]
        length = best.length[0]
        if n_pool + length + n > pool.shape[0]:
            pool = np.concatenate((pool, np.empty(pool.shape[0] + length + n, np.int64)))
            pool_steps = np.concatenate((pool_steps, np.empty(pool.shape[0] - pool_steps.shape[0], np.int64)))
        bounds[k, 0] = n_pool
        for j in range(length):
            pool[n_pool] = choice.best[j]
            pool_steps[n_pool] = choice.best_steps[j]
            n_pool += 1
        bounds[k, 1] = n_pool
        bounds[k, 2] = n_pool
        for step in range(1, n_steps - 1):
            for j in range(choice.starts[step], choice.starts[step + 1]):
                if choice.used[j]:
                    pool[n_pool] = choice.rows[j]
                    pool_steps[n_pool] = step
                    n_pool += 1
        bounds[k, 3] = n_pool
        exact[k] = complete[k] and not some_left and counts[k] < MOST
        if complete[k] and some_left and with_candidates and counts[k] < MOST:
            choice.allowed[:n] = choice.used[:n]
            again, n_orders, _ = _tally(
                tables,
                events,
                begin_ok,
                take_ok,
                choice,
                ways,
                first,
                last,
                1,
                0.0,
                False,
                best,
                registers,
                stack,
                work,
            )
            exact[k] = again == COUNTED and n_orders == counts[k] and work[0] >= 0
    settle(account, times * (allowed - work[0]))
    return n_cut, status, counts, complete, confidences, exact, bounds, pool[:n_pool], pool_steps[:n_pool]


@kernel
def _capacity_for(capacity, n_steps):
    return Choice(
        np.empty(capacity, np.int64), np.zeros(n_steps + 1, np.int64), np.empty(capacity, np.bool_), np.empty(capacity,
        np.bool_), np.empty(n_steps, np.int64), np.empty(n_steps, np.int64), np.empty(capacity, np.int64),
        np.zeros(capacity + 1, np.int64), np.empty(capacity + n_steps, np.int64), np.empty(capacity + n_steps,
        np.int64), np.empty(capacity + n_steps, np.int64), np.empty(capacity, np.int64), np.empty(capacity, np.int64),
    )  # fmt: skip


@kernel
def _ways(most, least):
    """For m <= most and k <= max(least, 1): how many subsets of m events have at least k, int64, up to MOST."""
    ways = np.zeros((most + 1, max(least, 1) + 1), np.int64)
    ways[0, 0] = 1
    for m in range(1, most + 1):
        ways[m, 0] = min(2 * ways[m - 1, 0], MOST)
        for k in range(1, ways.shape[1]):
            ways[m, k] = min(ways[m - 1, k] + ways[m - 1, k - 1], MOST)
    return ways


@leaf
def _end_fits(tables, events, begin_ok, first, last, registers, stack):
    """Whether the first event fulfils its conditions. Binds both ends."""
    each = tables.each
    registers[:] = -1
    registers[0] = first
    registers[1] = first
    registers[2 * each.n_steps - 2] = last
    registers[2 * each.n_steps - 1] = last
    registers[2 * each.n_steps] = first
    return begin_ok[0, first] and _holds(tables, events, 0, registers, stack)


@leaf
def _holds(tables, events, step, registers, stack):
    """Whether all programs on the single event of a component hold; it is bound."""
    each = tables.each
    for k in range(tables.on_starts[step], tables.on_starts[step + 1]):
        start = each.bounds[tables.on[k]]
        end = each.bounds[tables.on[k] + 1]
        if evaluate(each.code, start, end, each.constants, events.columns, registers, stack, stack) != TRUE:
            return False
    return True


@leaf
def _collect(events, inner, inner_starts, key, first, last, longest_ms, choice):
    """Write the candidates of each component between the ends, in stream order; returns their number, -1 when the order
    of some depends on the offset of a clock. Writes no more than there is room for."""
    rows = choice.rows
    skewed = events.skew.shape[0] > 0
    if skewed and (events.skew[first] > 0 or events.skew[last] > 0):
        return -1
    n = 0
    for component in range(inner_starts.shape[0]):
        begin = n
        choice.starts[component + 1] = begin
        for shared in range(2):
            group = BROADCAST if shared else key
            end = inner_starts[component, group + 2]
            at = first_from(events, inner, inner_starts[component, group + 1], end, events.lo_ms[first] - longest_ms)
            n_own = n
            while at < end and events.lo_ms[inner[at]] <= events.hi_ms[last]:
                row = inner[at]
                at += 1
                if events.hi_ms[row] < events.lo_ms[first] or row in (first, last):
                    continue
                if skewed and events.skew[row] > 0:
                    return -1
                if n < rows.shape[0]:
                    rows[n] = row
                n += 1
            if shared and begin < n_own < n <= rows.shape[0]:
                _sort(rows, begin, n)
    choice.starts[inner_starts.shape[0] + 1] = n
    return n


@leaf
def _sort(rows, begin, end):
    """Two ascending runs of rows[begin:end] become one."""
    for k in range(begin + 1, end):
        row = rows[k]
        to = k
        while to > begin and rows[to - 1] > row:
            rows[to] = rows[to - 1]
            to -= 1
        rows[to] = row


@kernel
def _tally(
    tables, events, begin_ok, take_ok, choice, ways, first, last, least_size, least, checked, best, registers, stack,
    work,
):  # fmt: skip
    """Count the matches of one pair that are made of allowed candidates: (status, number, whether some were left out).

    least_size: Kleene events at least. least: of their confidence. checked: predicates count, too, and `choice.used`
    and `best` are written.
    """
    each = tables.each
    limits = np.empty(0, np.float64)
    final = each.n_steps - 1
    kleene = each.kleene
    starts = choice.starts
    chosen = choice.chosen
    at = choice.at
    chosen[0] = first
    chosen[final] = last
    n_matches = 0
    some_left = False
    best.confidence[0] = -1.0
    best.length[0] = 0
    budget = _STEPS_PER_CANDIDATE * (starts[final] + 4)
    status = NO_MATCH
    step = 1 if kleene != 1 else 2
    at[step] = starts[step] - 1
    while step > 0:
        if step == final:
            fits = kleene == final - 1 or may_precede(events, chosen[final - 1], last)
            if fits and checked:
                registers[2 * final + 2] = last
                fits = _holds(tables, events, final, registers, stack)
                some_left = some_left or not fits
            if fits:
                n, judged_out = _closure(tables, events, begin_ok, take_ok, choice, checked, registers, stack, limits)
                if n < 0:
                    return OTHER_FORM, 0, True
                budget -= n + 1
                work[0] -= 1 + n // _ROWS_PER_STEP
                found, left = _of_choice(
                    events, choice, n, kleene, ways, least_size, least, each.within_ms, checked, best, work
                )
                some_left = some_left or left or judged_out
                if found > 0:
                    status = COUNTED
                    n_matches = min(n_matches + found, MOST)
            step -= 1 if kleene != final - 1 else 2
            continue
        at[step] += 1
        budget -= 1
        if budget < 0:
            return OTHER_FORM, 0, True
        if at[step] >= starts[step + 1]:
            step -= 1 if step - 1 != kleene else 2
            continue
        row = choice.rows[at[step]]
        if not choice.allowed[at[step]]:
            continue
        if step - 1 != kleene and not may_precede(events, chosen[step - 1], row):
            continue
        if _is_among(chosen, step, kleene, row):
            continue
        chosen[step] = row
        if checked:
            registers[2 * step] = row
            registers[2 * step + 1] = row
            registers[2 * final + 2] = row
            if not _holds(tables, events, step, registers, stack):
                some_left = True
                continue
        step += 1 if step + 1 != kleene else 2
        if step < final:
            at[step] = starts[step] - 1
    return status, n_matches, some_left


@leaf
def _is_among(chosen, n, kleene, row):
    """Whether the row is one of the single events chosen for the components before n."""
    found = False
    for k in range(n):
        found = found or (k != kleene and chosen[k] == row)
    return found


@leaf
def _closure(tables, events, begin_ok, take_ok, choice, checked, registers, stack, limits):
    """Write to choice.closure the Kleene events that may stand between the chosen single ones, in order of time;
    returns their number, or -1 when they are not apart or not alike, and whether predicates left out some."""
    each = tables.each
    kleene = each.kleene
    before = choice.chosen[kleene - 1]
    after = choice.chosen[kleene + 1]
    begin = choice.starts[kleene]
    end = choice.starts[kleene + 1]
    found = choice.closure
    n = 0
    for k in range(begin, end):
        row = choice.rows[k]
        if not choice.allowed[k] or not may_precede(events, before, row) or not may_precede(events, row, after):
            continue
        if _is_among(choice.chosen, each.n_steps, kleene, row):
            continue
        if _overlaps_on_clock(events, before, row) or _overlaps_on_clock(events, row, after):
            return -1, True
        found[n] = k
        n += 1
    n_all = n
    if checked:
        registers[2 * kleene] = -1
        registers[2 * kleene + 1] = -1
        n = 0
        for k in range(n_all):
            at = found[k]
            judge_members(
                each, events.columns, begin_ok, take_ok, choice.rows, at, at + 1, registers, stack, limits,
                choice.roles, choice.masks,
            )  # fmt: skip
            if choice.roles[at] == 0:
                continue
            if choice.roles[at] != CAN_BEGIN | CAN_TAKE:
                return -1, True
            found[n] = at
            n += 1
    for k in range(1, n):
        i = choice.rows[found[k - 1]]
        j = choice.rows[found[k]]
        if events.hi_ms[i] >= events.lo_ms[j] and not ties_ordered(events, i, j):
            return -1, True
    return n, n < n_all


@leaf
def _overlaps_on_clock(events, i, j):
    """Whether two events of one clock share a time: then their order is no matter of time."""
    if not one_clock(events, i, j) or both_precise(events, i, j):
        return False
    return events.lo_ms[i] <= events.hi_ms[j] and events.lo_ms[j] <= events.hi_ms[i]


@kernel
def _of_choice(events, choice, n, kleene, ways, least_size, least, within_ms, checked, best, work):
    """The selections of the first n of choice.closure that are in matches: (their number, whether some are left out).

    See the module's text for p and q. `least_size`, `least` and `checked` as for `_tally`.
    """
    before = choice.chosen[kleene - 1]
    after = choice.chosen[kleene + 1]
    p = 0
    while p < n and not separated(events, before, choice.rows[choice.closure[p]]):
        p += 1
    q = n
    while q > 0 and not separated(events, choice.rows[choice.closure[q - 1]], after):
        q -= 1
    choice.marks[: n + 1] = 0
    n_matches = 0
    some_left = least_size > 1
    for f in range(p + 1):  # p stands for all first events that overlap nothing
        for g in range(q - 1, n):  # q - 1 for all such last ones
            start = f
            end = g + 1
            fixed = 2 if f < g else 1
            if f == p or g == q - 1:
                fixed = 0 if f == p and g == q - 1 else 1
            if end <= start:
                continue
            found = ways[end - start - fixed, max(least_size - fixed, 1 if fixed == 0 else 0)]
            if found == 0:
                continue
            work[0] -= _PER_CONFIDENCE
            if work[0] < 0:
                some_left = True
                break
            confidence = _confidence(events, choice, kleene, start, end - 1, within_ms)
            if confidence <= 0.0:
                continue
            if confidence < least:
                some_left = True
                continue
            n_matches = min(n_matches + found, MOST)
            choice.marks[start] += 1
            choice.marks[end] -= 1
            if checked:
                _keep_best(choice, kleene, start, end, confidence, best)
    if n_matches > 0 and checked:
        _mark(choice, n, kleene)
    return n_matches, some_left


@kernel
def _confidence(events, choice, kleene, first_at, last_at, within_ms):
    """Of the chosen single events with the Kleene events at two positions between them, or one where they are equal."""
    n_steps = choice.chosen.shape[0]
    chain = choice.chain
    n = 0
    for step in range(n_steps):
        if step != kleene:
            chain[n] = choice.chosen[step]
            n += 1
            continue
        chain[n] = choice.rows[choice.closure[first_at]]
        n += 1
        if last_at != first_at:
            chain[n] = choice.rows[choice.closure[last_at]]
            n += 1
    return chain_confidence(events, chain, n, within_ms)


@leaf
def _keep_best(choice, kleene, start, end, confidence, best):
    """Take over the longest selection of closure[start:end] when it is more confident, or as confident and longer."""
    n_steps = choice.chosen.shape[0]
    length = n_steps - 1 + end - start
    known = best.confidence[0]
    if confidence <= known - TOLERANCE or (confidence <= known + TOLERANCE and length <= best.length[0]):
        return
    best.confidence[0] = confidence
    best.length[0] = length
    n = 0
    for step in range(n_steps):
        if step != kleene:
            choice.best[n] = choice.chosen[step]
            choice.best_steps[n] = step
            n += 1
            continue
        for k in range(start, end):
            choice.best[n] = choice.rows[choice.closure[k]]
            choice.best_steps[n] = step
            n += 1


@leaf
def _mark(choice, n, kleene):
    """Note that the chosen single events, and the Kleene events within `marks`, are in a match."""
    for step in range(1, choice.chosen.shape[0] - 1):
        if step != kleene:
            choice.used[choice.at[step]] = True
    depth = 0
    for k in range(n):
        depth += choice.marks[k]
        if depth > 0:
            choice.used[choice.closure[k]] = True


__all__ = ["SingleKleeneTables", "count_single_kleene"]
