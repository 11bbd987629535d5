"""Trend queries side by side in one engine, against each in an engine of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from engine import CompiledQuery, Engine, MatchRow, compile_query
from engine.errors import QueryError
from engine.events import FOREVER_MS, EventBatch
from engine.parallel import workers
from engine.runtime import engine as engine_module
from engine.trends import graph, indexes, intake
from tests.engine.trends.evaluation import shown
from tests.engine.trends.trend_strategies import SCHEMA, SharingCase

Rows = dict[str, list[MatchRow]]
START_MS = -(2**40)


def planned(case: SharingCase) -> list[CompiledQuery]:
    """Those that the planner takes."""
    found = []
    for number, text in enumerate(case.queries):
        try:
            found.append(compile_query(text, SCHEMA, name=f"q{number}"))
        except QueryError:
            continue
    return found


def parts(case: SharingCase) -> list[tuple[EventBatch, int]]:
    """The stream in pieces, each with the watermark that follows it."""
    stream, ends = case.stream, (*case.cuts, FOREVER_MS)
    return [
        (stream.where((stream.t_lo_ms >= before) & (stream.t_lo_ms < until)), until)
        for before, until in zip((START_MS, *case.cuts), ends, strict=True)
    ]


def by_query(rows: Sequence[MatchRow], queries: Sequence[CompiledQuery]) -> Rows:
    return {query.name: [row for row in rows if row.query == query.name] for query in queries}


def rows_of(queries: Sequence[CompiledQuery], case: SharingCase, *, restarts: bool, threads: int = 1) -> Rows:
    """What they find; after each piece the state is saved and restored."""
    running = Engine(queries, SCHEMA, threads=threads)
    rows: list[MatchRow] = []
    for part, until in parts(case):
        rows += running.process(part, until)
        if restarts:
            state = running.save()
            running = Engine(queries, SCHEMA, threads=threads)
            assert running.restore(state) == frozenset()
    return by_query(rows, queries)


def alone(queries: Sequence[CompiledQuery], find: Callable[[Sequence[CompiledQuery]], Rows]) -> Rows:
    return {query.name: find([query])[query.name] for query in queries}


def rows_with_reloads(queries: Sequence[CompiledQuery], case: SharingCase) -> Rows:
    """Before each piece some queries go and others come (back), with a past of all events so far."""
    running = Engine([], SCHEMA)
    rows: list[MatchRow] = []
    before = case.stream.where(case.stream.t_lo_ms < START_MS)
    for (part, until), absent in zip(parts(case), case.absent, strict=True):
        state = running.save()
        there = [query for query in queries if int(query.name[1:]) not in absent]
        running = Engine(there, SCHEMA)
        new = running.restore(state)
        running.warm_up(new, before)
        rows += running.process(part, until)
        before = EventBatch.concat([before, part])
    return by_query(rows, queries)


def check_sharing(case: SharingCase) -> None:
    """Rows are the same bit for bit with and without others, with restarts, threads, partitions that begin anew, and
    while queries come and go; up to rounding where an index serves several windows."""
    queries = planned(case)
    for restarts in (False, True):
        own = alone(queries, partial(rows_of, case=case, restarts=restarts))
        assert _bits(rows_of(queries, case, restarts=restarts)) == _bits(own)
    own = alone(queries, partial(rows_with_reloads, case=case))
    assert _bits(rows_with_reloads(queries, case)) == _bits(own)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "LEAST_EVENTS", 0)
        patch.setattr(engine_module, "LEAST_EVENTS", 0)
        patch.setattr(graph, "LEAST_FORGOTTEN", 0)
        patch.setattr(graph, "RESULTS", 1)
        patch.setattr(intake, "PAIRS", 1)
        patch.setattr(intake, "EVENTS", 1)
        patch.setattr(indexes, "LEAST_INDEXED", 0)
        own = alone(queries, partial(rows_of, case=case, restarts=False))
        found = rows_of(queries, case, restarts=False)
        # An index has the events of the longest window, and adds those of the others up in another order than alone.
        as_said = _bits if len({(query.plan.within_ms, query.plan.slide_ms) for query in queries}) < 2 else _rounded
        assert as_said(found) == as_said(own)
        assert _bits(rows_of(queries, case, restarts=False, threads=2)) == _bits(found)


def _bits(rows: Rows) -> dict[str, list[str]]:
    """`repr` tells doubles apart by all their bits, and NaN is itself."""
    return {name: [repr(row) for row in found] for name, found in rows.items()}


def _rounded(rows: Rows) -> dict[str, list[Any]]:
    """Up to what doubles round."""
    return {name: shown(found) for name, found in rows.items()}


__all__ = ["alone", "by_query", "check_sharing", "parts", "planned", "rows_of", "rows_with_reloads"]
