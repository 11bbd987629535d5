"""What `clustercep report jobs` has of each job or application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

ROW = pa.schema(
    [(name, pa.string()) for name in ("job_id", "job_name", "user", "queue", "status", "severity", "heuristics")]
    + [("end_ms", pa.int64()), ("n_unmeasured", pa.int64())]
    + [(name, pa.float64()) for name in ("held_gib_h", "wasted_gib_h", "lost_h")]
)
DDL = (
    "job_id string, job_name string, user string, queue string, status string, severity string, heuristics string, "
    "end_ms long, n_unmeasured long, held_gib_h double, wasted_gib_h double, lost_h double"
)
"""The same for Spark."""


def rows_table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """With the columns of DDL in its order."""
    return pa.Table.from_pylist(list(rows), schema=pa.schema([ROW.field(part.split()[0]) for part in DDL.split(", ")]))


__all__ = ["DDL", "ROW", "rows_table"]
