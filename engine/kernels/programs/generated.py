"""Kernels in which the interpreter of predicate programs is replaced by code generated for one query.

A package in the cache folder holds the generated `evaluate` and copies of the kernels that call it, directly or not;
everything else they use is imported from where it stands. So a copy takes the same arguments, on the same state, as
the kernel that it replaces. Compiling goes on in another process, which leaves the machine code beside the sources;
this one then only loads it.

The folder is private to the user. It is written under another name and renamed, so that it is whole or not there; its
name is the hash of the sources, and of the name of the folder of the precompiled kernels, which stands for those
kernels, the versions of the libraries and the processor.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeVar

import numba

from engine.kernels.programs.predicates import evaluate

K = TypeVar("K")

MAX_FOLDERS = 256
"""More generated packages than this are not kept: the ones not used for longest go."""

_PREFIX = "generated_"
_ENTRIES = "entries.txt"
_NICENESS = 10
_importing = threading.Lock()


class GeneratedKernelError(Exception):
    """Generated kernels cannot be had: what was found, and what to do."""


class KernelSet:
    """The kernels that one run state calls: those of the library, until copies for its query take their places."""

    def __init__(self) -> None:
        self._copies: Mapping[Any, Any] = {}

    def of(self, kernel: K) -> K:
        """What to call in the place of `kernel`."""
        copy: K = self._copies.get(kernel, kernel)
        return copy

    def use(self, copies: Mapping[Any, Any]) -> None:
        """From now on call these; by the kernels that they replace."""
        self._copies = copies

    @property
    def is_generated(self) -> bool:
        """Whether copies are in use."""
        return bool(self._copies)


# ------------------------------------------------------------------- sources


def package_sources(programs: str, entries: Iterable[Any]) -> dict[str, str]:
    """The files of a package by name: `programs` (a module with `evaluate`), and copies of all kernels by which
    `entries` reach the interpreter."""
    copied: dict[str, list[Any]] = {}
    for kernel in _reaching(entries):
        copied.setdefault(_function(kernel).__module__, []).append(kernel)
    names = {module: {_function(kernel).__name__ for kernel in kernels} for module, kernels in copied.items()}
    files = {"__init__.py": "", "programs.py": programs}
    for module, kernels in copied.items():
        files[f"{_short(module)}.py"] = _module_source(module, kernels, names)
    return files


def _module_source(module: str, kernels: list[Any], names: Mapping[str, set[str]]) -> str:
    own = names[module]
    lines: set[str] = set()
    for kernel in kernels:
        function = _function(kernel)
        for name in _globals_of(function):
            value = function.__globals__[name]
            if name in own and _function(value).__module__ == module:
                continue
            home = str(_function(value).__module__) if _is_kernel(value) else ""
            if value is evaluate:
                lines.add(f"from .programs import evaluate as {name}")
            elif home in names and _function(value).__name__ in names[home]:
                lines.add(f"from .{_short(home)} import {_function(value).__name__} as {name}")
            else:
                lines.add(f"from {module} import {name}")
    functions = [textwrap.dedent(inspect.getsource(_function(kernel))) for kernel in kernels]
    head = (
        f'"""Copies of kernels of {module}, for one query."""\n\nfrom engine.kernels.compile.ways import kernel, leaf\n'
    )
    return head + "\n".join(sorted(lines)) + "\n\n\n" + "\n\n".join(functions)


def _reaching(entries: Iterable[Any]) -> list[Any]:
    """The kernels on a way from `entries` to the interpreter, in the order of their sources."""
    reaches: dict[int, bool] = {}
    found: list[Any] = []

    def visit(kernel: Any) -> bool:
        if kernel is evaluate:
            return True
        if id(kernel) not in reaches:
            reaches[id(kernel)] = False  # a cycle that reaches the interpreter does so from elsewhere
            function = _function(kernel)
            called = [v for name in _globals_of(function) if _is_kernel(v := function.__globals__[name])]
            results = [visit(callee) for callee in called]  # all of them: a copy calls copies
            reaches[id(kernel)] = any(results)
            if reaches[id(kernel)]:
                found.append(kernel)
        return reaches[id(kernel)]

    for entry in entries:
        visit(entry)
    return sorted(found, key=lambda kernel: (_function(kernel).__module__, _function(kernel).__code__.co_firstlineno))


def _globals_of(function: FunctionType) -> list[str]:
    def names(code: CodeType) -> set[str]:
        inner = [names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
        return set(code.co_names).union(*inner)

    return sorted(names(function.__code__) & function.__globals__.keys())


def _is_kernel(value: Any) -> bool:
    """A compiled function of this package, or one that would be if the JIT were on."""
    function = _function(value)
    return isinstance(function, FunctionType) and str(function.__module__).startswith("engine.kernels.")


def _function(kernel: Any) -> Any:
    return getattr(kernel, "py_func", kernel)


def _short(module: str) -> str:
    return module.rpartition(".")[2]


# -------------------------------------------------------------------- folder


def write_package(files: Mapping[str, str], entries: Iterable[Any], base: Path, kernels: str) -> Path:
    """The folder of these sources below `base`, made if it is not there. Raises GeneratedKernelError.

    kernels: what else the machine code depends on, see `engine.kernels.compile.cache`.
    """
    digest = hashlib.blake2b(kernels.encode(), digest_size=12)
    for name in sorted(files):
        digest.update(f"{name}\0{files[name]}\0".encode())
    folder = base / (_PREFIX + digest.hexdigest())
    listed = "".join(f"{_function(entry).__module__} {_function(entry).__name__}\n" for entry in entries)
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(base)
        if not folder.is_dir():
            _write({**files, _ENTRIES: listed}, folder)
        check_private(folder)
        for name, text in files.items():
            if (folder / name).read_text() != text:
                raise GeneratedKernelError(f"{folder / name} is not what was generated; remove {folder}")
        os.utime(folder)
        _forget_old(base)
    except OSError as error:
        raise GeneratedKernelError(f"{folder}: {error.strerror or error}") from error
    return folder


def check_private(folder: Path) -> None:
    """Raise GeneratedKernelError unless the folder is the user's own, and nobody else may write there."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise GeneratedKernelError(
            f"{folder}: found mode {stat.filemode(found.st_mode)} of user {found.st_uid}; expected a folder of user "
            f"{os.geteuid()} that nobody else may write to: chmod go-w it, or set CLUSTERCEP_CACHE"
        )


