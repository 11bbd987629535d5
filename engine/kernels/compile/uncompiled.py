"""Kernels that run as Python until their compiled code is there.

Compiling all kernels takes minutes of processor time; a query over a few events is answered by the same functions as
plain Python long before. A dispatcher that has no compiled code for its arguments asks `_compile_for_args` for what to
call: while compiled code is awaited, that is the Python function itself. Nothing is converted when it comes: the next
call of each kernel, also from within another one that still runs as Python, takes the compiled one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numba
from numba.core.registry import CPUDispatcher

_OURS = "engine.kernels."
_DISPATCHER: Any = CPUDispatcher
_numba_compile_for_args = _DISPATCHER._compile_for_args
_lock = threading.Lock()
_prepared_s: dict[int, float] = {}
_preparing_since_s: dict[int, float] = {}


def _compile_for_args(dispatcher: Any, *args: Any, **keywords: Any) -> Any:
    """What numba does, and how long it took."""
    thread = threading.get_ident()
    if thread in _preparing_since_s:
        return _numba_compile_for_args(dispatcher, *args, **keywords)
    _preparing_since_s[thread] = since_s = time.thread_time()
    try:
        return _numba_compile_for_args(dispatcher, *args, **keywords)
    finally:
        _prepared_s[thread] = _prepared_s.get(thread, 0.0) + time.thread_time() - since_s
        del _preparing_since_s[thread]


_DISPATCHER._compile_for_args = _compile_for_args


def preparing_s(thread: int) -> float:
    """Processor time of this thread in which kernels were compiled, or compiled ones loaded."""
    prepared_s, since_s = _prepared_s.get(thread, 0.0), _preparing_since_s.get(thread)
    if since_s is None:
        return prepared_s
    return prepared_s + time.clock_gettime(time.pthread_getcpuclockid(thread)) - since_s


def runs_as_python() -> bool:
    """Whether kernels without compiled code run as Python now."""
    return bool(numba.config.DISABLE_JIT) or _DISPATCHER._compile_for_args is _python_function  # type: ignore[attr-defined]


def run_uncompiled_until(is_there: Callable[[], bool], *, every_s: float = 0.5) -> None:
    """Run kernels without compiled code as Python until `is_there` says that it can be loaded.

    It is asked every so many seconds by a thread that ends with the process. Kernels that are compiled in this process
    already go on so.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return  # they are plain functions
    with _lock:
        _DISPATCHER._compile_for_args = _python_function
    threading.Thread(target=_wait, args=(is_there, every_s), name="kernels", daemon=True).start()


def run_compiled() -> None:
    """From now on, kernels are loaded, or compiled, when they are first called."""
    with _lock:
        _DISPATCHER._compile_for_args = _compile_for_args


def _wait(is_there: Callable[[], bool], every_s: float) -> None:
    asked = threading.Event()
    while _DISPATCHER._compile_for_args is _python_function:
        if is_there():
            run_compiled()
        else:
            asked.wait(every_s)


def _python_function(dispatcher: Any, *args: Any, **keywords: Any) -> Any:
    if dispatcher.py_func.__module__.startswith(_OURS):
        return dispatcher.py_func
    return _compile_for_args(dispatcher, *args, **keywords)


__all__ = ["preparing_s", "run_compiled", "run_uncompiled_until", "runs_as_python"]
