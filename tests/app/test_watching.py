"""Whether silence is calm: a store that is written now, was written once, or was filled from a recording."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from app.store import Store
from app.store.status import SourceStatus
from app.watching import Watch, unknown_text, watched

NOW_MS = 1_795_178_714_919
DAY_MS = 86_400_000


def source(name: str, succeeded_ms: int | None, interval_ms: int = 15_000) -> SourceStatus:
    return SourceStatus(name, interval_ms, None, succeeded_ms, succeeded_ms, 0, None, False)


def written(store: Store, at_ms: int, sources: Sequence[SourceStatus] = (), started_ms: int = 0) -> None:
    with store.transaction() as writer:
        writer.progress.put_process_status({"started_ms": started_ms}, at_ms)
        writer.progress.put_source_status(sources)


def told(store: Store) -> tuple[Watch, str | None]:
    watch = watched(store, NOW_MS)
    return watch, unknown_text(watch, str)


def test_a_process_that_writes_and_polls_knows_the_state(store: Store) -> None:
    written(store, NOW_MS - 5_000, [source("yarn_rest", NOW_MS - 20_000), source("job_history", NOW_MS - 5_000)])
    watch, text = told(store)
    assert (watch.is_alive, watch.is_known, watch.as_of_ms, text) == (True, True, NOW_MS, None)


def test_a_store_that_was_written_a_day_ago_is_no_calm(store: Store) -> None:
    written(
        store,
        NOW_MS - DAY_MS,
        [source(name, NOW_MS - DAY_MS - 1) for name in ("yarn_rest", "rrd")] + [source("job_history", None)],
    )
    watch, text = told(store)
    assert (watch.is_alive, watch.is_known, watch.as_of_ms) == (False, False, NOW_MS - DAY_MS)
    assert text == (
        f"State unknown since {NOW_MS - DAY_MS}: clustercep run has written nothing since then. "
        f"Not polled: job_history ever; rrd, yarn_rest since {NOW_MS - DAY_MS - 1}."
    )


def test_nothing_is_known_before_the_first_step(store: Store) -> None:
    watch, text = told(store)
    assert (watch.is_known, watch.as_of_ms) == (False, None)
    assert text is not None
    assert "Start clustercep run" in text


@pytest.mark.parametrize(
    ("interval_ms", "age_ms", "known"),
    [(15_000, 60_000, True), (15_000, 60_001, False), (60_000, 240_000, True), (60_000, 240_001, False)],
)
def test_a_source_is_given_some_of_its_intervals(store: Store, interval_ms: int, age_ms: int, known: bool) -> None:
    written(store, NOW_MS, [source("yarn_rest", NOW_MS - age_ms, interval_ms)])
    watch, text = told(store)
    assert watch.is_known is known
    assert (text is None) is known
    assert known or str(NOW_MS - age_ms) in str(text)


def test_a_source_that_was_never_polled_is_given_the_time_since_the_start(store: Store) -> None:
    for started_ms, known in ((NOW_MS - 10_000, True), (NOW_MS - 70_000, False)):
        written(store, NOW_MS, [source("yarn_rest", None)], started_ms)
        assert told(store)[0].is_known is known


def test_the_store_of_a_recording_speaks_of_its_time_until_a_process_goes_on_with_it(store: Store) -> None:
    ended_ms = NOW_MS - 30 * DAY_MS
    written(store, ended_ms, [source("yarn_rest", ended_ms)])
    with store.transaction() as writer:
        writer.progress.put_replay_status({"started_ms": 0, "ended_ms": ended_ms}, ended_ms + 15_000)
    watch, text = told(store)
    assert (watch.is_replay, watch.is_alive, watch.as_of_ms, text) == (True, False, ended_ms, None)
    written(store, NOW_MS - 1, [source("yarn_rest", NOW_MS - 1)])
    watch, text = told(store)
    assert (watch.is_replay, watch.is_alive, watch.as_of_ms, text) == (False, True, NOW_MS, None)
