"""Runs over the event store: cancelled as a Ctrl-C does, ended by force at last, none without a viewer."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from app.queries.messages import EndReason, HistoryLimits, QueryRequest, Tasks, read_history_request
from dashboard.queries import history_pool
from dashboard.queries.history_pool import HistoryPool, HistoryRun
from dashboard.queries.pool import TooManyRunsError
from tests.dashboard.queries.test_pool import FINISHES, HANGS, PRELUDE, Clock, over, with_rows
from tests.dashboard.query_fixtures import HOSTILE

REQUEST = QueryRequest("PATTERN", {}, None, None, "mine", {"other": HOSTILE}, {"other": {"x": 1}})
LIMITS = HistoryLimits(timeout_ms=60_000)

OBEYS = """
def end_as_asked(*_):
    tell(kind='note', text='asked to end')
    sys.exit(130)
signal.signal(signal.SIGINT, end_as_asked)
"""
DEAF = "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"


@pytest.fixture
def pools() -> Iterator[list[HistoryPool]]:
    """Whatever a test starts is ended."""
    made: list[HistoryPool] = []
    yield made
    for pool in made:
        for run in pool._runs:
            run._kill()


def started(pools: list[HistoryPool], script: str, clock: Clock | None = None) -> HistoryRun:
    pools.append(HistoryPool(1, (sys.executable, "-c", f"{PRELUDE}\n{script}"), clock or Clock()))
    return pools[-1].start(REQUEST, LIMITS)


def test_the_job_gets_the_request_with_open_ends(pools: list[HistoryPool]) -> None:
    snapshot = over(started(pools, "tell(kind='failure', message=json.dumps(given))"))
    assert snapshot.failure is not None
    assert read_history_request(snapshot.failure) == (REQUEST, LIMITS)


def test_tasks_and_notes(pools: list[HistoryPool]) -> None:
    told = "tell(kind='tasks', what='Counting', n_done=1, n_tasks=4); tell(kind='note', text='n')\n"
    snapshot = over(started(pools, told + FINISHES))
    assert snapshot.tasks == Tasks("Counting", 1, 4)
    assert snapshot.notes == ("n",)
    assert snapshot.end is not None


def test_cancelled_as_by_a_terminal_and_rows_stay(pools: list[HistoryPool]) -> None:
    run = started(pools, OBEYS + HANGS)
    with_rows(run)
    run.stop()
    snapshot = over(run)
    assert snapshot.is_stopped
    assert snapshot.notes == ("asked to end",)
    assert len(snapshot.rows) == 1


def test_what_does_not_obey_is_ended_with_its_children(
    pools: list[HistoryPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_pool, "CANCEL_S", 0.05)
    child = f"{DEAF}if os.fork() == 0:\n    while True:\n        signal.pause()\n"
    run = started(pools, child + HANGS)
    with_rows(run)
    run.stop()
    assert over(run).is_stopped  # its output is closed, which the child had inherited


def test_without_its_viewer_it_is_cancelled_unless_they_come_back(pools: list[HistoryPool]) -> None:
    run = started(pools, OBEYS + HANGS)
    with_rows(run)
    run.leave(3_600.0)
    run.stay()
    assert run._end_of_absence is None
    run.leave(0.0)
    assert over(run).is_stopped


def test_one_that_is_overdue_is_cancelled_though_nobody_looks(pools: list[HistoryPool]) -> None:
    clock = Clock()
    run = started(pools, OBEYS + HANGS, clock)
    with_rows(run)
    clock.now = (LIMITS.timeout_ms + HistoryRun.patience_ms) / 1000 + 1
    assert pools[-1].n_running in (0, 1)  # this look ends it
    snapshot = over(run)
    assert snapshot.end is not None
    assert snapshot.end.reason is EndReason.TIME_LIMIT


def test_its_input_ends_when_what_it_says_makes_no_sense(pools: list[HistoryPool]) -> None:
    run = started(pools, "print('no json', flush=True); sys.stdin.read()")
    snapshot = over(run)
    assert snapshot.failure is not None
    assert "broke off" in snapshot.failure


def test_one_at_a_time_with_the_reason(pools: list[HistoryPool]) -> None:
    run = started(pools, OBEYS + HANGS)
    with_rows(run)
    with pytest.raises(TooManyRunsError, match=r"1 query runs over the history already.*dashboard.history_queries"):
        pools[-1].start(REQUEST, LIMITS)
