"""Matches that alerts may bind: what each is as evidence, and to which alert it belongs, which incidents ask.

They are kept for as long as an alert may still come of them, in panes: one that is open takes those of each step; a
full one is sealed and never changes again, so that a checkpoint writes it once. A pane of which less than half may
still be bound is dissolved, and what is left of it goes through the open one once more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import engine
from app.alerting.catalog import QueryInfo
from app.alerting.recording.episodes import BoundMatch, alert_key, canonical_key
from app.alerting.recording.evidence import KnownEvent
from app.alerting.recording.match import Match
from app.json_text import json_text
from app.store.storable import storable_values
from engine.events import FOREVER_MS

PANE_MATCHES = 2_048
"""A pane of so many is sealed: fewer are written again in the next step."""
MOST_MATCHES = 100_000
"""Beyond, the oldest pane goes; alerts whose matches it had are told by themselves."""

MATCHES, SEALED = "matches", "sealed-"
"""Names of saved panes."""

_COLUMNS = pa.schema(
    {name: pa.large_string() for name in ("match_id", "query", "key_text")}
    | {"first_ms": pa.int64(), "at_ms": pa.int64(), "values": pa.large_string()}
)


class _Known(NamedTuple):
    """A match, the earliest time of its first event, its values as JSON."""

    match: BoundMatch
    first_ms: int
    values: str


class _Pane:
    """Matches by id; never changed."""

    def __init__(self, known: dict[str, _Known], until_ms: Iterable[int], table: pa.Table | None = None) -> None:
        """`until_ms`: of each the last watermark at which an incident may bind it."""
        self.known = known
        self._table = table
        ends = np.fromiter(until_ms, np.int64, len(known))
        middle = len(ends) // 2
        self.half_until_ms = int(np.partition(ends, middle)[middle]) if len(ends) else -FOREVER_MS
        """The last watermark at which at least half of it may be bound."""

    @property
    def table(self) -> pa.Table:
        """The same object each time."""
        if self._table is None:
            self._table = _table(self.known)
        return self._table


class BoundMatches:
    """The matches of the queries that queries with alerts use."""

    def __init__(
        self, queries: Mapping[str, QueryInfo], *, pane_matches: int = PANE_MATCHES, most_matches: int = MOST_MATCHES
    ) -> None:
        """`pane_matches`: a pane of so many is sealed; `most_matches`: so many are kept, about."""
        self._queries = queries
        self._pane_matches, self._most_matches = pane_matches, most_matches
        self._of_alerts = frozenset[str]().union(*(info.binds for info in queries.values()))
        self._keep_ms: dict[str, int] = {}
        for info in queries.values():
            for name in () if info.is_report else info.uses | info.binds:
                reach_ms = FOREVER_MS if info.within_ms is None else info.within_ms
                self._keep_ms[name] = max(self._keep_ms.get(name, 0), reach_ms)
        self._open: dict[str, _Known] = {}
        self._sealed: list[_Pane] = []
        self._watermark_ms = -FOREVER_MS

    def __len__(self) -> int:
        return len(self._open) + sum(len(pane.known) for pane in self._sealed)

    def add(self, matches: Iterable[Match], watermark_ms: int, behind_ms: int = 0) -> int:
        """A step's matches, up to a watermark; what the watermark before this one had left behind goes. `behind_ms`:
        how far behind that one rows that bind others were still to come.

        Returns how many that might still have been bound went for lack of room.
        """
        if not self._keep_ms:
            return 0
        self._watermark_ms -= behind_ms
        self._expire()
        self._watermark_ms = watermark_ms
        n_times: dict[str, int] = {}
        for match in matches:
            if match.query not in self._keep_ms:
                continue
            info = self._queries[match.query]
            match_id = engine.match_id(match.query, info.match_hash, match.key, match.window, match.bindings)
            n_times[match_id] = n = n_times.get(match_id, 0) + 1
            bound = BoundMatch(match.query, canonical_key(alert_key(match, info.per)), match.last_hi_ms)
            values = json_text(storable_values({**dict(match.key), **match.values}))
            self._take(match_id if n == 1 else f"{match_id}~{n}", _Known(bound, match.first_lo_ms, values))
        self._seal()
        n_dropped = 0
        while len(self._sealed) > 1 and len(self) > self._most_matches:  # those of this step stay
            oldest = self._sealed.pop(0)
            n_dropped += sum(map(self._is_alive, oldest.known.values()))
        return n_dropped

    def go_back(self, matches: Iterable[Match], watermark_ms: int) -> None:
        """The watermark was ahead and stands here now; `matches`: those that are found again up to there."""
        self._watermark_ms = watermark_ms
        known = {
            match_id: of for pane in self._panes() for match_id, of in pane.items() if of.match.at_ms < watermark_ms
        }
        self._open, self._sealed = known, []
        self._seal()
        self.add(matches, watermark_ms)

    def find(self, match_id: str) -> BoundMatch | None:
        """The match of this id, of a query whose alerts can be part of incidents; None: there is none that is kept."""
        known = self._find(match_id)
        return None if known is None or known.match.query not in self._of_alerts else known.match

    def lookup(self, match_ids: Sequence[str]) -> dict[str, KnownEvent]:
        """The matches of these ids as events, by id: the evidence of an incident."""
        found: dict[str, KnownEvent] = {}
        for match_id in match_ids:
            if (known := self._find(match_id)) is not None:
                bound, first_ms, text = known
                values = {name: value for name, value in json.loads(text).items() if value is not None}
                found[match_id] = KnownEvent(match_id, bound.query, first_ms, bound.at_ms, values, None, None)
        return found

    def save(self) -> dict[str, pa.Table]:
        """What changes with each step; `sealed` has the rest."""
        return {MATCHES: _table(self._open)}

    def sealed(self) -> dict[str, pa.Table]:
        """The sealed panes; of one it is the same object each time."""
        return {f"{SEALED}{number}": pane.table for number, pane in enumerate(self._sealed)}

    def restore(self, tables: Mapping[str, pa.Table], watermark_ms: int) -> None:
        """Take over what `save` and `sealed` returned, with the watermark at that time; raises KeyError for other
        tables."""
        self._open = self._rows(tables[MATCHES])
        numbers = sorted(int(name.removeprefix(SEALED)) for name in tables if name.startswith(SEALED))
        self._sealed = [self._pane(tables[f"{SEALED}{number}"]) for number in numbers]
        self._watermark_ms = watermark_ms
        self._seal()  # checkpoints of before have all in one table

    def _rows(self, table: pa.Table) -> dict[str, _Known]:
        rows = zip(*(table.column(name).to_pylist() for name in _COLUMNS.names), strict=True)
        return {
            match_id: _Known(BoundMatch(query, key_text, at_ms), first_ms, text)
            for match_id, query, key_text, first_ms, at_ms, text in rows
            if query in self._keep_ms
        }

    def _pane(self, table: pa.Table) -> _Pane:
        known = self._rows(table)
        return _Pane(known, map(self._until_ms, known.values()), table)

    def _until_ms(self, known: _Known) -> int:
        return min(FOREVER_MS, known.match.at_ms + self._keep_ms[known.match.query])

    def _is_alive(self, known: _Known) -> bool:
        return self._until_ms(known) >= self._watermark_ms

    def _panes(self) -> Iterator[dict[str, _Known]]:
        yield self._open
        for pane in reversed(self._sealed):
            yield pane.known

    def _find(self, match_id: str) -> _Known | None:
        return next((pane[match_id] for pane in self._panes() if match_id in pane), None)

    def _take(self, match_id: str, known: _Known) -> None:
        """One that is found again, after the watermark went back, is kept once."""
        if match_id in self._open or self._find(match_id) is None:
            self._open[match_id] = known

    def _expire(self) -> None:
        """The open pane is small; of a sealed one the time of its middle tells whether it is dissolved."""
        self._open = {match_id: known for match_id, known in self._open.items() if self._is_alive(known)}
        dissolved = [pane for pane in self._sealed if pane.half_until_ms < self._watermark_ms]
        if dissolved:
            self._sealed = [pane for pane in self._sealed if pane.half_until_ms >= self._watermark_ms]
            for pane in dissolved:
                self._open |= {match_id: known for match_id, known in pane.known.items() if self._is_alive(known)}

    def _seal(self) -> None:
        if len(self._open) >= self._pane_matches:
            self._sealed.append(_Pane(self._open, map(self._until_ms, self._open.values())))
            self._open = {}


def _table(known: Mapping[str, _Known]) -> pa.Table:
    rows = [(match_id, *of.match, of.first_ms, of.values) for match_id, of in known.items()]
    names = ("match_id", "query", "key_text", "at_ms", "first_ms", "values")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(names, ())
    return pa.table({name: pa.array(columns[name], _COLUMNS.field(name).type) for name in _COLUMNS.names})


__all__ = ["BoundMatches"]
