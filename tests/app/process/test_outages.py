"""Store gone or locked, disk full: nobody gives up, nothing is lost or doubled, one problem tells of it."""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from structlog.testing import capture_logs

from app.alerting.delivery import Endpoint, TemporaryDeliveryError, endpoint_of
from app.alerting.notifier import Notifier
from app.alerting.receivers.service import Message
from app.clock import SetClock, SystemClock
from app.commands.check import check_all
from app.errors import AppError, CheckpointError, StoreError
from app.live.assembly import Live, checked_queries
from app.live.sources import ConfiguredSource
from app.process import outages
from app.process.outages import MAX_RETRY_MS, Outage, outage_kind
from app.process.runner import FAILURES_BEFORE_GIVING_UP, Runner
from app.store import Store, open_store, schema
from app.store.writing.writer import Writer
from tests.app.alerting.test_delivery import fill_outbox
from tests.app.alerting_fixtures import FakeMatch, receiver
from tests.app.live.test_pipeline import content, scripts, uninterrupted, without_polls
from tests.app.pipeline_fixtures import start
from tests.app.process.test_runner import write_settings
from tests.new_store import placed

OUTAGE = (60, 110)
"""When the store refuses (ms)."""


class FlakyStore(Store):
    """A store that refuses while `refuses` says so: before anything, or only when all is to be committed."""

    refuses: Callable[[], str | None] = staticmethod(lambda: None)
    """None, or "begin" or "commit"."""

    @contextmanager
    def transaction(self) -> Iterator[Writer]:
        if self.refuses() == "begin":
            raise StoreError("the store cannot be written: database is locked")
        with super().transaction() as writer:
            yield writer
            if self.refuses() == "commit":
                raise StoreError("the store cannot be written: database or disk is full")

    @contextmanager
    def _reading(self) -> Iterator[Session]:
        if self.refuses() == "begin":
            raise StoreError("the store cannot be read: unable to open database file")
        with super()._reading() as session:
            yield session


class World:
    """A runner over scripted sources; its clock moves in steps of 10 ms."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, url: str | None = None) -> None:
        monkeypatch.setattr(outages, "FIRST_RETRY_MS", 10)
        monkeypatch.setattr(outages, "MAX_RETRY_MS", 40)
        monkeypatch.setattr("app.process.runner.assemble", self._assemble)
        self.folder = folder
        self.clock = SetClock(0)
        settings = write_settings(folder / "settings")
        opened = open_store(url or placed(folder / "store.db"), durable=False)
        self.store = FlakyStore(opened._engine)
        self.runner = Runner(
            settings, checked_queries(settings), self.store, Notifier(self.store, {}, self.clock), self.clock
        )

    def _assemble(self, _s: object, _q: object, store: Store, _n: object, now_ms: int, **_how: object) -> Live:
        process = start(store, self.folder / "checkpoints", scripts(), now_ms=now_ms)
        return Live(process.pipeline, {name: ConfiguredSource(s, 10) for name, s in process.sources.items()})

    def run(self, until_ms: int, each: Callable[[int], None] = lambda _now_ms: None) -> None:
        """Poll and step as the scheduler does."""
        for now_ms in range(self.clock.now_ms(), until_ms + 1, 10):
            self.clock.advance_to(now_ms)
            each(now_ms)
            for name in self.runner.live.sources:
                self.runner.poll(name)
            self.runner.step()

    def problems(self) -> list[tuple[str, str, int, str]]:
        """What is told of the process itself."""
        found = [p for p in self.store.problems() if p.source == "pipeline"]
        return [(p.place, p.kind, p.n_times, p.message) for p in found]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Not started."""
    made = World(tmp_path, monkeypatch)
    yield made
    made.store.close()


def same_as_uninterrupted(world: World, folder: Path) -> bool:
    """Alerts, their changes and evidence, reports, Idempotency-Keys, counters."""
    assert without_polls(content(world.store, folder / "checkpoints")) == _expected()
    return True


@cache
def _expected() -> dict[str, Any]:
    """What a run that nothing disturbs leaves; not to be changed."""
    with TemporaryDirectory() as folder:
        return without_polls(uninterrupted(Path(folder)))


@pytest.mark.parametrize("refuses_at", ["begin", "commit"])
@pytest.mark.parametrize("span", [(0, 30), OUTAGE, (60, 60), (100, 150)])
def test_a_store_that_refuses_for_a_while(world: World, tmp_path: Path, refuses_at: str, span: tuple[int, int]) -> None:
    polled: list[int] = []

    def refuses() -> str | None:
        return refuses_at if span[0] <= world.clock.now_ms() <= span[1] else None

    world.store.refuses = refuses  # type: ignore[method-assign]
    original = world.runner.metrics.polled
    world.runner.metrics.polled = lambda *a: (polled.append(world.clock.now_ms()), original(*a))[-1]  # type: ignore[method-assign,func-returns-value]
    with capture_logs() as lines:
        world.run(230)
    assert same_as_uninterrupted(world, tmp_path)
    ((place, kind, n_times, message),) = world.problems()
    assert (place, kind, n_times) == ("store", "store_outage", 1)
    assert f"from 1970-01-01T00:00:00.{span[0]:03}Z to 1970-01-01T00:00:00." in message
    told = [line["event"] for line in lines if line["log_level"] in ("warning", "error")]
    assert told.count("the store is out; sources are not polled until it is back") == 1
    assert told.count("the store is back") == 1
    assert not any(span[0] < at <= span[1] for at in polled)
    assert world.runner.n_outages == 1
    assert world.runner.outage is None


