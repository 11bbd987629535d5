"""Where compiled kernels are kept between processes.

Numba's own cache key is one file's time stamp: it misses edits in the other files that a kernel calls. So the folder's
name carries a hash of all kernel sources, the versions and the CPU. Where the sources lie does not matter: another copy
of them on this machine, or in a container on another one, finds the same code (`numba_private.KernelLocator`).
Kernels that came compiled with the installation (`portable`) stand in for what is not in the folder.
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

from engine.kernels.compile import PRIVATE, portable

_COMPLETE = "complete"
"""File that says that all kernels are there, not only those that some query has needed."""


def configure(folder: Path) -> Path:
    """Keep compiled kernels below `folder`, private to this user; must run before the first kernel is imported.

    Returns the folder in use. When it cannot be made, kernels are compiled anew by each process.
    """
    sources = portable.sources_hash()
    if PRIVATE is not None:
        portable.use(portable.look(sources))
    used = folder / fingerprint(sources)
    try:
        used.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return used
    numba.config.CACHE_DIR = str(used)  # type: ignore[attr-defined]
    if PRIVATE is not None:
        PRIVATE.use_locator()
    return used


def fingerprint(sources: str) -> str:
    """What compiled code depends on: the kernels' sources (`portable.sources_hash`), the versions of the libraries, the
    processor, or the level of processors that Numba's environment variables name."""
    versions = (numba.__version__, llvmlite.__version__, np.__version__, platform.python_version())
    way = () if PRIVATE is not None else ("public",)
    digest = hashlib.blake2b(repr((sources, versions, *_processor(), *way)).encode(), digest_size=12)
    return digest.hexdigest()


def _processor() -> tuple[str, ...]:
    config = numba.config
    name, features = config.CPU_NAME, config.CPU_FEATURES  # type: ignore[attr-defined]
    return tuple(filter(None, (name or llvmlite.binding.get_host_cpu_name(), features)))


def kernels_are_compiled() -> bool:
    """Whether they came with the installation, or `warm_kernels` has run with these kernels on this machine.

    Compiling them takes minutes, once.
    """
    return portable.portable_kernels().kernels is not None or native_kernels_are_compiled()


def native_kernels_are_compiled() -> bool:
    """False until `warm_kernels` has run with these kernels on this machine, without those that came along."""
    folder = _used_folder()
    return folder is not None and (folder / _COMPLETE).is_file()


def mark_compiled() -> None:
    """From now on kernels are compiled for every process with them; those that came along make nothing complete."""
    folder = _used_folder()
    if folder is None or portable.portable_kernels().kernels is not None or numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return
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
