"""What an executor does: the events of parts, in order, through an engine each, and out come their rows as columns.

Pure functions over Arrow. Events are read batch by batch behind a watermark, so that no part stands in memory: an
engine keeps what its windows need.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

import engine
from app.queries.aggregates import register_configured
from engine.events import HEADER, SKEW, AttributeType, EventBatch, EventSchema
from spark_jobs.best_rows import Best
from spark_jobs.match_columns import columnar_batches
from spark_jobs.match_rows import Source, rows_batch
from spark_jobs.parts import EVERYTHING, Range
from spark_jobs.session import SparkJobError

PART = "part"
"""The column that says which part a row is for."""

TYPE_CODE = "type_code"
"""The column that tells a row's type, as its place in `Task.type_names`: a number is cheaper to carry than a name."""

LEAST_BATCH = 65_536
"""Events that an engine is given together: each step has a price of its own."""

_MOST_ROWS = 16_384
"""Rows that become columns together."""


@dataclass(frozen=True)
class Task:
    """What an executor needs to know of a query; small, and made of plain values, for it is shipped.

    `texts`: the query without what is applied to all rows together (`best`), and those that it may use, by name;
    `type_names`: those that the query reads, by TYPE_CODE; `types`: the kinds of attributes by type of event;
    `ranges`: the times in which rows of a part begin.
    """

    name: str
    texts: Mapping[str, str]
    parameters: Mapping[str, Mapping[str, int | float | str]]
    type_names: tuple[str, ...]
    types: Mapping[str, Mapping[str, str]]
    source: Source
    best: Best = field(default_factory=Best)
    ranges: Mapping[int, Range] = field(default_factory=dict)
    aggregates: tuple[str, ...] = ()
    least_batch: int = LEAST_BATCH

    @property
    def schema(self) -> EventSchema:
        """The types as the engine has them."""
        return EventSchema(
            {name: {a: AttributeType(kind) for a, kind in has.items()} for name, has in self.types.items()}
        )


@dataclass(frozen=True)
class PartStatistics:
    """What has been done with one part; see `engine.QueryStatistics`, summed over the query and its producers."""

    n_parts: int = 0
    n_events: int = 0
    n_rows: int = 0
    n_unfinished: int = 0
    n_too_long: int = 0
    n_refused: int = 0
    n_capped: int = 0
    n_limited: int = 0
    n_rejected: int = 0

    def __add__(self, other: PartStatistics) -> PartStatistics:
        return PartStatistics(*(mine + its for mine, its in zip(self.values, other.values, strict=True)))

    @property
    def values(self) -> tuple[int, ...]:
        """The numbers in their order."""
        return (
            self.n_parts,
            self.n_events,
            self.n_rows,
            self.n_unfinished,
            self.n_too_long,
            self.n_refused,
            self.n_capped,
            self.n_limited,
            self.n_rejected,
        )


