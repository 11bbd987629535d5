"""Depth first construction of matches over precise events, for many pairs of a first and a last event at once.

All last events of a first one share the prefixes (SASE++ 5.1, "result construction"). The events around are put in
order once for all first events that reach as far; from which of them a last event can still be reached is known before
the search, and no other one is looked at. Matches are written as paths of a trie.

Work is counted in steps, as if each deciding event were searched by itself: a prefix that several last events share
is laid to each of them that can be reached from it. So what an event costs is a function of the stream, whichever
events it is decided with.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.automaton_search import allowance_at, settle
from engine.kernels.compiling import kernel, leaf
from engine.kernels.opcodes import MAX_STACK
from engine.kernels.postponed_labels import copy_from, copy_to
from engine.kernels.postponed_pairs import BROADCAST, first_from
from engine.kernels.postponed_search import COMPLETE, OUT_OF_BUDGET, OUT_OF_ROOM
from engine.kernels.postponed_state import BEGIN, PROCEED, TAKE, begins, completes, leaves, loops_hold, takes
from engine.kernels.predicates import all_hold

WORK_PER_PAIR = 8
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
_NEEDS_ROOM = 99
_DEPTH, _SPENT, _LONGEST, _N_NODES, _N_MATCHES = 0, 1, 2, 3, 4
"""Where a search stands."""

_BLOCK = 64
"""So many events are passed over together where none comes late enough."""


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
    come in the order of their events' ranks, component by component. positions: int64 (n_rows,), places in the stream.

    by_first: an event decides the pairs that begin, else those that end with it. apart: the search for each deciding
    event has what `account` allows at its position (`automaton_search.allowance_at`, with `terms`); pairs of one stand
    together. Else `budget` bounds what is done, and `account` is left alone.
    longest_only: of each last event and partition the first pair that has matches, its first event after ends_ms,
    int64 by partition, where the end is noted; the longest match of that pair, at a tie the first.
    per_match, per_event: what a match costs beside its search. capacity: matches at most.

    Returns (status, node_parent int32, node_row int64, node_step int32, match_node int32, match_pair int64, work int64
    (n,), cut bool (n,)): a match is the path to its node and then the last event of its pair, unless that is the first
    one. work: by pair, so that the sum over those of one event is what it costs. cut: apart, the search for the
    deciding event ended early. status: COMPLETE, OUT_OF_ROOM (of matches, at once), OUT_OF_BUDGET (at once).
    """
    node_parent = np.empty(64, np.int32)
    node_row = np.empty(64, np.int64)
    node_step = np.empty(64, np.int32)
    n_nodes = 0
    match_node = np.empty(64, np.int32)
    match_pair = np.empty(64, np.int64)
    n_matches = 0
    n_steps = tables.kleene.shape[0]
    n_registers = 2 * n_steps + 1
    n_slots = tables.kinds.shape[0]
    n_negations = tables.negations.shape[0]
    final = n_steps - 1
    stack = np.empty(MAX_STACK, np.float64)
    free = _free_edges(tables)
    work = np.zeros(pairs.shape[0], np.int64)
    state = np.zeros(5, np.int64)
    cut = np.zeros(pairs.shape[0], np.bool_)
    scratch = np.empty(n_registers, np.int64)
    scratch_aggregates = np.empty(n_slots, np.float64)
    status = COMPLETE

    of = 0 if by_first else 1
    unit, unit_from, unit_key = np.int64(-1), 0, np.int64(-2)
    unit_is_cut = False
    most = budget
    spent = np.int64(0)

    # What is around, in order of time: filled by the first pair that reaches so far.
    around_key, around_last, n_lasts = np.int64(-2), np.int64(-1), 0
    rows = np.empty(0, np.int64)
    after = np.empty(0, np.int64)
    ordinal = np.empty(0, np.int64)
    reach = np.empty((n_steps, 0), np.int64)
    choices = np.empty(0, np.int64)
    edges = np.zeros(2 * n_steps + 1, np.int64)
    latest = np.empty(0, np.int64)
    in_order = True
    shared_work = np.zeros(1, np.int64)
    own_work = np.zeros(1, np.int64)
    gaps = np.empty(0, np.int64)
    gap_starts = np.zeros(n_negations + 1, np.int64)
    depth_limit = 0
    registers = np.empty((0, n_registers), np.int64)
    aggregates = np.empty((0, n_slots), np.float64)
    chain = np.empty(0, np.int64)
    steps = np.empty(0, np.int64)
    point = np.empty(0, np.int64)
    looks_for = np.empty(0, np.int64)
    following = np.empty(0, np.int64)
    node = np.empty(0, np.int64)

    p = 0
    while p < pairs.shape[0] and status == COMPLETE:
        first, key = pairs[p, 0], pairs[p, 2]
        begin = p
        p += 1
        while not alone and p < pairs.shape[0] and pairs[p, 0] == first and pairs[p, 2] == key:
            p += 1
        last = pairs[p - 1, 1]
        if apart and pairs[begin, of] != unit:
            if unit >= 0:
                settle(account, spent)
                cut[unit_from:begin] = unit_is_cut
            unit, unit_from, unit_key, unit_is_cut = pairs[begin, of], begin, np.int64(-2), False
            most = allowance_at(account, terms, positions[unit])
            spent = np.int64(0)
        if unit_is_cut:
            continue
        if longest_only and (unit_key == key or events.lo_ms[first] <= ends_ms[key]):
            spent += 1
            continue
        before = spent
        spent += WORK_PER_PAIR * (p - begin)
        if spent > most:
            unit_is_cut = apart
            status = COMPLETE if apart else OUT_OF_BUDGET
            continue
        if key != around_key or last != around_last:
            around_key, around_last = key, last
            rows = _around(events, members, starts, pairs, begin, p)
            n = rows.shape[0]
            spent += n // _ROWS_PER_STEP if alone and by_first else 0  # for this pair alone
            after, ordinal, n_lasts = _places(events, rows, pairs, begin, p)
            reach = _reach(tables.kleene, begin_ok, rows, after, ordinal, n_lasts)
            choices, edges, in_order = _choices(tables.kleene, begin_ok, take_ok, rows, ordinal, reach, n_lasts, ranks)
            latest = _latest(choices)
            if n_lasts >= shared_work.shape[0]:
                shared_work = np.zeros(2 * n_lasts + 1, np.int64)
                own_work = np.zeros(2 * n_lasts + 1, np.int64)
            if n_negations > 0:
                gaps, gap_starts = _negated_around(events, denied, denied_starts, key, first, last, tables.within_ms)
            if n + 2 > depth_limit:
                depth_limit = n + 2
                registers = np.empty((depth_limit, n_registers), np.int64)
                aggregates = np.empty((depth_limit, n_slots), np.float64)
                chain = np.empty(depth_limit, np.int64)
                steps = np.empty(depth_limit, np.int64)
                point = np.empty(depth_limit, np.int64)
                looks_for = np.empty(depth_limit, np.int64)
                following = np.empty(depth_limit, np.int64)
                node = np.empty(depth_limit, np.int64)
        # The last events of this first one are the latest of those around.
        base = n_lasts - (p - begin)
        after_first = _first_after(events, rows, first)
        single = begin if pairs[begin, 1] == first else -1  # the first event is the last one as well
        nearest = _reached(begin_ok, reach, rows, after_first, n_steps, ordinal, n_lasts)
        depth = -1
        if single >= 0 or nearest < n_lasts:
            for k in range(n_registers):
                scratch[k] = -1
            if alone and tables.known_last:
                scratch[2 * final] = last
                scratch[2 * final + 1] = last
            for k in range(n_slots):
                scratch_aggregates[k] = np.nan
            chain[0] = first
            steps[0] = 0
            if (
                begin_ok[0, first]
                and begins(tables, events, 0, first, scratch, scratch_aggregates, stack)
                and loops_hold(tables, events, 0, BEGIN, chain, steps, 0, scratch, scratch_aggregates, stack)
            ):
                depth = 0
                point[0] = -1
                looks_for[0] = _ON
                following[0] = -1
                node[0] = -1
                copy_to(registers, 0, scratch)
                copy_to(aggregates, 0, scratch_aggregates)
        n_before = n_matches
        state[_DEPTH], state[_SPENT], state[_LONGEST] = depth, spent, 0
        while True:
            state[_N_NODES], state[_N_MATCHES] = n_nodes, n_matches
            status = _search(
                tables, events, gaps, gap_starts, free, first, single, p, base, n_lasts, after_first, n_before,
                longest_only, most, per_match, per_event, capacity, rows, after, ordinal, reach, choices, edges, latest,
                in_order, registers, aggregates, chain, steps, point, looks_for, following, node, scratch,
                scratch_aggregates, stack, own_work, shared_work, node_parent, node_row, node_step, match_node,
                match_pair, state,
            )  # fmt: skip
            n_nodes, n_matches = state[_N_NODES], state[_N_MATCHES]
            if status != _NEEDS_ROOM:
                break
            if n_nodes + depth_limit > node_row.shape[0]:
                extra = max(node_row.shape[0], depth_limit)
                node_parent = np.concatenate((node_parent, np.empty(extra, np.int32)))
                node_row = np.concatenate((node_row, np.empty(extra, np.int64)))
                node_step = np.concatenate((node_step, np.empty(extra, np.int32)))
            if n_matches == match_node.shape[0]:
                match_node = np.concatenate((match_node, np.empty_like(match_node)))
                match_pair = np.concatenate((match_pair, np.empty_like(match_pair)))
        spent = state[_SPENT]
        if longest_only and n_matches > n_before:
            ends_ms[key] = events.lo_ms[last]
            unit_key = key
        if by_first or alone:
            work[begin] = spent - before
        total = np.int64(WORK_PER_PAIR)
        for k in range(base, n_lasts):
            total += shared_work[k]
            if not by_first and not alone:
                work[begin + k - base] = total + own_work[k]
            shared_work[k] = 0
            own_work[k] = 0
        if spent > most and status == COMPLETE:
            unit_is_cut = apart
            status = COMPLETE if apart else OUT_OF_BUDGET
    if apart and unit >= 0:
        settle(account, spent)
        cut[unit_from:p] = unit_is_cut
    return (
        status,
        node_parent[:n_nodes],
        node_row[:n_nodes],
        node_step[:n_nodes],
        match_node[:n_matches],
        match_pair[:n_matches],
        work,
        cut,
    )


