"""A job beside its earlier runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dashboard.jobs import earlier
from dashboard.jobs.earlier import amounts, earlier_runs, times_median
from dashboard.jobs.reading import read_jobs
from tests.dashboard.jobs.test_reading import at, log_of

TASK = {"status": "SUCCEEDED", "host": "node1"}


def run(n: int, start: int, name: str = "nightly", user: str = "ann") -> list[dict[str, object]]:
    job = f"job_1_{n}"
    of = {"job_name": name, "user": user}
    tasks = [
        at(start + 5, "Mapper", job, task_id="m0", attempt_id=f"a{n}m0", n_input_records=10 * n, input_bytes=n, **TASK),
        at(start + 6, "Mapper", job, task_id="m1", attempt_id=f"a{n}m1", n_input_records=5, output_bytes=7, **TASK),
        # A speculative copy of m1 that succeeded, too, and one that failed: the task counts once.
        at(start + 7, "Mapper", job, task_id="m1", attempt_id=f"a{n}m1b", n_input_records=5, output_bytes=7, **TASK),
        at(start + 7, "Mapper", job, task_id="m2", attempt_id=f"a{n}m2", n_input_records=99, status="FAILED"),
    ]
    if n != 2:
        tasks.append(at(start + 8, "Reducer", job, task_id="r0", attempt_id=f"a{n}r0", output_bytes=100 * n, **TASK))
    return [at(start, "JobStart", job, **of), *tasks, at(start + 9, "JobEnd", job, status="SUCCEEDED", **of)]


@pytest.mark.parametrize("most", [None, 1])
def test_runs_of_this_name_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int | None) -> None:
    log = log_of(
        tmp_path, run(1, 0) + run(2, 100) + run(3, 200) + run(4, 300, user="bob") + run(5, 400, "other") + run(6, 500)
    )
    jobs = read_jobs(log).table
    this = jobs[jobs["job_id"] == "job_1_3"].iloc[0]
    runs = earlier_runs(jobs, this)
    assert runs["job_id"].tolist() == ["job_1_2", "job_1_1"]
    if most is not None:
        monkeypatch.setattr(earlier, "MAX_SUMMARIES", most)
        assert amounts(log, runs) is None
        return
    sums = amounts(log, runs)
    assert sums is not None
    assert sums[sums.index == "job_1_1"].to_numpy().tolist()[0] == [
        15.0,
        1.0,
        pytest.approx(np.nan, nan_ok=True),
        100.0,
    ]
    assert sums[["n_input_records", "output_bytes"]][sums.index == "job_1_2"].to_numpy().tolist() == [[25.0, 7.0]]


def test_how_many_times_the_median() -> None:
    assert times_median(30.0, pd.Series([10.0, 20.0, np.nan])) == 2.0
    assert np.isnan(times_median(30.0, pd.Series([0.0, 0.0])))
    assert np.isnan(times_median(np.nan, pd.Series([1.0])))
    assert np.isnan(times_median(1.0, pd.Series([], dtype=float)))