def evaluate(
    batches: Iterator[pa.RecordBatch], task: Task, tell: Callable[[Mapping[int, PartStatistics]], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows as `spark_jobs.match_rows` has them.

    `batches`: events sorted by part, then by t_lo_ms; columns PART, TYPE_CODE, the others of the header that matter
    (without t_hi_ms all are precise), attributes. `tell` gets what was done with each part, by its number: Spark may
    evaluate a part more than once.
    """
    if problems := register_configured(task.aggregates, "--aggregate"):
        raise SparkJobError("; ".join(map(str, problems)))
    running: _Part | None = None
    for number, events in _by_part(batches):
        if running is None or running.number != number:
            if running is not None:
                yield from running.end(tell)
            running = _Part(number, task)
        yield from running.take(events)
    if running is not None:
        yield from running.end(tell)


class _Part:
    """One part under way: an engine, and the events that it gets with the next ones."""

    def __init__(self, number: int, task: Task) -> None:
        self.number = number
        self._task = task
        self._from_ms, self._to_ms = task.ranges.get(number, EVERYTHING)
        self._queries = engine.compile_queries(task.texts, task.schema, task.parameters, only=[task.name])
        stands_for_several = self._queries[-1].resolved.query.output in (
            engine.ast.Output.COLLAPSED,
            engine.ast.Output.COUNT,
        )
        limits = engine.Limits(possibilities=stands_for_several)
        self._found: list[pa.RecordBatch] = []
        sink = engine.RowSink(self._keep)
        quota = task.best.quota(self._owns)
        quotas = {} if quota is None else {task.name: quota}
        self._engine = engine.Engine(self._queries, task.schema, limits=limits, sink=sink, quotas=quotas)
        self._schema = task.schema.attributes
        self._waiting: list[pa.Table] = []
        self._n_waiting = 0
        self._n_events = self._n_rows = self._n_capped = 0

    def take(self, events: pa.Table) -> Iterator[pa.RecordBatch]:
        """Rows that further events decide."""
        self._waiting.append(events)
        self._n_waiting += events.num_rows
        if self._n_waiting >= self._task.least_batch:
            yield from self._step()

    def end(self, tell: Callable[[Mapping[int, PartStatistics]], None] | None) -> Iterator[pa.RecordBatch]:
        """Rows that the end of the part decides."""
        yield from self._step()
        self._engine.finish()
        yield from self._handed_over()
        if tell is not None:
            tell({self.number: self._statistics()})

    def _step(self) -> Iterator[pa.RecordBatch]:
        if not self._n_waiting:
            return
        table = _typed(pa.concat_tables(self._waiting), self._task.type_names)
        batch = event_batch(table, self._schema)
        self._waiting, self._n_waiting = [], 0
        self._n_events += len(batch)
        # The engine orders what shares a millisecond; of the last one more may follow.
        self._engine.process(batch, int(batch.t_lo_ms[-1]))
        yield from self._handed_over()

    def _handed_over(self) -> Iterator[pa.RecordBatch]:
        found, self._found = self._found, []
        yield from found

    def _owns(self, row: engine.MatchRow) -> bool:
        return self._from_ms <= row.first_lo_ms < self._to_ms

    def _keep(self, block: engine.RowBlock) -> None:
        if block.is_columnar and len(self._queries) == 1:
            self._put_columns(block.to_arrow())
            return
        rows: list[engine.MatchRow] = []
        for row in block:
            if row.query == self._task.name and self._owns(row):
                rows.append(row)
                self._n_capped += row.capped
            if len(rows) >= _MOST_ROWS:
                self._put(rows)
                rows = []
        self._put(rows)

    def _put_columns(self, table: pa.Table) -> None:
        first_ms = table.column("first_lo_ms").to_numpy()
        own = table.filter(pa.array((self._from_ms <= first_ms) & (first_ms < self._to_ms)))
        self._n_rows += own.num_rows
        self._found += columnar_batches(own, self._task.source)

    def _put(self, rows: Sequence[engine.MatchRow]) -> None:
        if rows:
            self._n_rows += len(rows)
            self._found.append(rows_batch(rows, self._task.source))

    def _statistics(self) -> PartStatistics:
        statistics = self._engine.statistics.values()
        return PartStatistics(
            n_parts=1,
            n_events=self._n_events,
            n_rows=self._n_rows,
            n_unfinished=sum(counted.n_unfinished for counted in statistics),
            n_too_long=sum(counted.n_too_long for counted in statistics),
            n_refused=sum(self._engine.n_refused.values()),
            n_capped=self._n_capped,
            n_limited=self._engine.statistics[self._task.name].n_limited if self._task.best == Best() else 0,
            n_rejected=sum(counted.n_rejected for counted in statistics),
        )


def _typed(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """With the names of types, and both ends of times."""
    codes = table.column(TYPE_CODE).to_numpy()
    found = table.append_column("type", pa.array(names).take(pa.array(codes)))
    return found if "t_hi_ms" in table.column_names else found.append_column("t_hi_ms", table.column("t_lo_ms"))


def event_batch(table: pa.Table, attributes: Mapping[str, AttributeType]) -> EventBatch:
    """Events of a table as the engine takes them: headers that it lacks are null, what is no attribute is left out."""
    present = set(table.column_names)
    arrays: list[pa.ChunkedArray | pa.Array] = []
    fields: list[pa.Field] = []
    for header in HEADER:
        column = table.column(header.name) if header.name in present else pa.nulls(table.num_rows, header.type)
        arrays.append(column if column.type == header.type else column.cast(header.type))
        fields.append(header)
    if SKEW.name in present and table.column(SKEW.name).null_count < table.num_rows:
        arrays.append(table.column(SKEW.name))
        fields.append(SKEW)
    for name, kind in attributes.items():
        if name in present:
            column = table.column(name)
            arrays.append(column if column.type == kind.arrow else column.cast(kind.arrow))
            fields.append(pa.field(name, kind.arrow))
    return EventBatch(pa.Table.from_arrays(arrays, schema=pa.schema(fields)))


def _by_part(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """Each batch cut where its part changes."""
    for batch in batches:
        if not batch.num_rows:
            continue
        parts = batch.column(batch.schema.get_field_index(PART)).to_numpy(zero_copy_only=False)
        table = pa.Table.from_batches([batch])
        bounds = [0, *(np.flatnonzero(parts[1:] != parts[:-1]) + 1).tolist(), len(parts)]
        for start, end in itertools.pairwise(bounds):
            yield int(parts[start]), table.slice(start, end - start)


__all__ = ["LEAST_BATCH", "PART", "TYPE_CODE", "PartStatistics", "Task", "evaluate", "event_batch"]
