"""How kernels are compiled, and where their machine code is kept.

`PRIVATE` is what is used of Numba beyond its documented interface (`numba_private`), None where that is not known to
hold for the installed version: then kernels are compiled as Numba compiles any function, which takes longer, nothing
runs as Python meanwhile, and another copy of the sources compiles them anew.
"""

from typing import Any

PRIVATE: Any
try:
    from engine.kernels.compile import numba_private as PRIVATE  # noqa: N812  # a constant: set here, for good
except ImportError:
    PRIVATE = None

__all__ = ["PRIVATE"]
