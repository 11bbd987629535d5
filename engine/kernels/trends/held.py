"""Unfinished trends of negated patterns whose next event is asked for: events that are held.

Of a negated pattern matters where its finished trends began, and of these the latest one (GRETA, Definition 5). So of
all trends that come to an event the one that began last stands for the others: what it is asked of a next event is
asked of the event, and whatever it cuts off the others cut off no more. An event without a trend that began later than
some finished one is of no use, however it goes on. Where no predicate relates an event to the next one, neither is an
event which stands before one whose trend began as late.
"""

from __future__ import annotations

from engine.kernels.compile.ways import inlined, leaf
from engine.kernels.trends.arrays import (
    FIRST_COMPARED,
    FIRST_CUT,
    FIRST_PROGRAM,
    LAST_COMPARED,
    LAST_CUT,
    LAST_PROGRAM,
    N_COLUMNS,
    N_GRAPHS,
    N_HELD,
    N_KEPT,
    N_POSITIVE,
    N_STATES,
    NEVER,
    SLIDE_MS,
    SOURCE,
)
from engine.kernels.trends.edges import compare, programs_hold


@leaf
def latest_start(template, batch, sums, held, scratch, scan, at, least):
    """Of the held events that a transition joins to an event, the position of the one whose trend began last, later
    than at `least`; -1: none did."""
    partition = batch.partition[at]
    own = template.stored[template.scans[scan, SOURCE]]
    region = partition * template.sizes[N_HELD] + own
    start = held.start[region]
    end = start + held.length[region]
    cut = NEVER
    for entry in range(template.scans[scan, FIRST_CUT], template.scans[scan, LAST_CUT]):
        cut = max(cut, sums.finished[partition * template.sizes[N_GRAPHS] + template.cuts[entry]])
    if template.is_merged[own] != 0:
        return _best(held, start, end, batch.order[at], cut, least)
    first, last = template.scans[scan, FIRST_COMPARED], template.scans[scan, LAST_COMPARED]
    first_program, last_program = template.scans[scan, FIRST_PROGRAM], template.scans[scan, LAST_PROGRAM]
    if first_program < last_program:
        spare = held.columns.shape[1] - 1
        for column in range(template.sizes[N_COLUMNS]):
            held.columns[column, spare] = batch.columns[column, batch.rows[at]]
        scratch.registers[1] = spare
    found = -1
    position = end - 1
    while position >= start and held.order[position] > least and held.order[position] >= cut:
        if (
            held.order[position] < batch.order[at]
            and held.started[position] > least
            and compare(template, held, batch, first, last, position, batch.rows[at])
        ):
            scratch.registers[0] = position
            if first_program >= last_program or programs_hold(template, held, scratch, first_program, last_program):
                found = position
                least = held.started[position]
        position -= 1
    return found


@inlined
def _best(held, start, end, order, cut, least):
    """The same of merged events: one for each order, all but the last two of which began the later the earlier they
    stand."""
    last = end - 1
    if last >= start and held.order[last] >= order:
        last -= 1
    low = start
    high = last + 1
    while low < high:
        middle = (low + high) // 2
        if held.order[middle] < cut:
            low = middle + 1
        else:
            high = middle
    found = -1
    if low <= last:
        if held.started[low] > least:
            found = low
            least = held.started[low]
        if held.started[last] > least:
            found = last
    return found


@leaf
def hold(template, batch, held, state, at, started, started_ms):
    """Append an event to its region, which has room."""
    own = template.stored[state]
    region = batch.partition[at] * template.sizes[N_HELD] + own
    start = held.start[region]
    position = start + held.length[region]
    if template.is_merged[own] != 0 and position > start:
        last = position - 1
        if held.order[last] == batch.order[at]:
            if started > held.started[last]:
                held.started[last] = started
                held.started_ms[last] = started_ms
            return
        while last > start and held.started[last - 1] <= held.started[last]:
            _move(template, held, last, last - 1)
            last -= 1
        position = last + 1
    held.length[region] = position + 1 - start
    held.order[position] = batch.order[at]
    held.started[position] = started
    held.started_ms[position] = started_ms
    for column in range(template.sizes[N_KEPT]):
        held.derived[column, position] = batch.derived[column, batch.rows[at]]
    for column in range(template.sizes[N_COLUMNS]):
        held.columns[column, position] = batch.columns[column, batch.rows[at]]


@inlined
def _move(template, held, source, target):
    """Copy an event to a position before it."""
    held.order[target] = held.order[source]
    held.started[target] = held.started[source]
    held.started_ms[target] = held.started_ms[source]
    for column in range(template.sizes[N_KEPT]):
        held.derived[column, target] = held.derived[column, source]
    for column in range(template.sizes[N_COLUMNS]):
        held.columns[column, target] = held.columns[column, source]


@leaf
def forget_held(template, sums, held, room, n_partitions):
    """Drop the events at the start of each region that are of no use: a finished trend began as late as theirs did, or
    theirs began no later than all open windows, so that nothing is before it there. room: int64 (p, N_HELD), from the
    start on."""
    n_held = template.sizes[N_HELD]
    for state in range(template.sizes[N_POSITIVE], template.sizes[N_STATES]):
        own = template.stored[state]
        if own < 0:
            continue
        for partition in range(n_partitions):
            region = partition * n_held + own
            finished = sums.finished[partition * template.sizes[N_GRAPHS] + template.graph_of[state]]
            begun_ms = sums.first_open[partition] * template.sizes[SLIDE_MS]
            start = held.start[region]
            dropped = 0
            if sums.first_open[partition] > sums.last_open[partition]:
                dropped = held.length[region]
            while dropped < held.length[region] and (
                held.started[start + dropped] <= finished or held.started_ms[start + dropped] <= begun_ms
            ):
                dropped += 1
            held.start[region] += dropped
            held.length[region] -= dropped
            room[region] -= dropped


__all__ = ["forget_held", "hold", "latest_start"]
