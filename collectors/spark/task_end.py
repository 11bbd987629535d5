"""How a task ended, and what it measured, as `JsonProtocol` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collectors.counters import is_count

Record = Mapping[str, Any]

_KILLED = frozenset({"TaskKilled", "TaskCommitDenied"})

FIGURES: Mapping[str, tuple[str, ...]] = {
    "run_ms": ("Executor Run Time",),
    "gc_ms": ("JVM GC Time",),
    "peak_memory_bytes": ("Peak Execution Memory",),
    "memory_spilled_bytes": ("Memory Bytes Spilled",),
    "spilled_bytes": ("Disk Bytes Spilled",),
    "input_bytes": ("Input Metrics", "Bytes Read"),
    "n_input_records": ("Input Metrics", "Records Read"),
    "output_bytes": ("Output Metrics", "Bytes Written"),
    "n_output_records": ("Output Metrics", "Records Written"),
    "n_shuffle_records": ("Shuffle Read Metrics", "Total Records Read"),
    "shuffle_wait_ms": ("Shuffle Read Metrics", "Fetch Wait Time"),
    "shuffle_write_bytes": ("Shuffle Write Metrics", "Shuffle Bytes Written"),
}
"""Attribute -> where it stands in Task Metrics."""

_SHUFFLE_READ = ("Remote Bytes Read", "Local Bytes Read")
_STORAGE = ("OnHeapStorageMemory", "OffHeapStorageMemory")
_NS_PER_MS = 1_000_000

_EXPECTED = ("executor killed by driver", "executor decommission", "worker decommission")
"""How reasons begin for which the driver itself lets an executor go."""


def task_status(end: Record, info: Record) -> str | None:
    """SUCCEEDED, FAILED or KILLED; None when it is not told."""
    reason = end.get("Reason")
    if reason == "Success":
        return "SUCCEEDED"
    if reason in _KILLED or info.get("Killed") is True:
        return "KILLED"
    return "FAILED" if isinstance(reason, str) else None


def reason_of(end: Record) -> str | None:
    """Why a task did not succeed, in Spark's words."""
    reason = end.get("Reason")
    if not isinstance(reason, str) or reason == "Success":
        return None
    if reason == "ExceptionFailure":
        said = end.get("Description")
        return f"{end.get('Class Name')}: {said}" if isinstance(said, str) and said else str(end.get("Class Name"))
    if reason == "ExecutorLostFailure":
        return f"executor {end.get('Executor ID')} was lost: {end.get('Loss Reason')}"
    said = end.get("Kill Reason") if reason == "TaskKilled" else end.get("Message")
    return f"{reason}: {said}" if isinstance(said, str) and said else reason


def is_expected(reason: str | None) -> bool:
    """Whether an executor was removed because the driver had no need for it, or was told to let it go."""
    return reason is not None and reason.lower().startswith(_EXPECTED)


def task_figures(metrics: Record) -> dict[str, int | None]:
    """What a task measured; None is not known: tasks of lost executors have no figures."""
    figures = {name: _count(metrics, *path) for name, path in FIGURES.items()}
    cpu_ns = _count(metrics, "Executor CPU Time")
    read = [_count(metrics, "Shuffle Read Metrics", name) for name in _SHUFFLE_READ]
    known = [n_bytes for n_bytes in read if n_bytes is not None]
    return figures | {
        "cpu_ms": None if cpu_ns is None else cpu_ns // _NS_PER_MS,
        "shuffle_read_bytes": sum(known) if known else None,
    }


def executor_figures(metrics: Record) -> dict[str, int | None]:
    """The most that its executor had while a task ran; None is not known: a log need not have it, and 0 is no heap."""
    heap, held = _count(metrics, "JVMHeapMemory"), [_count(metrics, name) for name in _STORAGE]
    if not heap:
        return {"peak_heap_bytes": None, "peak_storage_bytes": None}
    return {"peak_heap_bytes": heap, "peak_storage_bytes": sum(n_bytes or 0 for n_bytes in held)}


def _count(record: Record, *path: str) -> int | None:
    value: Any = record
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if is_count(value) else None


__all__ = ["executor_figures", "is_expected", "reason_of", "task_figures", "task_status"]
