"""Programs as source text: what `programs.predicates.evaluate` interprets, written out in straight lines.

The text is made from the numbers of checked programs alone: names are numbers, strings of a query are codes among the
constants, and constants are arguments, so that queries that differ in nothing else have one text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from engine.errors import EngineError
from engine.kernels.programs import opcodes as op

Int32Array = npt.NDArray[np.int32]

_HEAD = '''"""Generated from the programs of a checked query; see `engine.plan.generate`."""

import math

import numpy as np

from engine.kernels.programs.blocks import member, remainder
from engine.kernels.compile.ways import leaf
'''
_ARITHMETIC = {op.ADD: "+", op.SUBTRACT: "-", op.MULTIPLY: "*"}
_COMPARISONS = {op.EQ: "==", op.NE: "!=", op.LT: "<", op.LE: "<=", op.GT: ">", op.GE: ">="}


class GenerationError(EngineError):
    """A program has no generated form; the interpreted one goes on."""


def generate(code: Int32Array, bounds: Int32Array) -> str:
    """A module with `evaluate` for the programs code[bounds[k] : bounds[k + 1]], called as the interpreter is.

    Raises GenerationError for an operation that is not known here.
    """
    programs = [(start, code[start:end].tolist()) for start, end in pairwise(bounds.tolist())]
    programs = [(start, program) for start, program in programs if program]
    parts = [_HEAD, *(_function(start, program) for start, program in programs), _dispatch([s for s, _ in programs])]
    return "\n\n".join(parts)


def _dispatch(starts: list[int]) -> str:
    """The choice of a program by where it starts; halving, so that many programs cost little."""
    lines = [
        "@leaf",
        "def evaluate(code, start, end, constants, columns, rows, aggregates, stack):",
        *_choice(starts, "    "),
        "    return np.nan",
    ]
    return "\n".join(lines) + "\n"


def _choice(starts: list[int], indent: str) -> list[str]:
    if len(starts) <= 2:
        return [
            line
            for start in starts
            for line in (
                f"{indent}if start == {start}:",
                f"{indent}    return _program_{start}(constants, columns, rows, aggregates)",
            )
        ]
    middle = len(starts) // 2
    return [
        f"{indent}if start < {starts[middle]}:",
        *_choice(starts[:middle], indent + "    "),
        f"{indent}else:",
        *_choice(starts[middle:], indent + "    "),
    ]


def _function(start: int, program: list[list[int]]) -> str:
    lines = ["@leaf", f"def _program_{start}(constants, columns, rows, aggregates):"]
    stack: list[str] = []
    for at, (operation, arg1, arg2) in enumerate(program):
        result = f"v{at}"
        emit = _EMITTERS.get(operation)
        if emit is None:
            raise GenerationError(f"operation {operation} has no generated form")
        operands = [stack.pop() for _ in range(_N_OPERANDS.get(operation, 2))][::-1]
        lines += [f"    {line}" for line in emit(result, operands, operation, arg1, arg2)]
        stack.append(result)
    lines.append(f"    return {stack[0]}")
    return "\n".join(lines) + "\n"


Emitter = Callable[[str, list[str], int, int, int], Iterable[str]]
"""(result, operands, operation, arg1, arg2) to lines that assign the result; truth values are doubles as in the
interpreter."""


def _constant(result: str, _operands: list[str], _operation: int, arg1: int, _arg2: int) -> Iterable[str]:
    yield f"{result} = constants[{arg1}]"


def _column(result: str, _operands: list[str], _operation: int, arg1: int, arg2: int) -> Iterable[str]:
    yield f"{result} = columns[{arg2}, rows[{arg1}]] if rows[{arg1}] >= 0 else np.nan"


def _aggregate(result: str, _operands: list[str], _operation: int, arg1: int, _arg2: int) -> Iterable[str]:
    yield f"{result} = aggregates[{arg1}]"


def _arithmetic(result: str, operands: list[str], operation: int, _arg1: int, _arg2: int) -> Iterable[str]:
    left, right = operands
    yield f"{result} = {left} {_ARITHMETIC[operation]} {right}"


def _divide(result: str, operands: list[str], _operation: int, _arg1: int, _arg2: int) -> Iterable[str]:
    left, right = operands
    yield f"{result} = {left} / {right} if {right} != 0.0 else np.nan"


def _modulo(result: str, operands: list[str], _operation: int, _arg1: int, _arg2: int) -> Iterable[str]:
    left, right = operands
    yield f"{result} = remainder({left}, {right})"


def _negate(result: str, operands: list[str], _operation: int, _arg1: int, _arg2: int) -> Iterable[str]:
    yield f"{result} = -{operands[0]}"


def _sqrt(result: str, operands: list[str], _operation: int, _arg1: int, _arg2: int) -> Iterable[str]:
    yield f"{result} = math.sqrt({operands[0]})"


def _comparison(result: str, operands: list[str], operation: int, _arg1: int, _arg2: int) -> Iterable[str]:
    left, right = operands
    yield f"{result} = {op.TRUE}.0 if {left} {_COMPARISONS[operation]} {right} else {op.FALSE}.0"
    yield f"if math.isnan({left}) or math.isnan({right}):"
    yield f"    {result} = {op.UNKNOWN}.0"


def _and(result: str, operands: list[str], _operation: int, _arg1: int, _arg2: int) -> Iterable[str]:
    yield f"{result} = min({operands[0]}, {operands[1]})"


def _or(result: str, operands: list[str], _operation: int, _arg1: int, _arg2: int) -> Iterable[str]:
    yield f"{result} = max({operands[0]}, {operands[1]})"


def _not(result: str, operands: list[str], _operation: int, _arg1: int, _arg2: int) -> Iterable[str]:
    yield f"{result} = {op.TRUE}.0 - {operands[0]}"


def _member(result: str, operands: list[str], _operation: int, arg1: int, arg2: int) -> Iterable[str]:
    yield f"{result} = float(member({operands[0]}, constants, {arg1}, {arg2}))"


_N_OPERANDS = {op.CONST: 0, op.COLUMN: 0, op.AGGREGATE: 0, op.NEGATE: 1, op.SQRT: 1, op.NOT: 1, op.MEMBER: 1}
_EMITTERS: dict[int, Emitter] = {
    op.CONST: _constant,
    op.COLUMN: _column,
    op.AGGREGATE: _aggregate,
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    op.DIVIDE: _divide,
    op.MODULO: _modulo,
    op.NEGATE: _negate,
    op.SQRT: _sqrt,
    **dict.fromkeys(_COMPARISONS, _comparison),
    op.AND: _and,
    op.OR: _or,
    op.NOT: _not,
    op.MEMBER: _member,
}


__all__ = ["GenerationError", "generate"]
