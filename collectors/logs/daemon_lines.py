"""What single lines of daemons' logs tell, as a table: the text that is in such a line, and the function that reads it.

Written after Hadoop 2.7 to 3.5. What a line names that a user chose (paths, names, diagnostics) never decides where
another value begins: every pattern is anchored at the message's start, and such text stands last or is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from collectors.exit_codes import EXIT_CODES
from collectors.hadoop_ids import job_of_application, job_of_container
from collectors.logs.client_trace import client_trace
from collectors.printable import printable

MAX_REMEMBERED = 10_000
"""Of each kind of thing that an earlier line told: applications, exit codes, containers that are being localised."""

_CONTAINER = r"container_(?:e\d{1,9}_)?\d{1,19}_\d{1,19}_\d{1,19}_\d{1,19}"
_APPLICATION = r"application_\d{1,19}_\d{1,19}"
"""Without groups of their own."""

LOST = re.compile(r"(\S{1,300}):\d+ Node Transitioned from (\w+) to LOST")
EXPIRED = re.compile(r"Expired:(\S{1,300}):\d+ (Timed out .*)")
UNHEALTHY = re.compile(r"Node (\S{1,300}):\d+ reported UNHEALTHY with details: ?(.*)")
LIMIT = re.compile(rf"Container \[pid=\d+,containerID=(?P<id>{_CONTAINER})\] is (?P<why>running .{{0,200}}? limits?)\b")
OUT_OF_MEMORY = re.compile(
    rf"[Cc]ontainer (?P<id>{_CONTAINER}) (?:was )?(?P<why>killed by elastic cgroups OOM handler.*)"
)
KILLING = re.compile(rf"Container (?P<id>{_CONTAINER}) transitioned from (?P<why>\w+ to KILLING)")
MEMORY = re.compile(r"\b(physical|virtual)\b.{0,200}? memory limit|\bcgroups OOM\b", re.IGNORECASE)

DEAD_DATANODE = re.compile(r"BLOCK\* removeDeadDatanode: lost heartbeat from ([^\s,(]{1,300})")
SAFE_MODE = re.compile(r"STATE\* (Safe mode (?:is )?ON|Safe mode is OFF|Leaving safe mode after \d{1,12} secs)(.*)")
LOCK = re.compile(
    r"\s*Longest (write|read)-lock held at .{1,40}? for (\d{1,12})ms by "
    r"([\w$.]{0,200}) ?(?:\(ugi=([^\s,()]{1,300})[^,]{0,600},ip=([^,]{0,100}),src=(.{0,1000}?),dst=)?"
)
OLD_LOCK = re.compile(r"FSNamesystem (write|read) lock held for (\d{1,12}) ms")
SUPPRESSED = re.compile(r"\s*Number of suppressed (write|read)-lock reports: (\d{1,12})")
JOURNAL = re.compile(
    r"Took (\d{1,12})ms to send a batch of (\d{1,12}) edits \((\d{1,15}) bytes\) to remote journal (\S+)"
)
PAUSE = re.compile(r"Detected pause in JVM or host machine \(eg GC\): pause of approximately (\d{1,12})ms")
VOLUMES = re.compile(r"checkDiskError(?:Async callback)? got (\d{1,9}) failed volumes(?: -|:) ?(.*)")
SLOW = re.compile(
    r"Slow (BlockReceiver write packet to mirror|BlockReceiver write data to disk|flushOrSync|manageWriterOsCache"
    r"|PacketResponder send ack to upstream) (?:took|cost:) ?(\d{1,12})ms \(threshold=(\d{1,12})ms\)(.*)"
)
SLOW_OPERATIONS = {
    "BlockReceiver write packet to mirror": "mirror",
    "BlockReceiver write data to disk": "write",
    "flushOrSync": "sync",
    "manageWriterOsCache": "cache",
    "PacketResponder send ack to upstream": "ack",
}
DOWNSTREAM = re.compile(r"downstream DNs=\[(?:DatanodeInfoWithStorage\[)?([^\s,\[\]]{1,300})")
VOLUME = re.compile(r"volume=([^,\s]{1,1000})")
BLOCK = re.compile(r"blockId=(-?\d{1,20})")
DIRECTORY = re.compile(
    r"Directory (.{1,1000}?) error,? (.{0,1000}?),? removing from (?:the )?list of valid directories"
)
EXIT_CODE = re.compile(
    r"(?:Exit code from container|Exception from container-launch with container ID:|Container) "
    rf"({_CONTAINER}) (?:is ?:|and exit code:|completed with exit code) (-?\d{{1,9}})"
)
CONTAINER_FAILED = re.compile(
    r"USER=([^\t]{1,256})\t(?:IP=[^\t]{0,100}\t)?OPERATION=Container Finished - Failed\t"
    rf"(?:[A-Z]+=[^\t]{{0,2000}}\t){{0,8}}CONTAINERID=({_CONTAINER})"
)
SUBMITTED = re.compile(
    r"USER=([^\t]{1,256})\t(?:IP=[^\t]{0,100}\t)?OPERATION=Submit Application Request\t"
    rf"(?:[A-Z]+=[^\t]{{0,2000}}\t){{0,8}}?APPID=({_APPLICATION})(?:\t[A-Z]+=[^\t]{{0,2000}}){{0,8}}?"
    r"\tQUEUENAME=([^\t]{1,500})"
)
ACCEPTED = re.compile(
    rf"Accepted application ({_APPLICATION}) from user: ([^,]{{1,256}}), (?:in )?queue: ([^,\s]{{1,500}})"
)
MASTER_FAILED = re.compile(
    r"Updating application attempt (appattempt_(\d{1,19}_\d{1,19})_\d{1,19}) with final state: FAILED, "
    r"and exit status: (-?\d{1,9})"
)
LOCALISING = re.compile(
    rf"Container ({_CONTAINER}) transitioned from (NEW to LOCALIZING|LOCALIZING to (?:SCHEDULED|LOCALIZED))"
)
LOCALIZER_FAILED = re.compile(rf"Localizer failed for ({_CONTAINER})")
EXPIRED_TICKET = re.compile(r"TGT is expired\. Aborting renew thread for (\S.{0,300}?)\.?$")
RENEWAL_COMMAND = re.compile(
    r"Exception encountered while running the renewal command for (\S{1,300}?)\. \(TGT end time:"
)
TOKEN_RENEWAL = re.compile(r"Failed to renew token: ?(.*)")
OWNER = re.compile(r"owner=([^,\s)]{1,300})")
TOKEN_UNKNOWN = re.compile(r"Token for real user: (.{0,300}?), can't be found in cache(.*)")
"""The real user is nobody where no proxy acts for the owner."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a line tells."""

    type: str
    attributes: dict[str, Any]
    subject: str | None = None
    """What has one such event, whatever lines tell it; None: each line is an event."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line stands."""

    daemon: str | None
    host: str | None
    """Of the daemon, by the name of its log."""
    file: str
    """Identity of the file."""
    host_named: Callable[[str], str]
    """As the job history writes a host."""


