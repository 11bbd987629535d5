"""Runs in the partitions by all attributes of a key, of which some types have a part (DESIGN 3, "[x]").

An event of a type with a part of the key is in every partition that agrees with what it has. A run stays within one
partition: what it ignores, and what ends it, is told by its events. So each event is seen once per partition of its
own; a partition is known when an event, or the values of several, have given its key, and is then shown the earlier
events of the window that are in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import FOREVER_MS, BoolArray, EventBatch, Int64Array
from engine.language import ast
from engine.matching.brake import braked
from engine.matching.output.listed import Matches
from engine.matching.output.match_row import MatchRow
from engine.matching.output.results import ALL_MATCHES, TakesMatches
from engine.matching.positioned import PositionedColumns, PositionedRows, Sequels
from engine.matching.protocol import Limits, Runtime
from engine.plan.model import Plan
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner
from engine.stream.positions import PartitionPositions

_STATE_VERSION = 1
_LEAST_PARTITIONS = 1024
_NEVER_MS = -(2**62)


class TakenMatches(TakesMatches):
    """What the runs find, to be handed on; implements `engine.matching.output.results.TakesMatches`."""

    def __init__(self) -> None:
        self.n_unfinished = 0
        self.found: Matches | None = None

    def take(
        self, found: Matches, stream: StreamColumns, watermark_ms: int, *, longest_ms: int = 0
    ) -> Sequence[MatchRow]:
        """No rows."""
        del stream, watermark_ms, longest_ms
        self.found = replace(found, in_order=False)
        return []

    @property
    def n_wanted(self) -> int:
        """All: what becomes of them is not known here."""
        return ALL_MATCHES

    def buffered_from_ms(self, watermark_ms: int) -> int:
        """Nothing waits here."""
        return watermark_ms

    def save(self) -> dict[str, pa.Table]:
        """Nothing."""
        return {}

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Nothing was saved."""


