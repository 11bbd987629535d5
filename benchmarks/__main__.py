"""`python -m benchmarks [NAME ...]`: run the named benchmarks (all by default), print tables, write JSON."""

from __future__ import annotations

import json
import platform
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.measure import peak_memory_mib

FOLDER = Path(__file__).parent
OUT = FOLDER.parent / "build" / "benchmarks"
SHARED = ("__init__", "__main__", "copied_weeks", "hadoop_stream", "large_log", "measure", "own_process")
NAMES = sorted(
    [path.stem for path in FOLDER.glob("*.py") if path.stem not in SHARED]
    + [path.parent.name for path in FOLDER.glob("*/__init__.py")]
)
PARTS = sorted(f"{path.parent.name}.{path.stem}" for path in FOLDER.glob("spark/*.py") if path.stem != "__init__")
"""Modules that can be run alone."""


def main(arguments: list[str]) -> int:
    """Run the benchmarks of these names; exit code 2 for an unknown one."""
    known = [*NAMES, *PARTS]
    unknown = [name for name in arguments if name not in known]
    if unknown:
        print(f"no benchmark is called {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    OUT.mkdir(parents=True, exist_ok=True)
    for name in arguments or NAMES:
        print(f"== {name}")
        figures = import_module(f"benchmarks.{name}").main()
        figures["peak_memory_mib"] = round(peak_memory_mib(), 1)
        figures["machine"] = {"python": platform.python_version(), "cpu": platform.processor() or platform.machine()}
        path = OUT / f"{name}.json"
        path.write_text(json.dumps(figures, indent=1) + "\n")
        print(f"peak memory {figures['peak_memory_mib']} MiB; figures in {path.relative_to(FOLDER.parent)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
