"""Where compiled kernels are kept between processes.

Numba's own cache key is one file's time stamp: it misses edits in the other files that a kernel calls. So the folder's
name carries a hash of all kernel sources, the versions and the CPU.
"""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

import llvmlite.binding
import numba
import numpy as np


def configure(folder: Path) -> Path:
    """Keep compiled kernels below `folder`, private to this user; must run before the first kernel is imported.

    Returns the folder in use. When it cannot be made, kernels are compiled anew by each process.
    """
    digest = hashlib.blake2b(digest_size=12)
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    versions = (numba.__version__, llvmlite.__version__, np.__version__, platform.python_version())
    digest.update(repr((versions, llvmlite.binding.get_host_cpu_name())).encode())
    used = folder / digest.hexdigest()
    try:
        used.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return used
    numba.config.CACHE_DIR = str(used)  # type: ignore[attr-defined]
    return used


def kernels_are_compiled() -> bool:
    """False on the first start with these kernels: what needs them compiles them first, which takes up to a minute."""
    folder = Path(str(numba.config.CACHE_DIR))  # type: ignore[attr-defined]
    return any(folder.rglob("*.nbi"))


def default_folder() -> Path:
    """CLUSTERCEP_CACHE, or the user's cache folder."""
    given = os.environ.get("CLUSTERCEP_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given) if given else Path(base) / "clustercep" / "kernels"
