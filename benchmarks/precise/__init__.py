"""The engine over precise timestamps (SASE+ section 6, SASE++ section 6.2): one module per table.

CLUSTERCEP_BENCH_SCALE makes streams longer or shorter where the table does not state their length;
CLUSTERCEP_BENCH_TABLES names the tables to measure, all by default; CLUSTERCEP_BENCH_CLOCK=cpu measures CPU time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.precise import against_baselines, chains, cold, contiguity, hadoop, long_stream, scaling, stock, threads
from benchmarks.precise.rows import Figures
from benchmarks.tables import measure_tables

TABLES: dict[str, Callable[[Figures], None]] = {
    "stock": stock.main,
    "baselines": against_baselines.main,
    "contiguity": contiguity.main,
    "hadoop": hadoop.main,
    "scaling": scaling.main,
    "chains": chains.main,
    "threads": threads.main,
    "long": long_stream.main,
    "cold": cold.main,
}


def main() -> dict[str, Any]:
    """Measure, print the tables, return the rows."""
    return measure_tables(TABLES, "benchmarks.precise.evaluation:compile_kernels")
