"""From a folder of kernels that Numba keeps, to what a wheel carries (`engine.kernels.compile.portable`)."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path

from deploy.wheel.errors import WheelError
from deploy.wheel.levels import LEVELS
from engine.kernels.compile.portable import INDEX, content_hash, kernel_name, sources_hash, versions


def pack(kept: Path, sources: Path, level: str, out: Path) -> int:
    """Write what `kept` holds of the kernels in the folder `sources`, compiled for this level; how many these are.

    Raises WheelError where `kept` holds code for another processor, or two kernels of one name.
    """
    out.mkdir(parents=True)
    hashes: dict[str, str] = {}
    for name, processor, content in _kept(kept):
        if processor != _processor(level):
            raise WheelError(f"{kept}: {name} is compiled for {processor[1]}, expected {level}")
        if name in hashes:
            raise WheelError(f"{kept}: two compiled kernels are called {name}")
        hashes[name] = content_hash(content)
        (out / hashes[name]).write_bytes(content)
    told = {"level": level, "features": LEVELS[level], "sources": sources_hash(sources), **versions()}
    (out / INDEX).write_text(json.dumps({**told, "kernels": hashes}, indent=1) + "\n")
    return len(hashes)


def _processor(level: str) -> tuple[str, ...]:
    """As Numba's index names it: system, processor, features."""
    return (str(versions()["system"]), level, ",".join(f"+{feature}" for feature in LEVELS[level]))


def _kept(folder: Path) -> Iterator[tuple[str, tuple[str, ...], bytes]]:
    """Name, processor and compiled code of each kernel."""
    for index in sorted(folder.rglob("*.nbi")):
        with index.open("rb") as read:
            pickle.load(read)  # noqa: S301  # written by Numba, in the build's own folder; its version
            _, entries = pickle.load(read)  # noqa: S301
        module = ".".join(("engine", *index.parent.relative_to(folder).parts))
        file, _, function = index.name.rpartition("-")[0].partition(".")
        for (types, processor, _), data in entries.items():
            name = kernel_name(f"{module}.{file}", function, types)
            yield name, processor, (index.parent / data).read_bytes()


__all__ = ["pack"]
