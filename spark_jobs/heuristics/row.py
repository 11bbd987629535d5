"""What `clustercep report jobs` has of each job or application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from app.heuristics.judgement import Judged, Judgement
from app.heuristics.waste import Waste

ROW = pa.schema(
    [(name, pa.string()) for name in ("job_id", "job_name", "user", "queue", "status", "severity", "heuristics")]
    + [("end_ms", pa.int64()), ("n_unmeasured", pa.int64())]
    + [(name, pa.float64()) for name in ("held_gib_h", "wasted_gib_h", "lost_h")]
)
_NAMES = {pa.string(): "string", pa.int64(): "long", pa.float64(): "double"}
DDL = ", ".join(f"{field.name} {_NAMES[field.type]}" for field in ROW)
"""The same for Spark."""


def report_row(
    job_id: str, job_name: str | None, status: str | None, judgement: Judgement[Judged], waste: Waste
) -> dict[str, Any]:
    """One job or application."""
    facts = judgement.figures.facts()
    return {
        "job_id": job_id, "job_name": job_name, "user": facts["user"], "queue": facts["queue"], "status": status,
        "severity": None if judgement.severity is None else judgement.severity.name,
        "heuristics": ", ".join(judgement.worst), "end_ms": facts["end_ms"], "n_unmeasured": waste.n_unmeasured,
        "held_gib_h": waste.held_gib_h, "wasted_gib_h": waste.wasted_gib_h, "lost_h": waste.lost_h,
    }  # fmt: skip


def rows_table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """With the columns of ROW."""
    return pa.Table.from_pylist(list(rows), schema=ROW)


__all__ = ["DDL", "ROW", "report_row", "rows_table"]
