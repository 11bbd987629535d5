"""Utilities of events by their keys, and which events are dropped (gSPICE, sections III-C and III-D)."""

from __future__ import annotations

from engine.kernels.compile.ways import inlined, leaf

EMPTY = 0
"""Key of a free entry of a table; no event has it."""


@leaf
def fill(table_keys, table_values, keys, values):
    """Enter keys, each once, with their values into an empty table.

    table_keys: int64 (a power of two,), all EMPTY, more than keys; table_values: float64 (as many,). Both are written.
    keys: int64 (n,); values: float64 (n,).
    """
    mask = table_keys.shape[0] - 1
    for k in range(keys.shape[0]):
        entry = _first_entry(keys[k], mask)
        while table_keys[entry] != EMPTY:
            entry = (entry + 1) & mask
        table_keys[entry] = keys[k]
        table_values[entry] = values[k]


@leaf
def look_up(types, pane_keys, own_keys, type_keys, table_keys, table_values, type_values, utilities):
    """The utility of each event: of its type, pane and attributes; if these were never seen together, of its type and
    attributes; if these were not, of its type. Returns how many were not found by their whole key.

    types: int64 (n,), numbered from 0. pane_keys, own_keys: int64 (n,), of panes and of attributes. type_keys: int64
    (n_types, 2), random: of a type with its pane, and without. table_keys, table_values: see `fill`. type_values:
    float64 (n_types,). utilities: float64 (n,), written.
    """
    mask = table_keys.shape[0] - 1
    n_unseen = 0
    for k in range(types.shape[0]):
        kind = types[k]
        entry = _find(pane_keys[k] ^ own_keys[k] ^ type_keys[kind, 0], table_keys, mask)
        if entry < 0:
            n_unseen += 1
            entry = _find(own_keys[k] ^ type_keys[kind, 1], table_keys, mask)
        utilities[k] = table_values[entry] if entry >= 0 else type_values[kind]
    return n_unseen


@leaf
def choose(utilities, threshold, share, owed, keeps):
    """Drop what is worth less than the threshold, and of what is worth as much the given share, evenly.

    utilities: float64 (n,). owed: float64 (1,): what of a further drop at the threshold is due, carried over between
    batches. keeps: bool (n,), written. Returns how many are dropped.
    """
    n_dropped = 0
    for k in range(utilities.shape[0]):
        drops = utilities[k] < threshold
        if utilities[k] == threshold:
            owed[0] += share
            if owed[0] >= 1.0:
                owed[0] -= 1.0
                drops = True
        keeps[k] = not drops
        n_dropped += drops
    return n_dropped


@inlined
def _first_entry(key, mask):
    return (key ^ (key >> 29)) & mask


@inlined
def _find(key, table_keys, mask):
    entry = _first_entry(key, mask)
    while table_keys[entry] != EMPTY:
        if table_keys[entry] == key:
            return entry
        entry = (entry + 1) & mask
    return -1


__all__ = ["EMPTY", "choose", "fill", "look_up"]
