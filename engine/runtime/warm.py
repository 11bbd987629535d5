"""Compiling, or loading, every kernel before the first events come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from engine.compiled.query import CompiledQuery, compile_query
from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema, Int64Array
from engine.kernels.compile.cache import kernels_are_compiled, mark_compiled
from engine.kernels.compile.processes import CompiledKernels
from engine.kernels.compile.uncompiled import run_compiled
from engine.kernels.shedding.trees import LEAF
from engine.matching.output.match_row import MatchRow
from engine.matching.output.reading.arrow import coded
from engine.matching.output.rows import RowBlock
from engine.runtime.compiling import compiling_beside
from engine.runtime.engine import Engine
from engine.runtime.shedding.control import OverloadControl
from engine.runtime.shedding.run_shedder import RunShedder
from engine.runtime.shedding.run_watch import Sampling
from engine.shedding.events.features import Features
from engine.shedding.events.forest import Forest, ForestUtilities
from engine.shedding.events.hashed import EventDropper, HashedUtilities
from engine.shedding.events.observations import AggregatedObservations
from engine.shedding.overload.detector import Bound, OverloadDetector
from engine.stream.event_ids import IdColumn
from engine.stream.interner import KnownTexts, is_one_text
from engine.stream.values import numbers_as_arrow

_SCHEMA = EventSchema.of(
    {name: {"k": AttributeType.INT, "x": AttributeType.FLOAT, "n": AttributeType.INT} for name in ("A", "B")}
)
_RISING = "[k] AND a.x > 0 AND b[i].x >= b[i-1].x AND b[b.len].x > b[1].x"
_ANY = (
    *(
        f"PATTERN SEQ(A a, B+ b[], A c) WHERE skip_till_any_match {{ {_RISING} }} WITHIN 20 {output}"
        for output in ("", "OUTPUT SETS", "OUTPUT COLLAPSED", "OUTPUT COUNT", "OUTPUT TOP 2 BY CONFIDENCE")
    ),
    "PATTERN SEQ(A a, B+ b[], A c) WHERE skip_till_any_match { [k] AND avg(b[].x) > 0 } WITHIN 20 OUTPUT COLLAPSED",
    "PATTERN SEQ(A a, A b, B+ c[], A d) WHERE skip_till_any_match { [k] } WITHIN 20 OUTPUT COUNT",
    "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_any_match { [k] } WITHIN 20 OUTPUT SETS",
    "PATTERN SEQ(A a, B+ b[], A c) WHERE skip_till_any_match { [k] AND max(b[].x) > 0 } WITHIN 20 OUTPUT COUNT",
    "PATTERN SEQ(A a, B+ b[], A c) WHERE skip_till_any_match { [k] AND max(b[].x) > 0 } WITHIN 20 RETURN a.x",
    "PATTERN SEQ(A a, !B n, A c) WHERE skip_till_any_match { [k] } WITHIN 20 RETURN a.x",
    "PATTERN SEQ(A a, !B n, A c) WHERE skip_till_any_match { [k] } WITHIN 20 OUTPUT COUNT",
    "PATTERN SEQ(A a, A c, !B n) WHERE skip_till_any_match { [k] } WITHIN 20 OUTPUT NON_OVERLAPPING",
    "PATTERN SEQ(A a, B* b[], A c) WHERE skip_till_any_match { [k] } WITHIN 9 SLIDE 5 CONSUME b OUTPUT NON_OVERLAPPING",
)
_RUNS = (
    *(
        f"PATTERN SEQ(A a, B+ b[], A c, !B n) WHERE {strategy} {{ [k] AND max(b[].x) > 0 }} WITHIN 20 RETURN a.x"
        for strategy in ("skip_till_next_match", "partition_contiguity")
    ),
    "PATTERN SEQ(A a, B b) WHERE skip_till_next_match { [k] AND [x] } WITHIN 20",
    "PATTERN SEQ(A a, B+ b[]) WHERE skip_till_next_match { [k] } WITHIN 20 SELECT FIRST",
)
_AUTOMATA = (
    *(
        f"PATTERN (SEQ(A a, !B n, A c, !B m))+ WHERE {strategy} {{ [k] AND a.x > 0 AND c.x <= a.x }} WITHIN 20"
        for strategy in ("skip_till_any_match", "skip_till_next_match")
    ),
    "PATTERN (SEQ(A a, A c))+ WHERE skip_till_any_match { [k] } WITHIN 20",
)
_OF_CLOCKS = (
    _ANY[2],
    "PATTERN SEQ(AND(A a, B b), A c) WHERE skip_till_any_match { [k] } WITHIN 20",
    "PATTERN (SEQ(A a, !B n, A c)){1,2} WHERE skip_till_any_match { [k] AND n.x >= a.x } WITHIN 20",
)
_TRENDS = (
    "PATTERN SEQ(NOT B b, A+, NOT SEQ(B b2, A a2)) WHERE [k] AND A.x - 1 < NEXT(A).x AND b2.x <= NEXT(a2).x "
    "WITHIN 30 SLIDE 9 RETURN SUM(A.x)",
    "PATTERN A+ WHERE A.x + NEXT(A).x > 2 WITHIN 30 SLIDE 9 RETURN MIN(A.x), AVG(A.n)",
    "PATTERN A+ WHERE skip_till_next_match { A.x < NEXT(A).x } WITHIN 30 SLIDE 9 RETURN SUM(A.x)",
)
_MANY_TRENDS = (
    "PATTERN A+ WHERE A.x < NEXT(A).x WITHIN 4000 SLIDE 4000 RETURN SUM(A.x)",
    "PATTERN A+ GROUP BY k WITHIN 4000 SLIDE 4000 RETURN COUNT(*)",
)
_N_INDEXED = 1_200
"""Events of which half are of a type, and of these half come first: so many have an index for what comes after. They
have several keys."""

_OF_THREADS = (
    "PATTERN SEQ(A a, B+ b[], A c) WHERE skip_till_any_match { [k] AND b[i].n >= a.n } WITHIN 20 OUTPUT NON_OVERLAPPING"
)
"""Between them they call every kernel, as a test counts."""

_N_COMPACTED = 5_000
"""Events after which runs that are over are dropped."""


def warm_kernels(watch: Callable[[CompiledKernels], object] | None = None) -> list[str]:
    """Run small queries of every kind over a few events: what was never compiled on this machine is compiled now.

    Takes a second once it is compiled; minutes the first time (see `kernels_are_compiled`), by a process for each core;
    `watch` is told how far they are. What they failed to compile is compiled here; returns what went wrong with it.
    """
    failures: list[str] = []
    if not kernels_are_compiled():
        with compiling_beside(watch) as processes:
            _call_kernels()
            failures = processes.finish()
    run_compiled()
    _call_kernels()
    mark_compiled()
    return failures


def _call_kernels() -> None:
    for queries, n_events, width_ms, skew_ms in (
        (_ANY, 40, 0, 0),
        (_ANY, 40, 4, 0),
        (_RUNS, _N_COMPACTED, 0, 0),
        (_AUTOMATA, 40, 0, 0),
        (_OF_CLOCKS, 12, 4, 2),
        (_TRENDS, 40, 0, 0),
        (_TRENDS[1:], 12, 4, 0),
    ):
        compiled = [compile_query(text, _SCHEMA, name=f"q{n}") for n, text in enumerate(queries)]
        first, second = Engine(compiled, _SCHEMA), Engine(compiled, _SCHEMA)
        _read(first.process(_events(n_events, width_ms, skew_ms), 2 * n_events))
        second.restore(first.save())
        for again in (first, second):  # the first goes on where it knows how much of its stream is of use
            _read(again.process(EventBatch.empty(), FOREVER_MS))
    trends = Engine([compile_query(text, _SCHEMA, name=f"q{n}") for n, text in enumerate(_MANY_TRENDS)], _SCHEMA)
    _read(trends.process(_events(_N_INDEXED, 0), 3 * _N_INDEXED // 2))
    _read(trends.process(EventBatch.empty(), FOREVER_MS))
    _call_shedding()
    is_one_text(pa.array(["A", "A"]))  # as where all events of a batch have one type
    numbers_as_arrow(["k"], [AttributeType.STRING], KnownTexts({0: "A"}), np.zeros((1, 1)))  # keys that are texts
    coded(IdColumn(pa.array(["A", "B", "C", "D"])), np.array([0, 3]))  # as where few of a batch's events are in matches
    for width_ms in (0, 4):  # keys as they are stored, and decoded ones
        shared = Engine([compile_query(_OF_THREADS, _SCHEMA)], _SCHEMA, threads=2)
        _read(shared.process(_events(40, width_ms), FOREVER_MS))


def _call_shedding() -> None:
    """Runs are observed, valued and dropped; events get keys and utilities."""
    for text in (_RUNS[2], _AUTOMATA[1]):
        _drop_runs(compile_query(text, _SCHEMA))
    features = Features(("A", "B"), pane_events=2)
    kinds: Int64Array = np.arange(4) % 2
    observed = AggregatedObservations.of(np.column_stack([kinds, kinds, kinds]), np.ones(4))
    hashed = HashedUtilities(features, observed)
    utilities = hashed.of(kinds, np.empty((0, 4), np.int64), hashed.pane().follow(kinds, np.arange(4)))
    EventDropper().keeps(utilities, hashed.distribution.threshold(0.5))
    one_leaf: Int64Array = np.array([LEAF], np.int64)
    tree = Forest(np.zeros(1, np.int64), one_leaf, np.ones(1), one_leaf, one_leaf, np.ones(1), np.ones(1))
    by_tree = ForestUtilities(features, tree, observed)
    by_tree.of(kinds, np.empty((0, 4), np.int64), by_tree.seen(by_tree.pane(), kinds, np.arange(4)))


def _drop_runs(query: CompiledQuery) -> None:
    shedder = RunShedder({query.name: query}, sampling=Sampling(first_every=1, n_again=1), clock=lambda: 0.0)
    shed = Engine(
        [query],
        _SCHEMA,
        overload=lambda _: OverloadControl(OverloadDetector(Bound(1.0, 0.0)), shedder, lambda: 0.0),
    )
    for until in (0, 40):  # runs are known to the shedder from the second step on
        _read(shed.process(_events(until, 0), until))
    shedder.drop(1, 40)


def _read(rows: Sequence[MatchRow]) -> None:
    """Rows are made when they are asked for, one by one or in bulk."""
    list(rows)
    if isinstance(rows, RowBlock):
        rows.to_arrow()


def _events(n_events: int, width_ms: int, skew_ms: int = 0) -> EventBatch:
    """One every 3 ms, half of them with an interval; where there are intervals, the last has no key. Of two clocks."""
    kinds = "ABBA"
    rows = [
        {
            "event_id": str(n),
            "type": kinds[n % 4],
            "t_lo_ms": 3 * n,
            "t_hi_ms": 3 * n + (width_ms if n % 8 < 4 else 0) + 2 * skew_ms,
            "skew_ms": skew_ms,
            "clock_id": str(n % 2) if skew_ms else None,
            "k": n // 40 if width_ms == 0 or n < n_events - 1 else None,
            "x": n % 4 + 1.0,
            "n": n,
        }
        for n in range(n_events)
    ]
    return EventBatch.from_rows(rows, _SCHEMA)


__all__ = ["warm_kernels"]
