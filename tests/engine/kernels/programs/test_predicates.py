"""Programs against plain Python arithmetic with SQL's NULL."""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kernels.programs import opcodes as op
from engine.kernels.programs.predicates import evaluate, reset_aggregates, update_aggregates
from engine.language import ast
from engine.plan.programs import ProgramBuilder, Programs, first_register, last_register

NUMBERS = st.one_of(st.integers(-20, 20), st.none())
TRUTH = {op.TRUE: True, op.FALSE: False, op.UNKNOWN: None}


def builder() -> ProgramBuilder:
    return ProgramBuilder({"a": 0, "b": 1}, frozenset({"n"}), frozenset({"b"}))


def run(programs: Programs, columns: list[list[float | None]], rows: list[int]) -> float:
    matrix = np.array([[math.nan if v is None else v for v in column] for column in columns], np.float64)
    return float(
        evaluate(
            programs.code,
            0,
            len(programs.code),
            programs.constants,
            matrix,
            np.array(rows, np.int64),
            np.empty(0),
            np.empty(op.MAX_STACK),
        )
    )


def attribute(name: str) -> ast.Attribute:
    return ast.Attribute("a", ast.Index.SINGLE, name)


def expressions() -> st.SearchStrategy[ast.Expression]:
    leaves = st.one_of(
        st.sampled_from([attribute("x"), attribute("y")]), st.builds(ast.Literal, st.integers(-5, 5) | st.none())
    )
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(ast.Arithmetic, st.sampled_from("+-*/%"), inner, inner) | st.builds(ast.Negative, inner)
        ),
        max_leaves=6,
    )


def conditions() -> st.SearchStrategy[ast.Expression]:
    compared = st.builds(
        ast.Comparison, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), expressions(), expressions()
    )
    literals = st.lists(st.builds(ast.Literal, st.integers(-5, 5)), min_size=1, max_size=3).map(tuple)
    leaves = compared | st.builds(ast.Membership, expressions(), literals)
    pairs = lambda inner: st.lists(inner, min_size=2, max_size=3).map(tuple)  # noqa: E731 - one use, one line
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(ast.AllOf, pairs(inner)) | st.builds(ast.OneOf, pairs(inner)) | st.builds(ast.Not, inner)
        ),
        max_leaves=5,
    )


def python_value(node: ast.Expression, env: dict[str, float | None]) -> float | None:
    match node:
        case ast.Literal(value=value):
            assert not isinstance(value, str)
            return value
        case ast.Attribute(name=name):
            return env[name]
        case ast.Negative(operand=inner):
            value = python_value(inner, env)
            return None if value is None else -value
        case ast.Arithmetic(op=symbol, left=left, right=right):
            lhs, rhs = python_value(left, env), python_value(right, env)
            if lhs is None or rhs is None or (symbol in "/%" and rhs == 0):
                return None
            plain: dict[str, Callable[[float, float], float]] = {
                "+": operator.add,
                "-": operator.sub,
                "*": operator.mul,
                "/": operator.truediv,
                "%": math.fmod,
            }
            return plain[symbol](lhs, rhs)
    raise AssertionError(node)


def python_truth(node: ast.Expression, env: dict[str, float | None]) -> bool | None:
    match node:
        case ast.Comparison(op=symbol, left=left, right=right):
            lhs, rhs = python_value(left, env), python_value(right, env)
            names = {"=": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
            return None if lhs is None or rhs is None else bool(getattr(operator, names[symbol])(lhs, rhs))
        case ast.Membership(operand=inner, options=options):
            value = python_value(inner, env)
            return None if value is None else value in [o.value for o in options if isinstance(o, ast.Literal)]
        case ast.Not(operand=inner):
            truth = python_truth(inner, env)
            return None if truth is None else not truth
        case ast.AllOf(operands=parts):
            truths = [python_truth(part, env) for part in parts]
            return False if False in truths else None if None in truths else True
        case ast.OneOf(operands=parts):
            truths = [python_truth(part, env) for part in parts]
            return True if True in truths else None if None in truths else False
    raise AssertionError(node)


@given(conditions(), NUMBERS, NUMBERS)
def test_programs_follow_three_valued_logic(condition: ast.Expression, x: int | None, y: int | None) -> None:
    made = builder()
    for name in ("x", "y"):
        made.column(name)
    made.add(condition)
    found = run(made.build(), [[x], [y]], [0, 0, -1, -1, 0])
    assert TRUTH[int(found)] is python_truth(condition, {"x": x, "y": y})


def test_registers_of_indices() -> None:
    made = builder()
    for variable, index in (
        ("a", ast.Index.SINGLE),
        ("b", ast.Index.FIRST),
        ("b", ast.Index.LAST),
        ("b", ast.Index.CURRENT),
        ("n", ast.Index.SINGLE),
    ):
        made.add(ast.Attribute(variable, index, "x"))
    registers = made.build().code[:, 1].tolist()
    assert registers == [first_register(0), first_register(1), last_register(1), 4, 4]


@pytest.mark.parametrize("function", ["count", "sum", "min", "max", "avg", "stddev"])
@pytest.mark.parametrize("lagged", [False, True])
@given(values=st.lists(NUMBERS, min_size=1, max_size=8))
def test_running_aggregates(function: str, lagged: bool, values: list[int | None]) -> None:
    made = builder()
    made.add(ast.Aggregate(function, "b", ast.Range.BEFORE_LAST if lagged else ast.Range.ALL, "x"))
    programs = made.build()
    kinds, components, columns, bases = programs.slot_arrays()
    aggregates = np.empty(len(kinds))
    matrix = np.array([[math.nan if v is None else v for v in values]], np.float64)
    reset_aggregates(kinds, components, 1, aggregates)
    for row in range(len(values)):
        update_aggregates(kinds, components, columns, bases, 1, matrix, row, aggregates)
    found = float(
        evaluate(
            programs.code,
            0,
            len(programs.code),
            programs.constants,
            matrix,
            np.full(5, -1),
            aggregates,
            np.empty(op.MAX_STACK),
        )
    )
    known = [v for v in (values[:-1] if lagged else values) if v is not None]
    if function == "count":
        assert found == len(known)
    elif not known:
        assert math.isnan(found)
    else:
        plain: dict[str, Callable[[list[int]], float]] = {
            "sum": sum,
            "min": min,
            "max": max,
            "avg": lambda v: sum(v) / len(v),
            "stddev": statistics.pstdev,
        }
        assert found == pytest.approx(plain[function](known), abs=1e-9)
