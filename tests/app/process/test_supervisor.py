"""The process as a whole: jobs that follow the sources, start and stop, health, what is asked of it."""

from __future__ import annotations

import os
import queue
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
from app.clock import SetClock
from app.commands.check import check_all
from app.config import load_settings
from app.errors import AppError, StoreError
from app.live.assembly import checked_queries, open_configured_store
from app.process.control_requests import ControlRequests, Reload, Stop, requests_from_signals
from app.process.figures import query_figures
from app.process.lock import only_process
from app.process.outages import Outage
from app.process.runner import Runner
from app.process.scheduling import SILENT_POLLS, PollJobs, Repeated, StepThread
from app.process.supervisor import SILENT_STEPS_S, Supervisor, run
from app.settings import Settings
from app.store import Store
from engine import QueryStatistics
from engine.events import EventBatch
from tests.app.process.test_runner import write_settings

T0_MS = 1_000_000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """One query, one source."""
    return write_settings(tmp_path)


@pytest.fixture
def opened(settings: Settings) -> Iterator[Store]:
    """Its store."""
    with open_configured_store(settings) as store:
        yield store


_MADE: list[Supervisor] = []


@pytest.fixture(autouse=True)
def _supervisors_end_with_their_test() -> Iterator[None]:
    """However it ends: what they log is of no other test."""
    yield
    while _MADE:
        supervisor = _MADE.pop()
        supervisor._jobs.stop()
        supervisor._steps.stop()


def supervised(settings: Settings, store: Store, clock: SetClock, folder: Path) -> tuple[Runner, Supervisor]:
    notifier = Notifier(store, {}, clock)
    runner = Runner(
        settings, checked_queries(settings), store, notifier, clock, monotonic=lambda: clock.now_ms() / 1000
    )
    supervisor = Supervisor(runner, notifier, ControlRequests(), lambda: check_all(folder / "config.yaml"))
    _MADE.append(supervisor)
    return runner, supervisor


def test_jobs_follow_the_sources(settings: Settings, opened: Store, tmp_path: Path) -> None:
    clock = SetClock(T0_MS)
    runner, _ = supervised(settings, opened, clock, tmp_path)
    polled: queue.Queue[str] = queue.Queue()
    jobs = PollJobs(polled.put)
    jobs.follow(runner.live)
    assert jobs.intervals_ms == {"job_history": 100}
    assert polled.empty()
    jobs.start()
    assert [polled.get(timeout=120), polled.get(timeout=120)] == ["job_history"] * 2
    (tmp_path / "logs").mkdir()
    (tmp_path / "config.yaml").write_text(
        "sources:\n"
        "  job_history: {enabled: true, directories: [history], interval: 7 h}\n"
        "  daemon_log: {enabled: true, directory: logs, interval: 9 h}\n"
        "store: {directory: store}\nweb: {port: 0}\n"
    )
    assert runner.reload(lambda: check_all(tmp_path / "config.yaml")).ok
    jobs.follow(runner.live)
    assert jobs.intervals_ms == {"job_history": 7 * 3_600_000, "daemon_log": 9 * 3_600_000}
    while polled.get(timeout=120) != "daemon_log":
        pass  # it is polled at once; the other one only has another interval
    write_settings(tmp_path)
    assert runner.reload(lambda: check_all(tmp_path / "config.yaml")).ok
    jobs.follow(runner.live)
    assert jobs.intervals_ms == {"job_history": 100}
    assert polled.get(timeout=120) == "job_history"
    jobs.stop()
    assert not jobs.alive


def test_a_call_that_fails_is_made_again_and_none_after_the_end() -> None:
    calls: queue.Queue[int] = queue.Queue()

    def fail() -> None:
        calls.put(1)
        raise ZeroDivisionError("a defect")

    with capture_logs() as lines:
        repeated = Repeated("poll", fail, 0.001, at_once=False)
        repeated.start()
        for _ in range(3):
            calls.get(timeout=120)
        repeated.stop()
        repeated._thread.join(120)
    assert not repeated.alive
    assert {line["event"] for line in lines} == {"a call failed; it is made again after its interval"}


