"""Depth first construction of the matches that begin with one event, whatever event they end in.

`kernels.pairs.search` goes through one pair of a first and a last event; here all last events of a first one share the
prefixes, their registers, aggregates and confidence (SASE++ 5.1, "result construction", and 5.3: pruned below the
threshold). The confidence grows event by event (`confidence.extend_chain`); where clocks have skew each prefix is
evaluated as a whole. Matches are written as paths of a trie.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.columns.partitions import BROADCAST
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.confidence.ordering import may_precede, one_clock, separated
from engine.kernels.confidence.sequences import (
    NO_CHAIN_ROOM,
    begin_chain,
    confidence_of_chain,
    extend_chain,
    new_chain,
    wider_chain,
)
from engine.kernels.confidence.skew import (
    MAX_EVALUATIONS,
    TOO_MUCH,
    match_confidence,
    match_work,
    prefix_mass,
    prefix_work,
)
from engine.kernels.confidence.skew_events import has_skew
from engine.kernels.pairs.labels import copy_from, copy_to
from engine.kernels.pairs.pairs import first_from, replay
from engine.kernels.pairs.search import TOLERANCE
from engine.kernels.pairs.state import BEGIN, PROCEED, TAKE, begins, completes, leaves, loops_hold, takes, unbound
from engine.kernels.pairs.status import COMPLETE, OUT_OF_BUDGET, OUT_OF_ROOM, REFUSED_SKEW
from engine.kernels.programs.opcodes import MAX_STACK

MOST_COMPARED = 1024
"""Candidates of which the comparisons are kept, each with each."""
FEW = 64
"""So few are compared with each other before the search, and it is not paid for."""

FREE_LOOKS = 110
"""So many steps for each event around a first one are not paid for: any search looks at each of them, and binds it."""
_LOOKS_BEFORE = 6
"""So many of them are taken before the search begins."""
FREE_STEPS = 200_000_000
"""All first events of one step together have no more of them for nothing: about a second."""
PER_MATCH_EVENTS = 8
"""So many events of a match cost as much as the match itself."""

_PER_STEP = 12.0
"""Numbers that are computed for a confidence in the time of a look at an event."""

_LOOKS_PER_STEP = 3
"""Events that cannot come next are passed by: so many in the time of a step."""
_PER_TRIED = 20
_PER_ASKED = 30
_PER_LOOPED = 6
_PER_OVERLAP = 50
"""Steps for an event that is tried behind a prefix, more where conditions are evaluated, by event of the prefix where
these range over it, and where its interval overlaps the last one."""
_PER_ENDS = 20
"""Steps for the confidence of two events, beside what it computes."""
_ENDINGS_PER_STEP = 2
"""Rows of what may follow that are looked at in the time of a step."""
_MOST_ROUNDS = 8
"""So often what may follow through one component is gone over; then a coarser bound does."""

_UNKNOWN = 2.0
"""Above all confidences: that of a pair's ends alone takes too many combinations of offsets."""

_ON = 0
_TAKE = 1
"""What a depth looks for: an event of the next component, then another one of its own. So matches of a pair come
component by component, shorter ones first."""


