"""engine.latency_bound in the live path, on a simulated clock: held, told, marked, and kept over a restart."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

import engine
from app.alerting.dispatch.notice import group_payload, lone
from app.alerting.recording.kept import is_shed
from app.alerting.snapshots import snapshot_of
from app.live.overload import LatencyBound, ReleaseTimes
from app.shedding.losses import overload_figures
from app.store import Store
from app.store.api import AlertFilter
from app.store.models import AlertRow
from engine.events import Float64Array
from engine.runtime.shedding.run_watch import Sampling
from tests.app.pipeline_fixtures import SCHEMA, Process, Script, event, start

SLOW = """PATTERN SEQ(MapStart a, MapEnd b, MapEnd c)
WHERE skip_till_next_match { b.host = a.host AND c.host = a.host }
WITHIN 300 ms RETURN a.task_id, c.timestamp - a.timestamp AS period_ms ALERT warning 'x'"""
TIMES = "PATTERN MapEnd a WHERE skip_till_any_match WITHIN 5 ms RETURN a.task_id, 1 AS period_ms REPORT 'x'"
BOUND_MS = 200
N_HOSTS = 40


@dataclass
class WorkClock:
    """Seconds that passed on the cluster, and that the engine's work took: 0.05 ms an event, 0.4 ms an offer."""

    idle_s: float = 0.0
    engine: engine.Engine | None = None

    @property
    def worked_s(self) -> float:
        if self.engine is None:
            return 0.0
        n_events = sum(found.n_events for found in self.engine.statistics.values())
        n_offers = sum(getattr(runtime, "n_offered", 0) for runtime in self.engine._runtimes.values())
        return 5e-5 * n_events + 4e-4 * n_offers

    def __call__(self) -> float:
        return self.idle_s + self.worked_s

    def until(self, now_s: float) -> None:
        """Nothing to do until then."""
        self.idle_s += max(0.0, now_s - self())


@pytest.fixture(autouse=True)
def learns_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.runtime.shedding.run_shedder.Sampling", partial(Sampling, first_every=2, n_again=100))


def stream(n: int, seed: int) -> list[tuple[int, dict[str, Any]]]:
    """One event a millisecond: starts and ends on hosts."""
    random = np.random.default_rng(seed)
    hosts, ends = random.integers(0, N_HOSTS, n), random.random(n) < 0.3
    return [
        (t, event(f"e{t}", t, "MapEnd" if ends[t] else "MapStart", host=f"h{hosts[t]}", task_id=f"t{t}"))
        for t in range(n)
    ]


def matcher_of(bound: LatencyBound | None, clock: WorkClock) -> engine.Engine:
    queries = [engine.compile_query(text, SCHEMA, name=name) for name, text in (("slow", SLOW), ("times", TIMES))]
    limits = engine.Limits(merge_runs=False)
    clock.engine = engine.Engine(queries, SCHEMA, limits=limits, overload=None if bound is None else bound.control)
    return clock.engine


def run(
    store: Store, folder: Path, rows: Sequence[tuple[int, dict[str, Any]]], bound_ms: int | None, *, speed: float
) -> tuple[Process, WorkClock]:
    """The stream, `speed` times as fast as it happened, polled every 20 ms of it."""
    clock = WorkClock()
    bound = None if bound_ms is None else LatencyBound(bound_ms, ReleaseTimes(clock))
    process = start(
        store, folder, [Script("yarn_rest", rows)], matcher=matcher_of(bound, clock), bound=bound, timeout_ms=10**9
    )
    go_on(process, clock, rows[0][0], rows[-1][0] + 20, speed)
    return process, clock


def go_on(process: Process, clock: WorkClock, from_ms: int, to_ms: int, speed: float) -> None:
    """Poll when it is due, also while the machine is at work, and step."""
    begun_s = clock() - from_ms / 1000 / speed
    due = deque((begun_s + now_ms / 1000 / speed, now_ms) for now_ms in range(from_ms, to_ms + 1, 20))
    queue = process.pipeline.intake
    while due:
        clock.until(due[0][0])
        now_ms = from_ms
        while due and due[0][0] <= clock():
            at_s, now_ms = due.popleft()
            for source in process.sources.values():
                queue.put(source.poll(now_ms))
                queue._items[-1] = replace(queue._items[-1], arrived_s=at_s)
        process.pipeline.step(now_ms)
    while process.pipeline.is_behind:
        process.pipeline.step(to_ms)


def alerts_of(store: Store) -> list[AlertRow]:
    return [alert for alert in store.alerts(AlertFilter(limit=1_000)) if alert.merged_into is None]


