"""Kernels that come compiled with an installation: used where they fit, and only there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding
import pytest

import engine
from deploy.wheel.kernels import pack
from deploy.wheel.levels import numba_environment
from engine.kernels.compile.portable import INDEX, Portable, content_hash, look, sources_hash, versions
from tests.engine.kernels.compile.test_compiling import needs_compiler

SOURCES = "0123"
CODE = b"compiled"
NAME = "engine.kernels.columns.decode.widen(int64)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Kernels that fit here."""
    (tmp_path / content_hash(CODE)).write_bytes(CODE)
    write(tmp_path, {})
    return tmp_path


def write(folder: Path, changed: dict[str, Any]) -> None:
    fitting = {"level": "x86-64-v9", "features": ["able"], "sources": SOURCES, **versions()}
    emitted = fitting | {"kernels": {NAME: content_hash(CODE)}} | changed
    (folder / INDEX).write_text(json.dumps(emitted))


@pytest.fixture(autouse=True)
def processor(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    features = {"able": True, "unable": False}
    monkeypatch.setattr(llvmlite.binding, "get_host_cpu_features", lambda: features)
    monkeypatch.delenv("CLUSTERCEP_KERNELS", raising=False)
    return features


def test_kernels_that_fit_are_read(folder: Path) -> None:
    kernels, obstacle = look(SOURCES, folder)
    assert kernels is not None
    assert obstacle is None
    assert (NAME in kernels, kernels.read(NAME), kernels.read("another"), kernels.damaged()) == (True, CODE, None, [])
    assert kernels.level == "x86-64-v9"


def test_without_any_there_is_nothing_to_tell(tmp_path: Path) -> None:
    assert look(SOURCES, tmp_path) == Portable(None, None)


def test_others_sources_or_versions_do_not_fit(folder: Path) -> None:
    assert look("4567", folder) == Portable(None, "sources: compiled for 0123, found 4567")
    for what, here in versions().items():
        write(folder, {what: "0.1"})
        assert look(SOURCES, folder) == Portable(None, f"{what}: compiled for 0.1, found {here}")


def test_a_processor_has_to_have_all_that_the_level_asks_for(folder: Path) -> None:
    write(folder, {"features": ["able", "unable", "unheard"]})
    assert look(SOURCES, folder).obstacle == "this processor is below x86-64-v9: it lacks unable, unheard"


def test_they_can_be_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTERCEP_KERNELS", "native")
    assert look(SOURCES, folder) == Portable(None, "CLUSTERCEP_KERNELS is native")


@pytest.mark.parametrize("name", ["CPU_NAME", "CPU_FEATURES"])
def test_who_asks_numba_for_another_processor_gets_it(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(f"numba.config.{name}", "generic")
    assert look(SOURCES, folder).kernels is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda index: index.write_bytes(index.read_bytes()[:-9]),
        lambda index: index.write_bytes(b"\xff"),
        lambda index: index.write_text("[]"),
        lambda index: index.write_text("{}"),
        lambda index: write(index.parent, {"kernels": 1}),
        lambda index: write(index.parent, {"features": None}),
    ],
)
def test_a_damaged_index_is_an_obstacle(folder: Path, damage: Callable[[Path], object]) -> None:
    damage(folder / INDEX)
    kernels, obstacle = look(SOURCES, folder)
    assert kernels is None
    assert obstacle is not None
    assert obstacle.startswith("kernels.json is damaged")


def test_a_damaged_kernel_is_not_read(folder: Path) -> None:
    (folder / content_hash(CODE)).write_bytes(CODE[:-1])
    kernels = look(SOURCES, folder).kernels
    assert kernels is not None
    assert (kernels.read(NAME), kernels.damaged()) == (None, [NAME])
    (folder / content_hash(CODE)).unlink()
    assert (kernels.read(NAME), kernels.damaged()) == (None, [NAME])


@pytest.mark.parametrize("name", ["", INDEX])
def test_what_others_may_write_to_is_not_read(folder: Path, name: str) -> None:
    (folder / name).chmod(0o777)
    kernels, obstacle = look(SOURCES, folder)
    assert kernels is None
    assert obstacle == f"others than the owner of the installation may write to {folder / name}"


CALLED = """
import json, sys
import numba.core.compiler
import numpy as np

compiled = numba.core.compiler.CompilerBase._compile_core
names = []
def told(self):
    names.append(self.state.func_id.func_name)
    if len(names) == 1:  # what it calls is compiled within
        print("compiles", *names)
    return compiled(self)
numba.core.compiler.CompilerBase._compile_core = told

import engine
from engine.kernels.columns.decode import widen
from engine.kernels.compile.cache import mark_compiled, native_kernels_are_compiled
out = np.empty(3)
print(widen(np.arange(3), out), out.tolist())
mark_compiled()
print(engine.kernels_are_compiled(), native_kernels_are_compiled())
print(numba.config.CACHE_DIR)
"""

LEVEL = "x86-64-v2"


@needs_compiler
def test_an_installation_with_them_compiles_nothing(tmp_path: Path) -> None:
    """And nothing that came along counts as compiled for this processor."""
    shutil.copytree(
        Path(engine.__file__).parent, tmp_path / "engine", ignore=shutil.ignore_patterns("__pycache__", "portable")
    )
    for_level = numba_environment(LEVEL)
    *compiling, result, _, kept = called(tmp_path, "for-level", for_level)
    assert compiling == ["compiles widen"]
    sources = tmp_path / "engine" / "kernels"
    assert pack(Path(kept), sources, LEVEL, sources / "portable") == 1

    assert called(tmp_path, "empty")[:2] == [result, "True False"]
    assert not list((tmp_path / "empty").rglob("*.nb?"))

    native = {"CLUSTERCEP_KERNELS": "native"}
    assert called(tmp_path, "native", native)[:3] == ["compiles widen", result, "True True"]
    assert called(tmp_path, "native")[:2] == [result, "True True"], "what was compiled here comes first"

    (damaged,) = (path for path in (sources / "portable").iterdir() if path.name != INDEX)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert called(tmp_path, "native")[:2] == [result, "True True"]
    assert called(tmp_path, "damaged")[:2] == ["compiles widen", result]

    edited = sources / "columns" / "decode.py"
    edited.write_text(edited.read_text() + "# edited\n")
    assert called(tmp_path, "edited")[:3] == ["compiles widen", result, "True True"], "as without them"


def called(folder: Path, cache: str, environment: dict[str, str] | None = None) -> list[str]:
    """What the copy of the engine in `folder` prints."""
    found = subprocess.run(
        [sys.executable, "-c", CALLED],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "CLUSTERCEP_CACHE": str(folder / cache), **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode != 0:
        pytest.fail(found.stdout + found.stderr)
    return found.stdout.splitlines()


def test_the_hash_of_sources_does_not_see_compiled_kernels(folder: Path) -> None:
    (folder / "a.py").write_text("")
    before = sources_hash(folder)
    (folder / "portable").mkdir()
    (folder / "portable" / INDEX).write_text("{}")
    assert sources_hash(folder) == before
