"""Every way in which an engine of this process evaluates queries: runtimes, divisions of the stream, threads, sinks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from engine import BaselineKind, CompiledQuery, Engine, Limits, MatchRow, RowSink, compile_queries
from engine.errors import UnsupportedQueryError
from engine.events import EventBatch, EventSchema
from tests.engine.strategies import SCHEMA, Delivery

BEYOND_MS = 2**40
"""Later than all events of random streams."""


@dataclass(frozen=True)
class Way:
    """How to evaluate. `as_automata` and `baseline`: as `clustercep match --runtime` has them; `is_cut`: in the pieces
    of the delivery, saved after each, with its restarts, giving back at once what is not needed any more; `has_sink`:
    rows in blocks."""

    name: str
    as_automata: bool = False
    baseline: BaselineKind | None = None
    is_cut: bool = False
    threads: int = 1
    has_sink: bool = False

    @property
    def family(self) -> str:
        """Ways that refuse the same."""
        return "baselines" if self.baseline is not None else self.name.removesuffix(", cut")


COMPILED = Way("compiled")
CUT = Way("compiled, cut", is_cut=True)
AUTOMATON = Way("automaton", as_automata=True)
AUTOMATON_CUT = Way("automaton, cut", as_automata=True, is_cut=True)
THREADS = Way("two threads, cut", is_cut=True, threads=2)
SINK = Way("sink", has_sink=True)
BASELINES = tuple(Way(kind.value, baseline=kind) for kind in BaselineKind)
BASELINES_CUT = tuple(Way(f"{kind.value}, cut", baseline=kind, is_cut=True) for kind in BaselineKind)
WAYS = (CUT, AUTOMATON, AUTOMATON_CUT, THREADS, SINK, *BASELINES, *BASELINES_CUT)
"""All but `COMPILED`, which the others are compared with."""


@dataclass(frozen=True)
class Setting:
    """Queries that are evaluated together, by name in textual order, with parameters for each."""

    texts: Mapping[str, str]
    parameters: Mapping[str, Mapping[str, int | float | str]]
    schema: EventSchema = SCHEMA

    def compiled(self, *, as_automata: bool = False, only: Collection[str] | None = None) -> list[CompiledQuery]:
        """The queries, producers before their consumers."""
        return compile_queries(self.texts, self.schema, self.parameters, as_automata=as_automata, only=only)


@dataclass(frozen=True)
class Outcome:
    """`is_unfinished`: a search was stopped of which no row need tell."""

    rows: list[MatchRow]
    is_unfinished: bool
    has_rejected: bool


def outcome_by(
    way: Way,
    queries: Sequence[CompiledQuery],
    parts: Sequence[Delivery],
    restarts: Collection[int] = (),
    limits: Limits | None = None,
) -> Outcome:
    """What becomes of a stream in pieces; after those numbered in `restarts` a new engine goes on from the saved state.

    Ways that do not cut take all pieces at once. Raises UnsupportedQueryError.
    """
    rows: list[MatchRow] = []
    sink = RowSink(rows.extend) if way.has_sink else None
    if not way.is_cut:
        parts, restarts = [Delivery(EventBatch.concat([part.batch for part in parts]), BEYOND_MS)], ()

    def engine_of_way() -> Engine:
        return Engine(queries, SCHEMA, limits=limits or Limits(), baseline=way.baseline, threads=way.threads, sink=sink)

    engines = []
    with prepared(way):
        engine = engine_of_way()
        for number, part in enumerate(parts):
            rows += engine.process(part.batch, part.watermark_ms)
            state = engine.save() if way.is_cut else None
            if state is not None and number in restarts:
                engines.append(engine)
                engine = engine_of_way()
                engine.restore(state)
        rows += engine.finish()
    assert engine.n_late == 0
    told = [counted for each in (*engines, engine) for counted in each.statistics.values()]
    return Outcome(rows, any(counted.n_unfinished for counted in told), any(counted.n_rejected for counted in told))


def rows_by(
    way: Way, queries: Sequence[CompiledQuery], parts: Sequence[Delivery], restarts: Collection[int] = ()
) -> list[MatchRow]:
    """All rows, see `outcome_by`. Raises UnsupportedQueryError also where the runtime rejects imprecise events, which
    are counted one by one, and where it could not finish a search."""
    outcome = outcome_by(way, queries, parts, restarts)
    if outcome.has_rejected:
        raise UnsupportedQueryError("the runtime rejects imprecise events")
    if outcome.is_unfinished:
        raise UnsupportedQueryError("a search was not finished")
    return outcome.rows


@contextmanager
def prepared(way: Way) -> Iterator[None]:
    """What makes small streams show what long ones would: state is given back, and batches are divided, at once."""
    with ExitStack() as stack:
        if way.is_cut:
            of_runs = (
                f"{runtime}.{name}"
                for runtime in ("runs.runtime", "automaton.runtime")
                for name in ("_LEAST_ROWS", "_LEAST_SAVED")
            )
            for name in (*of_runs, "positioned._LEAST_ROWS", "partial_keys._LEAST_PARTITIONS"):
                stack.enter_context(patch(f"engine.matching.{name}", 0))
            stack.enter_context(patch("engine.stream.interner.Interner.is_to_be_looked_at", True))
        if way.threads > 1:
            stack.enter_context(patch("engine.parallel.workers.LEAST_EVENTS", 1))
            stack.enter_context(patch.multiple("engine.parallel.by_time", _FEW=1, _MANY=1, _MOST=1))
        yield


def rows_of(rows: Sequence[Any], name: str) -> list[Any]:
    """Those of one query."""
    return [row for row in rows if row.query == name]


__all__ = [
    "AUTOMATON",
    "AUTOMATON_CUT",
    "BASELINES",
    "BASELINES_CUT",
    "COMPILED",
    "CUT",
    "SINK",
    "THREADS",
    "WAYS",
    "Outcome",
    "Setting",
    "Way",
    "outcome_by",
    "prepared",
    "rows_by",
    "rows_of",
]