def test_it_is_not_ready_when_no_source_was_polled_for_three_intervals(
    settings: Settings, opened: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SetClock(T0_MS)
    _, supervisor = supervised(settings, opened, clock, tmp_path)
    monkeypatch.setattr("engine.warm_kernels", lambda: None)
    supervisor.step()
    clock.advance_to(T0_MS + SILENT_POLLS * 100)
    assert supervisor.ready()[0]
    clock.advance_to(T0_MS + SILENT_POLLS * 100 + 2_000)
    assert supervisor.ready() == (False, "no source was polled for 2 s; the last one was job_history")
    supervisor._jobs._polled("job_history")
    assert supervisor.ready()[0]


def test_it_runs_until_it_is_told_to_stop(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ControlRequests()
    step = Runner.step

    class MovingClock(SetClock):
        """A millisecond on whenever it is looked at, by whichever thread."""

        n_requested = 0

        def now_ms(self) -> int:
            self.n_requested += 1
            return super().now_ms() + self.n_requested

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
        run(settings, SetClock(T0_MS), ControlRequests(), lambda: check_all(tmp_path / "config.yaml"))


def test_a_store_that_is_not_there_at_the_start_is_an_error(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "store/clustercep.db").mkdir(parents=True)
    with pytest.raises(StoreError, match="cannot be opened"):
        run(settings, SetClock(T0_MS), ControlRequests(), lambda: check_all(tmp_path / "config.yaml"))


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        write_settings(tmp_path)
        config = tmp_path / "config.yaml"
        config.write_text(config.read_text().replace("port: 0", f"port: {taken.getsockname()[1]}"))
        with pytest.raises(AppError, match=r"web\.port: .* taken"):
            run(load_settings(config, {}), SetClock(T0_MS), ControlRequests(), lambda: check_all(config))
        with only_process(tmp_path / "store"):
            pass  # nothing of the failed start is left


def test_a_reload_is_done_between(settings: Settings, opened: Store, tmp_path: Path) -> None:
    _, supervisor = supervised(settings, opened, SetClock(T0_MS), tmp_path)
    seen: list[str] = []
    supervisor.reload = lambda: seen.append("reload")  # type: ignore[assignment,method-assign,return-value]
    supervisor._requests.reload()
    supervisor._requests.stop()
    supervisor.wait()
    assert seen == ["reload"]
    supervisor._requests.stop(AppError("no more"))
    with pytest.raises(AppError, match="no more"):
        supervisor.wait()


def test_health_and_readiness(
    settings: Settings, opened: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SetClock(T0_MS)
    runner, supervisor = supervised(settings, opened, clock, tmp_path)
    assert supervisor.healthy() == (False, "the sources are not polled")
    supervisor._jobs = PollJobs(lambda _name: None)
    supervisor._jobs.start()
    assert supervisor.healthy() == (False, "the thread of the steps has ended")
    hold = threading.Event()
    supervisor._steps = StepThread(lambda: hold.wait(240) is None)  # type: ignore[arg-type]
    supervisor._steps.start()
    assert supervisor.healthy()[0]
    after = T0_MS + round(10_000 * SILENT_STEPS_S)
    clock.advance_to(after)  # compiling takes long, and no restart would help
    assert supervisor.healthy()[0]
    ready, reason = supervisor.ready()
    assert not ready
    assert "compiled" in reason
    monkeypatch.setattr("engine.warm_kernels", lambda: None)
    supervisor.step()
    supervisor._jobs = PollJobs(lambda _name: None)  # nothing is polled: steps alone are looked at
    supervisor._jobs.start()
    assert supervisor.ready()[0]
    clock.advance_to(after + 60_000)
    assert supervisor.healthy()[0]
    clock.advance_to(after + 61_000)
    assert supervisor.healthy() == (False, "no step was tried for 61 s")
    runner.outage = Outage(T0_MS, "database is locked")
    assert supervisor.ready() == (False, "the store is out: database is locked")
    runner.outage = None
    assert supervisor.ready() == (False, "no step was stored for 61 s")
    runner.tried_s = runner.monotonic()  # steps that are tried and fail: healthy, not ready
    assert supervisor.healthy()[0]
    assert not supervisor.ready()[0]
    runner.stepped_s = runner.monotonic() - SILENT_STEPS_S
    assert supervisor.ready() == (True, "steps are made and stored")
    supervisor._steps.interval_ms = round(1000 * SILENT_STEPS_S)
    runner.stepped_s = runner.monotonic() - 3 * SILENT_STEPS_S
    assert supervisor.ready()[0]
    runner.stepped_s -= 1
    assert not supervisor.ready()[0]
    supervisor._steps.stop()
    hold.set()
    supervisor._jobs.stop()
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
        release.wait(240)

    supervisor._jobs._poll = hang
    supervisor.start()
    assert polling.wait(120)
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
            release.wait(240)

    runner.live.pipeline.boundary = boundary
    thread = threading.Thread(target=runner.step)
    thread.start()
    assert inside.wait(120)
    assert not runner.stop(0.01)
    release.set()
    assert runner.stop(120)
    thread.join()
    assert runner.live.pipeline.number == 1


def test_a_step_that_hangs_is_not_waited_for_long(
    settings: Settings, opened: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.process.supervisor.STOP_TIMEOUT_S", 0.01)
    runner, supervisor = supervised(settings, opened, SetClock(T0_MS), tmp_path)
    inside, release = threading.Event(), threading.Event()

    def boundary(_reached: str) -> None:
        inside.set()
        release.wait(240)

    runner.live.pipeline.boundary = boundary
    supervisor._compiled = True  # what is not loaded by now is loaded when it is needed
    supervisor.start()
    assert inside.wait(120)
    assert not supervisor.stop()
    release.set()
    assert runner.stop(120)


def test_signals_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    before = signal.getsignal(signal.SIGHUP)
    with requests_from_signals() as asked:
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
    assert stepped.wait(120)
    stepped.clear()
    supervisor.poll("job_history")
    assert stepped.wait(120)
    supervisor._steps.stop()
    assert len(runner.live.pipeline.intake) == 1


def test_a_defect_beyond_all_boundaries_ends_the_process(settings: Settings, opened: Store, tmp_path: Path) -> None:
    runner, supervisor = supervised(settings, opened, SetClock(T0_MS), tmp_path)

    def fail() -> None:
        raise ZeroDivisionError("nobody expects it")

    runner.step = fail  # type: ignore[method-assign]
    with capture_logs() as lines:
        supervisor.step()
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["no more steps can be made"]
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


def test_a_long_step_is_healthy_while_its_parts_end_and_one_that_hangs_is_not(
    settings: Settings, opened: Store, tmp_path: Path
) -> None:
    clock = SetClock(T0_MS)
    runner, supervisor = supervised(settings, opened, clock, tmp_path)
    hold = threading.Event()
    supervisor._steps = StepThread(lambda: hold.wait(240) is None)  # type: ignore[arg-type]
    supervisor._jobs = PollJobs(lambda _name: None)
    supervisor._compiled = True
    supervisor._steps.start()
    supervisor._jobs.start()
    told: dict[str, tuple[bool, str]] = {}

    def boundary(reached: str) -> None:
        clock.advance_to(clock.now_ms() + (61_000 if reached == "notify" else 50_000))
        told[reached] = supervisor.healthy()

    runner.live.pipeline.boundary = boundary
    runner.poll("job_history")
    runner.step()
    hold.set()
    supervisor._steps.stop()
    assert told.pop("notify") == (False, "no step was tried for 61 s")
    assert set(told.values()) == {(True, "steps are made")}
    assert len(told) > 5


def test_each_query_is_a_part_of_a_step(settings: Settings, opened: Store, tmp_path: Path) -> None:
    clock = SetClock(T0_MS)
    runner, _ = supervised(settings, opened, clock, tmp_path)
    clock.advance_to(T0_MS + 50_000)
    runner.live.pipeline.matcher.process(EventBatch.empty(), T0_MS)
    assert runner.tried_s == runner.monotonic()
