"""LIMIT n and TOP k: which rows of a query are told, and when (DESIGN 3, "Output").

Both count in each window of the query's own, else over the whole run, however the stream is cut into steps: LIMIT tells
the first rows in output order (last event, first event, ids, window), each as soon as none can come before it; TOP
tells the most confident ones when no other row can come into their window. No row is ever withdrawn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from engine.compiled.query import CompiledQuery
from engine.errors import StateError
from engine.events import FOREVER_MS, EventBatch
from engine.language import ast
from engine.matching.output.bindings import comparable
from engine.matching.output.event_positions import EventPositions
from engine.matching.output.forms import NO_OPENER, NO_WINDOW, RANKED_DIGITS, Window, as_window
from engine.matching.output.match_row import EventPosition, MatchRow, RowEnds
from engine.matching.output.reading.row_json import plain, row_from_json, row_to_json

_STATE_VERSION = 1


class _Waiting(NamedTuple):
    """A row that may be told, with its window. `rank` sorts the rows of one window, `order` all of them."""

    rank: tuple[object, ...]
    order: tuple[object, ...]
    window: Window
    row: MatchRow


@dataclass(frozen=True)
class PartQuota:
    """LIMIT or TOP of a query in an engine that has a part of the stream, beside others; one of the two is given.

    Whoever puts the rows of all parts together counts, by `MatchRow.position`. So an engine tells the rows of a window
    together, when every engine with the same watermark tells those that it has, and of LIMIT one more. `owns`: which
    rows are those of this part.
    """

    limit: int | None = None
    top_k: int | None = None
    owns: Callable[[MatchRow], bool] = lambda _row: True


class RowQuota:
    """The rows that are told of one query with LIMIT or TOP.

    `n_limited`: windows in which LIMIT left rows out so far; of a query without windows of its own at most 1. `part`:
    in place of the query's own clause.
    """

    def __init__(self, query: CompiledQuery, part: PartQuota | None = None) -> None:
        written = query.resolved.query
        self.n_limited = 0
        self._name = query.name
        limit, top_k = (written.limit, written.top_k) if part is None else (part.limit, part.top_k)
        self._is_top = top_k is not None
        n = top_k if limit is None else limit
        assert n is not None
        self._owns = None if part is None else part.owns
        self._in_part = part is not None
        self._most = n + 1 if self._in_part and not self._is_top else n
        self._has_windows = written.slide_ms is not None or written.open_on is not None
        # Windows of events from an opening one on tell all their matches in one step.
        self._comes_whole = written.open_on is not None and written.within_events is not None
        self._within_ms = query.within_ms
        any_match = written.strategy is ast.Strategy.SKIP_TILL_ANY_MATCH
        # How far `engine.matching.output_watermark` is behind at most, whatever events there are: no interval is longer
        # than the window, and other strategies take none.
        self._slack_ms = (3 if any_match else 1) * query.reach_ms
        self._positions = EventPositions(query.plan.types.union(*(branch.types for branch in query.branches)))
        self._waiting: list[_Waiting] = []
        self._n_returned: dict[Window, int] = {}
        self._limited: set[Window] = set()

    @classmethod
    def of(cls, query: CompiledQuery, part: PartQuota | None = None) -> RowQuota | None:
        """None for a query with neither LIMIT nor TOP."""
        written = query.resolved.query
        has_one = part is not None or written.limit is not None or written.top_k is not None
        return cls(query, part) if has_one else None

    @property
    def is_full(self) -> bool:
        """Whether no row will be told any more, and it is known that there are others."""
        return not self._has_windows and not self._waiting and NO_WINDOW in self._limited

    def buffered_from_ms(self, output_watermark_ms: int) -> int:
        """The earliest t_lo of the last events of rows that are still to be told; without one, of those to come."""
        return min((_last_lo_ms(waiting.row) for waiting in self._waiting), default=output_watermark_ms)

    def take(
        self, rows: Sequence[MatchRow], events: EventBatch, output_watermark_ms: int, watermark_ms: int
    ) -> Sequence[MatchRow]:
        """The rows that are told now that these are found.

        events: those of the step, in stream order. output_watermark_ms: no later row has a last event that begins
        before it. watermark_ms: that of the events.
        """
        if self.is_full:
            return []
        if not self._comes_whole:
            self._positions.put(events)
        self._wait(rows)
        if self._in_part:
            output_watermark_ms = watermark_ms if watermark_ms >= FOREVER_MS else watermark_ms - self._slack_ms
        if self._comes_whole:
            output_watermark_ms = FOREVER_MS
        take = self._whole_windows if self._is_top or self._in_part else self._first_rows
        emitted = take(output_watermark_ms)
        self._forget(output_watermark_ms)
        return emitted

    # ---------------------------------------------------------------- waiting

    def _wait(self, rows: Sequence[MatchRow]) -> None:
        """Take in rows; those that cannot be among the first, or the best, of their window are left out."""
        fresh = self._first_of_step(rows)
        if not fresh:
            return
        by_window: dict[Window, list[_Waiting]] = {}
        for waiting in [*self._waiting, *self._placed(fresh)]:
            by_window.setdefault(waiting.window, []).append(waiting)
        self._waiting = []
        for window, own in by_window.items():
            own.sort(key=lambda waiting: waiting.rank)
            capacity = self._most - self._n_returned.get(window, 0)
            if len(own) > capacity:
                self._leave_out(window)
            self._waiting += own[:capacity]

    def _first_of_step(self, rows: Sequence[MatchRow]) -> list[MatchRow]:
        """As many of the rows of a step as each window has room for, and those that stand at the time of the last of
        them: their positions decide. In the order in which they are given."""
        by_window: dict[Window, list[tuple[int, MatchRow]]] = {}
        for at, row in enumerate(rows):  # once: rows are made when they are looked at
            if self._owns is None or self._owns(row):
                by_window.setdefault(_window(row), []).append((at, row))
        found: list[tuple[int, MatchRow]] = []
        for window, own in by_window.items():
            capacity = self._most - self._n_returned.get(window, 0)
            if len(own) <= capacity:
                found += own
                continue
            self._leave_out(window)
            if capacity > 0:
                most = sorted(self._about(row) for _, row in own)[capacity - 1]
                found += [(at, row) for at, row in own if self._about(row) <= most]
        return [row for _, row in sorted(found, key=itemgetter(0))]

    def _about(self, row: MatchRow) -> tuple[float, int]:
        """The rank of a row in its window, but for what positions decide: several events may have the time of the
        last."""
        confidence = -round(row.confidence, RANKED_DIGITS) if self._is_top else 0.0
        return confidence, _last_lo_ms(row)

    def _placed(self, rows: Sequence[MatchRow]) -> list[_Waiting]:
        if self._comes_whole:  # in the order that counts
            return [_Waiting((at,), (at,), _window(row), row) for at, row in enumerate(rows)]
        ends = [_ends(row) for row in rows]
        wanted = {(row.first_lo_ms, end.first) for row, end in zip(rows, ends, strict=True)}
        wanted |= {(_last_lo_ms(row), end.last) for row, end in zip(rows, ends, strict=True)}
        positions = self._positions.of(wanted)
        found: list[_Waiting] = []
        for row, end in zip(rows, ends, strict=True):
            last = positions.get(end.last) or _unknown(_last_lo_ms(row), end.last)
            first = positions.get(end.first) or _unknown(row.first_lo_ms, end.first)
            found.append(self._waiting_row(replace(row, position=(last, first))))
        return found

    def _waiting_row(self, row: MatchRow) -> _Waiting:
        window = _window(row)
        order = row.position, _Bound(row), window
        return _Waiting((_confidence_position(row), order) if self._is_top else order, order, window, row)

    def _leave_out(self, window: Window) -> None:
        if not self._is_top and window not in self._limited:
            self._limited.add(window)
            self.n_limited += 1

    # ---------------------------------------------------------------- telling

    def _first_rows(self, output_watermark_ms: int) -> list[MatchRow]:
        """LIMIT: the rows that none can come before."""
        ready = [waiting for waiting in self._waiting if _last_lo_ms(waiting.row) < output_watermark_ms]
        self._waiting = [waiting for waiting in self._waiting if _last_lo_ms(waiting.row) >= output_watermark_ms]
        emitted: list[MatchRow] = []
        for _, _, window, row in sorted(ready, key=lambda waiting: waiting.order):
            n = self._n_returned[window] = self._n_returned.get(window, 0) + 1
            is_cut = n == self._most and window in self._limited
            emitted.append(replace(row, capped=True) if is_cut else row)
        return emitted

    def _whole_windows(self, output_watermark_ms: int) -> list[MatchRow]:
        """The rows of windows into which no other can come, window by window."""

        def is_closed(window: Window) -> bool:
            return (window[1] if self._has_windows else FOREVER_MS - 1) < output_watermark_ms

        ready = [waiting for waiting in self._waiting if is_closed(waiting.window)]
        self._waiting = [waiting for waiting in self._waiting if not is_closed(waiting.window)]

        def by_window(waiting: _Waiting) -> tuple[object, ...]:
            start_ms, end_ms, opener = waiting.window
            return end_ms, start_ms, opener, waiting.rank

        return [waiting.row for waiting in sorted(ready, key=by_window)]

    def _forget(self, output_watermark_ms: int) -> None:
        """Forget the windows, and the positions of events, that no row to come has."""
        if self._has_windows:
            self._n_returned = {window: n for window, n in self._n_returned.items() if window[1] >= output_watermark_ms}
            self._limited = {window for window in self._limited if window[1] >= output_watermark_ms}
        if self.is_full:
            self._positions.clear()
        elif self._within_ms < FOREVER_MS:
            self._positions.forget(output_watermark_ms - self._within_ms - self._positions.longest_ms)

    # ------------------------------------------------------------------ state

    def save(self) -> pa.Table:
        """The positions of events; what waits and what was told in the metadata."""
        state = {
            "n_limited": self.n_limited,
            "told": [[window, n] for window, n in self._n_returned.items()],
            "limited": sorted(self._limited),
            "waiting": [row_to_json(waiting.row) for waiting in self._waiting],
        }
        table = self._positions.save()
        metadata = {"version": str(_STATE_VERSION), "state": json.dumps(state, default=plain)}
        return table.replace_schema_metadata({**table.schema.metadata, **metadata})

    def restore(self, table: pa.Table) -> None:
        """Take over what `save` returned; raises StateError when it does not fit."""
        metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
        if metadata.get(b"version") != str(_STATE_VERSION).encode():
            raise StateError(
                f"saved rows of {self._name} have version {metadata.get(b'version')!r}, expected {_STATE_VERSION}"
            )
        saved: dict[str, Any] = json.loads(metadata[b"state"])
        self._positions.restore(table)
        self.n_limited = saved["n_limited"]
        self._n_returned = {as_window(window): n for window, n in saved["told"]}
        self._limited = {as_window(window) for window in saved["limited"]}
        self._waiting = [self._waiting_row(row_from_json(self._name, row)) for row in saved["waiting"]]


class _Bound:
    """The ids of a row in a sort key. They may be as many as the window has events, and are looked at by rows of the
    same first and last event alone."""

    def __init__(self, row: MatchRow) -> None:
        self._row = row

    @cached_property
    def _ids(self) -> tuple[object, ...]:
        return _bound(self._row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bound) and self._ids == other._ids

    def __lt__(self, other: _Bound) -> bool:
        return self._ids < other._ids

    __hash__ = None  # type: ignore[assignment]


def _bound(row: MatchRow) -> tuple[object, ...]:
    return tuple((name, comparable(ids)) for name, ids in row.bindings.items())


def output_order(row: MatchRow) -> tuple[object, ...]:
    """Sort key of rows with a position: last event, first event, ids, window."""
    return row.position, _bound(row), _window(row)


def confidence_rank(row: MatchRow) -> tuple[object, ...]:
    """Sort key of rows with a position under TOP: the most confident first, at a tie the first in output order."""
    return _confidence_position(row), output_order(row)


def _confidence_position(row: MatchRow) -> float:
    return -round(row.confidence, RANKED_DIGITS)


def _window(row: MatchRow) -> Window:
    if row.window is None:
        return NO_WINDOW
    return (*row.window, NO_OPENER if row.ends is None else row.ends.opener)


def _ends(row: MatchRow) -> RowEnds:
    if row.ends is not None:
        return row.ends
    ids = row.event_ids
    return RowEnds(ids[0], ids[-1], NO_OPENER)


def _last_lo_ms(row: MatchRow) -> int:
    return row.last_hi_ms if row.last_lo_ms is None else row.last_lo_ms


def _unknown(lo_ms: int, event_id: str) -> EventPosition:
    """Of an event that is no longer known: among those of one time before the others."""
    return lo_ms, -1, -1, event_id


__all__ = ["PartQuota", "RowQuota", "confidence_rank", "output_order"]