@dataclass(slots=True)
class Remembered:
    """What earlier lines told and a later one needs; each mapping is bounded."""

    expired: dict[str, Any] = field(default_factory=dict)
    """Node -> why its ResourceManager no longer waits for it; said before it is called lost."""
    applications: dict[str, Any] = field(default_factory=dict)
    """Application -> [user, queue]."""
    exit_codes: dict[str, Any] = field(default_factory=dict)
    """Container -> exit code."""
    localising: dict[str, Any] = field(default_factory=dict)
    """Container -> since when, in ms."""
    locks: dict[str, Any] = field(default_factory=dict)
    """File -> [[t_lo_ms, t_hi_ms], read or write, suppressed reports] of a record that goes on in its next line."""

    @staticmethod
    def put(memory: dict[str, Any], key: str, value: Any) -> None:
        """Remember; the oldest is forgotten for it."""
        memory.pop(key, None)
        if len(memory) >= MAX_REMEMBERED:
            memory.pop(next(iter(memory)))
        memory[key] = value


@dataclass(frozen=True, slots=True)
class Line:
    """What is read, and what it may need."""

    message: str
    times: tuple[int, int]
    """t_lo_ms and t_hi_ms of its record."""
    place: Place
    memory: Remembered


NOTHING: tuple[Told, ...] = ()
"""A line that is known and is no event by itself."""