@kernel
def list_shared(
    tables, events, begin_ok, take_ok, members, starts, pairs, ranks, longest_ms, threshold, per_pair, budget, account,
    free_steps, per_match, capacity,
):  # fmt: skip
    """The matches of the pairs, int64 (n, 3): first, last, partition, those of one first event and partition together.

    tables: `state.Tables` without negations. begin_ok, take_ok: bool (n_steps, n_rows), local predicates and
    types. members, starts: rows that may stand between, grouped by partition, each group in stream order. ranks: int64
    (n_rows,), matches of a pair come in the order of their events' ranks, component by component. longest_ms: of any
    interval. threshold: matches have confidence > 0 and at least this. per_pair: conditions on a prefix read the last
    event. budget: events looked at for one first event, as far as account[0] pays for them; a few looks at each event
    around it cost nothing, as long as free_steps[0] has some left. per_match: what a match costs, and as much again for
    PER_MATCH_EVENTS events of it. capacity: matches at most.

    Returns (status, node_parent int32, node_row int64, node_step int32, match_node int32, match_pair int64,
    confidences float64): a match is the path to its node and then the last event of its pair, unless that is the first
    one. status: COMPLETE, OUT_OF_ROOM (of matches, at once), OUT_OF_BUDGET (for some first event) or REFUSED_SKEW.

    members: int64 (m,), starts: int64 (n_groups + 1,). account: int64 (2,), free_steps: int64 (1,), written.
    """
    node_parent = np.empty(64, np.int32)
    node_row = np.empty(64, np.int64)
    node_step = np.empty(64, np.int32)
    n_nodes = 0
    match_node = np.empty(64, np.int32)
    match_pair = np.empty(64, np.int64)
    confidences = np.empty(64, np.float64)
    n_matches = 0
    n_steps = tables.kleene.shape[0]
    n_slots = tables.kinds.shape[0]
    n_registers = 2 * n_steps + 1
    final = n_steps - 1
    within_ms = tables.within_ms
    least = max(threshold - TOLERANCE, 0.0)
    stack = np.empty(MAX_STACK, np.float64)
    free = _free_edges(tables)
    per_end = 0
    if tables.finals.shape[0] > 0 or tables.edges[final, PROCEED, 0] != tables.edges[final, PROCEED, 1]:
        per_end = _PER_ASKED
    per_looped = _PER_LOOPED if tables.loops.shape[0] > 0 else 0
    status = COMPLETE
    slots = np.full(ranks.shape[0], -1, np.int64)
    p = 0
    while p < pairs.shape[0] and status in (COMPLETE, OUT_OF_BUDGET):
        if free_steps[0] <= 0 and account[0] <= 0:
            status = OUT_OF_BUDGET
            break
        first = pairs[p, 0]
        key = pairs[p, 2]
        begin = p
        p += 1
        while not per_pair and p < pairs.shape[0] and pairs[p, 0] == first and pairs[p, 2] == key:
            p += 1
        scratch = unbound(tables, pairs[begin, 1] if per_pair else np.int64(-1))
        scratch_aggregates = np.full(n_slots, np.nan)
        if not begin_ok[0, first] or not begins(tables, events, 0, first, scratch, scratch_aggregates, stack):
            continue
        alone = -1
        for q in range(begin, p):
            if pairs[q, 1] == first:
                alone = q
        rows, member, pair_of, bounds, latest_ms, n_work = _points(
            events, members, starts, pairs, begin, p, ranks, slots, longest_ms, least, within_ms
        )
        n = rows.shape[0]
        free_work = min(FREE_LOOKS * (n + 1), max(free_steps[0], 0))
        most_work = free_work + min(budget, max(account[0], 0))
        n_work += _LOOKS_BEFORE * n
        depth_limit = n + 2
        confidence_to = new_chain(depth_limit)
        begin_chain(confidence_to, first)
        chain = confidence_to.rows
        steps = np.empty(depth_limit, np.int64)
        steps[0] = 0
        if not loops_hold(tables, events, 0, BEGIN, chain, steps, 0, scratch, scratch_aggregates, stack):
            continue
        roles = _roles(tables.kleene, begin_ok, take_ok, rows, member, pair_of)
        compared = n <= MOST_COMPARED
        order = np.empty((n if compared else 0, n), np.uint8)
        is_ordered = np.zeros(n, np.bool_)
        skewed = has_skew(events, rows, n) or (events.skew.shape[0] > 0 and events.skew[first] > 0)
        endings = np.ones((n_steps, n), np.float64)
        if n <= FEW:
            _look_ahead(
                tables.kleene, events, rows, first, pair_of, bounds, order, is_ordered, roles, least, skewed, endings
            )
        look_ahead_at = free_work + n * n // 4 if compared and n > FEW else np.int64(2**62)
        after_first = np.empty(n, np.uint8)
        for k in range(n):
            after_first[k] = _order(events, first, rows[k], least)
        registers = np.empty((depth_limit, n_registers), np.int64)
        aggregates = np.empty((depth_limit, n_slots), np.float64)
        position = np.full(depth_limit, -1, np.int64)
        looks_for = np.zeros(depth_limit, np.int64)
        following = np.zeros(depth_limit, np.int64)
        mass = np.ones(depth_limit, np.float64)  # of the prefix
        before = np.ones(depth_limit, np.float64)  # of what comes before the open segment
        segment = np.zeros(depth_limit, np.int64)  # where that begins
        node = np.full(depth_limit, -1, np.int64)
        in_chain = np.zeros(n, np.bool_)
        copy_to(registers, 0, scratch)
        copy_to(aggregates, 0, scratch_aggregates)
        depth = 0
        while depth >= 0:
            if n_work > look_ahead_at:  # a search that goes on has something to leave out
                look_ahead_at = np.int64(2**62)
                if n_work + 2 * n * n < most_work:
                    n_work += _look_ahead(
                        tables.kleene, events, rows, first, pair_of, bounds, order, is_ordered, roles, least, skewed,
                        endings,
                    )  # fmt: skip
            step = steps[depth]
            k = following[depth]
            if k == 0 and looks_for[depth] == _ON:
                copy_from(registers, depth, scratch)
                copy_from(aggregates, depth, scratch_aggregates)
                goes_on = step < final or (depth == 0 and alone >= 0)
                if goes_on:
                    goes_on = leaves(tables, events, step, scratch, scratch_aggregates, stack) and loops_hold(
                        tables, events, step, PROCEED, chain, steps, depth + 1, scratch, scratch_aggregates, stack
                    )
                if goes_on and step == final:
                    goes_on = False
                    if n_steps == 1 and completes(tables, events, scratch, scratch_aggregates, stack):
                        if n_matches == capacity:
                            status = OUT_OF_ROOM
                            break
                        if n_matches == match_node.shape[0]:
                            match_node = np.concatenate((match_node, np.empty_like(match_node)))
                            match_pair = np.concatenate((match_pair, np.empty_like(match_pair)))
                            confidences = np.concatenate((confidences, np.empty_like(confidences)))
                        if n_nodes == node_row.shape[0]:
                            node_parent = np.concatenate((node_parent, np.empty_like(node_parent)))
                            node_row = np.concatenate((node_row, np.empty_like(node_row)))
                            node_step = np.concatenate((node_step, np.empty_like(node_step)))
                        node_parent[n_nodes] = -1
                        node_row[n_nodes] = first
                        node_step[n_nodes] = 0
                        node[0] = n_nodes
                        match_node[n_matches] = n_nodes
                        match_pair[n_matches] = alone
                        confidences[n_matches] = 1.0
                        n_nodes += 1
                        n_matches += 1
                if not goes_on:
                    k = n
            i = chain[depth]
            at = position[depth]
            target = step + 1 if looks_for[depth] == _ON else step
            was = k
            relation = np.uint8(0)
            if target <= final:
                edge = 2 * target + looks_for[depth]
                if compared and at >= 0 and not is_ordered[at] and k < n:
                    n_work += _order_row(events, rows, at, least, order, is_ordered)
                while k < n:
                    if roles[edge, k] and not in_chain[k]:
                        if at < 0:
                            relation = after_first[k]
                        elif compared:
                            relation = order[at, k]
                        else:
                            relation = _order(events, i, rows[k], least)
                        if relation != 0:
                            break
                    k += 1
            n_work += 1 + (k - was) // _LOOKS_PER_STEP
            if n_work > most_work:
                status = OUT_OF_BUDGET
                break
            if k >= n:
                if looks_for[depth] == _ON and tables.kleene[step]:
                    looks_for[depth] = _TAKE
                    following[depth] = 0
                    continue
                if at >= 0:
                    in_chain[at] = False
                depth -= 1
                continue
            following[depth] = k + 1
            j = rows[k]
            known = relation == 2
            n_work += _PER_TRIED + per_looped * depth
            if not known:
                n_work += _PER_OVERLAP
            if not free[edge]:
                n_work += _PER_ASKED
            if target == final and pair_of[k] >= 0:
                n_work += per_end
            steps[depth + 1] = target
            if skewed:
                chain[depth + 1] = j
                new_mass = mass[depth]
                if not known:
                    n_work += _steps(prefix_work(events, chain, segment[depth], depth + 2))
                    if n_work > most_work:
                        status = OUT_OF_BUDGET
                        break
                    new_mass = prefix_mass(events, chain, segment[depth], depth + 2, before[depth], mass[depth])
            else:
                new_mass = extend_chain(confidence_to, events, depth, j)
                while new_mass == NO_CHAIN_ROOM:
                    confidence_to = wider_chain(confidence_to)
                    new_mass = extend_chain(confidence_to, events, depth, j)
                if not known and depth > segment[depth]:
                    n_work += (depth + 2 - segment[depth]) ** 2 // 8
            if new_mass <= 0.0 or new_mass < least:
                continue
            copy_from(registers, depth, scratch)
            copy_from(aggregates, depth, scratch_aggregates)
            if free[edge]:
                scratch[n_registers - 1] = j
                scratch[2 * target + 1] = j
                if looks_for[depth] == _ON:
                    scratch[2 * target] = j
            elif looks_for[depth] == _TAKE:
                if not takes(tables, events, step, j, scratch, scratch_aggregates, stack):
                    continue
            elif not begins(tables, events, target, j, scratch, scratch_aggregates, stack) or not loops_hold(
                tables, events, target, BEGIN, chain, steps, depth + 1, scratch, scratch_aggregates, stack
            ):
                continue
            pair = pair_of[k]
            if (
                target == final
                and pair >= 0
                and min(new_mass, bounds[k]) >= least
                and leaves(tables, events, final, scratch, scratch_aggregates, stack)
                and loops_hold(
                    tables, events, final, PROCEED, chain, steps, depth + 2, scratch, scratch_aggregates, stack
                )
                and completes(tables, events, scratch, scratch_aggregates, stack)
            ):
                confidence = bounds[k]
                if confidence == _UNKNOWN:
                    status = REFUSED_SKEW
                    break
                if depth == 0 and _is_simple(events, first, j, within_ms):
                    chain[1] = j
                    confidence = match_confidence(events, chain, 2, within_ms)
                    n_work += _PER_ENDS
                if depth > 0 and (skewed or events.hi_ms[j] - events.lo_ms[first] > within_ms):
                    chain[depth + 1] = j
                    n_work += _steps(match_work(events, chain, np.int64(0), depth + 2, within_ms, MAX_EVALUATIONS))
                    if n_work > most_work:
                        status = OUT_OF_BUDGET
                        break
                if skewed and depth > 0:
                    confidence = match_confidence(events, chain, depth + 2, within_ms)
                    if confidence == TOO_MUCH:
                        status = REFUSED_SKEW
                        break
                elif depth > 0:
                    confidence = confidence_of_chain(confidence_to, events, depth + 1, within_ms)
                    while confidence == NO_CHAIN_ROOM:
                        confidence_to = wider_chain(confidence_to)
                        confidence = confidence_of_chain(confidence_to, events, depth + 1, within_ms)
                if confidence > 0.0 and confidence >= least:
                    if n_matches == capacity:
                        status = OUT_OF_ROOM
                        break
                    d = depth
                    while d >= 0 and node[d] < 0:
                        d -= 1
                    while d < depth:
                        d += 1
                        if n_nodes == node_row.shape[0]:
                            node_parent = np.concatenate((node_parent, np.empty_like(node_parent)))
                            node_row = np.concatenate((node_row, np.empty_like(node_row)))
                            node_step = np.concatenate((node_step, np.empty_like(node_step)))
                        node_parent[n_nodes] = node[d - 1] if d > 0 else -1
                        node_row[n_nodes] = chain[d]
                        node_step[n_nodes] = steps[d]
                        node[d] = n_nodes
                        n_nodes += 1
                    if n_matches == match_node.shape[0]:
                        match_node = np.concatenate((match_node, np.empty_like(match_node)))
                        match_pair = np.concatenate((match_pair, np.empty_like(match_pair)))
                        confidences = np.concatenate((confidences, np.empty_like(confidences)))
                    match_node[n_matches] = node[depth]
                    match_pair[n_matches] = pair
                    confidences[n_matches] = confidence
                    n_matches += 1
                    n_work += per_match + per_match * (depth + 2) // PER_MATCH_EVENTS
            if not member[k] or (target == final and not tables.kleene[final]) or events.lo_ms[j] > latest_ms:
                continue
            if new_mass * endings[target, k] < least:
                continue
            before[depth + 1] = mass[depth] if known else before[depth]
            segment[depth + 1] = depth + 1 if known else segment[depth]
            depth += 1
            copy_to(registers, depth, scratch)
            copy_to(aggregates, depth, scratch_aggregates)
            position[depth] = k
            in_chain[k] = True
            looks_for[depth] = _ON
            following[depth] = 0
            mass[depth] = new_mass
            node[depth] = -1
        free_steps[0] -= min(n_work, free_work)
        account[0] -= max(n_work - free_work, 0)
    return (
        status,
        node_parent[:n_nodes],
        node_row[:n_nodes],
        node_step[:n_nodes],
        match_node[:n_matches],
        match_pair[:n_matches],
        confidences[:n_matches],
    )


