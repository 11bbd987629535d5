"""Depth first construction of the matches that begin with one event, whatever event they end in.

`kernels.pairs.search` goes through one pair of a first and a last event; here all last events of a first one share the
prefixes, their registers, aggregates and confidence (SASE++ 5.1, "result construction", and 5.3: pruned below the
threshold). The confidence grows event by event (`confidence.extend_chain`); where clocks have skew each prefix is
evaluated as a whole. Matches are written as paths of a trie.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.kernels.compile.types import BoolArray, Float64Array, Int64Array
from engine.kernels.compile.ways import inlined, kernel, leaf
from engine.kernels.confidence.sequences import (
    NO_CHAIN_CAPACITY,
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
from engine.kernels.pairs.labels import copy_from, copy_to
from engine.kernels.pairs.paths import add_match, filled, has_capacity, new_paths, wider_paths
from engine.kernels.pairs.search import TOLERANCE
from engine.kernels.pairs.shared_around import (
    PER_ENDS,
    UNKNOWN,
    around_first,
    is_simple,
    look_ahead,
    looks_ahead_later,
    order_of,
    order_row,
    steps_for,
)
from engine.kernels.pairs.state import BEGIN, PROCEED, begins, completes, free_edges, leaves, loops_hold, takes, unbound
from engine.kernels.pairs.status import COMPLETE, OUT_OF_BUDGET, OUT_OF_CAPACITY, REFUSED_SKEW
from engine.kernels.programs.opcodes import MAX_STACK

_FREE_VISITS = 110
"""So many steps for each event around a first one are not paid for: any search looks at each of them, and binds it."""
_VISITS_BEFORE = 6
"""So many of them are taken before the search begins."""
FREE_STEPS = 200_000_000
"""All first events of one step together have no more of them for nothing: about a second."""
PER_MATCH_EVENTS = 8
"""So many events of a match cost as much as the match itself."""

_VISITS_PER_STEP = 3
"""Events that cannot come next are passed by: so many in the time of a step."""
_PER_TRIED = 20
_PER_REQUESTED = 30
_PER_LOOPED = 6
_PER_OVERLAP = 50
"""Steps for an event that is tried behind a prefix, more where conditions are evaluated, by event of the prefix where
these range over it, and where its interval overlaps the last one."""

_ON = 0
_TAKE = 1
"""What a depth looks for: an event of the next component, then another one of its own. So matches of a pair come
component by component, shorter ones first."""

# Entries of the state of a search.
_PHASE = 0
_DEPTH = 1
_AT = 2  # the row that is tried behind the prefix
_IS_KNOWN = 3  # it comes after it in all worlds
_N_WORK = 4
_MOST_WORK = 5
_LOOK_AHEAD_AT = 6  # with so much work done
_N_NODES = 7
_N_MATCHES = 8
_N_STATE = 9

# Phases: what comes next.
_CHOOSE = 0  # the next row behind the prefix, or behind a shorter one
_EXTEND = 1  # how sure the prefix is with that row
_BIND = 2  # whether the row may be bound, and ends a match
_JUDGE = 3  # how sure that match is
_GO_ON = 4  # the row becomes part of the prefix

# Beside the statuses, what a search needs before it goes on where it is.
_NEEDS_LOOK_AHEAD = -1
_NEEDS_CHAIN = -2  # a longer one
_NEEDS_CAPACITY = -3  # for a match
_NEEDS_MASS = -4  # of the prefix with the row, clocks having skew
_NEEDS_CONFIDENCE = -5  # of the match

_NEVER = 2**62


class Prefixes(NamedTuple):
    """What is known of each prefix of the chain of events that a search has come to: index d is that of d + 1 events.

    - steps int64 (n,): the component of the last event; position int64 (n,): its place among the rows around, -1 for
      the first event; node int64 (n,): its node among the paths, -1 while it has none.
    - registers int64 (n, n_registers), aggregates float64 (n, n_slots): as they are behind it.
    - wanted_next, following int64 (n,): what comes next, and from which row on.
    - mass float64 (n,): how sure it is, the window left aside; before float64 (n,): how sure what comes before its open
      segment is, which begins at segment int64 (n,).
    - in_chain bool (n_rows,): the rows that it has.
    - row int64 (n_registers,), slots float64 (n_slots,), stack float64: scratch, the prefix that is tried.
    - confidence float64 (1,): of the match that is judged, where the search has asked for it.
    """

    steps: Int64Array
    position: Int64Array
    node: Int64Array
    registers: Int64Array
    aggregates: Float64Array
    wanted_next: Int64Array
    following: Int64Array
    mass: Float64Array
    before: Float64Array
    segment: Int64Array
    in_chain: BoolArray
    row: Int64Array
    slots: Float64Array
    stack: Float64Array
    confidence: Float64Array


class Terms(NamedTuple):
    """What holds for all searches of a call.

    free: bool (2 * n_steps,), see `state.free_edges`. least: matches have confidence > 0 and at least this. per_looped,
    per_end, per_match: steps for each event of the prefix, for an event at the end, for a match. capacity: matches.
    """

    free: BoolArray
    least: float
    per_looped: int
    per_end: int
    per_match: int
    capacity: int


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

    Returns (status, the matches as `paths.Paths`, confidences float64). status: COMPLETE, OUT_OF_CAPACITY (of matches,
    at once), OUT_OF_BUDGET (for some first event) or REFUSED_SKEW.

    members: int64 (m,), starts: int64 (n_groups + 1,). account: int64 (2,), free_steps: int64 (1,), written.
    """
    paths = new_paths()
    confidences = np.empty(paths.match_node.shape[0], np.float64)
    terms = _terms(tables, threshold, per_match, capacity)
    state = np.zeros(_N_STATE, np.int64)
    stack = np.empty(MAX_STACK, np.float64)
    status = COMPLETE
    slots = np.full(ranks.shape[0], -1, np.int64)
    p = 0
    while p < pairs.shape[0] and status in (COMPLETE, OUT_OF_BUDGET):
        if free_steps[0] <= 0 and account[0] <= 0:
            status = OUT_OF_BUDGET
            break
        first = pairs[p, 0]
        begin = p
        p += 1
        while not per_pair and p < pairs.shape[0] and pairs[p, 0] == first and pairs[p, 2] == pairs[begin, 2]:
            p += 1
        registers = unbound(tables, pairs[begin, 1] if per_pair else np.int64(-1))
        aggregates = np.full(tables.kinds.shape[0], np.nan)
        if not begin_ok[0, first] or not begins(tables, events, 0, first, registers, aggregates, stack):
            continue
        around, n_work = around_first(
            tables.kleene, events, begin_ok, take_ok, members, starts, pairs, begin, p, ranks, slots, longest_ms,
            terms.least, tables.within_ms,
        )  # fmt: skip
        n = around.rows.shape[0]
        chain = new_chain(n + 2)
        begin_chain(chain, first)
        prefixes = _new_prefixes(n, registers, aggregates, stack)
        if not loops_hold(tables, events, 0, BEGIN, chain.rows, prefixes.steps, 0, registers, aggregates, stack):
            continue
        free_work = min(_FREE_VISITS * (n + 1), max(free_steps[0], 0))
        state[_PHASE], state[_DEPTH] = _CHOOSE, 0
        state[_N_WORK] = n_work + _VISITS_BEFORE * n
        state[_MOST_WORK] = free_work + min(budget, max(account[0], 0))
        state[_LOOK_AHEAD_AT] = free_work + n * n // 4 if looks_ahead_later(around) else _NEVER
        alone = -1
        for q in range(begin, p):
            if pairs[q, 1] == first:
                alone = q
        found, paths, confidences = _search(
            tables, events, around, alone, chain, prefixes, paths, confidences, state, terms
        )
        if found != COMPLETE:
            status = found
        free_steps[0] -= min(state[_N_WORK], free_work)
        account[0] -= max(state[_N_WORK] - free_work, 0)
    return status, filled(paths, state[_N_NODES], state[_N_MATCHES]), confidences[: state[_N_MATCHES]]