Reader = Callable[[Line], tuple[Told, ...] | None]
"""None: the line is of another form."""


# ---- ResourceManager -------------------------------------------------------------------------------------------


def _expired(at: Line) -> tuple[Told, ...] | None:
    if found := EXPIRED.match(at.message):
        at.memory.put(at.memory.expired, found[1], found[2])
        return NOTHING
    return None


def _lost(at: Line) -> tuple[Told, ...] | None:
    if found := LOST.match(at.message):
        # Two threads write the two lines: why may stand behind, and then it is lost for the same reason all the same.
        reason = at.memory.expired.pop(found[1], None) or f"no heartbeat for too long ({found[2]} to LOST)"
        return (Told("NodeLost", {"host": at.place.host_named(found[1]), "reason": printable(str(reason))}),)
    return None


def _unhealthy(at: Line) -> tuple[Told, ...] | None:
    if found := UNHEALTHY.match(at.message):
        return (Told("NodeUnhealthy", {"host": at.place.host_named(found[1]), "reason": printable(found[2])}),)
    return None


def _application(at: Line) -> tuple[Told, ...] | None:
    if found := ACCEPTED.match(at.message):
        application, user = found[1], found[2]
    elif found := SUBMITTED.match(at.message):
        application, user = found[2], found[1]
    else:
        return None if at.message.startswith("Accepted application ") else NOTHING
    at.memory.put(at.memory.applications, application, [printable(user), printable(found[3])])
    return NOTHING


def _master_failed(at: Line) -> tuple[Told, ...] | None:
    found = MASTER_FAILED.match(at.message)
    if found is None:
        return NOTHING  # of an attempt that has not failed
    application, code = f"application_{found[2]}", int(found[3])
    user, queue = at.memory.applications.get(application, (None, None))
    told = {
        "job_id": job_of_application(application),
        "application_id": application,
        "app_attempt_id": found[1],
        "user": user,
        "queue": queue,
        "exit_code": code,
        "reason": EXIT_CODES.get(code, f"exit code {code}"),
    }
    return (Told("MasterFailed", told, found[1]),)


# ---- NodeManager -----------------------------------------------------------------------------------------------


def _killed(at: Line) -> tuple[Told, ...] | None:
    found = LIMIT.match(at.message) or OUT_OF_MEMORY.match(at.message) or KILLING.match(at.message)
    if found is None or at.place.host is None:
        return NOTHING
    told = _of_container(found["id"], at.place) | {"reason": printable(found["why"]), "cause": _cause(found["why"])}
    # A container is killed once: the line with the reason stands first, the others are its copies.
    return (Told("ContainerKilled", told, found["id"]),)


def _exit_code(at: Line) -> tuple[Told, ...] | None:
    if found := EXIT_CODE.match(at.message):
        at.memory.put(at.memory.exit_codes, found[1], int(found[2]))
    return NOTHING


def _container_failed(at: Line) -> tuple[Told, ...] | None:
    found = CONTAINER_FAILED.match(at.message)
    if found is None:
        return None
    code = at.memory.exit_codes.pop(found[2], None)
    reason = None if code is None else EXIT_CODES.get(code, f"exit code {code}")
    told = _of_container(found[2], at.place) | {"user": printable(found[1]), "exit_code": code, "reason": reason}
    return (Told("ContainerFailed", told, found[2]),)


def _localised(at: Line) -> tuple[Told, ...] | None:
    found = LOCALISING.match(at.message)
    if found is None:
        return NOTHING  # killed, or failed, while it was localised
    if found[2].startswith("NEW"):
        at.memory.put(at.memory.localising, found[1], at.times[0])
        return NOTHING
    since_ms = at.memory.localising.pop(found[1], None)
    if since_ms is None:
        return NOTHING
    told = _of_container(found[1], at.place) | {"period_ms": max(0, at.times[0] - since_ms)}
    return (Told("ContainerLocalized", told, found[1]),)


