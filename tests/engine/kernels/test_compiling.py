"""Which functions may go without counted references."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.caching import NullCache
from numba.core.errors import NumbaError
from numba.core.registry import CPUDispatcher

import engine.kernels
from engine.kernels.compiling import apart, kernel, leaf

needs_compiler = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="kernels run as Python")  # type: ignore[attr-defined]


def uncached(compile_: Callable[[Any], Any], function: Callable[..., Any]) -> Any:
    """As the package compiles it, but not kept for the next process."""
    compiled = compile_(function)
    compiled._cache = NullCache()
    return compiled


def counted(dispatcher: Any) -> bool:
    return "NRT_incref" in "".join(dispatcher.inspect_asm().values())


def first_negative(values: Any, pairs: Any) -> int:
    row = pairs[0]
    for k in range(values.shape[0]):
        if row[k] < 0:
            return k
        row = pairs[k % 2]
    return -1


@needs_compiler
def test_references_are_counted_by_kernels_and_not_by_leaves() -> None:
    values = np.arange(4)
    results = {}
    for compile_ in (kernel, leaf):
        compiled = uncached(compile_, first_negative)
        assert compiled(values, (values, values)) == -1
        results[compile_] = counted(compiled)
    assert results == {kernel: True, leaf: False}


def makes_an_array(values: Any) -> float:
    return float(np.empty(len(values))[0])


def returns_its_argument(values: Any) -> Any:
    return values


def returns_a_part(values: Any, n: int) -> Any:
    return values[n:]


def returns_a_part_in_a_tuple(values: Any, n: int) -> Any:
    return n, (values[n:], n)


@needs_compiler
@pytest.mark.parametrize(
    ("function", "arguments"),
    [(makes_an_array, ()), (returns_its_argument, ()), (returns_a_part, (1,)), (returns_a_part_in_a_tuple, (1,))],
)
def test_what_needs_counting_is_refused(function: Callable[..., Any], arguments: tuple[int, ...]) -> None:
    with pytest.raises(NumbaError, match=r"Only accept returning|returns an array"):
        uncached(leaf, function)(np.arange(3), *arguments)


def least_of(values: Any, start: int) -> int:
    least = start
    for k in range(start, values.shape[0]):
        if values[k] < values[least]:
            least = k
    return least


@needs_compiler
@pytest.mark.parametrize(("compile_", "n_signatures"), [(apart, 1), (leaf, 2)])
def test_what_is_apart_is_compiled_once_for_all_constants(compile_: Callable[[Any], Any], n_signatures: int) -> None:
    found = uncached(compile_, least_of)

    def calls_twice(values: Any) -> Any:
        return found(values, 0) + found(values, 2)

    assert numba.njit(calls_twice)(np.array([4, 1, 3, 2])) == 1 + 3
    assert len(found.signatures) == n_signatures


@needs_compiler
def test_what_is_apart_makes_no_array() -> None:
    with pytest.raises(NumbaError, match=r"Only accept returning|returns an array"):
        uncached(apart, makes_an_array)(np.arange(3))


@needs_compiler
def test_every_kernel_is_compiled_in_one_of_these_ways() -> None:
    ways: set[tuple[Any, ...]] = set()
    for module in pkgutil.iter_modules(engine.kernels.__path__, "engine.kernels."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, CPUDispatcher):  # type: ignore[arg-type]
                ways.add(
                    (value.targetoptions["nogil"], value.targetoptions.get("inline"), value.targetoptions.get("_nrt"))
                )
    assert ways == {(True, None, True), (True, None, False), (True, "always", None)}