@kernel
def _terms(tables, threshold, per_match, capacity):
    final = tables.kleene.shape[0] - 1
    asks = tables.finals.shape[0] > 0 or tables.edges[final, PROCEED, 0] != tables.edges[final, PROCEED, 1]
    return Terms(
        free_edges(tables),
        max(threshold - TOLERANCE, 0.0),
        _PER_LOOPED if tables.loops.shape[0] > 0 else 0,
        _PER_REQUESTED if asks else 0,
        per_match,
        capacity,
    )


@kernel
def _new_prefixes(n, registers, aggregates, stack):
    """The prefix of the first event, with registers and aggregates as they are behind it, and room for n more."""
    depths = n + 2
    prefixes = Prefixes(
        np.zeros(depths, np.int64),
        np.full(depths, -1, np.int64),
        np.full(depths, -1, np.int64),
        np.empty((depths, registers.shape[0]), np.int64),
        np.empty((depths, aggregates.shape[0]), np.float64),
        np.zeros(depths, np.int64),
        np.zeros(depths, np.int64),
        np.ones(depths, np.float64),
        np.ones(depths, np.float64),
        np.zeros(depths, np.int64),
        np.zeros(n, np.bool_),
        registers,
        aggregates,
        stack,
        np.zeros(1, np.float64),
    )
    copy_to(prefixes.registers, 0, registers)
    copy_to(prefixes.aggregates, 0, aggregates)
    return prefixes