def test_retries_are_ever_rarer(world: World) -> None:
    tried: list[int] = []

    def refuses() -> str | None:
        if world.clock.now_ms() < 30:
            return None
        tried.append(world.clock.now_ms())
        return "begin"

    world.store.refuses = refuses  # type: ignore[method-assign]
    world.run(400)
    assert sorted(set(tried)) == [30, 40, 60, 100, 140, 180, 220, 260, 300, 340, 380]


def test_the_real_intervals_double_up_to_half_a_minute() -> None:
    outage, now_ms, waited = Outage(0, "gone"), 0, []
    for _ in range(8):
        outage.failed(now_ms)
        assert not outage.is_due(now_ms + outage.retry_ms - 1)
        assert outage.is_due(now_ms + outage.retry_ms)
        assert outage.is_due(now_ms - 3_600_000)  # the clock was set back
        waited.append(outage.retry_ms)
    assert waited == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]
    assert waited[-1] == MAX_RETRY_MS


def test_a_database_that_another_process_has_locked(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "BUSY_TIMEOUT_MS", 5)
    world.store.close()  # connections take over the shorter patience
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None, check_same_thread=False)) as other:

        def lock(now_ms: int) -> None:
            if now_ms == OUTAGE[0]:
                other.execute("BEGIN EXCLUSIVE")
            if now_ms == OUTAGE[1]:
                other.execute("ROLLBACK")

        world.run(230, lock)
    assert same_as_uninterrupted(world, tmp_path)
    ((_, kind, n_times, message),) = world.problems()
    assert (kind, n_times) == ("store_outage", 1)
    assert "database is locked" in message


def test_a_database_file_that_is_moved_away_and_back(world: World, tmp_path: Path) -> None:
    def move(now_ms: int) -> None:
        if now_ms == OUTAGE[0]:
            (tmp_path / "store.db").rename(tmp_path / "away.db")
        if now_ms == OUTAGE[1]:
            (tmp_path / "away.db").rename(tmp_path / "store.db")

    world.run(230, move)
    assert same_as_uninterrupted(world, tmp_path)
    ((_, kind, _, message),) = world.problems()
    assert kind == "store_outage"
    assert "is gone" in message


