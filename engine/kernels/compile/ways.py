"""How kernels are compiled.

Numba counts the references to arrays by atomic additions: at calls of functions with more than one way out, at looks at
an array in a tuple. In loops over events that was more than half of the time, and two threads that evaluate the same
columns wait for each other's counters. A function that neither makes nor returns an array needs no counting.

Numba would make machine code, and a wrapper for calls from Python, of every function that another one calls, and
optimise each together with all that it calls. Here a function that compiled code calls is only brought into the form
that its callers take in; machine code is made of what Python calls, with all that belongs to it, once.

Both rest on the inside of Numba (`numba_private`). Where that is not known, these are Numba's own way: slower to
compile and to run, with the same results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

from engine.kernels.compile import PRIVATE


def _way(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    if PRIVATE is not None:
        return PRIVATE.way(**options)  # type: ignore[no-any-return]
    return njit(cache=True, nogil=True)


apart = _way(leaf=True, apart=True, forceinline=False)
"""A large leaf that several call: not copied into its callers."""

kernel = _way(leaf=False)
"""A function that makes arrays, or calls one that does."""

leaf = _way(leaf=True)
"""A function that makes no array, returns none, and calls leaves alone; another is refused when it is compiled.
References to its arguments are its caller's."""

inlined = _way(leaf=True, forceinline=True)
"""A small leaf that becomes part of its callers: handing many arrays over would cost more than what it does."""

__all__ = ["apart", "inlined", "kernel", "leaf"]