@leaf
def _steps(work):
    """Numbers computed, in looks at an event; int64."""
    return np.int64(min(work / _PER_STEP, 1e15))


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


@kernel
def _points(events, members, starts, pairs, begin, end, ranks, slots, longest_ms, least, within_ms):
    """The rows that may follow the first event of the pairs begin..end-1, by rank, and what they can be.

    slots: int64, as long as `ranks`, all -1, as they are left. Returns (rows int64 (n,), member bool (n,), pair_of
    int64 (n,): the pair that it ends, -1 for none, bounds float64 (n,): the most that a match with that end is
    confident, the latest time of an end that reaches `least`, and the steps that these bounds took).
    """
    first = pairs[begin, 0]
    key = pairs[begin, 2]
    latest_ms = events.lo_ms[first]
    for q in range(begin, end):
        latest_ms = max(latest_ms, events.hi_ms[pairs[q, 1]])
    found = np.empty(64, np.int64)
    n = 0
    n_own = 0
    n_work = 0
    clocked = events.clock[first] >= 0
    for shared in range(2):
        n_own = n
        group = BROADCAST if shared else key
        stop = starts[group + 2]
        at = first_from(events, members, starts[group + 1], stop, events.lo_ms[first] - longest_ms)
        while at < stop and events.lo_ms[members[at]] <= latest_ms:
            row = members[at]
            at += 1
            if row == first or events.hi_ms[row] < events.lo_ms[first]:
                continue
            if not may_precede(events, first, row) and not one_clock(events, first, row):
                continue
            clocked = clocked or events.clock[row] >= 0
            if n == found.shape[0]:
                found = np.concatenate((found, np.empty_like(found)))
            found[n] = row
            n += 1
    found = found[:n]
    if 0 < n_own < n:  # each group is in stream order
        found = np.sort(found)
    rows = np.empty(n + end - begin, np.int64)
    member = np.zeros(n + end - begin, np.bool_)
    pair_of = np.full(n + end - begin, -1, np.int64)
    bounds = np.ones(n + end - begin, np.float64)
    ends = np.empty(2, np.int64)
    ends[0] = first
    n_points = 0
    at = 0
    q = begin
    latest_ms = events.lo_ms[first]
    while at < n or q < end:
        if q < end and pairs[q, 1] == first:
            q += 1
            continue
        row = found[at] if at < n else pairs[q, 1]
        if q < end:
            row = min(row, pairs[q, 1])
        rows[n_points] = row
        if at < n and found[at] == row:
            member[n_points] = True
            at += 1
        if q < end and pairs[q, 1] == row:
            ends[1] = row
            certain = events.hi_ms[row] - events.lo_ms[first] <= within_ms
            if certain and separated(events, first, row):
                bound = 1.0
            elif _is_simple(events, first, row, within_ms):
                bound = _share_before(events, first, row)
                bound = min(bound + TOLERANCE, 1.0) if bound > 0.0 else 0.0
            else:
                n_work += _PER_ENDS + _steps(match_work(events, ends, np.int64(0), 2, within_ms, MAX_EVALUATIONS))
                bound = match_confidence(events, ends, 2, within_ms)
            if bound == TOO_MUCH:
                bound = _UNKNOWN
            # Among events of one clock, whose order is no matter of time, another may be better than the ends alone.
            if clocked or (bound > 0.0 and bound >= least):
                bounds[n_points] = bound
                pair_of[n_points] = q
                latest_ms = max(latest_ms, events.hi_ms[row])
            q += 1
        n_points += 1
    by_rank = _by_rank(ranks, rows[:n_points], slots)
    return rows[by_rank], member[by_rank], pair_of[by_rank], bounds[by_rank], latest_ms, n_work