@leaf
def _search(
    tables, events, gaps, gap_starts, free, first, single, stop_pair, base, n_lasts, after_first, n_before,
    longest_only, most, per_match, per_event, capacity, rows, after, ordinal, reach, choices, edges, latest,
    in_order, registers, aggregates, chain, steps, point, looks_for, following, node, scratch,
    scratch_aggregates, stack, own_work, shared_work, node_parent, node_row, node_step, match_node,
    match_pair, state,
):  # fmt: skip
    """Go on with the search for one first event, or several last ones of it, where `state` says.

    single: the pair of an event that is first and last, -1 for none. stop_pair: the pair after those that are searched,
    of the last of n_lasts last events; `base` is the first that counts. state: int64 (5,). Returns COMPLETE,
    OUT_OF_ROOM (there are more than `capacity` matches) or _NEEDS_ROOM: to be called again with longer arrays.
    """
    n_steps = tables.kleene.shape[0]
    n_registers = 2 * n_steps + 1
    n_negations = tables.negations.shape[0]
    final = n_steps - 1
    has_loops = tables.loops.shape[0] > 0
    status = COMPLETE
    depth, spent, longest = state[_DEPTH], state[_SPENT], state[_LONGEST]
    n_nodes, n_matches = state[_N_NODES], state[_N_MATCHES]
    while depth >= 0:
        if n_nodes + depth + 2 > node_row.shape[0] or n_matches == match_node.shape[0]:
            status = _NEEDS_ROOM
            break
        step = steps[depth]
        at = following[depth]
        target = step + 1 if looks_for[depth] == _ON else step
        edge = 2 * target + looks_for[depth]
        if at < 0:
            goes_on = True
            if looks_for[depth] == _ON:
                goes_on = step < final or (depth == 0 and single >= 0)
                if goes_on:
                    copy_from(registers, depth, scratch)
                    copy_from(aggregates, depth, scratch_aggregates)
                    goes_on = leaves(tables, events, step, scratch, scratch_aggregates, stack) and loops_hold(
                        tables, events, step, PROCEED, chain, steps, depth + 1, scratch, scratch_aggregates, stack
                    )
                if goes_on and step == final:
                    goes_on = False
                    cost = np.int64(WORK_PER_MATCH)
                    if completes(tables, events, scratch, scratch_aggregates, stack):
                        found = True
                        for k in range(n_negations):
                            if found:
                                found, n_looks = _is_absent(
                                    tables, events, gaps, gap_starts, k, first, first, scratch, scratch_aggregates,
                                    stack,
                                )  # fmt: skip
                                cost += WORK_PER_NEGATED * (1 + n_looks)
                        if found:
                            if n_matches == capacity:
                                status = OUT_OF_ROOM
                                break
                            node_parent[n_nodes] = -1
                            node_row[n_nodes] = first
                            node_step[n_nodes] = 0
                            node[0] = n_nodes
                            n_nodes += 1
                            match_node[n_matches] = node[0]
                            match_pair[n_matches] = single
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
            if at % _BLOCK == 0 and latest[at // _BLOCK] < late:
                at += _BLOCK
            else:
                at += 1
        if at >= stop:
            if looks_for[depth] == _ON and tables.kleene[step]:
                looks_for[depth] = _TAKE
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
        copy_from(registers, depth, scratch)
        copy_from(aggregates, depth, scratch_aggregates)
        cost = np.int64(WORK_PER_PREFIX + (0 if free[edge] else WORK_PER_CONDITION) + (depth if has_loops else 0))
        holds = True
        if free[edge]:
            scratch[n_registers - 1] = row
            scratch[2 * target + 1] = row
            if looks_for[depth] == _ON:
                scratch[2 * target] = row
        elif looks_for[depth] == _TAKE:
            holds = takes(tables, events, step, row, scratch, scratch_aggregates, stack)
        else:
            holds = begins(tables, events, target, row, scratch, scratch_aggregates, stack) and loops_hold(
                tables, events, target, BEGIN, chain, steps, depth + 1, scratch, scratch_aggregates, stack
            )
        if looks_for[depth] == _ON:
            for k in range(n_negations):
                # What precedes the match is known when its last event is.
                if holds and tables.negations[k, 1] == target and tables.negations[k, 0] >= 0:
                    holds, n_looks = _is_absent(
                        tables, events, gaps, gap_starts, k, first, row, scratch, scratch_aggregates, stack
                    )
                    cost += WORK_PER_NEGATED * (1 + n_looks)
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
            and leaves(tables, events, final, scratch, scratch_aggregates, stack)
            and loops_hold(tables, events, final, PROCEED, chain, steps, depth + 2, scratch, scratch_aggregates, stack)
            and completes(tables, events, scratch, scratch_aggregates, stack)
        ):
            found = True
            cost = np.int64(0)
            for k in range(n_negations):
                if found and (tables.negations[k, 1] == n_steps or tables.negations[k, 0] < 0):
                    found, n_looks = _is_absent(
                        tables, events, gaps, gap_starts, k, first, row, scratch, scratch_aggregates, stack
                    )
                    cost += WORK_PER_NEGATED * (1 + n_looks)
            if found:
                replaces = longest_only and n_matches > n_before
                cost += WORK_PER_MATCH
                if not replaces or depth + 2 > longest:
                    cost += per_match + per_event * (depth + 2)
                    longest = depth + 2
                    if n_matches == capacity and not replaces:
                        status = OUT_OF_ROOM
                        break
                    d = depth
                    while d >= 0 and node[d] < 0:
                        d -= 1
                    while d < depth:
                        d += 1
                        node_parent[n_nodes] = node[d - 1] if d > 0 else -1
                        node_row[n_nodes] = chain[d]
                        node_step[n_nodes] = steps[d]
                        node[d] = n_nodes
                        n_nodes += 1
                    n_matches = n_matches - 1 if replaces else n_matches
                    match_node[n_matches] = node[depth]
                    match_pair[n_matches] = stop_pair - (n_lasts - ordinal[here])
                    n_matches += 1
            spent += cost
            own_work[ordinal[here]] += cost
        if not continues:
            continue
        depth += 1
        copy_to(registers, depth, scratch)
        copy_to(aggregates, depth, scratch_aggregates)
        point[depth] = here
        looks_for[depth] = _ON
        following[depth] = -1
        node[depth] = -1
    state[_DEPTH], state[_SPENT], state[_LONGEST] = depth, spent, longest
    state[_N_NODES], state[_N_MATCHES] = n_nodes, n_matches
    return status


