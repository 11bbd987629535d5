"""Depth first construction of the matches between one first and one last event (SASE++ 5.1, "result construction").

Exact for every predicate. The work per match is linear in the match for local and pairwise predicates and those that
stay false once they are false; a bound on the number of steps ends the search of others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.kernels.compile.types import BoolArray, Float64Array, Int64Array
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.confidence.absence import TOO_MUCH_WORK
from engine.kernels.confidence.ordering import may_precede, separated
from engine.kernels.confidence.sequences import TOLERANCE
from engine.kernels.confidence.skew import (
    MAX_EVALUATIONS,
    TOO_MUCH,
    match_confidence,
    match_work,
    prefix_mass,
    prefix_work,
)
from engine.kernels.confidence.skew_absence import absent_match_confidence
from engine.kernels.pairs.labels import copy_from, copy_to
from engine.kernels.pairs.state import (
    ABSENT,
    BEGIN,
    PRESENT,
    PROCEED,
    UNCERTAIN,
    begins,
    completes,
    leaves,
    loops_hold,
    negated_between,
    negations_at,
    takes,
    unbound,
)
from engine.kernels.pairs.status import COMPLETE, OUT_OF_BUDGET, OUT_OF_CAPACITY, REFUSED, REFUSED_SKEW
from engine.kernels.programs.opcodes import MAX_STACK

IN_SEVERAL_GAPS = -3.0
_MOST_TERMS = 4_096
_PER_STEP = 40.0
"""Numbers that are computed for a confidence in the time of a step."""
_NEGATED_PER_STEP = 8
"""Negated events that are looked at in the time of a step."""
_ROUNDING = 1e-13
"""A difference of sums that is less is rounding."""


_DEPTH, _LENGTH, _WORK = range(3)
"""What the search knows of itself, int64 (3,): the prefix that it goes on with, -1 for none; events of the match that
it has come to; candidates looked at, and what confidences take in the time of one."""
_IS_MATCH, _IS_NONE, _IS_OVER = -1, -2, -3
"""Beside the statuses: the chain is a match if its last conditions hold, or is none; there is no other."""
_BOTH = -2
"""Of `following`: the first event may be the last one as well."""
_TAKE, _ON = 0, 1


class Around(NamedTuple):
    """What may be in a match. candidates, blocks, earliest: int64 (n,), see `search`; the first candidate of the block
    of each. negated: int64 (k,); negated_ok: bool (n_negations, n_rows). n_decided: int64 (n_steps + 1,), how many
    negations are decided when the component is bound. first, last: rows. least: confidences are above 0 and at least
    this. budget: see `search`."""

    candidates: Int64Array
    blocks: Int64Array
    earliest: Int64Array
    negated: Int64Array
    negated_ok: BoolArray
    n_decided: Int64Array
    first: int
    last: int
    least: float
    budget: int


class Prefixes(NamedTuple):
    """What is known of each prefix of the chain of events: index d is that of d + 1 events.

    - chain, steps int64 (depths,): the last event and its component; position: that of the event among the candidates,
      -1 for the first event.
    - rows int64 (depths, n_registers), aggregates float64 (depths, n_slots): as they are behind it.
    - wanted, following int64 (depths,): what comes next, `_TAKE` or `_ON`, and from which candidate on; `last` stands
      behind all of them.
    - mass float64 (depths,): how sure it is, the window left aside; before: how sure what comes before its open segment
      is, which begins at segment int64 (depths,).
    - row, slots, stack: scratch, the prefix that is tried.
    """

    chain: Int64Array
    steps: Int64Array
    position: Int64Array
    rows: Int64Array
    aggregates: Float64Array
    wanted: Int64Array
    following: Int64Array
    mass: Float64Array
    before: Float64Array
    segment: Int64Array
    row: Int64Array
    slots: Float64Array
    stack: Float64Array


class Found(NamedTuple):
    """Matches one after the other: confidences float64 (>= n,), offsets int64 (>= n + 1,), chain, steps int64."""

    confidences: Float64Array
    offsets: Int64Array
    chain: Int64Array
    steps: Int64Array


@kernel
def search(
    tables, events, begin_ok, take_ok, negated_ok, candidates, blocks, negated, first, last, threshold, budget,
    capacity, store,
):  # fmt: skip
    """All matches from `first` to `last` over `candidates` with confidence > 0 and >= threshold.

    begin_ok, take_ok: bool (n_steps, n_rows), local predicates and types. negated_ok: bool (n_negations, n_rows).
    candidates, blocks: int64 (n,), see `search_order`, without first and last. negated: int64 (k,), rows of negated
    types around. store: keep the matches (at most `capacity` of them), else count them.

    Returns (status, n_matches, n_work, confidences float64 (n_stored,), offsets int64 (n_stored + 1,), chain int64,
    steps int64, used bool (n_steps, n)): match k is chain[offsets[k] : offsets[k + 1]] with the component
    of each event in steps; without store the best match (confidence, then length, then first found) alone is stored.
    used: which candidate stands in which component of a match. n_work: candidates looked at, and what confidences take
    in the time of one.
    """
    around = Around(
        candidates, blocks, _earliest(blocks), negated, negated_ok, _n_decided(tables), first, last,
        max(threshold - TOLERANCE, 0.0), budget,
    )  # fmt: skip
    prefixes = _new_prefixes(tables, candidates.shape[0] + 3, last)
    found = Found(np.empty(16, np.float64), np.zeros(17, np.int64), np.empty(64, np.int64), np.empty(64, np.int64))
    used = np.zeros((tables.kleene.shape[0], candidates.shape[0]), np.bool_)
    state = np.zeros(3, np.int64)
    work = np.empty(2, np.float64)
    n_stored, n_matches = 0, 0
    best_confidence, best_length = -1.0, 0
    status = COMPLETE
    state[_DEPTH] = 0 if _begins(tables, events, begin_ok, around, prefixes) else -1
    while True:
        outcome = _next(tables, events, begin_ok, take_ok, around, prefixes, state)
        if outcome != _IS_MATCH:
            status = COMPLETE if outcome == _IS_OVER else OUT_OF_BUDGET
            break
        length = state[_LENGTH]
        work[0], work[1] = 0.0, _PER_STEP * (budget - state[_WORK] + 1.0)
        confidence = _confidence_of_match(
            tables, events, negated, negated_ok, prefixes.chain, prefixes.steps, length, first, last, prefixes.row,
            prefixes.slots, prefixes.stack, work,
        )  # fmt: skip
        state[_WORK] += _steps(work[0])
        if confidence == TOO_MUCH_WORK:
            status = OUT_OF_BUDGET
            break
        if confidence <= TOO_MUCH:
            status = REFUSED if confidence == IN_SEVERAL_GAPS else REFUSED_SKEW
            break
        if confidence <= 0.0 or confidence < around.least:
            continue
        if store and n_matches == capacity:
            status = OUT_OF_CAPACITY
            break
        n_matches += 1
        for k in range(1, state[_DEPTH] + 1):
            used[prefixes.steps[k], prefixes.position[k]] = True
        better = confidence > best_confidence + TOLERANCE or (
            confidence > best_confidence - TOLERANCE and length > best_length
        )
        if better:
            best_confidence, best_length = confidence, length
        if not store:
            if not better:
                continue
            n_stored = 0
        found = _with_capacity(found, n_stored, length)
        _add(found, n_stored, confidence, prefixes, length)
        n_stored += 1
    end = found.offsets[n_stored]
    return (
        status,
        n_matches,
        state[_WORK],
        found.confidences[:n_stored],
        found.offsets[: n_stored + 1],
        found.chain[:end],
        found.steps[:end],
        used,
    )


@kernel
def _earliest(blocks):
    earliest = np.zeros(blocks.shape[0] + 1, np.int64)
    for k in range(1, blocks.shape[0]):
        earliest[k] = earliest[k - 1] if blocks[k] == blocks[k - 1] else k
    return earliest


@kernel
def _n_decided(tables):
    n_decided = np.zeros(tables.kleene.shape[0] + 1, np.int64)
    for k in range(tables.negations.shape[0]):
        n_decided[tables.negations[k, 1]] += 1
    return n_decided


@kernel
def _new_prefixes(tables, n_depths, last):
    row = unbound(tables, last)
    n_slots = tables.kinds.shape[0]
    return Prefixes(
        np.empty(n_depths, np.int64), np.empty(n_depths, np.int64), np.full(n_depths, -1, np.int64),
        np.empty((n_depths, row.shape[0]), np.int64), np.full((n_depths, n_slots), np.nan),
        np.zeros(n_depths, np.int64), np.zeros(n_depths, np.int64), np.ones(n_depths, np.float64),
        np.ones(n_depths, np.float64), np.zeros(n_depths, np.int64), row, np.full(n_slots, np.nan),
        np.empty(MAX_STACK, np.float64),
    )  # fmt: skip


@leaf
def _begins(tables, events, begin_ok, around, prefixes):
    """Bind the first event; False when it begins no match."""
    first, row, slots, stack = around.first, prefixes.row, prefixes.slots, prefixes.stack
    if not (begin_ok[0, first] and begins(tables, events, 0, first, row, slots, stack)):
        return False
    prefixes.chain[0] = first
    prefixes.steps[0] = 0
    if not loops_hold(tables, events, 0, BEGIN, prefixes.chain, prefixes.steps, 0, row, slots, stack):
        return False
    decided = negations_at(tables, events, around.negated, around.negated_ok, 0, first, around.last, row, slots, stack)
    if decided == PRESENT:
        return False
    copy_to(prefixes.rows, 0, row)
    copy_to(prefixes.aggregates, 0, slots)
    prefixes.wanted[0] = _TAKE if tables.kleene[0] else _ON
    prefixes.following[0] = _BOTH if first == around.last else 0
    return True


@leaf
def _next(tables, events, begin_ok, take_ok, around, prefixes, state):
    """Go on to the next chain that ends in `last`: _IS_MATCH. _IS_OVER: there is none; OUT_OF_BUDGET."""
    n, n_steps = around.candidates.shape[0], tables.kleene.shape[0]
    while state[_DEPTH] >= 0:
        depth = state[_DEPTH]
        if prefixes.following[depth] == _BOTH:
            prefixes.following[depth] = n + 1
            state[_LENGTH] = 1
            if n_steps == 1:
                return _IS_MATCH
        elif prefixes.following[depth] > n:
            if prefixes.wanted[depth] == _ON or prefixes.steps[depth] + 1 >= n_steps or around.first == around.last:
                state[_DEPTH] = depth - 1
            else:
                prefixes.wanted[depth] = _ON
                prefixes.following[depth] = 0
        else:
            outcome = _tried(tables, events, begin_ok, take_ok, around, prefixes, state)
            if outcome != _IS_NONE:
                return outcome
    return _IS_OVER


@leaf
def _tried(tables, events, begin_ok, take_ok, around, prefixes, state):
    """Try the next candidate behind the prefix: it becomes a longer one, or _IS_MATCH. _IS_NONE otherwise, or
    OUT_OF_BUDGET."""
    n, n_steps = around.candidates.shape[0], tables.kleene.shape[0]
    depth = state[_DEPTH]
    step, is_on, at = prefixes.steps[depth], prefixes.wanted[depth] == _ON, prefixes.following[depth]
    if at == 0 and is_on and not _may_leave(tables, events, prefixes, depth):
        prefixes.following[depth] = n + 1
        return _IS_NONE
    if prefixes.position[depth] >= 0:
        at = max(at, around.earliest[prefixes.position[depth]])
    prefixes.following[depth] = at + 1
    target = step + 1 if is_on else step
    if target == n_steps - 1 and not tables.kleene[target] and at < n:  # `last` alone may be the one event of it
        prefixes.following[depth] = n
        return _IS_NONE
    if at == n and target != n_steps - 1:
        return _IS_NONE
    event = around.last if at == n else around.candidates[at]
    state[_WORK] += 1
    if state[_WORK] > around.budget:
        return OUT_OF_BUDGET
    allowed = begin_ok[target, event] if is_on else take_ok[target, event]
    if not allowed or not may_precede(events, prefixes.chain[depth], event):
        return _IS_NONE
    if at < n and not _is_new(prefixes.position, around.blocks, depth, at):
        return _IS_NONE
    # Confidence first: it is shared by all that follow.
    prefixes.chain[depth + 1] = event
    is_apart = separated(events, prefixes.chain[depth], event)
    mass = prefixes.mass[depth]
    if not is_apart:
        segment = prefixes.segment[depth]
        state[_WORK] += _steps(prefix_work(events, prefixes.chain, segment, depth + 2))
        if state[_WORK] > around.budget:
            return OUT_OF_BUDGET
        mass = prefix_mass(events, prefixes.chain, segment, depth + 2, prefixes.before[depth], mass)
    if mass <= 0.0 or mass < around.least:
        return _IS_NONE
    copy_from(prefixes.rows, depth, prefixes.row)
    copy_from(prefixes.aggregates, depth, prefixes.slots)
    if is_on:
        if not _goes_on(tables, events, around, prefixes, depth, target, event, state):
            return _IS_NONE
    elif not takes(tables, events, step, event, prefixes.row, prefixes.slots, prefixes.stack):
        return _IS_NONE
    prefixes.steps[depth + 1] = target
    if at == n:
        state[_LENGTH] = depth + 2
        return _IS_MATCH
    prefixes.segment[depth + 1] = depth + 1 if is_apart else prefixes.segment[depth]
    prefixes.before[depth + 1] = prefixes.mass[depth] if is_apart else prefixes.before[depth]
    prefixes.mass[depth + 1] = mass
    copy_to(prefixes.rows, depth + 1, prefixes.row)
    copy_to(prefixes.aggregates, depth + 1, prefixes.slots)
    prefixes.position[depth + 1] = at
    prefixes.wanted[depth + 1] = _TAKE if tables.kleene[target] else _ON
    prefixes.following[depth + 1] = 0
    state[_DEPTH] = depth + 1
    return _IS_NONE


@leaf
def _may_leave(tables, events, prefixes, depth):
    """Whether a prefix may go on to the next component."""
    step = prefixes.steps[depth]
    if step + 1 >= tables.kleene.shape[0]:
        return False
    row, slots, stack = prefixes.row, prefixes.slots, prefixes.stack
    copy_from(prefixes.rows, depth, row)
    copy_from(prefixes.aggregates, depth, slots)
    return leaves(tables, events, step, row, slots, stack) and loops_hold(
        tables, events, step, PROCEED, prefixes.chain, prefixes.steps, depth + 1, row, slots, stack
    )


@leaf
def _goes_on(tables, events, around, prefixes, depth, target, event, state):
    """Bind the event as the first of the component `target`; False when it cannot be, or what is negated is there."""
    row, slots, stack = prefixes.row, prefixes.slots, prefixes.stack
    if not begins(tables, events, target, event, row, slots, stack):
        return False
    if not loops_hold(tables, events, target, BEGIN, prefixes.chain, prefixes.steps, depth + 1, row, slots, stack):
        return False
    state[_WORK] += around.n_decided[target] * around.negated.shape[0] // _NEGATED_PER_STEP
    decided = negations_at(
        tables, events, around.negated, around.negated_ok, target, around.first, around.last, row, slots, stack
    )
    return decided != PRESENT


@kernel
def _with_capacity(found, n, length):
    """The same n matches with capacity for another one of so many events."""
    confidences, offsets, chain, steps = found
    if n == confidences.shape[0]:
        confidences = np.append(confidences, np.empty(n, np.float64))
        offsets = np.append(offsets, np.empty(n, np.int64))
    while offsets[n] + length > chain.shape[0]:
        chain = np.append(chain, np.empty(chain.shape[0], np.int64))
        steps = np.append(steps, np.empty(steps.shape[0], np.int64))
    return Found(confidences, offsets, chain, steps)


@leaf
def _add(found, n, confidence, prefixes, length):
    begin = found.offsets[n]
    for k in range(length):
        found.chain[begin + k] = prefixes.chain[k]
        found.steps[begin + k] = prefixes.steps[k]
    found.confidences[n] = confidence
    found.offsets[n + 1] = begin + length


@leaf
def _steps(work):
    """Numbers computed, as steps; int64."""
    return np.int64(min(work / _PER_STEP, 1e15))


@leaf
def _is_new(position, blocks, depth, at):
    """Whether the candidate is not in the chain yet; only events of its own block can come again."""
    for k in range(depth, 0, -1):
        if position[k] == at:
            return False
        if blocks[position[k]] != blocks[at]:
            return True
    return True


@kernel
def _confidence_of_match(
    tables, events, negated, negated_ok, chain, steps, length, first, last, rows, aggregates, stack, work
):
    """The confidence of a chain that ends in `last`; -1 when it is no match; IN_SEVERAL_GAPS, TOO_MUCH: refused.

    work: see `absence.absent_confidence`.
    """
    n_steps = tables.kleene.shape[0]
    if not leaves(tables, events, n_steps - 1, rows, aggregates, stack):
        return -1.0
    if not loops_hold(tables, events, n_steps - 1, PROCEED, chain, steps, length, rows, aggregates, stack):
        return -1.0
    if not completes(tables, events, rows, aggregates, stack):
        return -1.0
    found = ABSENT
    work[0] += 2.0 * negated.shape[0] * tables.negations.shape[0]
    for decided_at in range(n_steps + 1):
        found = max(
            found,
            negations_at(tables, events, negated, negated_ok, decided_at, first, last, rows, aggregates, stack),
        )
    if found == PRESENT:
        return -1.0
    if found == ABSENT:
        work[0] += match_work(events, chain, np.int64(0), length, tables.within_ms, MAX_EVALUATIONS)
        return TOO_MUCH_WORK if work[0] > work[1] else match_confidence(events, chain, length, tables.within_ms)
    work[0] += 4.0 * negated.shape[0] * tables.negations.shape[0]
    # Which events may stand in which gap, each once per gap; those of one event stand together.
    uncertain = np.empty(negated.shape[0] * tables.negations.shape[0], np.int64)
    gaps = np.empty(uncertain.shape[0], np.int64)
    n_uncertain = 0
    for row in negated:
        start = n_uncertain
        is_bound = False
        for k in range(length):
            is_bound = is_bound or chain[k] == row
        if is_bound:
            continue
        for k in range(tables.negations.shape[0]):
            after = tables.negations[k, 0]
            if not negated_ok[k, row]:
                continue
            left = rows[2 * after + 1] if after >= 0 else first
            right = rows[2 * after + 2] if after + 1 < n_steps else last
            answer = negated_between(tables, events, k, row, left, right, first, last, rows, aggregates, stack)
            if answer != UNCERTAIN:
                continue
            gap = -1
            for at in range(length):
                if steps[at] == after:
                    gap = at
            is_new = True
            for at in range(start, n_uncertain):
                is_new = is_new and gaps[at] != gap
            if is_new:
                uncertain[n_uncertain] = row
                gaps[n_uncertain] = gap
                n_uncertain += 1
    return _absent_from_all(events, chain, length, tables.within_ms, uncertain[:n_uncertain], gaps[:n_uncertain], work)


@kernel
def _absent_from_all(events, chain, length, within_ms, negated, gaps, work):
    """As `absent_match_confidence`, with the positions of one event together; IN_SEVERAL_GAPS with too many such
    events.

    An event is in one place at most, so that P(absent from all m) = sum of P(absent from one) - (m - 1): a product of
    such sums over the events, multiplied out.
    """
    n = negated.shape[0]
    first = np.empty(n + 1, np.int64)
    n_rows = 0
    n_terms = 1
    for k in range(n):
        if k == 0 or negated[k] != negated[k - 1]:
            first[n_rows] = k
            n_rows += 1
    first[n_rows] = n
    for k in range(n_rows):
        m = first[k + 1] - first[k]
        n_terms *= m + 1 if m > 1 else 1
        if n_terms > _MOST_TERMS:
            return IN_SEVERAL_GAPS
    if n_rows == n:
        return absent_match_confidence(events, chain, length, within_ms, negated, gaps, work)
    chosen = np.zeros(n_rows, np.int64)
    rows, positions = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
    result = 0.0
    for _ in range(n_terms):
        factor = 1.0
        n_chosen = 0
        for k in range(n_rows):
            at = first[k] + chosen[k]
            if at < first[k + 1]:
                rows[n_chosen] = negated[at]
                positions[n_chosen] = gaps[at]
                n_chosen += 1
            else:
                factor *= 1.0 - (first[k + 1] - first[k])
        found = absent_match_confidence(events, chain, length, within_ms, rows[:n_chosen], positions[:n_chosen], work)
        if found <= TOO_MUCH:  # or TOO_MUCH_WORK
            return found
        result += factor * found
        k = 0
        while k < n_rows:
            m = first[k + 1] - first[k]
            chosen[k] += 1
            if chosen[k] < (m + 1 if m > 1 else 1):
                break
            chosen[k] = 0
            k += 1
    return result if result > _ROUNDING else 0.0


__all__ = ["TOLERANCE", "search"]
