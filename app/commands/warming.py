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


def warm_telling() -> None:
    """Compile the kernels, and show how many there are: as a bar, or as lines where standard error is no terminal."""
    with _watched() as watch:
        failures = engine.warm_kernels(watch)
    for failure in failures:
        typer.echo(inert(f"warning: {failure} (compiled without another process then)"), err=True)


@contextmanager
def _watched() -> Iterator[Callable[[engine.CompiledKernels], None]]:
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield _Lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("compiling kernels", total=None)
        yield lambda found: bar.update(task, completed=found.n_compiled, total=found.n_asked)


class _Lines:
    """One line for so many kernels."""

    def __init__(self) -> None:
        self._told = 0

    def __call__(self, found: engine.CompiledKernels) -> None:
        if found.n_compiled >= self._told + LINE_EVERY:
            self._told = found.n_compiled
            typer.echo(f"{found.n_compiled} of {found.n_asked} kernels are compiled.", err=True)


__all__ = ["warm_telling"]
