"""A database older than the checkpoints: it goes on from one that both have, or is refused; no alert gets two keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from app.errors import CheckpointError, StoreError
from app.live.checkpoint import KEPT
from app.store import Store, open_store
from engine.events import EventBatch
from tests.app.alerting_fixtures import FakeMatch
from tests.app.live.test_pipeline import content, scripts, task, uninterrupted, without_polls
from tests.app.pipeline_fixtures import PairMatcher, Process, Script, logged, start
from tests.app.process.test_outages import World
from tests.app.set_back import Rows, backup, restore
from tests.new_store import placed


@pytest.fixture
def store(any_store: Store) -> Store:
    """Of every kind."""
    return any_store


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run that nothing disturbs leaves; not to be changed."""
    return uninterrupted(tmp_path_factory.mktemp("uninterrupted"))


def keys(store: Store) -> set[str]:
    return {message.idempotency_key for message in store.notifications()}


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def ran(store: Store, folder: Path, until_ms: int, backup_ms: int) -> Rows:
    """A process that makes a step every 10 ms and ends; what its database held at a time."""
    process = start(store, folder, scripts())
    process.run(0, backup_ms)
    rows = backup(store)
    process.run(backup_ms + 10, until_ms)
    return rows


@pytest.mark.in_turn(of=3)
@pytest.mark.parametrize("until_ms", [70, 80, 130, 140])
@pytest.mark.parametrize("n_lost", range(KEPT))
def test_it_goes_on_from_a_checkpoint_that_both_have(
    store: Store, tmp_path: Path, expected: dict[str, Any], until_ms: int, n_lost: int
) -> None:
    rows = ran(store, tmp_path / "checkpoints", until_ms, until_ms - 10 * n_lost)
    told = keys(store)
    restore(store, rows)
    start(store, tmp_path / "checkpoints", scripts(), now_ms=until_ms + 10).run(until_ms + 10, 200)
    found = without_polls(content(store, tmp_path / "checkpoints"))
    assert {**found, "late": []} == without_polls(expected)
    assert told <= keys(store)
    kinds = {problem.kind: problem.message for problem in store.problems()}
    # The newest file alone does not say whether its step was committed.
    assert ("store_set_back" in kinds) == (n_lost >= 2)
    if n_lost >= 2:
        last = until_ms // 10
        assert f"from step {last} to step {last + 1 - n_lost} of 1970-01-01" in kinds["store_set_back"]


def test_it_refuses_when_it_has_none_of_them(store: Store, tmp_path: Path, expected: dict[str, Any]) -> None:
    folder = tmp_path / "folder"
    rows = ran(store, folder, 130, 130 - 10 * KEPT)
    newest = backup(store)
    restore(store, rows)
    before = files(folder)
    refused = (
        r"database stands at checkpoint 11 of 1970-\S+, \S+ holds 12 to 14: the database is older, as one restored "
        r"from a backup, or a standby.* Put the newer database back; or .*--forget-position"
    )
    for _ in range(2):
        with pytest.raises(CheckpointError, match=refused):
            start(store, folder, scripts(), now_ms=140)
    assert files(folder) == before, "nothing of the event log goes: the newer database may come back"
    restore(store, newest)
    process = start(store, folder, scripts(), now_ms=140)
    process.run(140, 200)
    assert without_polls(content(store, folder)) == without_polls(expected)


def test_a_folder_that_is_older_is_refused(store: Store, tmp_path: Path) -> None:
    process = start(store, tmp_path / "folder", scripts())
    process.run(0, 50)
    old = files(tmp_path / "folder")
    process.run(60, 130)
    for path in (tmp_path / "folder").glob("*.*"):
        path.unlink()
    for name, data in old.items():
        (tmp_path / "folder" / name).write_bytes(data)
    with pytest.raises(
        CheckpointError, match=r"stands at checkpoint 14 .* holds 4 to 6: the folder is older; put back"
    ):
        start(store, tmp_path / "folder", scripts(), now_ms=140)


def test_a_folder_without_checkpoints_is_refused_with_the_place_of_the_last(store: Store, tmp_path: Path) -> None:
    start(store, tmp_path / "first", scripts()).run(0, 50)
    with pytest.raises(CheckpointError, match=rf"second holds none; it was written to \S+:{tmp_path}/first: start"):
        start(store, tmp_path / "second", scripts(), now_ms=60)


