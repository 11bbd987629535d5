"""Transitions whose edges depend on the events: earlier events one by one, or summed up by value in an index.

One inequality between a value of the earlier and a value of the later event admits a range of values from one end; an
index of prefix aggregates answers for it in O(log n) per window (a Fenwick tree over the sorted values: sums of any
size are added, never subtracted). It is made with all the values that a batch brings, so that it never meets one that
it does not know; what comes in small batches waits behind it and is looked at one by one, until it is made anew.
"""

from __future__ import annotations

import math

from engine.kernels.compile.ways import inlined, leaf
from engine.kernels.programs.comparing import holds
from engine.kernels.programs.opcodes import GE, GT, LE
from engine.kernels.programs.predicates import all_hold
from engine.kernels.trends.arrays import (
    FIRST_COMPARED,
    FIRST_CUT,
    FIRST_PROGRAM,
    HOW,
    INDEX,
    LAST_COMPARED,
    LAST_CUT,
    LAST_PROGRAM,
    LEFT,
    N_COLUMNS,
    N_GRAPHS,
    N_INDEXES,
    N_LENGTHS,
    N_NUMBERS,
    N_STORED,
    N_WINDOWS,
    NEVER,
    RIGHT,
    SOURCE,
)
from engine.kernels.trends.numbers import put_together


@inlined
def add_scanned(template, batch, sums, vertices, indexes, scratch, scan, at, first_window, last_window):
    """Add to the numbers of an event those of the earlier events that a transition joins to it."""
    partition = batch.partition[at]
    region = partition * template.sizes[N_STORED] + template.stored[template.scans[scan, SOURCE]]
    start = vertices.start[region]
    n_indexed = 0
    index = template.scans[scan, INDEX]
    if index >= 0:
        entry = partition * template.sizes[N_INDEXES] + index
        if indexes.limit[entry] > 0:
            _enter_earlier(template, sums, vertices, indexes, entry, index, start, region, batch.order[at], partition)
            _add_indexed(template, batch, indexes, scratch, scan, entry, at, first_window, last_window)
            n_indexed = min(indexes.limit[entry], vertices.length[region])
    if n_indexed == vertices.length[region]:
        return
    place = max(start + n_indexed, first_in_reach(template, sums, vertices, partition, scan, first_window))
    first, last = template.scans[scan, FIRST_COMPARED], template.scans[scan, LAST_COMPARED]
    first_program, last_program = template.scans[scan, FIRST_PROGRAM], template.scans[scan, LAST_PROGRAM]
    spare = vertices.columns.shape[1] - 1
    if first_program < last_program:
        for column in range(template.sizes[N_COLUMNS]):
            vertices.columns[column, spare] = batch.columns[column, batch.rows[at]]
        scratch.registers[1] = spare
    for other in range(place, start + vertices.length[region]):
        if vertices.order[other] >= batch.order[at]:
            return
        if not compare(template, vertices, batch, first, last, other, batch.rows[at]):
            continue
        if first_program < last_program:
            scratch.registers[0] = other
            if not programs_hold(template, vertices, scratch, first_program, last_program):
                continue
        _add_vertex(template, vertices, scratch, other, first_window, last_window)


@inlined
def first_in_reach(template, sums, vertices, partition, scan, window):
    """The first vertex of a transition's source that is in this window or a later one, and that no trend of a negated
    pattern cuts off: both grow with the order of events."""
    region = partition * template.sizes[N_STORED] + template.stored[template.scans[scan, SOURCE]]
    cut = NEVER
    for entry in range(template.scans[scan, FIRST_CUT], template.scans[scan, LAST_CUT]):
        cut = max(cut, sums.finished[partition * template.sizes[N_GRAPHS] + template.cuts[entry]])
    low = vertices.start[region]
    high = low + vertices.length[region]
    while low < high:
        middle = (low + high) // 2
        if vertices.order[middle] < cut or vertices.last_window[middle] < window:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def compare(template, vertices, batch, first, last, other, row):
    """Whether all comparisons of two values hold."""
    for entry in range(first, last):
        how = template.compared[entry, HOW]
        left = vertices.derived[template.compared[entry, LEFT], other]
        right = batch.derived[template.compared[entry, RIGHT], row]
        if not holds(how, left, right):
            return False
    return True


