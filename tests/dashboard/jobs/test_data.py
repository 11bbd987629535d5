"""Attempts of a job, stragglers, lanes and fetches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.schema import load_event_types
from dashboard.jobs.data import (
    NO_END,
    RUNNING,
    STRAGGLER_FACTOR,
    STRAGGLER_LEAST_MS,
    STRAGGLER_OTHERS,
    attempts,
    chosen_attempts,
    fetches,
    fetches_by_host,
    lanes,
    stragglers,
)
from engine.events import EventBatch

T0_MS = 1_700_000_000_000
JOB = "job_1700000000000_0001"


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    numbered = [{"event_id": str(n), **row} for n, row in enumerate(rows)]
    return EventBatch.from_rows(numbered, load_event_types()).table


def ids(kind: str, task: int, attempt: int = 0) -> dict[str, Any]:
    name = f"{JOB.removeprefix('job_')}_{kind}_{task:06}"
    return {"job_id": JOB, "task_id": f"task_{name}", "attempt_id": f"attempt_{name}_{attempt}"}


def event(event_type: str, t_ms: int, kind: str, task: int, **other: Any) -> dict[str, Any]:
    return {"type": event_type, "t_lo_ms": T0_MS + t_ms, **ids(kind, task, other.pop("attempt", 0)), **other}


def test_one_row_per_attempt() -> None:
    """A finished map, one that failed, one that runs, a reducer with phases, and one of which only the end was seen."""
    phases = {"shuffle_ms": 5_000, "sort_ms": 100, "reduce_ms": 900}
    events = table_of(
        [
            event("MapStart", 0, "m", 0, host="node1"),
            event("TaskSample", 3_900, "m", 0, host="node1", progress=0.66, elapsed_ms=3_900),
            event("MapEnd", 4_000, "m", 0, host="node1", status="SUCCEEDED", period_ms=4_000),
            event("Mapper", 4_000, "m", 0, host="node1", status="SUCCEEDED", period_ms=4_000),
            event("MapStart", 1_000, "m", 1, host="node2"),
            event("MapEnd", 3_000, "m", 1, host="node2", status="FAILED", period_ms=2_000),
            event("MapStart", 3_500, "m", 1, host=None, attempt=1),
            event("TaskSample", 6_000, "m", 1, host="node3", attempt=1, progress=0.25, elapsed_ms=2_500),
            event("TaskSample", 8_000, "m", 1, host="node3", attempt=1, progress=0.5, elapsed_ms=4_500),
            event("ReducerEnd", 9_000, "r", 0, host="node1", status="SUCCEEDED", period_ms=6_000),
            event("Reducer", 9_000, "r", 0, host="node1", status="SUCCEEDED", period_ms=6_000, **phases),
            event("ReducerEnd", 9_500, "r", 1, host="node1", status="KILLED"),
            event("TaskSample", 7_000, "r", 2, host="node2", progress=0.0, elapsed_ms=500),
        ]
    )
    table = attempts(events, T0_MS + 10_000, job_ended=False).set_index(["kind", "task_id", "attempt_id"])
    found = {(key[0], key[2][-10:]): row for key, row in table.iterrows()}
    assert len(found) == 6
    done = found["MAP", "m_000000_0"]
    assert (done["status"], done["duration_ms"], done["end_lo_ms"] - T0_MS) == ("SUCCEEDED", 4_000, 4_000)
    assert (done["progress"], found["REDUCE", "r_000000_0"]["progress"]) == (1.0, 1.0)  # one of them was sampled
    assert np.isnan(found["MAP", "m_000001_0"]["progress"])
    assert found["MAP", "m_000001_0"]["status"] == "FAILED"
    runs = found["MAP", "m_000001_1"]
    assert (runs["status"], runs["host"], runs["progress"]) == (RUNNING, "node3", 0.5)
    assert (runs["duration_ms"], runs["end_hi_ms"] - T0_MS) == (6_500, 10_000)
    reducer = found["REDUCE", "r_000000_0"]
    assert (reducer["start_lo_ms"] - T0_MS, reducer["start_seen"]) == (3_000, False)
    assert reducer[["shuffle_ms", "sort_ms", "reduce_ms"]].tolist() == [5_000, 100, 900]
    killed = found["REDUCE", "r_000001_0"]
    assert np.isnan(killed["duration_ms"])
    assert killed["start_lo_ms"] == killed["end_hi_ms"] == T0_MS + 9_500
    sampled = found["REDUCE", "r_000002_0"]
    assert (sampled["start_lo_ms"] - T0_MS, sampled["duration_ms"], sampled["status"]) == (6_500, 3_500, RUNNING)
    assert set(attempts(events, T0_MS + 10_000, job_ended=True)["status"]) == {"SUCCEEDED", "FAILED", "KILLED", NO_END}


def test_intervals_stay_intervals() -> None:
    """What polling inferred lies between two polls."""
    rows = [
        event("MapStart", 0, "m", 0, t_hi_ms=T0_MS + 500),
        event("MapEnd", 4_000, "m", 0, t_hi_ms=T0_MS + 5_000, status="SUCCEEDED"),
    ]
    [row] = attempts(table_of(rows), T0_MS, job_ended=True).to_dict("records")
    times = [row[name] - T0_MS for name in ("start_lo_ms", "start_hi_ms", "end_lo_ms", "end_hi_ms")]
    assert (times, row["duration_ms"]) == ([0, 500, 4_000, 5_000], 5_000)


def test_no_attempts() -> None:
    table = attempts(EventBatch.empty().table, T0_MS, job_ended=True)
    assert len(table) == 0
    assert len(stragglers(table, {"x": {"q"}})) == 0
    assert chosen_attempts(table, pd.Series(dtype=bool), 5).n_all == 0
    assert len(lanes(table)) == 0
    pulls = fetches(EventBatch.empty().table)
    assert (len(pulls), len(fetches_by_host(pulls))) == (0, 0)


def made_up(durations: list[tuple[str, str, float]]) -> pd.DataFrame:
    """Attempts of (kind, status, duration), one after the other."""
    begin = np.arange(len(durations)) * 10.0
    length = np.array([ms for *_, ms in durations], np.float64)
    return pd.DataFrame(
        {
            "attempt_id": [f"a{n}" for n in range(len(durations))],
            "task_id": [f"t{n}" for n in range(len(durations))],
            "kind": [kind for kind, *_ in durations],
            "status": [status for _, status, _ in durations],
            "host": [f"h{n % 2}" for n in range(len(durations))],
            "duration_ms": length,
            "start_lo_ms": begin,
            "end_hi_ms": begin + length,
        }
    )


KINDS = st.sampled_from(["MAP", "REDUCE"])
STATUSES = st.sampled_from(["SUCCEEDED", "SUCCEEDED", "FAILED", "KILLED", RUNNING, NO_END])
DURATIONS = st.one_of(st.just(float("nan")), st.integers(0, 60_000).map(float))


@given(
    rows=st.lists(st.tuples(KINDS, STATUSES, DURATIONS), max_size=15),
    named=st.dictionaries(st.sampled_from(["a1", "t3"]), st.sets(st.sampled_from(["p", "q"]), min_size=1)),
)
def test_stragglers_by_definition(rows: list[tuple[str, str, float]], named: dict[str, set[str]]) -> None:
    """Twice the mean of the others, for each attempt by itself; the alert of a task names none of its attempts."""
    table = made_up(rows)
    found = stragglers(table, named)
    for n, (kind, status, duration) in enumerate(rows):
        others = [d for m, (k, s, d) in enumerate(rows) if m != n and k == kind and s == "SUCCEEDED" and d == d]
        mean = sum(others) / len(others) if others else float("nan")
        expected = (
            status != NO_END
            and len(others) >= STRAGGLER_OTHERS
            and duration > STRAGGLER_FACTOR * mean + 1e-6
            and duration - mean >= STRAGGLER_LEAST_MS
        )
        # Where rounding decides, either answer is right.
        if not others or abs(duration - STRAGGLER_FACTOR * mean) > 1e-6:
            assert bool(found.at[n, "by_rule"]) == expected
        assert bool(found.at[n, "by_alert"]) == (f"a{n}" in named)
        told = [f"alert {query}" for query in sorted(named.get(f"a{n}", ()))]
        assert found.at[n, "why"] == " and ".join([*told, *(["by the rule"] if found.at[n, "by_rule"] else [])])
        assert found.at[n, "mean_others_ms"] == pytest.approx(mean, nan_ok=True)


def test_what_is_drawn_of_many() -> None:
    """Marked ones, then those that did not succeed, then the longest; what is left out is counted by status."""
    rows = [("MAP", "SUCCEEDED", float(n)) for n in range(10)] + [("MAP", "FAILED", float(n)) for n in range(4)]
    table = made_up(rows)
    is_marked = table["attempt_id"] == "a2"
    found = chosen_attempts(table, is_marked, at_most=7)
    assert found.attempts["attempt_id"].tolist() == ["a2", "a8", "a9", "a10", "a11", "a12", "a13"]
    assert (found.n_all, found.left_out) == (14, {"SUCCEEDED": 7})
    few = chosen_attempts(table, is_marked, at_most=3)
    assert few.attempts["attempt_id"].tolist() == ["a2", "a12", "a13"]
    assert few.left_out == {"SUCCEEDED": 9, "FAILED": 2}
    assert chosen_attempts(table, is_marked, at_most=14).left_out == {}


@given(
    spans=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 15), st.sampled_from(["h1", "h2", None])), max_size=20)
)
def test_lanes_do_not_overlap_and_are_few(spans: list[tuple[int, int, str | None]]) -> None:
    table = pd.DataFrame(
        {
            "host": pd.Series([host for *_, host in spans], dtype=object),
            "start_lo_ms": [float(begin) for begin, *_ in spans],
            "end_hi_ms": [float(begin + length) for begin, length, _ in spans],
        }
    )
    lane = lanes(table).tolist()
    for n, (begin, length, host) in enumerate(spans):
        for m, (other, other_length, other_host) in enumerate(spans[:n]):
            if host == other_host and lane[n] == lane[m]:
                assert begin + length <= other or other + other_length <= begin
    for name in {host for *_, host in spans}:
        mine = [(begin, begin + length) for begin, length, host in spans if host == name]
        at_once = max(sum(begin <= t < end or begin == t == end for begin, end in mine) for t, _ in mine)
        assert max(lane[n] for n, (*_, host) in enumerate(spans) if host == name) < at_once


def test_fetches_by_source() -> None:
    """The slowest source first; rate over the time that its fetches took together."""
    pull = {"type": "DataPull", "attempt_id": "attempt_1_1_r_0_0"}
    rows = [
        {**pull, "source_host": "node1", "bytes": 100, "period_ms": 1_000, "t_lo_ms": T0_MS + 5_000},
        {**pull, "source_host": "node1", "bytes": 300, "period_ms": 3_000, "t_lo_ms": T0_MS + 9_000},
        {**pull, "source_host": "node2", "bytes": 50, "period_ms": 9_000, "t_lo_ms": T0_MS + 9_500},
        {**pull, "source_host": None, "bytes": 7, "period_ms": None, "t_lo_ms": T0_MS + 9_500},
    ]
    pulls = fetches(table_of(rows))
    assert (pulls["t_from_ms"] - T0_MS).tolist() == [4_000, 6_000, 500, 9_500]
    found = fetches_by_host(pulls)
    assert found["source_host"].tolist() == ["node2", "node1", ""]
    assert found["n_fetches"].sum() == 4
    assert found["bytes"].sum() == 457
    node1 = found.iloc[1]
    assert (node1["median_ms"], node1["longest_ms"], node1["bytes_per_s"]) == (2_000, 3_000, 100.0)
    assert np.isnan(found.iloc[2]["bytes_per_s"])
