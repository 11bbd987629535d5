"""The process as a whole: jobs that follow the sources, start and stop, health, what is asked of it."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event
from structlog.testing import capture_logs

from app.alerting.delivery import Down
from app.alerting.notifier import Notifier
from app.asked import Asked, Reload, Stop, asked_by_signals
from app.assembly import checked_queries, open_configured_store
from app.check import check_all
from app.clock import SetClock
from app.config import load_settings
from app.errors import AppError, StoreError
from app.outages import Outage
from app.process_figures import query_figures
from app.process_lock import only_process
from app.runner import Runner
from app.scheduling import DaemonThreads, PollJobs, StepThread, new_scheduler
from app.settings import Settings
from app.store import Store
from app.supervisor import SILENT_STEPS_MS, Supervisor, run
from engine import QueryStatistics
from tests.app.test_runner import write_settings

T0_MS = 1_000_000


def job_ids(jobs: PollJobs) -> dict[str, float | None]:
    """Job -> its interval in seconds; None: once."""
    found = jobs._scheduler.get_jobs()
    return {job.id: getattr(job.trigger, "interval_length", None) for job in found}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """One query, one source."""
    return write_settings(tmp_path)


@pytest.fixture
def opened(settings: Settings) -> Iterator[Store]:
    """Its store."""
    with open_configured_store(settings) as store:
        yield store


def supervised(settings: Settings, store: Store, clock: SetClock, folder: Path) -> tuple[Runner, Supervisor]:
    notifier = Notifier(store, {}, clock)
    runner = Runner(settings, checked_queries(settings), store, notifier, clock)
    asked = Asked()
    return runner, Supervisor(runner, notifier, clock, asked, lambda: check_all(folder / "config.yaml"))


def test_jobs_follow_the_sources(settings: Settings, opened: Store, tmp_path: Path) -> None:
    clock = SetClock(T0_MS)
    runner, _ = supervised(settings, opened, clock, tmp_path)
    jobs = PollJobs(new_scheduler(), runner.poll)
    jobs.follow(runner.live)
    assert job_ids(jobs) == {"poll-job_history": 0.1}
    (tmp_path / "logs").mkdir()
    (tmp_path / "config.yaml").write_text(
        "sources:\n"
        "  job_history: {enabled: true, directories: [history], interval: 7 s}\n"
        "  daemon_log: {enabled: true, directory: logs, interval: 9 s}\n"
        "store: {directory: store}\nweb: {port: 0}\n"
    )
    assert runner.reload(lambda: check_all(tmp_path / "config.yaml")).ok
    jobs.follow(runner.live)
    assert job_ids(jobs) == {"poll-job_history": 7.0, "poll-daemon_log": 9.0}
    last = {job.id: job for job in jobs._scheduler.get_jobs()}  # replaced ones go with the scheduler's start
    at_once = {name for name, job in last.items() if hasattr(job, "next_run_time")}
    assert at_once == {"poll-daemon_log"}  # the other one only has another interval
    write_settings(tmp_path)
    assert runner.reload(lambda: check_all(tmp_path / "config.yaml")).ok
    jobs.follow(runner.live)
    assert {name for name in job_ids(jobs) if name.startswith("poll")} == {"poll-job_history"}


def test_it_runs_until_it_is_told_to_stop(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    step = Runner.step

    class MovingClock(SetClock):
        """A millisecond on whenever it is looked at, by whichever thread."""

        n_asked = 0

        def now_ms(self) -> int:
            self.n_asked += 1
            return super().now_ms() + self.n_asked

    def step_and_stop(runner: Runner) -> None:
        step(runner)
        with open_configured_store(settings) as store:
            if store.checkpoint("live") is not None:
                asked.stop()

    monkeypatch.setattr(Runner, "step", step_and_stop)
    assert run(settings, MovingClock(T0_MS), asked, lambda: check_all(tmp_path / "config.yaml"))
    with open_configured_store(settings) as store:
        assert store.checkpoint("live") is not None


def test_it_gives_up_with_the_reason(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_runner: Runner) -> None:
        raise AppError("10 steps in a row failed")

    monkeypatch.setattr(Runner, "step", fail)
    with pytest.raises(AppError, match="10 steps in a row failed"):
        run(settings, SetClock(T0_MS), Asked(), lambda: check_all(tmp_path / "config.yaml"))


def test_a_store_that_is_not_there_at_the_start_is_an_error(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "store/clustercep.db").mkdir(parents=True)
    with pytest.raises(StoreError, match="cannot be opened"):
        run(settings, SetClock(T0_MS), Asked(), lambda: check_all(tmp_path / "config.yaml"))


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        write_settings(tmp_path)
        config = tmp_path / "config.yaml"
        config.write_text(config.read_text().replace("port: 0", f"port: {taken.getsockname()[1]}"))
        with pytest.raises(AppError, match=r"web\.port: .* taken"):
            run(load_settings(config, {}), SetClock(T0_MS), Asked(), lambda: check_all(config))
        with only_process(tmp_path / "store"):
            pass  # nothing of the failed start is left


def test_a_reload_is_done_between(settings: Settings, opened: Store, tmp_path: Path) -> None:
    _, supervisor = supervised(settings, opened, SetClock(T0_MS), tmp_path)
    seen: list[str] = []
    supervisor.reload = lambda: seen.append("reload")  # type: ignore[assignment,method-assign,return-value]
    supervisor._asked.reload()
    supervisor._asked.stop()
    supervisor.wait()
    assert seen == ["reload"]
    supervisor._asked.stop(AppError("no more"))
    with pytest.raises(AppError, match="no more"):
        supervisor.wait()


def test_health_and_readiness(
    settings: Settings, opened: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SetClock(T0_MS)
    runner, supervisor = supervised(settings, opened, clock, tmp_path)
    assert supervisor.healthy() == (False, "the scheduler does not run")
    supervisor._scheduler.start(paused=True)
    assert supervisor.healthy() == (False, "the thread of the steps has ended")
    hold = threading.Event()
    supervisor._steps = StepThread(lambda: hold.wait(30) is None)  # type: ignore[arg-type]
    supervisor._steps.start()
    assert supervisor.healthy()[0]
    clock.advance_to(T0_MS + 10 * SILENT_STEPS_MS)  # compiling takes long, and no restart would help
    assert supervisor.healthy()[0]
    ready, reason = supervisor.ready()
    assert not ready
    assert "compiled" in reason
    clock = SetClock(T0_MS)
    runner._clock = supervisor._clock = clock
    monkeypatch.setattr("engine.warm_kernels", lambda: None)
    supervisor.step()
    assert supervisor.ready()[0]
    clock.advance_to(T0_MS + SILENT_STEPS_MS)
    assert supervisor.healthy()[0]
    clock.advance_to(T0_MS + SILENT_STEPS_MS + 1)
    assert supervisor.healthy() == (False, "no step was tried for 60 s")
    runner.outage = Outage(T0_MS, "database is locked")
    assert supervisor.ready() == (False, "the store is out: database is locked")
    runner.outage = None
    assert supervisor.ready() == (False, "no step was stored for 60 s")
    runner.tried_ms = clock.now_ms()  # steps that are tried and fail: healthy, not ready
    assert supervisor.healthy()[0]
    assert not supervisor.ready()[0]
    runner.stepped_ms = clock.now_ms() - SILENT_STEPS_MS
    assert supervisor.ready() == (True, "steps are made and stored")
    supervisor._steps.interval_ms = SILENT_STEPS_MS
    runner.stepped_ms = clock.now_ms() - 3 * SILENT_STEPS_MS
    assert supervisor.ready()[0]
    runner.stepped_ms -= 1
    assert not supervisor.ready()[0]
    supervisor._steps.stop()
    hold.set()
    supervisor._scheduler.shutdown(wait=False)
    assert not supervisor.healthy()[0]


def test_health_asks_no_database(
    settings: Settings, opened: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that hangs would hold the endpoints' connections, one per question."""
    _, supervisor = supervised(settings, opened, SetClock(T0_MS), tmp_path)
    monkeypatch.setattr("engine.warm_kernels", lambda: None)
    supervisor.step()

    def hang(*_: object) -> None:
        raise AssertionError("the database was asked")

    event.listen(opened.engine, "do_connect", hang)
    event.listen(opened.engine, "checkout", hang)
    event.listen(opened.engine, "before_cursor_execute", hang)
    supervisor.healthy()
    assert supervisor.ready() == (True, "steps are made and stored")