@kernel
def pair_work(pairs, of, positions, work, terms, account):
    """Pay for what pairs, int64 (n, 3), cost by the events that decide them (column `of`; those of one stand together),
    up to the first that costs more than it is allowed; the place of its first pair, n when all are paid."""
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


@kernel
def _free_edges(tables):
    """For each 2 * step (begin) and 2 * step + 1 (take) whether binding an event asks for nothing: bool."""
    n_steps = tables.kleene.shape[0]
    free = np.zeros(2 * n_steps, np.bool_)
    for step in range(n_steps):
        for edge in (BEGIN, TAKE):
            asks = tables.edges[step, edge, 0] != tables.edges[step, edge, 1] or tables.kinds.shape[0] > 0
            for k in range(tables.hoisted.shape[0]):
                asks = asks or tables.hoisted[k, 0] == step
            for k in range(tables.falling.shape[0]):
                asks = asks or tables.falling[k, 0] == step
            for k in range(tables.loops.shape[0]):
                asks = asks or (tables.loops[k, 0] == step and tables.loops[k, 1] == edge)
            free[2 * step + edge] = not asks
    return free


@leaf
def _is_before(events, i, j):
    """Whether i comes before j in stream order."""
    return events.lo_ms[i] < events.lo_ms[j] or (events.lo_ms[i] == events.lo_ms[j] and i < j)


