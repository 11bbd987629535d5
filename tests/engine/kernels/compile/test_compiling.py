"""Which functions may go without counted references."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.caching import NullCache
from numba.core.errors import NumbaError
from numba.core.registry import CPUDispatcher

import engine.kernels
from engine.kernels.compile.ways import apart, inlined, kernel, leaf

needs_compiler = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="kernels run as Python")  # type: ignore[attr-defined]

Compile = Callable[[Any], Any]
WAYS = [apart, inlined, kernel, leaf]


def uncached(compile_: Compile, function: Callable[..., Any]) -> Any:
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


def quotient(value: int, by: int) -> int:
    if by > 10:
        raise ValueError("too much")
    return value // by


@needs_compiler
@pytest.mark.parametrize("compile_", WAYS)
def test_a_function_is_compiled_once_for_all_constants_and_without_machine_code(compile_: Compile) -> None:
    found = uncached(compile_, least_of)

    def calls_twice(values: Any) -> Any:
        return found(values, 0) + found(values, 2)

    caller = uncached(kernel, calls_twice)
    assert caller(np.array([4, 1, 3, 2])) == 1 + 3
    assert len(found.linked.signatures) == 1
    assert found.signatures == []
    assert found(np.array([4, 1, 3, 2]), 2) == 3  # from Python, after that
    assert len(found.signatures) == 1


@needs_compiler
@pytest.mark.parametrize("compile_", WAYS)
def test_what_a_called_function_calls_is_there_and_its_errors_are(compile_: Compile) -> None:
    inner = uncached(compile_, quotient)

    def outer(value: int, by: int) -> Any:
        return 2 * inner(value, by)

    middle = uncached(compile_, outer)

    def all_of(values: Any) -> Any:
        result = 0
        for value in values:
            result += middle(100, value) + inner(100, value)
        return result

    caller = uncached(kernel, all_of)
    assert caller(np.array([1, 2, 7])) == 3 * (100 + 50 + 14)
    with pytest.raises(ZeroDivisionError):
        caller(np.array([3, 0]))
    with pytest.raises(ValueError, match="too much"):
        caller(np.array([3, 11]))


@needs_compiler
def test_what_two_functions_call_is_there_where_one_of_the_calls_is_optimised_away() -> None:
    def copies_rows(into: Any, values: Any) -> None:
        into[:2] = values[:2]  # compares shapes, and calls what raises an error

    copies = uncached(kernel, copies_rows)

    def clears_and_copies(into: Any, values: Any) -> Any:
        into[0, :] = 0  # of the same kind, with nothing to compare
        copies(into, values)
        return into.sum()

    caller = uncached(kernel, clears_and_copies)
    assert caller(np.ones((3, 2)), np.full((3, 2), 4.0)) == 4 * 4 + 2
    with pytest.raises(ValueError, match="shape"):
        caller(np.ones((3, 2)), np.full((3, 3), 4.0))


KEPT = """
import sys
import numpy as np
from numba.core import event
import engine
from engine.kernels.confidence.window import share_inside
from engine.kernels.confidence.skew_events import has_skew
from engine.kernels.confidence.ordering import Events

class Compiled(event.Listener):
    def on_start(self, event):
        names.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass

names = []
event.register("numba:compile", Compiled())
n = 3
events = Events(
    np.arange(n), np.arange(n) + 5, np.full(n, -1), np.zeros(n, np.int64), np.full(n, -1), np.empty(0),
    np.empty((0, n)), True, np.empty(0, np.int64),
)
print(has_skew(events, np.arange(n), n), share_inside(events, 0, 2, 3))
print(sorted(names))
"""


@needs_compiler
def test_machine_code_is_kept_with_all_that_it_calls(tmp_path: Path) -> None:
    outputs = [
        subprocess.run(
            [sys.executable, "-c", KEPT],
            env={**os.environ, "CLUSTERCEP_CACHE": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for _ in range(2)
    ]
    assert outputs[0] == [f"False {26 / 36}", "['_pairs', 'has_skew', 'share_inside']"]
    assert outputs[1] == [outputs[0][0], "[]"]


@needs_compiler
def test_what_is_apart_makes_no_array() -> None:
    with pytest.raises(NumbaError, match=r"Only accept returning|returns an array"):
        uncached(apart, makes_an_array)(np.arange(3))


@needs_compiler
def test_every_kernel_is_compiled_in_one_of_these_ways() -> None:
    found = [
        value
        for module in pkgutil.walk_packages(engine.kernels.__path__, "engine.kernels.")
        for value in vars(importlib.import_module(module.name)).values()
        if isinstance(value, CPUDispatcher)
    ]
    assert len(found) > 300
    assert all(value.targetoptions["nogil"] for value in found)
    assert all(hasattr(value, "linked") or value.targetoptions["inline"] == "always" for value in found)
