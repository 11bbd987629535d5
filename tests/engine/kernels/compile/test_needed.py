"""Which kernels some work needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from engine.kernels.columns.decode import are_as_long, widen
from engine.kernels.compile import PRIVATE, uncompiled
from engine.kernels.compile.needed import Kernel, NeededKernels, _as_returned
from engine.kernels.confidence.ordering import search_order
from engine.kernels.pairs.search import search
from tests.engine.kernels.compile.test_compiling import needs_compiler, uncached

pytestmark = needs_compiler

LENGTHS = (np.array([0, 1, 3], np.int32), 1)


@pytest.fixture
def run_by() -> Iterator[Callable[[NeededKernels], None]]:
    yield lambda needed: uncompiled.run_uncompiled_by(needed.compile_for_args)
    uncompiled.run_compiled()


@pytest.fixture
def without_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PRIVATE, "is_kept", lambda _dispatcher, _types: False)


def fresh(kernel: Any) -> Any:
    """The kernel without what is compiled of it in this process."""
    return uncached(PRIVATE.way(leaf=True), kernel.py_func)


def test_a_kernel_runs_as_python_and_is_asked_for_once_per_types(
    run_by: Callable[[NeededKernels], None], without_cache: None
) -> None:
    requested: list[Kernel] = []
    run_by(NeededKernels(requested.append))
    kernel = fresh(widen)
    into = np.empty(3)
    for values in (np.arange(3), np.arange(1, 4), np.arange(3) > 1):
        kernel(values, into)
    assert [(found.module, found.name) for found in requested] == 2 * [(widen.py_func.__module__, "widen")]
    assert [str(found.types[0]) for found in requested] == ["array(int64, 1d, C)", "array(bool, 1d, C)"]
    assert kernel.signatures == []
    assert into.tolist() == [0, 0, 1]
    assert requested[0].dispatcher() is widen


def test_what_a_kernel_calls_is_not_asked_for(run_by: Callable[[NeededKernels], None], without_cache: None) -> None:
    requested: list[Kernel] = []
    run_by(NeededKernels(requested.append))
    inner = fresh(are_as_long)

    def outer(offsets: Any, length: Any) -> Any:
        return inner(offsets, length)

    outer.__module__ = widen.py_func.__module__
    assert uncached(PRIVATE.way(leaf=True), outer)(*LENGTHS) is False
    assert [found.name for found in requested] == ["outer"]


def test_what_is_compiled_meanwhile_is_taken_from_then_on(
    run_by: Callable[[NeededKernels], None], without_cache: None
) -> None:
    requested: list[Kernel] = []
    needed = NeededKernels(requested.append)
    run_by(needed)
    kernel = fresh(are_as_long)
    kernel(*LENGTHS)
    assert kernel.signatures == []
    needed.is_compiled(requested[0])
    assert kernel(*LENGTHS) is False
    assert len(kernel.signatures) == 1
    assert len(requested) == 1


def test_results_are_of_the_types_that_compiled_code_returns() -> None:
    found = _as_returned((np.int32(3), (np.True_, np.float32(0.5)), "text"))
    assert found == (3, (True, 0.5), "text")
    assert list(map(type, (found[0], *found[1]))) == [int, bool, float]
    values = np.arange(3)
    assert _as_returned(values) is values


def test_what_takes_longer_to_compile_is_larger() -> None:
    sizes = [Kernel(kernel.py_func.__module__, kernel.py_func.__name__, ()).size() for kernel in (search, search_order)]
    small = Kernel(widen.py_func.__module__, "widen", ()).size()
    assert sizes[0] > 2 * sizes[1] > 4 * small
