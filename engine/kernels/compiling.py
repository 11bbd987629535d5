"""How kernels are compiled.

Numba counts the references to arrays by atomic additions: at calls of functions with more than one way out, at looks at
an array in a tuple. In loops over events that was more than half of the time, and two threads that evaluate the same
columns wait for each other's counters. A function that neither makes nor returns an array needs no counting.
"""

from __future__ import annotations

from typing import Any

from numba import njit
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.errors import TypingError
from numba.core.typed_passes import NopythonTypeInference
from numba.core.types import Buffer  # type: ignore[attr-defined]


@register_pass(mutates_CFG=False, analysis_only=True)  # type: ignore[no-untyped-call]
class _ReturnsNoArray(AnalysisPass):
    """Refuses a function that returns an array: its caller would give back a reference that nobody has counted."""

    _name = "returns_no_array"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)  # type: ignore[no-untyped-call]

    def run_pass(self, state: Any) -> bool:
        if _has_array(state.return_type):
            raise TypingError(f"{state.func_id.func_qualname} returns an array and is no leaf: compile it as a kernel")
        return False


class _LeafCompiler(CompilerBase):
    """Numba's own passes and `_ReturnsNoArray`."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
        passes.add_pass_after(_ReturnsNoArray, NopythonTypeInference)
        passes.finalize()
        return [passes]


def _has_array(type_: Any) -> bool:
    parts = getattr(type_, "types", ())
    return isinstance(type_, Buffer) or any(map(_has_array, parts))


kernel: Any = njit(cache=True, nogil=True, _nrt=True)  # type: ignore[call-overload]
"""A function that makes arrays, or calls one that does."""

leaf: Any = njit(cache=True, nogil=True, _nrt=False, pipeline_class=_LeafCompiler)  # type: ignore[call-overload]
"""A function that makes no array, returns none, and calls leaves alone; another is refused when it is compiled.
References to its arguments are its caller's."""

inlined: Any = njit(  # type: ignore[call-overload]
    cache=True, nogil=True, _nrt=False, forceinline=True, pipeline_class=_LeafCompiler
)
"""A small leaf that becomes part of its callers: handing many arrays over would cost more than what it does."""

__all__ = ["inlined", "kernel", "leaf"]
