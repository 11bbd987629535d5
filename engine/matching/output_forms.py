"""The output forms over listed matches (DESIGN 3, "Output"), for runtimes that have no better way to one.

All of them work on entries: a match in a window. Without windows of its own a query has one entry per match. Entries
are in listing order: last event, first event, ids, window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels.confidence import TOLERANCE
from engine.matching.distinct import confidence_of_any
from engine.matching.listed import Key, Matches

RANKED_DIGITS = 9
"""Digits of confidences by which TOP ranks."""

RANK_STEP = 10.0**-RANKED_DIGITS
"""Confidences that differ by more are never of one rank."""

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


class Formed(NamedTuple):
    """Rows before they are spelled out: the entry that each shows, and what it says of those behind it.

    confidence: float64 (n,); n_behind: int64 (n,), matches behind each row. Where more is said of these than their
    number (COLLAPSED), those of row k are groups[starts[k] : starts[k] + n_behind[k]].
    """

    entries: Entries
    confidence: Float64Array
    n_behind: Int64Array
    groups: Int64Array
    starts: Int64Array

    def at(self, rows: slice) -> Formed:
        """These rows."""
        entries = Entries(*(column[rows] for column in self.entries))
        return Formed(entries, self.confidence[rows], self.n_behind[rows], self.groups, self.starts[rows])

    def behind(self) -> Int64Array:
        """The matches behind the rows, row by row."""
        if not len(self.starts):
            return self.groups[:0]
        return self.groups[self.starts[0] : self.starts[-1] + self.n_behind[-1]]

    @classmethod
    def of(cls, entries: Entries, confidence: Float64Array, n_behind: Int64Array) -> Formed:
        """Rows that say of the matches behind them how many these are."""
        return cls(entries, confidence, n_behind, np.empty(0, np.int64), np.zeros(len(n_behind), np.int64))


BoundIds = Callable[[Int64Array], Sequence[tuple[object, ...]]]
"""From numbers of matches to their ids by variable: what decides between matches that are alike otherwise."""


def in_listing_order(matches: Matches, entries: Entries, ids_of: BoundIds) -> Entries:
    """The entries sorted by last event, first event, ids, window."""
    number = matches.events.number
    first, last = number[matches.first][entries.match], number[matches.last][entries.match]
    order = np.lexsort((entries.opener, entries.start_ms, entries.match, first, last))
    entries, first, last = entries.at(order), first[order], last[order]
    tied = (first[1:] == first[:-1]) & (last[1:] == last[:-1]) & (entries.match[1:] != entries.match[:-1])
    if not tied.any():
        return entries
    of_ties = np.unique(entries.match[np.append(tied, False) | np.append(False, tied)])
    ids = dict(zip(of_ties.tolist(), ids_of(of_ties), strict=True))
    order = np.arange(len(entries.match))
    for start, end in _bounds(first, last):
        if tied[start : end - 1].any():
            run = sorted(range(start, end), key=lambda at: (ids[int(entries.match[at])], entries.window(at)))
            order[start:end] = run
    return entries.at(order)


def all_rows(matches: Matches, entries: Entries) -> Formed:
    """OUTPUT ALL: every entry."""
    n = len(entries.match)
    return Formed.of(entries, matches.listed.confidence[entries.match], np.ones(n, np.int64))


def merged_sets(matches: Matches, entries: Entries, threshold: float, lost: list[int]) -> Formed:
    """OUTPUT SETS: entries with equal event sets per component are one.

    Their orders are disjoint, so confidences add up; the divisions of one order into iterations share its worlds and
    count once. Where AND leaves orders open, or negated events tell matches of one order apart, it is known in which
    worlds each is a match, and the row is as confident as it is that one of them happened; a row of which that would
    be too much work is left out, in `lost`. The threshold applies to the sum. The row shows the most
    confident, longest, first listed match.
    """
    groups: dict[object, list[int]] = {}
    listed, number = matches.listed, matches.events.number
    alone = _alone(matches, entries)
    for at in np.flatnonzero(~alone).tolist():
        match = int(entries.match[at])
        events = slice(listed.offsets[match], listed.offsets[match + 1])
        pairs = zip(listed.components[events].tolist(), number[listed.rows[events]].tolist(), strict=True)
        groups.setdefault((entries.window(at), matches.keys[listed.partition[match]], frozenset(pairs)), []).append(at)
    rows: list[tuple[int, float, int]] = []  # best entry, confidence, matches
    for group in groups.values():
        total = confidence_of_any(matches, entries.match[group].tolist())
        if total is None:
            lost.append(group[0])
        elif total >= threshold - TOLERANCE:
            rows.append((_best(matches, entries.match, np.array(group)), total, len(group)))
    confidence = np.minimum(listed.confidence[entries.match], 1.0)
    kept: BoolArray = alone & (confidence >= threshold - TOLERANCE)
    n_behind = np.ones(len(kept), np.int64)
    for best, total, n in rows:
        kept[best], confidence[best], n_behind[best] = True, total, n
    return Formed.of(entries.at(kept), confidence[kept], n_behind[kept])


def _alone(matches: Matches, entries: Entries) -> BoolArray:
    """Entries whose first and last events and number of events no other one of the window and key has, bool (k,)."""
    listed = matches.listed
    number = matches.events.number[listed.rows]
    begins = listed.offsets[:-1]
    n = len(entries.match)
    columns = [matches.n_events, listed.partition]
    if matches.n_matches:
        columns += [np.minimum.reduceat(number, begins), np.maximum.reduceat(number, begins)]
    columns = [*(column[entries.match] for column in columns), *entries.windows]
    order = np.lexsort(columns)
    starts = _starts(*(column[order] for column in columns))
    alone: BoolArray = np.zeros(n, np.bool_)
    alone[order[starts[np.diff(np.append(starts, n)) == 1]]] = True
    return alone


def counted(matches: Matches, entries: Entries, most: int, *, collapsed: bool) -> Formed:
    """OUTPUT COUNT and COLLAPSED: one row per window, key, first and last event; at most `most`."""
    listed, number = matches.listed, matches.events.number
    key = listed.partition[entries.match]
    first, last = number[matches.first][entries.match], number[matches.last][entries.match]
    order = np.lexsort((np.arange(len(key)), *entries.windows, key, first, last))
    entries = entries.at(order)
    columns = (first[order], last[order], key[order], *entries.windows)
    shown = entries.at(_best_of_groups(matches, entries, columns))
    starts = _starts(*columns)
    n_behind = np.diff(np.append(starts, len(order)))
    groups = entries.match if collapsed or matches.possible is not None else entries.match[:0]
    return Formed(shown, listed.confidence[shown.match], n_behind, groups, starts).at(slice(most))


def non_overlapping(matches: Matches, entries: Entries, ends_ms: dict[tuple[Window, Key], int]) -> Formed:
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


def top(matches: Matches, entries: Entries, k: int) -> Formed:
    """OUTPUT TOP: the k most confident entries of each window, these first, at a tie the first listed."""
    confidence = ranked_confidence(matches.listed.confidence[entries.match])
    windows: dict[Window, list[int]] = {}
    for at in range(len(entries.match)):
        windows.setdefault(entries.window(at), []).append(at)
    chosen = [at for members in windows.values() for at in sorted(members, key=lambda at: (-confidence[at], at))[:k]]
    return all_rows(matches, entries.at(np.array(chosen, np.int64)))


def first_of_windows(entries: Entries, n: int) -> Entries:
    """The first n entries of each window, in their order."""
    order = np.lexsort((np.arange(len(entries.match)), *entries.windows))
    starts = _starts(*(column[order] for column in entries.windows))
    lengths = np.diff(np.append(starts, len(order)))
    place = np.arange(len(order)) - np.repeat(starts, lengths)
    return entries.at(np.sort(order[place < n]))


def ranked_confidence(confidence: Float64Array) -> Float64Array:
    """Confidences as TOP compares them: the same sum, added up in another order, is not more or less."""
    return np.round(confidence, RANKED_DIGITS)


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


__all__ = [
    "NO_OPENER",
    "NO_WINDOW",
    "RANKED_DIGITS",
    "RANK_STEP",
    "BoundIds",
    "Entries",
    "Formed",
    "Window",
    "all_rows",
    "as_window",
    "counted",
    "first_of_windows",
    "in_listing_order",
    "merged_sets",
    "non_overlapping",
    "ranked_confidence",
    "top",
]
