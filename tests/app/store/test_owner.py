"""One process per store: who owns it, who is refused, who takes over, and what becomes of one that lost it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alembic import command as alembic
from sqlalchemy import text
from structlog.testing import capture_logs

from app.alerting import operations
from app.alerting.delivery import Endpoint, endpoint_of
from app.alerting.notifier import Notifier
from app.alerting.people import Person
from app.alerting.receivers.service import Message
from app.clock import SetClock
from app.commands.check import check_all
from app.errors import AppError, OwnershipError, StoreError
from app.live.assembly import checked_queries, open_configured_store
from app.process.control_requests import ControlRequests, Stop
from app.process.lock import only_process
from app.process.outages import outage_kind
from app.process.owned_store import owned_store
from app.process.runner import Runner
from app.process.supervisor import run
from app.settings import Settings
from app.store import Store, open_store, owner
from app.store.migrations.applying import alembic_config
from app.store.owner import LEASE_MS, Claimant, this_process
from app.store.schema import open_database
from app.store.writing.problems import NewProblem
from tests.app.alerting.test_delivery import fill_outbox
from tests.app.alerting_fixtures import FakeMatch, receiver
from tests.app.process.test_runner import write_settings

ME = this_process("run", Path("here"), "1:1")
ELSEWHERE = replace(ME, host="other", boot="another kernel", pid=77, lock="2:2", folder="/there", command="stream")


@pytest.fixture
def store(any_store: Store) -> Store:
    """Of every kind."""
    return any_store


def again(store: Store) -> Store:
    """As another process opens it."""
    return open_store(store.engine.url.render_as_string(hide_password=False))


def renewed(store: Store, ago_ms: int) -> None:
    """The owner renewed its lease so long ago."""
    with store.engine.execution_options(writes=True).begin() as connection:
        connection.execute(text(f"UPDATE owner SET renewed_ms = {owner._now_ms(connection) - ago_ms}"))


def keep(store: Store, place: str) -> None:
    with store.transaction() as writer:
        writer.problems.add([NewProblem("test", place, "kind", "message")], 1)


def places(store: Store) -> set[str]:
    return {problem.place for problem in store.problems()}


def test_a_second_process_is_refused_with_the_first_ones_place(store: Store) -> None:
    store.own(ME)
    with again(store) as second:
        with pytest.raises(OwnershipError) as refused:
            second.own(replace(ME, lock="3:3", folder="/elsewhere"))
        told = f"'clustercep run' with pid {os.getpid()} on host {ME.host} (store.directory {ME.folder}), which runs"
        assert told in str(refused.value)
        with pytest.raises(OwnershipError, match="which runs; stop it first"):
            second.own(replace(ME, lock="3:3"), take_over=True)  # what lives here can be stopped
        keep(second, "by a command")  # acknowledgements, silences, "send again"
    keep(store, "by the owner")
    assert places(store) == {"by a command", "by the owner"}


def test_who_has_ended_is_followed_at_once(store: Store) -> None:
    store.own(ME)
    store.disown()
    with again(store) as second:
        second.own(ELSEWHERE)
        keep(second, "second")
        store.disown()  # once more, of nothing
        keep(second, "still")


def test_who_was_killed_on_this_machine_is_followed_at_once(store: Store) -> None:
    killed = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    dead = replace(ME, pid=killed.pid, started=owner.started(killed.pid), lock="9:9")
    store.own(dead)
    with again(store) as second:
        with pytest.raises(OwnershipError, match=f"pid {killed.pid} .*which runs"):
            second.own(ME)
        killed.kill()
        os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)  # nobody has asked yet what became of it
        second.own(ME)
    assert killed.stdin is not None
    killed.stdin.close()
    killed.wait()


@pytest.mark.parametrize(
    ("of_owner", "expected"),
    [
        ({}, "lives"),
        ({"started": "1"}, "gone"),  # the pid is another process by now
        ({"pid": 2**22 + 1}, "gone"),
        ({"lock": "1:1"}, "gone"),  # we hold what it held
        ({"lock": "1:1", "namespace": "pid:[1]"}, "gone"),
        ({"namespace": "pid:[1]"}, "unknown"),
        ({"boot": "before"}, "unknown"),
        ({"boot": ""}, "unknown"),
    ],
)
def test_what_is_known_of_an_owner(store: Store, of_owner: dict[str, Any], expected: str) -> None:
    store.own(replace(replace(ME, lock="5:5"), **of_owner))
    with store.engine.connect() as connection:
        row = owner._row(connection)
    assert row is not None
    assert owner.life_of(row, ME) == expected
    assert owner.life_of(row, replace(ME, boot="")) == "unknown"


def test_who_ran_elsewhere_is_followed_when_its_lease_is_over(store: Store) -> None:
    store.own(ELSEWHERE)
    with again(store) as second:
        with pytest.raises(OwnershipError, match=r"stream' with pid 77 on host other .*or at once with --take-over"):
            second.own(ME)
        renewed(store, LEASE_MS - 20_000)
        with pytest.raises(OwnershipError, match=r"alive 40 s ago.*start again in (19|20|21) s"):
            second.own(ME)
        renewed(store, LEASE_MS + 1)
        second.own(ME)
    with again(store) as third:
        third.own(replace(ELSEWHERE, pid=78), take_over=True)
        renewed(store, -10 * LEASE_MS)  # the database's clock was set back since
        with again(store) as fourth:
            fourth.own(ME)


def test_a_lease_is_renewed(store: Store) -> None:
    store.own(ELSEWHERE)
    renewed(store, 2 * LEASE_MS)
    store.renew()
    with again(store) as second, pytest.raises(OwnershipError, match="alive 0 s ago"):
        second.own(ME)


def test_who_lost_the_store_writes_nothing(store: Store) -> None:
    store.own(ELSEWHERE)
    keep(store, "before")
    with again(store) as second:
        second.own(ME, take_over=True)
        told = rf"writes nothing more to it: 'clustercep run' with pid {ME.pid} on host {ME.host} .*has taken it over"
        attempts: list[Callable[[], None]] = [lambda: keep(store, "after"), store.renew, store.check_owner]
        for attempt in attempts:
            with pytest.raises(OwnershipError, match=told):
                attempt()
        assert str(store.fatal).startswith("this process does not own the store any more")
        keep(second, "of the second")
        store.disown()  # takes nothing from the second
        keep(second, "later")
        assert places(second) == {"before", "of the second", "later"}


def test_a_take_over_waits_for_the_transaction_under_way(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.own(ELSEWHERE)
    monkeypatch.setattr("app.store.schema.BUSY_TIMEOUT_MS", 20)
    with again(store) as second:
        with store.transaction() as writer:
            writer.problems.add([NewProblem("test", "under way", "kind", "message")], 1)
            with pytest.raises(StoreError, match=r"locked|lock timeout"):
                second.own(ME, take_over=True)
        second.own(ME, take_over=True)
        with pytest.raises(OwnershipError):
            keep(store, "after")
    assert places(store) == {"under way"}


def test_a_database_that_was_restored_knows_the_owner_no_more(store: Store) -> None:
    store.own(ME)
    with store.engine.execution_options(writes=True).begin() as connection:
        connection.execute(text("DELETE FROM owner"))
    with pytest.raises(OwnershipError, match="nobody does, as one that was restored; start again"):
        keep(store, "after")


def test_a_store_in_use_is_not_migrated_by_others(empty_url: str) -> None:
    with open_store(empty_url) as store:
        store.own(ME)
        with store.engine.execution_options(writes=True).begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '0010'"))
        with pytest.raises(OwnershipError, match="which runs"):
            open_store(empty_url)
        with store.engine.execution_options(writes=True).begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = '0012'"))


def test_a_store_of_before_has_no_owner(empty_url: str) -> None:
    engine = open_database(empty_url, upgrade=False)
    with engine.begin() as connection:
        alembic.upgrade(alembic_config(connection), "0010")
    engine.dispose()
    with open_store(empty_url, by=ME) as store:
        keep(store, "here")


# ------------------------------------------------------------------ processes


def sharing(folder: Path, url: str | None = None) -> Settings:
    """Settings with a folder of their own and the first one's database."""
    settings = write_settings(folder)
    if url is None:
        return settings
    store = settings.store.model_copy(update={"url": None, "url_file": folder / "url"})
    (folder / "url").write_text(url)
    return settings.model_copy(update={"store": store})


