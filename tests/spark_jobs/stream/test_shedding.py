"""The latency bound of a stream, bucket by bucket, on a simulated clock; and what the driver makes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import engine
from app.alerting.recording.kept import is_shed
from app.live.assembly import alerting_options
from app.queries.loading import Loaded
from app.replay.machine import Costs, SimulatedMachine
from app.shedding.losses import NOTHING, Lost
from app.store.api import open_store
from spark_jobs.stream.alerts import AlertSink
from spark_jobs.stream.bucket import Bucket, BucketOutput, status_content
from spark_jobs.stream.groups import StreamPlan
from spark_jobs.stream.parts import Cached, read_parts, write_parts
from spark_jobs.stream.plan import stream_plan
from spark_jobs.stream.processor import output_as_rows
from tests.new_store import placed
from tests.spark_jobs.stream.test_bucket import SCHEMA, SETTINGS, Event, Memory, loaded, table

JOBS = """
PATTERN SEQ(JobStart a, Mapper b, JobEnd c)
WHERE   skip_till_next_match { [job_id] }
WITHIN  1 hour
RETURN  a.job_id
ALERT   warning 'job {job_id} ended'
"""
BOUND_MS = 50
N_JOBS, EACH_MS = 300, 100
COSTS = Costs(event_s=2e-5, kept_s=3e-6, dropped_s=1e-8)
"""An event beside all jobs takes 0.9 ms."""


def events() -> list[Event]:
    """All jobs begin, and then have a mapper and end one by one."""
    found: list[Event] = [{"type": "JobStart", "t_lo_ms": 1_000 + n, "job_id": f"j{n}"} for n in range(N_JOBS)]
    for n in range(N_JOBS):
        found.append({"type": "Mapper", "t_lo_ms": 2_000 + n, "job_id": f"j{n}"})
        found.append({"type": "JobEnd", "t_lo_ms": 3_000 + n, "job_id": f"j{n}"})
    return [{"event_id": f"{i:032x}", **event} for i, event in enumerate(found)]


def queries(folder: Path) -> Loaded:
    return loaded(folder / "queries", jobs=JOBS)


def planned(folder: Path, bound_ms: int | None = BOUND_MS) -> StreamPlan:
    bounded = SETTINGS.engine.model_copy(update={"latency_bound_ms": bound_ms})
    return stream_plan(queries(folder), SETTINGS.model_copy(update={"engine": bounded}), 1, SCHEMA)


class Driven:
    """A bucket that gets the events of so many ms in each micro-batch, and those before them as its watermark's."""

    def __init__(self, plan: StreamPlan, *, restarts: bool = False, each_ms: int = EACH_MS) -> None:
        self.machine = SimulatedMachine(COSTS, n_clusters=1)
        bound_ms = plan.options.latency_bound_ms
        self.control = None
        if bound_ms is not None:
            self.control = engine.latency_bound(bound_ms / 1000, self.machine, works=self.machine, shares_times=True)
        self.told: list[BucketOutput] = []
        self.saved: list[dict[str, pa.Table]] = []
        (group,) = plan.groups
        store, cached = Memory(), Cached(self._bucket(plan))
        rows = events()
        for start_ms in range(1_000, 3_500 + each_ms, each_ms):
            part = [row for row in rows if start_ms <= row["t_lo_ms"] < start_ms + each_ms]
            self.told.append(cached.bucket.step([table(part)] if part else [], start_ms))
            self.saved.append(cached.bucket.save())
            if restarts:
                write_parts(cached, self.saved[-1], store)
                cached = Cached(self._bucket(plan))  # as another process would find it
                found, cached.digests = read_parts(store)
                assert cached.bucket.restore(found) == frozenset()
        assert group.name == "job_id"

    def _bucket(self, plan: StreamPlan) -> Bucket:
        return Bucket(plan.groups[0], plan.options, 0, self.control, self.machine)

    @property
    def rows(self) -> list[engine.MatchRow]:
        return [row for told in self.told for row in told.matches]

    @property
    def lost(self) -> Lost:
        total = NOTHING
        for told in self.told:
            assert told.shed is not None
            for lost in told.shed.lost.values():
                total = total.with_more(lost)
        return total


def meaning(rows: Sequence[engine.MatchRow]) -> Counter[tuple[Any, ...]]:
    return Counter((row.query, row.key, row.event_ids) for row in rows)


