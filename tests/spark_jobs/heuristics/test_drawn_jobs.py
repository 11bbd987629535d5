"""`report job`, `report jobs` and pages of drawn jobs, from files on, against sums over what was drawn."""

from __future__ import annotations

import os
import random
from fractions import Fraction
from pathlib import Path

import pyarrow.compute as pc
import pytest

from dashboard.jobs.data import ATTEMPT_COLUMNS, ATTEMPT_TYPES, attempts, stragglers
from dashboard.jobs.list import JOB_COLUMNS, job_list
from spark_jobs.event_store.on_this_machine import read_few
from spark_jobs.heuristics.job import events_here, judgement_of
from spark_jobs.heuristics.jobs import rows_here
from spark_jobs.ingest.job import ingest_here
from spark_jobs.ingest.kinds import IngestOptions
from spark_jobs.ingest.on_this_machine import Limits
from tests.collectors.histories import T0
from tests.examples import examples
from tests.spark_jobs.heuristics.drawn_jobs import DrawnJob, drawn_job, memory, severities

SEED = int(os.environ.get("CLUSTERCEP_SEED", "1"))


def stored(jobs: list[DrawnJob], folder: Path) -> str:
    """The event store of their files."""
    (folder / "in").mkdir()
    for job in jobs:
        (folder / "in" / f"{job.job_id}-x.jhist").write_bytes(job.history())
        if job.has_conf:
            (folder / "in" / f"{job.job_id}_conf.xml").write_text(job.conf())
    limits = Limits(2 * len(jobs), 1 << 30)
    assert ingest_here(str(folder / "store"), ("job_history",), [str(folder / "in")], IngestOptions(), limits)
    return str(folder / "store")


def test_drawn_jobs_are_judged_by_the_definitions(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    jobs = [drawn_job(draw, number) for number in range(examples(40))]
    store = stored(jobs, tmp_path)
    found = rows_here(store, None, None)
    assert found is not None
    rows = {row["job_id"]: row for row in found}
    assert set(rows) == {job.job_id for job in jobs}
    told = set()
    for job in jobs:
        row = rows[job.job_id]
        assert (row["status"], row["user"], row["queue"]) == (job.status, job.user, job.queue)
        if job.has_conf and job.attempts:
            sums = tuple(row[name] for name in ("held_gib_h", "wasted_gib_h", "lost_h"))
            assert sums == pytest.approx(memory(job)), job.job_id
        else:
            assert row["held_gib_h"] is None
        judged = {one.heuristic: one for one in judgement_of(job.job_id, events_here(store, job.job_id)).corrected}
        if job.status != "SUCCEEDED":
            assert set(judged) == ({"exception"} if job.status == "FAILED" else set())
            continue
        for name, expected in severities(job).items():
            one = judged[name]
            assert (one.severity, one.score) == expected, (job.job_id, name, one)
            told.add((name, one.severity))
    assert len(told) > 30


def test_the_page_of_a_drawn_job_has_what_was_drawn(tmp_path: Path) -> None:
    """Its attempts, and the stragglers by the page's own rule; the list of jobs: from the same files."""
    draw = random.Random(SEED + 1)
    jobs = [drawn_job(draw, number) for number in range(examples(30))]
    store = stored(jobs, tmp_path)
    events = read_few(
        store, ("JobStart", "JobEnd", *ATTEMPT_TYPES), sorted({*ATTEMPT_COLUMNS, *JOB_COLUMNS}), None, None, 10**6
    )
    assert events is not None
    listed = job_list(events, {}, T0).set_index("job_id")
    n_marked = 0
    for job in jobs:
        of_list = listed.loc[job.job_id]
        assert (of_list["state"], of_list["user"], of_list["queue"]) == (job.status, job.user, job.queue)
        assert of_list["duration_ms"] == job.end_ms - 5_000
        own = events.filter(pc.equal(events.column("job_id"), job.job_id))
        table = attempts(own, T0 + 10**9, job_ended=True)
        marks = stragglers(table, {})
        assert list(table["start_lo_ms"]) == sorted(table["start_lo_ms"])
        found = {
            row["attempt_id"]: (row, mark)
            for (_, row), (_, mark) in zip(table.iterrows(), marks.iterrows(), strict=True)
        }
        assert set(found) == {attempt.id(job.job_id) for attempt in job.attempts}
        for attempt in job.attempts:
            row, mark = found[attempt.id(job.job_id)]
            assert (row["status"], row["duration_ms"]) == (attempt.status, attempt.run_ms)
            assert (row["start_lo_ms"], row["end_hi_ms"]) == (T0 + attempt.start_ms, T0 + attempt.end_ms)
            assert (row["kind"] == "MAP") is attempt.is_map
            others = [
                Fraction(other.run_ms)
                for other in job.attempts
                if other is not attempt and other.is_map is attempt.is_map and other.status == "SUCCEEDED"
            ]
            mean = sum(others) / len(others) if others else Fraction(0)
            is_slow = len(others) >= 3 and attempt.run_ms > 2 * mean and attempt.run_ms - mean >= 10_000
            assert mark["by_rule"] == is_slow, (attempt, mark)
            assert not others or mark["mean_others_ms"] == pytest.approx(float(mean))
            n_marked += is_slow
    assert n_marked > 10
