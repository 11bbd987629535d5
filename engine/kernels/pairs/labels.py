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

import numpy as np

from engine.kernels.columns.hashing import hash_class, hash_label
from engine.kernels.compile.ways import kernel, leaf
from engine.kernels.confidence.ordering import may_precede, separated
from engine.kernels.confidence.sequences import chain_confidence, chain_mass
from engine.kernels.pairs.search import TOLERANCE
from engine.kernels.pairs.state import (
    ABSENT,
    PRESENT,
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


@kernel
def count(
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
    precise,
    links_wanted,
):
    """Number, best and events of all matches from `first` to `last` with confidence > 0 and >= threshold.

    Parameters as for `postponed_search.search`; tables.loops must be empty. precise: no interval is longer than a
    millisecond. links_wanted: find which candidates stand in a match.

    Returns (status, n_matches, n_work, best_confidence, chain int64 (k,), steps int64 (k,), used bool (n_steps, n),
    used_exact): the best match (confidence, then length) and the candidates by component; n_matches is MOST when there
    are at least that many. used_exact is False when `used` may hold too many.
    """
    n = candidates.shape[0]
    n_steps = tables.kleene.shape[0]
    n_slots = tables.kinds.shape[0]
    n_registers = 2 * n_steps + 1
    least = max(threshold - TOLERANCE, 0.0)
    stack = np.empty(MAX_STACK, np.float64)
    rows = unbound(tables, last)
    aggregates = np.full(n_slots, np.nan)
    bits = np.zeros(max(n_slots, 1), np.float64)
    bits_as_int = bits.view(np.int64)
    used = np.zeros((n_steps, n), np.bool_)
    starts = np.zeros(n + 1, np.int64)
    for k in range(1, n):
        starts[k] = starts[k - 1] if blocks[k] == blocks[k - 1] else k
    window_open = events.hi_ms[last] - events.lo_ms[first] > tables.within_ms
    single = precise and not window_open

    # What may follow what, looked up for every label: calls with all columns as arguments would dominate the work.
    order = np.zeros((n, n), np.uint8)
    for k in range(n):
        for to in range(starts[k], n):
            if to != k and may_precede(events, candidates[k], candidates[to]):
                order[k, to] = 2 if separated(events, candidates[k], candidates[to]) else 1
    unconditional = np.zeros(n_steps, np.bool_)
    for k in range(n_steps):
        unconditional[k] = tables.edges[k, TAKE, 0] == tables.edges[k, TAKE, 1]
        for number in range(tables.hoisted.shape[0]):
            unconditional[k] &= tables.hoisted[number, 0] != k
        for number in range(tables.falling.shape[0]):
            unconditional[k] &= tables.falling[number, 0] != k

    # Labels: fields (step, position or -1 for `first`, class, predecessor, length, next label of the block).
    room = 64
    fields = np.empty((room, 6), np.int64)
    counts = np.empty(room, np.int64)
    keys = np.zeros((room, n_registers + n_slots), np.int64)
    label_rows = np.empty((room, n_registers), np.int64)
    label_aggregates = np.empty((room, n_slots), np.float64)
    useful = np.zeros(room, np.bool_)
    n_labels = 0
    table = np.full(256, -1, np.int64)
    # Classes of confidence: (kind, position, predecessor class, bits of the mass before, head class).
    class_room = 64
    class_keys = np.empty((class_room, 5), np.int64)
    class_mass = np.empty(class_room, np.float64)  # of the prefix
    class_before = np.empty(class_room, np.float64)  # of what comes before the open segment
    class_length = np.empty(class_room, np.int64)
    class_confidence = np.empty(class_room, np.float64)  # of that prefix with `last` added; NaN: not known yet
    n_classes = 0
    class_table = np.full(256, -1, np.int64)
    mass_bits = np.zeros(1, np.float64)
    mass_as_int = mass_bits.view(np.int64)
    links = np.empty((64, 2), np.int32)
    n_links = 0
    links_complete = True

    heads = np.full(n + 1, -1, np.int64)  # first and last label of each block (by its first position)
    tails = np.full(n + 1, -1, np.int64)
    chain = np.empty(n + 3, np.int64)
    steps = np.empty(n + 3, np.int64)
    status = COMPLETE
    n_matches = 0
    n_work = 0
    best_confidence = -1.0
    best_length = 0
    best_label = -2

    ok = begin_ok[0, first] and begins(tables, events, 0, first, rows, aggregates, stack)
    if ok:
        decided = negations_at(tables, events, negated, negated_ok, 0, first, last, rows, aggregates, stack)
        if decided == UNCERTAIN:
            status = NEEDS_SEARCH
        ok = decided == ABSENT
    if ok and first == last:
        if n_steps == 1:
            ok = leaves(tables, events, 0, rows, aggregates, stack) and completes(
                tables, events, rows, aggregates, stack
            )
            decided = negations_at(tables, events, negated, negated_ok, 1, first, last, rows, aggregates, stack)
            if decided == UNCERTAIN:
                status = NEEDS_SEARCH
            if ok and decided == ABSENT:
                n_matches = 1
                best_confidence = 1.0
                best_label = -1
        ok = False
    if ok:
        class_keys[0] = 0
        class_keys[0, 1] = -1
        class_keys[0, 2] = -1
        class_keys[0, 4] = -1
        class_mass[0] = 1.0
        class_before[0] = 1.0
        class_length[0] = 1
        class_confidence[0] = np.nan
        n_classes = 1
        fields[0, 0] = 0
        fields[0, 1] = -1
        fields[0, 2] = 0
        fields[0, 3] = -1
        fields[0, 4] = 1
        fields[0, 5] = -1
        counts[0] = 1
        label_rows[0] = rows
        label_aggregates[0] = aggregates
        n_labels = 1

    block_at = -1  # -1: the label of `first`
    label = 0 if n_labels else -1
    while status == COMPLETE and block_at <= n:
        if label < 0:
            block_at += 1
            if block_at >= n:
                break
            label = heads[block_at]
            continue
        step = fields[label, 0]
        position = fields[label, 1]
        i = first if position < 0 else candidates[position]
        for phase in range(2):
            if phase == 0 and not tables.kleene[step]:
                continue
            target = step + phase
            if target >= n_steps:
                continue
            copy_from(label_rows, label, rows)
            copy_from(label_aggregates, label, aggregates)
            if phase == 1 and not leaves(tables, events, step, rows, aggregates, stack):
                continue
            at = starts[position] if position >= 0 else 0
            if target == n_steps - 1 and not tables.kleene[target]:
                at = n
            while at <= n:
                here = at
                at += 1
                if here == n and target != n_steps - 1:
                    break
                j = last if here == n else candidates[here]
                n_work += 1
                if n_work > budget:
                    status = OUT_OF_BUDGET
                    break
                if not (begin_ok[target, j] if phase == 1 else take_ok[target, j]):
                    continue
                if position >= 0 and here < n:
                    if order[position, here] == 0:
                        continue
                    known = order[position, here] == 2
                elif may_precede(events, i, j):
                    known = separated(events, i, j)
                else:
                    continue
                copy_from(label_rows, label, rows)
                copy_from(label_aggregates, label, aggregates)
                if phase == 0 and unconditional[target] and n_slots == 0:
                    rows[n_registers - 1] = j
                    rows[2 * target + 1] = j
                elif phase == 0 and unconditional[target]:
                    rows[n_registers - 1] = j
                    rows[2 * target + 1] = j
                    count_in(
                        tables.kinds,
                        tables.owners,
                        tables.slot_columns,
                        tables.bases,
                        tables.caps,
                        target,
                        events.columns,
                        j,
                        aggregates,
                    )
                elif phase == 0:
                    if not takes(tables, events, step, j, rows, aggregates, stack):
                        continue
                else:
                    if not begins(tables, events, target, j, rows, aggregates, stack):
                        continue
                    n_work += n_negated_at(tables, events, negated, target, first, last, rows) // _NEGATED_PER_STEP
                    decided = negations_at(
                        tables, events, negated, negated_ok, target, first, last, rows, aggregates, stack
                    )
                    if decided == UNCERTAIN:
                        status = NEEDS_SEARCH
                        break
                    if decided == PRESENT:
                        continue
                if here == n:
                    if not leaves(tables, events, target, rows, aggregates, stack):
                        continue
                    if not completes(tables, events, rows, aggregates, stack):
                        continue
                    n_work += n_negated_at(tables, events, negated, n_steps, first, last, rows) // _NEGATED_PER_STEP
                    decided = negations_at(
                        tables, events, negated, negated_ok, n_steps, first, last, rows, aggregates, stack
                    )
                    if decided == UNCERTAIN:
                        status = NEEDS_SEARCH
                        break
                    if decided == PRESENT:
                        continue
                    of = fields[label, 2]
                    confidence = 1.0
                    if not single:
                        if np.isnan(class_confidence[of]):
                            length = _write_chain(fields, candidates, first, label, chain, steps)
                            chain[length] = last
                            class_confidence[of] = chain_confidence(events, chain, length + 1, tables.within_ms)
                        confidence = class_confidence[of]
                    if confidence <= 0.0 or confidence < least:
                        continue
                    n_matches = min(n_matches + counts[label], MOST)
                    useful[label] = True
                    length = fields[label, 4] + 1
                    if confidence > best_confidence + TOLERANCE or (
                        confidence > best_confidence - TOLERANCE and length > best_length
                    ):
                        best_confidence = confidence
                        best_length = length
                        best_label = label
                        steps[0] = target
                    continue
                # The class of confidence of the longer prefix.
                of = 0
                if not single:
                    parent = fields[label, 2]
                    same_block = position >= 0 and blocks[position] == blocks[here]
                    if same_block and _in_class(class_keys, parent, here):
                        continue
                    if known and not same_block:
                        before = class_mass[parent]
                        mass = before
                        kind = 0
                        # With an open window the confidence is a joint with the first event: it depends on all that
                        # overlaps it up to the first known order.
                        link = class_keys[parent, 4]
                        if window_open and link < 0:
                            link = parent
                        mass_bits[0] = before
                        key2 = np.int64(-1)
                        key3 = mass_as_int[0]
                        segment_length = np.int64(1)
                    else:
                        kind = 1
                        link = class_keys[parent, 4]
                        key2 = parent
                        key3 = np.int64(0)
                        before = class_before[parent]
                        segment_length = class_length[parent] + 1
                        start = segment_length
                        walk = parent
                        chain[start - 1] = j
                        while start > 1:
                            start -= 1
                            chain[start - 1] = first if class_keys[walk, 1] < 0 else candidates[class_keys[walk, 1]]
                            walk = class_keys[walk, 2]
                        mass = before * chain_mass(events, chain, 0, segment_length)
                    if mass <= 0.0 or mass < least:
                        continue
                    slot = hash_class(kind, here, key2, key3, link) & (class_table.shape[0] - 1)
                    of = -1
                    while class_table[slot] >= 0:
                        other = class_table[slot]
                        if (
                            class_keys[other, 0] == kind
                            and class_keys[other, 1] == here
                            and class_keys[other, 2] == key2
                            and class_keys[other, 3] == key3
                            and class_keys[other, 4] == link
                        ):
                            of = other
                            break
                        slot = (slot + 1) & (class_table.shape[0] - 1)
                    if of < 0:
                        if n_classes == class_room:
                            class_keys = np.concatenate((class_keys, np.empty_like(class_keys)))
                            class_mass = np.concatenate((class_mass, np.empty_like(class_mass)))
                            class_before = np.concatenate((class_before, np.empty_like(class_before)))
                            class_length = np.concatenate((class_length, np.empty_like(class_length)))
                            class_confidence = np.concatenate((class_confidence, np.empty_like(class_confidence)))
                            class_room *= 2
                        of = n_classes
                        n_classes += 1
                        class_keys[of, 0] = kind
                        class_keys[of, 1] = here
                        class_keys[of, 2] = key2
                        class_keys[of, 3] = key3
                        class_keys[of, 4] = link
                        class_mass[of] = mass
                        class_before[of] = before
                        class_length[of] = segment_length
                        class_confidence[of] = np.nan
                        class_table[slot] = of
                        if 2 * n_classes > class_table.shape[0]:
                            class_table = np.full(2 * class_table.shape[0], -1, np.int64)
                            for k in range(1, n_classes):
                                slot = hash_class(
                                    class_keys[k, 0],
                                    class_keys[k, 1],
                                    class_keys[k, 2],
                                    class_keys[k, 3],
                                    class_keys[k, 4],
                                ) & (class_table.shape[0] - 1)
                                while class_table[slot] >= 0:
                                    slot = (slot + 1) & (class_table.shape[0] - 1)
                                class_table[slot] = k
                # The label that this prefix belongs to.
                if n_labels == room and 2 * room * (3 * n_registers + 2 * n_slots + 8) > _MOST_NUMBERS:
                    status = OUT_OF_BUDGET
                    break
                if n_labels == room:
                    fields = np.concatenate((fields, np.empty_like(fields)))
                    counts = np.concatenate((counts, np.empty_like(counts)))
                    keys = np.concatenate((keys, np.zeros_like(keys)))
                    label_rows = np.concatenate((label_rows, np.empty_like(label_rows)))
                    label_aggregates = np.concatenate((label_aggregates, np.empty_like(label_aggregates)))
                    useful = np.concatenate((useful, np.zeros_like(useful)))
                    room *= 2
                for k in range(n_registers):
                    keys[n_labels, k] = rows[k] if tables.key_registers[target, k] else 0
                for k in range(n_slots):
                    bits[k] = aggregates[k] + 0.0 if tables.key_slots[target, k] else 0.0
                    keys[n_labels, n_registers + k] = bits_as_int[k]
                slot = hash_label(target, here, of, keys, n_labels) & (table.shape[0] - 1)
                to = -1
                while table[slot] >= 0:
                    other = table[slot]
                    if fields[other, 0] == target and fields[other, 1] == here and fields[other, 2] == of:
                        alike = True
                        for k in range(keys.shape[1]):
                            if keys[other, k] != keys[n_labels, k]:
                                alike = False
                                break
                        if alike:
                            to = other
                            break
                    slot = (slot + 1) & (table.shape[0] - 1)
                if to >= 0:
                    counts[to] = min(counts[to] + counts[label], MOST)
                    if fields[label, 4] + 1 > fields[to, 4]:
                        fields[to, 3] = label
                        fields[to, 4] = fields[label, 4] + 1
                else:
                    to = n_labels
                    n_labels += 1
                    fields[to, 0] = target
                    fields[to, 1] = here
                    fields[to, 2] = of
                    fields[to, 3] = label
                    fields[to, 4] = fields[label, 4] + 1
                    fields[to, 5] = -1
                    counts[to] = counts[label]
                    copy_to(label_rows, to, rows)
                    copy_to(label_aggregates, to, aggregates)
                    table[slot] = to
                    block = starts[here]
                    if tails[block] < 0:
                        heads[block] = to
                    else:
                        fields[tails[block], 5] = to
                    tails[block] = to
                    if 2 * n_labels > table.shape[0]:
                        table = np.full(2 * table.shape[0], -1, np.int64)
                        for k in range(1, n_labels):
                            slot = hash_label(fields[k, 0], fields[k, 1], fields[k, 2], keys, k)
                            slot &= table.shape[0] - 1
                            while table[slot] >= 0:
                                slot = (slot + 1) & (table.shape[0] - 1)
                            table[slot] = k
                if links_wanted and links_complete:
                    if n_links == links.shape[0]:
                        if n_links >= MAX_LINKS:
                            links_complete = False
                            continue
                        links = np.concatenate((links, np.empty_like(links)))
                    links[n_links, 0] = label
                    links[n_links, 1] = to
                    n_links += 1
            if status != COMPLETE:
                break
        label = fields[label, 5]
    if links_complete:
        for k in range(n_links - 1, -1, -1):
            if useful[links[k, 1]]:
                useful[links[k, 0]] = True
    used_exact = links_complete and status == COMPLETE
    for k in range(1, n_labels):
        if useful[k] or not used_exact:
            used[fields[k, 0], fields[k, 1]] = True
    length = 0
    if best_label == -1:
        chain[0] = first
        steps[0] = 0
        length = 1
    elif best_label >= 0:
        last_step = n_steps - 1
        length = _write_chain(fields, candidates, first, best_label, chain, steps)
        chain[length] = last
        steps[length] = last_step
        length += 1
    return status, n_matches, n_work, best_confidence, chain[:length], steps[:length], used, used_exact


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
    length = fields[label, 4]
    at = length
    while label >= 0:
        at -= 1
        chain[at] = first if fields[label, 1] < 0 else candidates[fields[label, 1]]
        steps[at] = fields[label, 0]
        label = fields[label, 3]
    return length


@leaf
def _in_class(class_keys, of, position):
    """Whether the candidate is in the open segment of this class."""
    while of >= 0:
        if class_keys[of, 1] == position:
            return True
        of = class_keys[of, 2]
    return False


__all__ = ["MAX_LINKS", "MOST", "count"]
