"""Kernels that come compiled with an installation, for a level of processors in place of one processor.

A wheel brings them beside the sources (`deploy/wheel`): `kernels.json`, and a file per kernel and types of arguments,
named by the hash of its content. They are used where sources and versions are those they were compiled for, and this
processor has all that the level asks for; otherwise kernels are compiled here, as without them. What was compiled here
comes first. A file is read by `pickle`, which does what the file says: so it has to lie as safe as the sources.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import llvmlite
import llvmlite.binding
import numba
import numpy as np

SOURCES = Path(__file__).resolve().parents[1]
FOLDER = SOURCES / "portable"
INDEX = "kernels.json"

NATIVE = "native"
"""With this in CLUSTERCEP_KERNELS, kernels are compiled for this processor and those that came along are left out."""

_WRITABLE_BY_OTHERS = 0o002


class PortableKernels:
    """Compiled kernels that fit: names (`kernel_name`) and the hashes of what is to be read."""

    def __init__(self, folder: Path, level: str, hashes: Mapping[str, str]) -> None:
        self.level = level
        self._folder, self._hashes = folder, hashes

    def __contains__(self, name: str) -> bool:
        return name in self._hashes

    def read(self, name: str) -> bytes | None:
        """The compiled kernel; None where it is not among them, or not what it was when they were compiled."""
        wanted = self._hashes.get(name)
        if wanted is None:
            return None
        try:
            found = (self._folder / wanted).read_bytes()
        except OSError:
            return None
        return found if content_hash(found) == wanted else None

    def damaged(self) -> list[str]:
        """The names of those that cannot be read: they are compiled when they are called."""
        return [name for name in self._hashes if self.read(name) is None]


class Portable(NamedTuple):
    """What came along: `kernels` where they fit, else `obstacle` says why not; both None where there is nothing."""

    kernels: PortableKernels | None = None
    obstacle: str | None = None


def look(sources: str, folder: Path = FOLDER) -> Portable:
    """What lies in `folder`, for the kernels of sources with this hash (`sources_hash`)."""
    index = folder / INDEX
    if not index.is_file():
        return Portable()
    obstacle = _unsafe(folder, index) or _unwanted()
    if obstacle:
        return Portable(obstacle=obstacle)
    try:
        stated = json.loads(index.read_bytes())
        obstacle = _unfit(stated, sources)
        kernels = PortableKernels(folder, str(stated["level"]), dict(stated["kernels"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Portable(obstacle=f"{INDEX} is damaged ({type(error).__name__}: {error})")
    return Portable(obstacle=obstacle) if obstacle else Portable(kernels)


def _unsafe(folder: Path, index: Path) -> str | None:
    """Who could change compiled code here must be one who could change the sources as well."""
    owner = Path(__file__).stat().st_uid
    for path in (folder, index):
        found = path.stat()
        if found.st_mode & _WRITABLE_BY_OTHERS or found.st_uid not in (0, owner):
            return f"others than the owner of the installation may write to {path}"
    return None


def _unwanted() -> str | None:
    if os.environ.get("CLUSTERCEP_KERNELS") == NATIVE:
        return f"CLUSTERCEP_KERNELS is {NATIVE}"
    config = numba.config
    if config.CPU_NAME or config.CPU_FEATURES is not None or not config.ENABLE_AVX:  # type: ignore[attr-defined]
        return "Numba's environment variables ask for other code"
    return None


def _unfit(stated: Mapping[str, object], sources: str) -> str | None:
    here: dict[str, object] = {"sources": sources, **versions()}
    for what, found in here.items():
        if stated[what] != found:
            return f"{what}: compiled for {stated[what]}, found {found}"
    able = llvmlite.binding.get_host_cpu_features()
    features = stated["features"]
    if not isinstance(features, list):
        raise TypeError("features are no list")
    missing = [name for name in features if not able.get(name, False)]
    if missing:
        return f"this processor is below {stated['level']}: it lacks {', '.join(missing)}"
    return None


def versions() -> dict[str, object]:
    """What compiled code depends on beside the sources and the processor. Python's patch versions share one ABI."""
    return {
        "system": llvmlite.binding.get_process_triple(),
        "python": f"{platform.python_implementation()} {'.'.join(platform.python_version_tuple()[:2])}",
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "numpy": np.__version__,
    }


def sources_hash(sources: Path = SOURCES) -> str:
    """Of the kernels' sources, with their positions below this folder."""
    digest = hashlib.blake2b(digest_size=12)
    for source in sorted(sources.rglob("*.py")):
        digest.update(source.relative_to(sources).as_posix().encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()


def content_hash(content: bytes) -> str:
    """What the file with this content is called."""
    return hashlib.blake2b(content, digest_size=20).hexdigest()


def kernel_name(module: str, function: str, types: tuple[object, ...]) -> str:
    """What a kernel for arguments of these types is called in the index."""
    return f"{module}.{function}({', '.join(map(str, types))})"


_found = Portable()


def use(found: Portable) -> None:
    """Have kernels that were not compiled here be taken from these."""
    global _found  # noqa: PLW0603  # one per process, as Numba's own cache
    _found = found


def portable_kernels() -> Portable:
    """What came along with this installation, as this process has found it."""
    return _found


__all__ = [
    "FOLDER",
    "INDEX",
    "NATIVE",
    "SOURCES",
    "Portable",
    "PortableKernels",
    "content_hash",
    "kernel_name",
    "look",
    "portable_kernels",
    "sources_hash",
    "use",
    "versions",
]