@kernel
def _merged(events, one, other):
    """The rows of two lists, each in stream order, each row once."""
    if other.shape[0] == 0:
        return one.copy()
    found = np.empty(one.shape[0] + other.shape[0], np.int64)
    n, a, b = 0, 0, 0
    while a < one.shape[0] or b < other.shape[0]:
        if b == other.shape[0] or (a < one.shape[0] and _is_before(events, one[a], other[b])):
            found[n] = one[a]
            a += 1
        else:
            if a < one.shape[0] and one[a] == other[b]:
                a += 1
            found[n] = other[b]
            b += 1
        n += 1
    return found[:n]


@kernel
def _between(events, rows, starts, key, earliest_ms, latest_ms):
    """The rows of a group and of those in every group with such times, in stream order."""
    begin = first_from(events, rows, starts[key + 1], starts[key + 2], earliest_ms)
    end = first_from(events, rows, begin, starts[key + 2], latest_ms + 1)
    common = first_from(events, rows, starts[BROADCAST + 1], starts[BROADCAST + 2], earliest_ms)
    stop = first_from(events, rows, common, starts[BROADCAST + 2], latest_ms + 1)
    return _merged(events, rows[begin:end], rows[common:stop])


@kernel
def _around(events, members, starts, pairs, begin, end):
    """The rows that may follow the first event of the pairs begin..end-1, up to the latest of their last ones, and
    these, in stream order."""
    first, last = pairs[begin, 0], pairs[end - 1, 1]
    rows = _between(events, members, starts, pairs[begin, 2], events.lo_ms[first], events.lo_ms[last])
    return _merged(events, rows, pairs[begin:end, 1])