def test_two_folders_of_one_database(tmp_path: Path) -> None:
    first = sharing(tmp_path / "first")
    url = f"sqlite:///{first.store.directory / 'clustercep.db'}"
    second = sharing(tmp_path / "second", url)
    (tmp_path / "third/store").mkdir(parents=True)
    with owned_store(first, "run") as store:
        (tmp_path / "third/store/clustercep.db").symlink_to(first.store.directory / "clustercep.db")
        for other in (second, sharing(tmp_path / "third")):
            told = rf"pid {os.getpid()} on host .*{tmp_path}/first/store"
            with pytest.raises(OwnershipError, match=told), owned_store(other, "run"):
                pass
        (tmp_path / "link").symlink_to(first.store.directory)
        linked = first.model_copy(update={"store": first.store.model_copy(update={"directory": tmp_path / "link"})})
        with (
            pytest.raises(AppError, match=rf"another clustercep .*'clustercep run' with pid {os.getpid()} on host"),
            owned_store(linked, "stream"),
        ):
            pass
        keep(store, "first")
    with owned_store(second, "run") as store:
        assert places(store) == {"first"}


def test_a_database_of_two_names_is_refused(tmp_path: Path) -> None:
    first = sharing(tmp_path / "first")
    with owned_store(first, "run"):
        pass
    other = sharing(tmp_path / "other")
    other.store.directory.mkdir()
    (other.store.directory / "clustercep.db").hardlink_to(first.store.directory / "clustercep.db")
    with pytest.raises(StoreError, match=r"has 2 names \(hard links\)"), owned_store(other, "run"):
        pass