@leaf
def _is_simple(events, first, last, within_ms):
    """Whether two events alone are a match with the probability `_share_before`."""
    weighted = events.weight_at[first] >= 0 or events.weight_at[last] >= 0
    skewed = events.skew.shape[0] > 0 and (events.skew[first] > 0 or events.skew[last] > 0)
    if weighted or skewed or events.hi_ms[last] - events.lo_ms[first] > within_ms:
        return False
    return not separated(events, first, last) and not one_clock(events, first, last)


@kernel
def _by_rank(ranks, rows, slots):
    """The places of the rows by their ranks, which differ: int64 (n,). slots: see `_points`."""
    n = rows.shape[0]
    if n == 0:
        return np.empty(0, np.int64)
    least = ranks[rows[0]]
    most = least
    for k in range(n):
        least = min(least, ranks[rows[k]])
        most = max(most, ranks[rows[k]])
    if most - least > 8 * n:
        return np.argsort(ranks[rows])
    for k in range(n):
        slots[ranks[rows[k]]] = k
    places = np.empty(n, np.int64)
    at = 0
    for rank in range(least, most + 1):
        if slots[rank] >= 0:
            places[at] = slots[rank]
            slots[rank] = -1
            at += 1
    return places if at == n else np.argsort(ranks[rows])