@kernel
def _places(events, rows, pairs, begin, end):
    """Where rows may follow one: (after, ordinal, n): the first place after each one, which last event of the pairs
    each row is, -1 for none, and how many there are; int64 (n_rows,)."""
    n = rows.shape[0]
    after = np.empty(n, np.int64)
    ordinal = np.full(n, -1, np.int64)
    stop = n
    for at in range(n - 1, -1, -1):
        if at + 1 < n and events.lo_ms[rows[at + 1]] != events.lo_ms[rows[at]]:
            stop = at + 1
        after[at] = stop if events.strict else at + 1
    at = 0
    for q in range(begin, end):
        while rows[at] != pairs[q, 1]:
            at += 1
        ordinal[at] = q - begin
    return after, ordinal, end - begin


@leaf
def _first_after(events, rows, first):
    """The first place of a row that may follow `first`."""
    begin, end = 0, rows.shape[0]
    while begin < end:
        middle = (begin + end) // 2
        row = rows[middle]
        follows = events.lo_ms[row] > events.lo_ms[first]
        if not follows and not events.strict:
            follows = events.lo_ms[row] == events.lo_ms[first] and row > first
        if follows:
            end = middle
        else:
            begin = middle + 1
    return begin


@kernel
def _reach(kleene, begin_ok, rows, after, ordinal, n_lasts):
    """The first last event (its ordinal, n_lasts for none) that a prefix can lead to which ends in such a row of such a
    component, as far as types and local predicates go: int64 (n_steps, n)."""
    n_steps = kleene.shape[0]
    n = rows.shape[0]
    reach = np.empty((n_steps, n), np.int64)
    onward = np.full((n_steps + 1, n + 1), n_lasts, np.int64)  # the same from the first such row from a place on
    for at in range(n - 1, -1, -1):
        onward[n_steps, at] = ordinal[at] if ordinal[at] >= 0 else onward[n_steps, at + 1]
        for step in range(n_steps):
            reach[step, at] = onward[n_steps if step >= n_steps - 2 else step + 1, after[at]]
        for step in range(1, n_steps - 1):
            onward[step, at] = reach[step, at] if begin_ok[step, rows[at]] else onward[step, at + 1]
    return reach


@leaf
def _reached(begin_ok, reach, rows, place, n_steps, ordinal, n_lasts):
    """The first last event that what begins before a place can lead to."""
    for at in range(place, rows.shape[0]):
        if n_steps <= 2:
            if ordinal[at] >= 0:
                return ordinal[at]
        elif begin_ok[1, rows[at]]:
            return reach[1, at]
    return n_lasts


