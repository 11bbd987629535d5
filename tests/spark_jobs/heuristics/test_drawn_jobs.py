"""`report job` and `report jobs` of drawn histories, from files on, against sums over what was drawn."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from spark_jobs.heuristics.job import events_here, judgement_of
from spark_jobs.heuristics.jobs import rows_here
from spark_jobs.ingest.job import ingest_here
from spark_jobs.ingest.kinds import IngestOptions
from spark_jobs.ingest.on_this_machine import Limits
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
