"""The output forms over listed matches (DESIGN 3, "Output"), for runtimes that have no better way to one.

All of them work on entries: a match in a window. Without windows of its own a query has one entry per match. Matches
are in listing order (last event, first event, ids), and entries in that of their matches, then windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from engine.events import BoolArray, Float64Array, Int64Array
from engine.kernels.columns.selection import chosen_apart
from engine.kernels.confidence.sequences import TOLERANCE
from engine.matching.deduplication import confidence_of_any
from engine.matching.output.binding_digests import groups_of, set_digests
from engine.matching.output.listed import Key, Matches, as_key
from engine.matching.work_account import WorkAccount

RANKED_DIGITS = 9
"""Digits of confidences by which TOP ranks."""

RANK_STEP = 10.0**-RANKED_DIGITS
"""Confidences that differ by more are never of one rank."""

Window = tuple[int, int, int]
"""Start and end in ms, and what tells apart windows of one time: the position of the opening event in the stream."""

NO_OPENER = -1
NO_WINDOW: Window = (0, 0, NO_OPENER)

_NEVER_MS = -(2**62)


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
    def window_codes(self) -> Int64Array:
        """A number for each that tells its window from the others of the query: what opened it, or when it starts."""
        return np.where(self.opener == NO_OPENER, self.start_ms, self.opener)

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
        bounds = np.cumsum(self.n_behind) - self.n_behind
        positions = np.arange(self.n_behind.sum()) + np.repeat(self.starts - bounds, self.n_behind)
        behind: Int64Array = self.groups[positions]
        return behind

    def in_windows(self, number: Int64Array, entries: Entries) -> Formed:
        """Rows of numbers `number` in the windows of `entries`."""
        return Formed(entries, self.confidence[number], self.n_behind[number], self.groups, self.starts[number])

    @classmethod
    def of(cls, entries: Entries, confidence: Float64Array, n_behind: Int64Array) -> Formed:
        """Rows that say of the matches behind them how many these are."""
        return cls(entries, confidence, n_behind, np.empty(0, np.int64), np.zeros(len(n_behind), np.int64))


class Owners:
    """Who owns what is remembered of entries: a window and a key, by numbers that stay while anything is."""

    def __init__(self) -> None:
        self._keys: dict[Key, int] = {}
        self._known: Int64Array = np.empty((0, 2), np.int64)  # window, key

    def numbers(self, matches: Matches, entries: Entries) -> Int64Array:
        """The number of the owner of each entry, (k,)."""
        keys = np.array([self._keys.setdefault(key, len(self._keys)) for key in matches.keys], np.int64)
        own = np.stack([entries.window_codes, keys[matches.listed.partition[entries.match]]], axis=1)
        return self._numbered(own) if len(own) else np.empty(0, np.int64)

    def _numbered(self, own: Int64Array) -> Int64Array:
        n_keys = len(self._keys)
        whole = np.concatenate([self._known, own])
        window = np.unique(whole[:, 0], return_inverse=True)[1]
        _, first, number = np.unique(window * n_keys + whole[:, 1], return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")  # those that are known keep their numbers
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        self._known = whole[first[order]]
        found: Int64Array = position[number[len(whole) - len(own) :]]
        return found

    def __len__(self) -> int:
        return len(self._known)

    def keep(self, numbers: Int64Array) -> Int64Array:
        """Forget all others; returns the new number of each, -1 for those, (n,)."""
        used = np.zeros(len(self), np.bool_)
        used[numbers] = True
        new = np.where(used, np.cumsum(used) - 1, -1)
        self._known = self._known[used]
        keys = np.unique(self._known[:, 1])
        names = list(self._keys)
        self._keys = {names[key]: at for at, key in enumerate(keys.tolist())}
        self._known[:, 1] = np.searchsorted(keys, self._known[:, 1])
        return new

    def save(self) -> dict[str, Any]:
        """State as JSON values."""
        return {"keys": list(self._keys), "windows": self._known[:, 0].tolist(), "key": self._known[:, 1].tolist()}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Owners:
        """What `save` returned."""
        owners = cls()
        owners._keys = {as_key(key): at for at, key in enumerate(state["keys"])}
        owners._known = np.array([state["windows"], state["key"]], np.int64).T.copy()
        return owners

    @classmethod
    def of(cls, known: Sequence[tuple[Window, Key]]) -> Owners:
        """These, as states of before have them, in this order."""
        owners = cls()
        keys = [owners._keys.setdefault(key, len(owners._keys)) for _, key in known]
        codes = [start_ms if opener == NO_OPENER else opener for (start_ms, _, opener), _ in known]
        owners._known = np.array([codes, keys], np.int64).T.copy()
        return owners


def all_rows(matches: Matches, entries: Entries) -> Formed:
    """OUTPUT ALL: every entry."""
    n = len(entries.match)
    return Formed.of(entries, matches.listed.confidence[entries.match], np.ones(n, np.int64))


def merged_sets(
    matches: Matches, entries: Entries, threshold: float, lost: list[int], account: WorkAccount, due_ms: Int64Array
) -> Formed:
    """OUTPUT SETS: entries with equal event sets per component are one.

    Their orders are disjoint, so confidences add up; the divisions of one order into iterations share its worlds and
    count once. Where AND leaves orders open, or negated events tell matches of one order apart, it is known in which
    worlds each is a match, and the row is as confident as it is that one of them happened; a row of which that would
    be too much work is left out, in `lost`. The threshold applies to the sum. The row shows the most
    confident, longest, first listed match. account: pays for what this takes, in the order of `due_ms`, int64 (n,),
    when each match is decided.
    """
    order, bounds = groups_of(set_digests(matches)[:, entries.match], entries.window_codes)
    starts, lengths = bounds[:-1], np.diff(bounds)
    confidence = np.minimum(matches.listed.confidence[entries.match], 1.0)
    kept: BoolArray = np.zeros(len(order), np.bool_)
    alone = order[starts[lengths == 1]]
    kept[alone] = confidence[alone] >= threshold - TOLERANCE
    n_behind = np.ones(len(kept), np.int64)
    several = np.flatnonzero(lengths > 1)
    shown = entries.match[order[starts[several]]]
    last = matches.events.number[matches.last[shown]]
    several = several[np.lexsort((shown, last, due_ms[shown]))]
    totals: dict[tuple[int, ...], float | None] = {}  # windows share sets
    for start, n in zip(starts[several].tolist(), lengths[several].tolist(), strict=True):
        group = order[start : start + n]
        members = tuple(entries.match[group].tolist())
        if members not in totals:
            totals[members] = confidence_of_any(matches, list(members), account)
        total = totals[members]
        if total is None:
            lost.append(start)
        elif total >= threshold - TOLERANCE:
            best = _best(matches, entries.match, group)
            kept[best], confidence[best], n_behind[best] = True, total, n
    return Formed.of(entries.at(kept), confidence[kept], n_behind[kept])


def counted(matches: Matches, entries: Entries, most: int) -> Formed:
    """OUTPUT COUNT and COLLAPSED: one row per window, key, first and last event; at most `most`. Those of one first and
    last event in the order of their first listed matches."""
    listed, number = matches.listed, matches.events.number
    first, last = number[matches.first][entries.match], number[matches.last][entries.match]
    key = _by_first_listed(listed.partition[entries.match], first, last)
    order = np.lexsort((np.arange(len(key)), *entries.windows, key, first, last))
    entries = entries.at(order)
    columns = (first[order], last[order], key[order], *entries.windows)
    shown = entries.at(_best_of_groups(matches, entries, columns))
    starts = _starts(*columns)
    n_behind = np.diff(np.append(starts, len(order)))
    return Formed(shown, listed.confidence[shown.match], n_behind, entries.match, starts).at(slice(most))


def _by_first_listed(key: Int64Array, first: Int64Array, last: Int64Array) -> Int64Array:
    """Keys renumbered so that among entries of one first and last event they ascend as their first entries do."""
    order = np.lexsort((key, first, last))
    starts, of_ends = _starts(first[order], last[order], key[order]), _starts(first[order], last[order])
    if len(starts) == len(of_ends):
        return key
    lead: Int64Array = np.empty(len(key), np.int64)
    lead[order] = np.repeat(order[starts], np.diff(np.append(starts, len(order))))
    return lead


@dataclass
class LatestEnds:
    """The end of the match that NON_OVERLAPPING has chosen last, by window and partition."""

    owners: Owners = field(default_factory=Owners)
    ends_ms: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))

    def of_entries(self, matches: Matches, entries: Entries) -> tuple[Int64Array, Int64Array]:
        """The owner of each entry, (k,), and the end of each owner, to be written."""
        numbers = self.owners.numbers(matches, entries)
        new = np.full(len(self.owners) - len(self.ends_ms), _NEVER_MS)
        self.ends_ms = np.concatenate([self.ends_ms, new])
        return numbers, self.ends_ms

    def forget(self, before_ms: int) -> None:
        """Forget the ends before `before_ms`."""
        kept = np.flatnonzero(self.ends_ms >= before_ms)
        if len(kept) < len(self.ends_ms):
            self.owners.keep(kept)
            self.ends_ms = self.ends_ms[kept]

    def save(self) -> dict[str, Any]:
        """State as JSON values."""
        return {**self.owners.save(), "ends_ms": self.ends_ms.tolist()}

    @classmethod
    def restored(cls, state: Any) -> LatestEnds:
        """What `save` returned, or what states of before have: window, key and end of each."""
        if isinstance(state, list):
            known = [(as_window(window), as_key(key)) for window, key, _ in state]
            return cls(Owners.of(known), np.array([end_ms for _, _, end_ms in state], np.int64))
        return cls(Owners.restored(state), np.array(state["ends_ms"], np.int64))


def non_overlapping(matches: Matches, entries: Entries, latest: LatestEnds) -> Formed:
    """OUTPUT NON_OVERLAPPING: per window and partition the earliest end, then earliest start, longest, ids.

    latest: updated; the next match starts strictly later than the end of the one before.
    """
    events = matches.events
    first, last = matches.first[entries.match], matches.last[entries.match]
    n_events = matches.n_events[entries.match]
    order = np.lexsort(
        (np.arange(len(first)), -n_events, events.number[first], events.lo_ms[first], events.number[last],
         events.hi_ms[last])
    )  # fmt: skip
    owners, ends_ms = latest.of_entries(matches, entries)
    first, last = first[order], last[order]
    chosen = chosen_apart(owners[order], events.lo_ms[first], events.hi_ms[last], ends_ms)
    return all_rows(matches, entries.at(np.sort(order[chosen])))


def top(matches: Matches, entries: Entries, k: int) -> Formed:
    """OUTPUT TOP: the k most confident entries of each window, these first, at a tie the first listed; windows in the
    order of their first entries."""
    confidence = ranked_confidence(matches.listed.confidence[entries.match])
    _, first, window = np.unique(entries.window_codes, return_index=True, return_inverse=True)
    order = np.lexsort((-confidence, first[window]))
    starts = _starts(window[order])
    position = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return all_rows(matches, entries.at(order[position < k]))


def first_of_windows(entries: Entries, n: int) -> Entries:
    """The first n entries of each window, in their order."""
    order = np.lexsort((np.arange(len(entries.match)), *entries.windows))
    starts = _starts(*(column[order] for column in entries.windows))
    lengths = np.diff(np.append(starts, len(order)))
    position = np.arange(len(order)) - np.repeat(starts, lengths)
    return entries.at(np.sort(order[position < n]))


def ranked_confidence(confidence: Float64Array) -> Float64Array:
    """Confidences as TOP compares them: the same sum, added up in another order, is not more or less."""
    return np.round(confidence, RANKED_DIGITS)


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
    """The same for one group of positions in `match_of`."""
    confidence = matches.listed.confidence[match_of[group]]
    close = group[confidence > confidence.max() - TOLERANCE]
    return int(close[np.argmax(matches.n_events[match_of[close]])])


__all__ = [
    "NO_OPENER",
    "NO_WINDOW",
    "RANKED_DIGITS",
    "RANK_STEP",
    "Entries",
    "Formed",
    "LatestEnds",
    "Owners",
    "Window",
    "all_rows",
    "as_window",
    "counted",
    "first_of_windows",
    "merged_sets",
    "non_overlapping",
    "ranked_confidence",
    "top",
]
