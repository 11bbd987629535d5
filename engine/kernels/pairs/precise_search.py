"""Depth first construction of matches over precise events, for many pairs of a first and a last event at once.

All last events of a first one share the prefixes (SASE++ 5.1, "result construction"). The events around are put in
order once for all first events that reach as far; from which of them a last event can still be reached is known before
the search, and no other one is looked at. Matches are written as paths of a trie.

Work is counted in steps, as if each deciding event were searched by itself: a prefix that several last events share
is laid to each of them that can be reached from it. So what an event costs is a function of the stream, whichever
events it is decided with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.kernels.automaton.search import allowance_at, settle
from engine.kernels.compile.types import BoolArray, Float64Array, Int64Array
from engine.kernels.compile.ways import inlined, kernel, leaf
from engine.kernels.pairs.labels import copy_from, copy_to
from engine.kernels.pairs.pairs import first_from
from engine.kernels.pairs.paths import add_match, filled, has_capacity, new_paths, wider_paths
from engine.kernels.pairs.precise_around import (
    BLOCK,
    around,
    choices_of,
    first_after,
    first_behind,
    latest_of,
    negated_around,
    positions_around,
    reach_of,
    rows_by_rank,
)
from engine.kernels.pairs.state import BEGIN, PROCEED, begins, completes, free_edges, leaves, loops_hold, takes
from engine.kernels.pairs.status import COMPLETE, OUT_OF_BUDGET, OUT_OF_CAPACITY
from engine.kernels.programs.opcodes import MAX_STACK
from engine.kernels.programs.predicates import all_hold

WORK_PER_PAIR = 4
"""Steps that a pair takes before its search."""
WORK_PER_PREFIX = 12
"""Steps to bind an event."""
WORK_PER_MATCH = 12
WORK_PER_NEGATED = 6
"""Steps to find the negated events of a gap, and to look at one of them."""

_ON = 0
_TAKE = 1
"""What a depth looks for: an event of the next component, then another one of its own. So matches of a pair come
component by component, shorter ones first."""

WORK_PER_CONDITION = 12
"""More steps where that asks for something."""
_ROWS_PER_STEP = 4
"""Events that are put in order in the time of a step."""
_NEEDS_CAPACITY, _NEEDS_AROUND, _NEEDS_CHOICES = 97, 98, 99
"""What a search asks for before it goes on."""
_DEPTH, _SPENT, _LONGEST, _N_NODES, _N_MATCHES = 0, 1, 2, 3, 4
_BEGIN, _END, _PHASE, _BEFORE, _N_BEFORE, _SINGLE, _FIRST_AFTER = 5, 6, 7, 8, 9, 10, 11
_UNIT, _UNIT_FROM, _UNIT_KEY, _IS_CUT, _MOST = 12, 13, 14, 15, 16
_AROUND_KEY, _AROUND_LAST, _HAS_CHOICES = 17, 18, 19
_N_STATE = 20
"""Where a search stands: in the depth, among the pairs, which deciding event pays, what is around."""
_NEXT, _PREPARED, _BEGUN = 0, 1, 2
"""Phases of the search for one first event."""


class Given(NamedTuple):
    """What holds for all searches of a call, see `list_precise`. free: bool (2 * n_steps,), see `state.free_edges`."""

    alone: bool
    by_first: bool
    longest_only: bool
    ends_ms: Int64Array
    apart: bool
    terms: Int64Array
    per_match: int
    per_event: int
    capacity: int
    free: BoolArray


class Near(NamedTuple):
    """What is around the pairs at hand, see `precise_around`.

    - n_lasts: last events; rows int64 (n,) in order of time, with after, ordinal, onward int64 (n + 1,) or (n,), and
      reach int64 (n_steps, n).
    - choices int64, edges int64 (2 * n_steps + 1,): the positions of the rows that each edge may bind; latest: that of
      each block of choices; in_order: whether they ascend.
    - gaps int64, gap_starts int64 (n_negations + 1,): rows of negated types.
    """

    n_lasts: int
    rows: Int64Array
    after: Int64Array
    ordinal: Int64Array
    reach: Int64Array
    onward: Int64Array
    choices: Int64Array
    edges: Int64Array
    latest: Int64Array
    in_order: bool
    gaps: Int64Array
    gap_starts: Int64Array


class Prefixes(NamedTuple):
    """What is known of each prefix of the chain of events that a search has come to: index d is that of d + 1 events.

    - registers int64 (n, n_registers), aggregates float64 (n, n_slots): as they are behind it.
    - chain, steps int64 (n,): the last event and its component; point: its position among the rows around, -1 for the
      first event; node: its node among the paths, -1 while it has none.
    - wanted_next, following int64 (n,): what comes next, `_ON` or `_TAKE`, and from which choice on.
    - row int64 (n_registers,), slots float64 (n_slots,), stack float64: scratch, the prefix that is tried.
    """

    registers: Int64Array
    aggregates: Float64Array
    chain: Int64Array
    steps: Int64Array
    point: Int64Array
    wanted_next: Int64Array
    following: Int64Array
    node: Int64Array
    row: Int64Array
    slots: Float64Array
    stack: Float64Array


class Spent(NamedTuple):
    """Steps. own, shared: int64 (> n_lasts,), of each last event around alone, and of it and all later ones together.
    of_pair: int64 (n,). cut: bool (n,), whether the search for the deciding event of a pair ended early."""

    own: Int64Array
    shared: Int64Array
    of_pair: Int64Array
    cut: BoolArray


@kernel
def list_precise(
    tables, events, begin_ok, take_ok, members, starts, denied, denied_starts, pairs, positions, ranks, alone, by_first,
    longest_only, ends_ms, apart, terms, account, budget, per_match, per_event, capacity,
):  # fmt: skip
    """The matches of the pairs, int64 (n, 3): first, last, partition.

    The pairs of one first event and partition stand together, by last event; of those that are searched `alone` the
    pairs of one partition and last event, by first event. begin_ok, take_ok: bool (n_steps, n_rows), local predicates
    and types. members, starts: rows that may stand between, grouped by partition, each group in stream order. denied,
    denied_starts: int64 (n_negations, n_groups), the same for each negation. ranks: int64 (n_rows,), matches of a pair
    come in the order of their events' ranks, component by component. positions: int64 (n_rows,), positions in the
    stream.

    by_first: an event decides the pairs that begin, else those that end with it. apart: the search for each deciding
    event has what `account` allows at its position (`automaton.search.allowance_at`, with `terms`); pairs of one stand
    together. Else `budget` bounds what is done, and `account` is left alone.
    longest_only: of each last event and partition the first pair that has matches, its first event after ends_ms,
    int64 by partition, where the end is noted; the longest match of that pair, at a tie the first.
    per_match, per_event: what a match costs beside its search. capacity: matches at most.

    Returns (status, the matches as `paths.Paths`, work int64 (n,), cut bool (n,)). work: by pair, so that the sum over
    those of one event is what it costs. cut: apart, the search for the deciding event ended early. status: COMPLETE,
    OUT_OF_CAPACITY (of matches, at once), OUT_OF_BUDGET (at once).
    """
    given = Given(
        alone, by_first, longest_only, ends_ms, apart, terms, per_match, per_event, capacity, free_edges(tables)
    )
    n_negations = tables.negations.shape[0]
    state = np.zeros(_N_STATE, np.int64)
    state[_UNIT], state[_UNIT_KEY] = -1, -2
    state[_AROUND_KEY], state[_AROUND_LAST] = -2, -1
    state[_MOST] = budget
    near = _nothing_near(tables)
    by_rank = np.empty(0, np.int64)
    position_of = np.empty(0, np.int64)
    prefixes = _new_prefixes(tables, 0)
    spent = Spent(
        np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(pairs.shape[0], np.int64),
        np.zeros(pairs.shape[0], np.bool_),
    )  # fmt: skip
    paths = new_paths()
    while True:
        status = _search_each(
            tables, events, begin_ok, pairs, positions, account, given, near, prefixes, spent, paths, state
        )
        begin, end = state[_BEGIN], state[_END]
        if status == _NEEDS_AROUND:
            rows = around(events, members, starts, pairs, begin, end)
            state[_SPENT] += rows.shape[0] // _ROWS_PER_STEP if alone and by_first else 0  # for this pair alone
            after, ordinal, n_lasts = positions_around(events, rows, pairs, begin, end)
            reach, onward = reach_of(tables.kleene, begin_ok, rows, after, ordinal, n_lasts)
            near = Near(
                n_lasts, rows, after, ordinal, reach, onward, near.choices, near.edges, near.latest, near.in_order,
                near.gaps, near.gap_starts,
            )  # fmt: skip
            if n_lasts >= spent.shared.shape[0]:
                spent = Spent(
                    np.zeros(2 * n_lasts + 1, np.int64), np.zeros(2 * n_lasts + 1, np.int64), spent.of_pair, spent.cut
                )
        elif status == _NEEDS_CHOICES:
            if position_of.shape[0] == 0:
                position_of = np.full(ranks.shape[0], -1, np.int64)
                by_rank = rows_by_rank(members, pairs, ranks)
            choices, edges, in_order = choices_of(
                tables.kleene, begin_ok, take_ok, near.rows, near.ordinal, near.reach, near.n_lasts, ranks, by_rank,
                position_of,
            )  # fmt: skip
            gaps, gap_starts = near.gaps, near.gap_starts
            if n_negations > 0:
                gaps, gap_starts = negated_around(
                    events, denied, denied_starts, pairs[begin, 2], pairs[begin, 0], pairs[end - 1, 1], tables.within_ms
                )
            near = Near(
                near.n_lasts, near.rows, near.after, near.ordinal, near.reach, near.onward, choices, edges,
                latest_of(choices), in_order, gaps, gap_starts,
            )  # fmt: skip
            if near.rows.shape[0] + 2 > prefixes.chain.shape[0]:
                prefixes = _new_prefixes(tables, near.rows.shape[0] + 2)
        elif status == _NEEDS_CAPACITY:
            paths = wider_paths(paths, state[_N_NODES], state[_N_MATCHES], prefixes.chain.shape[0])
        else:
            break
    if apart and state[_UNIT] >= 0:
        settle(account, state[_SPENT])
        spent.cut[state[_UNIT_FROM] : state[_END]] = state[_IS_CUT] != 0
    return status, filled(paths, state[_N_NODES], state[_N_MATCHES]), spent.of_pair, spent.cut


@kernel
def _nothing_near(tables):
    """Nothing is around: the first pair finds it."""
    n_steps = tables.kleene.shape[0]
    return Near(
        0, np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), np.empty((n_steps, 0), np.int64),
        np.empty(0, np.int64), np.empty(0, np.int64), np.zeros(2 * n_steps + 1, np.int64), np.empty(0, np.int64), True,
        np.empty(0, np.int64), np.zeros(tables.negations.shape[0] + 1, np.int64),
    )  # fmt: skip


@kernel
def _new_prefixes(tables, n):
    n_registers, n_slots = 2 * tables.kleene.shape[0] + 1, tables.kinds.shape[0]
    return Prefixes(
        np.empty((n, n_registers), np.int64), np.empty((n, n_slots), np.float64), np.empty(n, np.int64),
        np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64),
        np.empty(n, np.int64), np.empty(n_registers, np.int64), np.empty(n_slots, np.float64),
        np.empty(MAX_STACK, np.float64),
    )  # fmt: skip


@leaf
def _search_each(tables, events, begin_ok, pairs, positions, account, given, near, prefixes, spent, paths, state):
    """Go on with the search for one first event after the other, where `state` says.

    Returns COMPLETE, OUT_OF_CAPACITY or OUT_OF_BUDGET, which end it, or what is asked for: to be called again with what
    is around the pairs `_BEGIN`.. `_END`, the choices among it, longer arrays.
    """
    alone, by_first, longest_only, apart = given.alone, given.by_first, given.longest_only, given.apart
    ends_ms, terms = given.ends_ms, given.terms
    n_lasts, rows, onward = near.n_lasts, near.rows, near.onward
    row, slots, stack = prefixes.row, prefixes.slots, prefixes.stack
    work, cut = spent.of_pair, spent.cut
    n_steps = tables.kleene.shape[0]
    final = n_steps - 1
    n_pairs = pairs.shape[0]
    of = 0 if by_first else 1
    while True:
        if state[_PHASE] == _NEXT:
            begin = state[_END]
            if begin == n_pairs:
                return COMPLETE
            first, key = pairs[begin, 0], pairs[begin, 2]
            end = begin + 1
            while not alone and end < n_pairs and pairs[end, 0] == first and pairs[end, 2] == key:
                end += 1
            last = pairs[end - 1, 1]
            state[_BEGIN], state[_END] = begin, end
            if apart and pairs[begin, of] != state[_UNIT]:
                if state[_UNIT] >= 0:
                    settle(account, state[_SPENT])
                    cut[state[_UNIT_FROM] : begin] = state[_IS_CUT] != 0
                state[_UNIT], state[_UNIT_FROM], state[_UNIT_KEY], state[_IS_CUT] = pairs[begin, of], begin, -2, 0
                state[_MOST] = allowance_at(account, terms, positions[pairs[begin, of]])
                state[_SPENT] = 0
            if state[_IS_CUT] != 0:
                continue
            if longest_only and (state[_UNIT_KEY] == key or events.lo_ms[first] <= ends_ms[key]):
                state[_SPENT] += 1
                continue
            if apart and state[_MOST] == 0:
                state[_IS_CUT] = 1  # and nothing is spent: its pairs may not even be made
                continue
            state[_BEFORE] = state[_SPENT]
            state[_SPENT] += WORK_PER_PAIR * (end - begin)
            if state[_SPENT] > state[_MOST]:
                if not apart:
                    return OUT_OF_BUDGET
                state[_IS_CUT] = 1
                continue
            state[_PHASE] = _PREPARED
            if key != state[_AROUND_KEY] or last != state[_AROUND_LAST]:
                state[_AROUND_KEY], state[_AROUND_LAST], state[_HAS_CHOICES] = key, last, 0
                return _NEEDS_AROUND
        begin, end = state[_BEGIN], state[_END]
        first, key, last = pairs[begin, 0], pairs[begin, 2], pairs[end - 1, 1]
        # The last events of this first one are the latest of those around.
        base = n_lasts - (end - begin)
        if state[_PHASE] == _PREPARED:
            begin_at = first_after(events, rows, first)
            single = begin if pairs[begin, 1] == first else -1  # the first event is the last one as well
            depth = -1
            may_begin = (single >= 0 or onward[begin_at] < n_lasts) and begin_ok[0, first]
            if may_begin and state[_HAS_CHOICES] == 0:
                state[_HAS_CHOICES] = 1
                return _NEEDS_CHOICES
            if by_first and not alone:
                state[_SPENT] += (rows.shape[0] - begin_at) // _ROWS_PER_STEP
            if may_begin:
                row[:] = -1
                if alone and tables.known_last:
                    row[2 * final] = last
                    row[2 * final + 1] = last
                slots[:] = np.nan
                prefixes.chain[0] = first
                prefixes.steps[0] = 0
                if begins(tables, events, 0, first, row, slots, stack) and loops_hold(
                    tables, events, 0, BEGIN, prefixes.chain, prefixes.steps, 0, row, slots, stack
                ):
                    depth = 0
                    prefixes.point[0] = -1
                    prefixes.wanted_next[0] = _ON
                    prefixes.following[0] = -1
                    prefixes.node[0] = -1
                    copy_to(prefixes.registers, 0, row)
                    copy_to(prefixes.aggregates, 0, slots)
            state[_SINGLE], state[_FIRST_AFTER], state[_N_BEFORE] = single, begin_at, state[_N_MATCHES]
            state[_DEPTH], state[_LONGEST] = depth, 0
            state[_PHASE] = _BEGUN
        status = COMPLETE
        if state[_DEPTH] >= 0:
            status = _search(tables, events, given, near, prefixes, spent, paths, first, end, base, state)
            if status == _NEEDS_CAPACITY:
                return status
        state[_PHASE] = _NEXT
        if longest_only and state[_N_MATCHES] > state[_N_BEFORE]:
            ends_ms[key] = events.lo_ms[last]
            state[_UNIT_KEY] = key
        if by_first or alone:
            work[begin] = state[_SPENT] - state[_BEFORE]
        total = np.int64(WORK_PER_PAIR)
        for k in range(base, n_lasts):
            total += spent.shared[k]
            if not by_first and not alone:
                work[begin + k - base] = total + spent.own[k]
            spent.shared[k] = 0
            spent.own[k] = 0
        if status == OUT_OF_CAPACITY:
            return status
        if state[_SPENT] > state[_MOST]:
            if not apart:
                return OUT_OF_BUDGET
            state[_IS_CUT] = 1


@inlined
def _search(tables, events, given, near, prefixes, spent, paths, first, stop_pair, base, state):
    """Go on with the search for one first event, or several last ones of it, where `state` says.

    stop_pair: the pair after those that are searched, of the last of the last events around; `base` is the first that
    counts. state: the pair of an event that is first and last is `_SINGLE`, -1 for none. Returns COMPLETE,
    OUT_OF_CAPACITY (there are more than `capacity` matches) or _NEEDS_CAPACITY: to be called again with longer arrays.
    """
    free, longest_only, capacity = given.free, given.longest_only, given.capacity
    per_match, per_event = given.per_match, given.per_event
    n_lasts, rows, after, ordinal, reach = near.n_lasts, near.rows, near.after, near.ordinal, near.reach
    choices, edges, latest, in_order = near.choices, near.edges, near.latest, near.in_order
    gaps, gap_starts = near.gaps, near.gap_starts
    registers, aggregates, chain, steps = prefixes.registers, prefixes.aggregates, prefixes.chain, prefixes.steps
    point, wanted_next, following, node = prefixes.point, prefixes.wanted_next, prefixes.following, prefixes.node
    bound, slots, stack = prefixes.row, prefixes.slots, prefixes.stack
    own_work, shared_work = spent.own, spent.shared
    n_steps = tables.kleene.shape[0]
    n_registers = 2 * n_steps + 1
    n_negations = tables.negations.shape[0]
    final = n_steps - 1
    has_loops = tables.loops.shape[0] > 0
    status = COMPLETE
    depth, spent, longest = state[_DEPTH], state[_SPENT], state[_LONGEST]
    n_nodes, n_matches = state[_N_NODES], state[_N_MATCHES]
    most, n_before, single, after_first = state[_MOST], state[_N_BEFORE], state[_SINGLE], state[_FIRST_AFTER]
    while depth >= 0:
        if not has_capacity(paths, n_nodes, n_matches, depth + 2):
            status = _NEEDS_CAPACITY
            break
        step = steps[depth]
        at = following[depth]
        target = step + 1 if wanted_next[depth] == _ON else step
        edge = 2 * target + wanted_next[depth]
        if at < 0:
            goes_on = True
            if wanted_next[depth] == _ON:
                goes_on = step < final or (depth == 0 and single >= 0)
                if goes_on:
                    copy_from(registers, depth, bound)
                    copy_from(aggregates, depth, slots)
                    goes_on = leaves(tables, events, step, bound, slots, stack) and loops_hold(
                        tables, events, step, PROCEED, chain, steps, depth + 1, bound, slots, stack
                    )
                if goes_on and step == final:
                    goes_on = False
                    cost = np.int64(WORK_PER_MATCH)
                    if completes(tables, events, bound, slots, stack):
                        found = True
                        for k in range(n_negations):
                            if found:
                                found, n_visits = _is_absent(
                                    tables, events, gaps, gap_starts, k, first, first, bound, slots,
                                    stack,
                                )  # fmt: skip
                                cost += WORK_PER_NEGATED * (1 + n_visits)
                        if found:
                            if n_matches == capacity:
                                status = OUT_OF_CAPACITY
                                break
                            n_nodes = add_match(paths, chain, steps, node, 0, single, n_nodes, n_matches)
                            n_matches += 1
                            longest = 1
                            cost += per_match + per_event
                    spent += cost
                    own_work[n_lasts - (stop_pair - single)] += cost
            at = edges[min(edge, 2 * n_steps)]
            if not goes_on or target > final:
                at = edges[2 * n_steps]
            elif in_order:
                at = _first_choice(choices, at, edges[edge + 1], after_first if depth == 0 else after[point[depth]])
        stop = edges[edge + 1] if target <= final else edges[2 * n_steps]
        late = after_first if depth == 0 else after[point[depth]]
        while at < stop and choices[at] < late:
            if at % BLOCK == 0 and latest[at // BLOCK] < late:
                at += BLOCK
            else:
                at += 1
        if at >= stop:
            if wanted_next[depth] == _ON and tables.kleene[step]:
                wanted_next[depth] = _TAKE
                following[depth] = -1
                continue
            depth -= 1
            continue
        following[depth] = at + 1
        if spent > most:
            break
        here = choices[at]
        row = rows[here]
        chain[depth + 1] = row
        steps[depth + 1] = target
        copy_from(registers, depth, bound)
        copy_from(aggregates, depth, slots)
        cost = np.int64(WORK_PER_PREFIX + (0 if free[edge] else WORK_PER_CONDITION) + (depth if has_loops else 0))
        holds = True
        if free[edge]:
            bound[n_registers - 1] = row
            bound[2 * target + 1] = row
            if wanted_next[depth] == _ON:
                bound[2 * target] = row
        elif wanted_next[depth] == _TAKE:
            holds = takes(tables, events, step, row, bound, slots, stack)
        else:
            holds = begins(tables, events, target, row, bound, slots, stack) and loops_hold(
                tables, events, target, BEGIN, chain, steps, depth + 1, bound, slots, stack
            )
        if wanted_next[depth] == _ON:
            for k in range(n_negations):
                # What precedes the match is known when its last event is.
                if holds and tables.negations[k, 1] == target and tables.negations[k, 0] >= 0:
                    holds, n_visits = _is_absent(tables, events, gaps, gap_starts, k, first, row, bound, slots, stack)
                    cost += WORK_PER_NEGATED * (1 + n_visits)
        ends = target == final and ordinal[here] >= base
        continues = reach[target, here] < n_lasts and (target < final or tables.kleene[final])
        spent += cost
        if ends:
            own_work[ordinal[here]] += cost
        if continues:
            shared_work[reach[target, here]] += cost
        if not holds:
            continue
        if (
            ends
            and leaves(tables, events, final, bound, slots, stack)
            and loops_hold(tables, events, final, PROCEED, chain, steps, depth + 2, bound, slots, stack)
            and completes(tables, events, bound, slots, stack)
        ):
            found = True
            cost = np.int64(0)
            for k in range(n_negations):
                if found and (tables.negations[k, 1] == n_steps or tables.negations[k, 0] < 0):
                    found, n_visits = _is_absent(tables, events, gaps, gap_starts, k, first, row, bound, slots, stack)
                    cost += WORK_PER_NEGATED * (1 + n_visits)
            if found:
                replaces = longest_only and n_matches > n_before
                cost += WORK_PER_MATCH
                if not replaces or depth + 2 > longest:
                    cost += per_match + per_event * (depth + 2)
                    longest = depth + 2
                    if n_matches == capacity and not replaces:
                        status = OUT_OF_CAPACITY
                        break
                    n_matches = n_matches - 1 if replaces else n_matches
                    pair = stop_pair - (n_lasts - ordinal[here])
                    n_nodes = add_match(paths, chain, steps, node, depth, pair, n_nodes, n_matches)
                    n_matches += 1
            spent += cost
            own_work[ordinal[here]] += cost
        if not continues:
            continue
        depth += 1
        copy_to(registers, depth, bound)
        copy_to(aggregates, depth, slots)
        point[depth] = here
        wanted_next[depth] = _ON
        following[depth] = -1
        node[depth] = -1
    state[_DEPTH], state[_SPENT], state[_LONGEST] = depth, spent, longest
    state[_N_NODES], state[_N_MATCHES] = n_nodes, n_matches
    return status


@kernel
def pair_work(pairs, of, positions, work, terms, account):
    """Pay for what pairs, int64 (n, 3), cost by the events that decide them (column `of`; those of one stand together),
    up to the first that costs more than it is allowed; the position of its first pair, n when all are paid.

    work: int64 (n,). positions: int64 (n_rows,), positions in the stream. terms, account: int64 (3,) and (2,), see
    `automaton.search.allowance_at`.
    """
    n = pairs.shape[0]
    p = 0
    while p < n:
        begin = p
        cost = np.int64(0)
        while p < n and pairs[p, of] == pairs[begin, of]:
            cost += work[p]
            p += 1
        balance, paid = account[0], account[1]
        if cost > allowance_at(account, terms, positions[pairs[begin, of]]):
            account[0], account[1] = balance, paid
            return begin
        settle(account, cost)
    return n


@leaf
def _first_choice(choices, begin, end, late):
    """The first of ascending choices that is not before `late`."""
    while begin < end:
        middle = (begin + end) // 2
        if choices[middle] < late:
            begin = middle + 1
        else:
            end = middle
    return begin


@leaf
def _is_absent(tables, events, gaps, gap_starts, k, first, last, registers, aggregates, stack):
    """Whether no event stands where negation k forbids one, and how many were looked at.

    first, last: the ends of the match, `last` as far as it is known.
    """
    n_steps = tables.kleene.shape[0]
    after = tables.negations[k, 0]
    begin, end = gap_starts[k], gap_starts[k + 1]
    if after >= 0:
        begin = first_behind(events, gaps, begin, end, registers[2 * after + 1], events.strict)
    else:
        begin = first_from(events, gaps, begin, end, events.lo_ms[last] - tables.within_ms)
    if after + 1 < n_steps:
        end = first_behind(events, gaps, begin, end, registers[2 * after + 2] if after >= 0 else first, False)
        # Those behind are not before; nor, where ties are strict, are those of the same time.
        right = registers[2 * after + 2] if after >= 0 else first
        while end > begin and not (
            events.lo_ms[gaps[end - 1]] < events.lo_ms[right] or (not events.strict and gaps[end - 1] < right)
        ):
            end -= 1
    else:
        end = first_from(events, gaps, begin, end, events.lo_ms[first] + tables.within_ms + 1)
    if tables.negations[k, 2] == tables.negations[k, 3]:
        return begin >= end, 0
    current = registers.shape[0] - 1
    was_current = registers[current]
    n_visits = 0
    is_absent = True
    while begin < end and is_absent:
        registers[current] = gaps[begin]
        is_absent = not all_hold(
            tables.code, tables.bounds, tables.negations[k, 2], tables.negations[k, 3], tables.constants,
            events.columns, registers, aggregates, stack,
        )  # fmt: skip
        n_visits += 1
        begin += 1
    registers[current] = was_current
    return is_absent, n_visits


__all__ = ["WORK_PER_MATCH", "WORK_PER_PAIR", "WORK_PER_PREFIX", "list_precise", "pair_work"]