def test_a_disk_that_is_full(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = Path.open

    def full(path: Path, *args: Any, **options: Any) -> Any:
        if path.suffix == ".part" and OUTAGE[0] <= world.clock.now_ms() <= OUTAGE[1]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return written(path, *args, **options)

    monkeypatch.setattr(Path, "open", full)
    world.run(230)
    monkeypatch.setattr(Path, "open", written)
    assert same_as_uninterrupted(world, tmp_path)
    ((_, kind, _, message),) = world.problems()
    assert kind == "store_outage"
    assert "No space left on device" in message
    failed = world.runner.metrics.registry.get_sample_value("clustercep_failed_steps_total", {"reason": "disk"})
    assert failed == 3


def test_rows_that_are_refused_in_the_middle_of_a_step(world: World, tmp_path: Path) -> None:
    """That is a defect: told each time, and given up in the end; here it goes away before."""
    refuse = "CREATE TRIGGER no BEFORE INSERT ON statistics BEGIN SELECT RAISE(ABORT, 'disk full'); END"

    def toggle(now_ms: int) -> None:
        if now_ms in (40, 100):
            with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
                other.execute(refuse if now_ms == 40 else "DROP TRIGGER no")

    with capture_logs():
        world.run(230, toggle)
    assert same_as_uninterrupted(world, tmp_path)
    ((_, kind, n_times, message),) = world.problems()
    assert (kind, n_times) == ("StoreError", 5)
    assert "disk full" in message


def test_an_outage_is_not_counted_among_defects(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.store.refuses = lambda: "begin"  # type: ignore[method-assign]
    world.run(2_000)
    assert world.runner.outage is not None
    assert world.runner.outage.n_tries > FAILURES_BEFORE_GIVING_UP
    world.store.refuses = lambda: None  # type: ignore[method-assign]
    monkeypatch.setattr("app.live.pipeline.Pipeline.step", lambda _self, _now_ms: 1 // 0)
    with pytest.raises(AppError, match="10 steps in a row failed"):
        world.run(3_000)


def test_a_defect_while_the_store_goes_away(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step fails for another reason, and going back finds no store."""
    world.run(50)

    def fail(reached: str) -> None:
        if reached == "match":
            world.store.refuses = lambda: "begin"  # type: ignore[method-assign]
            raise ZeroDivisionError

    world.runner.live.pipeline.boundary = fail
    world.run(90)
    assert world.runner.outage is not None
    world.store.refuses = lambda: None  # type: ignore[method-assign]
    world.run(230)
    assert same_as_uninterrupted(world, tmp_path)


def test_what_is_an_outage() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    cause = CheckpointError("cannot be written")
    cause.__cause__ = full
    refused = StoreError("duplicate key")
    refused.__cause__ = IntegrityError("INSERT", {}, Exception("UNIQUE constraint failed"))
    assert [outage_kind(e) for e in (full, cause, StoreError("locked"))] == ["disk", "disk", "store"]
    assert [outage_kind(e) for e in (ZeroDivisionError(), CheckpointError("damaged"), refused)] == [None] * 3


def test_retention_waits_for_the_store(world: World) -> None:
    world.store.refuses = lambda: "begin"  # type: ignore[method-assign]
    with capture_logs() as lines:
        world.runner.clean()
    assert [line["event"] for line in lines] == ["retention has to wait for the next time"]
    world.run(0)
    world.runner.clean()
    world.store.refuses = lambda: None  # type: ignore[method-assign]
    world.run(100)
    world.runner.clean()


def test_a_reload_in_an_outage_takes_hold_with_its_end(world: World, tmp_path: Path) -> None:
    world.run(50)
    world.store.refuses = lambda: "begin"  # type: ignore[method-assign]
    world.run(70)
    settings = tmp_path / "settings"
    write_settings(settings, more="engine: {max_rows: 7}\n")
    before = world.runner.live
    outcome = world.runner.reload(lambda: check_all(settings / "config.yaml"))
    assert outcome.ok
    assert any("once it is back" in note for note in outcome.notes)
    assert world.runner.live is before
    world.store.refuses = lambda: None  # type: ignore[method-assign]
    world.run(230)
    assert world.runner.settings.engine.max_rows == 7
    assert world.runner.live is not before
    assert same_as_uninterrupted(world, tmp_path)


def test_deliveries_go_on_after_an_outage(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Notifier, "POLL_S", 0.01)
    flaky, refused, delivered = FlakyStore(store._engine), [], threading.Event()

    def refuses() -> str | None:
        if len(refused) < 5:
            refused.append("once more")
            return "begin"
        return None

    def post(_endpoint: Endpoint, _message: Message, _key: str) -> None:
        delivered.set()

    flaky.refuses = refuses  # type: ignore[method-assign]
    fill_outbox(store, [FakeMatch(1, 2)], ops=receiver())
    notifier = Notifier(flaky, {"ops": endpoint_of("ops", receiver(), "")}, SetClock(5_000), post=post)
    with capture_logs() as lines:
        notifier.start()
        assert delivered.wait(120)
        assert notifier.drain(120)
        notifier.stop()
    assert len(refused) == 5
    assert [line["log_level"] for line in lines] == ["error", "info", "info"]
    assert [n.status for n in store.notifications()] == ["delivered"]


def test_a_webhook_that_is_dead_for_longer_than_the_retries(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given up, visible, and told under the same key once another process says so; nobody wakes the worker."""
    monkeypatch.setattr(Notifier, "POLL_S", 0.01)
    alive, sent, delivered = threading.Event(), [], threading.Event()

    def post(_endpoint: Endpoint, _message: Message, key: str) -> None:
        sent.append(key)
        if not alive.is_set():
            raise TemporaryDeliveryError("ConnectionError", "connection")
        delivered.set()

    ops = receiver(max_attempts=3, first_retry="1 ms", max_retry="1 ms")
    fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
    notifier = Notifier(store, {"ops": endpoint_of("ops", ops, "")}, SystemClock(), post=post)
    notifier.start()
    assert notifier.drain(120)
    (failed,) = store.notifications("failed")
    assert (failed.last_error, failed.n_attempts, len(sent)) == ("ConnectionError", 3, 3)
    assert {problem.kind for problem in store.problems()} == {"undelivered", "receiver_down"}
    assert [found.receiver for found in notifier.down()] == ["ops"]
    alive.set()
    with open_store(f"sqlite:///{tmp_path / 'store.db'}") as dashboard, dashboard.transaction() as writer:
        assert writer.outbox.send_again("ops", now_ms=5, actor="mia").n_pending == 1
    assert delivered.wait(120)
    notifier.stop(120)
    (again,) = store.notifications()
    assert again.status == "delivered"
    assert (notifier.down(), store.receivers_down()) == ([], {})
    assert set(sent) == {failed.idempotency_key}


def test_a_worker_lives_through_a_defect(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Notifier, "POLL_S", 0.01)
    broken, delivered = [True], threading.Event()

    def post(_endpoint: Endpoint, _message: Message, _key: str) -> None:
        if broken.pop() if broken else False:
            raise ZeroDivisionError
        delivered.set()

    ops = receiver(first_retry="1 ms")
    fill_outbox(store, [FakeMatch(1, 2)], ops=ops)
    notifier = Notifier(store, {"ops": endpoint_of("ops", ops, "")}, SystemClock(), post=post)
    with capture_logs() as lines:
        notifier.start()
        assert delivered.wait(120)
        notifier.stop(120)
    assert [line["event"] for line in lines][:1] == ["delivery failed; it is tried again"]
