"""OPEN ON with WITHIN n EVENTS: the opening event and the n - 1 that follow it in the partition of the match.

A window tells all its matches at once, when no other one may come into it. Its end is the time of its last event, so
that it has come by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from engine.events import BoolArray, Int64Array
from engine.matching.output.listed import Key, Matches
from engine.matching.output.windows import Opening, Spans, WindowColumns
from engine.plan.model import Plan
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner
from engine.stream.positions import PartitionPositions, Positioned

_NO_ROWS: Int64Array = np.empty(0, np.int64)
_POSITIONS = 1 << 40


@dataclass
class _Windows:
    """The windows of the partitions by one key: partition, position, number and time of the opener, number and time of
    the last event, -1 while it has not come, (n, 6); by partition number and time of its last event, (n, 2)."""

    rows: Int64Array = field(default_factory=lambda: np.empty((0, 6), np.int64))
    latest: Int64Array = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    emitted: BoolArray = field(default_factory=lambda: np.empty(0, np.bool_))
    """Which of the windows are to be told now."""


class OpenedByEvents:
    """The windows of one query; implements `engine.matching.output.windows.Windows`.

    `trailing`: a match is decided a window after its first event.
    """

    def __init__(self, plan: Plan, interner: Interner, n_events: int, *, trailing: bool) -> None:
        self._plan = plan
        self._interner = interner
        self._opening = Opening(plan, interner)
        self._n_events = n_events
        self._trailing = trailing
        self._known: dict[int, tuple[PartitionPositions, _Windows]] = {}

    def observe(self, stream: StreamColumns) -> None:
        """`observe_positions` has seen it."""

    def observe_positions(
        self,
        number: int,
        positions: PartitionPositions,
        at: Positioned,
        stream: StreamColumns,
        numbers: Int64Array,
        ends: Int64Array,
        *,
        ended: bool,
    ) -> None:
        """Take in the positions of all events of a batch in the partitions `number`, and how many events these have
        had; `numbers`: of the rows of the batch, in the whole stream."""
        _, windows = self._known.setdefault(number, (positions, _Windows()))
        opens = np.zeros(len(stream), np.bool_)
        opening = [row for row in self._opening.rows(stream).tolist() if self._opening.key(stream, row) is not None]
        opens[np.array(opening, np.int64)] = True
        chosen = np.flatnonzero(opens[at.rows])
        rows = at.rows[chosen]
        none = np.full(len(rows), -1)
        opened = [at.partition[chosen], at.position[chosen], numbers[rows], stream.t_lo_ms[rows], none, none]
        windows.rows = np.concatenate([windows.rows, np.stack(opened, axis=1)])
        self._note_latest(windows, at, stream, numbers, len(ends))
        self._close(windows, at, stream, numbers, ended=ended)
        lasts = windows.rows[:, 1] + (2 if self._trailing else 1) * (self._n_events - 1)
        windows.emitted = (windows.rows[:, 4] >= 0) & (ended | (lasts < ends[windows.rows[:, 0]]))

    def _note_latest(
        self, windows: _Windows, at: Positioned, stream: StreamColumns, numbers: Int64Array, n_partitions: int
    ) -> None:
        windows.latest = np.concatenate([windows.latest, np.zeros((n_partitions - len(windows.latest), 2), np.int64)])
        order = np.lexsort((at.position, at.partition))
        of = at.partition[order]
        last = order[np.append(of[1:] != of[:-1], True)[: len(of)]]
        rows = at.rows[last]
        windows.latest[at.partition[last]] = np.stack([numbers[rows], stream.t_hi_ms[rows]], axis=1)

    def _close(
        self, windows: _Windows, at: Positioned, stream: StreamColumns, numbers: Int64Array, *, ended: bool
    ) -> None:
        """Find the last events that have come."""
        still_open = np.flatnonzero(windows.rows[:, 4] < 0)
        partition = windows.rows[still_open, 0]
        wanted = partition * _POSITIONS + windows.rows[still_open, 1] + self._n_events - 1
        here = at.partition * _POSITIONS + at.position
        order = np.argsort(here)
        found = np.searchsorted(here[order], wanted)
        is_here = np.append(here[order], -1)[found] == wanted
        rows = at.rows[order[found[is_here]]]
        windows.rows[still_open[is_here], 4:] = np.stack([numbers[rows], stream.t_hi_ms[rows]], axis=1)
        if ended:
            windows.rows[still_open[~is_here], 4:] = windows.latest[partition[~is_here]]

    def spans(self, matches: Matches) -> Spans:
        """See `Windows.spans`, of the windows that are to be told now; the first event is the opener or later in the
        stream, the last one no later than the window's."""
        first, last = (matches.events.number[ends] for ends in (matches.first, matches.last))
        begin, count = np.zeros((2, matches.n_matches), np.int64)
        table, n_windows = [np.empty((0, 6), np.int64)], 0
        for at, key in enumerate(matches.keys):
            own = np.flatnonzero(matches.listed.partition == at)
            windows = self._of_key(key)
            windows = windows[np.argsort(windows[:, 1], kind="stable")]  # by position: openers and last events ascend
            earliest = np.searchsorted(windows[:, 4], last[own])
            latest = np.searchsorted(windows[:, 2], first[own], side="right")
            begin[own], count[own] = n_windows + earliest, np.maximum(latest - earliest, 0)
            table.append(windows)
            n_windows += len(windows)
        whole = np.concatenate(table)
        # An event opens a window in each of its partitions: what they tell is not of one window.
        openers = whole[:, 2] * len(table) + np.repeat(np.arange(len(table)), [len(own) for own in table])

        def columns(position: Int64Array) -> WindowColumns:
            chosen = whole[position]
            return chosen[:, 3], chosen[:, 5], openers[position]

        return Spans(np.arange(matches.n_matches), begin, count, columns)

    def _of_key(self, key: Key) -> Int64Array:
        """The windows to be told now of the partition of matches with this key, (n, 6)."""
        for positions, windows in self._known.values():
            if positions.key == tuple(name for name, _ in key):
                codes = [self._interner.code(value) if isinstance(value, str) else value for _, value in key]
                columns = np.array(codes, np.float64).reshape(len(codes), 1)
                partition = positions.keys.numbers_where(columns, np.zeros(1, np.bool_), -1)[0]
                found: Int64Array = windows.rows[windows.emitted & (windows.rows[:, 0] == partition)]
                return found
        return np.empty((0, 6), np.int64)

    def forget(self, before_ms: int) -> None:
        """Windows are forgotten when they have been told."""
        del before_ms
        for _, windows in self._known.values():
            windows.rows = windows.rows[~windows.emitted]
            windows.emitted = np.zeros(len(windows.rows), np.bool_)

    def save(self) -> pa.Table:
        """See `save_positions`."""
        return pa.table({})

    def restore(self, table: pa.Table) -> None:
        """See `restore_positions`."""

    def save_positions(self) -> pa.Table:
        """State as an Arrow table."""
        names = ("partition", "place", "number", "t_ms", "last_number", "last_ms")
        rows = [(number, "window", row) for number, (_, own) in self._known.items() for row in own.rows.tolist()]
        rows += [
            (number, "latest", [at, *row, 0, 0, 0])
            for number, (_, own) in self._known.items()
            for at, row in enumerate(own.latest.tolist())
        ]
        columns = {name: pa.array([row[at] for _, _, row in rows], pa.int64()) for at, name in enumerate(names)}
        whose = {"of": pa.array([n for n, _, _ in rows], pa.int64()), "what": pa.array([w for _, w, _ in rows])}
        return pa.table({**whose, **columns})

    def restore_positions(self, table: pa.Table, positions: Mapping[int, PartitionPositions]) -> None:
        """Take over what `save_positions` returned."""
        for number, own in positions.items():
            of_this = np.asarray(table.column("of").to_numpy() == number)
            what = np.array(table.column("what").to_pylist(), object)
            whole = np.stack([column.to_numpy() for column in table.columns[2:]], axis=1).astype(np.int64)
            windows = _Windows(whole[of_this & (what == "window")], whole[of_this & (what == "latest")][:, 1:3])
            windows.emitted = np.zeros(len(windows.rows), np.bool_)
            self._known[number] = (own, windows)


__all__ = ["OpenedByEvents"]
