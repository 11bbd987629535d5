"""Kernels are there before the first events."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

UNCALLED = """
import importlib, inspect, pkgutil, re, types
import numba
import engine, engine.matching

engine.warm_kernels()
for module in pkgutil.iter_modules(engine.matching.__path__):
    if module.ispkg:  # the baselines: for comparison only
        continue
    caller = importlib.import_module(f"engine.matching.{module.name}")
    text = inspect.getsource(caller)
    for name, value in vars(caller).items():
        if isinstance(value, types.ModuleType) and value.__name__.startswith("engine.kernels."):
            used = [getattr(value, called, None) for called in re.findall(rf"\\b{name}[.](\\w+)", text)]
        else:
            used = [value]
        for kernel in used:
            if isinstance(kernel, numba.core.dispatcher.Dispatcher) and not kernel.signatures:
                print(f"{module.name}:{kernel.py_func.__name__}")
"""


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
def test_every_kernel_that_is_called_is_compiled() -> None:
    found = subprocess.run([sys.executable, "-c", UNCALLED], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
