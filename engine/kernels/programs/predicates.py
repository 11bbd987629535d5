"""Evaluation of predicate programs and upkeep of running aggregates, compiled.

Precompiled and the same for every query: a program is data (see `engine.plan.programs`), so that a new query starts
without compiling anything.
"""

from __future__ import annotations

import math

import numpy as np

from engine.kernels.compile.ways import leaf
from engine.kernels.programs.comparing import compare, member
from engine.kernels.programs.opcodes import (
    ADD,
    AGG_COUNT,
    AGG_COUNT_EVENTS,
    AGG_LAG,
    AGG_MAX,
    AGG_MEAN,
    AGG_MIN,
    AGG_SUM,
    AGGREGATE,
    AND,
    COLUMN,
    CONST,
    DIVIDE,
    MEMBER,
    MODULO,
    MULTIPLY,
    NEGATE,
    NOT,
    OR,
    SQRT,
    SUBTRACT,
    TRUE,
)


@leaf
def evaluate(code, start, end, constants, columns, rows, aggregates, stack):
    """The value that the program code[start:end] leaves on the stack.

    code: int32 (n, 3): operation, arg1, arg2. constants: float64 (k,). columns: float64 (n_columns, n_rows).
    rows: int64 (n_registers,), row numbers, -1 for unset. aggregates: float64 (n_slots,). stack: float64 (MAX_STACK,),
    scratch. Truth values are FALSE, UNKNOWN, TRUE as doubles; numbers use NaN for NULL.
    """
    top = -1
    for at in range(start, end):
        op = code[at, 0]
        if op == CONST:
            top += 1
            stack[top] = constants[code[at, 1]]
        elif op == COLUMN:
            top += 1
            row = rows[code[at, 1]]
            stack[top] = columns[code[at, 2], row] if row >= 0 else np.nan
        elif op == AGGREGATE:
            top += 1
            stack[top] = aggregates[code[at, 1]]
        elif op == NEGATE:
            stack[top] = -stack[top]
        elif op == SQRT:
            stack[top] = math.sqrt(stack[top])
        elif op == NOT:
            stack[top] = TRUE - stack[top]
        elif op == MEMBER:
            stack[top] = member(stack[top], constants, code[at, 1], code[at, 2])
        else:
            right = stack[top]
            top -= 1
            left = stack[top]
            if op == AND:
                stack[top] = min(left, right)
            elif op == OR:
                stack[top] = max(left, right)
            elif op == ADD:
                stack[top] = left + right
            elif op == SUBTRACT:
                stack[top] = left - right
            elif op == MULTIPLY:
                stack[top] = left * right
            elif op == DIVIDE:
                stack[top] = left / right if right != 0.0 else np.nan
            elif op == MODULO:
                stack[top] = np.fmod(left, right) if right != 0.0 else np.nan
            else:
                stack[top] = compare(op, left, right)
    return stack[0]


@leaf
def all_hold(code, bounds, first, last, constants, columns, rows, aggregates, stack):
    """True when each of the programs first..last-1 is TRUE; program k is code[bounds[k]:bounds[k + 1]]."""
    for k in range(first, last):
        if evaluate(code, bounds[k], bounds[k + 1], constants, columns, rows, aggregates, stack) != TRUE:
            return False
    return True


@leaf
def reset_aggregates(kinds, components, component, aggregates):
    """Set the slots of one component to the aggregates of no event: counts 0, everything else NULL."""
    for slot in range(kinds.shape[0]):
        if components[slot] == component:
            kind = kinds[slot]
            aggregates[slot] = 0.0 if kind in (AGG_COUNT_EVENTS, AGG_COUNT) else np.nan


UNDEFINED = math.copysign(math.nan, -1.0)
"""What infinite numbers of both signs add up to: NULL whatever comes after, unlike the NaN of no values at all."""


@leaf
def is_of_nothing(aggregate):
    """Whether a sum or mean has no value yet: NaN as `reset_aggregates` writes it, not `UNDEFINED`."""
    return math.isnan(aggregate) and math.copysign(1.0, aggregate) > 0.0


@leaf
def added(total, value):
    """The sum with a value, which is no NaN."""
    if math.isnan(total):
        return value if math.copysign(1.0, total) > 0.0 else total
    result = total + value
    return UNDEFINED if math.isnan(result) else result


@leaf
def update_aggregates(kinds, components, slot_columns, bases, component, columns, row, aggregates):
    """Add the event of `row` to the slots of one component.

    kinds, components, slot_columns, bases: int32 (n_slots,), see `engine.plan.programs.Slot`. The last slots come
    first: a LAG slot stands after its base and takes the value from before this event, M2 needs the mean from before.
    (One loop without a way out keeps the compiled code from counting references to the arrays.)
    """
    for slot in range(kinds.shape[0] - 1, -1, -1):
        kind = kinds[slot]
        if components[slot] == component:
            if kind == AGG_LAG:
                aggregates[slot] = aggregates[bases[slot]]
            elif kind == AGG_COUNT_EVENTS:
                aggregates[slot] += 1.0
            else:
                value = columns[slot_columns[slot], row]
                old = aggregates[slot]
                if not math.isnan(value):
                    if kind == AGG_COUNT:
                        aggregates[slot] = old + 1.0
                    elif kind == AGG_SUM:
                        aggregates[slot] = added(old, value)
                    elif kind == AGG_MIN:
                        aggregates[slot] = value if math.isnan(old) or value < old else old
                    elif kind == AGG_MAX:
                        aggregates[slot] = value if math.isnan(old) or value > old else old
                    elif kind == AGG_MEAN:
                        # The M2 slot follows and needs the mean before and after this event.
                        n = aggregates[slot - 1] + 1.0  # the count comes next
                        if is_of_nothing(old):
                            aggregates[slot] = value
                            aggregates[slot + 1] = value - value  # an infinite one has no deviation
                        else:
                            mean = added(old, (value - old) / n)
                            aggregates[slot] = mean
                            aggregates[slot + 1] += (value - old) * (value - mean)