def _write(files: Mapping[str, str], folder: Path) -> None:
    draft = Path(tempfile.mkdtemp(prefix="draft_", dir=folder.parent))  # of mode 0700
    try:
        for name, text in files.items():
            (draft / name).write_text(text)
        draft.rename(folder)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not folder.is_dir():  # else another process was faster
            raise


def _forget_old(base: Path) -> None:
    folders = sorted(base.glob(f"{_PREFIX}*"), key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in folders[MAX_FOLDERS:]:
        shutil.rmtree(folder, ignore_errors=True)


# ----------------------------------------------------------- import, compile


def load_package(folder: Path, entries: Iterable[Any]) -> dict[Any, Any]:
    """The copies of `entries`, by the kernels that they replace; machine code is kept in the same folder."""
    with _importing:
        before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
        numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
        try:
            package = _package(folder)
            return {
                entry: getattr(
                    importlib.import_module(f"{package}.{_short(_function(entry).__module__)}"),
                    _function(entry).__name__,
                )
                for entry in entries
            }
        finally:
            numba.config.CACHE_DIR = before  # type: ignore[attr-defined]


def _package(folder: Path) -> str:
    name = folder.name
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            name, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        if spec is None or spec.loader is None:
            raise GeneratedKernelError(f"{folder} is no package")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return name


def compile_copies(copies: Mapping[Any, Any]) -> None:
    """Compile each copy for all arguments for which the kernel that it replaces is compiled, or load it."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return
    for kernel, copy in copies.items():
        for signature in _signatures(kernel):
            copy.compile(signature)


def has_signatures(entries: Iterable[Any]) -> bool:
    """Whether it is known for which arguments these kernels are to be compiled: after they have run."""
    return bool(numba.config.DISABLE_JIT) or all(kernel.signatures for kernel in entries)  # type: ignore[attr-defined]


def _signatures(kernel: Any) -> list[Any]:
    """Of this process, else those that Numba's cache of the kernel has."""
    if kernel.signatures:
        return list(kernel.signatures)
    index = kernel._cache._cache_file._load_index()
    return [key[0] for key in index]


def start_compiling(folder: Path) -> subprocess.Popen[bytes]:
    """A process of low priority that compiles the package; its error output says what went wrong."""
    sources = str(Path(__file__).parents[2])
    paths = [sources, *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(  # noqa: S603  # this interpreter and this module
        [sys.executable, "-m", "engine.kernels.programs.generated", str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def main(folder: Path) -> None:
    """What that process does."""
    os.nice(_NICENESS)
    entries = []
    for line in (folder / _ENTRIES).read_text().splitlines():
        module, name = line.split()
        entries.append(getattr(importlib.import_module(module), name))
    compile_copies(load_package(folder, entries))


if __name__ == "__main__":
    main(Path(sys.argv[1]))


__all__ = [
    "GeneratedKernelError",
    "KernelSet",
    "check_private",
    "compile_copies",
    "has_signatures",
    "load_package",
    "package_sources",
    "start_compiling",
    "write_package",
]
