"""The jobs on Spark: every module beside this one that has a `main`. Sizes: see each of them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any


def main() -> dict[str, Any]:
    """Figures by job."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem != "__init__")
    modules = {name: import_module(f"benchmarks.spark.{name}") for name in names}
    return {name: module.main() for name, module in modules.items() if hasattr(module, "main")}


__all__ = ["main"]
