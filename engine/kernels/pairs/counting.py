"""Counting without listing: dynamic programming over the prefixes of matches between one first and one last event.

Two prefixes that end in the same event of the same component are alike for everything that follows when all that later
predicates read of them (registers, aggregates) is equal and their confidence continues alike. A label stands for all
prefixes that are alike (`labels.py`), with their number and the longest of them. For local and pairwise predicates,
b[1], bounds on count(b[]), min and max there are polynomially many labels, whatever the number of matches; for sums and
averages there may be as many as prefixes, and the budget ends the work.

Events are taken block by block (`ordering.search_order`): every label of a block is complete before one of a later
block is extended. Inside a block of several events, whose order is open, prefixes are alike only with equal histories.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.kernels.compile.types import BoolArray, Int64Array
from engine.kernels.compile.ways import inlined, kernel, leaf
from engine.kernels.confidence.ordering import may_precede, separated
from engine.kernels.confidence.sequences import chain_confidence
from engine.kernels.pairs.labels import (
    AT,
    BEST_LABEL,
    BEST_LENGTH,
    BLOCK,
    CLASS,
    CLASS_BEFORE,
    CLASS_POSITION,
    HEAD_CLASS,
    KIND,
    LABEL,
    LENGTH,
    LINKS_COMPLETE,
    MOST,
    N_CLASSES,
    N_LABELS,
    N_LINKS,
    N_MATCHES,
    N_STATE,
    N_WORK,
    NEXT,
    PHASE,
    POSITION,
    STEP,
    Search,
    class_of,
    copy_from,
    label_of,
    more_classes,
    more_labels,
    new_classes,
    new_labels,
    wider_table,
    write_chain,
    write_label,
)
from engine.kernels.pairs.search import TOLERANCE
from engine.kernels.pairs.state import (
    ABSENT,
    TAKE,
    UNCERTAIN,
    begins,
    completes,
    count_in,
    leaves,
    n_negated_at,
    negations_at,
    takes,
    unbound,
)
from engine.kernels.pairs.status import COMPLETE, NEEDS_SEARCH, OUT_OF_BUDGET
from engine.kernels.programs.opcodes import MAX_STACK

MAX_LINKS = 1 << 23
_NEGATED_PER_STEP = 2
"""So many negated events are looked at in the time of a step."""
_MOST_NUMBERS = 1 << 25
"""Numbers that labels of one pair may take: 256 MiB."""
_NEEDS_CAPACITY = -1
"""Beside the statuses: the search goes on where it is when labels, classes and links have room for one more."""
_TAKES = 0
_BEGINS = 1
"""Phases of a label: another event of its component, then one of the next component."""
_NO_LABEL = -2
_ONE_EVENT = -1
"""In place of the label of the best match: there is none; it is the one event that is first and last."""


class EdgeMasks(NamedTuple):
    """Local predicates and types: begin, take bool (n_steps, n_rows), negated bool (n_negations, n_rows)."""

    begin: BoolArray
    take: BoolArray
    negated: BoolArray


class PairEvents(NamedTuple):
    """The rows of a pair and those around it.

    candidates, blocks int64 (n,): see `search_order`, without first and last. negated int64 (k,): rows of negated types
    around.
    """

    first: int
    last: int
    candidates: Int64Array
    blocks: Int64Array
    negated: Int64Array


class _Bounds(NamedTuple):
    """What a search may take and find: the least confidence, the steps. window_open: the window is not certain. single:
    each confidence is 1. links_wanted: see `count`. may_grow: there may be more labels than there is room for."""

    least: float
    budget: int
    window_open: bool
    single: bool
    links_wanted: bool
    may_grow: bool


@kernel
def count(tables, events, masks, pair, threshold, budget, precise, links_wanted):
    """Number, best and events of all matches from first to last with confidence > 0 and >= threshold.

    tables: `pairs.state.Tables`, loops must be empty. masks: `EdgeMasks`. pair: `PairEvents`. budget: steps. precise:
    no interval is longer than a millisecond. links_wanted: find which candidates stand in a match.

    Returns (status, n_matches, n_work, best_confidence, chain int64 (k,), steps int64 (k,), used bool (n_steps, n),
    used_exact): the best match (confidence, then length) and the candidates by component; n_matches is MOST when there
    are at least that many. used_exact is False when `used` may hold too many.
    """
    search = _new_search(tables, events, pair)
    n_registers, n_slots = search.rows.shape[0], search.aggregates.shape[0]
    labels = new_labels(n_registers, n_slots)
    classes = new_classes()
    links = np.empty((64, 2), np.int32)
    least = max(threshold - TOLERANCE, 0.0)
    window_open = events.hi_ms[pair.last] - events.lo_ms[pair.first] > tables.within_ms
    single = precise and not window_open
    numbers = 3 * n_registers + 2 * n_slots + 8
    status = _begin(tables, events, masks, pair, labels, classes, search)
    capacity = labels.counts.shape[0]
    bounds = _Bounds(least, budget, window_open, single, links_wanted, 2 * capacity * numbers <= _MOST_NUMBERS)
    if status == COMPLETE:
        status = _extend_labels(tables, events, masks, pair, bounds, labels, classes, links, search)
    while status == _NEEDS_CAPACITY:
        if bounds.may_grow and search.state[N_LABELS] == capacity:
            labels = more_labels(labels)
            capacity = labels.counts.shape[0]
            bounds = _Bounds(least, budget, window_open, single, links_wanted, 2 * capacity * numbers <= _MOST_NUMBERS)
        if 2 * search.state[N_LABELS] > labels.table.shape[0]:
            labels = wider_table(labels, search.state[N_LABELS])
        if search.state[N_CLASSES] == classes.mass.shape[0]:
            classes = more_classes(classes)
        if search.state[N_LINKS] == links.shape[0] and links.shape[0] < MAX_LINKS:
            links = np.concatenate((links, np.empty_like(links)))
        status = _extend_labels(tables, events, masks, pair, bounds, labels, classes, links, search)
    used_exact = search.state[LINKS_COMPLETE] != 0 and status == COMPLETE
    used = np.zeros((tables.kleene.shape[0], pair.candidates.shape[0]), np.bool_)
    _mark_used(labels, links, search.state, used, used_exact)
    length = _write_best(tables, pair, labels, search)
    return (
        status,
        search.state[N_MATCHES],
        search.state[N_WORK],
        search.best[0],
        search.chain[:length],
        search.steps[:length],
        used,
        used_exact,
    )


@kernel
def _new_search(tables, events, pair):
    n, n_steps, n_slots = pair.candidates.shape[0], tables.kleene.shape[0], tables.kinds.shape[0]
    bits = np.zeros(n_slots + 1, np.float64)
    search = Search(
        np.zeros(n, np.int64),
        np.zeros((n, n), np.uint8),
        np.zeros(n_steps, np.bool_),
        np.full(n + 1, -1, np.int64),
        np.full(n + 1, -1, np.int64),
        np.zeros(N_STATE, np.int64),
        np.full(1, -1.0),
        unbound(tables, pair.last),
        np.full(n_slots, np.nan),
        np.empty(n + 3, np.int64),
        np.empty(n + 3, np.int64),
        np.empty(MAX_STACK, np.float64),
        bits,
        bits.view(np.int64),
    )
    _compare(tables, events, pair, search)
    return search


@leaf
def _compare(tables, events, pair, search):
    """Blocks, what may follow what, looked up for every label, and which steps take events without a condition."""
    candidates, starts = pair.candidates, search.starts
    n = candidates.shape[0]
    for k in range(1, n):
        starts[k] = starts[k - 1] if pair.blocks[k] == pair.blocks[k - 1] else k
    for k in range(n):
        for to in range(starts[k], n):
            if to != k and may_precede(events, candidates[k], candidates[to]):
                search.order[k, to] = 2 if separated(events, candidates[k], candidates[to]) else 1
    for k in range(tables.kleene.shape[0]):
        search.unconditional[k] = tables.edges[k, TAKE, 0] == tables.edges[k, TAKE, 1]
        for number in range(tables.hoisted.shape[0]):
            search.unconditional[k] &= tables.hoisted[number, 0] != k
        for number in range(tables.falling.shape[0]):
            search.unconditional[k] &= tables.falling[number, 0] != k


@leaf
def _begin(tables, events, masks, pair, labels, classes, search):
    """The label of the first event, or the match of one event that is both ends; whether something is uncertain."""
    state, rows, aggregates, stack, first = search.state, search.rows, search.aggregates, search.stack, pair.first
    state[BLOCK] = -1  # the label of `first`
    state[LABEL] = -1
    state[AT] = -1
    state[LINKS_COMPLETE] = 1
    state[BEST_LABEL] = _NO_LABEL
    if not masks.begin[0, first] or not begins(tables, events, 0, first, rows, aggregates, stack):
        return COMPLETE
    decided = _negated_at(tables, events, masks, pair, 0, search)
    if decided != ABSENT:
        return NEEDS_SEARCH if decided == UNCERTAIN else COMPLETE
    if first == pair.last:
        if tables.kleene.shape[0] > 1:
            return COMPLETE
        decided = _negated_at(tables, events, masks, pair, 1, search)
        ends = leaves(tables, events, 0, rows, aggregates, stack) and completes(tables, events, rows, aggregates, stack)
        if ends and decided == ABSENT:
            state[N_MATCHES] = 1
            search.best[0] = 1.0
            state[BEST_LABEL] = _ONE_EVENT
        return NEEDS_SEARCH if decided == UNCERTAIN else COMPLETE
    classes.keys[0, KIND] = 0
    classes.keys[0, CLASS_POSITION] = -1
    classes.keys[0, CLASS_BEFORE] = -1
    classes.keys[0, HEAD_CLASS] = -1
    classes.mass[0] = 1.0
    classes.before[0] = 1.0
    classes.length[0] = 1
    classes.confidence[0] = np.nan
    state[N_CLASSES] = 1
    write_label(labels, search, 0, 0, -1, 0, -1, 1, 1)
    state[N_LABELS] = 1
    state[LABEL] = 0
    return COMPLETE


@leaf
def _extend_labels(tables, events, masks, pair, bounds, labels, classes, links, search):
    """Extend the labels of the pair block by block, from where `search.state` says; the status."""
    state = search.state
    n = pair.candidates.shape[0]
    final = tables.kleene.shape[0] - 1
    while state[BLOCK] <= n:
        label = state[LABEL]
        if label < 0:
            state[BLOCK] += 1
            if state[BLOCK] >= n:
                break
            state[LABEL] = search.heads[state[BLOCK]]
            continue
        while state[PHASE] <= _BEGINS:
            phase = state[PHASE]
            target = labels.fields[label, STEP] + phase
            if state[AT] < 0:
                state[AT] = _first_position(tables, events, labels, search, label, phase, n)
            for here in range(state[AT], n + 1 if target == final else n):
                if here < n and _is_full(bounds, labels, classes, links, state):
                    state[AT] = here
                    return _NEEDS_CAPACITY
                status = _extend(
                    tables, events, masks, pair, bounds, labels, classes, links, search, label, phase, here
                )  # fmt: skip
                if status != COMPLETE:
                    return status
            state[PHASE] += 1
            state[AT] = -1
        state[PHASE] = _TAKES
        state[LABEL] = labels.fields[label, NEXT]
    return COMPLETE


@inlined
def _is_full(bounds, labels, classes, links, state):
    """Whether there is no room for one more label, class or link though there may be more."""
    return (
        (state[N_LABELS] == labels.counts.shape[0] and bounds.may_grow)
        or 2 * state[N_LABELS] > labels.table.shape[0]
        or state[N_CLASSES] == classes.mass.shape[0]
        or (state[N_LINKS] == links.shape[0] and links.shape[0] < MAX_LINKS)
    )


@inlined
def _first_position(tables, events, labels, search, label, phase, n):
    """The first candidate that a label is extended by, n: by the last event alone, n + 1: by none."""
    step, position = labels.fields[label, STEP], labels.fields[label, POSITION]
    final = tables.kleene.shape[0] - 1
    if phase == _TAKES:
        if not tables.kleene[step]:
            return n + 1
    else:
        if step == final:
            return n + 1
        copy_from(labels.rows, label, search.rows)
        copy_from(labels.aggregates, label, search.aggregates)
        if not leaves(tables, events, step, search.rows, search.aggregates, search.stack):
            return n + 1
        if step + 1 == final and not tables.kleene[final]:
            return n
    return search.starts[position] if position >= 0 else 0


@inlined
def _extend(tables, events, masks, pair, bounds, labels, classes, links, search, label, phase, here):
    """Extend a label by a candidate, or by the last event (here == n): the status, COMPLETE also where it cannot be."""
    state = search.state
    n = pair.candidates.shape[0]
    target, position = labels.fields[label, STEP] + phase, labels.fields[label, POSITION]
    j = pair.last if here == n else pair.candidates[here]
    state[N_WORK] += 1
    if state[N_WORK] > bounds.budget:
        return OUT_OF_BUDGET
    if not (masks.begin[target, j] if phase == _BEGINS else masks.take[target, j]):
        return COMPLETE
    relation = _relation(events, pair, search, position, here, j)
    if relation == 0:
        return COMPLETE
    copy_from(labels.rows, label, search.rows)
    copy_from(labels.aggregates, label, search.aggregates)
    if phase == _TAKES:
        if not _takes(tables, events, search, target, j):
            return COMPLETE
    else:
        if not begins(tables, events, target, j, search.rows, search.aggregates, search.stack):
            return COMPLETE
        decided = _paid_negated_at(tables, events, masks, pair, target, search)
        if decided != ABSENT:
            return NEEDS_SEARCH if decided == UNCERTAIN else COMPLETE
    if here == n:
        return _end(tables, events, masks, pair, bounds, labels, classes, search, label, target)
    of = np.int64(0)
    if not bounds.single:
        of = class_of(events, pair, bounds, classes, search, labels.fields[label, CLASS], position, here, relation)
        if of < 0:
            return COMPLETE
    to = label_of(tables, labels, search, label, target, here, of)
    if to < 0:
        return OUT_OF_BUDGET
    if bounds.links_wanted and state[LINKS_COMPLETE] != 0:
        at = state[N_LINKS]
        if at == links.shape[0]:
            state[LINKS_COMPLETE] = 0
        else:
            links[at, 0] = label
            links[at, 1] = to
            state[N_LINKS] = at + 1
    return COMPLETE


@inlined
def _relation(events, pair, search, position, here, j):
    """2 if the event j comes after that at a position, 1 if it may, 0 if it cannot."""
    if position >= 0 and here < pair.candidates.shape[0]:
        return np.int64(search.order[position, here])
    i = pair.first if position < 0 else pair.candidates[position]
    if not may_precede(events, i, j):
        return np.int64(0)
    return np.int64(2) if separated(events, i, j) else np.int64(1)


@inlined
def _takes(tables, events, search, step, j):
    """As `state.takes`, shorter where that asks nothing."""
    rows, aggregates = search.rows, search.aggregates
    if not search.unconditional[step]:
        return takes(tables, events, step, j, rows, aggregates, search.stack)
    rows[rows.shape[0] - 1] = j
    rows[2 * step + 1] = j
    if aggregates.shape[0] > 0:
        count_in(
            tables.kinds, tables.owners, tables.slot_columns, tables.bases, tables.caps, step, events.columns, j,
            aggregates,
        )  # fmt: skip
    return True


@inlined
def _negated_at(tables, events, masks, pair, decided_at, search):
    """What is known of the negations that are decided at a component."""
    if tables.negations.shape[0] == 0:
        return ABSENT
    return negations_at(
        tables, events, pair.negated, masks.negated, decided_at, pair.first, pair.last, search.rows, search.aggregates,
        search.stack,
    )  # fmt: skip


@inlined
def _paid_negated_at(tables, events, masks, pair, decided_at, search):
    """As `_negated_at`; what is looked at counts as work."""
    if tables.negations.shape[0] == 0:
        return ABSENT
    n_visits = n_negated_at(tables, events, pair.negated, decided_at, pair.first, pair.last, search.rows)
    search.state[N_WORK] += n_visits // _NEGATED_PER_STEP
    return _negated_at(tables, events, masks, pair, decided_at, search)


@inlined
def _end(tables, events, masks, pair, bounds, labels, classes, search, label, target):
    """The prefix at hand, a label with the last event behind it, is a match if the rest holds; the status."""
    state = search.state
    if not leaves(tables, events, target, search.rows, search.aggregates, search.stack):
        return COMPLETE
    if not completes(tables, events, search.rows, search.aggregates, search.stack):
        return COMPLETE
    decided = _paid_negated_at(tables, events, masks, pair, tables.kleene.shape[0], search)
    if decided != ABSENT:
        return NEEDS_SEARCH if decided == UNCERTAIN else COMPLETE
    of = labels.fields[label, CLASS]
    confidence = 1.0
    if not bounds.single:
        if np.isnan(classes.confidence[of]):
            length = write_chain(labels.fields, pair.candidates, pair.first, label, search.chain, search.steps)
            search.chain[length] = pair.last
            classes.confidence[of] = chain_confidence(events, search.chain, length + 1, tables.within_ms)
        confidence = classes.confidence[of]
    if confidence <= 0.0 or confidence < bounds.least:
        return COMPLETE
    state[N_MATCHES] = min(state[N_MATCHES] + labels.counts[label], MOST)
    labels.useful[label] = True
    length = labels.fields[label, LENGTH] + 1
    if confidence > search.best[0] + TOLERANCE or (
        confidence > search.best[0] - TOLERANCE and length > state[BEST_LENGTH]
    ):
        search.best[0] = confidence
        state[BEST_LENGTH] = length
        state[BEST_LABEL] = label
    return COMPLETE


@leaf
def _mark_used(labels, links, state, used, exact):
    """Mark the candidates of labels that a match comes of; of all of them unless `exact`."""
    if state[LINKS_COMPLETE] != 0:
        for k in range(state[N_LINKS] - 1, -1, -1):
            if labels.useful[links[k, 1]]:
                labels.useful[links[k, 0]] = True
    for k in range(1, state[N_LABELS]):
        if labels.useful[k] or not exact:
            used[labels.fields[k, STEP], labels.fields[k, POSITION]] = True


@leaf
def _write_best(tables, pair, labels, search):
    """Write the best match to chain and steps of the search; its length, 0 without one."""
    chain, steps, label = search.chain, search.steps, search.state[BEST_LABEL]
    if label == _NO_LABEL:
        return 0
    if label == _ONE_EVENT:
        chain[0] = pair.first
        steps[0] = 0
        return 1
    length = write_chain(labels.fields, pair.candidates, pair.first, label, chain, steps)
    chain[length] = pair.last
    steps[length] = tables.kleene.shape[0] - 1
    return length + 1


__all__ = ["MAX_LINKS", "EdgeMasks", "PairEvents", "count"]
