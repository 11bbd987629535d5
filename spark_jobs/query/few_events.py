"""A query over few events of a store on this machine, evaluated by the process that asks, as one part.

To start Spark, and to have it start workers, takes seconds; most questions of an operator (an hour, a job) need
milliseconds. Hadoop runs small jobs in the same spirit ("uber jobs"). Few events can be much work, which shows only
when it is done: what takes longer than MOST_S is left to Spark and its cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine import CompiledQuery, answer_while_compiling
from spark_jobs.best_rows import Best
from spark_jobs.divide import ORDER, Counted, check_divisible, type_names
from spark_jobs.evaluate import PART, TYPE_CODE, PartStatistics, evaluate
from spark_jobs.match_rows import ARROW_PLACED_ROWS
from spark_jobs.parts import Division
from spark_jobs.query.rows import ROW_ORDER, RequestedQuery, columns_of, columns_that_matter, task_of

MOST_S = 2.0
"""About what Spark needs before it has evaluated anything, once it has started."""

_STEP = 8_192
"""Events between two looks at the clock."""


@dataclass(frozen=True)
class Found:
    """What a query found, as `spark_jobs.query.rows.Planned` tells it."""

    query: CompiledQuery
    division: Division
    counted: Counted
    best: Best
    totals: PartStatistics
    rows: pa.Table

    def batches(self, *, in_order: bool) -> Iterator[pa.RecordBatch]:
        """The rows, by time or as they were found."""
        rows = self.rows.sort_by([(name, "ascending") for name in ROW_ORDER]) if in_order else self.rows
        yield from rows.to_batches()


class _EnoughError(Exception):
    """It has been enough."""


def find(
    events: pa.Table, requested: RequestedQuery, *, one_piece: bool = False, enough: Callable[[], bool] | None = None
) -> Found | None:
    """The rows of a query over events (columns and types that `requested` needs, others are left out; in any order).

    None: `enough` said so before all was done; by itself it does after MOST_S. Raises SparkJobError, as `plan_rows`
    does, for a query that can be divided in no way unless it shall be evaluated in one piece.
    """
    query = requested.compiled()
    if not one_piece:
        check_divisible(query)
    last_s = time.monotonic() + MOST_S
    is_enough = enough or (lambda: time.monotonic() > last_s)
    task = replace(task_of(requested, query, one_piece=one_piece), least_batch=_STEP)
    told: dict[int, PartStatistics] = {}
    rows: list[pa.RecordBatch] = []
    chosen = _of_types(events, type_names(query))
    counted = _counted(chosen)
    answer_while_compiling()
    try:
        if len(chosen):
            present = [name for name in columns_of(query) if name in chosen.column_names and name != "type"]
            chosen = chosen.select([*columns_that_matter(query, counted, present), TYPE_CODE, PART])
            rows += evaluate(_steps(chosen, is_enough), task, told.update)
    except _EnoughError:
        return None
    found = pa.Table.from_batches(rows, ARROW_PLACED_ROWS)
    return Found(query, Division({}), counted, task.best, sum(told.values(), PartStatistics()), found)


def _of_types(events: pa.Table, names: tuple[str, ...]) -> pa.Table:
    """The events of these types, as an executor gets those of the only part."""
    if not len(events):
        return events
    coded = events.append_column(TYPE_CODE, pc.index_in(events.column("type"), value_set=pa.array(names)))
    if coded.column(TYPE_CODE).null_count:
        coded = coded.filter(coded.column(TYPE_CODE).is_valid())
    return coded.append_column(PART, pa.array(np.zeros(len(coded), np.int32)))


def _steps(events: pa.Table, enough: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
    ordered = events.take(pc.sort_indices(events.column(ORDER))).combine_chunks()
    for batch in ordered.to_batches(max_chunksize=_STEP):
        if enough():
            raise _EnoughError
        yield batch


def _counted(events: pa.Table) -> Counted:
    if not len(events):
        return Counted(0, 0, 0, 0, 0, 0, 0, {})
    lo_ms, hi_ms = (events.column(name).to_numpy() for name in ("t_lo_ms", "t_hi_ms"))
    lengths_ms = hi_ms - lo_ms
    return Counted(
        n_events=len(events),
        n_everywhere=0,
        n_without_key=0,
        n_imprecise=int(np.count_nonzero(lengths_ms)),
        longest_ms=int(lengths_ms.max()),
        first_ms=int(lo_ms.min()),
        last_ms=int(lo_ms.max()),
        by_bucket={},
    )


__all__ = ["MOST_S", "Found", "find"]
