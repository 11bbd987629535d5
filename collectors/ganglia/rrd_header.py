"""The header of an RRD file, checked in full before librrd sees the file.

librrd trusts what a header says: a damaged one makes it read outside the file or fail in ways that are no Python error.
So layout, sizes and pointers are checked here, for the native 64-bit format that gmetad writes (version 0003 to 0005).
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass

from collectors.time_units import MAX_TIME_MS, SECOND_MS

STAT_HEAD = struct.Struct("<4s5s7xd3Q80x")
SOURCE = struct.Struct("<20s20s80x")
ARCHIVE = struct.Struct("<20s4x2Q80x")
LIVE_HEAD = struct.Struct("<qq")
POINTER_BYTES = 8
PDP_PREP_BYTES = 112
CDP_PREP_BYTES = 80

COOKIE = b"RRD\0"
VERSIONS = frozenset({b"0003\0", b"0004\0", b"0005\0"})
FLOAT_COOKIE = 8.642135e130
"""Written as a double: anything else means another byte order or word size."""

FUNCTIONS = frozenset(
    {"AVERAGE", "MIN", "MAX", "LAST", "HWPREDICT", "MHWPREDICT", "SEASONAL", "DEVPREDICT", "DEVSEASONAL", "FAILURES"}
)

MAX_SOURCES = 1_000
MAX_ARCHIVES = 1_000
MAX_STEP_S = 366 * 86_400
MAX_ROWS = 1 << 32
MAX_TIME_S = MAX_TIME_MS // SECOND_MS
HEAD_READ_BYTES = 4096


class RrdError(Exception):
    """A file that is no RRD, is damaged, or is not one that gmetad writes; the message says which."""


class RrdUnreadableError(RrdError):
    """A file that the system does not let us read, whatever it is."""


@dataclass(frozen=True, slots=True)
class RrdHeader:
    """What the header of a sound file says."""

    step_s: int
    updated_s: int
    """Seconds since the epoch of the last update."""
    sources: tuple[str, ...]
    """Names of the data sources."""
    archives: tuple[tuple[str, int, int], ...]
    """(consolidation function, steps per row, rows)."""
    fixed: bytes
    """The part that never changes: an update writes behind it."""


def read_header(path: str, known: RrdHeader | None = None) -> RrdHeader:
    """Read and check the header of the file; raises RrdError. What is as in `known` is not checked again."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - paths with undecodable names stay plain strings
            head = file.read(HEAD_READ_BYTES)
            if known is None or not head.startswith(known.fixed):
                known = _fixed_part(head, file)
            n_header_bytes = _header_bytes(len(known.sources), len(known.archives))
            if n_header_bytes > len(head):
                file.seek(0)
                head = file.read(n_header_bytes)
            n_file_bytes = file.seek(0, 2)
    except OSError as error:
        raise RrdUnreadableError(f"file cannot be read: {error.strerror or error}") from error
    if len(head) < n_header_bytes:
        raise RrdError(f"cut off: its header needs {n_header_bytes} bytes, it has {len(head)}")
    n_bytes = n_header_bytes + sum(n_rows for _, _, n_rows in known.archives) * len(known.sources) * 8
    if n_file_bytes < n_bytes:
        raise RrdError(f"cut off: its header promises {n_bytes} bytes, it has {n_file_bytes}")
    updated_s, _ = LIVE_HEAD.unpack_from(head, len(known.fixed))
    if not 0 <= updated_s <= MAX_TIME_S:
        raise RrdError(f"damaged header: its last update is {updated_s} s after the epoch")
    pointers = struct.unpack_from(f"<{len(known.archives)}Q", head, n_header_bytes - len(known.archives) * 8)
    for i, ((_, _, n_rows), row) in enumerate(zip(known.archives, pointers, strict=True)):
        if row >= n_rows:
            raise RrdError(f"damaged header: archive {i} points to row {row} of {n_rows}")
    return RrdHeader(known.step_s, updated_s, known.sources, known.archives, known.fixed)


def _fixed_part(head: bytes, file: io.RawIOBase | io.FileIO) -> RrdHeader:
    n_sources, n_archives, step_s = _stat_head(head)
    n_fixed_bytes = STAT_HEAD.size + n_sources * SOURCE.size + n_archives * ARCHIVE.size
    if n_fixed_bytes > len(head):
        file.seek(0)
        head = file.read(n_fixed_bytes) or b""
    if len(head) < n_fixed_bytes:
        raise RrdError(f"cut off: its header needs more than {n_fixed_bytes} bytes, it has {len(head)}")
    at = STAT_HEAD.size
    sources = tuple(_name(head, at + i * SOURCE.size) for i in range(n_sources))
    at += n_sources * SOURCE.size
    archives = tuple(_archive(head, at + i * ARCHIVE.size) for i in range(n_archives))
    return RrdHeader(step_s, 0, sources, archives, head[:n_fixed_bytes])


def _stat_head(head: bytes) -> tuple[int, int, int]:
    if len(head) < STAT_HEAD.size or not head.startswith(COOKIE):
        raise RrdError("not an RRD file")
    _, version, float_cookie, n_sources, n_archives, step_s = STAT_HEAD.unpack_from(head)
    if version not in VERSIONS or float_cookie != FLOAT_COOKIE:
        raise RrdError(f"an RRD of version {version!r} or of another machine's format; expected 0003 to 0005, 64 bits")
    if not (1 <= n_sources <= MAX_SOURCES and 1 <= n_archives <= MAX_ARCHIVES and 1 <= step_s <= MAX_STEP_S):
        raise RrdError(f"damaged header: {n_sources} data sources, {n_archives} archives, step {step_s} s")
    return n_sources, n_archives, step_s


def _header_bytes(n_sources: int, n_archives: int) -> int:
    return (
        STAT_HEAD.size
        + n_sources * (SOURCE.size + PDP_PREP_BYTES)
        + n_archives * (ARCHIVE.size + n_sources * CDP_PREP_BYTES + POINTER_BYTES)
        + LIVE_HEAD.size
    )


def _name(head: bytes, at: int) -> str:
    raw, kind = SOURCE.unpack_from(head, at)
    name: str = raw.split(b"\0")[0].decode("ascii", "replace")
    if not name or not name.replace("_", "a").replace("-", "a").isalnum() or not name.isascii() or b"\0" not in kind:
        raise RrdError(f"damaged header: a data source named {name!r}")
    return name


def _archive(head: bytes, at: int) -> tuple[str, int, int]:
    raw, n_rows, n_steps = ARCHIVE.unpack_from(head, at)
    function = raw.split(b"\0")[0].decode("ascii", "replace")
    if function not in FUNCTIONS or not 1 <= n_rows <= MAX_ROWS or not 1 <= n_steps <= MAX_ROWS:
        raise RrdError(f"damaged header: an archive of {n_rows} rows of {n_steps} steps by {function!r}")
    return function, n_steps, n_rows
