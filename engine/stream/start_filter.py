"""Events that no match can contain, because no first event lies before them within the window, are not stored."""

from __future__ import annotations

import numpy as np

from engine.events import Int64Array
from engine.kernels.columns.intake import AT, N_FOUND, N_KNOWN, N_NEW, N_STORED, UNTIL_MS, take_in
from engine.plan.model import Plan
from engine.stream.columns import StreamColumns
from engine.stream.early_filter import EarlyFilter, Masks
from engine.stream.store import EventStore

_NEVER = -(2**62)
_ALL: Int64Array = np.empty(0, np.int64)
"""In place of the numbers of all rows of a batch."""


class StartFilter:
    """The newest first event of each partition, and what it lets pass.

    Sound for precise events: a first event stands before all others of its match in stream order. Batches with
    imprecise events pass whole.
    """

    def __init__(self, plan: Plan, early: EarlyFilter) -> None:
        self._plan = plan
        self._early = early
        self.within_ms = plan.within_ms
        """The window; several queries may have a longer one together."""
        self._latest_ms: Int64Array = np.full(64, _NEVER, np.int64)
        self._newest_ms = _NEVER
        self._types = frozenset(plan.types)
        self._positions: dict[tuple[str, ...], Int64Array] = {}
        self._types_in_order = types = sorted(plan.types)
        # What a leading negation forbids comes before every event of the match.
        leading = [False] * (2 * plan.n_steps) + [negation.after < 0 for negation in plan.negations]
        edges = [(-1, 0, 0) if edge is None else (types.index(edge[0]), *edge[1:]) for edge in early.edges]
        self._roles = np.array([(*edge, free) for edge, free in zip(edges, leading, strict=True)], np.int64)
        self._any_free = any(leading)
        self._broadcast = np.array([name in plan.broadcast for name in types], np.bool_)
        self._key = np.array([early.names.index(name) for name in plan.key], np.int64)
        self._adds_all = not plan.key or self._any_free or plan.steps[0].event_type in plan.broadcast

    def take_in(self, stream: StreamColumns, store: EventStore, masks: Masks) -> None:
        """Filter a batch and append what is left of it to the store and its masks."""
        if not stream.is_precise:
            survivors = self._early.select(stream)
            masks.append(survivors, len(store))
            start, end = store.append(stream, survivors.rows)
            self._notice(store, masks, start, end)
        else:
            self._take_in_at_once(stream, store, masks)

    def enter_again(self, store: EventStore, masks: Masks) -> None:
        """The store has dropped rows, and numbers its partitions anew."""
        self._latest_ms = np.full(max(64, 2 * store.n_partitions), _NEVER, np.int64)
        self._notice(store, masks, 0, len(store))

    def _take_in_at_once(self, stream: StreamColumns, store: EventStore, masks: Masks) -> None:
        """Precise events alone."""
        firsts = self._early.firsts(stream)
        rows = _ALL if stream.has_only(self._types) else stream.rows_of_types(self._types)[0]
        n_rows = len(stream) if rows is _ALL else len(rows)
        within_ms, keys, programs = self.within_ms, store.key_table, self._plan.programs
        until_ms = self._newest_ms + within_ms
        first_ms = stream.t_lo_ms[0 if rows is _ALL else rows[0]] if n_rows else until_ms
        if not n_rows or (not len(firsts) and not self._any_free and first_ms > until_ms):
            store.taken(stream, len(store))
            return
        cursor = np.array([0, 0, len(store), len(keys), until_ms, 0, 0], np.int64)
        columns, types = self._early.columns(stream), stream.types_by_row[0]
        t_ms, codes, clocks = stream.integers
        source_seq, source_rows = stream.sources
        positions = self._positions.get(types)
        if positions is None:
            positions = self._positions[types] = stream.type_numbers(self._types_in_order)
        while True:
            masks.reserve(len(store.t_lo_ms))
            self._reserve(len(keys.bits()))
            take_in(
                t_ms, codes, source_seq, source_rows, clocks, columns, rows, firsts, store.n_seen, programs.code,
                programs.bounds, self._early.constants, self._roles, positions, self._broadcast, self._key,
                self._adds_all, within_ms, self._latest_ms, keys.slots, keys.bits(), store.flat, store.columns,
                masks.table, cursor,
            )  # fmt: skip
            keys.entered(int(cursor[N_KNOWN]))
            if cursor[AT] == n_rows:
                break
            store.reserve(_foreseen(cursor, len(store), n_rows))
            keys.reserve(int(cursor[N_NEW]))
        store.taken(stream, int(cursor[N_STORED]))
        self._newest_ms = int(cursor[UNTIL_MS]) - within_ms

    def _notice(self, store: EventStore, masks: Masks, start: int, end: int) -> None:
        firsts = start + np.flatnonzero(masks.begin[0, start:end])
        if not len(firsts):
            return
        self._reserve(store.n_partitions)
        np.maximum.at(self._latest_ms, store.partition[firsts] + 1, store.t_hi_ms[firsts])
        self._newest_ms = max(self._newest_ms, int(store.t_hi_ms[firsts].max()))

    def _reserve(self, n_partitions: int) -> None:
        if len(self._latest_ms) < n_partitions + 1:
            grown = np.full(2 * (n_partitions + 1), _NEVER, np.int64)
            grown[: len(self._latest_ms)] = self._latest_ms
            self._latest_ms = grown


def _foreseen(cursor: Int64Array, n_before: int, n_rows: int) -> int:
    """Rows of a store that had `n_before` when all are taken in, if they go on as they have begun: to grow in one go
    saves most of the copying, and memory that is not used takes no room."""
    at, n_stored, n_found = int(cursor[AT]), int(cursor[N_STORED]), int(cursor[N_FOUND])
    n_left = n_rows - at
    n_more = -(-(n_stored - n_before) * n_left // at) if at else 0
    return n_stored + n_found + n_more


__all__ = ["StartFilter"]
