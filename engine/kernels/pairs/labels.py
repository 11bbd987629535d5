"""Labels: prefixes of matches that are alike for all that follows, and the classes of confidence that they are in.

A label stands for all prefixes of a first event that end in the same event of the same component, of which all that
later predicates read (registers, aggregates) is equal and whose confidence continues alike, with their number and the
longest of them. Both are found by open tables over arrays that double where there is no room left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.columns.hashing import hash_class, hash_label
from engine.kernels.compile.types import BoolArray, Float64Array, Int64Array
from engine.kernels.compile.ways import inlined, kernel, leaf
from engine.kernels.confidence.sequences import chain_mass

MOST = 2**62 - 1  # counts stop here; the sum of two still fits

# Columns of the fields of labels.
STEP = 0
POSITION = 1
CLASS = 2
_PREDECESSOR = 3
LENGTH = 4
NEXT = 5

# Columns of the keys of classes.
KIND = 0
CLASS_POSITION = 1
CLASS_BEFORE = 2
_MASS_BITS = 3
HEAD_CLASS = 4

# Entries of the state of a search.
BLOCK = 0
LABEL = 1
PHASE = 2
AT = 3
N_LABELS = 4
N_CLASSES = 5
N_LINKS = 6
LINKS_COMPLETE = 7
N_WORK = 8
N_MATCHES = 9
BEST_LABEL = 10
BEST_LENGTH = 11
N_STATE = 12


class _Labels(NamedTuple):
    """Labels: fields int64 (c, 6): STEP, POSITION (-1 for `first`), CLASS, _PREDECESSOR, LENGTH, NEXT of the
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
    """Classes of confidence: keys int64 (c, 5): KIND, CLASS_POSITION, CLASS_BEFORE (the class of the open segment
    without its last event), _MASS_BITS (of the mass before), HEAD_CLASS.

    mass float64 (c,): of the prefix; before float64 (c,): of what comes before the open segment; length int64 (c,): of
    that segment; confidence float64 (c,): of the prefix with `last` added, NaN: not known yet. table: as of labels.
    """

    keys: Int64Array
    mass: Float64Array
    before: Float64Array
    length: Int64Array
    confidence: Float64Array
    table: Int64Array


