"""The brake: what a step takes of the processor, and what becomes of the accounts when that is too much."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from engine import Engine, Limits, compile_query
from engine.events import EventBatch
from engine.matching import brake as brake_module
from engine.matching.brake import SECONDS, SECONDS_PER_EVENT, SECONDS_PER_STEP, Brake
from engine.runtime.factory import make_runtime
from tests.engine.strategies import SCHEMA
from tests.fuzz.budgets import Pulled

A_LOT = 3_600.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Processor time that goes on when it is told to, in compiled kernels, and nobody else looks at the steps."""
    now = [100.0]
    monkeypatch.setattr(brake_module.time, "clock_gettime", lambda _clock: now[0])
    monkeypatch.setattr(brake_module, "runs_as_python", lambda: False)
    monkeypatch.setattr(brake_module._WATCH, "add", lambda _running: None)

    def go_on(seconds: float) -> None:
        now[0] += seconds

    return go_on


def look(brake: Brake) -> None:
    """As the watching thread does."""
    assert brake._running is not None
    brake._running.look()


def test_accounts_hold_nothing_from_when_the_time_is_spent_until_the_step_ends(clock: Callable[[float], None]) -> None:
    brake = Brake()
    account = brake.account(1_000)
    with brake.step(100, 0):
        clock(SECONDS)
        look(brake)
        assert account.allowance_at(10) == 1_000
        clock(SECONDS_PER_STEP + 200 * SECONDS_PER_EVENT)
        look(brake)
        assert account.allowance_at(10**9) == 0
        account.restore("2000,10")  # as a kernel that writes back what it had
        look(brake)
        assert account.left == 0
    assert account.left == 0
    assert account.allowance_at(10**9 + 2_500_000) == 1_000
    with brake.step(0, 0):
        look(brake)
        assert account.left == 1_000


def test_what_is_left_is_saved_up_to_what_new_and_kept_events_are_given(clock: Callable[[float], None]) -> None:
    brake = Brake()
    for _ in range(3):
        with brake.step(10_000, 5_000):
            clock(0.25)
    assert brake.left_s == pytest.approx(SECONDS + 15_000 * SECONDS_PER_EVENT - 0.25)
    with brake.step(0, 0):
        clock(A_LOT)
    with brake.step(1_000, 0):
        pass
    assert brake.left_s == pytest.approx(SECONDS_PER_STEP + 1_000 * SECONDS_PER_EVENT)


def test_more_is_given_to_those_who_ask_for_more(clock: Callable[[float], None]) -> None:
    query = compile_query("PATTERN SEQ(A a, B b)\nWHERE skip_till_any_match\nWITHIN 1 hour", SCHEMA, name="q")
    engine = Engine([query], SCHEMA, limits=Limits(max_rows=1_000_000))
    ordinary = Engine([query], SCHEMA)
    more, less = (each._runtimes["q"].limits.brake for each in (engine, ordinary))  # type: ignore[attr-defined]
    assert more.left_s == pytest.approx(10 * SECONDS)
    assert less.left_s == pytest.approx(SECONDS)
    assert more is not less
    assert make_runtime(query, engine._interner, Limits(work_budget=8_000_000)).limits.brake.left_s == 4 * SECONDS  # type: ignore[attr-defined]


def test_what_others_do_with_rows_and_the_compiler_are_not_its_time(
    clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    brake = Brake()
    account = brake.account(1_000)
    compiled = [0.0]
    monkeypatch.setattr(brake_module, "preparing_s", lambda _thread: compiled[0])
    with brake.step(0, 0):
        with brake.handing_over(1):
            clock(A_LOT)
            look(brake)
        look(brake)
        clock(A_LOT)
        compiled[0] = A_LOT
        look(brake)
        assert account.left == 1_000
        clock(SECONDS + 0.001)  # beside what the row adds
        look(brake)
    assert account.left == 0


def test_a_step_within_another_is_part_of_it(clock: Callable[[float], None]) -> None:
    brake = Brake()
    account = brake.account(1_000)
    with brake.step(0, 0):
        with brake.step(10**9, 0):
            clock(SECONDS + 0.001)
        look(brake)
        assert account.left == 0


def test_a_thread_that_never_gives_way_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brake_module, "runs_as_python", lambda: False)
    brake = Brake(0.0)
    account = brake.account(1_000)
    end_s = time.thread_time() + 60
    with brake.step(0, 0):
        while account.left and time.thread_time() < end_s:
            pass
        assert not account.left
    assert account.allowance_at(2_500_000) == 1_000


