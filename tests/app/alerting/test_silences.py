"""Silences stand beside firing and acknowledged: who is told what, against a definition; old stores are migrated."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from alembic import command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import JSON, Connection, column, select, table

from app.alerting import operations
from app.alerting.people import Person
from app.alerting.recording.recorder import Recorder
from app.errors import AppError
from app.store import Store, open_store
from app.store.api import AlertFilter
from app.store.migrations.applying import alembic_config, differences
from app.store.models import AlertChangeRow, AlertRow, SilenceRow
from app.store.schema import open_database
from tests.app.alerting_fixtures import GAP_MS, FakeMatch, hide, kept, options, receiver
from tests.app.silences import silencing_of
from tests.examples import examples

RECEIVERS = {"ops": receiver(), "pager": receiver(send_resolved=False)}
OPTIONS = options(**RECEIVERS)


def step(store: Store, matches: tuple[FakeMatch, ...], watermark_ms: int, now_ms: int) -> None:
    with store.transaction() as writer:
        Recorder(OPTIONS, writer, kept, now_ms).live(matches, watermark_ms)


def told(store: Store, name: str = "ops") -> list[str]:
    return [n.state for n in store.notifications() if n.receiver == name]


def standing(store: Store) -> list[tuple[str, bool]]:
    return [(alert.state, alert.silenced) for alert in store.alerts()]


def test_an_acknowledged_alert_is_acknowledged_after_its_silence_and_nobody_is_told(store: Store) -> None:
    step(store, (FakeMatch(10, 20),), 0, 1_000)
    (alert,) = store.alerts()
    operations.acknowledge(store, alert.id, Person("mia"), "mine", 1_001)
    assert operations.silence(store, alert.id, 500, Person("mia"), "until the disk is new", 1_002) == 1
    assert standing(store) == [("acknowledged", True)]
    step(store, (), 0, 2_000)
    assert standing(store) == [("acknowledged", False)]
    assert told(store) == ["firing"]
    history = [(c.from_state, c.to_state, c.silenced, c.actor) for c in store.alert(alert.id).changes]
    assert history == [
        (None, "firing", False, "clustercep"),
        ("firing", "acknowledged", False, "mia"),
        ("acknowledged", "acknowledged", True, "mia"),
        ("acknowledged", "acknowledged", False, "clustercep"),
    ]


def test_who_was_told_before_the_silence_is_not_told_again_after_it(store: Store) -> None:
    step(store, (FakeMatch(10, 20),), 0, 1_000)
    (alert,) = store.alerts()
    operations.silence(store, alert.id, 500, Person("mia"), "", 1_001)
    step(store, (), 0, 2_000)
    assert standing(store) == [("firing", False)]
    assert told(store) == ["firing"]


def test_what_resolves_while_silenced_is_told_after_the_silence_to_who_believes_that_it_fires(store: Store) -> None:
    step(store, (FakeMatch(10, 20),), 0, 1_000)
    (alert,) = store.alerts()
    operations.silence(store, alert.id, 500, Person("mia"), "", 1_001)
    step(store, (), 100, 1_100)
    assert told(store) == ["firing"]
    step(store, (), 100, 2_000)
    assert told(store) == ["firing", "resolved"]
    assert told(store, "pager") == ["firing"]
    assert standing(store) == [("resolved", False)]


def test_what_is_over_when_its_silence_ends_is_not_told_to_fire(store: Store) -> None:
    with store.transaction() as writer:
        hide(Recorder(OPTIONS, writer, kept, 100), silencing_of("slow", None, 500))
    step(store, (FakeMatch(10, 20),), 0, 200)
    step(store, (), 100, 600)
    assert standing(store) == [("resolved", False)]
    assert told(store) == []


def test_a_silenced_alert_can_be_acknowledged_once(store: Store) -> None:
    step(store, (FakeMatch(10, 20),), 0, 1_000)
    (alert,) = store.alerts()
    operations.silence(store, alert.id, 500, Person("mia"), "", 1_001)
    operations.acknowledge(store, alert.id, Person("mia"), "", 1_002)
    assert standing(store) == [("acknowledged", True)]
    with pytest.raises(AppError, match="it is acknowledged; only firing alerts can be acknowledged"):
        operations.acknowledge(store, alert.id, Person("mia"), "", 1_003)


def test_silenced_is_a_filter_beside_the_states(any_store: Store) -> None:
    store = any_store
    step(store, tuple(FakeMatch(10, 20, key=(("task_id", task),)) for task in "abcd"), 0, 1_000)
    alerts = {str(alert.key["task_id"]): alert.id for alert in store.alerts()}
    operations.silence(store, alerts["a"], 500, Person("mia"), "", 1_001)
    operations.acknowledge(store, alerts["b"], Person("mia"), "", 1_001)
    operations.silence(store, alerts["b"], 500, Person("mia"), "", 1_001)
    operations.acknowledge(store, alerts["c"], Person("mia"), "", 1_001)

    def found(*states: str) -> str:
        return "".join(sorted(alert.key["task_id"] for alert in store.alerts(AlertFilter(states=states))))

    assert (found("firing"), found("acknowledged"), found("silenced")) == ("ad", "bc", "ab")
    assert (found("firing", "silenced"), found("silenced", "resolved"), found("resolved")) == ("abd", "ab", "")
    assert store.n_open_alerts() == {
        ("firing", False, "warning"): 1,
        ("firing", True, "warning"): 1,
        ("acknowledged", False, "warning"): 1,
        ("acknowledged", True, "warning"): 1,
    }


# ------------------------------------------------------------------ definition


@dataclass
class Told:
    """A definition of who is told what of one alert, from the sequence of what happened.

    The alert is what its last match and the watermark make of it. A receiver holds a belief: whether it fires. At the
    end of each step that is not silenced, a receiver is told of what it does not believe: that a firing alert fires,
    when it was not told so since it began to fire; that a resolved one is over, when it believes the contrary.
    """

    log: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in RECEIVERS})
    state: str = ""
    end_ms: int = -1
    silences: list[list[int]] = field(default_factory=list)
    """[from, until) in the pipeline's time."""
    told_since: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(RECEIVERS, False))

    def silenced(self, now_ms: int) -> bool:
        return any(start_ms <= now_ms < until_ms for start_ms, until_ms in self.silences)

    def fires(self) -> None:
        self.state = "firing"
        self.told_since = dict.fromkeys(RECEIVERS, False)

    def step(self, match: tuple[int, int] | None, watermark_ms: int, now_ms: int) -> None:
        if match is not None:
            grew, self.end_ms = match[1] > self.end_ms, max(self.end_ms, match[1])
            is_over = self.end_ms + GAP_MS < watermark_ms
            if self.state == "" or (self.state == "resolved" and grew and not is_over):
                self.fires()
                self.tell(now_ms)  # what fires and is over within one step is told as both
        if self.state not in ("", "resolved") and self.end_ms + GAP_MS < watermark_ms:
            self.state = "resolved"
        self.tell(now_ms)

    def tell(self, now_ms: int) -> None:
        if self.silenced(now_ms):
            return
        for name, wanted in RECEIVERS.items():
            log = self.log[name]
            if self.state == "firing" and not self.told_since[name]:
                log.append("firing")
                self.told_since[name] = True
            elif self.state == "resolved" and wanted.send_resolved and log[-1:] == ["firing"]:
                log.append("resolved")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("match"), st.integers(0, 12), st.integers(0, 25)),
        st.tuples(st.just("watermark"), st.integers(0, 12), st.integers(0, 25)),
        st.tuples(st.just("wait"), st.integers(1, 30), st.just(0)),
        st.tuples(st.just("acknowledge"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("silence"), st.integers(0, 3), st.integers(1, 40)),
        st.tuples(st.just("silence all"), st.integers(0, 3), st.integers(1, 40)),
        st.tuples(st.just("end a silence"), st.integers(0, 3), st.integers(0, 3)),
    ),
    max_size=14,
)


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
def test_who_is_told_what(any_store: Store, steps: list[tuple[str, int, int]]) -> None:
    """Matches, time and people in any order: one alert, since each match overlaps the one before it."""
    store = any_store
    with store.transaction() as writer:
        writer.session.query(AlertRow).delete()
        writer.session.query(SilenceRow).delete()
    model, now_ms, watermark_ms = Told(), 1_000, 0
    with store.transaction() as writer:
        hide(Recorder(OPTIONS, writer, kept, 0), silencing_of("other", None, 10_000))  # never matters
    for what, passes_ms, n in steps:
        now_ms += passes_ms
        alerts = store.alerts()
        if what in ("match", "watermark", "wait"):
            match = (0, max(model.end_ms, n)) if what == "match" else None
            watermark_ms = max(watermark_ms, model.end_ms + n) if what == "watermark" else watermark_ms
            matches = () if match is None else (FakeMatch(*match),)
            step(store, matches, watermark_ms, now_ms)
            model.step(match, watermark_ms, now_ms)
        elif what == "end a silence":
            held = [i for i, (_, until_ms) in enumerate(model.silences) if until_ms > now_ms]
            if held:
                chosen = held[n % len(held)]
                numbers = [row.id for row in store.silences(now_ms) if row.matchers[0][2] == "slow"]
                operations.end_silence(store, numbers[n % len(held)], Person("mia"), now_ms)
                model.silences[chosen][1] = now_ms
        elif alerts and what == "acknowledge":
            if model.state == "firing":
                operations.acknowledge(store, alerts[0].id, Person("mia"), "", now_ms)
                model.state = "acknowledged"
            else:
                with pytest.raises(AppError, match="only firing alerts"):
                    operations.acknowledge(store, alerts[0].id, Person("mia"), "", now_ms)
        elif alerts:
            operations.silence(store, alerts[0].id, n, Person("mia"), "", now_ms, every_key=what == "silence all")
            model.silences.append([now_ms, now_ms + n])
        assert {name: told(store, name) for name in RECEIVERS} == model.log
        assert [alert.state for alert in store.alerts()] == ([model.state] if model.state else [])
        if what in ("match", "watermark", "wait") and model.state not in ("", "resolved"):
            assert [alert.silenced for alert in store.alerts()] == [model.silenced(now_ms)]
            assert len(store.alerts(AlertFilter(states=("silenced",)))) == model.silenced(now_ms)