@kernel
def _roles(kleene, begin_ok, take_ok, rows, member, pair_of):
    """Whether each row may be bound by 2 * step (begin) and 2 * step + 1 (take), bool (2 * n_steps, n)."""
    n_steps = kleene.shape[0]
    roles = np.zeros((2 * n_steps, rows.shape[0]), np.bool_)
    for step in range(n_steps):
        final = step == n_steps - 1
        for k in range(rows.shape[0]):
            useful = (member[k] and (kleene[step] or not final)) or (final and pair_of[k] >= 0)
            roles[2 * step, k] = useful and begin_ok[step, rows[k]]
            roles[2 * step + 1, k] = useful and kleene[step] and take_ok[step, rows[k]]
    return roles


@kernel
def _look_ahead(kleene, events, rows, first, pair_of, bounds, order, is_ordered, roles, least, skewed, endings):
    """`_find_endings` for the rows behind a first event; returns the steps that it took."""
    n = rows.shape[0]
    n_work = 0
    for k in range(n):
        if not is_ordered[k]:
            n_work += _order_row(events, rows, k, least, order, is_ordered)
    final = kleene.shape[0] - 1
    for k in range(n):
        if pair_of[k] < 0:
            endings[final, k] = 0.0
        elif not skewed and separated(events, first, rows[k]):
            endings[final, k] = min(bounds[k], 1.0)
    return n_work + _find_endings(kleene, events, rows, order, roles, least, skewed, endings) // _ENDINGS_PER_STEP


