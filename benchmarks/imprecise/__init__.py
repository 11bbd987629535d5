"""The engine over imprecise timestamps (SASE++ sections 4, 5.3 and 6.3): one module per table.

CLUSTERCEP_BENCH_SCALE, CLUSTERCEP_BENCH_TABLES and CLUSTERCEP_BENCH_CLOCK mean what they mean for `precise`. The
figures carry `max_error`: the greatest difference between a listed confidence and the oracle's exact fraction.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from benchmarks.imprecise import added_event, against_enumeration, hadoop, stock
from benchmarks.own_process import measured
from benchmarks.precise.rows import Figures

TABLES: dict[str, Callable[[Figures], None]] = {
    "stock": stock.main,
    "enumeration": against_enumeration.main,
    "hadoop": hadoop.main,
    "added event": added_event.main,
}


def main() -> dict[str, Any]:
    """Measure, print the tables, return the rows."""
    figures = Figures()
    measured("benchmarks.imprecise.evaluation:compile_kernels", {}, limit_s=1_800.0)
    for name in os.environ.get("CLUSTERCEP_BENCH_TABLES", ",".join(TABLES)).split(","):
        if name not in TABLES:
            raise SystemExit(f"CLUSTERCEP_BENCH_TABLES: no table is called {name}; there are: {', '.join(TABLES)}")
        TABLES[name](figures)
    errors = [row["max_error"] for row in figures.rows if "max_error" in row]
    return {
        "clock": os.environ.get("CLUSTERCEP_BENCH_CLOCK", "wall"),
        "load": os.getloadavg(),
        "max_error": max(errors, default=None),
        "rows": figures.rows,
    }
