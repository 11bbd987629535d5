"""Hypothesis strategies: random queries as text, random streams, random deliveries of a stream.

The values are chosen so that doubles are exact (small integers, halves) and ties, NULLs and equal keys are frequent.
Streams are small: the oracle lists every sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from engine.events import AttributeType, EventBatch, EventSchema
from engine.language import ast
from engine.language.parser import parse

_INT, _FLOAT, _STRING = AttributeType.INT, AttributeType.FLOAT, AttributeType.STRING
_KEYED = {"k": _STRING, "j": _INT, "x": _INT, "y": _FLOAT, "s": _STRING}

SCHEMA = EventSchema.of(
    {
        "A": _KEYED,
        "B": _KEYED,
        "C": _KEYED,
        "N": _KEYED,
        "L": {"x": _INT, "y": _FLOAT, "s": _STRING},  # without a key: broadcast
        "P": {"k": _STRING, "x": _INT, "y": _FLOAT, "s": _STRING},  # with the first key attribute only
    }
)

ANY = "skip_till_any_match"
NEXT = "skip_till_next_match"
PARTITION = "partition_contiguity"
STRICT = "strict_contiguity"

_COMPARE = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
_NUMBER = st.integers(-3, 4)
_HALF = st.integers(-4, 6).map(lambda n: n / 2)
_AGGREGATE = st.sampled_from(["min", "max", "sum", "avg", "first", "last"])


@dataclass(frozen=True)
class QueryScope:
    """What queries to draw. Fields name the clauses that may occur."""

    strategies: tuple[str, ...] = (ANY, NEXT, PARTITION, STRICT)
    outputs: tuple[str, ...] = ("ALL",)
    n_components: tuple[int, int] = (1, 4)
    negation: bool = True
    unions: bool = False
    within_events: bool = False
    partial_keys: bool = False
    confidence: bool = False
    ties: bool = True
    returns: bool = True
    having: bool = False
    limit: bool = False


EVERYTHING = QueryScope(
    outputs=("ALL", "SETS", "COLLAPSED", "COUNT", "NON_OVERLAPPING", "TOP 2 BY CONFIDENCE"),
    unions=True,
    within_events=True,
    partial_keys=True,
    confidence=True,
    having=True,
    limit=True,
)


@dataclass(frozen=True)
class StreamScope:
    """What streams to draw: `width_ms` is the most points that an interval has, 1 for precise events alone."""

    max_events: int = 8
    horizon_ms: int = 12
    width_ms: int = 1
    clocks: bool = False
    weights: bool = False
    null_share: int = 12  # one value in so many is NULL


PRECISE = StreamScope()
IMPRECISE = StreamScope(max_events=5, width_ms=8, clocks=True)
WEIGHTED = replace(IMPRECISE, weights=True)


@dataclass(frozen=True)
class _Part:
    event_type: str
    variable: str
    kind: str  # single, kleene, negated, optional, star, bounded

    @property
    def text(self) -> str:
        name, v = self.event_type, self.variable
        return {
            "single": f"{name} {v}",
            "kleene": f"{name}+ {v}[]",
            "negated": f"!{name} {v}",
            "optional": f"{name}? {v}",
            "star": f"{name}* {v}[]",
            "bounded": f"{name}{{1,2}} {v}[]",
        }[self.kind]

    @property
    def is_list(self) -> bool:
        return self.kind in ("kleene", "star", "bounded")


@st.composite
def queries(draw: st.DrawFn, scope: QueryScope = EVERYTHING) -> str:
    """The text of a query over SCHEMA that resolves."""
    strategy = draw(st.sampled_from(scope.strategies))
    parts = draw(_patterns(scope))
    conjuncts = draw(st.lists(_conjuncts(parts), max_size=draw(st.sampled_from([0, 1, 1, 2, 3])))) + draw(
        _equivalences(parts, scope)
    )
    where = f"WHERE {strategy}" + (f" {{ {' AND '.join(conjuncts)} }}" if conjuncts else "")
    output = draw(st.sampled_from(scope.outputs))
    clauses = [f"PATTERN SEQ({', '.join(part.text for part in parts)})", where, draw(_windows(scope))]
    if output != "ALL":
        clauses.append(f"OUTPUT {output}")
    if scope.ties and draw(st.integers(0, 3)) == 0:
        clauses.append("TIES STRICT")
    if scope.confidence and draw(st.booleans()):
        clauses.append(f"CONFIDENCE >= {draw(st.sampled_from(['0.1', '0.5', '0.95']))}")
    if scope.limit and not output.startswith("TOP") and draw(st.integers(0, 3)) == 0:
        clauses.append(f"LIMIT {draw(st.integers(1, 4))}")
    bound = [part for part in parts if part.kind != "negated"]
    if scope.returns and output not in ("COLLAPSED", "COUNT") and draw(st.booleans()):
        clauses.append(f"RETURN {draw(_values(bound))} AS r1, {draw(_values(bound))} AS r2")
    if scope.having and output not in ("COLLAPSED", "COUNT") and draw(st.integers(0, 3)) == 0:
        clauses.append(f"HAVING {draw(_values(bound))} {draw(_COMPARE)} {draw(_NUMBER)}")
    return "\n".join(clauses)


@st.composite
def _patterns(draw: st.DrawFn, scope: QueryScope) -> list[_Part]:
    n_parts = draw(st.integers(*scope.n_components))
    kinds = ["single", "single", "kleene"]
    kinds += ["negated"] if scope.negation else []
    kinds += ["optional", "star", "bounded"] if scope.unions else []
    names = ["A", "B", "C", "L"] + (["P"] if scope.partial_keys else [])
    chosen = [draw(st.sampled_from(kinds)) for _ in range(n_parts)]
    if not any(kind in ("single", "kleene", "bounded") for kind in chosen):
        chosen[draw(st.integers(0, n_parts - 1))] = "single"
    parts = []
    for number, kind in enumerate(chosen):
        event_type = draw(st.sampled_from(["N", "B"] if kind == "negated" else names))
        parts.append(_Part(event_type, f"v{number}", kind))
    return parts


def _windows(scope: QueryScope) -> st.SearchStrategy[str]:
    by_time = st.sampled_from([0, 3, 5, 6, 8, 10, 12, 15, 20]).map("WITHIN {} ms".format)
    by_count = st.integers(1, 8).map("WITHIN {} EVENTS".format)
    return st.one_of(by_time, by_time, by_count) if scope.within_events else by_time


@st.composite
def _equivalences(draw: st.DrawFn, parts: Sequence[_Part], scope: QueryScope) -> list[str]:
    found = []
    types = {part.event_type for part in parts if part.kind != "negated"}  # a match itself has a key
    if types & {"A", "B", "C", "N", "P"} and draw(st.booleans()):
        found.append("[k]")
        if types & {"A", "B", "C", "N"} and (scope.partial_keys or "P" not in types) and draw(st.booleans()):
            found.append("[j]")
    lists = [part for part in parts if part.is_list]
    if lists and draw(st.integers(0, 5)) == 0:
        found.append(f"[{draw(st.sampled_from(lists)).variable}.x]")
    return found


@st.composite
def _conjuncts(draw: st.DrawFn, parts: Sequence[_Part]) -> str:
    """A predicate on one part, or on two of them."""
    # Kleene components have most forms of predicates, so they come up more often.
    part = draw(st.sampled_from([*parts, *(part for part in parts if part.is_list for _ in range(2))]))
    others = [other for other in parts if other is not part and not (part.kind == other.kind == "negated")]
    templates = list(_LIST if part.is_list else _SINGLE)
    singles = [other.variable for other in others if not other.is_list and other.kind != "negated"]
    lists = [other.variable for other in others if other.is_list]
    if singles:
        templates += _LIST_AND_SINGLE if part.is_list else _TWO_SINGLES
    if lists and part.kind != "negated" and not part.is_list:
        templates += _SINGLE_AND_LIST
    template = draw(st.sampled_from(templates))
    return template.format(
        v=part.variable,
        w=draw(st.sampled_from(singles)) if singles else "",
        u=draw(st.sampled_from(lists)) if lists else "",
        op=draw(_COMPARE),
        n=draw(_NUMBER),
        h=draw(_HALF),
        f=draw(_AGGREGATE),
    )


_SINGLE = (
    "{v}.x {op} {n}",
    "{v}.y {op} {h}",
    "{v}.s = 'ok'",
    "{v}.s IN ('bad', 'ok')",
    "{v}.s NOT IN ('ok')",
    "{v}.x % 2 = 1",
    "NOT {v}.x {op} {n}",
    "({v}.x {op} {n} OR {v}.y < {h})",
    "{v}.x / 2 {op} {h}",
    "-{v}.x * 2 {op} {n}",
    "({v}.x < {n} OR {v}.s = 'ok' AND {v}.y > {h})",
)
_TWO_SINGLES = (
    "{v}.x {op} {w}.x",
    "{v}.x + {w}.x {op} {n}",
    "{v}.s != {w}.s",
    "{v}.timestamp - {w}.timestamp <= 6",
    "({v}.x > {w}.x OR {v}.y = {w}.y)",
)
_LIST = (
    "{v}[i].x {op} {n}",
    "{v}[i].x >= {v}[i-1].x",
    "{v}[i].y {op} {v}[i-1].y",
    "{v}[1].x {op} {n}",
    "{v}[i].x <= {v}[1].x + 2",
    "{v}[{v}.len].x {op} {v}[1].x",
    "{v}[{v}.len].y {op} {h}",
    "{v}[i].x {op} {f}({v}[..i-1].x)",
    "{v}[i].x > max({v}[..i-1].x)",
    "{v}[i].x <= min({v}[..i-1].x)",
    "{f}({v}[].x) {op} {n}",
    "count({v}[]) >= 2",
    "count({v}[..i-1].x) < 2",
    "stddev({v}[].x) > 0.75",
    "{v}[{v}.len].x > 2 * avg({v}[..{v}.len-1].x)",
    "({v}[i].s = 'ok' OR {v}[i].x {op} {n})",
)
_LIST_AND_SINGLE = ("{v}[i].x >= {w}.x", "{v}[1].x {op} {w}.x", "{w}.x {op} {f}({v}[].x)", "{v}[{v}.len].y <= {w}.y")
_SINGLE_AND_LIST = ("{v}.x > {u}[i].x", "{v}.x {op} {f}({u}[].x)", "{v}.x {op} {u}[{u}.len].x", "{v}.y >= {u}[1].y")


@st.composite
def _values(draw: st.DrawFn, parts: Sequence[_Part]) -> str:
    part = draw(st.sampled_from(list(parts)))
    forms = ("{f}({v}[].x)", "count({v}[])", "{v}[1].x", "{v}[{v}.len].x") if part.is_list else ("{v}.x", "{v}.x * 2")
    return draw(st.sampled_from(forms)).format(v=part.variable, f=draw(_AGGREGATE))


# ------------------------------------------------------------------- streams


@st.composite
def streams(draw: st.DrawFn, scope: StreamScope = PRECISE, favoured: Sequence[str] = ()) -> EventBatch:
    """Events over SCHEMA in no particular order; ids are e0, e1, ... in stream order of their nominal times.

    Types in `favoured` come up three times as often as all others together.
    """
    least = draw(st.sampled_from([0, scope.max_events // 2, scope.max_events]))
    rows = draw(st.lists(_rows(scope, tuple(favoured)), min_size=least, max_size=scope.max_events))
    rows.sort(key=lambda row: (row["t_hi_ms"], row["t_lo_ms"]))
    for number, row in enumerate(rows):
        row |= {"event_id": f"e{number}", "source_seq": number}
    _separate_clocks(rows)
    return EventBatch.from_rows(draw(st.permutations(rows)), SCHEMA)


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


@st.composite
def _rows(draw: st.DrawFn, scope: StreamScope, favoured: tuple[str, ...]) -> dict[str, Any]:
    is_favoured = bool(favoured) and draw(st.integers(0, 3)) > 0
    event_type = draw(st.sampled_from(favoured if is_favoured else ["A", "B", "B", "C", "N", "L", "P"]))
    lo_ms = draw(st.integers(0, scope.horizon_ms))
    widths = [width for width in (1, 2, 2, 3, 3, 4, 8) if width <= scope.width_ms]
    width_ms = draw(st.sampled_from(widths))  # long ones are rare: the oracle lists worlds
    row: dict[str, Any] = {
        "type": event_type,
        "t_lo_ms": lo_ms,
        "t_hi_ms": lo_ms + width_ms - 1,
        "source_rank": draw(st.integers(0, 1)),
    }
    if scope.clocks:
        row["clock_id"] = draw(st.sampled_from([None, "h1", "h2"]))
    if scope.weights and draw(st.booleans()):
        row["weights"] = draw(st.lists(st.integers(0, 3), min_size=width_ms, max_size=width_ms).filter(any))
    values = {
        "k": st.sampled_from(["p", "p", "q"]),
        "j": st.integers(1, 2),
        "x": st.integers(-3, 4),
        "y": _HALF,
        "s": st.sampled_from(["ok", "bad"]),
    }
    for name in SCHEMA.types[event_type]:
        is_null = draw(st.integers(1, scope.null_share)) == scope.null_share
        row[name] = None if is_null else draw(values[name])
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
    """A query and a stream in which the query's positive types are frequent."""
    text = draw(queries(query))
    favoured = [part.event_type for part, negated in ast.components(parse(text).pattern) if not negated]
    return Case(text, draw(streams(stream, favoured)))


