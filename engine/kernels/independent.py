"""Skip till any match where Kleene events are selected independently (see `engine.plan.independent`).

All pairs of a first and a last event of one step of the watermark are found and counted by two calls. Events stand in
chains: each row that may be first, or be a Kleene event, knows the one before it in its partition, so that a last event
walks back over its window alone, however many partitions there are (the shared pass of SASE++ section 5.1).

Work: O(1) per row, per pair its candidates; with conditions on the whole selection times the states that these tell
apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.compiling import inlined, kernel, leaf
from engine.kernels.opcodes import GT, LE, LT, MAX_STACK, TRUE
from engine.kernels.predicates import evaluate, reset_aggregates, update_aggregates

Int32 = npt.NDArray[np.int32]

MOST = 2**62 - 1  # counts stop here; the sum of two still fits
FIRST = 0
MEMBER = 1
BROADCAST = -1

CAN_BEGIN = 1
CAN_TAKE = 2


class IndependentTables(NamedTuple):
    """An `IndependentForm` as arrays: program numbers int32 (k,), properties int32 (k, 4), sizes bool (k,)."""

    code: Int32
    bounds: Int32
    constants: npt.NDArray[np.float64]
    on_first: Int32
    on_last: Int32
    begin: Int32
    take: Int32
    each: Int32
    properties: Int32
    sizes: npt.NDArray[np.bool_]
    kleene: int
    n_steps: int
    within_ms: int
    varies: bool


@kernel
def chain_pairs(
    t_ms, partition, begin_ok, take_ok, heads, before, kleene, shared_first, shared_member, start, end, within_ms, most
):
    """Enter the rows start..end-1 into their chains; returns the pairs that end in them and the first row not done.

    within_ms < 0: no pairs are looked for.

    t_ms, partition: int64 (>= end,), times ascending. begin_ok, take_ok: bool (n_steps, >= end). heads: int64
    (2, n_partitions + 1), for FIRST and MEMBER the newest row of each partition (BROADCAST + 1 and on), -1: none.
    before: int64 (2, >= end), the row before each one in its chain. shared_first, shared_member: these events are
    broadcast. It stops before a row once there are `most` pairs.

    Pairs: int64 (n, 4): first, last, partition, the newest member before last; by last, then first.
    """
    n_steps = begin_ok.shape[0]
    last_step = n_steps - 1
    pairs = np.empty((256, 4), np.int64)
    n_pairs = 0
    for row in range(start, end):
        if n_pairs >= most:
            return pairs[:n_pairs], row
        own = partition[row] + 1
        ends = begin_ok[last_step, row]
        if kleene == last_step:
            ends |= take_ok[last_step, row]
        if ends and within_ms >= 0:
            group = 0 if shared_member else own
            newest = heads[MEMBER, group]
            oldest_ms = t_ms[row] - within_ms
            found = n_pairs
            first = row if n_steps == 1 and begin_ok[0, row] else heads[FIRST, 0 if shared_first else own]
            while first >= 0 and t_ms[first] >= oldest_ms:
                if n_pairs == pairs.shape[0]:
                    pairs = np.concatenate((pairs, np.empty_like(pairs)))
                pairs[n_pairs, 0] = first
                pairs[n_pairs, 1] = row
                pairs[n_pairs, 2] = own - 1
                pairs[n_pairs, 3] = newest
                n_pairs += 1
                first = heads[FIRST, 0 if shared_first else own] if first == row else before[FIRST, first]
            low = found
            high = n_pairs - 1
            while low < high:
                for k in range(4):
                    pairs[low, k], pairs[high, k] = pairs[high, k], pairs[low, k]
                low += 1
                high -= 1
        if begin_ok[0, row]:
            before[FIRST, row] = heads[FIRST, own]
            heads[FIRST, own] = row
        if take_ok[kleene, row] or (kleene > 0 and begin_ok[kleene, row]):
            before[MEMBER, row] = heads[MEMBER, own]
            heads[MEMBER, own] = row
    return pairs[:n_pairs], end


@leaf
def members_between(before, newest, first, members):
    """Write the rows of a chain after `first`, up to `newest`, ascending; returns their number, or -1 for no room."""
    n = 0
    row = newest
    while row > first:
        if n == members.shape[0]:
            return -1
        members[n] = row
        n += 1
        row = before[MEMBER, row]
    low = 0
    high = n - 1
    while low < high:
        members[low], members[high] = members[high], members[low]
        low += 1
        high -= 1
    return n


@inlined
def _all_true(programs, code, bounds, constants, columns, registers, stack):
    for program in programs:
        if evaluate(code, bounds[program], bounds[program + 1], constants, columns, registers, stack, stack) != TRUE:
            return False
    return True


@inlined
def find_limits(tables, columns, registers, stack, limits):
    """Write what the columns of selected events are compared with, float64 (n_properties,); the ends are bound."""
    for k in range(tables.properties.shape[0]):
        start = tables.bounds[tables.properties[k, 0]]
        end = tables.bounds[tables.properties[k, 0] + 1]
        limits[k] = evaluate(tables.code, start, end, tables.constants, columns, registers, stack, stack)


@inlined
def _properties(properties, columns, limits, row):
    """The properties of an event as bits, -1 when it must not be selected."""
    mask = 0
    for k in range(properties.shape[0]):
        operation = properties[k, 1]
        limit = limits[k]
        value = columns[properties[k, 2], row]
        if np.isnan(limit) or np.isnan(value):
            continue
        if operation == LT:
            holds = limit < value
        elif operation == LE:
            holds = limit <= value
        elif operation == GT:
            holds = limit > value
        else:
            holds = limit >= value
        if holds:
            mask |= 1 << k
        elif properties[k, 3] != 0:
            return -1
    return mask


@inlined
def bind_ends(tables, first, last, registers):
    """Set the registers of a pair; those of the selected events stay unset unless they are its ends."""
    registers[:] = -1
    kleene = tables.kleene
    registers[0] = first
    if kleene > 0:
        registers[1] = first
    final = tables.n_steps - 1
    registers[2 * final + 1] = last
    if final != kleene:
        registers[2 * final] = last


@inlined
def _judge(tables, columns, begin_ok, take_ok, row, registers, stack, limits):
    """What an event can be as a Kleene event (bits CAN_BEGIN, CAN_TAKE), and its properties; ends are bound."""
    kleene = tables.kleene
    code, bounds, constants = tables.code, tables.bounds, tables.constants
    registers[registers.shape[0] - 1] = row
    mask = _properties(tables.properties, columns, limits, row)
    if mask < 0 or not _all_true(tables.each, code, bounds, constants, columns, registers, stack):
        return 0, mask
    role = 0
    if take_ok[kleene, row] and _all_true(tables.take, code, bounds, constants, columns, registers, stack):
        role |= CAN_TAKE
    if kleene > 0 and begin_ok[kleene, row]:
        was = registers[2 * kleene]
        registers[2 * kleene] = row
        if _all_true(tables.begin, code, bounds, constants, columns, registers, stack):
            role |= CAN_BEGIN
        registers[2 * kleene] = was
    return role, mask


@leaf
def judge_members(tables, columns, begin_ok, take_ok, members, start, end, registers, stack, limits, roles, masks):
    """For members[start:end] what `_judge` says."""
    for j in range(start, end):
        roles[j], masks[j] = _judge(tables, columns, begin_ok, take_ok, members[j], registers, stack, limits)


@inlined
def judge_ends(tables, columns, begin_ok, take_ok, first, last, registers, stack, limits):
    """What the ends of a pair contribute: (mask of first, roles of last, mask of last); -1 as first mask: no match.

    Roles and mask of last are 0 unless it is a Kleene event of its own. Ends are bound, limits found.
    """
    code, bounds, constants = tables.code, tables.bounds, tables.constants
    current = registers.shape[0] - 1
    registers[current] = first
    if not begin_ok[0, first] or not _all_true(tables.on_first, code, bounds, constants, columns, registers, stack):
        return -1, 0, 0
    mask_first = 0
    if tables.kleene == 0:
        mask_first = _properties(tables.properties, columns, limits, first)
        if mask_first < 0 or not _all_true(tables.each, code, bounds, constants, columns, registers, stack):
            return -1, 0, 0
    registers[current] = last
    if not _all_true(tables.on_last, code, bounds, constants, columns, registers, stack):
        return -1, 0, 0
    if tables.kleene != tables.n_steps - 1 or first == last:
        return mask_first, 0, 0
    role, mask = _judge(tables, columns, begin_ok, take_ok, last, registers, stack, limits)
    return (mask_first, role, mask) if role else (-1, 0, 0)


@leaf
def completions(tables, own_last, roles_last, mask_last, start, end, roles, masks, further, ways):
    """How a selection can be completed from each state, for members[start:end] read backwards.

    A state is n * 2^k + mask: n events selected (the last number stands for all greater ones), which of the k
    properties they have. own_last: the last event is a Kleene event beside the first. further: int32
    (>= end - start + 1, n_states): most events that can still be added before members[start + j], -1: no match comes of
    it. ways: int64 (n_states,), in how many ways from the start on, at most MOST.
    """
    n_masks = 1 << tables.properties.shape[0]
    top = tables.sizes.shape[0] - 1
    n = end - start
    for size in range(top + 1):
        for mask in range(n_masks):
            count = size
            seen = mask
            fits = True
            if own_last:
                fits = (roles_last & (CAN_BEGIN if size == 0 else CAN_TAKE)) != 0
                count = min(size + 1, top)
                seen = mask | mask_last
            fits = fits and count > 0 and tables.sizes[count] and seen == n_masks - 1
            state = size * n_masks + mask
            further[n, state] = 0 if fits else -1
            ways[state] = 1 if fits else 0
    for j in range(n - 1, -1, -1):
        role = roles[start + j]
        for size in range(top + 1):
            allowed = (role & (CAN_BEGIN if size == 0 else CAN_TAKE)) != 0
            for mask in range(n_masks):
                state = size * n_masks + mask
                further[j, state] = further[j + 1, state]
                if allowed:
                    to = min(size + 1, top) * n_masks + (mask | masks[start + j])
                    if further[j + 1, to] >= 0:
                        further[j, state] = max(further[j, state], further[j + 1, to] + 1)
                        ways[state] = min(ways[state] + ways[to], MOST)


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


@kernel
def count_pairs(tables, columns, begin_ok, take_ok, before, pairs):
    """One row for each of the pairs between which there are matches.

    Returns rows int64 (n, 5): first, last, partition, number of matches (at most MOST), 1 when every combination in
    order of the used members is a match; offsets int64 (2, n + 1); longest int64: a longest match of row k is
    longest[offsets[0, k] : offsets[0, k + 1]]; used int64: its members, by offsets[1].
    """
    rows = np.empty((64, 5), np.int64)
    offsets = np.zeros((2, 65), np.int64)
    longest = np.empty(256, np.int64)
    used_rows = np.empty(256, np.int64)
    room = 256
    members = np.empty(room, np.int64)
    roles = np.empty(room, np.int64)
    masks = np.empty(room, np.int64)
    chosen = np.empty(room, np.bool_)
    used = np.empty(room, np.bool_)
    n_masks = 1 << tables.properties.shape[0]
    top = tables.sizes.shape[0] - 1
    n_states = (top + 1) * n_masks
    further = np.empty((1, n_states), np.int32)
    ways = np.empty(n_states, np.int64)
    reached = np.empty(n_states, np.bool_)
    registers = np.empty(2 * tables.n_steps + 1, np.int64)
    stack = np.empty(MAX_STACK, np.float64)
    limits = np.empty(tables.properties.shape[0], np.float64)
    bound = -1
    sizes_free = top == 1 and tables.sizes[1]
    last_judged = -1
    n_members = 0
    start = 0
    n = 0
    for p in range(pairs.shape[0]):
        first = pairs[p, 0]
        last = pairs[p, 1]
        bind_ends(tables, first, last, registers)
        if tables.varies or last != bound:
            find_limits(tables, columns, registers, stack, limits)
            bound = last
        mask_first, roles_last, mask_last = judge_ends(
            tables, columns, begin_ok, take_ok, first, last, registers, stack, limits
        )
        if mask_first < 0:
            continue
        if last != last_judged:
            n_members = members_between(before, pairs[p, 3], first, members)
            while n_members < 0:
                room *= 4
                members = np.empty(room, np.int64)
                roles = np.empty(room, np.int64)
                masks = np.empty(room, np.int64)
                chosen = np.empty(room, np.bool_)
                used = np.empty(room, np.bool_)
                n_members = members_between(before, pairs[p, 3], first, members)
            start = 0
            last_judged = last
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
            if further.shape[0] < n_members - start + 1:
                further = np.empty((2 * (n_members - start + 1), n_states), np.int32)
            completions(tables, own_last, roles_last, mask_last, start, n_members, roles, masks, further, ways)
            state = n_masks + mask_first if tables.kleene == 0 else 0
            n_matches = ways[state]
            if n_matches > 0:
                _choose(tables, start, n_members, roles, masks, further, state, reached, chosen, used)
        if n_matches == 0:
            continue
        if n == rows.shape[0]:
            rows = np.concatenate((rows, np.empty_like(rows)))
            grown = np.zeros((2, 2 * n + 1), np.int64)
            grown[:, : n + 1] = offsets
            offsets = grown
        a = offsets[0, n]
        b = offsets[1, n]
        needed = n_members - start + 2
        if a + needed > longest.shape[0]:
            longest = np.concatenate((longest, np.empty(longest.shape[0] + needed, np.int64)))
        if b + needed > used_rows.shape[0]:
            used_rows = np.concatenate((used_rows, np.empty(used_rows.shape[0] + needed, np.int64)))
        longest[a] = first
        a += 1
        alike = True
        for j in range(start, n_members):
            if chosen[j]:
                longest[a] = members[j]
                a += 1
            if used[j]:
                alike = alike and (roles[j] == CAN_BEGIN | CAN_TAKE or tables.kleene == 0)
                used_rows[b] = members[j]
                b += 1
        if last != first:
            longest[a] = last
            a += 1
        n_used = b - offsets[1, n]
        some = 1 if tables.kleene > 0 and not own_last else 0
        rows[n, 0] = first
        rows[n, 1] = last
        rows[n, 2] = pairs[p, 2]
        rows[n, 3] = n_matches
        if n_matches == MOST:
            rows[n, 4] = closed and alike
        else:
            rows[n, 4] = n_used < 62 and n_matches == (1 << n_used) - some
        n += 1
        offsets[0, n] = a
        offsets[1, n] = b
    return rows[:n], offsets[:, : n + 1], longest[: offsets[0, n]], used_rows[: offsets[1, n]]


@kernel
def replay_all(tables, columns, offsets, chain, kleene, programs):
    """The values of `programs` for complete matches: float64 (n, n_programs).

    tables: a `postponed_state.Tables` without caps. Match k is chain[offsets[k] : offsets[k + 1]]; all but its Kleene
    events, of step `kleene`, are single.
    """
    n_steps = tables.kleene.shape[0]
    kinds = tables.kinds
    owners = tables.owners
    registers = np.empty(2 * n_steps + 1, np.int64)
    aggregates = np.empty(tables.kinds.shape[0], np.float64)
    stack = np.empty(MAX_STACK, np.float64)
    values = np.empty((offsets.shape[0] - 1, programs.shape[0]), np.float64)
    for k in range(offsets.shape[0] - 1):
        registers[:] = -1
        n_after = n_steps - 1 - kleene
        begin = offsets[k]
        end = offsets[k + 1]
        if kleene > 0:
            registers[0] = chain[begin]
            registers[1] = chain[begin]
            begin += 1
        if n_after > 0:
            end -= 1
            registers[2 * n_steps - 2] = chain[end]
            registers[2 * n_steps - 1] = chain[end]
        registers[2 * kleene] = chain[begin]
        registers[2 * kleene + 1] = chain[end - 1]
        registers[2 * n_steps] = chain[offsets[k + 1] - 1]
        reset_aggregates(kinds, owners, kleene, aggregates)
        if kinds.shape[0]:
            for at in range(begin, end):
                update_aggregates(
                    kinds, owners, tables.slot_columns, tables.bases, kleene, columns, chain[at], aggregates
                )
        for v in range(programs.shape[0]):
            start = tables.bounds[programs[v]]
            stop = tables.bounds[programs[v] + 1]
            values[k, v] = evaluate(tables.code, start, stop, tables.constants, columns, registers, aggregates, stack)
    return values


__all__ = [
    "BROADCAST",
    "FIRST",
    "MEMBER",
    "MOST",
    "IndependentTables",
    "bind_ends",
    "chain_pairs",
    "completions",
    "count_pairs",
    "find_limits",
    "judge_ends",
    "judge_members",
    "members_between",
    "replay_all",
]
