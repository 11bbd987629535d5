"""Kernels are there before the first events."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

UNCALLED = """
import importlib, inspect, pkgutil, re, types
import numba
import engine

engine.warm_kernels()
n_callers = 0
for module in pkgutil.walk_packages(engine.__path__, "engine."):
    # Plans run a program or two as Python, the baselines are for comparison only.
    if module.name.startswith(("engine.kernels.", "engine.plan.", "engine.baselines.")):
        continue
    caller = importlib.import_module(module.name)
    text = inspect.getsource(caller)
    for name, value in vars(caller).items():
        if isinstance(value, types.ModuleType) and value.__name__.startswith("engine.kernels."):
            used = [getattr(value, called, None) for called in re.findall(rf"\\b{name}[.](\\w+)", text)]
        else:
            used = [value]
        for kernel in used:
            if isinstance(kernel, numba.core.dispatcher.Dispatcher):
                n_callers += 1
                if not kernel.signatures:
                    print(f"{module.name}:{kernel.py_func.__name__}")
print("callers:", n_callers)
"""


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
def test_every_kernel_that_is_called_is_compiled() -> None:
    found = subprocess.run([sys.executable, "-c", UNCALLED], capture_output=True, text=True, check=True)
    *uncalled, last = found.stdout.splitlines()
    assert uncalled == []
    assert int(last.removeprefix("callers:")) > 50, "kernels are called from elsewhere: this looked past them"
