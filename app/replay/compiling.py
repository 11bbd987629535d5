"""The demo does not wait for the compiler."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import Progress

import engine

_NICENESS = 19
"""Of what compiles kernels beside the demo, and after it."""


@contextmanager
def kernels_beside(bar: Progress) -> Iterator[None]:
    """Do not wait for the compiler: what the queries call runs as Python until it is compiled, by a process per core.

    The rest follows in the background, after the summary. With CLUSTERCEP_COMPILE=first each kernel is compiled when it
    is called.
    """
    if engine.kernels_are_compiled() or os.environ.get("CLUSTERCEP_COMPILE") == "first":
        yield
        return
    bar.console.print("The matching kernels are not compiled yet; they run as Python until they are.")
    task = bar.add_task("compiling the kernels it calls", total=None)
    found = engine.CompiledKernels(0, 0)

    def watch(compiled: engine.CompiledKernels) -> None:
        nonlocal found
        found = compiled
        bar.update(task, completed=compiled.n_compiled, total=compiled.n_requested)

    with engine.compiling_beside(watch, niceness=_NICENESS):
        yield
    bar.remove_task(task)
    bar.console.print(
        f"{found.n_compiled} of the {found.n_requested} kernels that the queries call are compiled; the rest follows "
        "in the background, minutes at low priority, once per machine and version ('clustercep warm' waits for it)."
    )
    engine.compile_in_background(niceness=_NICENESS)


__all__ = ["kernels_beside"]
