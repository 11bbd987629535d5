"""Kernels compiled by several processes at once."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import types
from numba.core.caching import FunctionCache

from engine.kernels.columns.decode import widen
from engine.kernels.compile import PRIVATE, numba_private, processes
from engine.kernels.compile.needed import Kernel
from engine.kernels.compile.processes import CompiledKernels, CompilingProcesses
from tests.engine.kernels.compile.test_compiling import needs_compiler

pytestmark = needs_compiler

WIDEN, DECODE = "widen", "engine.kernels.columns.decode"
INTO = types.Array(types.float64, 1, "C")

COMPILED = """
import numpy as np
from numba import types
from engine.kernels.columns.decode import widen
from engine.kernels.compile.needed import Kernel
from engine.kernels.compile.processes import CompilingProcesses
from engine.kernels.compile import PRIVATE

module, into = widen.py_func.__module__, types.Array(types.float64, 1, "C")
integers = (types.int8, types.int16, types.int32, types.uint8)
kernels = [Kernel(module, "widen", (types.Array(of, 1, "C"), into)) for of in integers]
compiled, told = [], []
with CompilingProcesses(told.append) as processes:
    processes.tell_compiled = compiled.append
    for kernel in kernels:
        processes.ask(kernel)
    print(processes.finish())
print(sorted(compiled, key=str) == sorted(kernels, key=str), tuple(told[-1]))
print([PRIVATE.is_kept(widen, kernel.types) for kernel in kernels])
widen(np.arange(3, dtype=np.int16), np.empty(3))
print(sum(widen.stats.cache_misses.values()))
"""


def test_what_processes_have_compiled_is_found_by_others(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", COMPILED],
        env={**os.environ, "CLUSTERCEP_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.splitlines() == ["[]", "True (4, 4)", str([True] * 4), "0"]


def of_types(*arguments: Any) -> Kernel:
    return Kernel(DECODE, WIDEN, arguments)


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "n_processes", lambda: 1)


def test_what_cannot_be_compiled_is_told_and_the_next_one_is(one_process: None) -> None:
    emitted: list[CompiledKernels] = []
    wrong, right = of_types(types.unicode_type, INTO), of_types(types.Array(types.int64, 1, "C"), INTO)
    with CompilingProcesses(emitted.append) as compiling:
        compiling.ask(wrong)
        compiling.ask(right)
        (failure,) = compiling.finish()
    assert failure.startswith(f"{DECODE}.widen: ")
    assert "yping" in failure
    assert emitted[-1] == (1, 2)


def test_the_end_of_a_process_is_told(one_process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_answer", killed_before(processes._answer))
    with CompilingProcesses() as compiling:
        compiling.ask(of_types(types.Array(types.int64, 1, "C"), INTO))
        (failure,) = compiling.finish()
    assert failure == f"{DECODE}.widen: the process that compiles it has ended with status -9"


def killed_before(answer: Any) -> Any:
    def of(process: subprocess.Popen[str], kernel: Kernel) -> Any:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return answer(process, kernel)

    return of


def test_those_that_take_longest_come_first(one_process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[int] = []

    def answer(_process: Any, kernel: Kernel) -> str:
        requested.append(len(kernel.types))
        return processes._DONE

    monkeypatch.setattr(processes, "_answer", answer)
    monkeypatch.setattr(Kernel, "size", lambda kernel: len(kernel.types))
    compiling = CompilingProcesses()
    for n in (1, 3, 2):
        compiling.ask(of_types(*n * [INTO]))
    with compiling:
        assert compiling.finish() == []
    assert requested == [3, 2, 1]


def test_processes_end_with_their_context(one_process: None) -> None:
    with CompilingProcesses() as compiling:
        (process,) = compiling._processes
        assert process.poll() is None
    assert process.poll() == -9


def test_code_is_kept_by_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[bool] = []

    def save(cache: Any, _types: Any, _code: Any) -> None:
        with (Path(cache.cache_path) / "writing.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                saved.append(True)

    monkeypatch.setattr(FunctionCache, "save_overload", save)
    assert type(widen._cache) is numba_private._SharedCache
    monkeypatch.setattr(widen._cache, "_cache_path", str(tmp_path))
    widen._cache.save_overload((), None)
    assert saved == [True]
    monkeypatch.setattr(widen._cache, "_cache_path", str(tmp_path / "gone"))
    widen._cache.save_overload((), None)  # compiled again by the next process
    assert saved == [True]


def test_kept_code_is_told_from_other_types() -> None:
    widen(np.arange(3), np.empty(3))
    assert PRIVATE.is_kept(widen, of_types(types.Array(types.int64, 1, "C"), INTO).types)
    assert not PRIVATE.is_kept(widen, of_types(types.Array(types.complex128, 1, "C"), INTO).types)
