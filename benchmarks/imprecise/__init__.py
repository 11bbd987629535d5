"""The engine over imprecise timestamps (SASE++ sections 4, 5.3 and 6.3): one module per table.

CLUSTERCEP_BENCH_SCALE, CLUSTERCEP_BENCH_TABLES and CLUSTERCEP_BENCH_CLOCK mean what they mean for `precise`. The
figures carry `max_error`: the greatest difference between a listed confidence and the oracle's exact fraction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.imprecise import added_event, against_enumeration, hadoop, stock
from benchmarks.precise.rows import Figures
from benchmarks.tables import measure_tables

TABLES: dict[str, Callable[[Figures], None]] = {
    "stock": stock.main,
    "enumeration": against_enumeration.main,
    "hadoop": hadoop.main,
    "added event": added_event.main,
}


def main() -> dict[str, Any]:
    """Measure, print the tables, return the rows."""
    found = measure_tables(TABLES, "benchmarks.imprecise.evaluation:compile_kernels")
    errors = [row["max_error"] for row in found["rows"] if "max_error" in row]
    return {**found, "max_error": max(errors, default=None)}
