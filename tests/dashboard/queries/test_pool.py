"""Queries in processes of their own: rows arrive, a run can be ended at any instant, only so many at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import AppError
from app.queries.messages import EndReason, QueryRequest, RunLimits, read_request
from dashboard.queries.pool import (
    PATIENCE_MS,
    SPARE_S,
    QueryPool,
    QueryRun,
    Snapshot,
    TooManyRunsError,
    memory_limit_bytes,
)

REQUEST = QueryRequest("PATTERN", {}, 0, 1)
LIMITS = RunLimits(max_events=10, timeout_ms=60_000)
WAIT_S = 600.0

PRELUDE = """
import json, os, signal, sys
def tell(**message):
    print(json.dumps(message), flush=True)
def row(i):
    tell(kind="row", key={}, first_lo_ms=i, last_hi_ms=i, bindings={}, n_bound={}, confidence=1.0, values={"i": i})
def end():
    tell(kind="end", reason="finished", n_events=3, n_rows=2, n_rejected=0, n_unfinished=0, n_late=0, capped=False,
         assumes_end=False, seconds=0.1)
given = json.loads(sys.stdin.readline())
"""
FINISHES = "tell(kind='progress', n_events=3, n_estimated=3, watermark_ms=9, n_rows=0); row(1); row(2); end()"
HANGS = "row(1); signal.pause()"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Ticking(Clock):
    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def pools() -> Iterator[list[QueryPool]]:
    """Whatever a test starts is ended."""
    made: list[QueryPool] = []
    yield made
    for pool in made:
        pool.stop_all()


def pool_of(pools: list[QueryPool], script: str, n_at_once: int = 2, clock: Clock | None = None) -> QueryPool:
    command = (sys.executable, "-c", f"{PRELUDE}\n{script}")
    pools.append(QueryPool(n_at_once, command, clock or Clock()))
    return pools[-1]


def over(run: QueryRun) -> Snapshot:
    assert run.wait(WAIT_S)
    return run.snapshot()


def with_rows(run: QueryRun) -> Snapshot:
    """Once a first row has come."""
    while not (snapshot := run.snapshot()).rows:
        assert not run.wait(0.01), run.snapshot()
    return snapshot


@pytest.mark.parametrize(
    "script", ["row(1); signal.pause()", "end()", "sys.exit(3)", "print('no message', flush=True)"]
)
def test_whoever_waits_for_rows_learns_of_the_first_or_of_the_end(pools: list[QueryPool], script: str) -> None:
    run = pool_of(pools, script).start(REQUEST, LIMITS)
    assert run.wait_for_rows(WAIT_S)
    assert run.is_over or run.snapshot().rows


def test_whoever_waits_for_rows_in_vain_goes_on(pools: list[QueryPool]) -> None:
    run = pool_of(pools, "signal.pause()").start(REQUEST, LIMITS)
    assert not run.wait_for_rows(0.01)
    run.stop()
    assert run.wait_for_rows(WAIT_S)


def test_rows_progress_and_end(pools: list[QueryPool]) -> None:
    snapshot = over(pool_of(pools, FINISHES).start(REQUEST, LIMITS))
    assert [row.values for row in snapshot.rows] == [{"i": 1}, {"i": 2}]
    assert snapshot.progress is not None
    assert snapshot.progress.watermark_ms == 9
    assert snapshot.end is not None
    assert snapshot.end.reason is EndReason.FINISHED
    assert (snapshot.failure, snapshot.is_stopped) == (None, False)


def test_when_the_first_row_came(pools: list[QueryPool]) -> None:
    """By a clock that is a second later whenever it is asked: at the begin, at the first row, at the end."""
    snapshot = over(pool_of(pools, FINISHES, clock=Ticking()).start(REQUEST, LIMITS))
    assert (snapshot.first_row_s, snapshot.seconds) == (1.0, 2.0)
    assert over(pool_of(pools, "end()").start(REQUEST, LIMITS)).first_row_s is None


def test_the_process_gets_the_request_and_its_limits(pools: list[QueryPool]) -> None:
    request = QueryRequest("a 'text'\nof two lines", {"factor": 3, "name": "x"}, -1, 5, "mine")
    snapshot = over(pool_of(pools, "tell(kind='failure', message=json.dumps(given))").start(request, LIMITS))
    assert snapshot.failure is not None
    assert read_request(snapshot.failure) == (request, LIMITS)


def test_rows_are_seen_while_it_runs_and_stay_after_stop(pools: list[QueryPool]) -> None:
    run = pool_of(pools, HANGS).start(REQUEST, LIMITS)
    assert not with_rows(run).is_over
    run.stop()
    snapshot = over(run)
    assert snapshot.is_stopped
    assert len(snapshot.rows) == 1
    assert (snapshot.end, snapshot.failure) == (None, None)


def test_stop_after_the_end_changes_nothing(pools: list[QueryPool]) -> None:
    run = pool_of(pools, FINISHES).start(REQUEST, LIMITS)
    over(run)
    run.stop()
    assert not run.snapshot().is_stopped


def test_only_so_many_at_once_and_a_place_is_free_again(pools: list[QueryPool]) -> None:
    pool = pool_of(pools, HANGS, n_at_once=1)
    first = pool.start(REQUEST, LIMITS)
    with pytest.raises(TooManyRunsError, match="1 queries run already"):
        pool.start(REQUEST, LIMITS)
    first.stop()
    over(first)
    assert pool.n_running == 0
    pool.start(REQUEST, LIMITS)


def test_a_run_that_nobody_watches_is_ended_when_it_is_overdue(pools: list[QueryPool]) -> None:
    clock = Clock()
    pool = pool_of(pools, HANGS, n_at_once=1, clock=clock)
    run = pool.start(REQUEST, LIMITS)
    with_rows(run)
    clock.now = (LIMITS.timeout_ms + PATIENCE_MS) / 1000 + 1
    assert pool.n_running in (0, 1)  # this look ends it
    snapshot = over(run)
    assert snapshot.end is not None
    assert snapshot.end.reason is EndReason.TIME_LIMIT
    assert snapshot.end.n_rows == 1


def test_a_process_ended_by_its_alarm_hit_the_time_limit(pools: list[QueryPool]) -> None:
    snapshot = over(pool_of(pools, "row(1); os.kill(os.getpid(), signal.SIGALRM)").start(REQUEST, LIMITS))
    assert snapshot.end is not None
    assert snapshot.end.reason is EndReason.TIME_LIMIT


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "memory"),
        ("sys.exit(3)", "exit code 3"),
        ("print('no json', flush=True)", "broke off"),
        ("tell(kind='odd')", "no message"),
        ("tell(kind='failure', message='the words')", "the words"),
    ],
)
def test_what_goes_wrong_is_told(pools: list[QueryPool], script: str, words: str) -> None:
    snapshot = over(pool_of(pools, script).start(REQUEST, LIMITS))
    assert snapshot.failure is not None
    assert words in snapshot.failure
    assert snapshot.end is None


def test_a_process_that_goes_before_it_reads(tmp_path: Path, pools: list[QueryPool]) -> None:
    pools.append(QueryPool(command=(sys.executable, "-c", "raise SystemExit(4)")))
    request = QueryRequest("x" * 2**20, {}, 0, 1)  # more than a pipe holds
    assert over(pools[-1].start(request, LIMITS)).failure is not None


def test_no_process_is_an_error_with_its_reason(pools: list[QueryPool]) -> None:
    pool = QueryPool(command=("/nonexistent/python",))
    with pytest.raises(AppError, match="no process could be started"):
        pool.start(REQUEST, LIMITS)
    assert pool.n_running == 0


def test_memory_limit_is_a_part_of_the_machine() -> None:
    assert 0 < memory_limit_bytes(2**30) <= 2**30
    assert memory_limit_bytes(2**60) < 2**60


def pid_of(run: QueryRun) -> int:
    return run._process.pid


def test_a_process_that_waits_takes_the_next_run(pools: list[QueryPool], tmp_path: Path) -> None:
    """One, however often it is asked for, and for one run."""
    pool = pool_of(pools, f"open({str(tmp_path)!r} + f'/{{os.getpid()}}', 'w').close(); {FINISHES}")
    pool.prepare()
    pool.prepare()
    waiting = pool._spare._waiting
    assert waiting is not None
    runs = [pool.start(REQUEST, LIMITS), pool.start(REQUEST, LIMITS)]
    assert [len(over(run).rows) for run in runs] == [2, 2]
    pids = {path.name for path in tmp_path.iterdir()}
    assert pids == {str(waiting.pid), str(pid_of(runs[1]))}


@pytest.mark.parametrize("why", ["too old", "gone"])
def test_one_that_waits_no_more_is_not_used(pools: list[QueryPool], why: str) -> None:
    clock = Clock()
    pool = pool_of(pools, FINISHES, clock=clock)
    pool.prepare()
    waiting = pool._spare._waiting
    assert waiting is not None
    if why == "gone":
        waiting.kill()
        waiting.wait(WAIT_S)
    else:
        clock.now += SPARE_S
    run = pool.start(REQUEST, LIMITS)
    assert pid_of(run) != waiting.pid
    assert len(over(run).rows) == 2
    assert waiting.returncode is not None


def test_one_that_waits_ends_with_all_others(pools: list[QueryPool]) -> None:
    pool = pool_of(pools, FINISHES)
    pool.prepare()
    waiting = pool._spare._waiting
    assert waiting is not None
    pool.stop_all()
    assert waiting.wait(WAIT_S) < 0


def test_a_process_that_cannot_be_started_beforehand_is_told_by_the_run() -> None:
    pool = QueryPool(command=("/nonexistent/python",))
    pool.prepare()
    with pytest.raises(AppError, match="no process could be started"):
        pool.start(REQUEST, LIMITS)
