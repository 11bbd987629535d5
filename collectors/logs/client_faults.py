"""What a task's log says of others: DataNodes that its HDFS client gives up, servers that do not answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from collectors.base import printable

RELEVANT = (b"atanode", b"Retrying connect to server")
"""A line without one of these needs no parsing."""

MAX_FAULTS = 10_000
"""Of one container that wait to be taken out; further ones are counted."""

_NODE = r"(?:\d+\()?(?:DatanodeInfoWithStorage\[)?([^\s,\[\]()]{1,253}:\d{1,5})"
BAD = re.compile(
    r"Error Recovery for (?:block )?(\S{1,200}) in pipeline .{0,4000}: "
    rf"(?:bad datanode {_NODE}|datanode {_NODE}.{{0,300}} is bad)"
)
"""Of Hadoop 2, and of Hadoop 3."""
EXCLUDED = re.compile(rf"Excluding datanode {_NODE}")
RETRY = re.compile(r"Retrying connect to server: (\S{1,300}?)\. Already tried (\d{1,9}) time\(s\)")


@dataclass(slots=True)
class Fault:
    """One such line."""

    type: str
    """PipelineLost or ConnectRetry."""
    t_lo_ms: int
    t_hi_ms: int
    attributes: dict[str, Any]
    place: int
    """Line in its file."""
    origin: str
    raw: str
    ordinal: int = 0
    """Among records that are equal in all else."""


def fault_of(message: str) -> tuple[str, dict[str, Any]] | None:
    """(type, attributes) of a message; None: it says nothing of the kind."""
    if found := RETRY.match(message):
        return "ConnectRetry", {"server": _server(found[1]), "n_tried": int(found[2])}
    if found := BAD.match(message):
        return "PipelineLost", {"datanode": _host(found[2] or found[3]), "block": printable(found[1]), "reason": "bad"}
    if found := EXCLUDED.match(message):
        return "PipelineLost", {"datanode": _host(found[1]), "block": None, "reason": "excluded"}
    return None


def _server(text: str) -> str:
    """name:port of "name/address:port"; where there is no name the address stands for it."""
    name, _, address = text.rpartition("/")
    return printable(f"{name}:{address.rpartition(':')[2]}" if name else address)


def _host(address: str) -> str:
    return printable(address.rpartition(":")[0].lstrip("/"))


__all__ = ["MAX_FAULTS", "RELEVANT", "Fault", "fault_of"]
