"""Generated kernels for the queries of an engine: made while it runs, swapped in between two steps.

A query starts on the precompiled kernels. Once they have run, a process of low priority compiles copies of them with
the query's predicates written out (`engine.kernels.programs.generated`); the state stays as it is. What goes wrong is
told in `state_of`, and the precompiled kernels go on.

Measured (2 cores, both contiguities and skip till next match, 2 to 1,000 keys): compiling takes 15 to 20 s of processor
time per query, and the copies are as fast as the precompiled kernels within the noise of 5 %, because run upkeep, not
predicates, takes the time. So it is off unless asked for.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from engine.errors import EngineError
from engine.kernels.compile.cache import default_folder, fingerprint
from engine.kernels.programs.generated import (
    GeneratedKernelError,
    KernelSet,
    compile_copies,
    has_signatures,
    load_package,
    package_sources,
    start_compiling,
    write_package,
)
from engine.matching.base import Runtime
from engine.plan.generate import GenerationError, generate
from engine.plan.programs import Programs
from engine.runtime.divided import Divided


class Generated(StrEnum):
    """Whether, and when, kernels are generated."""

    OFF = "off"
    BACKGROUND = "background"  # by another process, meanwhile the precompiled ones run
    NOW = "now"  # by this one, after its first step


@runtime_checkable
class TakesGenerated(Protocol):
    """A runtime whose kernels can be replaced."""

    kernels: KernelSet

    @property
    def programs(self) -> Programs:
        """What its kernels interpret."""
        ...

    @property
    def entries(self) -> tuple[Any, ...]:
        """The kernels to be replaced."""
        ...


@dataclass
class _Making:
    """How far the kernels of one query are."""

    state: str = "waiting"
    folder: Path | None = None
    process: subprocess.Popen[bytes] | None = None
    copies: Mapping[Any, Any] = field(default_factory=dict)


class Generation:
    """Makes the generated kernels of one engine, one query after the other."""

    def __init__(self, mode: Generated | str, folder: Path | None = None) -> None:
        """`folder`: where packages are kept, the kernels' cache by default. Raises EngineError for an unknown mode."""
        try:
            self._mode = Generated(mode)
        except ValueError:
            known = ", ".join(Generated)
            raise EngineError(f"generated: found {mode!r}, expected one of {known}") from None
        self._folder = folder or default_folder()
        self._made: dict[str, _Making] = {}

    def state_of(self, name: str) -> str:
        """Returns "off", "waiting", "compiling", "in use", or "failed: REASON"."""
        return self._made[name].state if name in self._made else "off"

    def step(self, runtimes: Mapping[str, Runtime]) -> None:
        """Between two steps: begin what can begin, take into use what is ready."""
        if self._mode is Generated.OFF:
            return
        for name, runtime in runtimes.items():
            parts = [part for part in _parts(runtime) if isinstance(part, TakesGenerated)]
            if not parts:
                continue
            making = self._made.setdefault(name, _Making())
            try:
                self._further(making, parts[0])
            except (GeneratedKernelError, GenerationError) as error:
                making.state = f"failed: {error}"
            for part in parts:
                if making.copies and not part.kernels.is_generated:
                    part.kernels.use(making.copies)

    def close(self) -> None:
        """End the process that compiles, if one does."""
        for making in self._made.values():
            if making.process is not None:
                making.process.kill()
                making.process.communicate()
                making.process, making.state = None, "waiting"

    def _further(self, making: _Making, part: TakesGenerated) -> None:
        if making.state == "waiting" and has_signatures(part.entries):
            busy = any(other.process is not None for other in self._made.values())
            if self._mode is Generated.BACKGROUND and busy:
                return
            programs = part.programs
            files = package_sources(generate(programs.code, programs.bounds), part.entries)
            making.folder = write_package(files, part.entries, self._folder, fingerprint())
            if self._mode is Generated.NOW:
                self._load(making, part)
            else:
                making.process, making.state = start_compiling(making.folder), "compiling"
        elif making.process is not None and making.process.poll() is not None:
            process, making.process = making.process, None
            _, complaint = process.communicate()
            if process.returncode:
                last = complaint.decode(errors="replace").strip().splitlines()[-1:]
                raise GeneratedKernelError(f"compiling ended with {process.returncode}: {''.join(last)}")
            self._load(making, part)

    def _load(self, making: _Making, part: TakesGenerated) -> None:
        assert making.folder is not None
        copies = load_package(making.folder, part.entries)
        compile_copies(copies)
        making.copies, making.state = copies, "in use"


def _parts(runtime: Runtime) -> list[Runtime]:
    return runtime.runtimes if isinstance(runtime, Divided) else [runtime]


__all__ = ["Generated", "Generation", "TakesGenerated"]
