"""Local predicates over whole columns: one operation at a time on blocks that stay in the cache.

A program is the same data that `engine.kernels.programs.predicates.evaluate` interprets event by event. Here its
operations run over the selected events of a block before the next operation is looked at, so that interpreting costs
per block, not per event, and the loops over doubles are vectorised.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from engine.kernels.compile.ways import inlined, kernel, leaf
from engine.kernels.programs.comparing import compare, member
from engine.kernels.programs.opcodes import (
    ADD,
    AND,
    COLUMN,
    CONST,
    DIVIDE,
    EQ,
    GE,
    GT,
    LE,
    LT,
    MEMBER,
    MODULO,
    MULTIPLY,
    NE,
    NEGATE,
    NOT,
    OR,
    SQRT,
    SUBTRACT,
    TRUE,
)

BLOCK = 1024
"""Events at a time: a few stack slots of so many doubles fit into the first-level cache."""

_WITH_CONSTANT = (MODULO, EQ, NE, LT, LE, GT, GE)
_MAX_EXACT = 9007199254740992.0  # 2^53


@kernel
def select_where(code, bounds, first, last, constants, columns, selected):
    """Keep of the row numbers in `selected` those for which all programs first..last-1 are TRUE; returns how many.

    The programs read the event itself alone, whatever its register. columns: float64 (n_columns, n_rows). selected:
    int64 (n,), overwritten: its first entries are the result, in order. Programs that come later see only what the
    earlier ones have left.

    bounds: int32 (n_programs + 1,).
    """
    depth = stack_depth(code, bounds, first, last)
    stack = np.empty((depth, BLOCK), np.float64)
    n_kept = 0
    for start in range(0, selected.shape[0], BLOCK):
        n = min(BLOCK, selected.shape[0] - start)
        block = selected[start : start + n]
        for program in range(first, last):
            evaluate_block(code, bounds[program], bounds[program + 1], constants, columns, block, n, stack)
            left = 0
            for k in range(n):
                block[left] = block[k]
                left += stack[0, k] == TRUE
            n = left
        for k in range(n):
            selected[n_kept + k] = block[k]
        n_kept += n
    return n_kept


@leaf
def stack_depth(code, bounds, first, last):
    """Stack slots that the deepest of the programs needs."""
    deepest = 1
    for program in range(first, last):
        depth = 0
        for at in range(bounds[program], bounds[program + 1]):
            op = code[at, 0]
            if op in (CONST, COLUMN):
                depth += 1
            elif op not in (NEGATE, SQRT, NOT, MEMBER):
                depth -= 1
            deepest = max(deepest, depth)
    return deepest


@leaf
def evaluate_block(code, start, end, constants, columns, block, n, stack):
    """stack[0, :n] becomes the program's value for the events of `block`."""
    top = -1
    joined = False  # with the constant before it
    for at in range(start, end):
        op = code[at, 0]
        if joined:
            joined = False
        elif op == CONST and top >= 0 and at + 1 < end and code[at + 1, 0] in _WITH_CONSTANT:
            _with_constant(code[at + 1, 0], stack[top], constants[code[at, 1] : code[at, 1] + 1], n)
            joined = True
        elif op == CONST:
            top += 1
            stack[top, :n] = constants[code[at, 1]]
        elif op == COLUMN:
            top += 1
            _look_up(columns[code[at, 2]], block, n, stack[top])
        elif op == NEGATE:
            for k in range(n):
                stack[top, k] = -stack[top, k]
        elif op == SQRT:
            for k in range(n):
                stack[top, k] = math.sqrt(stack[top, k])
        elif op == NOT:
            for k in range(n):
                stack[top, k] = TRUE - stack[top, k]
        elif op == MEMBER:
            for k in range(n):
                stack[top, k] = member(stack[top, k], constants, code[at, 1], code[at, 2])
        else:
            top -= 1
            _binary(op, stack[top], stack[top + 1], n)


