"""Hypothesis strategies: random streams, random deliveries of a stream, and cases of a query with a stream for it.

The values are chosen so that doubles are exact (small integers, halves) and ties, NULLs and equal keys are frequent.
Streams are small: the oracle lists every sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from hypothesis import strategies as st

from engine.events import EventBatch
from engine.language import ast
from engine.language.parser import parse
from tests.engine.query_strategies import (
    ANY,
    CONSTRUCTS,
    EVERYTHING,
    NEXT,
    PARTITION,
    SCHEMA,
    STRICT,
    QueryScope,
    queries,
)


@dataclass(frozen=True)
class StreamScope:
    """What streams to draw: `width_ms` is the most points that an interval has, 1 for precise events alone; `skew_ms`
    the greatest bound of a clock's offset."""

    max_events: int = 8
    horizon_ms: int = 12
    width_ms: int = 1
    clocks: bool = False
    weights: bool = False
    skew_ms: int = 0
    null_share: int = 12  # one value in so many is NULL


PRECISE = StreamScope()
IMPRECISE = StreamScope(max_events=5, width_ms=8, clocks=True)
WEIGHTED = replace(IMPRECISE, weights=True)
SKEWED = replace(WEIGHTED, max_events=4, width_ms=3, skew_ms=2)

CLOCKS = ("h1", "h2")


# ------------------------------------------------------------------- streams


