"""A bucket's state between micro-batches: Arrow tables as IPC bytes, of which only those that changed are written.

A bucket is kept in the worker process as a cache. What is current is what the state store has: each write leaves a
random token there, and a cached bucket counts only with that token. So a task that is tried again, a partition that
moved and a query that was restarted from its checkpoint all read the state.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
from pyarrow import ipc

from engine.errors import StateError
from spark_jobs.stream.bucket import Bucket

STATE_FORMAT = 1
MAX_CACHED = 256
"""Buckets that one worker process keeps at most."""

BucketKey = tuple[str, str, int]
"""Stream, group, number."""


class PartMap(Protocol):
    """What is needed of the state store: parts by name."""

    def items(self) -> Iterator[tuple[str, bytes]]:
        """All parts."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write one."""
        ...

    def remove(self, name: str) -> None:
        """Forget one."""
        ...


@dataclass(frozen=True)
class Head:
    """What belongs to the parts as a whole."""

    token: str
    digest: str
    """Of the group's meaning when it was written."""
    timer_ms: int | None
    n_bytes: int

    def to_json(self) -> str:
        """As text for the state store."""
        return json.dumps(
            {
                "format": STATE_FORMAT,
                "token": self.token,
                "digest": self.digest,
                "timer_ms": self.timer_ms,
                "n_bytes": self.n_bytes,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Head:
        """What `to_json` gave; raises StateError for another format."""
        found = json.loads(text)
        if found.get("format") != STATE_FORMAT:
            raise StateError(
                f"the state of a bucket has format {found.get('format')}; expected {STATE_FORMAT}: it was written by "
                "another version of the program; use that one, or begin with a new checkpoint folder"
            )
        return cls(found["token"], found["digest"], found["timer_ms"], found["n_bytes"])


@dataclass
class Cached:
    """A bucket in memory and what the state store has of it."""

    bucket: Bucket
    token: str = ""
    digests: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By part: digest and size of the bytes that are stored."""
    tables: dict[str, pa.Table] = field(default_factory=dict)
    """The tables that were written: the same object need not be looked at again."""


class BucketCache:
    """Buckets of one worker process, the least recently used go first."""

    def __init__(self, most: int = MAX_CACHED) -> None:
        self._most = most
        self._kept: OrderedDict[BucketKey, Cached] = OrderedDict()

    def take(self, key: BucketKey, token: str) -> Cached | None:
        """The bucket, if it is what the state store has; whoever takes it puts it back when all went well."""
        cached = self._kept.pop(key, None)
        return cached if cached is not None and cached.token == token else None

    def put(self, key: BucketKey, cached: Cached) -> None:
        """Keep it for the next micro-batch."""
        self._kept[key] = cached
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)


def read_parts(parts: PartMap) -> tuple[dict[str, pa.Table], dict[str, tuple[str, int]]]:
    """The tables and the digests of what is stored; raises StateError for a part that is no table."""
    tables: dict[str, pa.Table] = {}
    digests: dict[str, tuple[str, int]] = {}
    for name, data in parts.items():
        try:
            tables[name] = ipc.open_stream(pa.py_buffer(data)).read_all()
        except pa.ArrowInvalid as error:
            raise StateError(f"the state's part {name} is damaged: {error}") from error
        digests[name] = (_digest(data), len(data))
    return tables, digests


def write_parts(cached: Cached, tables: Mapping[str, pa.Table], parts: PartMap) -> int:
    """Write what changed and remove what is no more; returns the bytes written. The cache gets a new token."""
    n_written = 0
    for name, table in tables.items():
        if cached.tables.get(name) is table:
            continue
        data = _stream(table)
        found = (_digest(data), len(data))
        if cached.digests.get(name) != found:
            parts.put(name, data)
            cached.digests[name] = found
            n_written += len(data)
    for name in cached.digests.keys() - tables.keys():
        parts.remove(name)
        del cached.digests[name]
    cached.tables = dict(tables)
    cached.token = secrets.token_hex(16)
    return n_written


def state_bytes(cached: Cached) -> int:
    """Size of all that is stored of a bucket."""
    return sum(n_bytes for _, n_bytes in cached.digests.values())


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


__all__ = ["BucketCache", "BucketKey", "Cached", "Head", "PartMap", "read_parts", "state_bytes", "write_parts"]