class PartialKeyRuntime:
    """Run state of one spread plan; implements `engine.matching.protocol.Runtime`.

    `runtime`: run state of the plan keyed by all of its key; it hands its matches to `taken`. Imprecise events are
    refused and counted in `n_rejected`.
    """

    def __init__(
        self,
        plan: Plan,
        interner: Interner,
        limits: Limits,
        results: TakesMatches,
        runtime: Runtime,
        taken: TakenMatches,
        *,
        needs_whole: bool,
    ) -> None:
        self.plan = plan
        self.limits = limits
        self.n_rejected = 0
        self._interner = interner
        self._results = results
        self._runtime = runtime
        self._taken = taken
        attributes_of_type = {name: frozenset(has) for name, has in plan.key_of_type.items()}
        self._positions = PartitionPositions(
            plan.match_key,
            plan.attribute_types,
            attributes_of_type,
            frozenset(attributes_of_type),
            needs_whole=needs_whole,
        )
        self._placed = PositionedRows()
        self._sequels = Sequels()
        self._newest_ms: Int64Array = np.empty(0, np.int64)  # by partition
        self._n_kept = 0
        self._recent = EventBatch.empty()  # the last events that may be in several partitions
        self._recent_numbers: Int64Array = np.empty(0, np.int64)
        self._n_seen = 0

    @property
    def n_rows(self) -> int:
        """Events kept, in every partition that has them."""
        return self._runtime.n_rows

    @property
    def n_unfinished(self) -> int:
        """See `Runtime.n_unfinished`."""
        return self._results.n_unfinished + self._runtime.n_unfinished

    @braked
    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """See `Runtime.advance`."""
        positions, n_known, n_earlier = self._positions, len(self._positions.keys), 0
        whole, given = stream, self._given(stream)
        numbers = self._n_seen + np.arange(len(stream))
        if positions.begin(stream) and len(self._recent):
            n_earlier = len(self._recent)
            given = np.concatenate([self._given(StreamColumns(self._recent, self._interner)), given])
            numbers = np.concatenate([self._recent_numbers, numbers])
            whole = StreamColumns(EventBatch.concat([self._recent, stream.batch]), self._interner)
        self.n_rejected += stream.n_imprecise(self.plan.types)
        at = positions.assign(whole, given, n_earlier, n_known)
        order = np.argsort(at.rows, kind="stable")
        rows, partition, position = at.rows[order], at.partition[order], at.position[order]
        contiguous = self.plan.strategy is ast.Strategy.PARTITION_CONTIGUITY
        follows = self._sequels.follow(partition, position) if contiguous else None
        times_ms = whole.t_lo_ms[rows]
        self._placed.append(partition, position, times_ms, numbers[rows])
        known = np.full(len(positions.keys) - len(self._newest_ms), _NEVER_MS, np.int64)
        self._newest_ms = np.append(self._newest_ms, known)
        np.maximum.at(self._newest_ms, partition, times_ms)
        seen = PositionedColumns(whole, rows, times_ms, positions.key, positions.keys.columns(partition), follows)
        self._runtime.advance(seen, watermark_ms)
        self._remember(stream, watermark_ms)
        self._n_seen += len(stream)
        found = self._in_stream(self._taken.found)
        self._forget(watermark_ms)
        return self._results.take(found, stream, watermark_ms)

    def output_watermark_ms(self, watermark_ms: int) -> int:
        """See `Runtime.output_watermark_ms`."""
        return self._results.buffered_from_ms(self._runtime.output_watermark_ms(watermark_ms))

    def _given(self, stream: StreamColumns) -> BoolArray:
        """The rows that runs get: precise ones of the query's types. Others have their positions, too."""
        given: BoolArray = np.zeros(len(stream), np.bool_)
        for name in self.plan.types:
            given[stream.rows_of_type(name)] = True
        given &= stream.t_lo_ms == stream.t_hi_ms
        return given

    def _in_stream(self, found: Matches | None) -> Matches:
        """The matches with the numbers that their events have in the stream."""
        assert found is not None
        at, _ = self._placed.at(found.events.number)
        events = found.events._replace(number=self._placed.stream_number[at])
        return replace(found, events=events, cut=self._placed.cut_in_stream(found.cut))

    def _remember(self, stream: StreamColumns, watermark_ms: int) -> None:
        """Keep the last events that may be in several partitions for partitions that are still to come."""
        others = self._positions.others(stream)
        recent = EventBatch.concat([self._recent, stream.batch.take(others)])
        numbers = np.concatenate([self._recent_numbers, self._n_seen + others])
        kept = np.flatnonzero(recent.t_hi_ms >= self._earliest_ms(watermark_ms))
        self._recent, self._recent_numbers = recent.take(kept), numbers[kept]

    def _earliest_ms(self, watermark_ms: int) -> int:
        """No event before has to do with a match to come: it begins a window ago, and what it forbids before it lies a
        window further back."""
        return max(watermark_ms - 2 * self.plan.within_ms, -FOREVER_MS)

    def _forget(self, watermark_ms: int) -> None:
        """Now and then forget the partitions, and the rows, that lie further back."""
        earliest_ms = self._earliest_ms(watermark_ms)
        if self._placed.is_to_be_looked_at:
            self._placed.keep(self._placed.time_ms >= earliest_ms)
        n = len(self._newest_ms)
        if n < 2 * self._n_kept + _LEAST_PARTITIONS:
            return
        kept = np.flatnonzero(self._newest_ms >= earliest_ms)
        self._positions.keep(kept)
        self._newest_ms, self._n_kept = self._newest_ms[kept], len(kept)
        if len(self._sequels.latest):
            latest = np.append(self._sequels.latest, np.full(n - len(self._sequels.latest), -2))
            self._sequels.latest = latest[kept]

    # ------------------------------------------------------------------ state

    def save(self) -> dict[str, pa.Table]:
        """Partitions, "runs:part" of the runs, the last events of several partitions, results."""
        meta = {
            "version": str(_STATE_VERSION),
            "n_seen": str(self._n_seen),
            "n_rejected": str(self.n_rejected),
            "places": self._positions.save(),
            "sequels": json.dumps(self._sequels.latest.tolist()),
            "newest_ms": json.dumps(self._newest_ms.tolist()),
        }
        return {
            **{f"runs:{name}": table for name, table in self._runtime.save().items()},
            "spread": pa.table({"number": self._recent_numbers}).replace_schema_metadata(meta),
            "spread_recent": self._recent.table,
            "spread_placed": self._placed.save(),
            **self._results.save(),
        }

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned; raises StateError when it does not fit."""
        if missing := {"spread", "spread_recent", "spread_placed"} - set(state):
            raise StateError(f"saved state of {self.plan.name} lacks {sorted(missing)}")
        meta: Mapping[bytes, bytes] = state["spread"].schema.metadata or {}
        if meta.get(b"version") != str(_STATE_VERSION).encode():
            raise StateError(
                f"saved partitions of {self.plan.name} have version {meta.get(b'version')!r}, expected {_STATE_VERSION}"
            )
        self._n_seen, self.n_rejected = int(meta[b"n_seen"]), int(meta[b"n_rejected"])
        self._positions.restore(meta[b"places"].decode())
        self._sequels.latest = np.array(json.loads(meta[b"sequels"]), np.int64)
        self._newest_ms = np.array(json.loads(meta[b"newest_ms"]), np.int64)
        self._recent = EventBatch(state["spread_recent"])
        self._recent_numbers = np.array(state["spread"].column("number").to_numpy(), np.int64)
        self._placed.restore(state["spread_placed"])
        own = {k.removeprefix("runs:"): table for k, table in state.items() if k.startswith("runs:")}
        self._runtime.restore(own)
        self._results.restore(state)


__all__ = ["PartialKeyRuntime", "TakenMatches"]