@leaf
def _look_up(column, block, n, values):
    """values[:n] = column[block[:n]]; quicker where these rows stand one after the other, as at first they mostly do.

    column: float64 (n_rows,). block: int64 (>= n,). values: float64 (>= n,).
    """
    n_elsewhere = 0
    for k in range(n):
        n_elsewhere += block[k] != block[0] + k
    if n_elsewhere == 0 and n > 0:
        together = column[block[0] : block[0] + n]
        for k in range(n):
            values[k] = together[k]
    else:
        for k in range(n):
            values[k] = column[block[k]]


@leaf
def _with_constant(op, values, constant, n):
    """values[:n] = values[:n] op constant, an operation of _WITH_CONSTANT: no array is filled with the constant.

    values: float64 (>= n,). constant: float64 (1,).
    """
    if op == MODULO:
        remainders(values, constant[0], n)
    else:
        _compare_each(op, values, constant, 0, n)


@inlined
def _compare_each(op, left, right, step, n):
    """left[:n] = left[:n] op right[: n * step : step], `compare` for each; step 0: with the same one.

    A loop for each operation: none is looked at within it.

    left: float64 (>= n,). right: float64 (.,).
    """
    if op == EQ:
        for k in range(n):
            left[k] = compare(EQ, left[k], right[k * step])
    elif op == NE:
        for k in range(n):
            left[k] = compare(NE, left[k], right[k * step])
    elif op == LT:
        for k in range(n):
            left[k] = compare(LT, left[k], right[k * step])
    elif op == LE:
        for k in range(n):
            left[k] = compare(LE, left[k], right[k * step])
    elif op == GT:
        for k in range(n):
            left[k] = compare(GT, left[k], right[k * step])
    elif op == GE:
        for k in range(n):
            left[k] = compare(GE, left[k], right[k * step])


@leaf
def remainders(values, divisor, n):
    """`remainder` of values[:n]; without a branch per event where all of them are whole numbers or NULL."""
    whole = divisor == np.trunc(divisor) and 0.0 < abs(divisor) <= _MAX_EXACT
    n_other = 0
    for k in range(n):
        n_other += abs(values[k]) > _MAX_EXACT or np.trunc(values[k]) < values[k] or np.trunc(values[k]) > values[k]
    if not whole or n_other > 0:
        for k in range(n):
            values[k] = remainder(values[k], divisor)
        return
    for k in range(n):
        values[k] = values[k] - np.trunc(values[k] / divisor) * divisor


@leaf
def _binary(op, left, right, n):
    """left[:n] = left[:n] op right[:n]."""
    if op == AND:
        for k in range(n):
            left[k] = min(left[k], right[k])
    elif op == OR:
        for k in range(n):
            left[k] = max(left[k], right[k])
    elif op == ADD:
        for k in range(n):
            left[k] = left[k] + right[k]
    elif op == SUBTRACT:
        for k in range(n):
            left[k] = left[k] - right[k]
    elif op == MULTIPLY:
        for k in range(n):
            left[k] = left[k] * right[k]
    elif op == DIVIDE:
        for k in range(n):
            left[k] = left[k] / right[k] if right[k] != 0.0 else np.nan
    elif op == MODULO:
        for k in range(n):
            left[k] = remainder(left[k], right[k])
    else:
        _compare_each(op, left, right, 1, n)


@njit(cache=True, nogil=True, inline="always")
def remainder(left, right):
    """The truncating remainder; NULL when dividing by zero.

    The quotient of whole numbers up to 2^53 that is no whole number is further from the next one than it is rounded by,
    so that its whole part is exact, at a tenth of the cost of `fmod`.
    """
    if right == 0.0:
        return np.nan
    exact = abs(left) <= _MAX_EXACT and abs(right) <= _MAX_EXACT
    if exact and left == np.trunc(left) and right == np.trunc(right):
        return left - np.trunc(left / right) * right
    return np.fmod(left, right)
