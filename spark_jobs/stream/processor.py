"""transformWithState: one key per bucket, its engine's state in the state store, a timer that every watermark fires.

Rows are packs of events (see `stream_packs`), so that no Python object stands for an event.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa
from pyarrow import ipc
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from spark_jobs.stream.bucket import NO_SOURCE, Bucket, BucketOutput, status_content
from spark_jobs.stream.groups import StreamPlan, digest
from spark_jobs.stream.packs import BUCKET, GROUP, NO_EVENTS
from spark_jobs.stream.parts import BucketCache, Cached, Head, read_parts, state_bytes, write_parts
from spark_jobs.stream.rows import EVIDENCE, LATE, MATCH, STATUS, TOLD, event_content, match_content

ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

CONF = {
    "spark.sql.streaming.stateStore.providerClass": ROCKS_DB,
    # What changed of a micro-batch is written, not a snapshot of everything.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""What a session needs for it."""

_CACHE = BucketCache()


def output_rows(packs: DataFrame, plan: StreamPlan) -> DataFrame:
    """What the buckets tell (rows of TOLD) of a stream of packs that carries an event-time watermark."""
    return packs.groupBy(GROUP, BUCKET).transformWithState(BucketProcessor(plan), TOLD, "Append", "EventTime")


class BucketProcessor(StatefulProcessor):
    """Restores, steps and saves the buckets of a partition."""

    def __init__(self, plan: StreamPlan) -> None:
        self._plan = plan
        self._digests = {group.name: digest(group) for group in plan.groups}

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark per partition and micro-batch."""
        self._handle = handle
        self._head = handle.getValueState("head", "head string")
        self._parts = _Parts(handle.getMapState("parts", "name string", "data binary"))

    def handleInputRows(  # type: ignore[override]  # rows, as transformWithState gives them; no frames
        self, key: Any, rows: Iterator[Row], timerValues: TimerValues
    ) -> Iterator[Row]:
        """New packs, and the watermark of the micro-batch."""
        if key[0] == NO_EVENTS:
            return _no_events(rows, timerValues.getCurrentWatermarkInMs())
        tables = (ipc.open_stream(pa.py_buffer(row.pack)).read_all() for row in rows)
        return self._step(str(key[0]), int(key[1]), tables, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        """The watermark moved and the bucket got nothing: its windows close all the same."""
        group, number = str(key[0]), int(key[1])
        return self._step(group, number, iter(()), timerValues.getCurrentWatermarkInMs(), expired=True)

    def close(self) -> None:
        """Nothing is held open."""

    def _step(
        self, group: str, number: int, tables: Iterator[pa.Table], watermark_ms: int, *, expired: bool = False
    ) -> Iterator[Row]:
        if group not in self._digests:  # the group is no more, and its state goes
            self._head.clear()
            self._parts.clear()
            return
        started = time.perf_counter()
        key = (self._plan.stream_id, group, number)
        stored = self._head.get()
        head = None if stored is None else Head.from_json(stored[0])
        cached = None if head is None else _CACHE.take(key, head.token)
        restored = cached is None and head is not None
        began_again: frozenset[str] = frozenset()
        if cached is None:
            cached = Cached(Bucket(self._plan.group(group), self._plan.options, number))
            if head is not None:
                found, cached.digests = read_parts(self._parts)
                began_again = cached.bucket.restore(found)
        told = cached.bucket.step(tables, watermark_ms)
        n_written = write_parts(cached, cached.bucket.save(), self._parts)
        if head is not None and head.timer_ms is not None and not expired:
            self._handle.deleteTimer(head.timer_ms)
        timer_ms = told.watermark_ms + 1
        self._handle.registerTimer(timer_ms)
        n_bytes = state_bytes(cached)
        self._head.update((Head(cached.token, self._digests[group], timer_ms, n_bytes).to_json(),))
        _CACHE.put(key, cached)
        status = status_content(
            told,
            state_bytes=n_bytes,
            written_bytes=n_written,
            restored=restored,
            began_again=sorted(began_again),
            seconds=time.perf_counter() - started,
            pid=os.getpid(),
        )
        yield from output_as_rows(told, group, number, status)


def output_as_rows(told: BucketOutput, group: str, number: int, status: str) -> Iterator[Row]:
    """What a call of a bucket found, as rows of TOLD."""

    def row(kind: str, content: str, query: str | None = None) -> Row:
        return Row(
            kind=kind,
            bucket_group=group,
            bucket=number,
            watermark_ms=told.watermark_ms,
            query=query,
            content=content,
        )

    yield row(STATUS, status)
    for place, match in enumerate(told.matches):
        yield row(MATCH, match_content(match, told.digests.get(place)), match.query)
    for known in told.evidence:
        yield row(EVIDENCE, event_content(known._asdict()))
    for event in told.late:
        yield row(LATE, event_content(event))


def _no_events(rows: Iterator[Row], watermark_ms: int) -> Iterator[Row]:
    """Records that are no events: told and forgotten."""
    told = BucketOutput(watermark_ms)
    for row in rows:
        found = json.loads(bytes(row.pack))
        message = f"{found['n']} records are no events: {'; '.join(found['first'])}"
        told.problems.append((NO_SOURCE, NO_SOURCE, "no_event", message))
        told.counters["rejected", NO_SOURCE, ""] += found["n"]
    return output_as_rows(told, NO_EVENTS, 0, status_content(told))


class _Parts:
    """The map of a bucket's parts in the state store."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def items(self) -> Iterator[tuple[str, bytes]]:
        for name in [str(key[0]) for key in self._state.keys()]:  # noqa: SIM118  # no mapping: it has keys() alone
            value = cast("tuple[Any]", self._state.getValue((name,)))
            yield name, bytes(value[0])

    def put(self, name: str, data: bytes) -> None:
        self._state.updateValue((name,), (data,))

    def remove(self, name: str) -> None:
        self._state.removeKey((name,))

    def clear(self) -> None:
        self._state.clear()


__all__ = ["CONF", "BucketProcessor", "output_as_rows", "output_rows"]
