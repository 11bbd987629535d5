"""A query over a DataFrame of events: the plan of its evaluation, and its rows as executors find them."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from pyspark import Accumulator
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.serializers import read_int
from pyspark.sql import DataFrame
from pyspark.sql.pandas.serializers import ArrowCollectSerializer, ArrowStreamSerializer
from pyspark.util import _load_from_socket

import engine
from engine import CompiledQuery
from engine.events import SKEW, EventSchema
from spark_jobs.best_rows import Best
from spark_jobs.divide import Counted, Sizes, count, divide, float_names, in_parts, longest_that_counts_ms, type_names
from spark_jobs.evaluate import PartStatistics, Task, evaluate
from spark_jobs.match_rows import PLACED_ROWS, Source
from spark_jobs.parts import Division

NEEDED = ("event_id", "type", "t_lo_ms", "t_hi_ms", "source_rank", "source_seq")
"""Header columns that every query needs."""

FOR_IMPRECISE = ("clock_id", "weights", SKEW.name)
"""Those that matter only where times are uncertain."""

ROW_ORDER = ("last_ms", "first_ms", "match_id")
"""Columns by which rows are in order of time."""

SPARK_CONF = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",  # an engine's step has a price of its own
    # This number means: no limit. With any other Spark asks all columns for their size at each row, for a fifth of the
    # time of a job; rows of a query are small.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.driver.maxResultSize": "0",  # rows are passed on as they come
}


@dataclass(frozen=True)
class RequestedQuery:
    """A query with all that decides its meaning. `texts`, `parameters`: of the query and those that it may use."""

    name: str
    texts: Mapping[str, str]
    schema: EventSchema
    parameters: Mapping[str, Mapping[str, int | float | str]] = field(default_factory=dict)
    aggregates: tuple[str, ...] = ()

    def compiled(self) -> CompiledQuery:
        """Checked and planned; raises QueryError."""
        return engine.compile_queries(self.texts, self.schema, self.parameters, only=[self.name])[-1]


@dataclass(frozen=True)
class Planned:
    """How a query is evaluated, and its rows: not yet found, they are when they are asked for."""

    query: CompiledQuery
    division: Division
    counted: Counted
    best: Best
    rows: DataFrame
    told: Accumulator[Mapping[int, PartStatistics]]
    """By part: one that is evaluated again, for an order or after a failure, tells the same again."""

    @property
    def totals(self) -> PartStatistics:
        """What has been done with all parts, each counted once."""
        return sum(self.told.value.values(), PartStatistics())

    def batches(self, *, in_order: bool) -> Iterator[pa.RecordBatch]:
        """The rows, by time or as they are found."""
        if in_order:
            yield from self.rows.orderBy(*ROW_ORDER).toArrow().to_batches()
        else:
            yield from as_they_come(self.rows)


class _StatisticsOfParts(AccumulatorParam[Mapping[int, PartStatistics]]):
    def zero(self, value: Mapping[int, PartStatistics]) -> Mapping[int, PartStatistics]:  # noqa: ARG002  # Spark's signature
        return {}

    def addInPlace(  # noqa: N802  # Spark's name
        self, value1: Mapping[int, PartStatistics], value2: Mapping[int, PartStatistics]
    ) -> Mapping[int, PartStatistics]:
        return {**value1, **value2}


def columns_of(query: CompiledQuery) -> tuple[str, ...]:
    """The columns that are read: headers, and the attributes that decide what the query finds."""
    return (*NEEDED, *FOR_IMPRECISE, *sorted(query.read_attributes))


def plan_rows(
    events: DataFrame,
    requested: RequestedQuery,
    sizes: Sizes | None = None,
    *,
    one_piece: bool = False,
    n_cores: int | None = None,
) -> Planned:
    """Look at the events (columns and types that are needed, others are left out) and plan; raises SparkJobError."""
    query = requested.compiled()
    spark = events.sparkSession
    chosen = events.where(events["type"].isin(sorted(query.distribution.types)))
    present = [name for name in columns_of(query) if name in events.columns]
    counted = count(chosen.select(*present), query.distribution, float_names(query))
    chosen = chosen.select(*columns_that_matter(query, counted, present))
    cores = n_cores or spark.sparkContext.defaultParallelism
    division = divide(chosen, query, counted, cores, sizes or Sizes(), one_piece=one_piece)
    task = replace(task_of(requested, query, one_piece=one_piece), ranges=division.ranges)
    nothing: Mapping[int, PartStatistics] = {}
    told = spark.sparkContext.accumulator(nothing, _StatisticsOfParts())
    evaluated = partial(evaluate, task=task, tell=told.add)
    rows = in_parts(chosen, query, counted, division).mapInArrow(evaluated, PLACED_ROWS)
    return Planned(query, division, counted, task.best, rows, told)


def columns_that_matter(query: CompiledQuery, counted: Counted, present: Sequence[str]) -> list[str]:
    """Those of the columns that decide anything about these events."""
    is_precise = longest_that_counts_ms(query, counted) == 0
    return [name for name in present if not (is_precise and name in FOR_IMPRECISE)]


def task_of(requested: RequestedQuery, query: CompiledQuery, *, one_piece: bool) -> Task:
    """What executors are to know, but for the parts' ranges."""
    # An engine that has everything counts by itself, also by opening events, which rows do not show.
    best, texts = (Best(), dict(requested.texts)) if one_piece else apart(requested, query)
    return Task(
        name=requested.name,
        texts=texts,
        parameters={name: dict(given) for name, given in requested.parameters.items()},
        type_names=type_names(query),
        types={name: {a: kind.value for a, kind in has.items()} for name, has in requested.schema.types.items()},
        source=Source(query.name, query.hash),
        best=best,
        aggregates=requested.aggregates,
    )


