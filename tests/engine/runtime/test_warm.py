"""Kernels are there before the first events."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

UNCALLED = """
import importlib, pathlib, pkgutil, re
import numba
import engine, engine.kernels

engine.warm_kernels()
folder = pathlib.Path(engine.__file__).parent
callers = "".join(path.read_text() for path in (folder / "matching").glob("*.py"))
for module in pkgutil.iter_modules(engine.kernels.__path__):
    for name, value in vars(importlib.import_module(f"engine.kernels.{module.name}")).items():
        if isinstance(value, numba.core.dispatcher.Dispatcher) and value.py_func.__module__.endswith(module.name):
            # A kernel that only kernels call is part of theirs.
            if re.search(rf"\\b{name}\\(", callers) and not value.signatures:
                print(f"{module.name}.{name}")
"""


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
def test_every_kernel_that_is_called_is_compiled() -> None:
    found = subprocess.run([sys.executable, "-c", UNCALLED], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
