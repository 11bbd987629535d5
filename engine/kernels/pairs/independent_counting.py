"""Counting where Kleene events are selected independently: one row for each pair of a first and a last event.

Work: per pair its candidates; with conditions on the whole selection times the states that these tell apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.compile.ways import inlined, kernel, leaf
from engine.kernels.pairs.independent import (
    CAN_BEGIN,
    CAN_TAKE,
    MOST,
    bind_ends,
    completions,
    find_limits,
    judge_ends,
    judge_members,
)
from engine.kernels.pairs.independent_chains import firsts_of, may_end, members_between
from engine.kernels.programs.opcodes import MAX_STACK

Bool = npt.NDArray[np.bool_]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

ROW = 0
N_FOUND = 1

DONE = 0
NO_SCRATCH = -1
NO_ROWS = -2
NO_LONGEST = -3
NO_USED = -4
"""What there was no room for; counting goes on from the cursor once there is."""

N_COLUMNS = 7


class Scratch(NamedTuple):
    """Room for one last event: `firsts` to `further` for what its window has, the rest for one pair."""

    firsts: Int64
    members: Int64
    roles: Int64
    masks: Int64
    chosen: Bool
    used: Bool
    further: npt.NDArray[np.int32]
    ways: Int64
    reached: Bool
    registers: Int64
    stack: Float64
    limits: Float64


class Found(NamedTuple):
    """See `count_pairs`."""

    rows: Int64
    offsets: Int64
    longest: Int64
    used: Int64


@leaf
def _choose(tables, start, end, roles, masks, further, state, reached, chosen, used):
    """Mark in bool (>= end,) a longest selection and every member of some match; `further` from `completions`.

    reached: bool (n_states,), scratch.
    """
    n_masks = 1 << tables.properties.shape[0]
    top = tables.sizes.shape[0] - 1
    n_states = (top + 1) * n_masks
    reached[:] = False
    reached[state] = True
    for j in range(end - start):
        member = start + j
        chosen[member] = False
        used[member] = False
        for at in range(n_states - 1, -1, -1):
            size = at // n_masks
            if not reached[at] or not roles[member] & (CAN_BEGIN if size == 0 else CAN_TAKE):
                continue
            to = min(size + 1, top) * n_masks + (at % n_masks | masks[member])
            if further[j + 1, to] < 0:
                continue
            used[member] = True
            reached[to] = True
            if at == state and not chosen[member] and further[j, at] == further[j + 1, to] + 1:
                chosen[member] = True
                state = to


@inlined
def _in_closed_form(tables, own_last, roles_last, start, end, roles, chosen, used):
    """Number of matches where any selection in order will do; marks a longest one and the members of some."""
    if tables.kleene == 0:
        if own_last and not roles_last & CAN_TAKE:
            return 0
        n_free = 0
        for j in range(start, end):
            used[j] = (roles[j] & CAN_TAKE) != 0
            chosen[j] = used[j]
            n_free += used[j]
        return 1 << n_free if n_free < 62 else MOST
    found = 0  # selections that have begun
    for j in range(start, end):
        used[j] = False
        if own_last and not roles_last & CAN_TAKE:
            chosen[j] = False
            continue
        begun = found > 0
        more = 0
        if begun and roles[j] & CAN_TAKE:
            used[j] = True
            more = found
        chosen[j] = used[j]
        if roles[j] & CAN_BEGIN:
            used[j] = True
            chosen[j] = chosen[j] or not begun
            more += 1
        found = min(found + more, MOST)
    if own_last and roles_last & CAN_BEGIN:
        found = min(found + 1, MOST)
    return found


@inlined
def _count_last(tables, columns, begin_ok, take_ok, t_ms, partition, before, last, n, with_used, scratch, found):
    """Write a row for each pair that ends in `last`, from row n on; returns the next n, or what there was no room for:
    then rows from n on mean nothing."""
    members, roles, masks, chosen, used = scratch.members, scratch.roles, scratch.masks, scratch.chosen, scratch.used
    registers, stack, limits = scratch.registers, scratch.stack, scratch.limits
    n_firsts = firsts_of(t_ms, begin_ok, before, last, tables.within_ms, scratch.firsts)
    if n_firsts < 0:
        return NO_SCRATCH
    n_masks = 1 << tables.properties.shape[0]
    sizes_free = tables.sizes.shape[0] == 2 and tables.sizes[1]
    n_members = -1
    start = 0
    for k in range(n_firsts):
        first = scratch.firsts[k]
        bind_ends(tables, first, last, registers)
        if tables.varies or k == 0:
            find_limits(tables, columns, registers, stack, limits)
        mask_first, roles_last, mask_last = judge_ends(
            tables, columns, begin_ok, take_ok, first, last, registers, stack, limits
        )
        if mask_first < 0:
            continue
        if n_members < 0:
            n_members = members_between(before, first, last, members)
            if n_members < 0:
                return NO_SCRATCH
            if not tables.varies:
                judge_members(
                    tables, columns, begin_ok, take_ok, members, 0, n_members, registers, stack, limits, roles, masks
                )
        while start < n_members and members[start] <= first:
            start += 1
        if tables.varies:
            judge_members(
                tables, columns, begin_ok, take_ok, members, start, n_members, registers, stack, limits, roles, masks
            )
        own_last = tables.kleene == tables.n_steps - 1 and first != last
        fixed = mask_first | mask_last if tables.kleene == 0 or own_last else 0
        closed = sizes_free and fixed == n_masks - 1
        if closed:
            n_matches = _in_closed_form(tables, own_last, roles_last, start, n_members, roles, chosen, used)
        else:
            further, ways = scratch.further, scratch.ways
            completions(tables, own_last, roles_last, mask_last, start, n_members, roles, masks, further, ways)
            state = n_masks + mask_first if tables.kleene == 0 else 0
            n_matches = ways[state]
            if n_matches > 0:
                _choose(tables, start, n_members, roles, masks, further, state, scratch.reached, chosen, used)
        if n_matches == 0:
            continue
        a = found.offsets[0, n]
        b = found.offsets[1, n]
        needed = n_members - start + 2
        if n == found.rows.shape[0]:
            return NO_ROWS
        if a + needed > found.longest.shape[0]:
            return NO_LONGEST
        if with_used and b + needed > found.used.shape[0]:
            return NO_USED
        found.longest[a] = first
        a += 1
        alike = True
        n_used = 0
        for j in range(start, n_members):
            if chosen[j]:
                found.longest[a] = members[j]
                a += 1
            if used[j]:
                alike = alike and (roles[j] == CAN_BEGIN | CAN_TAKE or tables.kleene == 0)
                n_used += 1
                if with_used:
                    found.used[b] = members[j]
                    b += 1
        if last != first:
            found.longest[a] = last
            a += 1
        some = 1 if tables.kleene > 0 and not own_last else 0
        found.rows[n, 0] = first
        found.rows[n, 1] = last
        found.rows[n, 2] = partition[last]
        found.rows[n, 3] = n_matches
        if n_matches == MOST:
            found.rows[n, 4] = closed and alike
        else:
            found.rows[n, 4] = n_used < 62 and n_matches == (1 << n_used) - some
        found.rows[n, 5] = t_ms[first]
        found.rows[n, 6] = t_ms[last]
        n += 1
        found.offsets[0, n] = a
        found.offsets[1, n] = b
    return n


@leaf
def _count_on(
    tables, columns, begin_ok, take_ok, t_ms, partition, before, end, most, with_used, cursor, scratch, found
):  # fmt: skip
    """Count from the cursor on; returns DONE, or what there was no room for."""
    row = cursor[ROW]
    n = cursor[N_FOUND]
    state = DONE
    while row < end and n < most and state == DONE:
        if may_end(begin_ok, take_ok, tables.kleene, row):
            after = _count_last(
                tables, columns, begin_ok, take_ok, t_ms, partition, before, row, n, with_used, scratch, found
            )  # fmt: skip
            if after < 0:
                state = after
                continue
            n = after
        row += 1
    cursor[ROW] = row
    cursor[N_FOUND] = n
    return state


@kernel
def _scratch(tables, capacity):
    n_states = tables.sizes.shape[0] << tables.properties.shape[0]
    return Scratch(
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.bool_),
        np.empty(capacity, np.bool_),
        np.empty((capacity + 1, n_states), np.int32),
        np.empty(n_states, np.int64),
        np.empty(n_states, np.bool_),
        np.empty(2 * tables.n_steps + 1, np.int64),
        np.empty(MAX_STACK, np.float64),
        np.empty(tables.properties.shape[0], np.float64),
    )


@kernel
def _longer(numbers):
    """Twice the room; what is not used yet takes no memory."""
    longer = np.empty(2 * numbers.shape[0], np.int64)
    longer[: numbers.shape[0]] = numbers
    return longer


@kernel
def count_pairs(tables, columns, begin_ok, take_ok, t_ms, partition, before, start, end, most, with_used):
    """One row for each of the pairs between which there are matches and whose last event is one of start..end-1.

    t_ms: int64 (>= end,), ascending. partition, begin_ok, take_ok, before: see `independent_chains.enter_rows`. It
    stops after the last event with which there are `most` rows.

    Returns rows int64 (n, 7): first, last, partition, number of matches (at most MOST), 1 when every combination in
    order of the used members is a match, times of first and last; offsets int64 (2, n + 1); longest int64: a longest
    match of row k is longest[offsets[0, k] : offsets[0, k + 1]]; used int64: its members, by offsets[1], none unless
    `with_used`; the first row that is not done. Pairs by last, then first.
    """
    capacity = 256
    scratch = _scratch(tables, capacity)
    rows = np.empty((256, N_COLUMNS), np.int64)
    offsets = np.zeros((2, 257), np.int64)
    longest = np.empty(1024, np.int64)
    used = np.empty(512, np.int64)
    cursor = np.array([start, 0])
    while True:
        found = Found(rows, offsets, longest, used)
        state = _count_on(
            tables,
            columns,
            begin_ok,
            take_ok,
            t_ms,
            partition,
            before,
            end,
            most,
            with_used,
            cursor,
            scratch,
            found,
        )
        if state == NO_SCRATCH:
            capacity *= 4
            scratch = _scratch(tables, capacity)
        elif state == NO_ROWS:
            rows = np.concatenate((rows, np.empty_like(rows)))
            offsets = np.concatenate((offsets, np.empty((2, offsets.shape[1] - 1), np.int64)), axis=1)
        elif state == NO_LONGEST:
            longest = _longer(longest)
        elif state == NO_USED:
            used = _longer(used)
        else:
            n = cursor[N_FOUND]
            return rows[:n], offsets[:, : n + 1], longest[: offsets[0, n]], used[: offsets[1, n]], cursor[ROW]


__all__ = ["count_pairs"]
