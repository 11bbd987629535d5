"""Transitions whose edges depend on the events: earlier events one by one, or summed up by value in an index.

One inequality between a value of the earlier and a value of the later event admits a range of values from one end. Of
events of earlier batches an index of prefix aggregates answers for it in O(log n): their positions in the order of
values, and for each block of these what all before it have together (sums of any size are added, never subtracted).
What comes in small batches waits behind it and is looked at one by one, until it is made anew. What the events of a
large batch have for later ones of it is brought to these ahead (`engine.kernels.trends.ahead`), under two inequalities
also what stands before the batch.
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
def add_scanned(template, batch, sums, vertices, indexes, ahead, scratch, scan, at, first_window, last_window):
    """Add to the numbers of an event those of the earlier events that a transition joins to it."""
    partition = batch.partition[at]
    stored = template.stored[template.scans[scan, SOURCE]]
    region = partition * template.sizes[N_STORED] + stored
    start = vertices.start[region]
    end = start + vertices.length[region]
    other = start
    middle = end  # those from here on are known ahead, but for those of the block at hand
    block = end
    index = template.scans[scan, INDEX]
    if index >= 0:
        entry = partition * template.sizes[N_INDEXES] + index
        other += indexes.limit[entry]
        if indexes.size[entry] > 0:
            _add_indexed(template, batch, vertices, indexes, scratch, scan, entry, start, at, first_window, last_window)
    slot = ahead.slot[scan]
    if slot >= 0 and ahead.due[partition] >= 0 and ahead.start[partition * ahead.levels.shape[0] + slot] >= 0:
        middle = start + ahead.before[stored]
        block = start + ahead.block[stored]
        if ahead.second[slot] >= 0:  # what is there before the batch is brought as well
            other = middle
        each = at - ahead.first[partition]
        _add_brought(template, ahead, scratch, slot, each, last_window - first_window + 1)
    if other < middle:
        other = max(other, first_in_reach(template, sums, vertices, partition, scan, first_window))
    if middle <= other < block:
        other = block
    if other >= end:
        return
    first, last = template.scans[scan, FIRST_COMPARED], template.scans[scan, LAST_COMPARED]
    first_program, last_program = template.scans[scan, FIRST_PROGRAM], template.scans[scan, LAST_PROGRAM]
    spare = vertices.columns.shape[1] - 1
    if first_program < last_program:
        for column in range(template.sizes[N_COLUMNS]):
            vertices.columns[column, spare] = batch.columns[column, batch.rows[at]]
        scratch.registers[1] = spare
    while other < end:
        position = other
        other += 1
        if middle <= other < block:
            other = block
        if vertices.order[position] >= batch.order[at]:
            return
        if not compare(template, vertices, batch, first, last, position, batch.rows[at]):
            continue
        if first_program < last_program:
            scratch.registers[0] = position
            if not programs_hold(template, vertices, scratch, first_program, last_program):
                continue
        _add_vertex(template, vertices, scratch, position, first_window, last_window)


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
def _add_brought(template, ahead, scratch, slot, each, n_open):
    """Add what earlier blocks of the batch have brought to an event."""
    n_numbers = template.sizes[N_NUMBERS]
    first = (slot * ahead.position.shape[1] + each) * template.sizes[N_WINDOWS] * n_numbers
    for window in range(n_open):
        source = first + window * n_numbers
        if ahead.whole[source] != 0 and is_needed(template, scratch, window):
            for number in range(n_numbers):
                put_together(
                    template.ways[number], scratch.whole, scratch.real, scratch.scale, window * n_numbers + number,
                    ahead.whole, ahead.real, ahead.scale, source + number,
                )  # fmt: skip


@leaf
def _add_indexed(template, batch, vertices, indexes, scratch, scan, entry, start, at, first_window, last_window):
    """Add what the admitted values have together: the blocks before the last one at once, of that one each."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    compared = template.scans[scan, FIRST_COMPARED]
    how, key = template.compared[compared, HOW], template.compared[compared, LEFT]
    value = batch.derived[template.compared[compared, RIGHT], batch.rows[at]]
    last = min(last_window, indexes.last_window[entry])
    if math.isnan(value) or last < first_window:
        return
    # Keys are negated where larger ones are admitted, so that it is a prefix.
    sign = -1.0 if how in (GT, GE) else 1.0
    equal = how in (LE, GE)
    value *= sign
    size = indexes.block[0]
    block = _last_admitted(indexes, entry, value, equal)
    if block < 0:
        return
    first_block = indexes.start[entry] // size
    for window in range(first_window, last + 1):
        slot = ((first_block + block) * n_windows + window % n_windows) * n_numbers
        if indexes.whole[slot] != 0 and is_needed(template, scratch, window - first_window):
            for number in range(n_numbers):
                put_together(
                    template.ways[number], scratch.whole, scratch.real, scratch.scale,
                    (window - first_window) * n_numbers + number,
                    indexes.whole, indexes.real, indexes.scale, slot + number,
                )  # fmt: skip
    for each in range(block * size, min((block + 1) * size, indexes.size[entry])):
        position = indexes.position[indexes.start[entry] + each] - indexes.gone[entry]
        if position < 0:
            continue
        own = sign * vertices.derived[key, start + position]
        if not (own < value or (equal and own == value)):
            return
        _add_vertex(template, vertices, scratch, start + position, first_window, last_window)


@inlined
def _last_admitted(indexes, entry, value, equal):
    """The last block whose first key is below a value, or at most it; -1: none."""
    size = indexes.block[0]
    first = indexes.start[entry] // size
    low = 0
    high = (indexes.size[entry] + size - 1) // size
    while low < high:
        middle = (low + high) // 2
        key = indexes.key[first + middle]
        if key < value or (equal and key == value):
            low = middle + 1
        else:
            high = middle
    return low - 1


@leaf
def sum_blocks(template, sums, vertices, indexes, partition, entry, start):
    """Make the sums of an index whose entries are in order, for the windows that are open; `start`: of its region."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    size = indexes.block[0]
    first_block = indexes.start[entry] // size
    last_window = indexes.last_window[entry]
    first_window = max(sums.first_open[partition], last_window - n_windows + 1)
    n_blocks = (indexes.size[entry] + size - 1) // size
    width = n_windows * n_numbers
    for number in range(first_block * width, (first_block + min(1, n_blocks)) * width):
        indexes.whole[number] = 0
        indexes.scale[number] = 0
    for block in range(first_block + 1, first_block + n_blocks):
        for number in range(block * width, (block + 1) * width):
            indexes.whole[number] = indexes.whole[number - width]
            indexes.scale[number] = indexes.scale[number - width]
        for each in range((block - 1) * size, block * size):
            position = start + indexes.position[each]
            own_window = vertices.first_window[position]
            for window in range(max(first_window, own_window), vertices.last_window[position] + 1):
                source = (position * n_windows + window - own_window) * n_numbers
                target = block * width + window % n_windows * n_numbers
                if vertices.whole[source] != 0:
                    for number in range(n_numbers):
                        put_together(
                            template.ways[number], indexes.whole, indexes.real, indexes.scale, target + number,
                            vertices.whole, vertices.real, vertices.scale, source + number,
                        )  # fmt: skip


__all__ = ["add_scanned", "compare", "first_in_reach", "is_needed", "programs_hold", "sum_blocks"]
