"""Pages of the database that are damaged: told with the file and the way out, and nobody waits for them to heal."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import DatabaseError

from app.alerting.delivery import endpoint_of
from app.alerting.notifier import Notifier
from app.clock import SetClock
from app.errors import DamageError
from app.live.assembly import checked_queries
from app.process.outages import outage_kind
from app.process.owned_store import DAMAGED, owned_store
from app.process.runner import Runner
from app.settings import Settings
from app.store import Store, open_store
from app.store.damage import damage_of
from tests.app.alerting.test_delivery import fill_outbox
from tests.app.alerting_fixtures import FakeMatch, receiver
from tests.app.process.test_runner import write_settings

PAGE = 4_096
TOLD = r"the database file \S*clustercep\.db is damaged \(.*sqlite3 \S+ \.recover.*then start again"


def filled(settings: Settings) -> Path:
    """A store with many alerts whose pages are all in the one file."""
    with owned_store(settings, "run") as store:
        keys = [(("task_id", f"task{i}"),) for i in range(100)]
        fill_outbox(store, [FakeMatch(i, i, key=key) for i, key in enumerate(keys)], ops=receiver())
    path = settings.store.directory / "clustercep.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def overwrite(path: Path, of: str) -> bytes:
    """The pages of a table, in the middle of the file; returns what was there."""
    with closing(sqlite3.connect(path)) as connection:
        roots = {page for (page,) in connection.execute("SELECT rootpage FROM sqlite_master WHERE tbl_name = ?", (of,))}
    assert roots
    before = path.read_bytes()
    data = bytearray(before)
    for page in roots:
        data[(page - 1) * PAGE : page * PAGE] = b"\xa5" * PAGE
    path.write_bytes(data)
    return before


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """One query, one source."""
    return write_settings(tmp_path)


@pytest.mark.parametrize("table", ["alerts", "notifications", "checkpoints", "source_status"])
def test_a_damaged_table_ends_the_process_and_is_no_outage(settings: Settings, table: str) -> None:
    path, clock = filled(settings), SetClock(10**12)
    with pytest.raises(DamageError, match=TOLD), owned_store(settings, "run") as store:  # noqa: PT012  # where it is met differs
        notifier = Notifier(store, {}, clock)
        runner = Runner(settings, checked_queries(settings), store, notifier, clock, monotonic=clock_s(clock))
        runner.step()
        store.close()  # what it has read of the file is forgotten
        whole = overwrite(path, table)
        clock.advance_to(clock.now_ms() + 60_000)
        with suppress(DamageError):
            runner.step()
        assert runner.outage is None
        clock.advance_to(clock.now_ms() + 60_000)
        runner.step()  # and no other one finds it whole
    assert (settings.store.directory / DAMAGED).exists()
    with pytest.raises(DamageError, match=TOLD), owned_store(settings, "run"):
        pass
    path.write_bytes(whole)
    for left in ("-wal", "-shm"):
        path.with_name(path.name + left).unlink(missing_ok=True)
    with owned_store(settings, "run") as store:
        assert len(store.alerts()) == 100
    assert not (settings.store.directory / DAMAGED).exists()


def clock_s(clock: SetClock) -> Callable[[], float]:
    return lambda: clock.now_ms() / 1000


def test_what_delivery_finds_ends_the_steps(settings: Settings) -> None:
    path, clock = filled(settings), SetClock(10**12)
    with pytest.raises(DamageError, match=TOLD), owned_store(settings, "run") as store:  # noqa: PT012  # see above
        runner = Runner(settings, checked_queries(settings), store, Notifier(store, {}, clock), clock)
        store.close()
        overwrite(path, "notifications")
        told_by = Notifier(store, {"ops": endpoint_of("ops", receiver(), "")}, clock)
        with pytest.raises(DamageError, match=TOLD):
            next(iter(told_by._workers.values()))._courier.deliver_pending()
        runner.step()


def test_a_file_that_is_no_database(settings: Settings) -> None:
    path = filled(settings)
    path.write_bytes(b"x" * PAGE)
    with pytest.raises(DamageError, match=r"clustercep\.db is damaged \(file is not a database"):
        open_store(f"sqlite:///{path}")


def test_the_schema_is_damaged(settings: Settings) -> None:
    path = filled(settings)
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"\xa5" * (PAGE - 100) + data[PAGE:])
    with pytest.raises(DamageError, match=TOLD):
        open_store(f"sqlite:///{path}")


def test_what_is_damage() -> None:
    url = make_url("sqlite:////var/lib/store.db")
    assert damage_of(sqlite3.OperationalError("database is locked"), url) is None
    broken = sqlite3.DatabaseError("database disk image is malformed")
    broken.sqlite_errorcode = sqlite3.SQLITE_CORRUPT | 1 << 8
    assert "/var/lib/store.db is damaged (database disk image" in str(damage_of(DatabaseError("s", {}, broken), url))
    broken.sqlite_errorcode = sqlite3.SQLITE_IOERR
    assert damage_of(DatabaseError("s", {}, broken), url) is None

    class PostgresError(Exception):
        sqlstate = "XX001"

    server = make_url("postgresql://me:secret@host/base")
    told = damage_of(DatabaseError("s", {}, PostgresError("invalid page in block 7")), server)
    assert told is not None
    assert told.startswith("the database base is damaged (invalid page in block 7)")
    assert "secret" not in told
    assert outage_kind(DamageError("x")) is None


def test_a_store_without_file_is_whole() -> None:
    with open_store("sqlite://") as store:
        assert isinstance(store, Store)
        store.check_content()