@kernel
def _search(tables, events, around, alone, chain, prefixes, paths, confidences, state, terms):
    """All matches of a first event: (status, paths, confidences). alone: the pair of which it is the last one, too."""
    while True:
        status = _search_on(tables, events, around, alone, chain, prefixes, paths, confidences, state, terms)
        depth = state[_DEPTH]
        if status == _NEEDS_LOOK_AHEAD:
            state[_LOOK_AHEAD_AT] = _NEVER
            n = around.rows.shape[0]
            if state[_N_WORK] + 2 * n * n < state[_MOST_WORK]:
                state[_N_WORK] += look_ahead(tables.kleene, events, around, terms.least)
        elif status == _NEEDS_CHAIN:
            chain = wider_chain(chain)
        elif status == _NEEDS_CAPACITY:
            paths = wider_paths(paths, state[_N_NODES], state[_N_MATCHES], depth + 1)
            more = paths.match_node.shape[0] - confidences.shape[0]
            confidences = np.concatenate((confidences, np.empty(more, np.float64)))
        elif status == _NEEDS_MASS:
            prefixes.mass[depth + 1] = prefix_mass(
                events, chain.rows, prefixes.segment[depth], depth + 2, prefixes.before[depth], prefixes.mass[depth]
            )
            state[_PHASE] = _BIND
        elif status == _NEEDS_CONFIDENCE:
            confidence = match_confidence(events, chain.rows, depth + 2, tables.within_ms)
            if confidence == TOO_MUCH:
                status = REFUSED_SKEW
                break
            prefixes.confidence[0] = max(confidence, 0.0)
        else:
            break
    return status, paths, confidences


