"""`python -m benchmarks [NAME ...]`: run the named benchmarks (all by default), print tables, write JSON."""

from __future__ import annotations

import json
import platform
import re
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.measure import peak_memory_mib

FOLDER = Path(__file__).parent
OUT = FOLDER.parent / "build" / "benchmarks"


def _has_main(path: Path) -> bool:
    return re.search(r"^def main\(", path.read_text(encoding="utf-8"), re.MULTILINE) is not None


def _modules(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.py")) if path.stem != "__init__" and _has_main(path)]


_SUITES = [path.parent for path in sorted(FOLDER.glob("*/__init__.py")) if _has_main(path)]
"""Folders that are one benchmark of several tables; in the others each module with a `main` is one."""
NAMES = {folder.name: f"benchmarks.{folder.name}" for folder in _SUITES} | {
    path.stem: f"benchmarks.{folder.name}.{path.stem}"
    for folder in sorted(path.parent for path in FOLDER.glob("*/__init__.py"))
    if folder not in _SUITES
    for path in _modules(folder)
}
"""The module with `main`, by the benchmark's name."""
PARTS = {f"spark.{path.stem}": f"benchmarks.spark.{path.stem}" for path in _modules(FOLDER / "spark")}
"""The same of tables that can be run alone."""


def main(arguments: list[str]) -> int:
    """Run the benchmarks of these names; exit code 2 for an unknown one."""
    known = NAMES | PARTS
    unknown = [name for name in arguments if name not in known]
    if unknown:
        print(f"no benchmark is called {', '.join(unknown)}; there are: {', '.join(sorted(known))}", file=sys.stderr)
        return 2
    OUT.mkdir(parents=True, exist_ok=True)
    for name in arguments or sorted(NAMES):
        print(f"== {name}")
        figures = import_module(known[name]).main()
        figures["peak_memory_mib"] = round(peak_memory_mib(), 1)
        figures["machine"] = {"python": platform.python_version(), "cpu": platform.processor() or platform.machine()}
        path = OUT / f"{name}.json"
        path.write_text(json.dumps(figures, indent=1) + "\n")
        print(f"peak memory {figures['peak_memory_mib']} MiB; figures in {path.relative_to(FOLDER.parent)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