def _localizer_failed(at: Line) -> tuple[Told, ...] | None:
    if found := LOCALIZER_FAILED.match(at.message):
        return (Told("LocalizerFailed", _of_container(found[1], at.place), found[1]),)
    return NOTHING  # of a public resource, which is of no container


def _directory(at: Line) -> tuple[Told, ...] | None:
    if found := DIRECTORY.match(at.message):
        told = {"host": at.place.host, "directory": printable(found[1]), "reason": printable(found[2])}
        return (Told("DirectoryFailed", told),)
    return None


# ---- NameNode --------------------------------------------------------------------------------------------------


def _datanode_lost(at: Line) -> tuple[Told, ...] | None:
    if found := DEAD_DATANODE.match(at.message):
        told = {"host": _host_of(found[1], at.place), "namenode": at.place.host, "reason": "lost heartbeat"}
        return (Told("DataNodeLost", told),)
    return None


def _safe_mode(at: Line) -> tuple[Told, ...] | None:
    found = SAFE_MODE.match(at.message)
    if found is None:
        return NOTHING  # other states of the NameNode
    state = "on" if found[1].endswith("ON") else "off"
    reason = printable((found[1] + found[2]).strip(), 500)
    return (Told("SafeMode", {"host": at.place.host, "state": state, "reason": reason}),)


def _lock_begins(at: Line) -> tuple[Told, ...] | None:
    if found := SUPPRESSED.match(at.message):
        at.memory.put(at.memory.locks, at.place.file, [list(at.times), found[1], int(found[2])])
        return NOTHING
    return None


def _lock(at: Line) -> tuple[Told, ...] | None:
    found = LOCK.match(at.message)
    if found is None:
        return None
    _, kind, n_suppressed = at.memory.locks.pop(at.place.file, (0, found[1], None))
    told = {
        "host": at.place.host,
        "lock": found[1],
        "held_ms": int(found[2]),
        "operation": printable(found[3]),
        "user": found[4] and printable(found[4]),
        "client": found[5] and _address(found[5]),
        "path": found[6] and printable(found[6]),
        "n_suppressed": n_suppressed if kind == found[1] else None,
    }
    return (Told("LockHeld", told),)


def _old_lock(at: Line) -> tuple[Told, ...] | None:
    if found := OLD_LOCK.match(at.message):
        return (Told("LockHeld", {"host": at.place.host, "lock": found[1], "held_ms": int(found[2])}),)
    return None


def _journal(at: Line) -> tuple[Told, ...] | None:
    if found := JOURNAL.match(at.message):
        told = {
            "host": at.place.host,
            "journal": printable(found[4].rstrip("."), 300),
            "took_ms": int(found[1]),
            "n_edits": int(found[2]),
            "edits_bytes": int(found[3]),
        }
        return (Told("JournalSlow", told),)
    return None


# ---- DataNode --------------------------------------------------------------------------------------------------


def _slow(at: Line) -> tuple[Told, ...] | None:
    found = SLOW.match(at.message)
    if found is None:
        return None
    operation, rest = SLOW_OPERATIONS[found[1]], found[4]
    peer = DOWNSTREAM.search(rest)
    suspect = at.place.host  # of its disks, or of its way upstream
    if operation == "mirror":
        suspect = _host_of(peer[1], at.place) if peer else None
    volume, block = VOLUME.search(rest), BLOCK.search(rest)
    told = {
        "host": at.place.host,
        "suspect": suspect,
        "operation": operation,
        "took_ms": int(found[2]),
        "threshold_ms": int(found[3]),
        "volume": volume and printable(volume[1]),
        "block": block and block[1],
    }
    return (Told("SlowIo", told),)


def _volumes(at: Line) -> tuple[Told, ...] | None:
    if found := VOLUMES.match(at.message):
        told = {"host": at.place.host, "n_volumes": int(found[1]), "volumes": printable(found[2])}
        return (Told("VolumeFailed", told),)
    return None


def _client_trace(at: Line) -> tuple[Told, ...] | None:
    attributes = client_trace(at.message, at.place.host_named)
    if attributes is None:
        return None
    return (Told("ClientTrace", {"host": at.place.host, **attributes}),) if attributes else NOTHING


# ---- every daemon ----------------------------------------------------------------------------------------------