CONSTRUCTS: dict[str, Callable[[str], bool] | str] = {
    "kleene": r"\w\+ v",
    "two kleene": r"\+ v.*\+ v",
    "trailing kleene": r"\+ v\d\[\]\)\n",
    "leading kleene": r"SEQ\(\w\+",
    "negation at the start": r"SEQ\(!",
    "negation in the middle": r"SEQ\([^!)]+, !\w \w+, [^!]",
    "negation at the end": r"!\w v\d\)\n",
    "optional": r"\? v",
    "star": r"\* v",
    "bounded": r"\{1,2\}",
    "one type twice": r"SEQ\(.*\b([ABCLP])\b.*\b\1\b.*\)\n",
    "broadcast type under a key": lambda text: "L" in text.split("\n")[0] and "[k]" in text,
    "partly keyed type": lambda text: "P v" in text and "[j]" in text,
    "two key attributes": r"\[k\] AND \[j\]",
    "equivalence of one variable": r"\[v\d\.x\]",
    "previous": r"\[i-1\]\.",
    "first": r"v\d\[1\]",
    "last": r"\.len\]",
    "running aggregate": r"\[\.\.i-1\]",
    "aggregate but the last": r"\.len-1\]",
    "aggregate": r"(min|max|sum|avg|first|last)\(v\d\[\]",
    "stddev": r"stddev",
    "every event against a single one": r"v\d\.x > v\d\[i\]|\[i\]\.x >= v\d\.x",
    "text": r"= 'ok'",
    "membership": r" IN \(",
    "remainder": r"% 2",
    "division": r"/ 2",
    "or": r" OR ",
    "not": r"NOT v",
    "time attribute": r"timestamp",
    "window of events": r"EVENTS",
    "ties": r"TIES STRICT",
    "sets": r"OUTPUT SETS",
    "collapsed": r"OUTPUT COLLAPSED",
    "count": r"OUTPUT COUNT",
    "non-overlapping": r"NON_OVERLAPPING",
    "top": r"TOP 2",
    "threshold": r"CONFIDENCE >=",
    "limit": r"LIMIT",
    "return": r"RETURN",
    "having": r"HAVING",
    **{strategy: strategy for strategy in (ANY, NEXT, PARTITION, STRICT)},
}
"""What EVERYTHING must reach: a pattern of the query's text, or a test of it."""

__all__ = [
    "ANY",
    "CONSTRUCTS",
    "EVERYTHING",
    "IMPRECISE",
    "NEXT",
    "PARTITION",
    "PRECISE",
    "SCHEMA",
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