class Search(NamedTuple):
    """What the search of a pair keeps beside labels and classes.

    starts int64 (n,): first position of the block of each candidate. order uint8 (n, n): 1 where one may come before
    the other, 2 where it does. unconditional bool (n_steps,): taking an event asks nothing. heads, tails int64
    (n + 1,): first and last label of each block, by its first position. state int64 (N_STATE,), best float64 (1,): how
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
def new_labels(n_registers, n_slots):
    capacity = 64
    return _Labels(
        np.empty((capacity, 6), np.int64),
        np.empty(capacity, np.int64),
        np.zeros((capacity, n_registers + n_slots), np.int64),
        np.empty((capacity, n_registers), np.int64),
        np.empty((capacity, n_slots), np.float64),
        np.zeros(capacity, np.bool_),
        np.full(256, -1, np.int64),
    )


@kernel
def new_classes():
    capacity = 64
    return _Classes(
        np.empty((capacity, 5), np.int64),
        np.empty(capacity, np.float64),
        np.empty(capacity, np.float64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.float64),
        np.full(256, -1, np.int64),
    )


@kernel
def more_labels(labels):
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
def wider_table(labels, n_labels):
    fields, keys = labels.fields, labels.keys
    table = np.full(2 * labels.table.shape[0], -1, np.int64)
    for k in range(1, n_labels):
        slot = hash_label(fields[k, STEP], fields[k, POSITION], fields[k, CLASS], keys, k) & (table.shape[0] - 1)
        while table[slot] >= 0:
            slot = (slot + 1) & (table.shape[0] - 1)
        table[slot] = k
    return _Labels(fields, labels.counts, keys, labels.rows, labels.aggregates, labels.useful, table)


@kernel
def more_classes(classes):
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


@inlined
def class_of(events, pair, bounds, classes, search, parent, position, here, relation):
    """The class of confidence of a prefix of class `parent` with one more candidate, -1 for one that is in it already
    or that takes the confidence below the least."""
    keys, state = classes.keys, search.state
    same_block = position >= 0 and pair.blocks[position] == pair.blocks[here]
    if same_block and _in_class(keys, parent, here):
        return np.int64(-1)
    head = keys[parent, HEAD_CLASS]
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
            keys[other, KIND] == kind
            and keys[other, CLASS_POSITION] == here
            and keys[other, CLASS_BEFORE] == class_before
            and keys[other, _MASS_BITS] == mass_bits
            and keys[other, HEAD_CLASS] == head
        ):
            return other
        slot = (slot + 1) & (table.shape[0] - 1)
    of = state[N_CLASSES]
    state[N_CLASSES] = of + 1
    keys[of, KIND] = kind
    keys[of, CLASS_POSITION] = here
    keys[of, CLASS_BEFORE] = class_before
    keys[of, _MASS_BITS] = mass_bits
    keys[of, HEAD_CLASS] = head
    classes.mass[of] = mass
    classes.before[of] = before
    classes.length[of] = length
    classes.confidence[of] = np.nan
    table[slot] = of
    return of


@inlined
def label_of(tables, labels, search, label, target, here, of):
    """The label that a prefix belongs to, a longer one of those of `label`; -1 where there is no room for another."""
    fields, counts, keys, table = labels.fields, labels.counts, labels.keys, labels.table
    n_registers, n_labels = search.rows.shape[0], search.state[N_LABELS]
    if n_labels == counts.shape[0]:
        return np.int64(-1)
    for k in range(n_registers):
        keys[n_labels, k] = search.rows[k] if tables.key_registers[target, k] else 0
    for k in range(search.aggregates.shape[0]):
        search.bits[k] = search.aggregates[k] + 0.0 if tables.key_slots[target, k] else 0.0
        keys[n_labels, n_registers + k] = search.as_int[k]
    length = fields[label, LENGTH] + 1
    slot = hash_label(target, here, of, keys, n_labels) & (table.shape[0] - 1)
    while table[slot] >= 0:
        to = table[slot]
        if (
            fields[to, STEP] == target
            and fields[to, POSITION] == here
            and fields[to, CLASS] == of
            and _are_alike(keys, to, n_labels)
        ):
            counts[to] = min(counts[to] + counts[label], MOST)
            if length > fields[to, LENGTH]:
                fields[to, _PREDECESSOR] = label
                fields[to, LENGTH] = length
            return to
        slot = (slot + 1) & (table.shape[0] - 1)
    write_label(labels, search, n_labels, target, here, of, label, length, counts[label])
    table[slot] = n_labels
    search.state[N_LABELS] = n_labels + 1
    block = search.starts[here]
    if search.tails[block] < 0:
        search.heads[block] = n_labels
    else:
        fields[search.tails[block], NEXT] = n_labels
    search.tails[block] = n_labels
    return n_labels


@inlined
def write_label(labels, search, label, step, position, of, predecessor, length, count):
    """A label of the prefix at hand, the last of its block."""
    labels.fields[label, STEP] = step
    labels.fields[label, POSITION] = position
    labels.fields[label, CLASS] = of
    labels.fields[label, _PREDECESSOR] = predecessor
    labels.fields[label, LENGTH] = length
    labels.fields[label, NEXT] = -1
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
def write_chain(fields, candidates, first, label, chain, steps):
    """Write the longest prefix behind a label; returns its length."""
    length = fields[label, LENGTH]
    at = length
    while label >= 0:
        at -= 1
        chain[at] = first if fields[label, POSITION] < 0 else candidates[fields[label, POSITION]]
        steps[at] = fields[label, STEP]
        label = fields[label, _PREDECESSOR]
    return length


@leaf
def _write_segment(keys, pair, of, here, length, chain):
    """Write the open segment of a class, and a candidate behind it."""
    chain[length - 1] = pair.candidates[here]
    for at in range(length - 2, -1, -1):
        chain[at] = pair.first if keys[of, CLASS_POSITION] < 0 else pair.candidates[keys[of, CLASS_POSITION]]
        of = keys[of, CLASS_BEFORE]


@leaf
def _in_class(class_keys, of, position):
    """Whether the candidate is in the open segment of this class."""
    while of >= 0:
        if class_keys[of, CLASS_POSITION] == position:
            return True
        of = class_keys[of, CLASS_BEFORE]
    return False


__all__ = [
    "AT",
    "BEST_LABEL",
    "BEST_LENGTH",
    "BLOCK",
    "CLASS",
    "CLASS_BEFORE",
    "CLASS_POSITION",
    "HEAD_CLASS",
    "KIND",
    "LABEL",
    "LENGTH",
    "LINKS_COMPLETE",
    "MOST",
    "NEXT",
    "N_CLASSES",
    "N_LABELS",
    "N_LINKS",
    "N_MATCHES",
    "N_STATE",
    "N_WORK",
    "PHASE",
    "POSITION",
    "STEP",
    "Search",
    "class_of",
    "copy_from",
    "copy_to",
    "label_of",
    "more_classes",
    "more_labels",
    "new_classes",
    "new_labels",
    "wider_table",
    "write_chain",
    "write_label",
]