def apart(requested: RequestedQuery, query: CompiledQuery) -> tuple[Best, dict[str, str]]:
    """TOP and LIMIT are about the rows of all parts: they are taken out of what a part evaluates."""
    plain = query.resolved.query
    parsed = engine.parse(requested.texts[requested.name], requested.name)
    is_top = plain.output is engine.ast.Output.TOP
    best = Best(top=plain.top_k if is_top else None, limit=None if is_top else plain.limit)
    if best == Best():
        return best, dict(requested.texts)
    output = engine.ast.Output.ALL if is_top else parsed.output
    text = engine.print_query(replace(parsed, output=output, top_k=None, limit=None))
    return best, {**requested.texts, requested.name: text}


def as_they_come(rows: DataFrame) -> Generator[pa.RecordBatch]:
    """The batches of a DataFrame, those of a task as soon as that ends; raises what the job raised.

    As DataFrame.toArrow collects them, but not only when all of them are there: its parts are no public interface of
    PySpark, whose version is pinned.
    """
    port, secret, server = rows._jdf.collectAsArrowToPython()
    try:
        with _load_from_socket((port, secret), _InAnyOrder()) as batches:
            yield from batches
    finally:
        server.getResult()


class _InAnyOrder(ArrowCollectSerializer):
    """The batches that a job sends while it runs, and after them the numbers that would order them."""

    def load_stream(self, stream):  # type: ignore[no-untyped-def]  # as PySpark has it
        yield from ArrowStreamSerializer.load_stream(self, stream)
        n = read_int(stream)  # type: ignore[no-untyped-call]
        if n == -1:
            raise PySparkException("the job failed while its rows were read")
        for _ in range(n):
            read_int(stream)  # type: ignore[no-untyped-call]


__all__ = [
    "FOR_IMPRECISE",
    "NEEDED",
    "ROW_ORDER",
    "SPARK_CONF",
    "Planned",
    "RequestedQuery",
    "apart",
    "as_they_come",
    "columns_of",
    "columns_that_matter",
    "plan_rows",
    "task_of",
]
