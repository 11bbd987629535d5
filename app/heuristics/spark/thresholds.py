"""Dr. Elephant's default thresholds of its Spark heuristics (master 916c25d)."""

from __future__ import annotations

from app.heuristics.severity import Limits
from app.heuristics.thresholds import MIB, MINUTE_MS

GC_RATIO = Limits(0.08, 0.1, 0.15, 0.2)
GC_TOO_LOW = Limits(0.05, 0.04, 0.03, 0.01, falling=True)
"""Passed, it is a remark and no severity."""

EXECUTOR_RATIO = Limits(10**0.125, 10**0.25, 10**0.5, 10)
IGNORED_BELOW_BYTES = 100 * MIB
IGNORED_BELOW_MS = 5 * MINUTE_MS
"""Executors whose greatest figure is smaller are not compared by it."""

FAILURE_RATE = Limits(0.1, 0.3, 0.5, 0.5)
"""Of jobs, of stages, and of tasks within one of them; what would be severe is critical."""
STAGE_RUN_MS = Limits(15, 30, 45, 60).scaled(MINUTE_MS)

SKEW_RATIO = Limits(2, 4, 8, 16)
SKEW_LEAST_MS = 150_000
SKEW_STAGE_SHARE = 0.75
"""A task that takes no longer than these is no skew."""

SPILL_RATIO = Limits(0.01, 0.1, 0.25, 0.5)
SPILL_EXPECTED_BYTES = 3 << 40
"""A stage of so much data spills anyway."""

TASK_RUN_MS = Limits(2.5, 5, 10, 15).scaled(MINUTE_MS)
TASK_FAILURE_RATE = Limits(0.05, 0.1, 0.15, 0.2)

__all__ = [
    "EXECUTOR_RATIO", "FAILURE_RATE", "GC_RATIO", "GC_TOO_LOW", "IGNORED_BELOW_BYTES", "IGNORED_BELOW_MS",
    "SKEW_LEAST_MS", "SKEW_RATIO", "SKEW_STAGE_SHARE", "SPILL_EXPECTED_BYTES", "SPILL_RATIO", "STAGE_RUN_MS",
    "TASK_FAILURE_RATE", "TASK_RUN_MS",
]  # fmt: skip
