"""The machine's clock is ahead for a while and is set right: what is found is what would have been found anyway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import select

from app.alerting.recording.match import Match
from app.live.intake import Intake
from app.live.ordering.deduplicate import Deduplicator
from app.live.ordering.leaps import CHUNK_ROWS, MAX_LATE_EVENTS, Leaps
from app.live.ordering.order import Order
from app.live.ordering.watermarks import Watermarks
from app.live.pipeline import Pipeline
from app.live.recent import RecentEvents
from app.store import Store
from app.store.api import AlertFilter, open_store
from app.store.models import NotificationRow
from collectors.base import Collected, next_watermark
from engine.events import EventBatch
from tests.app.pipeline_fixtures import PairMatcher, Script, batch, event, start

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000
STEP_MS = 30 * SECOND_MS
MINUTES, N_TASKS = 180, 40
LATENESS_MS = 5 * SECOND_MS
T0_MS = 1_700_000_000_000
TIMEOUT_MS = 30 * MINUTE_MS

Row = Mapping[str, Any]


class Machine:
    """`true_ms` goes on by itself; what the clock shows is `off_ms` beside it."""

    def __init__(self) -> None:
        self.true_ms = T0_MS
        self.off_ms = 0


class Cluster:
    """A source of another machine, whose clock is right: each event is there some seconds after it happened."""

    name = "yarn_rest"

    def __init__(self, machine: Machine, rows: Sequence[Row]) -> None:
        self._machine = machine
        self._rows = rows
        self._n_read = 0
        self._watermark_ms: int | None = None

    def poll(self, now_ms: int) -> Collected:
        """By the clock of the machine that polls."""
        there = [row for row in self._rows if row["t_lo_ms"] + 2 * SECOND_MS <= self._machine.true_ms]
        new, self._n_read = there[self._n_read :], len(there)
        self._watermark_ms = next_watermark(self._watermark_ms, now_ms - LATENESS_MS, now_ms)
        return Collected(batch(*new), self._watermark_ms)

    def checkpoint(self) -> dict[str, Any]:
        """How far it has read, and what it has promised."""
        return {"n_read": self._n_read, "watermark_ms": self._watermark_ms}

    def restore(self, position: Mapping[str, Any]) -> None:
        """Back from `checkpoint`."""
        self._n_read, self._watermark_ms = position["n_read"], position["watermark_ms"]


def rows() -> list[Row]:
    """A task begins every 3 minutes for 2 hours and takes 3 to 42 minutes."""
    found = []
    for number in range(N_TASKS):
        begin_ms = T0_MS + MINUTE_MS + number * 3 * MINUTE_MS
        end_ms = begin_ms + (3 + 7 * number % 40) * MINUTE_MS
        found.append(event(f"start-{number}", begin_ms, "MapStart", task_id=f"t{number}"))
        found.append(event(f"end-{number}", end_ms, "MapEnd", task_id=f"t{number}"))
    return sorted(found, key=lambda row: row["t_lo_ms"])


def rewound(events: EventBatch, watermark_ms: int) -> tuple[PairMatcher, Sequence[Match]]:
    matcher = PairMatcher()
    return matcher, matcher.process(events, watermark_ms)


def run(store: Store, folder: Path, off: Mapping[range, int], restarts: Sequence[int] = ()) -> Pipeline:
    """Three hours, with the clock off by so much in these minutes."""
    machine = Machine()
    first, *later = [*restarts, MINUTES]
    process = begun(store, folder, machine)
    until = first
    for passed_ms in range(0, MINUTES * MINUTE_MS, STEP_MS):
        machine.true_ms = T0_MS + passed_ms
        minute = passed_ms // MINUTE_MS
        machine.off_ms = next((by_ms for minutes, by_ms in off.items() if minute in minutes), 0)
        if minute == until:
            until, *later = [*later, MINUTES]
            process = begun(store, folder, machine)
        pipeline, source = process
        now_ms = machine.true_ms + machine.off_ms
        pipeline.intake.put(source.poll(now_ms))
        pipeline.step(now_ms)
    return process[0]


def begun(store: Store, folder: Path, machine: Machine) -> tuple[Pipeline, Any]:
    now_ms = machine.true_ms + machine.off_ms
    process = start(
        store, folder, [Script("yarn_rest", [])], now_ms=now_ms, timeout_ms=TIMEOUT_MS, rewind=rewound,
        recent=RecentEvents({"MapStart": HOUR_MS, "MapEnd": HOUR_MS}), collectors=[Cluster(machine, rows())],
    )  # fmt: skip
    return process.pipeline, process.sources["yarn_rest"]


def told(store: Store) -> Counter[tuple[str, str]]:
    """(alert, state) of each message."""
    with store.transaction() as writer:
        return Counter((row.alert_id, row.state) for row in writer.session.scalars(select(NotificationRow)))


def alerts(store: Store) -> list[tuple[Any, ...]]:
    found = store.alerts(AlertFilter(limit=500))
    return sorted((a.id, a.query, a.key_text, a.start_ms, a.end_ms, a.state, a.n_matches) for a in found)


CASES = {
    "a day for 40 minutes": ({range(60, 100): DAY_MS}, ()),
    "ten minutes for 40 minutes": ({range(60, 100): 10 * MINUTE_MS}, ()),
    "a day, with restarts meanwhile and when it is set right": ({range(60, 100): DAY_MS}, (80, 100)),
    "a day, then two days": ({range(60, 80): DAY_MS, range(80, 100): 2 * DAY_MS}, ()),
    "a day, twice": ({range(40, 60): DAY_MS, range(90, 110): DAY_MS}, ()),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[tuple[Any, ...]], Counter[tuple[str, str]]]:
    """The alerts and messages of a run without a jump."""
    folder = tmp_path_factory.mktemp("plain")
    with open_store(f"sqlite:///{folder / 'store.db'}", durable=False) as plain:
        run(plain, folder / "pipeline", {})
        return alerts(plain), told(plain)


@pytest.mark.in_turn(of=3)
@pytest.mark.parametrize("case", CASES)
def test_alerts_are_those_of_a_run_without_a_jump(
    case: str, expected: tuple[list[tuple[Any, ...]], Counter[tuple[str, str]]], tmp_path: Path
) -> None:
    off, restarts = CASES[case]
    with open_store(f"sqlite:///{tmp_path / 'store.db'}", durable=False) as store:
        run(store, tmp_path / "pipeline", off, restarts)
        assert len(expected[0]) == N_TASKS
        assert alerts(store) == expected[0]
        assert told(store) == expected[1]
        assert max(told(store).values()) == 1
        n_times = {problem.kind: problem.n_times for problem in store.problems()}
        assert n_times["watermark_ahead"] == (2 if case == "a day, twice" else 1)


def test_a_clock_that_is_back_for_a_while_costs_no_alert(
    expected: tuple[list[tuple[Any, ...]], Counter[tuple[str, str]]], tmp_path: Path
) -> None:
    """The watermark is ahead of the time, and right: what waits for its end still finds its beginning."""
    with open_store(f"sqlite:///{tmp_path / 'store.db'}", durable=False) as store:
        run(store, tmp_path / "pipeline", {range(60, 100): -HOUR_MS})
        assert [found[:-1] for found in alerts(store)] == [found[:-1] for found in expected[0]]
        assert told(store) == expected[1]


def table(*times_ms: int) -> pa.Table:
    """Events of these times that are late."""
    deduplicator = Deduplicator({}, HOUR_MS)
    deduplicator.release(max(times_ms) + 1)
    return deduplicator.offer("x", batch(*(event(f"late-{t_ms}", t_ms) for t_ms in times_ms))).late_rows


def test_late_events_of_an_ordinary_stream_are_not_remembered() -> None:
    leaps = Leaps()
    for now_ms in range(0, HOUR_MS, 30 * SECOND_MS):
        leaps.take(T0_MS + now_ms, EventBatch.empty(), [table(T0_MS + now_ms - 1)])
    assert leaps.save()[0] == {}


def test_a_leap_is_forgotten_with_what_was_late_once_it_is_old() -> None:
    leaps = Leaps()
    leaps.take(T0_MS, EventBatch.empty(), [])
    leaps.take(T0_MS + HOUR_MS, EventBatch.empty(), [table(T0_MS + 1)])
    assert set(leaps.save()[0]) == {"before-0", "late-0"}
    for days in range(4):
        leaps.take(T0_MS + HOUR_MS + days * DAY_MS, EventBatch.empty(), [])
        leaps.take(T0_MS + HOUR_MS + days * DAY_MS + 1, EventBatch.empty(), [])
    state = leaps.save()[1]
    assert T0_MS not in [before for before, _ in state["leaps"]]
    assert len(state["leaps"]) <= 3


def test_late_events_are_bounded_and_full_tables_are_written_once() -> None:
    leaps = Leaps()
    leaps.take(T0_MS, EventBatch.empty(), [])
    leaps.take(T0_MS + HOUR_MS, EventBatch.empty(), [table(*range(T0_MS, T0_MS + CHUNK_ROWS))])
    first = leaps.save()[0]["late-0"]
    leaps.take(T0_MS + HOUR_MS + 1, EventBatch.empty(), [table(T0_MS + 7)])
    saved = leaps.save()[0]
    assert saved["late-0"] is first
    assert saved["late-1"].num_rows == 1
    many = table(*range(T0_MS, T0_MS + 30_000))
    leaps.take(T0_MS + HOUR_MS + 2, EventBatch.empty(), [many] * 5)
    assert sum(t.num_rows for name, t in leaps.save()[0].items() if name.startswith("late")) == MAX_LATE_EVENTS


def test_what_was_polled_while_the_clock_was_ahead_promises_nothing() -> None:
    order = Order(Deduplicator({"x": 0}, HOUR_MS), Watermarks(["x"], TIMEOUT_MS, T0_MS))
    order.advance([Intake("x", T0_MS, watermark_ms=T0_MS - 5)], T0_MS)
    step = order.advance([Intake("x", T0_MS + DAY_MS, watermark_ms=T0_MS + DAY_MS - 5)], T0_MS + 1_000)
    assert step.watermark_ms == T0_MS - 5
    step = order.advance([Intake("x", T0_MS + 2_000, watermark_ms=T0_MS + 1_995)], T0_MS + 2_000)
    assert step.watermark_ms == T0_MS + 1_995


def test_ids_are_remembered_again_by_the_watermark_that_is_gone_back_to() -> None:
    """Of one event there are copies: they would take part twice."""
    deduplicator = Deduplicator({"x": 0}, HOUR_MS)
    deduplicator.release(T0_MS + DAY_MS)
    late = deduplicator.offer("x", batch(event("a", T0_MS))).late_rows
    deduplicator.go_back(T0_MS, late)
    again = deduplicator.offer("x", batch(event("a", T0_MS)))
    assert (again.n_new.total(), again.n_duplicate.total(), len(again.late)) == (0, 1, 0)
    assert len(deduplicator.release(T0_MS + 1)) == 1
    again = deduplicator.offer("x", batch(event("a", T0_MS)))
    assert (again.n_new.total(), again.n_duplicate.total(), len(again.late)) == (0, 1, 0)
