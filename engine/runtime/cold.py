"""The first query on a machine: answered by kernels that run as Python while another process compiles them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from engine.kernels.compile.cache import kernels_are_compiled, sole_compiler
from engine.kernels.compile.uncompiled import run_uncompiled_until

_NICENESS = 10
"""Of the process that compiles what a query waits for, as Python meanwhile."""


def answer_while_compiling() -> bool:
    """Do not wait for the compiler: kernels run as Python until a process in the background has compiled all of them.

    For short work in a short process; a hundred times slower than compiled code meanwhile. Returns False, and does
    nothing, when they are compiled, or when CLUSTERCEP_COMPILE is `first` in the environment. The process goes on after
    this one has ended, so that the next query finds them.
    """
    if os.environ.get("CLUSTERCEP_COMPILE") == "first" or kernels_are_compiled():
        return False
    run_uncompiled_until(kernels_are_compiled)
    compile_in_background()
    return True


def compile_in_background(niceness: int = _NICENESS) -> None:
    """Start a process of low priority that compiles all kernels, unless one does already; errors end it silently."""
    with sole_compiler() as alone:
        if not alone:
            return
    sources = str(Path(__file__).parents[2])
    paths = [sources, *filter(None, [os.environ.get("PYTHONPATH")])]
    subprocess.Popen(  # noqa: S603  # this interpreter and this module
        [sys.executable, "-m", __spec__.name, str(niceness)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def main() -> None:
    """What that process does."""
    with sole_compiler() as alone:
        if alone and not kernels_are_compiled():
            from engine.runtime.warm import warm_kernels

            os.nice(int(sys.argv[1]))
            warm_kernels()


if __name__ == "__main__":
    main()


__all__ = ["answer_while_compiling", "compile_in_background"]
