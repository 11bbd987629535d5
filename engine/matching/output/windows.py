"""Windows of a query's own: those of SLIDE begin at fixed times, those of OPEN ON at events (DESIGN 3, "Windows").

A match is in every window that holds all its events. Output forms are evaluated window by window.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from engine.events import TIME_ATTRIBUTE, AttributeType, Int64Array
from engine.kernels.programs.blocks import select_where
from engine.matching.output.forms import NO_OPENER, Entries
from engine.matching.output.listed import Key, Matches, as_key
from engine.plan.model import Plan
from engine.plan.programs import ProgramBuilder
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner

TYPE_NAME = "type"
"""The attribute of an opening event that is the name of its type."""

WindowColumns: TypeAlias = tuple[Int64Array, Int64Array, Int64Array]
"""Start and end in ms, and opener, as `engine.matching.output.forms.Window` has them."""

_NONE: Int64Array = np.empty(0, np.int64)


class Windows(Protocol):
    """The windows of one query over one stream."""

    def observe(self, stream: StreamColumns) -> None:
        """Take in a batch, whatever its types: it may open windows."""
        ...

    def spans(self, matches: Matches) -> Spans:
        """The windows of each match, in the order of the matches."""
        ...

    def forget(self, before_ms: int) -> None:
        """Forget the windows that end before `before_ms`."""
        ...

    def save(self) -> pa.Table:
        """State as an Arrow table."""
        ...

    def restore(self, table: pa.Table) -> None:
        """Take over what `save` returned."""
        ...


class Spans(NamedTuple):
    """The windows of matches as ranges of a table: those of `match[k]` are rows first[k] to first[k] + n_windows[k]
    of it, int64 (s,), ascending by match; `at` gives the start, end and opener of rows of the table."""

    match: Int64Array
    first: Int64Array
    n_windows: Int64Array
    at: Callable[[Int64Array], WindowColumns]

    def entries(self) -> Entries:
        """Each match in each of its windows, in the order of matches, then windows."""
        bounds = np.cumsum(self.n_windows) - self.n_windows
        position = np.arange(int(self.n_windows.sum())) + np.repeat(self.first - bounds, self.n_windows)
        match = np.repeat(self.match, self.n_windows)
        start_ms, end_ms, opener = self.at(position)
        found = Entries(match, start_ms, end_ms, opener)
        if (self.match[1:] == self.match[:-1]).any():  # several ranges of one match
            return found.at(np.lexsort((start_ms, opener, match)))
        return found

    def n_entries(self, n: int) -> Int64Array:
        """In how many windows each of n matches is, (n,)."""
        return np.bincount(self.match, self.n_windows, n).astype(np.int64)

    def at_most(self, most: Int64Array) -> Spans:
        """The first windows of each match, so many of match k at most, (n,)."""
        before = np.cumsum(self.n_windows) - self.n_windows
        begins = np.searchsorted(self.match, self.match)
        n_windows = np.clip(most[self.match] - (before - before[begins]), 0, self.n_windows)
        return self._replace(n_windows=n_windows)


def windows_of(plan: Plan, interner: Interner) -> Windows | None:
    """The windows of a query, None when it has none of its own. Raises UnsupportedQueryError."""
    query = plan.query
    if isinstance(query.slide_ms, int):
        return SlidingWindows(plan.within_ms, query.slide_ms)
    return None if query.open_on is None else OpenedWindows(plan, interner)


class SlidingWindows:
    """SLIDE: the windows (k * slide, k * slide + within] for all integers k."""

    def __init__(self, within_ms: int, slide_ms: int) -> None:
        self._within_ms = within_ms
        self._slide_ms = slide_ms

    def observe(self, stream: StreamColumns) -> None:
        """Events open no windows."""

    def spans(self, matches: Matches) -> Spans:
        """See `Windows.spans`; the events of a match are in [first.t_lo, last.t_hi]."""
        slide_ms = self._slide_ms
        latest = (matches.events.lo_ms[matches.first] - 1) // slide_ms
        earliest = -((self._within_ms - matches.events.hi_ms[matches.last]) // slide_ms)
        return Spans(np.arange(matches.n_matches), earliest, np.maximum(latest - earliest + 1, 0), self._at)

    def _at(self, position: Int64Array) -> WindowColumns:
        start_ms = position * self._slide_ms
        return start_ms, start_ms + self._within_ms, np.full(len(position), NO_OPENER)

    def forget(self, before_ms: int) -> None:
        """Nothing is kept."""

    def save(self) -> pa.Table:
        """No state."""
        return pa.table({})

    def restore(self, table: pa.Table) -> None:
        """No state."""


class Opening:
    """The condition of OPEN ON: which events open windows."""

    def __init__(self, plan: Plan, interner: Interner) -> None:
        assert plan.query.open_on is not None
        self._plan = plan
        self._interner = interner
        builder = ProgramBuilder({"": 0}, frozenset(), frozenset())
        builder.add(plan.query.open_on)
        self._programs = builder.build()

    def rows(self, stream: StreamColumns) -> Int64Array:
        """The rows of which it is true, ascending."""
        rows = np.arange(len(stream), dtype=np.int64)
        names = self._programs.columns
        columns = [stream.column(name, self._kind(name)) for name in names]
        table = np.stack(columns) if columns else np.empty((0, len(stream)), np.float64)
        constants = self._programs.with_strings(self._interner.constant)
        n = select_where(self._programs.code, self._programs.bounds, 0, 1, constants, table, rows)
        return rows[:n]

    def key(self, stream: StreamColumns, row: int) -> Key | None:
        """The key attributes that the type of an opening event has; None when one of them is NULL: it is in none."""
        types, numbers = stream.types_by_row
        key: list[tuple[str, int | float | str]] = []
        for name in self._plan.key_of_type.get(types[numbers[row]], ()):
            kind = self._plan.attribute_types[name]
            number = float(stream.column(name, kind)[row])
            if np.isnan(number):
                return None
            if kind is AttributeType.STRING:
                key.append((name, self._interner.text(int(number))))
            else:
                key.append((name, int(number) if kind is AttributeType.INT else number))
        return tuple(key)

    def _kind(self, name: str) -> AttributeType:
        if name == TIME_ATTRIBUTE:
            return AttributeType.INT
        return AttributeType.STRING if name == TYPE_NAME else self._plan.attribute_types[name]


class OpenedWindows:
    """OPEN ON: [t_lo, t_lo + within] from the opening event on, for its partition; for all when its type has no key.

    Keeps number (position in the stream), t_lo and key of the opening events, in stream order.
    """

    def __init__(self, plan: Plan, interner: Interner) -> None:
        self._plan = plan
        self._interner = interner
        self._opening = Opening(plan, interner)
        self._n_seen = 0
        self._openers: dict[Key, list[tuple[int, int]]] = {}  # key -> (number, t_lo_ms); () opens for all

    def observe(self, stream: StreamColumns) -> None:
        """Find the events that open windows."""
        for row in self._opening.rows(stream).tolist():
            key = self._opening.key(stream, row)
            if key is not None:
                self._openers.setdefault(key, []).append((self._n_seen + row, int(stream.t_lo_ms[row])))
        self._n_seen += len(stream)

    def spans(self, matches: Matches) -> Spans:
        """See `Windows.spans`; the first event is the opener or later in the stream, the last one within."""
        events, partition = matches.events, matches.listed.partition
        order = np.argsort(partition, kind="stable")
        bounds = np.searchsorted(partition[order], np.arange(len(matches.keys) + 1))
        parts = [(_NONE, _NONE, _NONE)]
        table = [np.empty((0, 2), np.int64)]
        position_of: dict[tuple[tuple[str, ...], Key], tuple[int, int]] = {}
        n_openers = 0
        agreeing: dict[tuple[str, ...], dict[Key, list[tuple[int, int]]]] = {}
        for position, key in enumerate(matches.keys):
            own = order[bounds[position] : bounds[position + 1]]
            names = tuple(name for name, _ in key)
            if names not in agreeing:
                agreeing[names] = self._by_shared(names)
            for shared in {tuple(name for name, _ in known) for known in agreeing[names]}:
                of_opener = tuple(pair for pair in key if pair[0] in shared)
                openers = agreeing[names].get(of_opener)
                if openers is None:
                    continue
                if (names, of_opener) not in position_of:
                    position_of[names, of_opener] = len(table), n_openers
                    table.append(np.array(openers, np.int64))
                    n_openers += len(openers)
                at_table, begin = position_of[names, of_opener]
                number, lo_ms = table[at_table].T
                earliest = np.searchsorted(lo_ms, events.hi_ms[matches.last[own]] - self._plan.within_ms)
                latest = np.searchsorted(number, events.number[matches.first[own]], side="right")
                parts.append((own, begin + earliest, np.maximum(latest - earliest, 0)))
        match, first, count = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        whole = np.concatenate(table)

        def at(position: Int64Array) -> WindowColumns:
            number, lo_ms = whole[position].T
            return lo_ms, lo_ms + self._plan.within_ms, number

        by_match = np.argsort(match, kind="stable")
        return Spans(match[by_match], first[by_match], count[by_match], at)

    def _by_shared(self, names: tuple[str, ...]) -> dict[Key, list[tuple[int, int]]]:
        """The openers by what their keys share with keys of these attributes, in stream order."""
        found: dict[Key, list[tuple[int, int]]] = {}
        for key, openers in self._openers.items():
            shared = tuple(pair for pair in key if pair[0] in names)
            found[shared] = sorted([*found[shared], *openers]) if shared in found else openers
        return found

    def forget(self, before_ms: int) -> None:
        """See `Windows.forget`."""
        for key, openers in list(self._openers.items()):
            open_still = [opener for opener in openers if opener[1] + self._plan.within_ms >= before_ms]
            if open_still:
                self._openers[key] = open_still
            else:
                del self._openers[key]

    def save(self) -> pa.Table:
        """One row per key: its openers."""
        keys = [json.dumps(key) for key in self._openers]
        columns = {
            "key": pa.array(keys, pa.string()),
            "number": pa.array([[n for n, _ in o] for o in self._openers.values()], pa.list_(pa.int64())),
            "t_lo_ms": pa.array([[t for _, t in o] for o in self._openers.values()], pa.list_(pa.int64())),
        }
        return pa.table(columns).replace_schema_metadata({"n_seen": str(self._n_seen)})

    def restore(self, table: pa.Table) -> None:
        """Take over what `save` returned."""
        metadata: Mapping[bytes, bytes] = table.schema.metadata
        self._n_seen = int(metadata[b"n_seen"])
        rows = zip(*(table.column(name).to_pylist() for name in ("key", "number", "t_lo_ms")), strict=True)
        self._openers = {
            as_key(json.loads(key)): list(zip(numbers, times, strict=True)) for key, numbers, times in rows
        }


__all__ = ["OpenedWindows", "Opening", "SlidingWindows", "Spans", "WindowColumns", "Windows", "windows_of"]
