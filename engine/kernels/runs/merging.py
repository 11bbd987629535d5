"""Merging of equivalent runs (SASE+ section 5.3).

Runs of one partition that have selected one event in one state, and agree on all that later predicates read, select the
same events from then on. They go on as one run with a union of their histories; it expires with the one of them that
started last, and a match is told for those whose start is still within the window (`engine.kernels.runs.paths`).
"""

from __future__ import annotations

import numpy as np

from engine.kernels.columns.hashing import mix
from engine.kernels.compile.ways import leaf
from engine.kernels.runs.arrays import (
    BRANCH,
    COMPONENT,
    ENTRY_HASH,
    ENTRY_RUN,
    ENTRY_STAMP,
    FIRST_LIVE,
    FIRST_REGISTER,
    HEAD,
    LAST_LIVE,
    LIVE_COLUMN,
    LIVE_KIND,
    LIVE_OF,
    MERGEABLE,
    N_MERGED,
    N_NODES,
    PARENT,
    POSITION,
    ROW,
    STAMP,
    STATE,
    UNION,
    VALUE,
)

MERGED_AWAY = -1
"""State of a run that another one has taken in."""


@leaf
def merge_equivalent(plan, columns, runs, nodes, n_changed, counters, scratch):
    """Merge those of runs.changed[:n_changed] that are equivalent; each has selected the event at hand last.

    Records of arrays: see `engine.kernels.runs.arrays`; columns: of the store. Returns how many runs have become
    MERGED_AWAY.
    """
    table = runs.table
    counters[STAMP] += 1
    mask = 3  # of so much of the table as leaves half of it free
    while mask < 2 * n_changed:
        mask = 2 * mask + 1
    n_merged = 0
    for at in range(n_changed):
        run = runs.changed[at]
        if plan.live_states[runs.fields[run, STATE], MERGEABLE] == 0:
            continue
        code = _hash(plan, columns, runs, run, scratch)
        entry = code & mask
        while table[entry, ENTRY_STAMP] == counters[STAMP]:
            other = table[entry, ENTRY_RUN]
            if table[entry, ENTRY_HASH] == code and _are_equivalent(plan, columns, runs, other, run):
                _merge(runs, nodes, counters, other, run)
                n_merged += 1
                break
            entry = (entry + 1) & mask
        if runs.fields[run, STATE] != MERGED_AWAY:
            table[entry, ENTRY_STAMP] = counters[STAMP]
            table[entry, ENTRY_HASH] = code
            table[entry, ENTRY_RUN] = run
    counters[N_MERGED] += n_merged
    return n_merged


@leaf
def _read(plan, columns, runs, at, run):
    """What entry `at` of `live` stands for in a run, as a double; NaN for NULL."""
    of = plan.live[at, LIVE_OF]
    kind = plan.live[at, LIVE_KIND]
    if kind == VALUE:
        row = runs.fields[run, FIRST_REGISTER + of]
        return columns[plan.live[at, LIVE_COLUMN], row] if row >= 0 else np.nan
    if kind == POSITION:
        return float(runs.fields[run, FIRST_REGISTER + of])
    return runs.aggregates[run, of]


@leaf
def _hash(plan, columns, runs, run, scratch):
    state = runs.fields[run, STATE]
    code = mix(np.int64(0x1357924), state)
    for at in range(plan.live_states[state, FIRST_LIVE], plan.live_states[state, LAST_LIVE]):
        value = _read(plan, columns, runs, at, run)
        # NaN differs from itself; -0.0 is 0.0
        scratch.number[0] = value + 0.0 if value == value else 0.5  # noqa: PLR0124
        code = mix(code, scratch.bits[0])
    return code


@leaf
def _are_equivalent(plan, columns, runs, one, other):
    state = runs.fields[one, STATE]
    if runs.fields[other, STATE] != state:
        return False
    for at in range(plan.live_states[state, FIRST_LIVE], plan.live_states[state, LAST_LIVE]):
        a = _read(plan, columns, runs, at, one)
        b = _read(plan, columns, runs, at, other)
        if not (a == b or (a != a and b != b)):  # noqa: PLR0124  # NULL and NULL are the same to every predicate
            return False
    return True


@leaf
def _merge(runs, nodes, counters, kept, merged):
    """`kept` goes on with both histories, and otherwise as the one of the two that started last."""
    fields = runs.fields
    kept_is_younger = fields[kept, FIRST_REGISTER] >= fields[merged, FIRST_REGISTER]
    younger, older = (kept, merged) if kept_is_younger else (merged, kept)
    node = counters[N_NODES]
    counters[N_NODES] += 1
    nodes[node, PARENT] = fields[younger, HEAD]
    nodes[node, ROW] = fields[older, HEAD]
    nodes[node, COMPONENT] = UNION
    nodes[node, BRANCH] = fields[older, FIRST_REGISTER]
    if not kept_is_younger:
        for k in range(FIRST_REGISTER, fields.shape[1]):
            fields[kept, k] = fields[merged, k]
        for k in range(runs.aggregates.shape[1]):
            runs.aggregates[kept, k] = runs.aggregates[merged, k]
    fields[kept, HEAD] = node
    fields[merged, STATE] = MERGED_AWAY


__all__ = ["MERGED_AWAY", "merge_equivalent"]
