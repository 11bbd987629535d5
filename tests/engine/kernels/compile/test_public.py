"""The kernels where the inside of Numba is not known."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from engine.kernels.compile import PRIVATE
from tests.engine.kernels.compile.test_compiling import needs_compiler

ROOT = Path(__file__).parents[4]
PUBLIC = {"CLUSTERCEP_NUMBA": "public"}

REPRESENTATIVE = ("columns/test_selection.py", "programs/test_blocks.py", "programs/test_predicates.py")

OTHER_VERSION = """
import numba
numba.version_info = numba.version_info._replace(short=(99, 1))
import engine.kernels
from engine.kernels.compile import PRIVATE
print(PRIVATE)
"""

MATCHED = """
import sys, threading
import engine
from engine.kernels.columns.decode import widen
from engine.kernels.compile import PRIVATE, uncompiled
from engine.runtime.compiling import compiling_beside
import numpy as np

print(PRIVATE, hasattr(widen, "linked"))
uncompiled.run_uncompiled_until(lambda: False)
with compiling_beside() as compiling:
    print(widen(np.arange(3), np.empty(3)), compiling.finish())
print(len(widen.signatures), uncompiled.runs_as_python(), uncompiled.preparing_s(threading.get_ident()) > 0.01)
uncompiled.run_compiled()
print([name for name in sys.modules if name.endswith("numba_private") and sys.modules[name]])
"""


def test_the_installed_version_is_one_whose_inside_is_known() -> None:
    assert PRIVATE is not None
    assert numba.version_info.short in PRIVATE.VERSIONS


def test_for_another_version_the_inside_is_left_alone() -> None:
    assert output_of("-c", OTHER_VERSION, {}) == "None\n"


@needs_compiler
def test_what_rests_on_the_inside_is_left_out_without_it(tmp_path: Path) -> None:
    *lines, last = output_of("-c", MATCHED, {**PUBLIC, "CLUSTERCEP_CACHE": str(tmp_path)}).splitlines()
    assert lines == ["None False", "(0, 2) []", "1 False True"]
    assert last == "[]"
    assert list(tmp_path.rglob("decode.widen*.nbi")), "kept by Numba's own way"


@pytest.mark.in_turn(of=3, together=True)
@needs_compiler
def test_kernels_give_the_same_without_the_inside() -> None:
    """Those of predicates and of selection, compiled by Numba's own way: a minute of processor time once, then kept."""
    tests = [f"tests/engine/kernels/{file}" for file in REPRESENTATIVE]
    output_of("-m", "pytest", PUBLIC, "-n0", *tests)


def output_of(option: str, what: str, environment: dict[str, str], *arguments: str) -> str:
    found = subprocess.run(
        [sys.executable, option, what, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode != 0:
        pytest.fail(found.stdout + found.stderr)
    return found.stdout
