"""Incidents on the main path, with the engine: also over restarts and crashes between any two parts of a step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import engine
from app.alerting.recording.options import AlertingOptions
from app.live.bound_matches import BoundMatches
from app.queries.loading import Loaded, load_queries
from app.settings import Queries
from app.store import Store, open_store
from collectors.schema import load_event_types
from tests.app.alerting_fixtures import receiver
from tests.app.pipeline_fixtures import Process, Script, event, start

SCHEMA = load_event_types()
FAILS = """PATTERN MapEnd a WHERE skip_till_any_match { [task_id] AND a.status = 'FAILED' } WITHIN 1 s
RETURN a.host, a.period_ms ALERT warning 'task {task_id} failed on {host}' GROUP_GAP 60 ms"""
TOGETHER = """PATTERN SEQ(fails a, fails b)
WHERE skip_till_any_match { [host] AND a.task_id != b.task_id } WITHIN 50 ms
RETURN a.period_ms + b.period_ms AS lost_ms
INCIDENT warning 'tasks fail on {host}' HOSTS SUSPECT host GROUP_GAP 60 ms"""


def failed(task: str, at_ms: int, host: str = "n1") -> tuple[int, dict[str, Any]]:
    """What a source has from then on."""
    return at_ms, event(f"{task}-{at_ms}", at_ms, task_id=task, host=host, status="FAILED", period_ms=at_ms)


ROWS = [
    failed("t1", 12), failed("t2", 35), failed("t3", 38, "n2"), failed("t2", 58), failed("t4", 61), failed("t1", 95),
    failed("t5", 210, "n2"), failed("t6", 213, "n2"),
]  # fmt: skip
END_MS = 420


@pytest.fixture
def loaded(tmp_path: Path) -> Loaded:
    folder = tmp_path / "queries"
    folder.mkdir()
    (folder / "fails.cep").write_text(FAILS)
    (folder / "together.cep").write_text(TOGETHER)
    (folder / "RUNBOOK.md").write_text("# fails\nLook.\n# together\nLook at the host.\n")
    found = load_queries(Queries(directory=folder), 60)
    assert not found.problems
    return found


class CrashError(Exception):
    """The process ends here."""


@dataclass
class Crashing:
    """Fails the n-th time that a part of a step begins."""

    at: int
    n_seen: int = 0
    names: list[str] = field(default_factory=list)

    def __call__(self, name: str) -> None:
        self.n_seen += 1
        self.names.append(name)
        if self.n_seen == self.at:
            raise CrashError(name)


def process(store: Store, folder: Path, loaded: Loaded, now_ms: int, **options: Any) -> Process:
    alerting = AlertingOptions(loaded.infos, {"ops": receiver()})
    script = Script("rest", ROWS)
    made = start(
        store, folder, [script], now_ms=now_ms, alerting=alerting, matcher=engine.Engine(loaded.compiled, SCHEMA),
        bound_matches=BoundMatches(loaded.infos), **options,
    )  # fmt: skip
    made.pipeline.most_alerts = 1
    return made


def steps(made: Process, from_ms: int) -> Iterator[int]:
    """Poll and step until nothing is left; yields the time of each."""
    for now_ms in range(from_ms, END_MS + 1, 10):
        for source in made.sources.values():
            made.pipeline.intake.put(source.poll(now_ms))
        made.pipeline.step(now_ms)
        while made.pipeline.unstored is not None:
            made.pipeline.step(now_ms)
        yield now_ms


def content(store: Store) -> dict[str, Any]:
    """What a user sees, and a receiver."""
    alerts = {alert.id: alert for alert in store.alerts()}
    with store.transaction() as writer:
        members = {
            alert.summary: sorted(of.summary for of in writer.incidents.members(alert.id))
            for alert in alerts.values()
            if alert.is_incident
        }
    messages = sorted(store.notifications(), key=lambda message: message.sequence)
    return {
        "alerts": sorted((a.id, a.summary, a.state, a.inhibited, a.incident_id or "") for a in alerts.values()),
        "members": members,
        "told": sorted((n.idempotency_key, alerts[n.alert_id].summary, n.state) for n in messages),
        "evidence": {a.summary: [(e.type, e.attributes) for e in store.alert(a.id).evidence] for a in alerts.values()},
    }


def whole(folder: Path, loaded: Loaded) -> dict[str, Any]:
    with open_store(f"sqlite:///{folder / 'whole.db'}", durable=False) as store:
        for _ in steps(process(store, folder / "whole", loaded, 0), 0):
            pass
        return content(store)


def test_an_incident_binds_its_alerts_and_shows_their_matches(tmp_path: Path, loaded: Loaded) -> None:
    found = whole(tmp_path, loaded)
    assert found["members"] == {
        "tasks fail on n1": [f"task {task} failed on n1" for task in ("t1", "t1", "t2", "t4")],  # t1 twice
        "tasks fail on n2": ["task t5 failed on n2", "task t6 failed on n2"],
    }
    told = sorted((summary, state) for _, summary, state in found["told"])
    assert told == [
        ("task t1 failed on n1", "firing"),  # before the others failed
        ("task t1 failed on n1", "resolved"),
        ("task t3 failed on n2", "firing"),
        ("task t3 failed on n2", "resolved"),
        ("tasks fail on n1", "firing"),
        ("tasks fail on n1", "resolved"),
        ("tasks fail on n2", "firing"),
        ("tasks fail on n2", "resolved"),
    ]
    for event_type, attributes in found["evidence"]["tasks fail on n2"]:
        assert (event_type, attributes["host"]) == ("fails", "n2")


@pytest.mark.parametrize("n_steps", [2, 3])
def test_restarts_after_every_few_steps_change_nothing(tmp_path: Path, loaded: Loaded, n_steps: int) -> None:
    expected = whole(tmp_path, loaded)
    with open_store(f"sqlite:///{tmp_path / 'cut.db'}", durable=False) as store:
        for now_ms in range(0, END_MS + 1, 10 * n_steps):
            made = steps(process(store, tmp_path / "cut", loaded, now_ms), now_ms)
            assert len(list(islice(made, n_steps))) > 0
        assert content(store) == expected


def test_a_crash_between_any_two_parts_of_a_step_changes_nothing(tmp_path: Path, loaded: Loaded) -> None:
    expected = whole(tmp_path, loaded)
    counting = Crashing(at=-1)
    with open_store(f"sqlite:///{tmp_path / 'count.db'}", durable=False) as store:
        for _ in steps(process(store, tmp_path / "count", loaded, 0, boundary=counting), 0):
            pass
    around = [at for at, name in enumerate(counting.names, 1) if name in ("store", "commit", "part", "commit part")]
    for at in around[:: max(1, len(around) // 6)]:
        with open_store(f"sqlite:///{tmp_path / f'{at}.db'}", durable=False) as store:
            crashing, now_ms = Crashing(at), 0
            with suppress(CrashError):
                for done_ms in steps(process(store, tmp_path / str(at), loaded, 0, boundary=crashing), 0):
                    now_ms = done_ms
            assert crashing.n_seen == at
            for _ in steps(process(store, tmp_path / str(at), loaded, now_ms + 10), now_ms + 10):
                pass
            assert content(store) == expected, counting.names[at - 1]


def test_matches_are_forgotten_when_no_incident_can_come_of_them(tmp_path: Path, loaded: Loaded) -> None:
    with open_store(f"sqlite:///{tmp_path / 'a.db'}", durable=False) as store:
        made = process(store, tmp_path / "a", loaded, 0)
        kept = {now_ms: len(made.pipeline.bound_matches) for now_ms in steps(made, 0)}
    assert max(kept.values()) >= 3
    loaded_reach_ms = loaded.infos["together"].within_ms
    assert loaded_reach_ms is not None
    assert kept[END_MS] == (8 if loaded_reach_ms >= END_MS else 0)
