"""Which kernels some work needs: found by doing it while they run as Python.

A kernel is compiled for the types of the arguments that it is called with from Python. Those that others call are parts
of them, and are not needed by themselves.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from engine.kernels.compile import PRIVATE
from engine.kernels.compile.uncompiled import OURS, load_or_compile


class Kernel(NamedTuple):
    """A kernel for arguments of these types: Numba's, which can be pickled and compared."""

    module: str
    name: str
    types: tuple[Any, ...]

    def dispatcher(self) -> Any:
        """The function itself."""
        return getattr(importlib.import_module(self.module), self.name)

    def parts(self) -> dict[Any, int]:
        """Itself and all functions that it calls: bytes of their Python code."""
        found: dict[Any, int] = {}
        waiting = [self.dispatcher()]
        while waiting:
            part = waiting.pop()
            if part in found:
                continue
            code, known = part.py_func.__code__, part.py_func.__globals__
            found[part] = len(code.co_code)
            waiting += [known[name] for name in code.co_names if hasattr(known.get(name), "py_func")]
        return found

    def size(self) -> int:
        """Bytes of Python code in it and in all that it calls: what takes longer to compile has more."""
        return sum(self.parts().values())


class NeededKernels:
    """Says what dispatchers call (`uncompiled.run_uncompiled_by`): Python functions, of which each is told to `ask`.

    Those in the cache folder are loaded, and so are others after `is_compiled` was told of them.
    """

    def __init__(self, ask: Callable[[Kernel], object]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._requested: set[Kernel] = set()
        self._compiled: set[Kernel] = set()
        self._inside = threading.local()

    def is_compiled(self, kernel: Kernel) -> None:
        """From now on this one is loaded."""
        self._compiled.add(kernel)

    def compile_for_args(self, dispatcher: Any, *args: Any, **keywords: Any) -> Any:
        """What to call with these arguments."""
        function = dispatcher.py_func
        if not function.__module__.startswith(OURS):
            return load_or_compile(dispatcher, *args, **keywords)
        if getattr(self._inside, "is_true", False):
            return function
        kernel = Kernel(function.__module__, function.__name__, PRIVATE.argument_types(dispatcher, args))
        with self._lock:
            is_new = kernel not in self._requested
            self._requested.add(kernel)
        if is_new:
            if PRIVATE.is_kept(dispatcher, kernel.types):
                self._compiled.add(kernel)
            else:
                self._ask(kernel)
        if kernel in self._compiled:
            return load_or_compile(dispatcher, *args, **keywords)
        return self._as_python(function)

    def _as_python(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with results of the types that the compiled one's have."""

        def called(*args: Any, **keywords: Any) -> Any:
            self._inside.is_true = True
            try:
                return _as_returned(function(*args, **keywords))
            finally:
                self._inside.is_true = False

        return called


def _as_returned(result: Any) -> Any:
    """Compiled code returns Python's numbers: in an argument of the next kernel, NumPy's are of another type."""
    if isinstance(result, np.generic):
        return result.item()
    if isinstance(result, tuple):
        parts = map(_as_returned, result)
        return result._make(parts) if hasattr(result, "_make") else tuple(parts)
    return result


__all__ = ["Kernel", "NeededKernels"]