def test_receivers_that_are_down_are_named_and_make_nothing_unready(
    settings: Settings, opened: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, supervisor = supervised(settings, opened, SetClock(T0_MS), tmp_path)
    monkeypatch.setattr("engine.warm_kernels", lambda: None)
    supervisor.step()
    monkeypatch.setattr(supervisor._notifier, "down", lambda: [Down("ops", 0, "answered 503", 1)])
    ready, text = supervisor.ready()
    assert ready
    assert text.splitlines() == [
        "steps are made and stored",
        "receiver ops has taken nothing since 1970-01-01T00:00:00.000Z: answered 503; 1 message waits",
    ]


def test_a_poll_that_hangs_does_not_hold_up_the_stop(settings: Settings, opened: Store, tmp_path: Path) -> None:
    runner, supervisor = supervised(settings, opened, SetClock(T0_MS), tmp_path)
    polling, release = threading.Event(), threading.Event()

    def hang(_name: str) -> None:
        polling.set()
        release.wait(30)

    supervisor._jobs._poll = hang
    supervisor.start()
    assert polling.wait(20)
    supervisor.stop()
    assert not release.is_set()
    number = runner.live.pipeline.number
    runner.step()
    assert runner.live.pipeline.number == number
    release.set()


def test_the_step_under_way_is_finished(settings: Settings, opened: Store, tmp_path: Path) -> None:
    runner, _ = supervised(settings, opened, SetClock(T0_MS), tmp_path)
    inside, release = threading.Event(), threading.Event()

    def boundary(reached: str) -> None:
        if reached == "commit":
            inside.set()
            release.wait(30)

    runner.live.pipeline.boundary = boundary
    thread = threading.Thread(target=runner.step)
    thread.start()
    assert inside.wait(20)
    assert not runner.stop(0.01)
    release.set()
    assert runner.stop(20)
    thread.join()
    assert runner.live.pipeline.number == 1


def test_a_step_that_hangs_is_not_waited_for_long(
    settings: Settings, opened: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.supervisor.STOP_TIMEOUT_S", 0.01)
    runner, supervisor = supervised(settings, opened, SetClock(T0_MS), tmp_path)
    inside, release = threading.Event(), threading.Event()

    def boundary(_reached: str) -> None:
        inside.set()
        release.wait(30)

    runner.live.pipeline.boundary = boundary
    supervisor.start()
    assert inside.wait(20)
    assert not supervisor.stop()
    release.set()
    assert runner.stop(20)


def test_calls_of_the_executor_tell_their_end() -> None:
    threads = DaemonThreads()
    assert threads.submit(lambda: 3).result(20) == 3
    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 // 0).result(20)
    threads.shutdown()
    with pytest.raises(RuntimeError):
        threads.submit(lambda: 3)


def test_signals_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    before = signal.getsignal(signal.SIGHUP)
    with asked_by_signals() as asked:
        for number in (signal.SIGHUP, signal.SIGTERM):
            signal.raise_signal(number)
        assert [asked.next(), asked.next()] == [Reload(), Stop()]
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert ended == [143, 130]
    assert signal.getsignal(signal.SIGHUP) is before


def test_a_step_follows_each_poll(settings: Settings, opened: Store, tmp_path: Path) -> None:
    """The thread's own interval is out of the way: only the poll can have made the step."""
    runner, supervisor = supervised(settings, opened, SetClock(T0_MS), tmp_path)
    stepped = threading.Event()
    supervisor._steps = StepThread(stepped.set)
    supervisor._steps.interval_ms = 3_600_000
    supervisor._steps.start()
    assert stepped.wait(20)
    stepped.clear()
    supervisor.poll("job_history")
    assert stepped.wait(20)
    supervisor._steps.stop()
    assert len(runner.live.pipeline.intake) == 1


def test_a_defect_beyond_all_boundaries_ends_the_process(settings: Settings, opened: Store, tmp_path: Path) -> None:
    runner, supervisor = supervised(settings, opened, SetClock(T0_MS), tmp_path)

    def fail() -> None:
        raise ZeroDivisionError("nobody expects it")

    runner.step = fail  # type: ignore[method-assign]
    with capture_logs() as lines:
        supervisor.step()
    assert [line["event"] for line in lines] == ["no more steps can be made"]
    with pytest.raises(AppError, match="ZeroDivisionError: nobody expects it"):
        supervisor.wait()


def test_the_store_knows_how_the_process_stands(settings: Settings, opened: Store, tmp_path: Path) -> None:
    clock = SetClock(T0_MS)
    runner, _ = supervised(settings, opened, clock, tmp_path)
    runner.poll("job_history")
    runner.step()
    clock.advance_to(T0_MS + 10_000)
    runner.reload_problems = ("config.yaml: wrong",)
    runner.step()
    row = opened.process_status()
    assert row is not None
    status = row.value
    assert status["pid"] == os.getpid()
    assert (status["started_ms"], status["loaded_ms"], status["stepped_ms"]) == (T0_MS, T0_MS, T0_MS + 10_000)
    assert (status["n_steps"], status["store_outages"]) == (2, 0)
    assert status["reload_problems"] == ["config.yaml: wrong"]
    assert 10_000_000 < status["memory_bytes"] < 100_000_000_000
    assert status["queries"]["pair"]["n_events"] == 0
    assert set(status["queues"]) == {"intake", "waiting", "recent", "outbox"}


def test_figures_of_queries_go_on_over_a_reload() -> None:
    counted = QueryStatistics(n_events=3, n_rows=1, n_kept=2, n_rejected=1, n_unfinished=4, seconds=0.5)
    first = query_figures({"pair": counted})
    assert query_figures({"pair": counted, "new": QueryStatistics()}, first) == {
        "pair": {"n_events": 6, "n_rows": 2, "n_kept": 2, "n_rejected": 2, "n_unfinished": 8, "seconds": 1.0},
        "new": {"n_events": 0, "n_rows": 0, "n_kept": 0, "n_rejected": 0, "n_unfinished": 0, "seconds": 0.0},
    }
