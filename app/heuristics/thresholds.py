"""Dr. Elephant's default thresholds (its HeuristicConf.xml and the defaults in its code, master 916c25d)."""

from __future__ import annotations

from app.heuristics.severity import Limits

MINUTE_MS = 60_000
MIB = 1 << 20

SKEW_DEVIATION = Limits(2, 4, 8, 16)
SKEW_TASKS = Limits(10, 50, 100, 200)
SKEW_BLOCKS = Limits(1 / 8, 1 / 4, 1 / 2, 1)
"""In blocks of HDFS."""
UNKNOWN_BLOCK_BYTES = 64 * MIB

GC_RATIO = Limits(0.01, 0.02, 0.03, 0.04)
GC_RUN_MS = Limits(5, 10, 12, 15).scaled(MINUTE_MS)

SHORT_RUN_MS = Limits(10, 4, 2, 1, falling=True).scaled(MINUTE_MS)
LONG_RUN_MS = Limits(15, 30, 60, 120).scaled(MINUTE_MS)
TIME_TASKS = Limits(50, 101, 500, 1000)

DISK_SPEED = Limits(1 / 2, 1 / 4, 1 / 8, 1 / 32, falling=True).scaled(100 * MIB)
"""Bytes per second."""
SPEED_RUN_MS = Limits(5, 10, 15, 30).scaled(MINUTE_MS)

SPILL_RATIO = Limits(2.01, 2.2, 2.5, 3)
SPILL_TASKS = Limits(50, 100, 500, 1000)

MEMORY_RATIO = Limits(0.6, 0.5, 0.4, 0.3, falling=True)
DEFAULT_CONTAINER_MB = 2048
CONTAINER_BYTES = Limits(1.1, 1.5, 2, 2.5).scaled(DEFAULT_CONTAINER_MB * MIB)

SHUFFLE_RUN_MS = Limits(1, 5, 10, 30).scaled(MINUTE_MS)
SHUFFLE_RATIO = Limits(1, 2, 4, 8)

CACHED_FILE_BYTES = 500 * MIB
"""A cached file above it is critical; the 500,000,000 of HeuristicConf.xml stands under a key that is never read."""

__all__ = [
    "CACHED_FILE_BYTES", "CONTAINER_BYTES", "DEFAULT_CONTAINER_MB", "DISK_SPEED", "GC_RATIO", "GC_RUN_MS",
    "LONG_RUN_MS", "MEMORY_RATIO", "SHORT_RUN_MS", "SHUFFLE_RATIO", "SHUFFLE_RUN_MS", "SKEW_BLOCKS", "SKEW_DEVIATION",
    "SKEW_TASKS", "SPEED_RUN_MS", "SPILL_RATIO", "SPILL_TASKS", "TIME_TASKS", "UNKNOWN_BLOCK_BYTES",
]  # fmt: skip
