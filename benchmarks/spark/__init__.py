"""The jobs on Spark: one module per table, each with a `main`. Sizes: see each of them.

CLUSTERCEP_BENCH_TABLES names the tables to measure, all by default.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

TABLES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem != "__init__")


def main() -> dict[str, Any]:
    """Figures by table."""
    figures: dict[str, Any] = {}
    for name in os.environ.get("CLUSTERCEP_BENCH_TABLES", ",".join(TABLES)).split(","):
        if name not in TABLES:
            raise SystemExit(f"CLUSTERCEP_BENCH_TABLES: no table is called {name}; there are: {', '.join(TABLES)}")
        module = import_module(f"benchmarks.spark.{name}")
        if hasattr(module, "main"):
            figures[name] = module.main()
    return figures


__all__ = ["TABLES", "main"]
