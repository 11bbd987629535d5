"""Counting without listing: dynamic programming over the prefixes of matches between one first and one last event.

Two prefixes that end in the same event of the same component are alike for everything that follows when all that later
predicates read of them (registers, aggregates) is equal and their confidence continues alike. A label stands for all
prefixes that are alike, with their number and the longest of them. For local and pairwise predicates, b[1], bounds on
count(b[]), min and max there are polynomially many labels, whatever the number of matches; for sums and averages there
may be as many as prefixes, and the budget ends the work.

Events are taken block by block (`ordering.search_order`): every label of a block is complete before one of a later
block is extended. Inside a block of several events, whose order is open, prefixes are alike only with equal histories.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.columns.hashing import hash_class, hash_label
from engine.kernels.compile.types import BoolArray, Float64Array, Int64Array
from engine.kernels.compile.ways import inlined, kernel, leaf
from engine.kernels.confidence.ordering import may_precede, separated
from engine.kernels.confidence.sequences import chain_confidence, chain_mass
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

MOST = 2**62 - 1  # counts stop here; the sum of two still fits
MAX_LINKS = 1 << 23
_NEGATED_PER_STEP = 2
"""So many negated events are looked at in the time of a step."""
_MOST_NUMBERS = 1 << 25
"""Numbers that labels of one pair may take: 256 MiB."""

_NEEDS_ROOM = -1
"""Beside the statuses: the search goes on where it is when labels, classes and links have room for one more."""

# Columns of the fields of labels.
_STEP = 0
_POSITION = 1
_CLASS = 2
_PREDECESSOR = 3
_LENGTH = 4
_NEXT = 5

# Columns of the keys of classes.
_KIND = 0
_CLASS_POSITION = 1
_CLASS_BEFORE = 2
_MASS_BITS = 3
_HEAD_CLASS = 4

# Entries of the state of a search.
_BLOCK = 0
_LABEL = 1
_PHASE = 2
_AT = 3
_N_LABELS = 4
_N_CLASSES = 5
_N_LINKS = 6
_LINKS_COMPLETE = 7
_N_WORK = 8
_N_MATCHES = 9
_BEST_LABEL = 10
_BEST_LENGTH = 11
_N_STATE = 12

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


class _Labels(NamedTuple):
    """Labels: fields int64 (c, 6): _STEP, _POSITION (-1 for `first`), _CLASS, _PREDECESSOR, _LENGTH, _NEXT of the
    block; counts int64 (c,): of their prefixes.

    keys int64 (c, n_registers + n_slots): what later predicates read, 0 elsewhere. rows int64 (c, n_registers),
    aggregates float64 (c, n_slots). useful bool (c,): some match comes of it. table int64 (a power of two,): open
    addressing, -1: empty; label 0 is not in it.
    """

    fields: Int64Array
    counts: Int64Array
    keys: Int64Array
    rows: Int64Array
    aggregates: Float64Array
    useful: BoolArray
    table: Int64Array


class _Classes(NamedTuple):
    """Classes of confidence: keys int64 (c, 5): _KIND, _CLASS_POSITION, _CLASS_BEFORE (the class of the open segment
    without its last event), _MASS_BITS (of the mass before), _HEAD_CLASS.

    mass float64 (c,): of the prefix; before float64 (c,): of what comes before the open segment; length int64 (c,): of
    that segment; confidence float64 (c,): of the prefix with `last` added, NaN: not known yet. table: as of labels.
    """

    keys: Int64Array
    mass: Float64Array
    before: Float64Array
    length: Int64Array
    confidence: Float64Array
    table: Int64Array


class _Search(NamedTuple):
    """What the search of a pair keeps beside labels and classes.

    starts int64 (n,): first position of the block of each candidate. order uint8 (n, n): 1 where one may come before
    the other, 2 where it does. unconditional bool (n_steps,): taking an event asks nothing. heads, tails int64
    (n + 1,): first and last label of each block, by its first position. state int64 (_N_STATE,), best float64 (1,): how
    far it is, the best confidence. rows int64 (n_registers,), aggregates float64 (n_slots,): of the prefix at hand.
    chain, steps int64 (n + 3,), stack float64 (MAX_STACK,): scratch. bits float64 (n_slots + 1,), as_int int64
    (n_slots + 1,): scratch, the same memory.
    """

    starts: Int64Array
    order: npt.NDArray[np.uint8]
    unconditional: BoolArray
    heads: Int64Array
    tails: Int64Array
    state: Int64Array
    best: Float64Array
    rows: Int64Array
    aggregates: Float64Array
    chain: Int64Array
    steps: Int64Array
    stack: Float64Array
    bits: Float64Array
    as_int: Int64Array


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
    labels = _new_labels(n_registers, n_slots)
    classes = _new_classes()
    links = np.empty((64, 2), np.int32)
    least = max(threshold - TOLERANCE, 0.0)
    window_open = events.hi_ms[pair.last] - events.lo_ms[pair.first] > tables.within_ms
    single = precise and not window_open
    numbers = 3 * n_registers + 2 * n_slots + 8
    status = _begin(tables, events, masks, pair, labels, classes, search)
    room = labels.counts.shape[0]
    bounds = _Bounds(least, budget, window_open, single, links_wanted, 2 * room * numbers <= _MOST_NUMBERS)
    if status == COMPLETE:
        status = _extend_labels(tables, events, masks, pair, bounds, labels, classes, links, search)
    while status == _NEEDS_ROOM:
        if bounds.may_grow and search.state[_N_LABELS] == room:
            labels = _more_labels(labels)
            room = labels.counts.shape[0]
            bounds = _Bounds(least, budget, window_open, single, links_wanted, 2 * room * numbers <= _MOST_NUMBERS)
        if 2 * search.state[_N_LABELS] > labels.table.shape[0]:
            labels = _wider_table(labels, search.state[_N_LABELS])
        if search.state[_N_CLASSES] == classes.mass.shape[0]:
            classes = _more_classes(classes)
        if search.state[_N_LINKS] == links.shape[0] and links.shape[0] < MAX_LINKS:
            links = np.concatenate((links, np.empty_like(links)))
        status = _extend_labels(tables, events, masks, pair, bounds, labels, classes, links, search)
    used_exact = search.state[_LINKS_COMPLETE] != 0 and status == COMPLETE
    used = np.zeros((tables.kleene.shape[0], pair.candidates.shape[0]), np.bool_)
    _mark_used(labels, links, search.state, used, used_exact)
    length = _write_best(tables, pair, labels, search)
    return (
        status,
        search.state[_N_MATCHES],
        search.state[_N_WORK],
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
    search = _Search(
        np.zeros(n, np.int64),
        np.zeros((n, n), np.uint8),
        np.zeros(n_steps, np.bool_),
        np.full(n + 1, -1, np.int64),
        np.full(n + 1, -1, np.int64),
        np.zeros(_N_STATE, np.int64),
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


@kernel
def _new_labels(n_registers, n_slots):
    room = 64
    return _Labels(
        np.empty((room, 6), np.int64),
        np.empty(room, np.int64),
        np.zeros((room, n_registers + n_slots), np.int64),
        np.empty((room, n_registers), np.int64),
        np.empty((room, n_slots), np.float64),
        np.zeros(room, np.bool_),
        np.full(256, -1, np.int64),
    )


@kernel
def _new_classes():
    room = 64
    return _Classes(
        np.empty((room, 5), np.int64),
        np.empty(room, np.float64),
        np.empty(room, np.float64),
        np.empty(room, np.int64),
        np.empty(room, np.float64),
        np.full(256, -1, np.int64),
    )


@kernel
def _more_labels(labels):
    return _Labels(
        np.concatenate((labels.fields, np.empty_like(labels.fields))),
        np.concatenate((labels.counts, np.empty_like(labels.counts))),
        np.concatenate((labels.keys, np.zeros_like(labels.keys))),
        np.concatenate((labels.rows, np.empty_like(labels.rows))),
        np.concatenate((labels.aggregates, np.empty_like(labels.aggregates))),
        np.concatenate((labels.useful, np.zeros_like(labels.useful))),
        labels.table,
    )


@kernel
def _wider_table(labels, n_labels):
    fields, keys = labels.fields, labels.keys
    table = np.full(2 * labels.table.shape[0], -1, np.int64)
    for k in range(1, n_labels):
        slot = hash_label(fields[k, _STEP], fields[k, _POSITION], fields[k, _CLASS], keys, k) & (table.shape[0] - 1)
        while table[slot] >= 0:
            slot = (slot + 1) & (table.shape[0] - 1)
        table[slot] = k
    return _Labels(fields, labels.counts, keys, labels.rows, labels.aggregates, labels.useful, table)


@kernel
def _more_classes(classes):
    """Twice the room; the table is always four times as long."""
    keys = np.concatenate((classes.keys, np.empty_like(classes.keys)))
    table = np.full(2 * classes.table.shape[0], -1, np.int64)
    for k in range(1, classes.mass.shape[0]):
        slot = hash_class(keys[k, 0], keys[k, 1], keys[k, 2], keys[k, 3], keys[k, 4]) & (table.shape[0] - 1)
        while table[slot] >= 0:
            slot = (slot + 1) & (table.shape[0] - 1)
        table[slot] = k
    return _Classes(
        keys,
        np.concatenate((classes.mass, np.empty_like(classes.mass))),
        np.concatenate((classes.before, np.empty_like(classes.before))),
        np.concatenate((classes.length, np.empty_like(classes.length))),
        np.concatenate((classes.confidence, np.empty_like(classes.confidence))),
        table,
    )


@leaf
def _begin(tables, events, masks, pair, labels, classes, search):
    """The label of the first event, or the match of one event that is both ends; whether something is uncertain."""
    state, rows, aggregates, stack, first = search.state, search.rows, search.aggregates, search.stack, pair.first
    state[_BLOCK] = -1  # the label of `first`
    state[_LABEL] = -1
    state[_AT] = -1
    state[_LINKS_COMPLETE] = 1
    state[_BEST_LABEL] = _NO_LABEL
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
            state[_N_MATCHES] = 1
            search.best[0] = 1.0
            state[_BEST_LABEL] = _ONE_EVENT
        return NEEDS_SEARCH if decided == UNCERTAIN else COMPLETE
    classes.keys[0, _KIND] = 0
    classes.keys[0, _CLASS_POSITION] = -1
    classes.keys[0, _CLASS_BEFORE] = -1
    classes.keys[0, _HEAD_CLASS] = -1
    classes.mass[0] = 1.0
    classes.before[0] = 1.0
    classes.length[0] = 1
    classes.confidence[0] = np.nan
    state[_N_CLASSES] = 1
    _write_label(labels, search, 0, 0, -1, 0, -1, 1, 1)
    state[_N_LABELS] = 1
    state[_LABEL] = 0
    return COMPLETE


@leaf
def _extend_labels(tables, events, masks, pair, bounds, labels, classes, links, search):
    """Extend the labels of the pair block by block, from where `search.state` says; the status."""
    state = search.state
    n = pair.candidates.shape[0]
    final = tables.kleene.shape[0] - 1
    while state[_BLOCK] <= n:
        label = state[_LABEL]
        if label < 0:
            state[_BLOCK] += 1
            if state[_BLOCK] >= n:
                break
            state[_LABEL] = search.heads[state[_BLOCK]]
            continue
        while state[_PHASE] <= _BEGINS:
            phase = state[_PHASE]
            target = labels.fields[label, _STEP] + phase
            if state[_AT] < 0:
                state[_AT] = _first_place(tables, events, labels, search, label, phase, n)
            for here in range(state[_AT], n + 1 if target == final else n):
                if here < n and _is_full(bounds, labels, classes, links, state):
                    state[_AT] = here
                    return _NEEDS_ROOM
                status = _extend(
                    tables, events, masks, pair, bounds, labels, classes, links, search, label, phase, here
                )  # fmt: skip
                if status != COMPLETE:
                    return status
            state[_PHASE] += 1
            state[_AT] = -1
        state[_PHASE] = _TAKES
        state[_LABEL] = labels.fields[label, _NEXT]
    return COMPLETE


@inlined
def _is_full(bounds, labels, classes, links, state):
    """Whether there is no room for one more label, class or link though there may be more."""
    return (
        (state[_N_LABELS] == labels.counts.shape[0] and bounds.may_grow)
        or 2 * state[_N_LABELS] > labels.table.shape[0]
        or state[_N_CLASSES] == classes.mass.shape[0]
        or (state[_N_LINKS] == links.shape[0] and links.shape[0] < MAX_LINKS)
    )


@inlined
def _first_place(tables, events, labels, search, label, phase, n):
    """The first candidate that a label is extended by, n: by the last event alone, n + 1: by none."""
    step, position = labels.fields[label, _STEP], labels.fields[label, _POSITION]
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
    target, position = labels.fields[label, _STEP] + phase, labels.fields[label, _POSITION]
    j = pair.last if here == n else pair.candidates[here]
    state[_N_WORK] += 1
    if state[_N_WORK] > bounds.budget:
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
        of = _class_of(events, pair, bounds, classes, search, labels.fields[label, _CLASS], position, here, relation)
        if of < 0:
            return COMPLETE
    to = _label_of(tables, labels, search, label, target, here, of)
    if to < 0:
        return OUT_OF_BUDGET
    if bounds.links_wanted and state[_LINKS_COMPLETE] != 0:
        at = state[_N_LINKS]
        if at == links.shape[0]:
            state[_LINKS_COMPLETE] = 0
        else:
            links[at, 0] = label
            links[at, 1] = to
            state[_N_LINKS] = at + 1
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
    n_looks = n_negated_at(tables, events, pair.negated, decided_at, pair.first, pair.last, search.rows)
    search.state[_N_WORK] += n_looks // _NEGATED_PER_STEP
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
    of = labels.fields[label, _CLASS]
    confidence = 1.0
    if not bounds.single:
        if np.isnan(classes.confidence[of]):
            length = _write_chain(labels.fields, pair.candidates, pair.first, label, search.chain, search.steps)
            search.chain[length] = pair.last
            classes.confidence[of] = chain_confidence(events, search.chain, length + 1, tables.within_ms)
        confidence = classes.confidence[of]
    if confidence <= 0.0 or confidence < bounds.least:
        return COMPLETE
    state[_N_MATCHES] = min(state[_N_MATCHES] + labels.counts[label], MOST)
    labels.useful[label] = True
    length = labels.fields[label, _LENGTH] + 1
    if confidence > search.best[0] + TOLERANCE or (
        confidence > search.best[0] - TOLERANCE and length > state[_BEST_LENGTH]
    ):
        search.best[0] = confidence
        state[_BEST_LENGTH] = length
        state[_BEST_LABEL] = label
    return COMPLETE


@inlined
def _class_of(events, pair, bounds, classes, search, parent, position, here, relation):
    """The class of confidence of a prefix of class `parent` with one more candidate, -1 for one that is in it already
    or that takes the confidence below the least."""
    keys, state = classes.keys, search.state
    same_block = position >= 0 and pair.blocks[position] == pair.blocks[here]
    if same_block and _in_class(keys, parent, here):
        return np.int64(-1)
    head = keys[parent, _HEAD_CLASS]
    if relation == 2 and not same_block:
        before = classes.mass[parent]
        mass = before
        kind = 0
        # With an open window the confidence is a joint with the first event: it depends on all that overlaps it up to
        # the first known order.
        if bounds.window_open and head < 0:
            head = parent
        search.bits[0] = before
        class_before = np.int64(-1)
        mass_bits = search.as_int[0]
        length = np.int64(1)
    else:
        kind = 1
        class_before = parent
        mass_bits = np.int64(0)
        before = classes.before[parent]
        length = classes.length[parent] + 1
        _write_segment(keys, pair, parent, here, length, search.chain)
        mass = before * chain_mass(events, search.chain, 0, length)
    if mass <= 0.0 or mass < bounds.least:
        return np.int64(-1)
    table = classes.table
    slot = hash_class(kind, here, class_before, mass_bits, head) & (table.shape[0] - 1)
    while table[slot] >= 0:
        other = table[slot]
        if (
            keys[other, _KIND] == kind
            and keys[other, _CLASS_POSITION] == here
            and keys[other, _CLASS_BEFORE] == class_before
            and keys[other, _MASS_BITS] == mass_bits
            and keys[other, _HEAD_CLASS] == head
        ):
            return other
        slot = (slot + 1) & (table.shape[0] - 1)
    of = state[_N_CLASSES]
    state[_N_CLASSES] = of + 1
    keys[of, _KIND] = kind
    keys[of, _CLASS_POSITION] = here
    keys[of, _CLASS_BEFORE] = class_before
    keys[of, _MASS_BITS] = mass_bits
    keys[of, _HEAD_CLASS] = head
    classes.mass[of] = mass
    classes.before[of] = before
    classes.length[of] = length
    classes.confidence[of] = np.nan
    table[slot] = of
    return of


@inlined
def _label_of(tables, labels, search, label, target, here, of):
    """The label that a prefix belongs to, a longer one of those of `label`; -1 where there is no room for another."""
    fields, counts, keys, table = labels.fields, labels.counts, labels.keys, labels.table
    n_registers, n_labels = search.rows.shape[0], search.state[_N_LABELS]
    if n_labels == counts.shape[0]:
        return np.int64(-1)
    for k in range(n_registers):
        keys[n_labels, k] = search.rows[k] if tables.key_registers[target, k] else 0
    for k in range(search.aggregates.shape[0]):
        search.bits[k] = search.aggregates[k] + 0.0 if tables.key_slots[target, k] else 0.0
        keys[n_labels, n_registers + k] = search.as_int[k]
    length = fields[label, _LENGTH] + 1
    slot = hash_label(target, here, of, keys, n_labels) & (table.shape[0] - 1)
    while table[slot] >= 0:
        to = table[slot]
        if (
            fields[to, _STEP] == target
            and fields[to, _POSITION] == here
            and fields[to, _CLASS] == of
            and _are_alike(keys, to, n_labels)
        ):
            counts[to] = min(counts[to] + counts[label], MOST)
            if length > fields[to, _LENGTH]:
                fields[to, _PREDECESSOR] = label
                fields[to, _LENGTH] = length
            return to
        slot = (slot + 1) & (table.shape[0] - 1)
    _write_label(labels, search, n_labels, target, here, of, label, length, counts[label])
    table[slot] = n_labels
    search.state[_N_LABELS] = n_labels + 1
    block = search.starts[here]
    if search.tails[block] < 0:
        search.heads[block] = n_labels
    else:
        fields[search.tails[block], _NEXT] = n_labels
    search.tails[block] = n_labels
    return n_labels


@inlined
def _write_label(labels, search, label, step, position, of, predecessor, length, count):
    """A label of the prefix at hand, the last of its block."""
    labels.fields[label, _STEP] = step
    labels.fields[label, _POSITION] = position
    labels.fields[label, _CLASS] = of
    labels.fields[label, _PREDECESSOR] = predecessor
    labels.fields[label, _LENGTH] = length
    labels.fields[label, _NEXT] = -1
    labels.counts[label] = count
    copy_to(labels.rows, label, search.rows)
    copy_to(labels.aggregates, label, search.aggregates)


@leaf
def _are_alike(keys, a, b):
    alike = True
    for k in range(keys.shape[1]):
        alike = alike and keys[a, k] == keys[b, k]
    return alike


@leaf
def _mark_used(labels, links, state, used, exact):
    """Mark the candidates of labels that a match comes of; of all of them unless `exact`."""
    if state[_LINKS_COMPLETE] != 0:
        for k in range(state[_N_LINKS] - 1, -1, -1):
            if labels.useful[links[k, 1]]:
                labels.useful[links[k, 0]] = True
    for k in range(1, state[_N_LABELS]):
        if labels.useful[k] or not exact:
            used[labels.fields[k, _STEP], labels.fields[k, _POSITION]] = True


@leaf
def _write_best(tables, pair, labels, search):
    """Write the best match to chain and steps of the search; its length, 0 without one."""
    chain, steps, label = search.chain, search.steps, search.state[_BEST_LABEL]
    if label == _NO_LABEL:
        return 0
    if label == _ONE_EVENT:
        chain[0] = pair.first
        steps[0] = 0
        return 1
    length = _write_chain(labels.fields, pair.candidates, pair.first, label, chain, steps)
    chain[length] = pair.last
    steps[length] = tables.kleene.shape[0] - 1
    return length + 1


@leaf
def copy_from(table, at, values):
    """values = table[at], element by element: no view is made."""
    for k in range(values.shape[0]):
        values[k] = table[at, k]


@leaf
def copy_to(table, at, values):
    """table[at] = values."""
    for k in range(values.shape[0]):
        table[at, k] = values[k]


@leaf
def _write_chain(fields, candidates, first, label, chain, steps):
    """Write the longest prefix behind a label; returns its length."""
    length = fields[label, _LENGTH]
    at = length
    while label >= 0:
        at -= 1
        chain[at] = first if fields[label, _POSITION] < 0 else candidates[fields[label, _POSITION]]
        steps[at] = fields[label, _STEP]
        label = fields[label, _PREDECESSOR]
    return length


@leaf
def _write_segment(keys, pair, of, here, length, chain):
    """Write the open segment of a class, and a candidate behind it."""
    chain[length - 1] = pair.candidates[here]
    for at in range(length - 2, -1, -1):
        chain[at] = pair.first if keys[of, _CLASS_POSITION] < 0 else pair.candidates[keys[of, _CLASS_POSITION]]
        of = keys[of, _CLASS_BEFORE]


@leaf
def _in_class(class_keys, of, position):
    """Whether the candidate is in the open segment of this class."""
    while of >= 0:
        if class_keys[of, _CLASS_POSITION] == position:
            return True
        of = class_keys[of, _CLASS_BEFORE]
    return False


__all__ = ["MAX_LINKS", "MOST", "EdgeMasks", "PairEvents", "count"]
