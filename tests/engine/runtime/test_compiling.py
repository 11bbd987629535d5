"""Work that does not wait for the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BESIDE = """
import numpy as np
from engine.kernels.columns.decode import widen
from engine.runtime.compiling import compiling_beside

values, into, told = np.arange(3), np.empty(3), []
with compiling_beside(told.append) as compiling:
    print(widen(values, into), widen.signatures)
    print(compiling.finish())
    print(widen(values, into), len(widen.signatures), sum(widen.stats.cache_misses.values()))
print(*map(tuple, told))
"""


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
def test_a_kernel_runs_as_python_until_a_process_has_compiled_it(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", BESIDE],
        env={**os.environ, "CLUSTERCEP_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.splitlines() == ["(0, 2) []", "[]", "(0, 2) 1 0", "(0, 1) (1, 1)"]
