"""Comparing values, in one way for all kernels: NaN is NULL, of which nothing is known."""

from __future__ import annotations

import math

from engine.kernels.compile.ways import inlined, leaf
from engine.kernels.programs.opcodes import EQ, FALSE, GE, GT, LE, LT, NE, TRUE, UNKNOWN


@inlined
def holds(operation, left, right):
    """Whether a comparison of doubles is TRUE; with NULL none is. operation: EQ, NE, LT, LE, GT or GE."""
    if operation == LT:
        return left < right
    if operation == LE:
        return left <= right
    if operation == GT:
        return left > right
    if operation == GE:
        return left >= right
    if operation == EQ:
        return left == right
    return operation == NE and (left < right or left > right)


@inlined
def compare(operation, left, right):
    """The truth value of a comparison, see `holds`."""
    if math.isnan(left) or math.isnan(right):
        return UNKNOWN
    return TRUE if holds(operation, left, right) else FALSE


@leaf
def member(value, constants, first, n):
    """The truth value of `value` being one of constants[first : first + n], float64."""
    if math.isnan(value):
        return UNKNOWN
    found = FALSE
    for option in range(first, first + n):
        if constants[option] == value:
            found = TRUE
        elif math.isnan(constants[option]) and found == FALSE:
            found = UNKNOWN
    return found


__all__ = ["compare", "holds", "member"]
