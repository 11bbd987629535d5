"""The output forms over listed matches (DESIGN 3, "Output"), for runtimes that have no better way to one.

All of them work on entries: a match in a window. Without windows of its own a query has one entry per match. Entries
are in listing order: last event, first event, ids, window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from engine.events import BoolArray, Int64Array
from engine.matching.listed import Key, Matches
from engine.matching.orders import has_other_orders

TOLERANCE = 1e-9
"""Confidences that differ by less are equal: they are the same sum, added up in another order."""

Window = tuple[int, int, int]
"""Start and end in ms, and what tells apart windows of one time: the place of the opening event in the stream."""

NO_OPENER = -1
NO_WINDOW: Window = (0, 0, NO_OPENER)


def as_window(saved: Sequence[int]) -> Window:
    """The window that JSON gives back as a list."""
    start_ms, end_ms, opener = saved
    return start_ms, end_ms, opener


class Entries(NamedTuple):
    """Matches in windows: number of the match, and the window as `Window` has it (NO_WINDOW without), each (k,)."""

    match: Int64Array
    start_ms: Int64Array
    end_ms: Int64Array
    opener: Int64Array

    def at(self, chosen: Int64Array | BoolArray) -> Entries:
        """These entries."""
        return Entries(self.match[chosen], self.start_ms[chosen], self.end_ms[chosen], self.opener[chosen])

    def window(self, at: int) -> Window:
        """The window of one entry."""
        return int(self.start_ms[at]), int(self.end_ms[at]), int(self.opener[at])

    @property
    def windows(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The columns that tell windows apart."""
        return self.start_ms, self.end_ms, self.opener

    @classmethod
    def of_all(cls, n_matches: int) -> Entries:
        """Every match once, in no window."""
        zeros = np.zeros(n_matches, np.int64)
        return cls(np.arange(n_matches), zeros, zeros, np.full(n_matches, NO_OPENER))


@dataclass(frozen=True, slots=True)
class FormedRow:
    """A row before it is spelled out: the match that it shows, and what it says of those behind it.

    `candidates` (COLLAPSED): places in `Matches.events` by component, in stream order.
    """

    match: int
    window: Window
    confidence: float
    count: int = 1
    candidates: dict[int, Int64Array] | None = None
    exact: bool = True


BoundIds = Callable[[int], tuple[object, ...]]
"""From the number of a match to its ids by variable: what decides between matches that are alike otherwise."""


def in_listing_order(matches: Matches, entries: Entries, ids_of: BoundIds) -> Entries:
    """The entries sorted by last event, first event, ids, window."""
    number = matches.events.number
    first, last = number[matches.first][entries.match], number[matches.last][entries.match]
    order = np.lexsort((entries.opener, entries.start_ms, entries.match, first, last))
    entries, first, last = entries.at(order), first[order], last[order]
    tied = (first[1:] == first[:-1]) & (last[1:] == last[:-1]) & (entries.match[1:] != entries.match[:-1])
    if not tied.any():
        return entries
    order = np.arange(len(entries.match))
    for start, end in _bounds(first, last):
        if tied[start : end - 1].any():
            place = {k: ids_of(k) for k in set(entries.match[start:end].tolist())}
            run = sorted(range(start, end), key=lambda at: (place[int(entries.match[at])], entries.window(at)))
            order[start:end] = run
    return entries.at(order)


def all_rows(matches: Matches, entries: Entries) -> list[FormedRow]:
    """OUTPUT ALL: every entry."""
    confidence = matches.listed.confidence[entries.match].tolist()
    windows = zip(*(column.tolist() for column in entries.windows), strict=True)
    return [
        FormedRow(match, window, sure)
        for match, window, sure in zip(entries.match.tolist(), windows, confidence, strict=True)
    ]


def merged_sets(matches: Matches, entries: Entries, threshold: float) -> list[FormedRow]:
    """OUTPUT SETS: entries with equal event sets per component are one.

    Their orders are disjoint, so confidences add up; the divisions of one order into iterations share its worlds and
    count once. The threshold applies to the sum. The row shows the most confident, longest, first listed match.
    """
    groups: dict[object, list[int]] = {}
    listed, number = matches.listed, matches.events.number
    for at, match in enumerate(entries.match.tolist()):
        events = slice(listed.offsets[match], listed.offsets[match + 1])
        pairs = zip(listed.components[events].tolist(), number[listed.rows[events]].tolist(), strict=True)
        groups.setdefault((entries.window(at), matches.keys[listed.partition[match]], frozenset(pairs)), []).append(at)
    rows: list[tuple[int, FormedRow]] = []
    for group in groups.values():
        by_order: dict[tuple[int, ...], float] = {}
        for at in group:
            match = int(entries.match[at])
            order = tuple(number[listed.rows[listed.offsets[match] : listed.offsets[match + 1]]].tolist())
            by_order[order] = max(by_order.get(order, 0.0), float(listed.confidence[match]))
        total = min(sum(by_order.values()), 1.0)
        if total >= threshold - TOLERANCE:
            best = _best(matches, entries.match, np.array(group))
            rows.append((best, FormedRow(int(entries.match[best]), entries.window(best), total, len(group))))
    return [row for _, row in sorted(rows, key=lambda item: item[0])]


@dataclass(frozen=True, slots=True)
class Collapsing:
    """What COLLAPSED needs beside the matches: components that take several events, the sequences of components that a
    match may be (none when it may be something else: then no row is known to be exact), and TIES STRICT."""

    kleene: frozenset[int]
    shapes: Sequence[Sequence[int]]
    strict_ties: bool