@kernel
def _find_endings(kleene, events, rows, order, roles, least, skewed, endings):
    """How confident what follows each row can be at most: `endings`, float64 (n_steps, n), where the last component's
    say what the end of a match allows, 0.0 for rows that are none. Returns how many pairs of rows were looked at.

    A chain of events is no more confident than its beginning times its rest: that the beginning is in order makes its
    last event later, and the rest less likely. Nor than its order times its window, since the window asks for a later
    first event and an earlier last one. So a product over neighbours bounds all that may follow, and rows whose bound
    is below `least` are taken from `roles` (`_roles`). Without it all selections of Kleene events would be gone through
    that end too late for what has to follow. order: `_order_row` of all rows. skewed: offsets that events share undo
    that argument; then rows are left out only where nothing can follow.
    """
    n = order.shape[0]
    final = kleene.shape[0] - 1
    latest_first = np.argsort(rows)[::-1]  # so that what follows is known before what it follows
    own = np.empty(n, np.int64)
    following = np.empty(n, np.int64)
    n_looks = 0
    for step in range(final, -1, -1):
        best = endings[step]
        n_own = 0
        n_next = 0
        for k in latest_first:
            if roles[2 * step, k] or roles[2 * step + 1, k]:
                own[n_own] = k
                n_own += 1
            if step < final and roles[2 * step + 2, k]:
                following[n_next] = k
                n_next += 1
        if step < final:
            best[:] = 0.0
            for k in own[:n_own]:
                for to in following[:n_next]:
                    if order[k, to] != 0:
                        best[k] = max(best[k], _ending(events, rows, order, k, to, endings[step + 1, to], skewed))
            n_looks += n_own * n_next
        n_rounds = 0
        is_changed = kleene[step]
        while is_changed and n_rounds < _MOST_ROUNDS:  # through other events of its own
            is_changed = False
            n_rounds += 1
            n_looks += n_own * n_own
            for k in own[:n_own]:
                for to in own[:n_own]:
                    if best[to] > best[k] and roles[2 * step + 1, to] and order[k, to] != 0:
                        bound = _ending(events, rows, order, k, to, best[to], skewed)
                        if bound > best[k]:
                            best[k] = bound
                            is_changed = True
        if is_changed:  # no ending is better than the best
            best[own[:n_own]] = np.max(best)
        for k in own[:n_own]:
            leads_on = best[k] > 0.0 and best[k] >= least
            roles[2 * step, k] &= leads_on
            roles[2 * step + 1, k] &= leads_on
    return n_looks


