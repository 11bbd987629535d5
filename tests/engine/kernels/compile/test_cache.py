"""Compiled kernels are found again by what they are, not by where their sources lie."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import engine.kernels
from engine.kernels.columns.decode import widen
from engine.kernels.compile.numba_private import KernelLocator
from engine.kernels.compile.portable import sources_hash

ANOTHER_COPY = """
import numpy as np
from engine.kernels.columns import decode
decode.widen(np.arange(3), np.empty(3))
print(decode.__file__, sum(decode.widen.stats.cache_hits.values()), sum(decode.widen.stats.cache_misses.values()))
"""


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
def test_another_copy_of_the_sources_finds_what_this_one_has_compiled(tmp_path: Path) -> None:
    widen(np.arange(3), np.empty(3))
    copy = tmp_path / "engine"
    shutil.copytree(Path(engine.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    found = subprocess.run(
        [sys.executable, "-c", ANOTHER_COPY],
        cwd=tmp_path,
        env=_environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == [str(copy / "kernels/columns/decode.py"), "1", "0"]


def test_functions_that_are_no_kernels_are_not_looked_for_among_them(tmp_path: Path) -> None:
    elsewhere = tmp_path / "kernels" / "decode.py"
    elsewhere.parent.mkdir()
    elsewhere.touch()
    assert (
        KernelLocator.from_function(test_functions_that_are_no_kernels_are_not_looked_for_among_them, str(elsewhere))
        is None
    )


def test_an_edit_in_any_folder_of_the_kernels_is_another_hash(tmp_path: Path) -> None:
    (tmp_path / "pairs").mkdir()
    for name in ("keys.py", "pairs/keys.py"):
        (tmp_path / name).write_text("")
    before = sources_hash(tmp_path)
    (tmp_path / "pairs" / "keys.py").write_text("1")
    below = sources_hash(tmp_path)
    (tmp_path / "pairs" / "keys.py").rename(tmp_path / "pairs" / "other.py")
    assert len({before, below, sources_hash(tmp_path)}) == 3


def test_files_of_one_name_in_two_folders_are_kept_apart() -> None:
    sources = Path(engine.kernels.__file__).parent
    paths = {KernelLocator.get_suitable_cache_subpath(str(sources / name)) for name in ("a/runs.py", "b/runs.py")}
    assert paths == {"kernels/a", "kernels/b"}


def _environment(sources: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(sources)}