@leaf
def programs_hold(template, vertices, scratch, first, last):
    for entry in range(first, last):
        program = template.programs[entry]
        if not all_hold(
            template.code, template.bounds, program, program + 1, template.constants, vertices.columns,
            scratch.registers, scratch.aggregates, scratch.stack,
        ):  # fmt: skip
            return False
    return True


@inlined
def _add_vertex(template, vertices, scratch, other, first_window, last_window):
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    for window in range(first_window, min(last_window, vertices.last_window[other]) + 1):
        source = (other * n_windows + window - vertices.first_window[other]) * n_numbers
        if vertices.whole[source] != 0 and is_needed(template, scratch, window - first_window):
            for number in range(n_numbers):
                put_together(
                    template.ways[number], scratch.whole, scratch.real, scratch.scale,
                    (window - first_window) * n_numbers + number,
                    vertices.whole, vertices.real, vertices.scale, source + number,
                )  # fmt: skip


@inlined
def is_needed(template, scratch, window):
    """Whether the window of the event, from its first one on, is not over for all lengths that are told."""
    return template.sizes[N_LENGTHS] == 0 or scratch.needed[window] != 0


# ------------------------------------------------------------------- the index


@inlined
def _enter_earlier(template, sums, vertices, indexes, entry, index, start, region, order, partition):
    """Enter the vertices that come before the event at hand."""
    while indexes.done[entry] < min(indexes.limit[entry], vertices.length[region]):
        place = start + indexes.done[entry]
        if vertices.order[place] >= order:
            return
        indexes.done[entry] += 1
        if vertices.ranks[index, place] >= 0:
            _enter(template, vertices, indexes, entry, vertices.ranks[index, place], place, sums.first_open[partition])


@inlined
def _enter(template, vertices, indexes, entry, rank, place, first_open):
    """Add a vertex to the prefixes that it belongs to, in the windows that are open."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    first_window = vertices.first_window[place]
    node = rank + 1
    while node <= indexes.size[entry]:
        at = indexes.start[entry] + node - 1
        for window in range(max(first_window, first_open), vertices.last_window[place] + 1):
            source = (place * n_windows + window - first_window) * n_numbers
            if vertices.whole[source] == 0:
                continue
            slot = at * n_windows + window % n_windows
            if indexes.window[slot] != window:
                indexes.window[slot] = window
                for number in range(n_numbers):
                    indexes.whole[slot * n_numbers + number] = 0
                    indexes.scale[slot * n_numbers + number] = 0
            for number in range(n_numbers):
                put_together(
                    template.ways[number], indexes.whole, indexes.real, indexes.scale, slot * n_numbers + number,
                    vertices.whole, vertices.real, vertices.scale, source + number,
                )  # fmt: skip
        node += node & -node


@inlined
def _add_indexed(template, batch, indexes, scratch, scan, entry, at, first_window, last_window):
    """Add what the admitted values have together."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    compared = template.scans[scan, FIRST_COMPARED]
    how = template.compared[compared, HOW]
    value = batch.derived[template.compared[compared, RIGHT], batch.rows[at]]
    if math.isnan(value):
        return
    if how in (GT, GE):
        value = -value  # keys are negated then, so that a prefix is admitted
    node = _n_admitted(indexes, entry, value, how in (LE, GE))
    while node > 0:
        place = indexes.start[entry] + node - 1
        for window in range(first_window, last_window + 1):
            slot = place * n_windows + window % n_windows
            if (
                indexes.window[slot] == window
                and indexes.whole[slot * n_numbers] != 0
                and is_needed(template, scratch, window - first_window)
            ):
                for number in range(n_numbers):
                    put_together(
                        template.ways[number], scratch.whole, scratch.real, scratch.scale,
                        (window - first_window) * n_numbers + number,
                        indexes.whole, indexes.real, indexes.scale, slot * n_numbers + number,
                    )  # fmt: skip
        node -= node & -node


@inlined
def _n_admitted(indexes, entry, value, equal):
    """How many sorted keys are below a value, or at most it."""
    low = 0
    high = indexes.size[entry]
    start = indexes.start[entry]
    while low < high:
        middle = (low + high) // 2
        key = indexes.keys[start + middle]
        if key < value or (equal and key == value):
            low = middle + 1
        else:
            high = middle
    return low


__all__ = ["add_scanned", "compare", "first_in_reach", "is_needed", "programs_hold"]
