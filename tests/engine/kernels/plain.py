"""Kernels as the Python functions that they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from numba.core.registry import CPUDispatcher

from engine.kernels.compile import uncompiled


@contextmanager
def as_python() -> Iterator[None]:
    """A kernel runs as Python, with all that it calls, unless it has compiled code for its arguments.

    For small inputs of what is otherwise compiled only as a part of other kernels, which are held to the oracle in that
    form: compiling it alone takes seconds.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CPUDispatcher, "_compile_for_args", uncompiled._python_function)
        yield
