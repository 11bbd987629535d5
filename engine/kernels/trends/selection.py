"""The graph under skip till next match and contiguity: which earlier events may still be followed.

Numbers are propagated as under skip till any match (`engine.kernels.trends.graph`); what differs is which events stand
before the one at hand. Runs that come to an event in one state go on alike from there, whatever lies before: so an
event of a state is taken for all of its trends at once, in all windows, and is then forgotten. Under contiguity it is
taken by whatever comes next in its partition; under skip till next match by an event that a state reads behind a
transition of which all edge predicates hold, if that is one after which the run does not stay where it is (SASE+
section 3.2). What is negated forbids to pass on numbers, and does not change what is taken.
"""

from __future__ import annotations

from engine.kernels.compile.ways import inlined, leaf
from engine.kernels.trends.arrays import (
    BREAKS,
    FIRST_COMPARED,
    FIRST_PROGRAM,
    LAST_COMPARED,
    LAST_PROGRAM,
    N_COLUMNS,
    N_KEPT,
    N_NUMBERS,
    N_POSITIVE,
    N_STATES,
    N_STORED,
    N_WINDOWS,
    NEVER,
    SCAN,
    SLIDE_MS,
    TARGET,
    WITHIN_MS,
)
from engine.kernels.trends.edges import compare, programs_hold
from engine.kernels.trends.graph import (
    close,
    contribute,
    end_order,
    gather,
    is_reached,
    note_reached,
    pass_on,
    read_negated,
    store,
)


@leaf
def advance_selecting(template, selection, batch, sums, vertices, held, indexes, ahead, results, scratch, first):
    """Take in events from number `first` on; returns the number of the next one, fewer than all where there was no room
    for the results of windows that it closes. Records of arrays: see `engine.kernels.trends.arrays`."""
    slide_ms = template.sizes[SLIDE_MS]
    within_ms = template.sizes[WITHIN_MS]
    before_ms = NEVER
    last_window = 0
    first_window = 0
    for at in range(first, batch.rows.shape[0]):
        partition = batch.partition[at]
        if batch.states[at] == BREAKS:
            if selection.is_contiguous[0] != 0:
                _forget_all(template, vertices, partition)
            continue
        t_ms = batch.t_ms[at]
        if t_ms != before_ms:
            last_window = (t_ms - 1) // slide_ms
            first_window = -((within_ms - t_ms) // slide_ms)
            before_ms = t_ms
        if last_window < first_window:  # between two windows: nothing before it is in one with anything after it
            continue
        if results.n_rows[0] + template.sizes[N_WINDOWS] > results.window.shape[0]:
            return at
        if batch.order[at] > sums.order[partition]:
            end_order(template, sums, partition)
            close(template, sums, vertices, results, partition, first_window - 1)
            sums.order[partition] = batch.order[at]
            sums.first_open[partition] = first_window
            sums.last_open[partition] = last_window
        _read(template, selection, batch, sums, vertices, held, indexes, ahead, scratch, at, first_window, last_window)
    return batch.rows.shape[0]


@inlined
def _forget_all(template, vertices, partition):
    n_stored = template.sizes[N_STORED]
    for region in range(partition * n_stored, (partition + 1) * n_stored):
        vertices.length[region] = 0


@inlined
def _read(template, selection, batch, sums, vertices, held, indexes, ahead, scratch, at, first_window, last_window):
    """The event becomes a vertex of each state that reads it, and takes what stands before it."""
    n_states = template.sizes[N_STATES]
    n_positive = template.sizes[N_POSITIVE]
    n_stored = template.sizes[N_STORED]
    first_region = batch.partition[at] * n_stored
    states = batch.states[at]
    for stored in range(n_stored):
        selection.length[stored] = vertices.length[first_region + stored]
    for state in range(n_states):
        if (states >> state) & 1 == 0:
            continue
        if state >= n_positive:
            read_negated(template, batch, sums, held, scratch, state, at)
            continue
        gather(template, batch, sums, vertices, indexes, ahead, scratch, state, at, first_window, last_window)
        if not is_reached(template, scratch, last_window - first_window + 1):
            continue
        if batch.reached.shape[1] > 0:
            note_reached(template, batch, scratch, state, at, first_window, last_window)
        n_open = last_window - first_window + 1
        contribute(template, batch, scratch.whole, scratch.real, scratch.scale, 0, state, at, n_open)
        pass_on(template, sums, scratch, state, batch.partition[at], first_window, last_window)
        if template.stored[state] >= 0:
            store(template, batch, vertices, scratch, state, at, first_window, last_window)
    for stored in range(n_stored):
        _take(template, selection, batch, vertices, scratch, stored, first_region + stored, at)


@leaf
def _take(template, selection, batch, vertices, scratch, stored, region, at):
    """Forget those of a region that stood there before the event, and that it takes."""
    n_before = selection.length[stored]
    begin = selection.taking_ends[stored - 1] if stored > 0 else 0
    end = selection.taking_ends[stored]
    is_contiguous = selection.is_contiguous[0] != 0
    if n_before == 0 or not (is_contiguous or _may_take(selection, batch, begin, end, at)):
        return
    start = vertices.start[region]
    kept = start
    for position in range(start, start + vertices.length[region]):
        if position < start + n_before and (
            is_contiguous or _takes(template, selection, batch, vertices, scratch, begin, end, position, at)
        ):
            continue
        if kept < position:
            _move(template, vertices, position, kept)
        kept += 1
    vertices.length[region] = kept - start


@inlined
def _may_take(selection, batch, first, last, at):
    """Whether the event is read behind one of these transitions."""
    found = False
    for entry in range(first, last):
        found = found or (batch.states[at] >> selection.taking[entry, TARGET]) & 1 == 1
    return found


@inlined
def _takes(template, selection, batch, vertices, scratch, first, last, position, at):
    """Whether one of these transitions leads from an earlier event to the one at hand."""
    if vertices.order[position] >= batch.order[at]:
        return False
    found = False
    for entry in range(first, last):
        if found or (batch.states[at] >> selection.taking[entry, TARGET]) & 1 == 0:
            continue
        scan = selection.taking[entry, SCAN]
        found = compare(
            template, vertices, batch, template.scans[scan, FIRST_COMPARED], template.scans[scan, LAST_COMPARED],
            position, batch.rows[at],
        )  # fmt: skip
        first_program, last_program = template.scans[scan, FIRST_PROGRAM], template.scans[scan, LAST_PROGRAM]
        if found and first_program < last_program:
            spare = vertices.columns.shape[1] - 1
            for column in range(template.sizes[N_COLUMNS]):
                vertices.columns[column, spare] = batch.columns[column, batch.rows[at]]
            scratch.registers[0] = position
            scratch.registers[1] = spare
            found = programs_hold(template, vertices, scratch, first_program, last_program)
    return found


@inlined
def _move(template, vertices, source, target):
    """Copy an event to a position before it."""
    width = template.sizes[N_WINDOWS] * template.sizes[N_NUMBERS]
    vertices.order[target] = vertices.order[source]
    vertices.first_window[target] = vertices.first_window[source]
    vertices.last_window[target] = vertices.last_window[source]
    for entry in range(width):
        vertices.whole[target * width + entry] = vertices.whole[source * width + entry]
        vertices.scale[target * width + entry] = vertices.scale[source * width + entry]
    for column in range(template.sizes[N_KEPT]):
        vertices.derived[column, target] = vertices.derived[column, source]
    for column in range(template.sizes[N_COLUMNS]):
        vertices.columns[column, target] = vertices.columns[column, source]


__all__ = ["advance_selecting"]
