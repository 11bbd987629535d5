"""ClientTrace lines: what one transfer moved from where to where, by DataNodes and (Hadoop 1) TaskTrackers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from collectors.hadoop_ids import job_of
from collectors.printable import printable

TRANSFER = re.compile(
    r"src: (\S{1,300}), dest: (\S{1,300}), (?:volume: ([^,]{0,1000}), )?bytes: (\d{1,18}), op: (\w{1,40}), "
    r"cliID: (.{0,300}?), (?:offset: -?\d{1,18}, srvID: \S{1,200}, blockid: (\S{1,200}), )?"
    r"duration(?:\(ns\))?: (-?\d{1,18})"
)
OTHER = re.compile(r"src: \S{1,300}, dest: \S{1,300}, op: \w{1,60}, ")
"""Of short-circuit reads: file descriptors are handed over, nothing is moved."""
ATTEMPT_OF = re.compile(r"(?:DFSClient_)?(attempt_\d{1,19}_\d{1,19}_[mr]_\d{1,19}_\d{1,9})")


def client_trace(message: str, host_named: Callable[[str], str]) -> dict[str, Any] | None:
    """Attributes of a transfer; empty: nothing was moved; None: of another form."""
    found = TRANSFER.match(message)
    if found is None:
        return {} if OTHER.match(message) else None
    attempt = ATTEMPT_OF.match(found[6])
    duration_ns = int(found[8])
    return {
        "operation": found[5],
        "source_host": host_named(_host(found[1])),
        "dest_host": host_named(_host(found[2])),
        "bytes": int(found[4]),
        "duration_ns": duration_ns if duration_ns >= 0 else None,
        "client": printable(found[6]),
        "attempt_id": attempt and attempt[1],
        "job_id": attempt and job_of(attempt[1]),
        "volume": found[3] and printable(found[3]),
        "block": found[7] and printable(found[7]),
    }


def _host(address: str) -> str:
    host = address.lstrip("/")
    name, colon, port = host.rpartition(":")
    if name.startswith("[") and name.endswith("]"):
        return name[1:-1]  # an IPv6 address
    return name if colon and port.isdecimal() else host


__all__ = ["client_trace"]
