"""Events that are read together: those of one partition and order, read by the same states, of which no edge is looked
at, get the same from what was before them."""

from __future__ import annotations

import math

from engine.kernels.compile.ways import inlined, leaf
from engine.kernels.trends.arrays import (
    COLUMN,
    KIND,
    N_LIMBS,
    N_NUMBERS,
    N_STATES,
    NUMBER,
    OF_EVENTS,
    OF_EXTREMES,
    OF_KNOWN,
    OF_REAL_VALUES,
    OF_WHOLE_VALUES,
)
from engine.kernels.trends.numbers import ADDED, GREATEST, LEAST, add_product, enter_extreme, multiply

MOST_TOGETHER = 4_096

_AT_ONCE = 32
"""Events that are compared at once with the first of those that are read together."""

_LARGEST_WHOLE = 2.0**53
"""Whole values add up exactly to this."""

_LARGEST_REAL = 2.0**1000
"""Real values add up to this without becoming infinite."""


@leaf
def end_of_run(template, batch, first, end):
    """The number of the first event after `first`, up to `end`, that is not read together with it. It is the same
    whatever is propagated, so that queries that share a graph have the numbers that each has alone."""
    states = batch.states[first]
    after = first + 1
    if template.sizes[N_LIMBS] > 0:
        return after
    for state in range(template.sizes[N_STATES]):
        begin = template.scan_ends[state - 1] if state > 0 else 0
        if (states >> state) & 1 == 1 and (template.scan_ends[state] > begin or template.stored[state] >= 0):
            return after
    last = min(end, first + MOST_TOGETHER)
    while after + _AT_ONCE <= last and _n_like(batch, first, after) == _AT_ONCE:
        after += _AT_ONCE
    while (
        after < last
        and batch.order[after] == batch.order[first]
        and batch.partition[after] == batch.partition[first]
        and batch.states[after] == states
        and batch.t_ms[after] == batch.t_ms[first]
    ):
        after += 1
    return after


@inlined
def _n_like(batch, first, after):
    """How many of the next events are read together with the first one, each looked at without regard to the others, so
    that the processor compares several in one instruction."""
    order, partition, states, t_ms = (
        batch.order[first], batch.partition[first], batch.states[first], batch.t_ms[first],
    )  # fmt: skip
    after = max(after, 0)
    n_like = 0
    for each in range(_AT_ONCE):
        at = after + each
        n_like += (
            (batch.order[at] == order)
            & (batch.partition[at] == partition)
            & (batch.states[at] == states)
            & (batch.t_ms[at] == t_ms)
        )
    return n_like


@leaf
def contribute_together(template, batch, scratch, state, first, after, n_windows):
    """What the events [first, after) add by themselves to what each of them gets; then the numbers are those of all of
    them together."""
    n_numbers = template.sizes[N_NUMBERS]
    whole, real, scale = scratch.whole, scratch.real, scratch.scale
    n_events = after - first
    for window in range(n_windows):
        if whole[window * n_numbers] != 0:
            for number in range(1, n_numbers):
                if template.ways[number] == ADDED and whole[window * n_numbers + number] != 0:
                    multiply(whole, real, scale, window * n_numbers + number, n_events)
    begin = template.contribution_ends[state - 1] if state > 0 else 0
    for entry in range(begin, template.contribution_ends[state]):
        number = template.contributions[entry, NUMBER]
        kind = template.contributions[entry, KIND]
        column = template.contributions[entry, COLUMN]
        total = 0.0
        size = 0.0
        n_known = 0
        if kind == OF_EVENTS:
            n_known = n_events
        else:
            for at in range(first, after):
                value = batch.columns[column, batch.rows[at]]
                if math.isnan(value):  # NULL
                    continue
                n_known += 1
                if kind == OF_EXTREMES:
                    is_more = template.ways[number] == GREATEST and value > total
                    if n_known == 1 or is_more or (template.ways[number] == LEAST and value < total):
                        total = value
                elif kind in (OF_WHOLE_VALUES, OF_REAL_VALUES):
                    if size > 0.0 and size + abs(value) > (
                        _LARGEST_WHOLE if kind == OF_WHOLE_VALUES else _LARGEST_REAL
                    ):
                        _add_total(scratch, number, n_numbers, n_windows, total, kind == OF_WHOLE_VALUES)
                        total = 0.0
                        size = 0.0
                    total += value
                    size += abs(value)
        if n_known == 0:
            continue
        if kind in (OF_EVENTS, OF_KNOWN):
            total = float(n_known)
        if kind != OF_EXTREMES:
            _add_total(scratch, number, n_numbers, n_windows, total, kind != OF_REAL_VALUES)
            continue
        for window in range(n_windows):
            if whole[window * n_numbers] != 0:
                enter_extreme(template.ways[number], real, scale, window * n_numbers + number, total)
    for window in range(n_windows):
        if whole[window * n_numbers] != 0:
            multiply(whole, real, scale, window * n_numbers, n_events)


@inlined
def _add_total(scratch, number, n_numbers, n_windows, total, is_whole):
    """Once for each trend that each of the events gets."""
    whole, real, scale = scratch.whole, scratch.real, scratch.scale
    for window in range(n_windows):
        count = window * n_numbers
        if whole[count] != 0:
            add_product(whole, real, scale, count + number, total, is_whole, whole, real, scale, count)


__all__ = ["contribute_together", "end_of_run"]
