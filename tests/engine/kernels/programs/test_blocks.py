"""Programs over blocks of events against the same programs event by event."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kernels.programs import opcodes as op
from engine.kernels.programs.blocks import BLOCK, remainder, remainders, select_where
from engine.kernels.programs.predicates import evaluate
from engine.language import ast
from tests.engine.kernels.programs.test_predicates import NUMBERS, builder, conditions


@given(
    st.lists(conditions(), min_size=1, max_size=3),
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=6),
    st.sampled_from([1, 7, BLOCK + 3]),
)
def test_the_events_for_which_every_program_is_true(
    conjuncts: list[ast.Expression], values: list[tuple[int | None, int | None]], n: int
) -> None:
    made = builder()
    for name in ("x", "y"):
        made.column(name)
    for conjunct in conjuncts:
        made.add(conjunct)
    programs = made.build()
    pairs = [values[k % len(values)] for k in range(n)]
    columns = np.array([[math.nan if v is None else float(v) for v in pair] for pair in pairs]).T.copy()
    stack = np.empty(op.MAX_STACK)

    def holds(row: int) -> bool:
        rows = np.full(programs.n_registers, row, np.int64)
        return all(
            evaluate(
                programs.code, programs.bounds[k], programs.bounds[k + 1], programs.constants, columns, rows,
                np.empty(0), stack,
            )
            == op.TRUE
            for k in range(len(conjuncts))
        )  # fmt: skip

    selected = np.arange(n)[::-1].copy()
    n_kept = select_where(programs.code, programs.bounds, 0, len(conjuncts), programs.constants, columns, selected)
    truth = [holds(row) for row in range(len(values))] if n >= len(values) else [holds(row) for row in range(n)]
    assert selected[:n_kept].tolist() == [row for row in range(n - 1, -1, -1) if truth[row % len(truth)]]


@given(
    st.one_of(st.integers(-(2**53), 2**53), st.floats(-1e18, 1e18)),
    st.one_of(st.integers(-50, 50), st.integers(-(2**53), 2**53), st.floats(-1e6, 1e6)),
)
def test_the_remainder_is_that_of_fmod(left: float, right: float) -> None:
    found = remainder(float(left), float(right))
    if right == 0:
        assert math.isnan(found)
    else:
        assert found == math.fmod(left, right)


@pytest.mark.parametrize("left", [9007199254740991, 9007199254740990, 9007199254740881])
@pytest.mark.parametrize("right", [3, 7, 97, 9007199254740989, -9007199254740989])
def test_the_remainder_of_the_largest_whole_numbers_is_exact(left: int, right: int) -> None:
    assert remainder(float(left), float(right)) == left % abs(right)
    assert remainder(-float(left), float(right)) == -(left % abs(right))
    block = np.array([left, -left], np.float64)
    remainders(block, float(right), 2)
    assert block.tolist() == [left % abs(right), -(left % abs(right))]


WHOLE = st.one_of(st.integers(-60, 60), st.integers(-(2**53), 2**53))


@given(
    st.one_of(
        st.lists(st.one_of(WHOLE, st.just(math.nan)), min_size=1, max_size=9),
        st.lists(st.one_of(WHOLE, st.floats(allow_infinity=False)), min_size=1, max_size=9),
    ),
    st.one_of(WHOLE, st.floats(allow_infinity=False)),
)
def test_the_remainders_of_a_block_are_those_of_its_events(values: list[float], divisor: float) -> None:
    block = np.array(values, np.float64)
    expected = [remainder(value, float(divisor)) for value in block.tolist()]
    remainders(block, float(divisor), len(block))
    np.testing.assert_array_equal(block, expected)
