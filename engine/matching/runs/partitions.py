"""Which events of a batch are offered to runs by the run-based runtime, and in which partition."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.events import TIME_ATTRIBUTE, AttributeType, BoolArray, Int64Array
from engine.kernels.columns.partitions import BROADCAST, NOWHERE
from engine.kernels.runs.arrays import N_LIVE
from engine.kernels.runs.recent_starts import claim_partitions, live_among, mark_found, near_starts, runs_reach
from engine.language import ast
from engine.matching.runs.memory import RunMemory
from engine.plan.sequence.model import SequencePlan
from engine.stream.columns import PartitionLists, StreamColumns
from engine.stream.early_filter import EarlyFilter
from engine.stream.key_table import KeyTable
from engine.stream.row_numbers import each_once
from engine.stream.run_store import RunStore

_CLAIMED = -3
_DENSE = 0.4
"""From such a share of rows near a start on, looking at all rows in order is quicker than following lists."""
_NO_ROWS: Int64Array = np.empty(0, np.int64)


class Offered(NamedTuple):
    """Rows of a batch, ascending, int64 (n,); their partitions, and which edge accepts them, bool (n_roles, n): see
    `engine.kernels.runs.arrays`."""

    rows: Int64Array
    partition: Int64Array
    roles: BoolArray


class RunPartitions:
    """Numbers for the partitions of one plan by `key`: its own, or one that it implies.

    Without broadcast types only events near one that begins the pattern, or a live run, are offered, and only such a
    partition has a number: both grow with the partitions at work, not with the stream and its keys.
    """

    def __init__(self, plan: SequencePlan, key: tuple[str, ...], early: EarlyFilter) -> None:
        self._plan = plan
        self._key = key
        self._filter = early
        self._is_dense = False
        contiguous = plan.strategy is ast.Strategy.PARTITION_CONTIGUITY
        # Whether a broadcast event follows at once is told by the newest event of each partition.
        self._also = tuple(sorted(plan.keyed_types)) if contiguous and plan.broadcast else ()
        # Before the first event, and after the last one, no run may be there that would need a negated event.
        self._apart = [k for k, n in enumerate(plan.negations) if n.after < 0 or n.after == plan.n_steps - 1]

    def of(self, stream: StreamColumns, store: RunStore, memory: RunMemory) -> Offered:
        """What of a batch is offered; new partitions get numbers in the store."""
        return self._of_all(stream, store.keys) if self._plan.broadcast else self._near(stream, store, memory)

    # ------------------------------------------------------------ near starts

    def _near(self, stream: StreamColumns, store: RunStore, memory: RunMemory) -> Offered:
        starts = _precise(stream, self._filter.begins(stream))
        others = _NO_ROWS
        if self._apart:
            others = _precise(stream, self._filter.negates(stream, self._apart))
        if not len(starts) and not len(others) and not memory.count(N_LIVE):
            return Offered(_NO_ROWS, _NO_ROWS, self._filter.accepted(stream, _NO_ROWS))
        lists = stream.partition_lists(self._key, self._plan.attribute_types, self._plan.types)
        numbers, within_ms = lists.partitions.numbers, self._plan.within_ms
        own = self._known(stream, lists, store.keys)
        until_ms = runs_reach(own, memory.chains, memory.runs, store.t_lo_ms, within_ms)
        adding = each_once(starts, others) if len(others) else starts
        fresh = claim_partitions(adding, numbers, own, NOWHERE, _CLAIMED)
        if len(fresh):
            with stream.lock:
                keys = lists.partitions.table.columns(fresh)
            own[fresh] = store.keys.numbers(keys)
        if self._is_dense:
            offered = self._dense(stream, starts, others, numbers, until_ms, own)
        else:
            rows, partition = near_starts(
                starts, others, numbers, lists.first, lists.following, stream.t_lo_ms, within_ms, until_ms, own
            )
            self._is_dense = len(rows) > _DENSE * lists.n_rows
            roles = self._filter.accepted(stream, rows)
            partition[~np.logical_or.reduce(roles, axis=0)] = NOWHERE
            offered = Offered(rows, partition, roles)
        return offered

    def _dense(
        self,
        stream: StreamColumns,
        starts: Int64Array,
        others: Int64Array,
        numbers: Int64Array,
        until_ms: Int64Array,
        own: Int64Array,
    ) -> Offered:
        """What is offered where runs are nearly everywhere: edges are asked first, then runs about what they accept."""
        by_role = self._filter.by_role(stream)
        requested = {id(found): found for found in by_role}  # several edges may accept the same rows
        marks = np.zeros((len(stream) + 7) // 8 * 8, np.uint8)
        for found in requested.values():
            marks[found] = 1
        marks[others] = 3
        marks[starts] = 2
        n_marked = int(np.count_nonzero(marks))
        rows, partition = live_among(
            marks, n_marked, numbers, stream.t_lo_ms, stream.t_hi_ms, self._plan.within_ms, until_ms, own
        )
        self._is_dense = len(rows) > _DENSE * n_marked
        roles: BoolArray = np.zeros((len(by_role), len(rows)), np.bool_)
        marked: dict[int, BoolArray] = {}
        for found, accepted in zip(by_role, roles, strict=True):
            if id(found) in marked:
                accepted[:] = marked[id(found)]
            else:
                mark_found(rows, found, accepted)
                marked[id(found)] = accepted
        return Offered(rows, partition, roles)

    def _known(self, stream: StreamColumns, lists: PartitionLists, keys: KeyTable) -> Int64Array:
        """The own numbers of the partitions of a batch, NOWHERE where a number is not needed or not there."""
        table, n = lists.partitions.table, len(lists.first)
        own: Int64Array = np.full(n, NOWHERE, np.int64)
        if len(keys) > n:
            with stream.lock:
                columns = table.columns(np.arange(n))
            own[:] = keys.numbers_where(columns, np.zeros(n, np.bool_), NOWHERE)
        elif len(keys):
            with stream.lock:
                found = table.numbers_where(keys.columns(np.arange(len(keys))), np.zeros(len(keys), np.bool_), NOWHERE)
            here = np.flatnonzero((found >= 0) & (found < n))
            own[found[here]] = here
        return own

    # ------------------------------------------------------------- all events

    def _of_all(self, stream: StreamColumns, keys: KeyTable) -> Offered:
        """All events that an edge accepts: those of all partitions make runs that any event may go on with."""
        plan = self._plan
        roles = self._filter.accepted(stream)
        accepted: BoolArray = np.any(roles, axis=0)
        of_all: BoolArray = np.zeros(len(stream), np.bool_)
        for name in plan.broadcast:
            of_all[stream.rows_of_type(name)] = True
        keyed = accepted & ~of_all
        for name in self._also:
            keyed[stream.rows_of_type(name)] = True
        offered = accepted | keyed
        for name in self._key:
            keyed &= ~np.isnan(stream.column(name, self._kind(name)))
        if not stream.is_precise:
            precise = stream.t_lo_ms == stream.t_hi_ms
            keyed &= precise
            offered &= precise
        rows = np.flatnonzero(keyed)
        numbers: Int64Array = np.full(len(stream), NOWHERE, np.int64)
        numbers[accepted & of_all] = BROADCAST
        numbers[rows] = keys.numbers(np.stack([stream.column(name, self._kind(name))[rows] for name in self._key]))
        chosen = np.flatnonzero(offered)
        return Offered(chosen, numbers[chosen], np.ascontiguousarray(roles[:, chosen]))

    def _kind(self, name: str) -> AttributeType:
        return AttributeType.INT if name == TIME_ATTRIBUTE else self._plan.attribute_types[name]


def _precise(stream: StreamColumns, rows: Int64Array) -> Int64Array:
    """Those of the rows whose time is no interval."""
    return rows if stream.is_precise else rows[stream.t_lo_ms[rows] == stream.t_hi_ms[rows]]


__all__ = ["Offered", "RunPartitions"]
