"""How kernels are compiled.

Numba counts the references to arrays by atomic additions: at calls of functions with more than one way out, at looks at
an array in a tuple. In loops over events that was more than half of the time, and two threads that evaluate the same
columns wait for each other's counters. A function that neither makes nor returns an array needs no counting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.errors import TypingError
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import BaseNativeLowering, NativeLowering, NopythonTypeInference
from numba.core.types import Buffer, unliteral  # type: ignore[attr-defined]


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


class _LowerApart(Lower):
    """Numba's own lowering to a function that LLVM does not copy into its callers."""

    def pre_lower(self) -> None:
        super().pre_lower()  # type: ignore[no-untyped-call]
        self.builder.function.attributes.add("noinline")


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _LoweringApart(BaseNativeLowering):
    _name = "lowering_apart"  # type: ignore[assignment]

    @property
    def lowering_class(self) -> type[Lower]:
        return _LowerApart


class _ApartCompiler(CompilerBase):
    """`_LeafCompiler` with `_LoweringApart`."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
        passes.add_pass_after(_ReturnsNoArray, NopythonTypeInference)
        passes.passes = [
            (_LoweringApart, why) if pass_ is NativeLowering else (pass_, why) for pass_, why in passes.passes
        ]
        passes.finalize()
        return [passes]


def _has_array(type_: Any) -> bool:
    parts = getattr(type_, "types", ())
    return isinstance(type_, Buffer) or any(map(_has_array, parts))


def apart(function: Callable[..., Any]) -> Any:
    """A large leaf that several call: compiled once, not copied into its callers.

    A call with a constant compiles other functions for this constant; this one takes it as any number.
    """
    compiled = njit(cache=True, nogil=True, _nrt=False, forceinline=False, pipeline_class=_ApartCompiler)(function)  # type: ignore[call-overload]
    if isinstance(compiled, CPUDispatcher):
        of_types = compiled.get_call_template
        compiled.get_call_template = lambda args, kws: of_types(tuple(map(unliteral, args)), kws)  # type: ignore[method-assign]
    return compiled


kernel: Any = njit(cache=True, nogil=True, _nrt=True)  # type: ignore[call-overload]
"""A function that makes arrays, or calls one that does."""

leaf: Any = njit(cache=True, nogil=True, _nrt=False, pipeline_class=_LeafCompiler)  # type: ignore[call-overload]
"""A function that makes no array, returns none, and calls leaves alone; another is refused when it is compiled.
References to its arguments are its caller's."""

inlined: Any = njit(  # type: ignore[call-overload]
    cache=True, nogil=True, _nrt=False, forceinline=True, pipeline_class=_LeafCompiler
)
"""A small leaf that becomes part of its callers: handing many arrays over would cost more than what it does."""

__all__ = ["apart", "inlined", "kernel", "leaf"]