@st.composite
def streams(
    draw: st.DrawFn, scope: StreamScope = PRECISE, favoured: Sequence[str] = (), planted: Sequence[str] = ()
) -> EventBatch:
    """Events over SCHEMA in no particular order; ids are e0, e1, ... in stream order of their nominal times.

    Types in `favoured` come up three times as often as all others together; those in `planted` come one after the
    other, with one key, as far as there is room, half of them at exact times.
    """
    least = draw(st.sampled_from([0, scope.max_events // 2, scope.max_events]))
    rows = draw(st.lists(_rows(scope, tuple(favoured)), min_size=least, max_size=scope.max_events))
    rows = [*draw(_planted(scope, planted[: scope.max_events])), *rows][: scope.max_events]
    rows.sort(key=lambda row: (row["t_hi_ms"], row["t_lo_ms"]))
    for number, row in enumerate(rows):
        row |= {"event_id": f"e{number}", "source_seq": number}
    _separate_clocks(rows)
    if scope.skew_ms:
        _skew(rows, {clock: draw(st.integers(0, scope.skew_ms)) for clock in (None, *CLOCKS)}, scope.skew_ms)
    return EventBatch.from_rows(draw(st.permutations(rows)), SCHEMA)


@st.composite
def _planted(draw: st.DrawFn, scope: StreamScope, types: Sequence[str]) -> list[dict[str, Any]]:
    times = draw(st.lists(st.integers(0, scope.horizon_ms), min_size=len(types), max_size=len(types)))
    rows = []
    for event_type, lo_ms in zip(types, sorted(times), strict=True):
        row = draw(_rows(scope, (event_type,)))
        length_ms = row["t_hi_ms"] - row["t_lo_ms"]
        if length_ms and draw(st.booleans()):
            length_ms = 0
            row.pop("weights", None)
        if row["type"] == event_type:
            row |= {"t_lo_ms": lo_ms, "t_hi_ms": lo_ms + length_ms}
            row |= {name: value for name, value in (("k", "p"), ("j", 1)) if name in SCHEMA.types[event_type]}
        rows.append(row)
    return rows


def _separate_clocks(rows: Sequence[dict[str, Any]]) -> None:
    """Give an event a clock of its own where its interval overlaps the one before on its clock.

    What certain order means for the times of overlapping intervals of one clock is not settled (docs/decisions.md).
    """
    before: dict[str, dict[str, Any]] = {}
    for row in rows:
        clock = row.get("clock_id")
        if clock is None:
            continue
        last = before.get(clock)
        is_precise = last is not None and last["t_lo_ms"] == last["t_hi_ms"] and row["t_lo_ms"] == row["t_hi_ms"]
        if last is not None and row["t_lo_ms"] <= last["t_hi_ms"] and not is_precise:
            row["clock_id"] = None
        else:
            before[clock] = row


def _skew(rows: Sequence[dict[str, Any]], bounds_ms: Mapping[str | None, int], later_ms: int) -> None:
    """Give clocks their bounds; everything comes so much later that no time is below 0."""
    for row in rows:
        skew_ms = bounds_ms[row.get("clock_id")]
        row["skew_ms"] = skew_ms
        row["t_lo_ms"] += later_ms - skew_ms
        row["t_hi_ms"] += later_ms + skew_ms


_TYPES = st.sampled_from(["A", "B", "B", "C", "N", "L", "P"])
_QUARTERS = st.integers(0, 3)
_RANKS = st.integers(0, 1)
_CLOCKS = st.sampled_from([None, *CLOCKS])
_VALUES: Mapping[str, Sequence[Any]] = {
    "k": ["p", "p", "q"],
    "j": [1, 2],
    "x": range(-3, 5),
    "y": [n / 2 for n in range(-4, 7)],
    "s": ["ok", "bad"],
}


@cache
def _widths(most_ms: int) -> st.SearchStrategy[int]:
    """Long ones are rare: the oracle lists worlds."""
    return st.sampled_from([width for width in (1, 2, 2, 3, 3, 4, 8) if width <= most_ms])


@cache
def _attributes(event_type: str, null_share: int) -> Mapping[str, st.SearchStrategy[Any]]:
    """Of a type; one draw for each, NULL or not: drawing takes most of a property test's time."""
    return {
        name: st.sampled_from([*_VALUES[name]] * max(1, round(null_share / len(_VALUES[name]))) + [None])
        for name in SCHEMA.types[event_type]
    }


@st.composite
def _rows(draw: st.DrawFn, scope: StreamScope, favoured: tuple[str, ...]) -> dict[str, Any]:
    is_favoured = bool(favoured) and draw(_QUARTERS) > 0
    event_type = draw(st.sampled_from(favoured) if is_favoured else _TYPES)
    lo_ms = draw(st.integers(0, scope.horizon_ms))
    width_ms = draw(_widths(scope.width_ms)) if scope.width_ms > 1 else 1
    row: dict[str, Any] = {
        "type": event_type,
        "t_lo_ms": lo_ms,
        "t_hi_ms": lo_ms + width_ms - 1,
        "source_rank": draw(_RANKS),
    }
    if scope.clocks:
        row["clock_id"] = draw(_CLOCKS)
    if scope.weights and draw(st.booleans()):
        counts = draw(st.lists(_QUARTERS, min_size=width_ms, max_size=width_ms).filter(any))
        row["weights"] = [count / sum(counts) for count in counts]
    for name, values in _attributes(event_type, scope.null_share).items():
        row[name] = draw(values)
    return row


@dataclass(frozen=True)
class Delivery:
    """Events that arrive together, and the watermark after them."""

    batch: EventBatch
    watermark_ms: int

    def __repr__(self) -> str:
        return f"{self.batch.table.column('event_id').to_pylist()} then watermark {self.watermark_ms} ms"


@st.composite
def deliveries(draw: st.DrawFn, batch: EventBatch, max_deliveries: int = 4) -> list[Delivery]:
    """The stream cut anywhere, under increasing watermarks; no event is late (t_lo_ms below an earlier watermark)."""
    watermarks = sorted(draw(st.lists(st.integers(-1, 30), min_size=1, max_size=max_deliveries)))
    rows_of: list[list[int]] = [[] for _ in watermarks] + [[]]
    for row, lo_ms in enumerate(batch.t_lo_ms.tolist()):
        n_possible = 1 + sum(watermark_ms <= lo_ms for watermark_ms in watermarks)
        rows_of[draw(st.integers(0, n_possible - 1))].append(row)
    cut = [EventBatch(batch.table.take(rows)) if rows else EventBatch.empty() for rows in rows_of]
    return [Delivery(part, mark) for part, mark in zip(cut, [*watermarks, watermarks[-1]], strict=True)]


@dataclass(frozen=True)
class Case:
    """A query with a stream for it."""

    query: str
    stream: EventBatch

    def __repr__(self) -> str:
        """For a failing example: the query and one line per event."""
        return "\n".join([self.query, *(str(row) for row in self.stream.rows())])


@st.composite
def cases(draw: st.DrawFn, query: QueryScope = EVERYTHING, stream: StreamScope = PRECISE) -> Case:
    """A query and a stream in which the query's positive types are frequent, or come in its order, with or without the
    negated ones in their places."""
    text = draw(queries(query))
    components = [(part.event_type, negated) for part, negated in ast.components(parse(text).pattern)]
    favoured = [event_type for event_type, negated in components if not negated]
    planted: Sequence[str] = ()
    if query.several_negations or draw(st.booleans()):
        with_negated = query.several_negations or draw(st.booleans())
        types = [event_type for event_type, negated in components if with_negated or not negated]
        most = 1 if query.several_negations else 2
        repeats = draw(st.lists(st.integers(1, most), min_size=len(types), max_size=len(types)))
        planted = [name for name, n in zip(types, repeats, strict=True) for _ in range(n)]
    return Case(text, draw(streams(stream, favoured, planted)))


__all__ = [
    "ANY",
    "CONSTRUCTS",
    "EVERYTHING",
    "IMPRECISE",
    "NEXT",
    "PARTITION",
    "PRECISE",
    "SCHEMA",
    "SKEWED",
    "STRICT",
    "WEIGHTED",
    "Case",
    "Delivery",
    "QueryScope",
    "StreamScope",
    "cases",
    "deliveries",
    "queries",
    "streams",
]
