"""Benchmarks of several tables, of which some can be chosen."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.own_process import measured
from benchmarks.precise.rows import Figures


def measure_tables(tables: Mapping[str, Callable[[Figures], None]], compile_kernels: str) -> dict[str, Any]:
    """Measure, print the tables, return the rows.

    compile_kernels: "module:function", what is called before. Tables are those that CLUSTERCEP_BENCH_TABLES names, all
    by default; SystemExit for a name that is none.
    """
    figures = Figures()
    measured(compile_kernels, {}, limit_s=1_800.0)
    for name in os.environ.get("CLUSTERCEP_BENCH_TABLES", ",".join(tables)).split(","):
        if name not in tables:
            raise SystemExit(f"CLUSTERCEP_BENCH_TABLES: no table is called {name}; there are: {', '.join(tables)}")
        tables[name](figures)
    return {"clock": os.environ.get("CLUSTERCEP_BENCH_CLOCK", "wall"), "load": os.getloadavg(), "rows": figures.rows}


__all__ = ["measure_tables"]