@kernel
def _choices(kleene, begin_ok, take_ok, rows, ordinal, reach, n_lasts, ranks):
    """The places of the rows that each edge may bind, in the order of ranks: (choices int64, edges int64 (2 * n_steps +
    1,), in_order): those of edge 2 * step (begin) or 2 * step + 1 (take) are choices[edges[e]:edges[e + 1]]. in_order:
    ranks ascend with time."""
    n_steps = kleene.shape[0]
    final = n_steps - 1
    n = rows.shape[0]
    in_order = True
    for at in range(1, n):
        in_order = in_order and ranks[rows[at - 1]] < ranks[rows[at]]
    order = np.arange(n) if in_order else np.argsort(ranks[rows])
    edges = np.zeros(2 * n_steps + 1, np.int64)
    choices = np.empty(n * max(2 * n_steps - 1, 1), np.int64)
    n_choices = 0
    for edge in range(1, 2 * n_steps):  # the first event is bound
        edges[edge] = n_choices
        step = edge // 2
        if edge % 2 == TAKE and not kleene[step]:
            continue
        for k in range(n):
            at = order[k]
            if not (begin_ok[step, rows[at]] if edge % 2 == BEGIN else take_ok[step, rows[at]]):
                continue
            if step == final and not kleene[step]:
                is_useful = ordinal[at] >= 0
            else:
                is_useful = reach[step, at] < n_lasts or (step == final and ordinal[at] >= 0)
            if is_useful:
                choices[n_choices] = at
                n_choices += 1
    edges[2 * n_steps] = n_choices
    return choices[:n_choices], edges, in_order


@kernel
def _latest(choices):
    """The latest place of each block of choices."""
    n = choices.shape[0]
    latest = np.full(n // _BLOCK + 1, -1, np.int64)
    for at in range(n):
        latest[at // _BLOCK] = max(latest[at // _BLOCK], choices[at])
    return latest


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


@kernel
def _negated_around(events, denied, denied_starts, key, first, last, within_ms):
    """The rows that each negation may forbid, as far as matches reach, and where those of each begin:
    both int64."""
    n_negations = denied_starts.shape[0]
    starts = np.zeros(n_negations + 1, np.int64)
    rows = np.empty(0, np.int64)
    earliest_ms, latest_ms = events.lo_ms[first] - within_ms, events.lo_ms[last] + within_ms
    for k in range(n_negations):
        own = _between(events, denied, denied_starts[k], key, earliest_ms, latest_ms)
        rows = np.concatenate((rows, own))
        starts[k + 1] = rows.shape[0]
    return rows, starts


@leaf
def _is_absent(tables, events, gaps, gap_starts, k, first, last, registers, aggregates, stack):
    """Whether no event stands where negation k forbids one, and how many were looked at.

    first, last: the ends of the match, `last` as far as it is known.
    """
    n_steps = tables.kleene.shape[0]
    after = tables.negations[k, 0]
    begin, end = gap_starts[k], gap_starts[k + 1]
    if after >= 0:
        begin = _first_behind(events, gaps, begin, end, registers[2 * after + 1], events.strict)
    else:
        begin = first_from(events, gaps, begin, end, events.lo_ms[last] - tables.within_ms)
    if after + 1 < n_steps:
        end = _first_behind(events, gaps, begin, end, registers[2 * after + 2] if after >= 0 else first, False)
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
    n_looks = 0
    is_absent = True
    while begin < end and is_absent:
        registers[current] = gaps[begin]
        is_absent = not all_hold(
            tables.code, tables.bounds, tables.negations[k, 2], tables.negations[k, 3], tables.constants,
            events.columns, registers, aggregates, stack,
        )  # fmt: skip
        n_looks += 1
        begin += 1
    registers[current] = was_current
    return is_absent, n_looks


@leaf
def _first_behind(events, rows, begin, end, row, strictly):
    """The first place in rows[begin:end] that comes after `row`, strictly: at a later time."""
    while begin < end:
        middle = (begin + end) // 2
        other = rows[middle]
        if events.lo_ms[other] > events.lo_ms[row] if strictly else _is_before(events, row, other):
            end = middle
        else:
            begin = middle + 1
    return begin


__all__ = ["WORK_PER_MATCH", "WORK_PER_PAIR", "WORK_PER_PREFIX", "list_precise", "pair_work"]
