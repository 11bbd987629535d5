"""The scheduler's side: failures send everything back to the checkpoint; one process per store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import engine
from app.alerting.notifier import Notifier
from app.clock import SetClock
from app.commands.check import check_all
from app.config import load_settings
from app.errors import AppError
from app.live.assembly import checked_queries, open_configured_store
from app.process.lock import only_process
from app.process.runner import FAILURES_BEFORE_GIVING_UP, IDLE_STEP_S, Runner
from app.settings import Settings

QUERY = """
PATTERN SEQ(MapStart a, MapEnd b) WHERE skip_till_next_match { [task_id] } WITHIN 1 hour
RETURN a.task_id ALERT info '{task_id}'
"""


def write_settings(folder: Path, *, more: str = "") -> Settings:
    """A configuration with one query and an empty history folder as its source."""
    for name in ("queries", "history"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "queries/pair.cep").write_text(QUERY)
    (folder / "queries/RUNBOOK.md").write_text("# pair\nLook at it.\n")
    (folder / "config.yaml").write_text(
        "sources: {job_history: {enabled: true, directories: [history], interval: 100 ms}}\n"
        "store: {directory: store}\nweb: {port: 0}\n" + more
    )
    return load_settings(folder / "config.yaml", {})


def test_a_failing_step_goes_back_to_the_checkpoint(tmp_path: Path) -> None:
    settings, clock = write_settings(tmp_path), SetClock(1_000_000)
    with open_configured_store(settings) as store:
        runner = Runner(settings, checked_queries(settings), store, Notifier(store, {}, clock), clock)
        runner.poll("job_history")
        runner.step()
        before = runner.live

        def explode(_reached: str) -> None:
            raise ZeroDivisionError("a defect")

        before.pipeline.boundary = explode
        clock.advance_to(2_000_000)
        runner.poll("job_history")
        runner.step()
        assert runner.live is not before
        assert runner.live.pipeline.number == 1
        runner.poll("job_history")
        runner.step()
        assert runner.live.pipeline.number == 2
        assert {(p.source, p.kind): p.n_times for p in store.problems()} == {("pipeline", "ZeroDivisionError"): 1}


def test_it_gives_up_after_many_failures_in_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, clock = write_settings(tmp_path), SetClock(1_000_000)
    with open_configured_store(settings) as store:
        runner = Runner(settings, checked_queries(settings), store, Notifier(store, {}, clock), clock)

        def fail(_self: object, _now_ms: int) -> None:
            raise ZeroDivisionError("a defect")

        monkeypatch.setattr("app.live.pipeline.Pipeline.step", fail)
        for _ in range(FAILURES_BEFORE_GIVING_UP - 1):
            runner.step()
        with pytest.raises(AppError, match="steps in a row failed; the last: a defect"):
            runner.step()


def test_idle_steps_are_rare(tmp_path: Path) -> None:
    settings, clock = write_settings(tmp_path), SetClock(1_000_000)
    with open_configured_store(settings) as store:
        runner = Runner(
            settings,
            checked_queries(settings),
            store,
            Notifier(store, {}, clock),
            clock,
            monotonic=lambda: clock.now_ms() / 1000,
        )
        numbers = []
        for _ in range(3):
            runner.step()
            numbers.append(runner.live.pipeline.number)
            clock.advance_to(clock.now_ms() + round(500 * IDLE_STEP_S))
        assert numbers == [1, 1, 2]


def test_queries_run_in_as_many_threads_as_are_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []

    class Noticed(engine.Engine):
        def __init__(self, *arguments: Any, threads: int, **others: Any) -> None:
            super().__init__(*arguments, threads=threads, **others)
            given.append(threads)

    monkeypatch.setattr("engine.Engine", Noticed)
    settings, clock = write_settings(tmp_path, more="engine: {threads: 3}\n"), SetClock(1_000_000)
    with open_configured_store(settings) as store:
        Runner(settings, checked_queries(settings), store, Notifier(store, {}, clock), clock).step()
    assert set(given) == {3}


def test_a_latency_bound_is_held_by_the_live_engine_alone(tmp_path: Path) -> None:
    settings, clock = write_settings(tmp_path, more="engine: {latency_bound: 500 ms}\n"), SetClock(1_000_000)
    (tmp_path / "queries/denied.cep").write_text(
        "PATTERN SEQ(MapStart a, !MapEnd b, JobEnd c) WHERE skip_till_any_match { [job_id] } WITHIN 1 minute\n"
        "RETURN a.job_id ALERT info '{job_id}'\n"
    )
    (tmp_path / "queries/RUNBOOK.md").write_text("# pair\nLook at it.\n# denied\nLook.\n")
    report = check_all(tmp_path / "config.yaml")
    assert report.problems == ()
    assert [warning for warning in report.warnings if warning.startswith("engine.latency_bound")] == [
        "engine.latency_bound: nothing can be dropped of what these queries keep, which is a fixed cost under "
        "overload: denied"
    ]
    with open_configured_store(settings) as store:
        runner = Runner(settings, checked_queries(settings), store, Notifier(store, {}, clock), clock)
        runner.step()
        matcher = runner.live.pipeline.matcher
        assert isinstance(matcher, engine.Engine)
        assert matcher.overload is not None
        assert matcher.overload.detector.bound.latency_s == 0.5
        row = store.process_status()
        assert row is not None
        assert row.value["overload"]["bound_ms"] == 500
        assert row.value["overload"]["exempt"] == ["denied"]
    settings = write_settings(tmp_path / "unbounded")
    with open_configured_store(settings) as store:
        runner = Runner(settings, checked_queries(settings), store, Notifier(store, {}, clock), clock)
        assert isinstance(runner.live.pipeline.matcher, engine.Engine)
        assert runner.live.pipeline.matcher.overload is None


def test_two_processes_on_one_store_are_refused(tmp_path: Path) -> None:
    with only_process(tmp_path), pytest.raises(AppError, match="another clustercep runs"), only_process(tmp_path):
        pass
    with only_process(tmp_path):
        pass


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AppError, match=r"store\.directory"), only_process(tmp_path / "file" / "store"):
        pass


def test_retention_runs(tmp_path: Path) -> None:
    settings, clock = write_settings(tmp_path), SetClock(1_000_000)
    with open_configured_store(settings) as store:
        Runner(settings, checked_queries(settings), store, Notifier(store, {}, clock), clock).clean()