def _pause(at: Line) -> tuple[Told, ...] | None:
    if found := PAUSE.match(at.message):
        return (Told("JvmPause", {"host": at.place.host, "daemon": at.place.daemon, "pause_ms": int(found[1])}),)
    return None


def _credential(at: Line) -> tuple[Told, ...] | None:
    if found := EXPIRED_TICKET.match(at.message):
        what, user = "ticket expired", found[1]
    elif found := RENEWAL_COMMAND.match(at.message):
        what, user = "ticket not renewed", found[1]
    elif found := TOKEN_UNKNOWN.match(at.message):
        owner = OWNER.search(found[2])
        what, user = "token unknown", found[1] or (owner[1] if owner else None)
    elif found := TOKEN_RENEWAL.match(at.message):
        owner = OWNER.search(found[1])
        what, user = "token not renewed", owner[1] if owner else None
    else:
        return None
    told = {
        "host": at.place.host,
        "daemon": at.place.daemon,
        "problem": what,
        "user": user and printable(user),
        "reason": printable(at.message, 500),
    }
    return (Told("CredentialFailed", told),)


READERS: tuple[tuple[bytes, Reader], ...] = (
    (b"to LOST", _lost),
    (b"Expired:", _expired),
    (b"reported UNHEALTHY", _unhealthy),
    (b"containerID=", _killed),
    (b"to KILLING", _killed),
    (b"OOM handler", _killed),
    (b"Accepted application ", _application),
    (b"OPERATION=Submit Application Request", _application),
    (b"with final state: FAILED, and exit status", _master_failed),
    (b"Exit code from container ", _exit_code),
    (b"Exception from container-launch with container ID", _exit_code),
    (b"completed with exit code", _exit_code),
    (b"OPERATION=Container Finished - Failed", _container_failed),
    (b"NEW to LOCALIZING", _localised),
    (b"from LOCALIZING to ", _localised),
    (b"Localizer failed for ", _localizer_failed),
    (b"list of valid directories", _directory),
    (b"removeDeadDatanode: lost heartbeat", _datanode_lost),
    (b"STATE* ", _safe_mode),
    (b"Number of suppressed ", _lock_begins),
    (b"-lock held at ", _lock),
    (b" lock held for ", _old_lock),
    (b"to remote journal ", _journal),
    (b"Slow BlockReceiver write ", _slow),
    (b"Slow flushOrSync ", _slow),
    (b"Slow manageWriterOsCache ", _slow),
    (b"Slow PacketResponder send ack ", _slow),
    (b"failed volumes", _volumes),
    (b"Detected pause in JVM", _pause),
    (b"TGT is expired", _credential),
    (b"while running the renewal command for", _credential),
    (b"Failed to renew token", _credential),
    (b"be found in cache", _credential),
)
"""A text that every such line has, and what reads it; of several that tell something the first counts: a path may hold
any of these texts."""

CLIENT_TRACE: tuple[bytes, Reader] = (b"clienttrace", _client_trace)
"""Apart, since there is one for each block that is read or written."""

GOES_ON = b"-lock held at "
"""In a line that continues the record before it."""


def _of_container(container_id: str, place: Place) -> dict[str, Any]:
    return {"job_id": job_of_container(container_id), "host": place.host, "container_id": container_id}


def _host_of(address: str, place: Place) -> str:
    """The host of "name/address:port" or "address:port"."""
    name, _, numeric = address.rpartition("/")
    return place.host_named(name or _address(numeric))


def _address(text: str) -> str:
    """Without port and slash; an IPv6 address keeps its colons."""
    host, colon, port = text.lstrip("/").rpartition(":")
    return printable(
        host if colon and port.isdecimal() and (":" not in host or host.endswith("]")) else text.lstrip("/")
    )


def _cause(why: str) -> str | None:
    """Which memory a container was killed for; None when the line does not say that it was."""
    found = MEMORY.search(why)
    if found is None:
        return None
    return f"{found[1].lower()} memory" if found[1] else "node memory"


__all__ = ["CLIENT_TRACE", "GOES_ON", "NOTHING", "READERS", "Line", "Place", "Reader", "Remembered", "Told"]
