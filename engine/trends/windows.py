"""Saved state of a graph of several windows: that of one of them out of it, and of graphs of one window each put
together.

A window is told from its begin: the first one of an event, the last one and those that are open follow from the time at
which the event was, and of that from the divisor of all windows that it fell into.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.events import FOREVER_MS, Int64Array
from engine.language import ast
from engine.plan.trends.model import TrendPlan
from engine.plan.trends.sharing import number_positions
from engine.plan.trends.windows import Window, of_window
from engine.trends.state import State, agree, part_of

_SUMS = ("whole", "scale", "late_whole", "late_scale")
_AS_THEY_ARE = ("keys", "started", "finished")


@dataclass(frozen=True)
class OfWindow:
    """The state of the graph of `plan`, which has one window."""

    state: State
    plan: TrendPlan

    @property
    def window(self) -> Window:
        """WITHIN and SLIDE, in ms."""
        return self.plan.within_ms, self.plan.slide_ms


class _Layout:
    """Where the numbers of one window are among those of a graph of several, whose windows begin at each multiple of
    the divisor."""

    def __init__(self, shared: TrendPlan, window: Window) -> None:
        self.within_ms, self.slide_ms = window
        self.divisor_ms, self.longest_ms = shared.slide_ms, shared.within_ms
        self.step = self.slide_ms // self.divisor_ms
        self.n_windows = -(-self.within_ms // self.slide_ms)
        self.n_shared = shared.n_windows

    def windows_at(self, last: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The first and the last window of events of which this is the last one that the graph has."""
        end_ms = (last + 1) * self.divisor_ms
        return -((self.within_ms - end_ms) // self.slide_ms), last // self.step

    def last_at(self, first: Int64Array, last: Int64Array) -> Int64Array:
        """The least last window that the graph may have for events with these windows."""
        least_end = ((first - 1) * self.slide_ms + self.within_ms) // self.divisor_ms + 1
        return np.maximum(last * self.step, least_end - 1)


# ------------------------------------------------------------------------ apart


def cut(state: State, shared: TrendPlan, window: Window, waiting_after_ms: int) -> dict[str, pa.Table]:
    """What a graph of several windows knows of one: the state of the graph of `of_window`. Events that wait for
    partitions to come are kept when they are after this time."""
    layout = _Layout(shared, window)
    length, n_lengths = shared.windows.index(window), len(shared.windows)
    first, last = (
        _column(state["told"], name).reshape(-1, n_lengths)[:, length] for name in ("told_first", "told_last")
    )
    windows, waiting = state["windows"], state["waiting"]
    found = {name: state[name] for name in _AS_THEY_ARE}
    found["waiting"] = waiting.filter(pa.array(_column(waiting, "hi_ms") > waiting_after_ms))
    found["windows"] = pa.table({"first_open": first, "last_open": last, "order": windows.column("order")})
    found["marks"] = pa.table({"marks": np.zeros(len(windows) * layout.n_windows, np.int64)})
    found["sums"] = _cut_sums(state["sums"], layout, first, last, shared.n_numbers)
    found |= _cut_vertices(state, layout, first, last, shared.n_numbers)
    return found


def _cut_sums(sums: pa.Table, layout: _Layout, first: Int64Array, last: Int64Array, n_numbers: int) -> pa.Table:
    n = len(first)
    own = {}
    for name in _SUMS:
        whole = _by_partition(_column(sums, name), n, layout.n_shared, n_numbers)
        part = np.zeros((n, whole.shape[1], layout.n_windows, n_numbers), whole.dtype)
        for partition, window, begin in _open(layout, first, last):
            part[partition, :, window % layout.n_windows] = whole[partition, :, begin % layout.n_shared]
        own[name] = part.reshape(-1)
    return pa.table(own)


def _open(layout: _Layout, first: Int64Array, last: Int64Array) -> list[tuple[Int64Array, Int64Array, Int64Array]]:
    """Rows that have a window, their windows, and which of the graph's begin there: once for each window that a row
    may have."""
    found = []
    for number in range(layout.n_windows):
        rows = np.flatnonzero(first + number <= last)
        window = first[rows] + number
        found.append((rows, window, window * layout.step))
    return found


def _cut_vertices(
    state: State, layout: _Layout, first_open: Int64Array, last_open: Int64Array, n_numbers: int
) -> dict[str, pa.Table]:
    length, vertices, numbers = _column(state["regions"], "length"), state["vertices"], state["numbers"]
    region = np.repeat(np.arange(len(length)), length)
    n_stored = len(length) // max(1, len(first_open))
    partition = region // max(1, n_stored)
    begin = _column(vertices, "first_window")
    first, last = layout.windows_at(_column(vertices, "last_window"))
    own = {}
    for name in ("whole", "scale"):
        whole = _column(numbers, name).reshape(-1, layout.n_shared, n_numbers)
        part = np.zeros((len(whole), layout.n_windows, n_numbers), whole.dtype)
        for rows, window, at in _open(layout, first, last):
            part[rows, window - first[rows]] = whole[rows, at - begin[rows]]
        own[name] = part
    is_open = (last >= first_open[partition]) & (first_open <= last_open)[partition]
    kept = np.flatnonzero(is_open & np.any(own["whole"][:, :, 0] != 0, axis=1))
    columns = {name: vertices.column(name).take(kept) for name in vertices.column_names}
    columns |= {"first_window": pa.array(first[kept]), "last_window": pa.array(last[kept])}
    return {
        "regions": pa.table({"length": np.bincount(region[kept], minlength=len(length))}),
        "vertices": pa.table(columns),
        "numbers": pa.table({name: part[kept].reshape(-1) for name, part in own.items()}),
    }


# --------------------------------------------------------------------- together


def put_together(parts: Sequence[OfWindow], shared: TrendPlan) -> dict[str, pa.Table] | None:
    """The state of a graph of several windows that knows what graphs of one window each know; None where they do not
    agree bit for bit in what several know."""
    first = parts[0].state
    for part in parts:
        if not part.state["keys"].equals(first["keys"]) or "overlap_states" in part.state:
            return None
        if _column(part.state["marks"], "marks").any():
            return None
    opened = [tuple(_column(part.state["windows"], name) for name in ("first_open", "last_open")) for part in parts]
    found = {
        "keys": first["keys"],
        "waiting": _all_waiting(parts, shared),
        "marks": pa.table({"marks": np.zeros(len(first["windows"]) * shared.n_windows, np.int64)}),
        **_all_windows(parts, shared, opened),
        "sums": _all_sums(parts, shared, opened),
        **_all_vertices(parts, shared),
    }
    is_agreed = all(_is_that(found, shared, part) for part in parts)
    return found if is_agreed else None


def _is_that(found: State, shared: TrendPlan, part: OfWindow) -> bool:
    """Whether a part is what is cut out of the whole."""
    hi_ms = _column(part.state["waiting"], "hi_ms")
    own = cut(found, shared, part.window, int(hi_ms.min()) - 1 if len(hi_ms) else FOREVER_MS)
    counts_events = shared.ties is ast.Ties.SOURCE or shared.counts_positions
    mine = part_of(own, of_window(shared, part.window), part.plan)
    return agree(mine, part.state, counts_events=counts_events)


def _all_windows(
    parts: Sequence[OfWindow], shared: TrendPlan, opened: Sequence[tuple[Int64Array, ...]]
) -> dict[str, pa.Table]:
    """What is open in each partition, and what it knows whatever the window, from the graph that came furthest."""
    is_live = np.array([first <= last for first, last in opened])
    steps = np.array([part.plan.slide_ms // shared.slide_ms for part in parts])[:, None]
    first, last = (np.array([each[k] for each in opened]) * steps for k in (0, 1))
    some = np.any(is_live, axis=0)
    order = np.array([_column(part.state["windows"], "order") for part in parts])
    furthest = np.argmax(np.where(is_live, order, -(2**62)), axis=0)
    n = len(furthest)
    found = {
        "windows": pa.table(
            {
                "first_open": np.where(some, np.min(np.where(is_live, first, 2**62), axis=0), 0),
                "last_open": np.where(some, np.max(np.where(is_live, last, -(2**62)), axis=0), -1),
                "order": order[furthest, np.arange(n)],
            }
        )
    }
    by_length = [[part.window for part in parts].index(window) for window in shared.windows]
    found["told"] = pa.table(
        {
            name: np.stack([opened[number][k] for number in by_length], axis=1).reshape(-1)
            for k, name in enumerate(("told_first", "told_last"))
        }
    )
    for name in ("started", "finished"):
        columns = {}
        for column in parts[0].state[name].column_names:
            values = np.array([_by_partition(_column(part.state[name], column), n) for part in parts])
            columns[column] = values[furthest, np.arange(n)].reshape(-1)
        found[name] = pa.table(columns)
    return found


def _all_sums(parts: Sequence[OfWindow], shared: TrendPlan, opened: Sequence[tuple[Int64Array, ...]]) -> pa.Table:
    found = {}
    for name in _SUMS:
        whole = None
        for part, (first, last) in zip(parts, opened, strict=True):
            layout, positions = _Layout(shared, part.window), number_positions(part.plan, shared)
            own = _by_partition(_column(part.state["sums"], name), len(first), layout.n_windows, len(positions))
            if whole is None:
                whole = np.zeros((len(first), own.shape[1], layout.n_shared, shared.n_numbers), own.dtype)
            for partition, window, begin in _open(layout, first, last):
                numbers = whole[partition, :, begin % layout.n_shared]
                numbers[:, :, positions] = own[partition, :, window % layout.n_windows]
                whole[partition, :, begin % layout.n_shared] = numbers
        assert whole is not None
        found[name] = whole.reshape(-1)
    return pa.table(found)


def _all_vertices(parts: Sequence[OfWindow], shared: TrendPlan) -> dict[str, pa.Table]:
    """Events that any of the graphs keeps: by region and order, and among those of one order by their place."""
    keys = []
    for part in parts:
        length, order = _column(part.state["regions"], "length"), _column(part.state["vertices"], "order")
        region = np.repeat(np.arange(len(length)), length)
        is_next = (np.diff(region, prepend=-1) != 0) | (np.diff(order, prepend=0) != 0)
        position = np.arange(len(order)) - np.maximum.accumulate(np.where(is_next, np.arange(len(order)), 0))
        keys.append(np.stack([region, order, position], axis=1))
    events, rows = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    bounds = np.cumsum([0, *map(len, keys)])
    at = [rows.reshape(-1)[begin:end] for begin, end in itertools.pairwise(bounds)]
    n_regions = len(parts[0].state["regions"])
    last = np.full(len(events), -(2**62))
    own_windows = []
    for part, where in zip(parts, at, strict=True):
        own = tuple(_column(part.state["vertices"], name) for name in ("first_window", "last_window"))
        own_windows.append(own)
        last[where] = np.maximum(last[where], _Layout(shared, part.window).last_at(*own))
    first = last + 1 - shared.n_windows
    columns: dict[str, np.ndarray] = {"order": events[:, 1], "first_window": first, "last_window": last}
    numbers = {}
    for name in ("whole", "scale"):
        kind = _column(parts[0].state["numbers"], name).dtype
        whole = np.zeros((len(events), shared.n_windows, shared.n_numbers), kind)
        for part, where, (first_own, last_own) in zip(parts, at, own_windows, strict=True):
            layout, positions = _Layout(shared, part.window), number_positions(part.plan, shared)
            own_numbers = _column(part.state["numbers"], name).reshape(-1, layout.n_windows, len(positions))
            for of_part, window, begin in _open(layout, first_own, last_own):
                event = where[of_part]
                some = whole[event, begin - first[event]]
                some[:, positions] = own_numbers[of_part, window - first_own[of_part]]
                whole[event, begin - first[event]] = some
        numbers[name] = whole.reshape(-1)
    tables = [(part.state["vertices"], part.plan.programs.columns) for part in parts]
    columns |= _all_columns(tables, at, len(events), shared.programs.columns, "column")
    return {
        "regions": pa.table({"length": np.bincount(events[:, 0], minlength=n_regions)}),
        "vertices": pa.table(columns),
        "numbers": pa.table(numbers),
    }


def _all_waiting(parts: Sequence[OfWindow], shared: TrendPlan) -> pa.Table:
    """Each graph keeps the last ones of those that the longest window has."""
    tables = [(part.state["waiting"], part.plan.programs.columns) for part in parts]
    n = max(len(table) for table, _ in tables)
    at = [np.arange(n - len(table), n) for table, _ in tables]
    return pa.table(_all_columns(tables, at, n, shared.programs.columns, "columns"))


def _all_columns(
    tables: Sequence[tuple[pa.Table, Sequence[str]]], at: Sequence[Int64Array], n: int, wanted: Sequence[str],
    prefix: str,
) -> dict[str, np.ndarray]:  # fmt: skip
    """The columns of events by number, and the others but those that tell windows, each from the tables that have it,
    whose rows are at these positions."""
    found: dict[str, np.ndarray] = {}
    for (table, names), where in zip(tables, at, strict=True):
        for column in table.column_names:
            number = column.removeprefix(prefix)
            name = column
            if column.startswith(prefix) and number.isdecimal():
                name = f"{prefix}{list(wanted).index(names[int(number)])}"
            elif column in ("order", "first_window", "last_window") and prefix == "column":
                continue
            values = _column(table, column)
            if name not in found:
                found[name] = np.full(n, np.nan) if values.dtype == np.float64 else np.zeros(n, values.dtype)
            found[name][where] = values
    return found


def _by_partition(values: np.ndarray, n_partitions: int, *shape: int) -> np.ndarray:
    """As (n_partitions, any number of what has this shape, *shape); there may be no partition."""
    per_partition = len(values) // n_partitions if n_partitions else 0
    return values.reshape(n_partitions, per_partition // math.prod(shape), *shape)


def _column(table: pa.Table, name: str) -> np.ndarray:
    return np.asarray(table.column(name).to_numpy())


__all__ = ["OfWindow", "cut", "put_together"]
