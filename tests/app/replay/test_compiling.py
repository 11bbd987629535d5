"""The demo does not wait for the compiler."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

import engine
from app.replay.compiling import kernels_beside


class Compiler:
    """Two of three kernels are compiled before the end."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    @contextmanager
    def beside(self, watch: Callable[[engine.CompiledKernels], object], *, niceness: int) -> Iterator[None]:
        self.calls.append(("beside", niceness))
        yield
        watch(engine.CompiledKernels(2, 3))
        self.calls.append("end")

    def in_background(self, niceness: int) -> None:
        self.calls.append(("background", niceness))


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    compiler = Compiler()
    monkeypatch.setattr(engine, "compiling_beside", compiler.beside)
    monkeypatch.setattr(engine, "compile_in_background", compiler.in_background)
    monkeypatch.setattr(engine, "kernels_are_compiled", lambda: False)
    monkeypatch.delenv("CLUSTERCEP_COMPILE")
    return compiler


def told_around(work: Callable[[], object]) -> str:
    written = io.StringIO()
    with Progress(console=Console(file=written, width=500)) as bar, kernels_beside(bar):
        work()
    return written.getvalue()


def test_what_is_called_is_compiled_beside_and_the_rest_afterwards(compiler: Compiler) -> None:
    told = told_around(lambda: compiler.calls.append("work"))
    assert compiler.calls == [("beside", 19), "work", "end", ("background", 19)]
    assert "they run as Python until they are." in told
    assert "2 of the 3 kernels that the queries call are compiled; the rest follows in the background" in told


def test_nothing_is_compiled_or_told_where_all_is_there(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "kernels_are_compiled", lambda: True)
    assert "ernels" not in told_around(lambda: None)
    monkeypatch.setattr(engine, "kernels_are_compiled", lambda: False)
    monkeypatch.setenv("CLUSTERCEP_COMPILE", "first")
    assert "ernels" not in told_around(lambda: None)
    assert compiler.calls == []


def test_a_replay_that_fails_leaves_no_process_behind(compiler: Compiler) -> None:
    def fail() -> None:
        raise ValueError("gone")

    with pytest.raises(ValueError, match="gone"):
        told_around(fail)
    assert compiler.calls == [("beside", 19)]