def test_the_lock_says_who_holds_it(tmp_path: Path) -> None:
    with only_process(tmp_path, command="stream") as lock:
        told = rf"'clustercep stream' with pid {os.getpid()} on host .*; stop it first"
        with pytest.raises(AppError, match=told), only_process(tmp_path):
            pass
    with only_process(tmp_path) as same:
        assert same == lock


def taken_over(settings: Settings) -> None:
    with open_configured_store(settings, by=ELSEWHERE, take_over=True):
        pass


def test_a_step_of_who_lost_the_store_ends_the_process(tmp_path: Path) -> None:
    settings, clock = write_settings(tmp_path), SetClock(1_000_000)
    with open_configured_store(settings, by=replace(ME, boot="elsewhere, too")) as store:
        queries, passed_s = checked_queries(settings), lambda: clock.now_ms() / 1000
        runner = Runner(settings, queries, store, Notifier(store, {}, clock), clock, monotonic=passed_s)
        runner.step()
        before = store.checkpoint("live")
        assert before is not None
        files = {path: path.read_bytes() for path in (settings.store.directory / "checkpoints").iterdir()}
        taken_over(settings)
        for _ in range(2):
            clock.advance_to(clock.now_ms() + 60_000)
            with pytest.raises(OwnershipError, match="stream' with pid 77 on host other"):
                runner.step()
        with pytest.raises(OwnershipError):
            runner.go_back()
        after = store.checkpoint("live")
        assert after is not None
        assert (after.number, after.digest) == (before.number, before.digest)
        assert {path: path.read_bytes() for path in (settings.store.directory / "checkpoints").iterdir()} == files
        assert runner.outage is None
        with capture_logs() as lines:
            runner.clean()
        assert [line["event"] for line in lines] == ["retention has to wait for the next time"]
        runner.stop(1)


def test_the_process_ends_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = write_settings(tmp_path)
    monkeypatch.setattr("engine.warm_kernels", lambda: None)
    monkeypatch.setattr("app.process.owned_store.this_process", lambda *_: replace(ME, boot="elsewhere, too"))
    step = Runner.step

    def step_after_take_over(runner: Runner) -> None:
        taken_over(settings)
        step(runner)

    monkeypatch.setattr(Runner, "step", step_after_take_over)
    with pytest.raises(OwnershipError, match="stream' with pid 77 on host other"):
        run(settings, SetClock(1_000_000), ControlRequests(), lambda: check_all(tmp_path / "config.yaml"))


def test_the_renewal_tells_that_the_store_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, asked = write_settings(tmp_path), ControlRequests()
    monkeypatch.setattr("app.process.owned_store.RENEW_S", 0.001)
    monkeypatch.setattr("app.process.owned_store.this_process", lambda *_: replace(ME, boot="elsewhere, too"))
    with owned_store(settings, "run", on_lost=asked.stop):
        taken_over(settings)
        found = asked.next()
    assert isinstance(found, Stop)
    assert isinstance(found.failure, OwnershipError)


def test_who_lost_the_store_tells_nobody(store: Store) -> None:
    sent: list[str] = []
    fill_outbox(store, [FakeMatch(1, 2)], ops=receiver())
    store.own(ELSEWHERE)
    with again(store) as second:
        second.own(ME, take_over=True)

    def post(endpoint: Endpoint, message: Message, idempotency_key: str) -> None:
        del endpoint, message
        sent.append(idempotency_key)

    notifier = Notifier(store, {"ops": endpoint_of("ops", receiver(), "")}, SetClock(10**13), post=post)
    with capture_logs() as lines:
        notifier.start()
        (worker,) = notifier._workers.values()
        worker.join(120)
    notifier.stop()
    assert not worker.is_alive()
    assert not sent
    assert [line["event"] for line in lines] == ["another process tells it"]
    assert len(store.notifications("pending")) == 1


def test_people_go_on_beside_any_owner(store: Store) -> None:
    fill_outbox(store, [FakeMatch(1, 2)], ops=receiver())
    store.own(ELSEWHERE)
    with again(store) as commands:
        (alert,) = commands.alerts()
        operations.acknowledge(commands, alert.id, Person("me"), "", 5_000)
    assert store.alert(alert.id).alert.state == "acknowledged"


def test_a_lost_ownership_is_no_outage() -> None:
    assert outage_kind(OwnershipError("lost")) is None


def test_claimants_are_told_apart() -> None:
    assert this_process() == this_process()
    assert isinstance(ME, Claimant)
    assert ME.started == owner.started(os.getpid()) != ""
    assert owner.started(2**22 + 1) == ""
