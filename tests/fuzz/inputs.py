"""What people and files give, besides queries that are right: it is understood, or refused with its place."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from engine import Engine, compile_query
from engine.errors import QueryError
from engine.language.parser import parse
from engine.language.printer import print_query
from tests.conformance.runtimes import run_match
from tests.engine.language.test_hostile_text import GARBAGE, QUERIES, UNUSUAL, mutated_queries, nested_texts
from tests.engine.strategies import SCHEMA, queries, streams
from tests.engine.trends.trend_strategies import (
    absence_cases,
    alike_cases,
    overlap_cases,
    pair_cases,
    selecting_cases,
    sharing_cases,
    trend_cases,
)
from tests.fuzz.trends import look_at_alike, look_at_overlaps, look_at_shared_trends, look_at_trends


@dataclass(frozen=True)
class Probe:
    """`drawn` is looked at; what `look` raises is a finding."""

    drawn: st.SearchStrategy[Any]
    look: Callable[[Any], None]


# ------------------------------------------------------------------ queries

_QUERY_TEXTS = st.one_of(GARBAGE, mutated_queries(st.sampled_from(QUERIES)), mutated_queries(queries()), nested_texts())


def look_at_query(text: str) -> None:
    """A query with a plan and a printed form that is the same query, or an error in printable lines."""
    emitted = ""
    try:
        parsed = parse(text)
        assert parse(print_query(parsed)) == parsed
        compiled = compile_query(text, SCHEMA)
        assert compiled.explain()
        assert compiled.dot()
    except QueryError as error:
        emitted = str(error)
    assert all(line.isprintable() for line in emitted.split("\n")), repr(emitted)


# --------------------------------------------------------------- parameters

_HOSTILE = st.one_of(st.text(), st.text(alphabet=UNUSUAL + "ok'"), st.sampled_from(["ok", "'", "", "\ud800", "\udcff"]))
_NUMBERS = st.one_of(
    st.integers(),
    st.integers(-(2**54), 2**54),
    st.floats(),
    st.sampled_from([0, 1, -1, 0.5, 2**53, 1e308]),
)
_WITH_PARAMETER = (
    "PATTERN SEQ(A a, B b) WHERE skip_till_any_match {{ a.{x} = :v }} WITHIN 10",
    "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_next_match {{ b[i].{x} IN (:v, :v) AND [k] }} WITHIN 10 RETURN a.{x}",
    "PATTERN SEQ(A a, B b) WHERE skip_till_any_match {{ NOT b.{x} != :v }} WITHIN 10 HAVING a.{x} = :v",
    "PATTERN SEQ(A a, B b) WHERE skip_till_any_match {{ a.{x} = a.{x} }} WITHIN :v",
    "PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 20 SLIDE :v RETURN a.{x}",
    "PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 5 CONFIDENCE >= :v",
    "PATTERN SEQ(A a) WHERE skip_till_any_match {{ a.{x} = :v }} WITHIN 5 PARAMETERS v = 'text'",
    "PATTERN SEQ(A a) WHERE skip_till_any_match {{ a.{x} = :v }} WITHIN 5 PARAMETERS v = 7",
)
_VALUES = st.one_of(  # beside what it is compared with, a text more often with a text
    st.tuples(st.sampled_from(["s", "s", "s", "x"]), _HOSTILE), st.tuples(st.sampled_from(["x", "y", "s"]), _NUMBERS)
)
_PARAMETERS = st.tuples(st.sampled_from(_WITH_PARAMETER), _VALUES, streams())


def look_at_parameter(drawn: tuple[str, tuple[str, Any], Any]) -> None:
    """A value is refused as an error of the query, or the query runs."""
    text, (attribute, value), stream = drawn
    try:
        query = compile_query(text.format(x=attribute), SCHEMA, {"v": value})
    except QueryError:
        return
    engine = Engine([query], SCHEMA)
    engine.process(stream, 2**40)
    engine.restore(engine.save())
    engine.finish()


# -------------------------------------------------------------- event files

_CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(0, 9),
    st.floats(),
    _HOSTILE,
    st.sampled_from(["A", "B", "p", "1e9", "0x1", "-0", "\u0661", "NaN", "inf", "1_000"]),
    st.lists(st.integers(0, 2), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=1),
)
_TIMES = st.one_of(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), _CELLS)
_ROWS = st.lists(
    st.fixed_dictionaries(
        {"type": st.one_of(st.sampled_from(["A", "B"]), st.sampled_from(["A", "B"]), _CELLS)},
        optional={
            **dict.fromkeys(("t", "t_lo", "t_hi", "skew_ms", "source_seq", "source_rank"), _TIMES),
            **dict.fromkeys(("id", "clock_id", "k", "x", "y", "weights"), _CELLS),
        },
    ),
    max_size=6,
)


@st.composite
def _files(draw: st.DrawFn) -> bytes:
    rows = draw(_ROWS)
    if draw(st.booleans()):
        for row in rows:
            row.setdefault("t", draw(st.integers(0, 9)))
    if draw(st.integers(0, 2)):
        lines = [json.dumps(row, ensure_ascii=draw(st.booleans())) for row in rows]
        data = "\n".join(lines).encode("utf-8", "surrogatepass")
    else:
        written = io.StringIO()
        names = sorted({name for row in rows for name in row} | {"type"})
        writer = csv.DictWriter(written, names)
        writer.writeheader()
        writer.writerows(rows)
        data = written.getvalue().encode("utf-8", "surrogatepass")
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 3)))
        data = data[:start] + draw(st.binary(max_size=3)) + data[end:]
    return data


_ON_FILES = (
    "PATTERN SEQ(A a, B b) WHERE skip_till_any_match WITHIN 10",
    "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_any_match { [k] } WITHIN 10 RETURN a.x, b[1].y",
    "PATTERN A+ a[] WHERE skip_till_next_match { a[i].x >= a[i-1].x } WITHIN 10 RETURN first(a[].k), sum(a[].x)",
)
_EVENT_FILES = st.tuples(st.sampled_from(_ON_FILES), _files())


def look_at_file(drawn: tuple[str, bytes]) -> None:
    """`clustercep match` finds matches, none, or says what is wrong: `run_match` lets nothing else pass."""
    text, data = drawn
    with tempfile.TemporaryDirectory() as folder:
        query, events = Path(folder, "query.cep"), Path(folder, "events")
        query.write_text(text, encoding="utf-8")
        events.write_bytes(data)
        emitted = {
            runtime: run_match(str(query), str(events), runtime) for runtime in ("compiled", "oracle", "automaton")
        }
        assert len({result.exit_code for result in emitted.values()}) == 1, emitted
        assert all(result.message for result in emitted.values() if result.exit_code == 2)
        assert len({len(result.rows) for result in emitted.values()}) == 1, emitted


PROBES: Mapping[str, Probe] = {
    "query texts": Probe(_QUERY_TEXTS, look_at_query),
    "parameters": Probe(_PARAMETERS, look_at_parameter),
    "event files": Probe(_EVENT_FILES, look_at_file),
    "trends": Probe(trend_cases(max_events=11), look_at_trends),
    "trends of a strategy": Probe(selecting_cases(), look_at_trends),
    "trends beside matches": Probe(alike_cases(), look_at_alike),
    "pairs of trends": Probe(pair_cases(), look_at_trends),
    "trends of absence": Probe(absence_cases(), look_at_trends),
    "trends of intervals": Probe(overlap_cases(), look_at_overlaps),
    "shared trends": Probe(sharing_cases(), look_at_shared_trends),
    "shared trends of intervals": Probe(sharing_cases(max_events=5, max_width_ms=4), look_at_shared_trends),
}
"""Looked at in turn with the fields of cases."""


__all__ = ["PROBES", "Probe", "look_at_file", "look_at_parameter", "look_at_query"]
