"""Why a file that was read gave no event: in words that say what to look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from collectors.base import Problem
from collectors.file_kinds import (
    AUDIT_LOG,
    CONTAINER_LOG,
    DAEMON_LOG,
    HADOOP1,
    JHIST,
    JOB_CLIENT_LOG,
    LOG_BEGINS,
    RRD,
    RUMEN,
    SPARK_EVENTS,
)

_LOOKED_FOR: Mapping[str, str] = {
    JHIST: "no record of it tells when its job, a map or a reduce started or ended",
    HADOOP1: "no record of it tells when its job, a map or a reduce started or ended",
    RUMEN: "no job of it tells when it, a map or a reduce started or ended",
    SPARK_EVENTS: "no line of it tells of an application, a job, a stage, a task or an executor",
    RRD: "its finest archive has no known sample",
    CONTAINER_LOG: "tells of a task's end or of a fetched map output",
    DAEMON_LOG: "tells of a node that is lost or of anything else that such logs are read for (docs/signals.md)",
    AUDIT_LOG: "is of an operation",
    JOB_CLIENT_LOG: "no dated line of it tells of a job that its client waits for",
}

MOST_LOOKED_AT = 1 << 20
"""Bytes at the beginning of a log in which dates are looked for."""


def why_nothing(kind: str, data: bytes, problems: Iterable[Problem]) -> str:
    """The reason, of a file of this kind with these problems."""
    kinds = sorted({problem.kind for problem in problems})
    if kinds:
        return f"see its problems: {', '.join(kinds)}"
    told = _LOOKED_FOR[kind]
    if kind not in (CONTAINER_LOG, DAEMON_LOG, AUDIT_LOG):
        return told
    lines = data[:MOST_LOOKED_AT].split(b"\n")
    n_lines = data.count(b"\n") + (not data.endswith(b"\n"))
    if not any(LOG_BEGINS.match(line) for line in lines):
        return f"none of its {n_lines:,} lines begins with a date that is known (yyyy-MM-dd or yy/MM/dd, and the time)"
    return f"none of its {n_lines:,} lines {told}"


__all__ = ["why_nothing"]
