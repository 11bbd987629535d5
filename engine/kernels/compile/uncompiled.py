"""Kernels that run as Python until their compiled code is there.

Compiling all kernels takes minutes of processor time; a query over a few events is answered by the same functions as
plain Python long before. A dispatcher that has no compiled code for its arguments asks what to call
(`numba_private.set_compile_for_args`): while compiled code is awaited, that is the Python function itself. Nothing is
converted when it comes: the next call of each kernel, also from within another one that still runs as Python, takes the
compiled one.

Where the inside of Numba is not known, kernels are compiled when they are first called, and nothing runs as Python.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

from engine.kernels.compile import PRIVATE

OURS = "engine.kernels."
"""What the names of the kernels' modules begin with."""

_lock = threading.Lock()
_prepared_s: dict[int, float] = {}
_preparing_since_s: dict[int, float] = {}


def load_or_compile(dispatcher: Any, *args: Any, **keywords: Any) -> Any:
    """What Numba does where a dispatcher has no code for its arguments, and how long it took."""
    if not _begin_preparing():
        return PRIVATE.compile_for_args(dispatcher, *args, **keywords)
    try:
        return PRIVATE.compile_for_args(dispatcher, *args, **keywords)
    finally:
        _end_preparing()


def _begin_preparing() -> bool:
    """False where this thread has begun to already."""
    thread = threading.get_ident()
    if thread in _preparing_since_s:
        return False
    _preparing_since_s[thread] = time.thread_time()
    return True


def _end_preparing() -> None:
    thread = threading.get_ident()
    _prepared_s[thread] = _prepared_s.get(thread, 0.0) + time.thread_time() - _preparing_since_s[thread]
    del _preparing_since_s[thread]


class _Compiled(event.Listener):
    """Counts what `load_or_compile` counts, but for what it takes to load."""

    def __init__(self) -> None:
        self._outermost = threading.local()

    def on_start(self, event: event.Event) -> None:
        """A function is compiled, perhaps within another one."""
        if _begin_preparing():
            self._outermost.event = event.data["dispatcher"]

    def on_end(self, event: event.Event) -> None:
        """It is compiled."""
        if getattr(self._outermost, "event", None) is event.data["dispatcher"]:
            self._outermost.event = None
            _end_preparing()


if PRIVATE is not None:
    PRIVATE.set_compile_for_args(load_or_compile)
else:
    event.register("numba:compile", _Compiled())  # type: ignore[no-untyped-call]


def preparing_s(thread: int) -> float:
    """Processor time of this thread in which kernels were compiled, or compiled ones loaded."""
    prepared_s, since_s = _prepared_s.get(thread, 0.0), _preparing_since_s.get(thread)
    if since_s is None:
        return prepared_s
    return prepared_s + time.clock_gettime(time.pthread_getcpuclockid(thread)) - since_s


def runs_as_python() -> bool:
    """Whether kernels without compiled code run as Python now."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return True
    return PRIVATE is not None and PRIVATE.current_compile_for_args() is not load_or_compile


def run_uncompiled_until(is_there: Callable[[], bool], *, every_s: float = 0.5) -> None:
    """Run kernels without compiled code as Python until `is_there` says that it can be loaded.

    It is asked every so many seconds by a thread that ends with the process. Kernels that are compiled in this process
    already go on so.
    """
    if numba.config.DISABLE_JIT or PRIVATE is None:  # type: ignore[attr-defined]
        return  # they are plain functions, or compiled when they are called
    with _lock:
        PRIVATE.set_compile_for_args(_python_function)
    threading.Thread(target=_wait, args=(is_there, every_s), name="kernels", daemon=True).start()


def run_uncompiled_by(compile_for_args: Callable[..., Any]) -> None:
    """Have `compile_for_args` say what a dispatcher without code for its arguments calls, until `run_compiled`."""

    # A bound method would not be given the dispatcher.
    def of_class(dispatcher: Any, *args: Any, **keywords: Any) -> Any:
        return compile_for_args(dispatcher, *args, **keywords)

    with _lock:
        PRIVATE.set_compile_for_args(of_class)


def run_compiled() -> None:
    """From now on, kernels are loaded, or compiled, when they are first called."""
    if PRIVATE is not None:
        with _lock:
            PRIVATE.set_compile_for_args(load_or_compile)


def _wait(is_there: Callable[[], bool], every_s: float) -> None:
    requested = threading.Event()
    while PRIVATE.current_compile_for_args() is _python_function:
        if is_there():
            run_compiled()
        else:
            requested.wait(every_s)


def _python_function(dispatcher: Any, *args: Any, **keywords: Any) -> Any:
    if dispatcher.py_func.__module__.startswith(OURS):
        return dispatcher.py_func
    return load_or_compile(dispatcher, *args, **keywords)


__all__ = [
    "OURS",
    "load_or_compile",
    "preparing_s",
    "run_compiled",
    "run_uncompiled_by",
    "run_uncompiled_until",
    "runs_as_python",
]
