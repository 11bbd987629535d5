"""Generated programs mean what the interpreter means by them; their folder is private, whole and bounded.

Most run as plain Python, which takes milliseconds; a compiled one takes seconds. CLUSTERCEP_EXAMPLES says how many.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numba
import numpy as np
import pytest

from engine.kernels.programs import blocks, generated, predicates
from engine.kernels.programs import opcodes as op
from engine.kernels.programs.generated import GeneratedKernelError, KernelSet
from engine.plan.generate import GenerationError, generate

N_EXAMPLES = int(os.environ.get("CLUSTERCEP_EXAMPLES", "20"))
VALUES = np.array([np.nan, -np.inf, np.inf, 0.0, -0.0, 1.0, -3.0, 2.5, 7.0, 97.0, 2.0**53])
N_COLUMNS, N_REGISTERS, N_SLOTS, N_CONSTANTS = 3, 4, 2, 12
Code = list[tuple[int, int, int]]


@pytest.fixture(autouse=True)
def _compiled_code_warns_of_no_nan() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def number(rng: np.random.Generator, depth: int) -> Code:
    kind = rng.integers(0, 8) if depth else rng.integers(0, 3)
    if kind == 0:
        return [(op.CONST, int(rng.integers(N_CONSTANTS)), 0)]
    if kind == 1:
        return [(op.COLUMN, int(rng.integers(N_REGISTERS)), int(rng.integers(N_COLUMNS)))]
    if kind == 2:
        return [(op.AGGREGATE, int(rng.integers(N_SLOTS)), 0)]
    if kind == 3:
        return [*number(rng, depth - 1), (op.NEGATE, 0, 0)]
    if kind == 4:
        column = (op.COLUMN, int(rng.integers(N_REGISTERS)), 0)
        return [column, column, (op.MULTIPLY, 0, 0), (op.SQRT, 0, 0)]
    operation = int(rng.choice([op.ADD, op.SUBTRACT, op.MULTIPLY, op.DIVIDE, op.MODULO]))
    return [*number(rng, depth - 1), *number(rng, depth - 1), (operation, 0, 0)]


def truth(rng: np.random.Generator, depth: int) -> Code:
    kind = rng.integers(0, 5) if depth else rng.integers(0, 2)
    if kind == 0:
        operation = int(rng.choice([op.EQ, op.NE, op.LT, op.LE, op.GT, op.GE]))
        return [*number(rng, depth), *number(rng, depth), (operation, 0, 0)]
    if kind == 1:
        first = int(rng.integers(N_CONSTANTS - 3))
        return [*number(rng, depth), (op.MEMBER, first, int(rng.integers(1, 4)))]
    if kind == 2:
        return [*truth(rng, depth - 1), (op.NOT, 0, 0)]
    return [*truth(rng, depth - 1), *truth(rng, depth - 1), (op.AND if kind == 3 else op.OR, 0, 0)]


def programs(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    made = [truth(rng, 3) if rng.random() < 0.7 else number(rng, 3) for _ in range(n)]
    code = np.array([line for program in made for line in program], np.int32).reshape(-1, 3)
    return code, np.cumsum([0, *(len(program) for program in made)]).astype(np.int32)


assert blocks  # generated programs import it: it is to be there as it always is


def evaluate_of(source: str, folder: Path, *, compiled: bool) -> Any:
    written = generated.write_package({"__init__.py": "", "programs.py": source}, [], folder, "")
    generated.load_package(written, [])
    off = numba.config.DISABLE_JIT  # type: ignore[attr-defined]
    with patch.object(numba.config, "DISABLE_JIT", off or not compiled):
        return importlib.import_module(f"{written.name}.programs").evaluate


def assert_same(rng: np.random.Generator, code: Any, bounds: Any, evaluate: Any) -> None:
    for _ in range(5):
        constants = rng.choice(VALUES, N_CONSTANTS)
        columns = rng.choice(VALUES, (N_COLUMNS, 5))
        rows, aggregates = rng.integers(-1, 5, N_REGISTERS), rng.choice(VALUES, N_SLOTS)
        stack = np.empty(op.MAX_STACK)
        for start, end in pairwise(bounds.tolist()):
            arguments = (code, start, end, constants, columns, rows, aggregates, stack)
            expected, found = predicates.evaluate(*arguments), evaluate(*arguments)
            assert np.array_equal(expected, found, equal_nan=True), (code[start:end].tolist(), expected, found)


@pytest.mark.parametrize("seed", range(N_EXAMPLES))
def test_generated_programs_mean_the_same(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    code, bounds = programs(rng, int(rng.integers(1, 12)))
    assert_same(rng, code, bounds, evaluate_of(generate(code, bounds), tmp_path, compiled=False))


def test_compiled_generated_programs_mean_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    code, bounds = programs(rng, 6)
    assert_same(rng, code, bounds, evaluate_of(generate(code, bounds), tmp_path, compiled=True))


def test_constants_and_strings_are_no_part_of_the_text() -> None:
    code, bounds = np.array([[op.CONST, 3, 0]], np.int32), np.array([0, 1], np.int32)
    assert "v0 = constants[3]" in generate(code, bounds)
    with pytest.raises(GenerationError, match="operation 99 has no generated form"):
        generate(np.array([[99, 0, 0]], np.int32), bounds)


def test_another_process_compiles_copies_of_kernels_that_call_the_interpreter(tmp_path: Path) -> None:
    code, bounds = programs(np.random.default_rng(2), 2)
    entries = [predicates.all_hold]
    files = generated.package_sources(generate(code, bounds), entries)
    assert sorted(files) == ["__init__.py", "predicates.py", "programs.py"]
    assert "from .programs import evaluate as evaluate" in files["predicates.py"]
    folder = generated.write_package(files, entries, tmp_path / "own", "kernels")
    process = generated.start_compiling(folder)
    _, complaint = process.communicate(timeout=120)
    assert process.returncode == 0, complaint.decode()
    copies = generated.load_package(folder, entries)
    kernels = KernelSet()
    assert kernels.of(predicates.all_hold) is predicates.all_hold
    kernels.use(copies)
    assert kernels.is_generated
    rng = np.random.default_rng(3)
    for _ in range(20):
        arguments = (
            code, bounds, 0, 2, rng.choice(VALUES, N_CONSTANTS), rng.choice(VALUES, (N_COLUMNS, 5)),
            rng.integers(-1, 5, N_REGISTERS), rng.choice(VALUES, N_SLOTS), np.empty(op.MAX_STACK),
        )  # fmt: skip
        assert kernels.of(predicates.all_hold)(*arguments) == predicates.all_hold(*arguments)


def test_a_folder_of_others_or_with_other_contents_is_refused(tmp_path: Path) -> None:
    base = tmp_path / "base"
    folder = generated.write_package({"__init__.py": ""}, [], base, "k")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert generated.write_package({"__init__.py": ""}, [], base, "k") == folder
    assert generated.write_package({"__init__.py": ""}, [], base, "other kernels") != folder
    (folder / "__init__.py").write_text("print('not ours')")
    with pytest.raises(GeneratedKernelError, match="not what was generated"):
        generated.write_package({"__init__.py": ""}, [], base, "k")
    base.chmod(0o777)
    with pytest.raises(GeneratedKernelError, match="nobody else may write"):
        generated.write_package({"__init__.py": ""}, [], base, "k")


def test_folders_not_used_for_longest_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated, "MAX_FOLDERS", 2)
    folders = []
    for number_, name in enumerate("abc"):
        folders.append(generated.write_package({"__init__.py": f"# {name}"}, [], tmp_path, ""))
        os.utime(folders[-1], (number_, number_))
    generated.write_package({"__init__.py": "# d"}, [], tmp_path, "")
    assert [folder.exists() for folder in folders] == [False, False, True]


def test_what_goes_wrong_in_the_other_process_is_told(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "engine.kernels.programs.generated", str(tmp_path / "none")],
        capture_output=True,
        check=False,
    )
    assert found.returncode != 0
    assert b"none" in found.stderr