@leaf
def _search_on(tables, events, around, alone, chain, prefixes, paths, confidences, state, terms):
    """Go on with a search where `state` says; COMPLETE, why it ended early, or what it needs first."""
    final = tables.kleene.shape[0] - 1
    while True:
        if state[_PHASE] == _CHOOSE:
            status = _choose(tables, events, around, alone, chain, prefixes, paths, confidences, state, terms)
            if status != COMPLETE or state[_DEPTH] < 0:
                return status
            state[_PHASE] = _EXTEND
        depth = state[_DEPTH]
        if state[_PHASE] == _EXTEND:
            status = _extend(events, around, chain, prefixes, state)
            if status != COMPLETE:
                return status
            state[_PHASE] = _BIND
        k = state[_AT]
        target = prefixes.steps[depth + 1]
        mass = prefixes.mass[depth + 1]
        if state[_PHASE] == _BIND:
            if (
                mass <= 0.0
                or mass < terms.least
                or not _is_bound(tables, events, around.rows[k], depth, chain, prefixes, terms)
            ):
                state[_PHASE] = _CHOOSE
                continue
            prefixes.confidence[0] = -1.0
            may_end = target == final and around.pair_of[k] >= 0 and min(mass, around.bounds[k]) >= terms.least
            ends = may_end and _ends_match(tables, events, depth, chain, prefixes)
            state[_PHASE] = _JUDGE if ends else _GO_ON
        if state[_PHASE] == _JUDGE:
            status = _judge(tables, events, around, chain, prefixes, paths, confidences, state, terms)
            if status != COMPLETE:
                return status
        goes_on = around.member[k] and (target < final or tables.kleene[final])
        if (
            goes_on
            and events.lo_ms[around.rows[k]] <= around.latest_ms
            and mass * around.endings[target, k] >= terms.least
        ):
            _go_on(prefixes, state)
        state[_PHASE] = _CHOOSE


@leaf
def _choose(tables, events, around, alone, chain, prefixes, paths, confidences, state, terms):
    """The next row that may follow a prefix in time and by its role; the depth is -1 where there is none left.

    Goes back to shorter prefixes, and writes the match of the first event alone.
    """
    final = tables.kleene.shape[0] - 1
    n = around.rows.shape[0]
    while state[_DEPTH] >= 0:
        depth = state[_DEPTH]
        if state[_N_WORK] > state[_LOOK_AHEAD_AT]:  # a search that goes on has something to leave out
            return _NEEDS_LOOK_AHEAD
        step = prefixes.steps[depth]
        k = prefixes.following[depth]
        if k == 0 and prefixes.wanted_next[depth] == _ON:
            goes_on = step < final or (depth == 0 and alone >= 0)
            if goes_on:
                goes_on = _leaves(tables, events, depth, chain, prefixes)
            if goes_on and step == final:
                goes_on = False
                if final == 0 and completes(tables, events, prefixes.row, prefixes.slots, prefixes.stack):
                    if state[_N_MATCHES] == terms.capacity:
                        return OUT_OF_CAPACITY
                    if not has_capacity(paths, state[_N_NODES], state[_N_MATCHES], np.int64(1)):
                        return _NEEDS_CAPACITY
                    _add(chain, prefixes, paths, confidences, state, alone, 1.0)
            if not goes_on:
                k = n
        target = step + 1 if prefixes.wanted_next[depth] == _ON else step
        was = k
        relation = np.uint8(0)
        if target <= final:
            edge = 2 * target + prefixes.wanted_next[depth]
            k, relation = _next_row(events, around, edge, k, depth, chain, prefixes, state, terms)
        state[_N_WORK] += 1 + (k - was) // _VISITS_PER_STEP
        if state[_N_WORK] > state[_MOST_WORK]:
            return OUT_OF_BUDGET
        if k < n:
            prefixes.following[depth] = k + 1
            prefixes.steps[depth + 1] = target
            state[_AT] = k
            state[_IS_KNOWN] = relation == 2
            state[_N_WORK] += _PER_TRIED + terms.per_looped * depth
            if relation != 2:
                state[_N_WORK] += _PER_OVERLAP
            if not terms.free[2 * target + prefixes.wanted_next[depth]]:
                state[_N_WORK] += _PER_REQUESTED
            if target == final and around.pair_of[k] >= 0:
                state[_N_WORK] += terms.per_end
            break
        if prefixes.wanted_next[depth] == _ON and tables.kleene[step]:
            prefixes.wanted_next[depth] = _TAKE
            prefixes.following[depth] = 0
            continue
        if prefixes.position[depth] >= 0:
            prefixes.in_chain[prefixes.position[depth]] = False
        state[_DEPTH] -= 1
    return COMPLETE


