"""Rows for whom their events are nothing but an identity: without them, and with a digest of them.

A pattern that ends in a Kleene closure has a match for each of its events, with all events before it. Spelled out they
grow with the square of their number; what they share is hashed once here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from engine.matching.output.match_row import Binding, MatchRow, binding_json
from engine.matching.output.rows import MatchRows
from engine.matching.runs.rows import RunRows

if TYPE_CHECKING:
    Hash = hashlib.blake2b

DIGEST_BYTES = 16


def bindings_digest(bindings: Mapping[str, Binding]) -> str:
    """A hash of a match's events (32 hex digits): variable by variable in the order of the mapping."""
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for name, binding in bindings.items():
        before = _before(name)
        if all(isinstance(entry, str) for entry in binding):
            state.update(b"".join([_event(before, entry) for entry in binding]))  # type: ignore[arg-type]
        else:
            state.update(_event(before + b"\0", binding_json(binding)))
    return state.hexdigest()


def brief_rows(
    rows: Sequence[MatchRow], queries: Collection[str], most_events: int
) -> Iterator[tuple[MatchRow, str | None]]:
    """The rows in their order; those of `queries` with more than so many events come without them.

    Instead they come with the `bindings_digest` that these would have, the others with None. Linear in the number of
    events where the rows are those of runs that have a history each, else in that of all rows' events.
    """
    if isinstance(rows, MatchRows):
        for part in rows.parts:
            yield from brief_rows(part, queries, most_events)
    elif isinstance(rows, RunRows) and rows.query in queries:
        yield from _of_runs(rows, most_events)
    else:
        for row in rows:
            is_long = row.query in queries and sum(map(len, row.bindings.values())) > most_events
            yield (row.without_events(), bindings_digest(row.bindings)) if is_long else (row, None)


def _of_runs(rows: RunRows, most_events: int) -> Iterator[tuple[MatchRow, str | None]]:
    known = _hashed(rows)
    long = [number for number, found in enumerate(known) if found is not None and found[0] > most_events]
    brief = iter(rows.brief(long))
    others = set(long)
    full = iter(rows.chosen([number for number in range(len(rows)) if number not in others]))
    for number, found in enumerate(known):
        if number in others and found is not None:
            yield next(brief), found[1].hexdigest()
        else:
            row = next(full)
            is_long = sum(map(len, row.bindings.values())) > most_events
            yield (row.without_events(), bindings_digest(row.bindings)) if is_long else (row, None)


def _hashed(rows: RunRows) -> list[tuple[int, Hash] | None]:
    """Number of events and hash of each row; None for one of a run that stands for several histories."""
    graph = rows.history_graph()
    before = {position: _before(name) for position, name in enumerate(rows.variables)}
    start = (0, hashlib.blake2b(digest_size=DIGEST_BYTES))
    states: dict[int, tuple[int, Hash]] = {-1: start}
    for node, parent, component, event_id in graph.nodes():
        n_before, state = states[parent]
        state = state.copy()
        state.update(_event(before[component], event_id))
        states[node] = (n_before + 1, state)
    return [states.get(head) if head >= 0 else None for head in graph.heads]


def _before(name: str) -> bytes:
    return name.encode() + b"\0"


def _event(before: bytes, event_id: str) -> bytes:
    text = event_id.encode()
    return before + len(text).to_bytes(4, "little") + text


__all__ = ["bindings_digest", "brief_rows"]
