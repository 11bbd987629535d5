"""All that is used of Numba beyond its documented interface, and the versions for which it is known to hold.

Importing this raises ImportError for others, and where CLUSTERCEP_NUMBA is `public` in the environment: `PRIVATE` of
this package is None then, and those who use it have another way.
"""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numba

VERSIONS = ((0, 68),)
"""The tests pass with these."""

if numba.version_info.short not in VERSIONS or os.environ.get("CLUSTERCEP_NUMBA") == "public":
    raise ImportError(f"Numba {numba.__version__}: what is used of its inside is known to hold for {VERSIONS}")

from numba import _dynfunc, njit  # type: ignore[attr-defined]
from numba.core.caching import CacheImpl, FunctionCache, UserProvidedCacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.errors import TypingError
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import BaseNativeLowering, NativeLowering, NopythonTypeInference
from numba.core.types import Buffer, unliteral  # type: ignore[attr-defined]

from engine.kernels.compile import portable

_KERNELS = Path(__file__).resolve().parents[1]
_njit: Any = njit  # its declared type does not know all options


# ---- where machine code is kept


class KernelLocator(UserProvidedCacheLocator):
    """As Numba's own for a given folder, but the name below it does not tell where the sources lie.

    The folder that `cache.configure` chooses tells their content already. Other functions are left to Numba's own
    locators.
    """

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """The sources' folder within the kernels' own: files of one name in two of them do not collide."""
        return str(Path(py_file).resolve().parent.relative_to(_KERNELS.parent))

    @classmethod
    def from_function(cls, py_func: Callable[..., object], py_file: str) -> KernelLocator | None:
        """None where the function is no kernel."""
        if not Path(py_file).resolve().is_relative_to(_KERNELS):
            return None
        return cast("KernelLocator | None", super().from_function(py_func, py_file))  # type: ignore[no-untyped-call]


class _SharedCache(FunctionCache):
    """As Numba's own, for several processes that compile at once.

    Numba reads a function's index, adds to it and writes it anew: of two processes that do so for different types, the
    later one's index would lead to the earlier one's code. What is not kept is looked for in what came along.
    """

    def holds(self, types: tuple[Any, ...], target_context: Any) -> bool:
        """Whether there is code for arguments of these types."""
        key = self._index_key(types, target_context.codegen())  # type: ignore[no-untyped-call]
        return key in self._cache_file._load_index() or self._read_portable(types) is not None  # type: ignore[no-untyped-call]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function; None where there is none."""
        kept = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        return self._portable(sig, target_context) if kept is None else kept

    def _portable(self, types: tuple[Any, ...], target_context: Any) -> Any:
        data = self._read_portable(types)
        if data is None:
            return None
        found = self._impl.rebuild(target_context, pickle.loads(data))  # noqa: S301  # lies as safe as the sources (`portable.look`)
        return found if found.signature.args == types else None

    def _read_portable(self, types: tuple[Any, ...]) -> bytes | None:
        kernels, function = portable.portable_kernels().kernels, self._py_func
        if kernels is None:
            return None
        return kernels.read(portable.kernel_name(function.__module__, function.__qualname__, types))

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keeps the code; where the folder cannot be written to, the next process compiles it again."""
        try:
            with (Path(self.cache_path) / "writing.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError:
            return


def _keep(compiled: Any, function: Callable[..., Any]) -> None:
    """As `cache=True` would."""
    compiled._cache = _SharedCache(function)  # type: ignore[no-untyped-call]


def use_locator() -> None:
    """Have Numba ask `KernelLocator` before its own."""
    own = f"{KernelLocator.__module__}.{KernelLocator.__name__}"
    locators = (own, *(cls.__name__ for cls in CacheImpl._locator_classes))
    numba.config.CACHE_LOCATOR_CLASSES = ",".join(locators)  # type: ignore[attr-defined]


# ---- what is called where a dispatcher has no compiled code for its arguments

_DISPATCHER: Any = CPUDispatcher
CompileForArgs = Callable[..., Any]
compile_for_args: CompileForArgs = _DISPATCHER._compile_for_args
"""Numba's own: loads or compiles, and returns what to call with these arguments."""


def set_compile_for_args(function: CompileForArgs) -> None:
    """Have every dispatcher ask `function`, with itself and the arguments of the call."""
    _DISPATCHER._compile_for_args = function


def current_compile_for_args() -> CompileForArgs:
    """The function that dispatchers ask now."""
    return cast(CompileForArgs, _DISPATCHER._compile_for_args)


def argument_types(dispatcher: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of which types code is compiled for these arguments; they can be pickled."""
    return tuple(dispatcher.typeof_pyval(value) for value in args)


def is_kept(dispatcher: Any, types: tuple[Any, ...]) -> bool:
    """Whether code for these types is in the cache folder, or came along."""
    return bool(dispatcher._cache.holds(types, dispatcher.targetctx))


# ---- how functions become machine code


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


def way(*, leaf: bool, apart: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A way to compile: for calls from Python, and for those from compiled code when it is asked for by such.

    `apart`: LLVM does not copy it into its callers. `options`: of `njit`.
    """
    lower = _LowerApart if apart else Lower
    options |= {"nogil": True, "_nrt": not leaf, "no_cfunc_wrapper": True}
    called = _compiler(_lowering(_LoweringWhole, lower), leaf=leaf)
    linked = _compiler(_lowering(_LoweringToLink, lower), leaf=leaf)

    def compile_(function: Callable[..., Any]) -> Any:
        compiled = _njit(pipeline_class=called, **options)(function)
        if isinstance(compiled, CPUDispatcher):
            _keep(compiled, function)
            _link(compiled, _njit(no_cpython_wrapper=True, pipeline_class=linked, **options)(function))
        return compiled

    return compile_


__all__ = [
    "VERSIONS",
    "KernelLocator",
    "argument_types",
    "compile_for_args",
    "current_compile_for_args",
    "is_kept",
    "set_compile_for_args",
    "use_locator",
    "way",
]
