"""Alerts of drawn queries in a stream's buckets, in any steps and restarts, against all rows of the oracle together.

As `tests/app/live/test_alerts_by_definition.py` has them of the live process. Here the events go to buckets, what these
keep goes through the state store's bytes, and what they tell through the rows of a micro-batch.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings

import engine
from app.alerting.recording.options import AlertingOptions
from app.config import load_settings
from app.queries.loading import Loaded, describe
from app.store import open_store
from engine.errors import QueryError, UnsupportedQueryError
from engine.events import EventBatch
from spark_jobs.event_store.schema import SOURCE
from spark_jobs.session import SparkJobError
from spark_jobs.stream import bucket as stream_bucket
from spark_jobs.stream.alerts import AlertSink
from spark_jobs.stream.bucket import Bucket, status_content
from spark_jobs.stream.groups import Route, StreamPlan
from spark_jobs.stream.parts import Cached, read_parts, write_parts
from spark_jobs.stream.plan import stream_plan
from spark_jobs.stream.processor import output_as_rows
from spark_jobs.stream.rows import TOLD
from tests.app.alerting_fixtures import receiver
from tests.app.live.test_alerts_by_definition import (
    LATE_MS,
    OVER_MS,
    Case,
    Clauses,
    Row,
    cases,
    check,
    lives_of,
    told_alerts,
    waiting_case,
)
from tests.engine.strategies import SCHEMA
from tests.examples import examples
from tests.new_store import placed
from tests.spark_jobs.stream.test_bucket import Memory
from tests.spark_jobs.stream_fixtures import ROOT

SETTINGS = load_settings(ROOT / "config.yaml", {})
N_BUCKETS = 2


class Stream:
    """The buckets of a case's queries, and the driver's store."""

    def __init__(self, case: Case, folder: Path) -> None:
        queries = engine.compile_queries(case.texts, SCHEMA)
        infos = {query.name: describe(query, "", 1) for query in queries}
        self.limited = {}
        self.alerting = AlertingOptions(infos, {"ops": receiver()}, 200, 10**15)
        self.plan: StreamPlan = stream_plan(Loaded(tuple(queries), infos, ()), SETTINGS, N_BUCKETS, SCHEMA)
        for group in self.plan.groups:
            self.limited |= {of.name: of for of in group.limited}
        self.folder = folder
        self.states = {
            (group.name, number): Memory() for group in self.plan.groups for number in range(group.route.n_buckets)
        }
        self.n_batches = 0
        self.watermark_ms = -LATE_MS
        """Of the micro-batches before."""
        self.cached: dict[tuple[str, int], Cached] = {}

    def begin(self) -> None:
        """A life of the worker processes: what is not in the state store is gone."""
        self.cached = {}
        for group in self.plan.groups:
            for number in range(group.route.n_buckets):
                cached = Cached(Bucket(group, self.plan.options, number))
                found, cached.digests = read_parts(self.states[group.name, number])
                if found:
                    cached.bucket.restore(found)
                self.cached[group.name, number] = cached

    def micro_batch(self, rows: list[Row], now_ms: int) -> None:
        told: list[Row] = []
        for (name, number), cached in self.cached.items():
            route = self.plan.group(name).route
            own = [row for row in rows if _goes_to(route, number, row)]
            output = cached.bucket.step([_table(own)] if own else [], self.watermark_ms)
            write_parts(cached, cached.bucket.save(), self.states[name, number])
            told += [row.asDict() for row in output_as_rows(output, name, number, status_content(output))]
            assert not output.late
        table = pa.Table.from_pylist(told, schema=pa.schema([(field.name, _ARROW[field.name]) for field in TOLD]))
        with open_store(f"sqlite:///{self.folder / 'store.db'}", durable=False) as store:
            AlertSink(store, self.alerting, "s", lambda: now_ms, limited=self.limited).write(table, self.n_batches)
        self.n_batches, self.watermark_ms = self.n_batches + 1, now_ms - LATE_MS


_ARROW = {field.name: pa.int64() if "bigint" in field.dataType.simpleString() else pa.string() for field in TOLD}


def _goes_to(route: Route, number: int, row: Row) -> bool:
    if row["type"] in route.broadcast:
        return True
    key = [row[name] for name in route.key]
    return row["type"] in route.keyed and None not in key and zlib.crc32(repr(key).encode()) % route.n_buckets == number


def _table(rows: list[Row]) -> pa.Table:
    batch = EventBatch.from_rows(rows, SCHEMA)
    return batch.table.append_column(SOURCE, pa.array(["yarn_rest"] * len(batch), pa.string()))


def stored_by_stream(case: Case, folder: Path) -> list[Row]:
    """The alerts when all is over."""
    placed(folder / "store.db")
    stream, read_ms = Stream(case, folder), -1
    for life in lives_of(case):
        stream.begin()
        for now_ms in life:
            came = [row for at, row in zip(case.arrivals, case.rows, strict=True) if read_ms < at <= now_ms]
            stream.micro_batch(came, now_ms)
            read_ms = now_ms
    stream.micro_batch([], OVER_MS[-1] + 1)  # what came last waits for the watermark of the next micro-batch
    return told_alerts(folder)


@pytest.fixture(autouse=True)
def panes_of_one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of events and matches goes as soon as it may."""
    monkeypatch.setattr(stream_bucket, "PANE_EVENTS", 1)


@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_drawn_alerts_are_those_of_all_matches(tmp_path_factory: Any, case: Case) -> None:
    try:
        check(case, tmp_path_factory.mktemp("drawn"), stored_by_stream)
    except (QueryError, UnsupportedQueryError, SparkJobError):
        assume(False)


@pytest.mark.parametrize("clause", ["", "LIMIT 2", "OUTPUT TOP 2 BY CONFIDENCE", "OUTPUT NON_OVERLAPPING"])
@pytest.mark.parametrize("lower", ["", "SEQ(A a, !C c)"])
def test_what_waits_to_be_told_is_shown(tmp_path: Path, lower: str, clause: str) -> None:
    assert check(waiting_case(lower, "SLIDE 5", clause), tmp_path, stored_by_stream) == 1


@pytest.mark.parametrize("told", ["", " ALERT info 'low'", " REPORT 'low'"])
def test_alerts_show_the_matches_that_they_bind(tmp_path: Path, told: str) -> None:
    rows: list[Row] = [
        {"event_id": f"e{t}", "type": kind, "t_lo_ms": t, "t_hi_ms": t, "k": k, "j": 1, "x": t, "y": 0.5, "s": f"n{t}"}
        for t, kind, k in [(1, "A", "p"), (2, "A", "q"), (4, "B", "p"), (5, "B", "q"), (40, "B", "p"), (43, "B", "q")]
    ]
    lower = (
        "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] } WITHIN 9 RETURN a.x AS x, a.y AS y, a.s AS s, a.j AS j"
    )
    query = "PATTERN SEQ(low a, B b) WHERE skip_till_any_match { [k] } WITHIN 50 RETURN " + (
        "a.x AS ax, b.x AS bx, b.y AS yy, b.s AS ss, a.s AS sa, a.j AS jj"
    )
    clauses = Clauses(onset="a", hosts=(("SUSPECT", "sa"),))
    arrivals = [row["t_lo_ms"] for row in rows]
    case = Case(query, clauses, rows, arrivals, range(0, 75, 5), frozenset({20, 55}), lower=lower + told)
    assert check(case, tmp_path, stored_by_stream) == 2
