"""The engine over precise timestamps (SASE+ section 6, SASE++ section 6.2): one module per table.

CLUSTERCEP_BENCH_SCALE makes streams longer or shorter where the table does not state their length;
CLUSTERCEP_BENCH_TABLES names the tables to measure, all by default; CLUSTERCEP_BENCH_CLOCK=cpu measures CPU time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from benchmarks.own_process import measured
from benchmarks.precise import against_baselines, cold, contiguity, hadoop, long_stream, scaling, stock
from benchmarks.precise.rows import Figures

TABLES: dict[str, Callable[[Figures], None]] = {
    "stock": stock.main,
    "baselines": against_baselines.main,
    "contiguity": contiguity.main,
    "hadoop": hadoop.main,
    "scaling": scaling.main,
    "long": long_stream.main,
    "cold": cold.main,
}


def main() -> dict[str, Any]:
    """Measure, print the tables, return the rows."""
    figures = Figures()
    measured("benchmarks.precise.evaluation:compile_kernels", {}, limit_s=1_800.0)
    for name in os.environ.get("CLUSTERCEP_BENCH_TABLES", ",".join(TABLES)).split(","):
        if name not in TABLES:
            raise SystemExit(f"CLUSTERCEP_BENCH_TABLES: no table is called {name}; there are: {', '.join(TABLES)}")
        TABLES[name](figures)
    return {"clock": os.environ.get("CLUSTERCEP_BENCH_CLOCK", "wall"), "load": os.getloadavg(), "rows": figures.rows}