@leaf
def _ending(events, rows, order, k, to, after, skewed):
    """At most so confident is row `to` behind row `k`, where `after` bounds what follows `to`."""
    if skewed or order[k, to] == 2:
        return after
    return after * _share_before(events, rows[k], rows[to])


@leaf
def _order(events, i, j, least):
    """0: i is before j in no world, or in too few for a match with both next to each other; 1: in some; 2: in all."""
    if separated(events, i, j):
        return np.uint8(2)
    if not may_precede(events, i, j) or _share_before(events, i, j) < least:
        return np.uint8(0)
    return np.uint8(1)


@leaf
def _share_before(events, i, j):
    """P(i before j) for uniform times that overlap; 1.0 for others."""
    skewed = events.skew.shape[0] > 0 and (events.skew[i] > 0 or events.skew[j] > 0)
    if skewed or events.weight_at[i] >= 0 or events.weight_at[j] >= 0:
        return 1.0
    n_i = events.hi_ms[i] - events.lo_ms[i] + 1
    n_j = events.hi_ms[j] - events.lo_ms[j] + 1
    after = events.hi_ms[j] - events.lo_ms[i]  # so many milliseconds of i are before the last one of j
    return (_pairs_up_to(after, n_i) - _pairs_up_to(after - n_j, n_i)) / (1.0 * n_i * n_j)


@leaf
def _pairs_up_to(after, n):
    """The sum over k up to `after` of the number of the first n milliseconds that are among the first k."""
    if after <= 0:
        return 0.0
    if after <= n:
        return 0.5 * after * (after + 1)
    return 0.5 * n * (n + 1) + 1.0 * n * (after - n)


@kernel
def _order_row(events, rows, i, least, order, is_ordered):
    """`_order` of one row with each other, into `order`, uint8 (n, n); the steps that it took."""
    n = rows.shape[0]
    for j in range(n):
        order[i, j] = _order(events, rows[i], rows[j], least) if i != j else np.uint8(0)
    is_ordered[i] = True
    return n


@kernel
def spell_steps(node_parent, node_row, node_step, match_node, match_last, final):
    """The events of each match in order: offsets int64 (n + 1,), rows int64 (m,), steps int64 (m,).

    match_last: int64 (n,), the last event, of component `final`, -1 where the node is already it.

    node_parent, node_step: int32 (n_nodes,). node_row: int64 (n_nodes,). match_node: int32 (n,).
    """
    n = match_node.shape[0]
    offsets = np.zeros(n + 1, np.int64)
    for k in range(n):
        length = 1 if match_last[k] >= 0 else 0
        node = match_node[k]
        while node >= 0:
            length += 1
            node = node_parent[node]
        offsets[k + 1] = offsets[k] + length
    rows = np.empty(offsets[n], np.int64)
    steps = np.empty(offsets[n], np.int64)
    for k in range(n):
        at = offsets[k + 1]
        if match_last[k] >= 0:
            at -= 1
            rows[at] = match_last[k]
            steps[at] = final
        node = match_node[k]
        while node >= 0:
            at -= 1
            rows[at] = node_row[node]
            steps[at] = node_step[node]
            node = node_parent[node]
    return offsets, rows, steps


@kernel
def replay_steps(tables, columns, offsets, rows, steps, programs):
    """`postponed_pairs.replay` of each match: float64 (n, n_programs).

    columns: float64 (n_columns, n_rows). offsets, rows, steps: int64 (n + 1,), (m,), (m,), as of `spell_steps`.
    programs: int64 (n_programs,).
    """
    stack = np.empty(MAX_STACK, np.float64)
    values = np.empty((offsets.shape[0] - 1, programs.shape[0]), np.float64)
    for k in range(values.shape[0]):
        own = rows[offsets[k] : offsets[k + 1]]
        values[k] = replay(tables, columns, own, steps[offsets[k] : offsets[k + 1]], programs, stack)
    return values


__all__ = ["list_shared", "replay_steps", "spell_steps"]