@inlined
def _next_row(events, around, edge, k, depth, chain, prefixes, state, terms):
    """The first row from k on that the edge accepts, and that may follow the last event of the prefix; and how."""
    n = around.rows.shape[0]
    at = prefixes.position[depth]
    compared = around.order.shape[0] == n
    if compared and at >= 0 and k < n and not around.is_ordered[at]:
        state[_N_WORK] += order_row(events, around, at, terms.least)
    relation = np.uint8(0)
    while k < n:
        if around.roles[edge, k] and not prefixes.in_chain[k]:
            if at < 0:
                relation = around.after_first[k]
            elif compared:
                relation = around.order[at, k]
            else:
                relation = order_of(events, chain.rows[depth], around.rows[k], terms.least)
            if relation != 0:
                break
        k += 1
    return k, relation


@inlined
def _leaves(tables, events, depth, chain, prefixes):
    """Whether the last component of the prefix is complete; in scratch is the prefix then."""
    step = prefixes.steps[depth]
    copy_from(prefixes.registers, depth, prefixes.row)
    copy_from(prefixes.aggregates, depth, prefixes.slots)
    return leaves(tables, events, step, prefixes.row, prefixes.slots, prefixes.stack) and loops_hold(
        tables, events, step, PROCEED, chain.rows, prefixes.steps, depth + 1, prefixes.row, prefixes.slots,
        prefixes.stack,
    )  # fmt: skip


@inlined
def _extend(events, around, chain, prefixes, state):
    """How sure the prefix is with the row, the window left aside: `mass` one deeper."""
    depth = state[_DEPTH]
    row = around.rows[state[_AT]]
    if around.skewed:
        chain.rows[depth + 1] = row
        prefixes.mass[depth + 1] = prefixes.mass[depth]
        if state[_IS_KNOWN]:
            return COMPLETE
        state[_N_WORK] += steps_for(prefix_work(events, chain.rows, prefixes.segment[depth], depth + 2))
        return OUT_OF_BUDGET if state[_N_WORK] > state[_MOST_WORK] else _NEEDS_MASS
    mass = extend_chain(chain, events, depth, row)
    if mass == NO_CHAIN_CAPACITY:
        return _NEEDS_CHAIN
    prefixes.mass[depth + 1] = mass
    if not state[_IS_KNOWN] and depth > prefixes.segment[depth]:
        state[_N_WORK] += (depth + 2 - prefixes.segment[depth]) ** 2 // 8
    return COMPLETE


@inlined
def _is_bound(tables, events, row, depth, chain, prefixes, terms):
    """Whether the row may be bound behind the prefix; in scratch is the prefix with it then."""
    target = prefixes.steps[depth + 1]
    copy_from(prefixes.registers, depth, prefixes.row)
    copy_from(prefixes.aggregates, depth, prefixes.slots)
    if terms.free[2 * target + prefixes.wanted_next[depth]]:
        prefixes.row[prefixes.row.shape[0] - 1] = row
        prefixes.row[2 * target + 1] = row
        if prefixes.wanted_next[depth] == _ON:
            prefixes.row[2 * target] = row
        return True
    if prefixes.wanted_next[depth] == _TAKE:
        return takes(tables, events, target, row, prefixes.row, prefixes.slots, prefixes.stack)
    return begins(tables, events, target, row, prefixes.row, prefixes.slots, prefixes.stack) and loops_hold(
        tables, events, target, BEGIN, chain.rows, prefixes.steps, depth + 1, prefixes.row, prefixes.slots,
        prefixes.stack,
    )  # fmt: skip