def counted(matches: Matches, entries: Entries, most: int, collapsing: Collapsing | None) -> list[FormedRow]:
    """OUTPUT COUNT and, with `collapsing`, COLLAPSED: one row per window, key, first and last event; at most `most`."""
    listed, number = matches.listed, matches.events.number
    key = listed.partition[entries.match]
    first, last = number[matches.first][entries.match], number[matches.last][entries.match]
    order = np.lexsort((np.arange(len(key)), *entries.windows, key, first, last))
    entries = entries.at(order)
    columns = (first[order], last[order], key[order], *entries.windows)
    best = _best_of_groups(matches, entries, columns)
    rows: list[FormedRow] = []
    for (start, end), shown in islice(zip(_bounds(*columns), best.tolist(), strict=True), most):
        match = int(entries.match[shown])
        candidates, exact = None, True
        if collapsing is not None:
            group = entries.match[start:end]
            candidates = _candidates(matches, group)
            exact = bool(collapsing.shapes) and not has_other_orders(
                matches, group, candidates, collapsing.kleene, collapsing.shapes, strict_ties=collapsing.strict_ties
            )
        sure = float(listed.confidence[match])
        rows.append(FormedRow(match, entries.window(shown), sure, end - start, candidates, exact))
    return rows


def non_overlapping(matches: Matches, entries: Entries, ends_ms: dict[tuple[Window, Key], int]) -> list[FormedRow]:
    """OUTPUT NON_OVERLAPPING: per window and partition the earliest end, then earliest start, longest, ids.

    ends_ms: end of the match chosen last, updated; the next one starts strictly later.
    """
    events, listed = matches.events, matches.listed
    first, last = matches.first[entries.match], matches.last[entries.match]
    n_events = matches.n_events[entries.match]
    order = np.lexsort(
        (np.arange(len(first)), -n_events, events.number[first], events.lo_ms[first], events.number[last],
         events.hi_ms[last])
    )  # fmt: skip
    chosen: list[int] = []
    for at in order.tolist():
        match = int(entries.match[at])
        owner = entries.window(at), matches.keys[listed.partition[match]]
        if events.lo_ms[first[at]] > ends_ms.get(owner, -(2**62)):
            ends_ms[owner] = int(events.hi_ms[last[at]])
            chosen.append(at)
    return all_rows(matches, entries.at(np.array(sorted(chosen), np.int64)))


def top(matches: Matches, entries: Entries, k: int, best: dict[Window, list[float]]) -> list[FormedRow]:
    """OUTPUT TOP: those of the entries that are among the k most confident of their window so far, these first.

    best: the confidences of those, updated; an entry that only equals an earlier one comes after it.
    """
    confidence = matches.listed.confidence[entries.match]
    windows: dict[Window, list[int]] = {}
    for at in range(len(entries.match)):
        windows.setdefault(entries.window(at), []).append(at)
    chosen: list[int] = []
    for window, members in windows.items():
        ranked = sorted(members, key=lambda at: (-confidence[at], at))[:k]
        earlier = [(-sure, -1) for sure in best.get(window, [])]
        kept = sorted([*earlier, *((-float(confidence[at]), at) for at in ranked)], key=lambda item: item[0])[:k]
        best[window] = [-negative for negative, _ in kept]
        chosen += [at for _, at in kept if at >= 0]
    return all_rows(matches, entries.at(np.array(chosen, np.int64)))


def _bounds(*columns: Int64Array) -> Iterator[tuple[int, int]]:
    """Ranges of equal rows of sorted columns."""
    starts = _starts(*columns)
    return zip(starts.tolist(), np.append(starts, len(columns[0]))[1:].tolist(), strict=True)


def _starts(*columns: Int64Array) -> Int64Array:
    changes = np.zeros(len(columns[0]), np.bool_)
    changes[:1] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def _best_of_groups(matches: Matches, entries: Entries, columns: Sequence[Int64Array]) -> Int64Array:
    """Per group of equal columns the entry of the most confident match, of these the longest, of these the first."""
    starts = _starts(*columns)
    if not len(starts):
        return starts
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(columns[0]))))
    confidence = matches.listed.confidence[entries.match]
    close = confidence > np.maximum.reduceat(confidence, starts)[group] - TOLERANCE
    n_events = np.where(close, matches.n_events[entries.match], 0)
    longest = np.flatnonzero(n_events == np.maximum.reduceat(n_events, starts)[group])
    _, first = np.unique(group[longest], return_index=True)
    return longest[first]


def _best(matches: Matches, match_of: Int64Array, group: Int64Array) -> int:
    """The same for one group of places in `match_of`."""
    confidence = matches.listed.confidence[match_of[group]]
    close = group[confidence > confidence.max() - TOLERANCE]
    return int(close[np.argmax(matches.n_events[match_of[close]])])


def _candidates(matches: Matches, group: Int64Array) -> dict[int, Int64Array]:
    """Component -> the events that it has in at least one match, in stream order."""
    own = matches.listed.chosen(group)
    number = matches.events.number
    candidates: dict[int, Int64Array] = {}
    for component in np.unique(own.components).tolist():
        rows = own.rows[own.components == component]
        _, first = np.unique(number[rows], return_index=True)
        candidates[component] = rows[first]
    return candidates


__all__ = [
    "NO_OPENER",
    "NO_WINDOW",
    "TOLERANCE",
    "BoundIds",
    "Collapsing",
    "Entries",
    "FormedRow",
    "Window",
    "all_rows",
    "as_window",
    "counted",
    "in_listing_order",
    "merged_sets",
    "non_overlapping",
    "top",
]