# ------------------------------------------------------------------- migration

HISTORIES = {
    # what the store said before: (from, to) of each change; what each change is now: (from, to, whether silenced)
    "a": ([(None, "silenced")], [(None, "firing", True)]),
    "b": (
        [(None, "firing"), ("firing", "acknowledged"), ("acknowledged", "silenced")],
        [(None, "firing", False), ("firing", "acknowledged", False), ("acknowledged", "acknowledged", True)],
    ),
    "c": (
        [(None, "silenced"), ("silenced", "acknowledged")],
        [(None, "firing", True), ("firing", "acknowledged", True)],
    ),
    "d": (
        [(None, "firing"), ("firing", "silenced"), ("silenced", "resolved")],
        [(None, "firing", False), ("firing", "firing", True), ("firing", "resolved", False)],
    ),
    "e": (
        [(None, "firing"), ("firing", "resolved"), ("resolved", "silenced")],
        [(None, "firing", False), ("firing", "resolved", False), ("resolved", "firing", True)],
    ),
    "f": (
        [(None, "silenced"), ("silenced", "firing"), ("firing", "acknowledged")],
        [(None, "firing", True), ("firing", "firing", False), ("firing", "acknowledged", False)],
    ),
    "g": ([], []),
}


def test_existing_alerts_are_again_what_they_were_before_their_silence(empty_url: str) -> None:
    engine = open_database(empty_url, upgrade=False)
    with engine.execution_options(writes=True).begin() as connection:
        command.upgrade(alembic_config(connection), "0007")  # the last version that knew silenced as a state
        for name, (changes, _) in HISTORIES.items():
            state = changes[-1][1] if changes else "silenced"
            put(connection, "alerts", old_alert(name, state))
            for number, (from_state, to_state) in enumerate(changes, 1):
                row = {"alert_id": name, "revision": number, "from_state": from_state, "to_state": to_state}
                put(connection, "alert_changes", {**row, "at_ms": number, "reason": "", "actor": "mia"})
    engine.dispose()
    with open_store(empty_url) as store:
        assert differences(store.engine) == []
        for name, (_, changes) in HISTORIES.items():
            with store.transaction() as writer:
                alert = writer.alerts.get(name)
                rows = writer.session.scalars(select(AlertChangeRow).where(AlertChangeRow.alert_id == name))
                found = [(c.from_state, c.to_state, c.silenced) for c in rows]
            assert alert is not None
            assert found == changes
            assert (alert.state, alert.silenced) == (changes[-1][1:] if changes else ("firing", True))
        assert "".join(sorted(alert.id for alert in store.alerts(AlertFilter(states=("silenced",))))) == "abceg"
        # No silence is left: whoever was not told is told of what fires, and of nothing else.
        step(store, (), 0, 10_000)
        assert "".join(sorted(n.alert_id for n in store.notifications() if n.receiver == "ops")) == "aeg"


def put(connection: Connection, name: str, row: dict[str, object]) -> None:
    columns = [column(key, JSON() if isinstance(value, dict) else None) for key, value in row.items()]
    connection.execute(table(name, *columns).insert(), row)


def old_alert(name: str, state: str) -> dict[str, object]:
    """As a version wrote it that knew silenced as a state."""
    return {
        **{"id": name, "query": "slow", "query_hash": "h1", "key": {"task_id": name}, "key_text": name},
        **{"severity": "warning", "state": state, "open": state != "resolved", "start_ms": 10, "end_ms": 20},
        **{"group_gap_ms": GAP_MS, "revision": 3, "n_matches": 1, "n_matches_exact": True, "best_confidence": 1.0},
        **{"values": {}, "summary": name, "runbook": "", "best_n_events": 1, "lane": "live"},
        **{"created_ms": 1, "updated_ms": 1},
    }