@inlined
def _ends_match(tables, events, depth, chain, prefixes):
    """Whether what is in scratch, with one event more than the prefix, is complete."""
    final = tables.kleene.shape[0] - 1
    return (
        leaves(tables, events, final, prefixes.row, prefixes.slots, prefixes.stack)
        and loops_hold(
            tables, events, final, PROCEED, chain.rows, prefixes.steps, depth + 2, prefixes.row, prefixes.slots,
            prefixes.stack,
        )
        and completes(tables, events, prefixes.row, prefixes.slots, prefixes.stack)
    )  # fmt: skip


@inlined
def _judge(tables, events, around, chain, prefixes, paths, confidences, state, terms):
    """How sure the prefix with the row is as a match; it is written where that is enough."""
    depth, k = state[_DEPTH], state[_AT]
    if prefixes.confidence[0] < 0.0:
        status = _confidence(tables, events, around, chain, prefixes, state)
        if status != COMPLETE:
            return status
    confidence = prefixes.confidence[0]
    if confidence <= 0.0 or confidence < terms.least:
        return COMPLETE
    if state[_N_MATCHES] == terms.capacity:
        return OUT_OF_CAPACITY
    if not has_capacity(paths, state[_N_NODES], state[_N_MATCHES], depth + 1):
        return _NEEDS_CAPACITY
    _add(chain, prefixes, paths, confidences, state, around.pair_of[k], confidence)
    state[_N_WORK] += terms.per_match + terms.per_match * (depth + 2) // PER_MATCH_EVENTS
    return COMPLETE


@inlined
def _confidence(tables, events, around, chain, prefixes, state):
    """Put down how sure the prefix with the row is as a match, or say that it is needed."""
    depth, k = state[_DEPTH], state[_AT]
    row = around.rows[k]
    if around.bounds[k] == UNKNOWN:
        return REFUSED_SKEW
    if depth == 0:
        prefixes.confidence[0] = around.bounds[k]
        if not is_simple(events, around.first, row, tables.within_ms):
            return COMPLETE
        chain.rows[1] = row
        state[_N_WORK] += PER_ENDS
        return _NEEDS_CONFIDENCE
    if around.skewed or events.hi_ms[row] - events.lo_ms[around.first] > tables.within_ms:
        chain.rows[depth + 1] = row
        state[_N_WORK] += steps_for(
            match_work(events, chain.rows, np.int64(0), depth + 2, tables.within_ms, MAX_EVALUATIONS)
        )
        if state[_N_WORK] > state[_MOST_WORK]:
            return OUT_OF_BUDGET
    if around.skewed:
        return _NEEDS_CONFIDENCE
    confidence = confidence_of_chain(chain, events, depth + 1, tables.within_ms)
    if confidence == NO_CHAIN_CAPACITY:
        return _NEEDS_CHAIN
    prefixes.confidence[0] = confidence
    return COMPLETE


@inlined
def _add(chain, prefixes, paths, confidences, state, pair, confidence):
    """Write a match of the prefix."""
    confidences[state[_N_MATCHES]] = confidence
    state[_N_NODES] = add_match(
        paths, chain.rows, prefixes.steps, prefixes.node, state[_DEPTH], pair, state[_N_NODES], state[_N_MATCHES]
    )
    state[_N_MATCHES] += 1


@inlined
def _go_on(prefixes, state):
    """The row that was tried becomes part of the prefix, as it is in scratch."""
    depth = state[_DEPTH]
    known = state[_IS_KNOWN]
    prefixes.before[depth + 1] = prefixes.mass[depth] if known else prefixes.before[depth]
    prefixes.segment[depth + 1] = depth + 1 if known else prefixes.segment[depth]
    depth += 1
    copy_to(prefixes.registers, depth, prefixes.row)
    copy_to(prefixes.aggregates, depth, prefixes.slots)
    prefixes.position[depth] = state[_AT]
    prefixes.in_chain[state[_AT]] = True
    prefixes.wanted_next[depth] = _ON
    prefixes.following[depth] = 0
    prefixes.node[depth] = -1
    state[_DEPTH] = depth


__all__ = ["FREE_STEPS", "PER_MATCH_EVENTS", "list_shared"]