def test_under_overload_the_bound_holds_and_what_it_costs_is_told(store: Store, tmp_path: Path) -> None:
    with capture_logs() as logs:
        process, _ = run(store, tmp_path / "a", stream(6_000, 1), BOUND_MS, speed=1.4)
    figures = overload_figures(process.pipeline.matcher)
    assert figures is not None
    assert figures["n_shed_steps"] > 0
    assert figures["longest_ms"] <= BOUND_MS
    assert figures["exempt"] == []
    assert set(figures["queries"]) == {"slow"}
    assert figures["queries"]["slow"]["n_partial_matches"] > 100
    assert figures["queries"]["slow"]["expected_matches"] > 10
    row = store.process_status()
    assert row is not None
    assert row.value["overload"] == figures
    lines = [line for line in logs if line["event"].startswith("load is shed")]
    assert lines[0]["query"] == "slow"
    assert lines[0]["bound_ms"] == BOUND_MS
    [problem] = [problem for problem in store.problems(100) if problem.kind == "load_shed"]
    assert (problem.source, problem.place) == ("engine", "query slow")
    marked = [alert for alert in alerts_of(store) if is_shed(alert)]
    assert marked
    assert not any(alert.n_matches_exact for alert in marked)
    payload = group_payload(lone(snapshot_of(marked[0])), "ops", "http://x")["alerts"][0]["annotations"]
    assert payload["shedding"].startswith("found while load was shed")
    assert payload["matches"].startswith("at least ")


def test_without_overload_nothing_is_dropped_or_marked(store: Store, tmp_path: Path) -> None:
    """A bound that is never reached changes neither matches nor what alerts tell."""
    rows = stream(1_500, 2)
    process, _ = run(store, tmp_path / "a", rows, 10**6, speed=0.2)
    figures = overload_figures(process.pipeline.matcher)
    assert figures is not None
    assert figures["n_shed_steps"] == 0
    bounded = alerts_of(store)
    assert bounded
    clock = WorkClock()
    plain = matcher_of(None, clock).process(_whole(rows), rows[-1][0] + 1)
    assert sum(alert.n_matches for alert in bounded) == sum(row.count for row in plain if row.query == "slow")
    for alert in bounded:
        assert not is_shed(alert)
        assert alert.n_matches_exact
        assert "shed" not in alert.seen
    assert not [problem for problem in store.problems(100) if problem.kind == "load_shed"]


def _whole(rows: Sequence[tuple[int, dict[str, Any]]]) -> engine.events.EventBatch:
    return engine.events.EventBatch.from_rows([row for _, row in rows], SCHEMA)


def test_a_restart_goes_on_with_what_was_learned_and_lost(store: Store, tmp_path: Path) -> None:
    rows = stream(6_000, 3)
    process, clock = run(store, tmp_path / "a", rows[:4_000], BOUND_MS, speed=1.4)
    before = process.pipeline.matcher
    assert isinstance(before, engine.Engine)
    assert before.overload is not None
    lost = before.overload.shedder.loss["slow"]
    assert lost.n_runs > 0
    clock_again = WorkClock(idle_s=clock())
    bound = LatencyBound(BOUND_MS, ReleaseTimes(clock_again))
    again = start(
        store,
        tmp_path / "a",
        [Script("yarn_rest", rows)],
        matcher=matcher_of(bound, clock_again),
        bound=bound,
        timeout_ms=10**9,
    )
    matcher = again.pipeline.matcher
    assert isinstance(matcher, engine.Engine)
    assert matcher.overload is not None
    assert matcher.overload.shedder.loss["slow"] == lost
    assert bound.tell(matcher) == [], "what was dropped before the restart was told before it"
    matcher.overload.shedder.attach(matcher._runtimes)
    learned = [(name, model.text()) for name, model in before.overload.shedder.models()]
    assert learned
    assert [(name, model.text()) for name, model in matcher.overload.shedder.models()] == learned
    go_on(again, clock_again, 4_020, 5_999, speed=1.4)
    figures = overload_figures(matcher)
    assert figures is not None
    assert figures["longest_ms"] <= BOUND_MS
    assert figures["queries"]["slow"]["n_partial_matches"] > lost.n_partial_matches


def test_a_bound_that_cannot_be_met_is_said_with_what_can(store: Store, tmp_path: Path) -> None:
    with capture_logs() as logs:
        process, _ = run(store, tmp_path / "a", stream(3_000, 4), 20, speed=30.0)
    figures = overload_figures(process.pipeline.matcher)
    assert figures is not None
    assert figures["achievable_ms"] > 20
    [line] = [line for line in logs if "cannot be met" in line["event"]]
    assert line["bound_ms"] == 20
    assert line["achievable_ms"] > 20


@pytest.mark.parametrize("times_ms", [[], [5], [0, 9, 10, 11, 29, 30, 99]])
def test_an_event_is_released_when_the_watermark_first_comes_past_it(times_ms: list[int]) -> None:
    now = iter(range(100, 200))
    times = ReleaseTimes(lambda: float(next(now)))
    for watermark_ms, at_s in ((10, 1.0), (10, 2.0), (5, 2.5), (30, 3.0)):
        times.passed(watermark_ms, at_s)
    found = times.of(np.array(times_ms, np.int64))
    expected: Float64Array = np.array([1.0 if t < 10 else 3.0 if t < 30 else 100.0 for t in times_ms])
    assert found == expected.tolist()
    times.go_back()
    assert times.of(np.array([1], np.int64)) == [101.0]
