"""Matches that incidents may bind: to which alert each belongs, for as long as an incident may still come of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

import engine
from app.alerting.catalog import QueryInfo
from app.alerting.episodes import BoundMatch, alert_key, canonical_key
from app.alerting.evidence import KnownEvent
from app.alerting.match import Match
from app.json_text import json_text
from app.store.storable import storable_values
from engine.events import FOREVER_MS

_COLUMNS = pa.schema(
    {name: pa.large_string() for name in ("match_id", "query", "key_text")}
    | {"first_ms": pa.int64(), "at_ms": pa.int64(), "values": pa.large_string()}
)


class BoundMatches:
    """The matches of the queries whose alerts can be part of incidents."""

    def __init__(self, queries: Mapping[str, QueryInfo]) -> None:
        self._queries = queries
        self._keep_ms: dict[str, int] = {}
        for info in queries.values():
            for name in info.binds:
                reach_ms = FOREVER_MS if info.within_ms is None else info.within_ms
                self._keep_ms[name] = max(self._keep_ms.get(name, 0), reach_ms)
        self._known: dict[str, tuple[BoundMatch, int, str]] = {}
        """By id: the match, the earliest time of its first event, its values as JSON."""
        self._watermark_ms = -FOREVER_MS

    def __len__(self) -> int:
        return len(self._known)

    def add(self, matches: Iterable[Match], watermark_ms: int) -> None:
        """A step's matches, up to a watermark; what the watermark before this one had left behind goes."""
        if not self._keep_ms:
            return
        self._known = {
            match_id: known
            for match_id, known in self._known.items()
            if known[0].at_ms + self._keep_ms.get(known[0].query, -FOREVER_MS) >= self._watermark_ms
        }
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
            self._known[match_id if n == 1 else f"{match_id}~{n}"] = bound, match.first_lo_ms, values

    def find(self, match_id: str) -> BoundMatch | None:
        """The match of this id; None: it is not kept."""
        known = self._known.get(match_id)
        return None if known is None else known[0]

    def lookup(self, match_ids: Sequence[str]) -> dict[str, KnownEvent]:
        """The matches of these ids as events, by id: the evidence of an incident."""
        found: dict[str, KnownEvent] = {}
        for match_id in match_ids:
            if (known := self._known.get(match_id)) is not None:
                bound, first_ms, text = known
                values = {name: value for name, value in json.loads(text).items() if value is not None}
                found[match_id] = KnownEvent(match_id, bound.query, first_ms, bound.at_ms, values, None, None)
        return found

    def save(self) -> pa.Table:
        """All that is kept."""
        rows = [(match_id, *bound, first_ms, text) for match_id, (bound, first_ms, text) in self._known.items()]
        names = ("match_id", "query", "key_text", "at_ms", "first_ms", "values")
        columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(names, ())
        return pa.table({name: pa.array(columns[name], _COLUMNS.field(name).type) for name in _COLUMNS.names})

    def restore(self, table: pa.Table, watermark_ms: int) -> None:
        """Take over what `save` returned, with the watermark at that time; raises KeyError for another table."""
        rows = zip(*(table.column(name).to_pylist() for name in _COLUMNS.names), strict=True)
        self._known = {
            match_id: (BoundMatch(query, key_text, at_ms), first_ms, text)
            for match_id, query, key_text, first_ms, at_ms, text in rows
            if query in self._keep_ms
        }
        self._watermark_ms = watermark_ms


__all__ = ["BoundMatches"]
