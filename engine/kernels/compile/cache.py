"""Where compiled kernels are kept between processes.

Numba's own cache key is one file's time stamp: it misses edits in the other files that a kernel calls. So the folder's
name carries a hash of all kernel sources, the versions and the CPU. Where the sources lie does not matter: another copy
of them on this machine, or in a container on another one, finds the same code (`numba_private.KernelLocator`).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import llvmlite.binding
import numba
import numpy as np

from engine.kernels.compile import PRIVATE

_SOURCES = Path(__file__).resolve().parents[1]
_COMPLETE = "complete"
"""File that says that all kernels are there, not only those that some query has needed."""


def configure(folder: Path) -> Path:
    """Keep compiled kernels below `folder`, private to this user; must run before the first kernel is imported.

    Returns the folder in use. When it cannot be made, kernels are compiled anew by each process.
    """
    used = folder / fingerprint()
    try:
        used.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return used
    numba.config.CACHE_DIR = str(used)  # type: ignore[attr-defined]
    if PRIVATE is not None:
        PRIVATE.use_locator()
    return used


def fingerprint(sources: Path = _SOURCES) -> str:
    """What compiled code depends on: the kernels' sources, the versions of the libraries, the processor."""
    digest = hashlib.blake2b(digest_size=12)
    for source in sorted(sources.rglob("*.py")):
        digest.update(source.relative_to(sources).as_posix().encode() + b"\0" + source.read_bytes())
    versions = (numba.__version__, llvmlite.__version__, np.__version__, platform.python_version())
    way = () if PRIVATE is not None else ("public",)
    digest.update(repr((versions, llvmlite.binding.get_host_cpu_name(), *way)).encode())
    return digest.hexdigest()


def kernels_are_compiled() -> bool:
    """False until `warm_kernels` has run with these kernels on this machine: compiling them takes minutes, once."""
    folder = _used_folder()
    return folder is not None and (folder / _COMPLETE).is_file()


def mark_compiled() -> None:
    """From now on `kernels_are_compiled` is true for every process with these kernels."""
    folder = _used_folder()
    if folder is not None and not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        (folder / _COMPLETE).touch(mode=0o600)


@contextmanager
def sole_compiler() -> Iterator[bool]:
    """False when another process compiles these kernels now, or there is no folder to keep them in."""
    folder = _used_folder()
    if folder is None:
        yield False
        return
    with (folder / "compiling.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _used_folder() -> Path | None:
    configured = str(numba.config.CACHE_DIR)  # type: ignore[attr-defined]
    return Path(configured) if configured and Path(configured).is_dir() else None


def default_folder() -> Path:
    """CLUSTERCEP_CACHE, or the user's cache folder."""
    given = os.environ.get("CLUSTERCEP_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given) if given else Path(base) / "clustercep" / "kernels"
