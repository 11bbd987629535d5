"""`clustercep warm`: compiling the kernels, and how far it is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import engine
from app.console import inert

LINE_EVERY = 10
"""Kernels; where no terminal shows a bar."""

MAX_NAMED = 5
"""Damaged kernels."""


def warm_telling() -> None:
    """Compile the kernels, and show how many there are: as a bar, or as lines where standard error is no terminal."""
    with _watched() as watch:
        failures = engine.warm_kernels(watch)
    for failure in failures:
        typer.echo(inert(f"warning: {failure} (compiled without another process then)"), err=True)


def tell_portable_kernels() -> bool:
    """Whether compiled kernels came with the installation and fit; what became of them is told."""
    kernels, obstacle = engine.portable_kernels()
    if obstacle is not None:
        typer.echo(inert(f"The compiled kernels that came with the installation are not used: {obstacle}."))
    if kernels is None:
        return False
    typer.echo(f"Kernels compiled for {kernels.level} came with the installation.")
    damaged = kernels.damaged()
    if damaged:
        named = ", ".join(name.partition("(")[0] for name in damaged[:MAX_NAMED])
        typer.echo(inert(f"warning: {len(damaged)} of them are damaged, and compiled here: {named}"), err=True)
        engine.warm_kernels()
    return True


@contextmanager
def _watched() -> Iterator[Callable[[engine.CompiledKernels], None]]:
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield _Lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("compiling kernels", total=None)
        yield lambda found: bar.update(task, completed=found.n_compiled, total=found.n_requested)


class _Lines:
    """One line for so many kernels."""

    def __init__(self) -> None:
        self._told = 0

    def __call__(self, found: engine.CompiledKernels) -> None:
        if found.n_compiled >= self._told + LINE_EVERY:
            self._told = found.n_compiled
            typer.echo(f"{found.n_compiled} of {found.n_requested} kernels are compiled.", err=True)


__all__ = ["tell_portable_kernels", "warm_telling"]
