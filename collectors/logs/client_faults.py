"""What the log of a task or an ApplicationMaster says of others: DataNodes that its HDFS client gives up, servers that
do not answer, hosts from which map output cannot be fetched or that get no more tasks, tasks that are run once more."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from collectors.printable import printable

RELEVANT = (
    b"atanode",
    b"Retrying connect to server",
    b"Failed to connect to ",
    b" fetch failure ",
    b"Blacklisted host ",
    b"-- we are speculating ",
)
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

UNREACHABLE = re.compile(r"Failed to connect to (\S{1,300}) with (\d{1,9}) map outputs")
REPORTED = re.compile(r"Reporting fetch failure for (attempt_\d{1,19}_\d{1,19}_m_\d{1,19}_\d{1,9}) to MRAppMaster")
GIVEN_UP = re.compile(
    r"Too many fetch-failures for output of task attempt: (attempt_\d{1,19}_\d{1,19}_m_\d{1,19}_\d{1,9}) "
    r"\.\.\. raising fetch failure to map"
)
BLACKLISTED = re.compile(r"Blacklisted host (\S{1,300})")
SPECULATED = re.compile(
    r"DefaultSpeculator\.addSpeculativeAttempt -- we are speculating (task_\d{1,19}_\d{1,19}_[mr]_\d{1,19})"
)


@dataclass(slots=True)
class Fault:
    """One such line."""

    type: str
    """Of its event."""
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
    if found := UNREACHABLE.match(message):
        return "FetchFailed", _fetch("connect", _source(found[1]), None, int(found[2]))
    if found := REPORTED.match(message):
        return "FetchFailed", _fetch("reported", None, found[1], 1)
    if found := GIVEN_UP.match(message):
        return "FetchFailed", _fetch("given up", None, found[1], 1)
    if found := BLACKLISTED.match(message):
        return "HostBlacklisted", {"blacklisted_host": printable(found[1])}
    if found := SPECULATED.match(message):
        return "Speculated", {"task_id": found[1]}
    return None


def _fetch(stage: str, source_host: str | None, map_attempt_id: str | None, n_outputs: int) -> dict[str, Any]:
    return {"stage": stage, "source_host": source_host, "map_attempt_id": map_attempt_id, "n_outputs": n_outputs}


def _source(address: str) -> str:
    """The host of "host:port", or of a host alone (Hadoop 2)."""
    host, colon, port = address.rpartition(":")
    return printable(host if colon and port.isdecimal() else address)


def _server(text: str) -> str:
    """name:port of "name/address:port"; where there is no name the address stands for it."""
    name, _, address = text.rpartition("/")
    return printable(f"{name}:{address.rpartition(':')[2]}" if name else address)


def _host(address: str) -> str:
    return printable(address.rpartition(":")[0].lstrip("/"))


__all__ = ["MAX_FAULTS", "RELEVANT", "Fault", "fault_of"]
