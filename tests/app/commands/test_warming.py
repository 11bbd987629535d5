"""`clustercep warm`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

import engine
from app.cli import cli

Watch = Callable[[engine.CompiledKernels], object]


@pytest.fixture
def is_compiled(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    state = [False]
    monkeypatch.setattr(engine, "kernels_are_compiled", lambda: state[0])
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "0")
    return state


def test_lines_count_the_kernels_where_there_is_no_terminal(
    is_compiled: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def warm(watch: Watch) -> list[str]:
        for n in range(26):
            watch(engine.CompiledKernels(n, 25))
        is_compiled[0] = True
        return ["a.b: the process that compiles it has ended with status -9"]

    monkeypatch.setattr(engine, "warm_kernels", warm)
    told = CliRunner().invoke(cli, ["warm"])
    assert told.exit_code == 0
    assert told.stdout.splitlines() == [
        "Compiling the matching kernels: some minutes, once per machine and version.",
        "The matching kernels are compiled.",
    ]
    assert told.stderr.splitlines() == [
        "10 of 25 kernels are compiled.",
        "20 of 25 kernels are compiled.",
        "warning: a.b: the process that compiles it has ended with status -9 (compiled without another process then)",
    ]


def test_what_is_not_kept_is_an_error(is_compiled: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "warm_kernels", lambda _watch: [])
    told = CliRunner().invoke(cli, ["warm"])
    assert told.exit_code != 0
    assert "cannot be written to" in told.stderr


def test_without_a_compiler_there_is_nothing_to_do(is_compiled: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    told = CliRunner().invoke(cli, ["warm"])
    assert (told.exit_code, told.stdout) == (
        0,
        "NUMBA_DISABLE_JIT is set: the kernels run as Python, and none is compiled.\n",
    )


class Came:
    """Kernels that came with the installation."""

    level = "x86-64-v3"

    def __init__(self, damaged: list[str]) -> None:
        self._damaged = damaged

    def damaged(self) -> list[str]:
        return self._damaged


def test_kernels_that_came_along_are_told_and_nothing_is_compiled(
    is_compiled: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "portable_kernels", lambda: (Came([]), None))
    monkeypatch.setattr(engine, "warm_kernels", lambda *_: pytest.fail("compiles"))
    told = CliRunner().invoke(cli, ["warm"])
    assert told.exit_code == 0
    assert told.stdout.splitlines() == [
        "Kernels compiled for x86-64-v3 came with the installation.",
        "The matching kernels are compiled.",
    ]


def test_damaged_ones_are_named_and_compiled(is_compiled: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(engine, "portable_kernels", lambda: (Came([f"a.f{n}(int64)" for n in range(7)]), None))
    monkeypatch.setattr(engine, "warm_kernels", lambda *_: compiled.append("all"))
    told = CliRunner().invoke(cli, ["warm"])
    assert (told.exit_code, compiled) == (0, ["all"])
    assert told.stderr == "warning: 7 of them are damaged, and compiled here: a.f0, a.f1, a.f2, a.f3, a.f4\n"


def test_why_those_that_came_along_are_not_used_is_told(
    is_compiled: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_compiled[0] = True
    monkeypatch.setattr(engine, "portable_kernels", lambda: (None, "numpy: compiled for 2.4.6, found 2.5.0"))
    told = CliRunner().invoke(cli, ["warm"])
    assert told.stdout.splitlines() == [
        "The compiled kernels that came with the installation are not used: numpy: compiled for 2.4.6, found 2.5.0.",
        "The matching kernels are compiled.",
    ]