def test_it_works_in_a_process_that_was_forked_while_the_thread_looked_on() -> None:
    text = """
import os, sys, time
from engine.matching.brake import Brake
brake = Brake(0.0)
account = brake.account(1_000)
def stopped():
    with brake.step(0, 0):
        end_s = time.thread_time() + 60
        while account.left and time.thread_time() < end_s:
            pass
        return account.left == 0
assert stopped()
account.allowance_at(2_500_000)
child = os.fork()
if child == 0:
    os._exit(0 if stopped() else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    ended = subprocess.run([sys.executable, "-c", text], env={"NUMBA_DISABLE_JIT": "0"}, check=False, timeout=300)
    assert ended.returncode == 0


QUERIES = {
    "listed": "PATTERN SEQ(A a, B+ b[], C c)\nWHERE skip_till_any_match\nWITHIN 1 hour",
    "counted": "PATTERN SEQ(A a, B+ b[], C c)\nWHERE skip_till_any_match\nWITHIN 1 hour\nOUTPUT COUNT",
    "groups": "PATTERN SEQ(A a, (SEQ(B b, B+ d[]))+, C c)\nWHERE skip_till_any_match\nWITHIN 1 hour",
    "a form": "PATTERN SEQ(A a, B+ b[], C c)\nWHERE skip_till_any_match\nWITHIN 1 hour\nSLIDE 1 minute\nOUTPUT SETS",
    "runs": "PATTERN SEQ(A a, B+ b[], C c)\nWHERE skip_till_next_match\nWITHIN 1 hour",
    "a union": "PATTERN SEQ(A a, (B b)?, AND(B d, C c))\nWHERE skip_till_next_match\nWITHIN 1 hour",
    "events": "PATTERN SEQ(A a, B+ b[], C c)\nWHERE skip_till_any_match\nWITHIN 200 EVENTS",
}
N_SMALL = 9
"""So many events have few enough matches for all of them to be known."""


def stream(n: int) -> EventBatch:
    """Of A B B C again and again, one per second."""
    rows = [
        {"event_id": f"e{at}", "type": "ABBC"[at % 4], "t_lo_ms": 1_000 * at, "t_hi_ms": 1_000 * at, "source_seq": at,
         "x": 1, "y": 1.0, "k": "k", "j": 1, "s": "ok"}
        for at in range(n)
    ]  # fmt: skip
    return EventBatch.from_rows(
        [
            {
                name: value
                for name, value in row.items()
                if name in SCHEMA.types[row["type"]] or "_" in name or name == "type"
            }
            for row in rows
        ],  # type: ignore[index]
        SCHEMA,
    )


@pytest.mark.parametrize("text", QUERIES.values(), ids=QUERIES)
def test_a_query_whose_steps_have_no_time_invents_nothing_and_says_what_is_missing(text: str) -> None:
    query = compile_query(text, SCHEMA, name="q")
    for n in (N_SMALL, 400):
        braked = Engine([query], SCHEMA, limits=Limits(brake=Pulled()))
        rows = [*braked.process(stream(n), 10**9), *braked.finish()]
        emitted = braked.statistics["q"].n_unfinished > 0 or any(row.capped or not row.count_exact for row in rows)
        if emitted and n > N_SMALL:
            continue
        whole = Engine([query], SCHEMA)
        expected = [*whole.process(stream(n), 10**9), *whole.finish()]
        assert expected
        assert emitted or [row.bindings for row in rows] == [row.bindings for row in expected]
        if "OUTPUT" not in text:
            assert all(row.bindings in [other.bindings for other in expected] for row in rows)
