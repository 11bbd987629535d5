"""Work that does not wait for the compiler: kernels run as Python while other processes compile those that it calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numba

from engine.kernels.compile import PRIVATE
from engine.kernels.compile.needed import NeededKernels
from engine.kernels.compile.processes import CompiledKernels, CompilingProcesses
from engine.kernels.compile.uncompiled import run_compiled, run_uncompiled_by


class Compiling:
    """Kernels that are being compiled by other processes."""

    def __init__(self, processes: CompilingProcesses | None) -> None:
        self._processes = processes

    def finish(self) -> list[str]:
        """Wait until all that were called are compiled; what went wrong with some, one line each."""
        return [] if self._processes is None else self._processes.finish()


@contextmanager
def compiling_beside(
    watch: Callable[[CompiledKernels], object] | None = None, *, niceness: int = 0
) -> Iterator[Compiling]:
    """Within this context a kernel without compiled code runs as Python until a process has compiled it.

    `watch` is told, by one thread at a time, how many of those that were called are compiled; `niceness` is that of the
    processes, added to that of this one. What is still being compiled at the end is given up, and compiled when it is
    called the next time. Where kernels cannot run as Python and be compiled both (Numba's compiler is off, or not one
    whose inside is known), nothing is changed.
    """
    if numba.config.DISABLE_JIT or PRIVATE is None:  # type: ignore[attr-defined]
        yield Compiling(None)
        return
    with CompilingProcesses(watch, niceness=niceness) as processes:
        needed = NeededKernels(processes.ask)
        processes.tell_compiled = needed.is_compiled
        run_uncompiled_by(needed.compile_for_args)
        try:
            yield Compiling(processes)
        finally:
            run_compiled()


__all__ = ["Compiling", "compiling_beside"]
