"""A batch of precise events taken in by one query: what may be part of a match, by partition, copied to its store.

Local predicates, the window after a first event, keys and copying are one pass over the rows of the query's types, so
that a batch costs a query of many little more than what it takes of it (window push-down: SASE+ section 4.2; early
filters: SASE++ section 5.2).
"""

from __future__ import annotations

import numpy as np

from engine.kernels.columns.keys import EMPTY, enter_key, find_key
from engine.kernels.columns.partitions import BROADCAST
from engine.kernels.compile.ways import kernel
from engine.kernels.programs.blocks import BLOCK, evaluate_block, stack_depth
from engine.kernels.programs.opcodes import TRUE

AT = 0
FIRST = 1
N_STORED = 2
N_KNOWN = 3
UNTIL_MS = 4
N_FOUND = 5
N_NEW = 6
"""Entries of a cursor: rows looked at, first events passed, rows stored, keys known, until when events are live; the
rows and keys for which there must be room."""

NO_PARTITION = -2


@kernel
def take_in(
    t_ms, type_codes, source_seq, source_rows, clocks, columns, rows, firsts, n_before, code, bounds, constants, roles,
    type_positions, broadcast, key_positions, adds_all, within_ms, latest_ms, slots, keys, flat, values, table, cursor,
):  # fmt: skip
    """Store the rows that some edge accepts while a first event is at most a window older, in their partition.

    Of the batch: t_ms: int64 (n,), ascending; type_codes: int32 (n,); source_rows: int64 (n,), where source_seq, int64,
    has that of each row, or empty when it is by row; clocks: int64 (n,), or empty when no event has one; columns:
    float64 (n_columns, n). rows: int64, those of the query's types, empty: all; firsts: int64, those of them that may
    begin a match. n_before: events of the stream before this batch.
    Of the query: programs; roles: int64 (n_roles, 4), for each edge its type, its programs first..last-1, and whether
    its events are stored in any case; type -1 for no edge, the first one accepts `firsts`; type_positions: int64 by
    type code, the type's number in the query or -1; broadcast: bool by that number; key_positions: int64, columns of
    the key; adds_all: any event numbers a partition.
    State: latest_ms: int64 (>= capacity of keys + 1,), newest first event by partition + 1; slots, keys: see `keys`;
    flat: int64 (>= 7, capacity), see `EventStore.flat`; values: float64 (n, capacity); table: bool (n_roles, >=
    capacity); all written from cursor[N_STORED] on.

    It stops before a block for which rows or keys may not suffice; it is through when cursor[AT] is the number of rows.

    bounds: int32 (n_programs + 1,). source_seq: int64 (.,). rows, firsts: int64 (.,). type_positions: int64
    (n_type_codes,), broadcast: bool (n_types,), key_positions: int64 (width,). cursor: int64 (.,), written.
    """
    n_roles = roles.shape[0]
    width = key_positions.shape[0]
    n_values = values.shape[0]
    any_free = False
    depth = 1
    for role in range(n_roles):
        depth = max(depth, stack_depth(code, bounds, roles[role, 1], roles[role, 2]))
        any_free |= roles[role, 3] != 0
    stack = np.empty((depth, BLOCK), np.float64)
    block = np.empty(BLOCK, np.int64)
    kinds = np.empty(BLOCK, np.int64)
    chosen = np.empty(BLOCK, np.int64)
    positions = np.empty(BLOCK, np.int64)
    marks = np.empty((n_roles, BLOCK), np.bool_)
    found = np.empty(BLOCK, np.bool_)
    numbers = np.empty((width, 1), np.float64)
    bits = numbers.view(np.int64)
    n_stored = cursor[N_STORED]
    n_known = cursor[N_KNOWN]
    all_rows = rows.shape[0] == 0
    n_rows = t_ms.shape[0] if all_rows else rows.shape[0]
    while cursor[AT] < n_rows:
        at = cursor[AT]
        first_at = cursor[FIRST]
        until_ms = cursor[UNTIL_MS]
        n = 0
        while n < BLOCK and at < n_rows:
            row = at if all_rows else rows[at]
            if first_at < firsts.shape[0] and firsts[first_at] == row:
                until_ms = max(until_ms, t_ms[row] + within_ms)
                first_at += 1
            elif t_ms[row] > until_ms and not any_free:
                if first_at == firsts.shape[0]:
                    at = n_rows
                elif all_rows:
                    at = firsts[first_at]
                else:
                    at += np.searchsorted(rows[at:], firsts[first_at])
                continue
            block[n] = row
            kinds[n] = type_positions[type_codes[row]]
            found[n] = False
            n += 1
            at += 1
        n_found = 0
        for role in range(n_roles):
            marks[role, :n] = False
            m = 0
            if role == 0:
                j = 0
                for k in range(cursor[FIRST], first_at):
                    while block[j] != firsts[k]:
                        j += 1
                    positions[m] = j
                    m += 1
            elif roles[role, 0] >= 0:
                for j in range(n):
                    if kinds[j] == roles[role, 0]:
                        chosen[m] = block[j]
                        positions[m] = j
                        m += 1
                for program in range(roles[role, 1], roles[role, 2]):
                    evaluate_block(code, bounds[program], bounds[program + 1], constants, columns, chosen, m, stack)
                    left = 0
                    for j in range(m):
                        if stack[0, j] == TRUE:
                            chosen[left] = chosen[j]
                            positions[left] = positions[j]
                            left += 1
                    m = left
            for j in range(m):
                marks[role, positions[j]] = True
                n_found += not found[positions[j]]
                found[positions[j]] = True
        n_new = n_found if adds_all else first_at - cursor[FIRST]
        if width == 0:
            n_new = min(n_new, 1)
        if n_stored + n_found > flat.shape[1] or n_known + n_new > keys.shape[0]:
            cursor[N_FOUND] = n_found
            cursor[N_NEW] = n_new
            return
        live_until_ms = cursor[UNTIL_MS]
        for j in range(n):
            if not found[j]:
                continue
            row = block[j]
            now = t_ms[row]
            is_first = marks[0, j]
            own = BROADCAST
            if not broadcast[kinds[j]]:
                complete = True
                for k in range(width):
                    numbers[k, 0] = columns[key_positions[k], row] + 0.0  # -0.0 is 0.0
                    complete &= not np.isnan(numbers[k, 0])
                if not complete:
                    continue
                own = find_key(bits, 0, slots, keys)
                if own == EMPTY:
                    own = NO_PARTITION
                    if is_first or adds_all:
                        own = n_known
                        enter_key(bits, 0, slots, keys, own)
                        n_known += 1
            free = False
            for role in range(n_roles):
                free |= marks[role, j] and roles[role, 3] != 0
            if is_first:
                latest_ms[own + 1] = max(latest_ms[own + 1], now)
                live_until_ms = max(live_until_ms, now + within_ms)
            if not free and (now > live_until_ms or (own != BROADCAST and now - latest_ms[0] > within_ms
                and (own < 0 or now - latest_ms[own + 1] > within_ms))):  # fmt: skip
                continue
            flat[0, n_stored] = now
            flat[1, n_stored] = now
            flat[2, n_stored] = source_seq[source_rows[row] if source_rows.shape[0] > 0 else row]
            flat[3, n_stored] = own
            flat[4, n_stored] = clocks[row] if clocks.shape[0] > 0 else -1
            flat[5, n_stored] = kinds[j]
            flat[flat.shape[0] - 1, n_stored] = row
            if flat.shape[0] > 7:
                flat[6, n_stored] = n_before + row
            for k in range(n_values):
                values[k, n_stored] = columns[k, row]
            for role in range(n_roles):
                table[role, n_stored] = marks[role, j]
            n_stored += 1
        cursor[AT] = at
        cursor[FIRST] = first_at
        cursor[UNTIL_MS] = until_ms
        cursor[N_STORED] = n_stored
        cursor[N_KNOWN] = n_known


__all__ = ["AT", "FIRST", "N_FOUND", "N_KNOWN", "N_NEW", "N_STORED", "UNTIL_MS", "take_in"]
