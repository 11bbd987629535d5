"""Skip till any match where Kleene events are selected independently (see `engine.plan.sequence.independent`).

What a pair of a first and a last event and the events between them can be: for counting (`independent_counting`),
listing (`independent_listing`) and the same over intervals (`possible_pairs`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.compile.ways import inlined, kernel, leaf
from engine.kernels.programs.comparing import holds
from engine.kernels.programs.opcodes import MAX_STACK, TRUE
from engine.kernels.programs.predicates import evaluate, reset_aggregates, update_aggregates

Int32 = npt.NDArray[np.int32]

MOST = 2**62 - 1  # counts stop here; the sum of two still fits

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
        limit = limits[k]
        value = columns[properties[k, 2], row]
        if np.isnan(limit) or np.isnan(value):
            continue
        if holds(properties[k, 1], limit, value):
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


@kernel
def replay_all(tables, columns, offsets, chain, kleene, programs):
    """The values of `programs` for complete matches: float64 (n, n_programs).

    tables: a `state.Tables` without caps. Match k is chain[offsets[k] : offsets[k + 1]]; all but its Kleene
    events, of step `kleene`, are single.

    offsets: int64 (n + 1,). chain: int64 (m,).
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
    "MOST",
    "IndependentTables",
    "bind_ends",
    "completions",
    "find_limits",
    "judge_ends",
    "judge_members",
    "replay_all",
]
