"""How kernels are compiled.

Numba counts the references to arrays by atomic additions: at calls of functions with more than one way out, at looks at
an array in a tuple. In loops over events that was more than half of the time, and two threads that evaluate the same
columns wait for each other's counters. A function that neither makes nor returns an array needs no counting.

Numba would make machine code, and a wrapper for calls from Python, of every function that another one calls, and
optimise each together with all that it calls. Here a function that compiled code calls is only brought into the form
that its callers take in (`_Linked`); machine code is made of what Python calls, with all that belongs to it, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import _dynfunc, njit  # type: ignore[attr-defined]
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.errors import TypingError
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import BaseNativeLowering, NativeLowering, NopythonTypeInference
from numba.core.types import Buffer, unliteral  # type: ignore[attr-defined]

_njit: Any = njit  # its declared type does not know all options


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


def _has_array(type_: Any) -> bool:
    parts = getattr(type_, "types", ())
    return isinstance(type_, Buffer) or any(map(_has_array, parts))


class _LowerApart(Lower):
    """Numba's own lowering to a function that LLVM does not copy into its callers."""

    def pre_lower(self) -> None:
        super().pre_lower()  # type: ignore[no-untyped-call]
        self.builder.function.attributes.add("noinline")


class _Linked(JITCodeLibrary):
    """Code of one function, without what it calls, for its callers: neither optimised nor made machine code of."""

    def finalize(self) -> None:
        self._raise_if_finalized()  # type: ignore[no-untyped-call]
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True


class _Whole(JITCodeLibrary):
    """Machine code of one function with all that it calls."""

    def finalize(self) -> None:
        self._linking_libraries = _callers_first(self._linking_libraries)
        super().finalize()  # type: ignore[no-untyped-call]


def _callers_first(libraries: list[Any]) -> list[Any]:
    """These and all that they call, each after all that call it: LLVM takes over what is called already, no more."""
    found: list[Any] = []
    seen: set[Any] = set()

    def visit(called: list[Any]) -> None:
        for library in reversed(called):
            if library not in seen:
                seen.add(library)
                if isinstance(library, _Linked):
                    visit(library._linking_libraries)
                found.append(library)

    visit(libraries)
    return found[::-1]


class _LoweringWhole(BaseNativeLowering):
    """Lowering to machine code."""

    def run_pass(self, state: Any) -> bool:
        state.library = _Whole(state.targetctx.codegen(), state.func_id.func_qualname)  # type: ignore[no-untyped-call]
        state.library.enable_object_caching()
        return bool(super().run_pass(state))  # type: ignore[no-untyped-call]


class _LoweringToLink(BaseNativeLowering):
    """Lowering to a library that only its callers use."""

    def run_pass(self, state: Any) -> bool:
        state.library = _Linked(state.targetctx.codegen(), state.func_id.func_qualname)  # type: ignore[no-untyped-call]
        state.flags.no_compile = True
        super().run_pass(state)  # type: ignore[no-untyped-call]
        found = state.cr
        # What Numba tells compiled functions apart by; not to be called.
        entry = _dynfunc.make_function(found.fndesc.lookup_module(), found.fndesc.qualname, "", 0, found.env, ())
        state.targetctx.insert_user_function(entry, found.fndesc, [state.library])
        state.cr = found._replace(cfunc=entry)
        return True


def _lowering(to: Any, by: type[Lower]) -> Any:
    """A pass that lowers so, by Numba's own lowering or `_LowerApart`."""

    class Lowering(to):  # type: ignore[misc]
        _name = f"{to.__name__}_{by.__name__}"
        lowering_class = by

    return register_pass(mutates_CFG=True, analysis_only=False)(Lowering)  # type: ignore[no-untyped-call]


def _compiler(lowering: Any, *, leaf: bool) -> type[CompilerBase]:
    """Numba's own passes with this lowering, for a leaf with `_ReturnsNoArray`."""

    class Compiler(CompilerBase):
        def define_pipelines(self) -> list[Any]:
            passes = DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
            if leaf:
                passes.add_pass_after(_ReturnsNoArray, NopythonTypeInference)
            passes.passes = [
                (lowering, why) if pass_ is NativeLowering else (pass_, why) for pass_, why in passes.passes
            ]
            passes.finalize()
            return [passes]

    return Compiler


def _link(compiled: Any, linked: Any) -> None:
    """Have compiled code call `linked` where Python calls `compiled`."""

    def of_types(args: Any, kws: Any) -> Any:
        # A call with a constant would compile another function for this constant; here it is any number.
        return linked.get_call_template(tuple(map(unliteral, args)), kws)

    compiled.linked = linked
    compiled.get_call_template = of_types
    compiled.get_overload = linked.get_overload


def _way(*, leaf: bool, lower: type[Lower] = Lower, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A way to compile: for calls from Python, and for those from compiled code when it is asked for by such."""
    options |= {"nogil": True, "_nrt": not leaf, "no_cfunc_wrapper": True}
    called = _compiler(_lowering(_LoweringWhole, lower), leaf=leaf)
    linked = _compiler(_lowering(_LoweringToLink, lower), leaf=leaf)

    def compile_(function: Callable[..., Any]) -> Any:
        compiled = _njit(cache=True, pipeline_class=called, **options)(function)
        if isinstance(compiled, CPUDispatcher):
            _link(compiled, _njit(no_cpython_wrapper=True, pipeline_class=linked, **options)(function))
        return compiled

    return compile_


apart = _way(leaf=True, lower=_LowerApart, forceinline=False)
"""A large leaf that several call: not copied into its callers."""

kernel = _way(leaf=False)
"""A function that makes arrays, or calls one that does."""

leaf = _way(leaf=True)
"""A function that makes no array, returns none, and calls leaves alone; another is refused when it is compiled.
References to its arguments are its caller's."""

inlined = _way(leaf=True, forceinline=True)
"""A small leaf that becomes part of its callers: handing many arrays over would cost more than what it does."""

__all__ = ["apart", "inlined", "kernel", "leaf"]
