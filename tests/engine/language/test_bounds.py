"""Contradictions of bounds against a search through all values on a grid."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from engine.language.satisfiability.bounds import ZERO, Numbers, Texts

NODES = ["u", "v", "w"]
GRID = [Fraction(n, 2) for n in range(-8, 9)]
WHOLE_GRID = [Fraction(n) for n in range(-6, 7)]
Values = dict[str, Fraction]
Check = Callable[[Values], bool]

_NODE = st.sampled_from([*NODES, ZERO])
_BOUND = st.integers(-4, 4).map(lambda n: Fraction(n, 2))
_DIFFERENCE = st.tuples(st.just("difference"), _NODE, _NODE, _BOUND, st.booleans())
_NEAR = st.tuples(st.just("difference"), _NODE, _NODE, st.integers(-1, 1).map(Fraction), st.booleans())
"""Steps of at most 2 between whole numbers, hence of at most 6 from 0: the grid has a solution when there is one."""

_OTHERS = st.one_of(
    st.tuples(st.just("unequal"), _NODE, _NODE, _BOUND, st.booleans()),
    st.tuples(st.just("options"), st.sampled_from(NODES), st.just(ZERO), st.lists(_BOUND, max_size=3), st.booleans()),
)


def _add(numbers: Numbers, kind: str, u: str, v: str, bound: object, strict: bool, mark: int) -> Check:
    reasons = frozenset({mark})
    if kind == "options":
        assert isinstance(bound, list)
        numbers.one_of(u, bound, reasons)
        return lambda values: values[u] in bound
    assert isinstance(bound, Fraction)
    limit = bound
    if kind == "unequal":
        numbers.unequal(u, v, limit, reasons)
        return lambda values: values[u] - values[v] != limit
    numbers.at_most(u, v, limit, reasons, strict=strict)
    return lambda values: values[u] - values[v] < limit or (not strict and values[u] - values[v] == limit)


def _solvable(checks: list[Check], grid: list[Fraction]) -> bool:
    return any(
        all(check({ZERO: Fraction(0), **dict(zip(NODES, point, strict=True))}) for check in checks)
        for point in product(grid, repeat=len(NODES))
    )


@given(st.lists(_DIFFERENCE | _OTHERS, max_size=6), st.booleans())
def test_contradictory_bounds_have_no_solution(items: list[tuple[str, str, str, object, bool]], whole: bool) -> None:
    numbers = Numbers(whole=set(NODES) if whole else set())
    checks = [_add(numbers, *item, mark) for mark, item in enumerate(items)]
    found = numbers.conflict()
    if found is not None:
        blamed = [check for mark, check in enumerate(checks) if mark in found]
        assert not _solvable(blamed, WHOLE_GRID if whole else GRID)


@given(st.lists(_NEAR, max_size=6))
def test_differences_of_whole_numbers_without_contradiction_have_a_solution(
    items: list[tuple[str, str, str, object, bool]],
) -> None:
    numbers = Numbers(whole=set(NODES))
    checks = [_add(numbers, *item, mark) for mark, item in enumerate(items)]
    assert (numbers.conflict() is None) is _solvable(checks, WHOLE_GRID)


_TEXT = st.sampled_from(["p", "q", "r"])
_TEXT_ITEMS = st.one_of(
    st.tuples(st.sampled_from(["equal", "unequal"]), st.sampled_from(NODES), st.sampled_from(NODES), st.just("")),
    st.tuples(st.sampled_from(["one_of", "none_of"]), st.sampled_from(NODES), _TEXT, _TEXT),
)


@given(st.lists(_TEXT_ITEMS, max_size=6))
def test_contradictory_texts_have_no_solution(items: list[tuple[str, str, str, str]]) -> None:
    texts = Texts()
    checks: list[Callable[[dict[str, str]], bool]] = []
    for mark, (kind, u, v, w) in enumerate(items):
        reasons = frozenset({mark})
        if kind in ("equal", "unequal"):
            (texts.equal if kind == "equal" else texts.unequal)(u, v, reasons)
            checks.append(lambda x, u=u, v=v, same=kind == "equal": (x[u] == x[v]) is same)  # type: ignore[misc]
        else:
            (texts.one_of if kind == "one_of" else texts.none_of)(u, [v, w], reasons)
            checks.append(lambda x, u=u, o=(v, w), inside=kind == "one_of": (x[u] in o) is inside)  # type: ignore[misc]
    found = texts.conflict()
    if found is not None:
        blamed = [check for mark, check in enumerate(checks) if mark in found]
        points = (dict(zip(NODES, point, strict=True)) for point in product("pqrst", repeat=len(NODES)))
        assert not any(all(check(point) for check in blamed) for point in points)