@pytest.mark.parametrize("restarts", [False, True])
def test_the_bound_holds_in_each_micro_batch(tmp_path: Path, restarts: bool) -> None:
    whole, shed = Driven(planned(tmp_path, None)), Driven(planned(tmp_path), restarts=restarts)
    assert shed.machine.longest_s <= BOUND_MS / 1000
    assert all(told.shed is None for told in whole.told)
    assert len(whole.rows) == N_JOBS
    assert shed.lost.n_runs > 20
    missing = meaning(whole.rows) - meaning(shed.rows)
    assert not meaning(shed.rows) - meaning(whole.rows), "a match was told that is none"
    assert sum(missing.values()) == shed.lost.n_partial_matches, "each job has one partial match, and ends"


def test_what_was_lost_is_told_once_and_kept_over_restarts(tmp_path: Path) -> None:
    shed = Driven(planned(tmp_path), restarts=True)
    last = shed.told[-1].shed
    assert last is not None
    (figures,) = last.figures["queries"].values()
    assert figures["n_partial_matches"] == round(shed.lost.n_partial_matches) > 0
    assert last.figures["bound_ms"] == BOUND_MS
    assert last.figures["exempt"] == []
    marked = [told.shed.missing_until_ms for told in shed.told if told.shed is not None and told.shed.missing_until_ms]
    assert marked
    assert all(until_ms["jobs"] >= 1_000 for until_ms in marked)


def test_a_bound_that_nothing_exceeds_changes_nothing(tmp_path: Path) -> None:
    whole, bounded = Driven(planned(tmp_path, None)), Driven(planned(tmp_path, 60_000))
    assert [told.matches for told in bounded.told] == [told.matches for told in whole.told]
    assert bounded.lost == NOTHING
    for mine, its in zip(bounded.saved, whole.saved, strict=True):
        assert mine.keys() - its.keys() == {"engine/overload"}
        assert all(mine[name].equals(its[name]) for name in its)


@pytest.mark.parametrize(("before", "after"), [(None, BOUND_MS), (BOUND_MS, None)])
def test_a_stream_goes_on_when_a_bound_is_set_or_taken_out(
    tmp_path: Path, before: int | None, after: int | None
) -> None:
    state = Driven(planned(tmp_path, before)).saved[4]
    plan = planned(tmp_path, after)
    bucket = Bucket(plan.groups[0], plan.options, 0)
    assert bucket.restore(state) == frozenset()
    assert (bucket.step([], 10_000).shed is None) is (after is None)


def test_the_driver_marks_alerts_and_tells_what_was_lost(tmp_path: Path) -> None:
    shed = Driven(planned(tmp_path))
    options = alerting_options(SETTINGS, queries(tmp_path / "again"))
    marked_from = next(n for n, told in enumerate(shed.told) if told.shed and told.shed.missing_until_ms)
    unmarked = sum(len(told.matches) for told in shed.told[:marked_from])
    with open_store(placed(tmp_path / "store.db")) as store:
        sink = AlertSink(store, options, "s", lambda: 5_000)
        for number, told in enumerate(shed.told):
            again = replace(told, matches=[], counters=Counter())  # as if another bucket had lost as much
            rows = [*told_rows(told, 0), *told_rows(again, 1)]
            sink.write(pa.Table.from_pylist(rows), number)
        alerts = store.alerts()
        assert len(alerts) == len(shed.rows)
        assert sum(not is_shed(alert) for alert in alerts) == unmarked
        (problem,) = [problem for problem in store.problems() if problem.kind == "load_shed"]
        assert (problem.source, problem.place) == ("engine", "query jobs")
        assert problem.message.endswith("and are not in the estimate") or "estimated from" in problem.message
        assert problem.n_times == sum(bool(told.shed and told.shed.lost) for told in shed.told)
        status = store.process_status()
        assert status is not None
        figures = status.value["overload"]
        last = shed.told[-1].shed
        assert last is not None
        assert figures["bound_ms"] == BOUND_MS
        assert figures["longest_ms"] == last.figures["longest_ms"] <= BOUND_MS
        assert figures["n_shed_steps"] == 2 * last.figures["n_shed_steps"] > 0
        of_one = last.figures["queries"]["jobs"]
        assert figures["queries"]["jobs"]["n_partial_matches"] == 2 * of_one["n_partial_matches"]


def told_rows(told: BucketOutput, number: int) -> list[dict[str, Any]]:
    return [row.asDict() for row in output_as_rows(told, "job_id", number, status_content(told, seconds=0.1))]


def test_a_stream_without_a_bound_has_no_figures_of_one(tmp_path: Path) -> None:
    options = alerting_options(SETTINGS, queries(tmp_path))
    told = Driven(planned(tmp_path, None)).told[0]
    with open_store(placed(tmp_path / "store.db")) as store:
        AlertSink(store, options, "s", lambda: 5_000).write(pa.Table.from_pylist(told_rows(told, 0)), 0)
        status = store.process_status()
        assert status is not None
        assert "overload" not in status.value