def test_checkpoints_of_another_start_are_refused(store: Store, tmp_path: Path) -> None:
    start(store, tmp_path / "first", scripts()).run(0, 50)
    with open_store(placed(tmp_path / "other.db")) as other:
        start(other, tmp_path / "second", scripts()).run(0, 50)
    with pytest.raises(CheckpointError, match=r"checkpoint-000000000006\.arrow is of another start than the database"):
        start(store, tmp_path / "second", scripts(), now_ms=60)


def test_a_step_does_not_follow_another_databases_step(store: Store, tmp_path: Path) -> None:
    """Connections are made anew by themselves: that the database behind them is another one must show."""
    process = start(store, tmp_path, scripts())
    process.run(0, 70)
    rows = backup(store)
    process.run(80, 80)
    told = content(store, tmp_path)
    restore(store, rows)
    with pytest.raises(StoreError, match="stands at step 8, this process at 9: the database was replaced"):
        process.run(90, 90)
    restore(store, {**rows, "checkpoints": []})
    with pytest.raises(StoreError, match="stands at step 0, this process at 9"):
        process.run(100, 100)
    assert told["alerts"]


def test_a_database_that_is_set_back_under_a_running_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: dict[str, Any]
) -> None:
    world, rows = World(tmp_path, monkeypatch), dict[int, Rows]()

    def each(now_ms: int) -> None:
        rows[now_ms] = backup(world.store)
        if now_ms == 120:
            restore(world.store, rows[110])

    world.run(200, each)
    found = without_polls(content(world.store, tmp_path / "checkpoints"))
    assert found == without_polls(expected)
    told = {kind: message for _, kind, _, message in world.problems()}
    assert "this process at 12: the database was replaced" in told["store_outage"]
    assert "set back from step 12 to step 11" in told["store_set_back"]
    world.store.close()


class ListedMatcher(PairMatcher):
    """Matches that are decided at given times."""

    def __init__(self, decided: Sequence[tuple[int, FakeMatch]]) -> None:
        super().__init__()
        self._decided = decided
        self._at_ms = -1

    def process(self, events: EventBatch, watermark_ms: int) -> list[FakeMatch]:
        before_ms, self._at_ms = self._at_ms, watermark_ms
        return [match for at_ms, match in self._decided if before_ms < at_ms <= watermark_ms]

    def save(self) -> dict[str, pa.Table]:
        return {"at": pa.table({"ms": [self._at_ms]})}

    def restore(self, state: Mapping[str, pa.Table]) -> frozenset[str]:
        (self._at_ms,) = state["at"]["ms"].to_pylist()
        return frozenset()

    def take_silent(self) -> list[FakeMatch]:
        return []

    def warm_up(self, names: Collection[str], events: EventBatch) -> None:
        raise AssertionError


@pytest.mark.parametrize("again", [False, True])
def test_an_alert_that_the_database_forgot_keeps_its_id(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """Made again in one step with what was decided after it, it would begin earlier and be another one; `again`: the
    process ends once more before it comes to it."""
    decided = [(85, FakeMatch(60, 80)), (95, FakeMatch(50, 90))]
    monkeypatch.setattr("tests.app.pipeline_fixtures.PairMatcher", lambda: ListedMatcher(decided))

    def started(now_ms: int) -> Process:
        return start(store, tmp_path, [Script("yarn_rest", task("t", 1, 2))], now_ms=now_ms)

    process = started(0)
    process.run(0, 80)
    rows = backup(store)
    process.run(90, 100)
    told: dict[str, Any] = {alert.id: (alert.start_ms, alert.end_ms) for alert in store.alerts()}
    assert list(told.values()) == [(50, 90)]
    restore(store, rows)
    assert store.alerts() == []
    if again:
        started(110).pipeline.step(80)  # nothing was polled: the watermark stays
        assert store.alerts() == []
    started(120).run(120, 120)
    assert {alert.id: (alert.start_ms, alert.end_ms) for alert in store.alerts()} == told


def test_the_event_log_follows(store: Store, tmp_path: Path, expected: dict[str, Any]) -> None:
    rows = ran(store, tmp_path, 140, 120)
    restore(store, rows)
    start(store, tmp_path, scripts(), now_ms=150).run(150, 200)
    log = logged(store, tmp_path)
    assert len(log) == len(set(log))
    assert sorted(log) == sorted(expected["event log"])
