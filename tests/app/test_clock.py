"""The time that the process goes by, while somebody sets the machine's clock: a second reading of what is promised."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.alerting.notifier import Notifier
from app.clock import JUMP_MS, LEAST_HOLD_MS, SteadyClock
from app.live.assembly import checked_queries, open_configured_store
from app.process.runner import Runner
from app.process.scheduling import Repeated
from app.settings import Settings
from app.store import Store
from tests.app.process.test_runner import write_settings

T0_MS = 1_700_000_000_000
DAY_MS = 86_400_000
HOUR_MS = 3_600_000


class Machine:
    """A machine whose clock can be set: `true_ms` goes on by itself, what the clock shows is `off_ms` beside it."""

    def __init__(self) -> None:
        self.true_ms = T0_MS
        self.off_ms = 0

    def now_ms(self) -> int:
        """What its clock shows."""
        return self.true_ms + self.off_ms

    def elapsed(self) -> int:
        """Since it was started, whatever its clock shows."""
        return self.true_ms - T0_MS + 12_345

    def steady(self) -> SteadyClock:
        """A clock of a process that starts now."""
        return SteadyClock(self, self.elapsed)


def seen(clock: SteadyClock) -> list[tuple[int, bool]]:
    return [(jump.by_ms, jump.is_believed) for jump in clock.take_jumps()]


@pytest.mark.parametrize("by_ms", [DAY_MS, -DAY_MS, HOUR_MS, -HOUR_MS])
def test_a_short_jump_does_no_harm_and_is_told(by_ms: int) -> None:
    machine = Machine()
    clock = machine.steady()
    for second in range(20):
        machine.true_ms += 1_000
        machine.off_ms = by_ms if 5 <= second < 9 else 0
        assert clock.now_ms() == machine.true_ms
    assert seen(clock) == [(by_ms, False)]


@pytest.mark.parametrize("by_ms", [DAY_MS, -DAY_MS, HOUR_MS, -HOUR_MS])
def test_a_jump_that_lasts_is_believed_after_its_time(by_ms: int) -> None:
    machine = Machine()
    clock = machine.steady()
    machine.off_ms = by_ms
    assert clock.now_ms() == machine.true_ms
    machine.true_ms += LEAST_HOLD_MS - 1
    assert clock.now_ms() == machine.true_ms
    machine.true_ms += 1
    assert clock.now_ms() == machine.true_ms + by_ms
    assert seen(clock) == [(by_ms, False), (by_ms, True)]
    machine.true_ms += DAY_MS
    assert clock.now_ms() == machine.true_ms + by_ms
    assert seen(clock) == []


def test_another_jump_begins_anew() -> None:
    machine = Machine()
    clock = machine.steady()
    machine.off_ms = DAY_MS
    clock.now_ms()
    machine.true_ms += LEAST_HOLD_MS - 1
    machine.off_ms = HOUR_MS
    assert clock.now_ms() == machine.true_ms
    machine.true_ms += LEAST_HOLD_MS - 1
    assert clock.now_ms() == machine.true_ms
    machine.true_ms += 1
    assert clock.now_ms() == machine.now_ms()
    assert seen(clock) == [(DAY_MS, False), (HOUR_MS, False), (HOUR_MS, True)]


@pytest.mark.parametrize("by_ms", [DAY_MS, -DAY_MS, HOUR_MS, -HOUR_MS])
def test_a_jump_that_was_believed_and_is_undone_is_a_correction(by_ms: int) -> None:
    machine = Machine()
    clock = machine.steady()
    machine.true_ms += HOUR_MS
    clock.now_ms()
    machine.off_ms = by_ms
    clock.now_ms()
    machine.true_ms += LEAST_HOLD_MS
    assert clock.now_ms() == machine.now_ms()
    machine.true_ms += 600_000
    machine.off_ms = 800  # somebody has set the clock right, and nobody knows it to the millisecond
    assert clock.now_ms() == machine.now_ms()
    assert seen(clock) == [(by_ms, False), (by_ms, True), (800 - by_ms, False), (800 - by_ms, True)]


def test_a_jump_back_to_what_held_for_less_time_has_to_last() -> None:
    """The clock was wrong when the process began, and was set right soon; later it jumps to the wrong time again."""
    machine = Machine()
    machine.off_ms = DAY_MS
    clock = machine.steady()
    machine.true_ms += 60_000
    machine.off_ms = 0
    clock.now_ms()
    machine.true_ms += LEAST_HOLD_MS
    assert clock.now_ms() == machine.true_ms
    machine.true_ms += HOUR_MS
    clock.now_ms()
    machine.off_ms = DAY_MS
    assert clock.now_ms() == machine.true_ms


def test_a_slow_correction_is_followed_and_a_suspended_machine_is_no_jump() -> None:
    machine = Machine()
    clock = machine.steady()
    for _ in range(1_000):
        machine.true_ms += 1_000
        machine.off_ms += JUMP_MS // 10
        assert clock.now_ms() == machine.now_ms()
    machine.true_ms += DAY_MS  # both clocks went on, nobody looked
    assert clock.now_ms() == machine.now_ms()
    assert seen(clock) == []


@given(st.lists(st.tuples(st.integers(0, 3_000), st.sampled_from((0, 0, 0, DAY_MS, -HOUR_MS, 800))), max_size=60))
def test_the_time_is_near_the_true_one_or_that_of_a_jump_that_lasted(path: list[tuple[int, int]]) -> None:
    """Until a jump is believed the time is true, but for what is too small for a jump."""
    machine = Machine()
    clock = machine.steady()
    for passed_ms, off_ms in path:
        machine.true_ms += passed_ms
        machine.off_ms = off_ms
        found = clock.now_ms()
        believed = [by_ms for by_ms, is_believed in seen(clock) if is_believed]
        assert found == machine.now_ms() if believed else True
        if not believed and abs(found - machine.true_ms) > JUMP_MS:
            return  # an earlier one was believed
    assert clock.now_ms() in range(machine.true_ms - HOUR_MS - JUMP_MS, machine.true_ms + DAY_MS + JUMP_MS)


def test_jumps_are_problems_and_counted(tmp_path: Path) -> None:
    settings, machine = write_settings(tmp_path), Machine()
    clock = machine.steady()
    with open_configured_store(settings) as store:
        runner = Runner(
            settings, checked_queries(settings), store, Notifier(store, {}, clock), clock,
            monotonic=lambda: machine.elapsed() / 1000,
        )  # fmt: skip
        runner.poll("job_history")
        runner.step()
        before_ms = _watermark_ms(store)
        machine.off_ms = DAY_MS
        for _ in range(4):
            machine.true_ms += 1_000
            runner.poll("job_history")
            runner.step()
        machine.off_ms = 0
        machine.true_ms += 1_000
        runner.poll("job_history")
        runner.step()
        assert before_ms <= _watermark_ms(store) <= machine.true_ms
        (problem,) = [problem for problem in store.problems() if problem.kind == "clock_jump"]
        assert "jumped forward by 86,400 s: times go on as before" in problem.message
    assert runner.metrics.registry.get_sample_value("clustercep_clock_jumps_total") == 1


def test_a_clock_that_was_ahead_when_it_was_set_right_is_gone_back_from(tmp_path: Path) -> None:
    """The process starts while the clock is a day ahead, and stores that; the next one finds the right time."""
    settings, machine = write_settings(tmp_path), Machine()
    machine.off_ms = DAY_MS
    with open_configured_store(settings) as store:
        first = _runner(settings, store, machine)
        first.poll("job_history")
        first.step()
        ahead_ms = _watermark_ms(store)
        assert ahead_ms > T0_MS + DAY_MS - HOUR_MS
        machine.off_ms = 0
        machine.true_ms += 60_000
        again = _runner(settings, store, machine)
        again.poll("job_history")
        again.step()
        assert _watermark_ms(store) <= machine.true_ms
        kinds = Counter(problem.kind for problem in store.problems())
        assert kinds["watermark_ahead"] == 1
        matcher = again.live.pipeline.matcher
        assert matcher.watermark_ms <= machine.true_ms  # type: ignore[attr-defined]
        again.poll("job_history")
        again.step()
        assert Counter(problem.kind for problem in store.problems())["watermark_ahead"] == 1


def _runner(settings: Settings, store: Store, machine: Machine) -> Runner:
    clock = machine.steady()
    return Runner(
        settings, checked_queries(settings), store, Notifier(store, {}, clock), clock,
        monotonic=lambda: machine.elapsed() / 1000,
    )  # fmt: skip


def _watermark_ms(store: Store) -> int:
    status = store.process_status()
    assert status is not None
    return int(status.value["watermark_ms"])


def test_polls_go_on_while_the_clock_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    called = threading.Semaphore(0)
    off_s = [0.0]
    monkeypatch.setattr("time.time", lambda: 1e9 + off_s[0])
    repeated = Repeated("poll", called.release, 0.001, at_once=True)
    repeated.start()
    for seconds in (0.0, 86_400.0, -86_400.0, 0.0):
        off_s[0] = seconds
        for _ in range(3):
            assert called.acquire(timeout=120)
    repeated.stop()


def test_a_call_that_has_more_to_do_is_not_made_to_wait_for_its_interval() -> None:
    called = threading.Semaphore(0)
    more = [True, True, True, False]

    def call() -> bool:
        goes_on = more.pop(0)
        called.release()
        return goes_on

    repeated = Repeated("poll", call, 86_400.0, at_once=True)
    repeated.start()
    for _ in range(4):
        assert called.acquire(timeout=120)
    assert not called.acquire(timeout=0.05)
    repeated.stop()
    assert more == []


REALLY_SET = """
import os, pathlib, time
from app.clock import SteadyClock
setting = pathlib.Path(os.environ["FAKETIME_TIMESTAMP_FILE"])
before = time.time()
clock = SteadyClock()
first = clock.now_ms()
setting.write_text("+1d")
assert time.time() - before > 80_000, time.time() - before
assert abs(clock.now_ms() - first) < 60_000
setting.write_text("+0")
assert abs(clock.now_ms() - first) < 60_000
print([(round(jump.by_ms / 86_400_000), jump.is_believed) for jump in clock.take_jumps()])
"""


@pytest.fixture
def libfaketime() -> Path:
    """The library's path. Without it the test is skipped, and fails with CI=true (see `tests.chromium`)."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        reason = "no libfaketime: make test brings it where it can be installed"
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    return found[0]


def test_a_process_whose_clock_is_really_set(libfaketime: Path, tmp_path: Path) -> None:
    """By libfaketime, which reads what the time is to be from a file at every look."""
    setting = tmp_path / "setting"
    setting.write_text("+0")
    environment = {
        **os.environ,
        "LD_PRELOAD": str(libfaketime),
        "FAKETIME_TIMESTAMP_FILE": str(setting),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    command = [sys.executable, "-c", REALLY_SET]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert ended.stderr == ""
    assert ended.stdout.strip() == "[(1, False)]"
