"""Depth first construction of the matches between one first and one last event (SASE++ 5.1, "result construction").

Exact for every predicate. The work per match is linear in the match for local and pairwise predicates and those that
stay false once they are false; a bound on the number of steps ends the search of others.
"""

from __future__ import annotations

import numpy as np

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


@kernel
def search(
    tables,
    events,
    begin_ok,
    take_ok,
    negated_ok,
    candidates,
    blocks,
    negated,
    first,
    last,
    threshold,
    budget,
    capacity,
    store,
):
    """All matches from `first` to `last` over `candidates` with confidence > 0 and >= threshold.

    begin_ok, take_ok: bool (n_steps, n_rows), local predicates and types. negated_ok: bool (n_negations, n_rows).
    candidates, blocks: int64 (n,), see `search_order`, without first and last. negated: int64 (k,), rows of negated
    types around. store: keep the matches (at most `capacity` of them), else count them.

    Returns (status, n_matches, n_work, confidences float64 (n_stored,), offsets int64 (n_stored + 1,), chain int64,
    steps int64, used bool (n_steps, n), best int64): match k is chain[offsets[k] : offsets[k + 1]] with the component
    of each event in steps; without store the best match (confidence, then length, then first found) alone is stored.
    used: which candidate stands in which component of a match. n_work: candidates looked at, and what confidences take
    in the time of one.
    """
    n = candidates.shape[0]
    n_steps = tables.kleene.shape[0]
    n_slots = tables.kinds.shape[0]
    depth_limit = n + 3
    stack = np.empty(MAX_STACK, np.float64)
    base_rows = unbound(tables, last)
    rows = np.empty((depth_limit, base_rows.shape[0]), np.int64)
    aggregates = np.full((depth_limit, n_slots), np.nan)
    scratch = base_rows.copy()
    scratch_aggregates = np.full(n_slots, np.nan)
    chain = np.empty(depth_limit, np.int64)
    steps = np.empty(depth_limit, np.int64)
    position = np.full(depth_limit, -1, np.int64)
    phase = np.zeros(depth_limit, np.int64)  # 0: take another, 1: go on to the next component
    following = np.zeros(depth_limit, np.int64)  # next candidate to look at; n stands for `last`
    mass = np.ones(depth_limit, np.float64)
    segment = np.zeros(depth_limit, np.int64)
    before_segment = np.ones(depth_limit, np.float64)
    work = np.empty(2, np.float64)
    n_decided = np.zeros(n_steps + 1, np.int64)
    for k in range(tables.negations.shape[0]):
        n_decided[tables.negations[k, 1]] += 1
    starts = np.zeros(n + 1, np.int64)
    for k in range(1, n):
        starts[k] = starts[k - 1] if blocks[k] == blocks[k - 1] else k
    used = np.zeros((n_steps, n), np.bool_)
    confidences = np.empty(16, np.float64)
    offsets = np.zeros(17, np.int64)
    out_chain = np.empty(64, np.int64)
    out_steps = np.empty(64, np.int64)
    n_stored = 0
    n_matches = 0
    n_work = 0
    best_confidence = -1.0
    best_length = 0
    status = COMPLETE
    least = max(threshold - TOLERANCE, 0.0)

    depth = -1
    ok = begin_ok[0, first] and begins(tables, events, 0, first, scratch, scratch_aggregates, stack)
    if ok:
        chain[0] = first
        steps[0] = 0
        ok = loops_hold(tables, events, 0, BEGIN, chain, steps, 0, scratch, scratch_aggregates, stack)
    if ok:
        decided = negations_at(tables, events, negated, negated_ok, 0, first, last, scratch, scratch_aggregates, stack)
        ok = decided != PRESENT
    if ok:
        depth = 0
        rows[0] = scratch
        aggregates[0] = scratch_aggregates
        position[0] = -1
        phase[0] = 0 if tables.kleene[0] else 1
        following[0] = -2 if first == last else 0
    while depth >= 0:
        i = chain[depth]
        step = steps[depth]
        complete = False
        if following[depth] == -2:  # the first event is the last one as well
            following[depth] = n + 1
            complete = n_steps == 1
            length = 1
        elif following[depth] > n:
            if phase[depth] == 1 or step + 1 >= n_steps or first == last:
                depth -= 1
            else:
                phase[depth] = 1
                following[depth] = 0
            continue
        else:
            at = following[depth]
            if at == 0 and phase[depth] == 1:
                scratch[:] = rows[depth]
                scratch_aggregates[:] = aggregates[depth]
                if (
                    step + 1 >= n_steps
                    or not leaves(tables, events, step, scratch, scratch_aggregates, stack)
                    or not loops_hold(
                        tables, events, step, PROCEED, chain, steps, depth + 1, scratch, scratch_aggregates, stack
                    )
                ):
                    following[depth] = n + 1
                    continue
            if position[depth] >= 0 and at < starts[position[depth]]:
                at = starts[position[depth]]
            following[depth] = at + 1
            target = step if phase[depth] == 0 else step + 1
            only_last = target == n_steps - 1 and not tables.kleene[target]
            if only_last and at < n:
                following[depth] = n
                continue
            j = last if at == n else candidates[at]
            if at == n and target != n_steps - 1:
                continue
            n_work += 1
            if n_work > budget:
                status = OUT_OF_BUDGET
                break
            allowed = take_ok[target, j] if phase[depth] == 0 else begin_ok[target, j]
            if not allowed or not may_precede(events, i, j):
                continue
            if at < n and not _is_new(position, blocks, depth, at):
                continue
            # Confidence first: it is shared by all that follow.
            chain[depth + 1] = j
            known = separated(events, i, j)
            if known:
                new_mass = mass[depth]
            else:
                n_work += _steps(prefix_work(events, chain, segment[depth], depth + 2))
                if n_work > budget:
                    status = OUT_OF_BUDGET
                    break
                new_mass = prefix_mass(events, chain, segment[depth], depth + 2, before_segment[depth], mass[depth])
            if new_mass <= 0.0 or new_mass < least:
                continue
            scratch[:] = rows[depth]
            scratch_aggregates[:] = aggregates[depth]
            if phase[depth] == 0:
                ok = takes(tables, events, step, j, scratch, scratch_aggregates, stack)
            else:
                ok = begins(tables, events, target, j, scratch, scratch_aggregates, stack)
                if ok:
                    ok = loops_hold(
                        tables, events, target, BEGIN, chain, steps, depth + 1, scratch, scratch_aggregates, stack
                    )
                if ok:
                    n_work += n_decided[target] * negated.shape[0] // _NEGATED_PER_STEP
                    decided = negations_at(
                        tables, events, negated, negated_ok, target, first, last, scratch, scratch_aggregates, stack
                    )
                    ok = decided != PRESENT
            if not ok:
                continue
            if at < n:
                depth += 1
                rows[depth] = scratch
                aggregates[depth] = scratch_aggregates
                steps[depth] = target
                position[depth] = at
                phase[depth] = 0 if tables.kleene[target] else 1
                following[depth] = 0
                mass[depth] = new_mass
                segment[depth] = depth if known else segment[depth - 1]
                before_segment[depth] = mass[depth - 1] if known else before_segment[depth - 1]
                continue
            steps[depth + 1] = target
            length = depth + 2
            complete = True
        if not complete:
            continue
        work[0], work[1] = 0.0, _PER_STEP * (budget - n_work + 1.0)
        confidence = _confidence_of_match(
            tables, events, negated, negated_ok, chain, steps, length, first, last, scratch, scratch_aggregates, stack,
            work,
        )  # fmt: skip
        n_work += _steps(work[0])
        if confidence == TOO_MUCH_WORK:
            status = OUT_OF_BUDGET
            break
        if confidence <= TOO_MUCH:
            status = REFUSED if confidence == IN_SEVERAL_GAPS else REFUSED_SKEW
            break
        if confidence <= 0.0 or confidence < least:
            continue
        if store and n_matches == capacity:
            status = OUT_OF_CAPACITY
            break
        n_matches += 1
        for k in range(1, depth + 1):
            used[steps[k], position[k]] = True
        better = confidence > best_confidence + TOLERANCE or (
            confidence > best_confidence - TOLERANCE and length > best_length
        )
        if better:
            best_confidence = confidence
            best_length = length
        if not store:
            if not better:
                continue
            n_stored = 0
        if n_stored == confidences.shape[0]:
            confidences = np.append(confidences, np.empty(n_stored, np.float64))
            offsets = np.append(offsets, np.empty(n_stored, np.int64))
        end = offsets[n_stored] + length
        while end > out_chain.shape[0]:
            out_chain = np.append(out_chain, np.empty(out_chain.shape[0], np.int64))
            out_steps = np.append(out_steps, np.empty(out_steps.shape[0], np.int64))
        out_chain[offsets[n_stored] : end] = chain[:length]
        out_steps[offsets[n_stored] : end] = steps[:length]
        confidences[n_stored] = confidence
        n_stored += 1
        offsets[n_stored] = end
    end = offsets[n_stored]
    return (
        status,
        n_matches,
        n_work,
        confidences[:n_stored],
        offsets[: n_stored + 1],
        out_chain[:end],
        out_steps[:end],
        used,
    )


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
