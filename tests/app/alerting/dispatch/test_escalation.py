"""A second receiver is told of what nobody acknowledges, once, whatever is restarted meanwhile."""

from __future__ import annotations

import pytest
import yaml
from sqlalchemy import event

from app.alerting.dispatch.routes import Routing
from app.alerting.operations import silence, unacknowledge
from app.alerting.people import Person
from app.settings import Alerting
from app.store import Store
from app.store.writing.groups import Member
from tests.app.alerting.dispatch.world import MINUTE_MS, TREE, Told, World

ESCALATED = TREE + "  escalate_to: db\n  escalate_after: 15m\n"
WAIT_MS = 30_000


def wait(world: World, ms: int) -> list[Told]:
    """Time passes, with a new process every minute."""
    told: list[Told] = []
    for _ in range(ms // MINUTE_MS):
        told += world.wait(MINUTE_MS)
        world.restart()
    return told


def test_who_does_not_acknowledge_is_helped(any_store: Store) -> None:
    world = World(any_store, ESCALATED)
    world.fire("t1", "t2")
    assert [receiver for receiver, *_ in world.wait(WAIT_MS + 5_000)] == ["ops"]
    assert world.wait(14 * MINUTE_MS) == []
    told = world.wait(2 * MINUTE_MS)
    assert told == [("db", "first notification", {"t1": "firing", "t2": "firing"})]
    assert world.wait(60 * MINUTE_MS) == []
    world.end()
    over = {"t1": "resolved", "t2": "resolved"}
    ended = sorted(world.wait(10 * MINUTE_MS))
    assert ended == [("db", "all alerts resolved", over), ("ops", "all alerts resolved", over)]


def test_restarts_neither_forget_the_timer_nor_begin_it_anew(store: Store) -> None:
    world = World(store, ESCALATED)
    world.fire("t1")
    told = wait(world, 15 * MINUTE_MS)
    assert [receiver for receiver, *_ in told] == ["ops"]
    assert wait(world, MINUTE_MS) == [("db", "first notification", {"t1": "firing"})]
    assert wait(world, 30 * MINUTE_MS) == []


def test_acknowledged_alerts_are_never_escalated(any_store: Store) -> None:
    world = World(any_store, ESCALATED)
    world.fire("t1", "t2")
    world.wait(10 * MINUTE_MS)
    world.acknowledge("t1")
    assert world.wait(20 * MINUTE_MS) == [("db", "first notification", {"t2": "firing"})]


def test_who_acknowledges_no_longer_has_as_much_time_again(any_store: Store) -> None:
    world = World(any_store, ESCALATED)
    world.fire("t1")
    world.wait(10 * MINUTE_MS)
    world.acknowledge("t1")
    world.wait(30 * MINUTE_MS)
    (alert,) = any_store.alerts()
    unacknowledge(any_store, alert.id, Person("ann"), "not mine", world.now_ms)
    world.step(watermark_ms=0)
    assert world.wait(14 * MINUTE_MS) == []
    assert world.wait(10 * MINUTE_MS) == [("db", "first notification", {"t1": "firing"})]


@pytest.mark.parametrize("refuses", ["enabled: false", "min_severity: critical"])
def test_a_second_receiver_that_wants_none_is_told_once_it_does(store: Store, refuses: str) -> None:
    refusing = ESCALATED.replace('9/db"', f'9/db", {refuses}')
    assert refusing != ESCALATED
    world = World(store, refusing)
    world.fire("t1")
    told = world.wait(60 * MINUTE_MS)
    assert [receiver for receiver, *_ in told] == ["ops"]
    assert {group.receiver for group in store.alert_groups()} == {"ops"}
    world.configure(ESCALATED)
    assert world.wait(6 * MINUTE_MS) == [("db", "first notification", {"t1": "firing"})]


def statements_of_escalation(store: Store, n_groups: int) -> int:
    """How many statements it takes to look at so many groups whose alerts are escalated."""
    world = World(store, ESCALATED.replace("[alertname]", "['...']"))
    world.fire(*(f"{n_groups}-{number}" for number in range(n_groups)))
    world.wait(10 * MINUTE_MS)
    world.clock.advance_to(world.now_ms + 10 * MINUTE_MS)
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        statements.append(statement)

    event.listen(store.engine, "before_cursor_execute", note)
    world.dispatcher.dispatch_due()
    event.remove(store.engine, "before_cursor_execute", note)
    assert [receiver for receiver, *_ in world.new_messages()] == ["db"] * n_groups
    world.end()
    world.wait(60 * MINUTE_MS)
    return len(statements)


def test_many_groups_are_escalated_with_the_statements_of_a_few(store: Store) -> None:
    assert statements_of_escalation(store, 12) == statements_of_escalation(store, 3)


def test_members_of_a_group_are_not_compared_with_each_other(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands it would take minutes, while steps wait."""
    monkeypatch.setattr(Member, "__eq__", lambda *_: pytest.fail("members were compared"))
    world = World(store, ESCALATED)
    world.fire("t1", "t2", "t3")
    told = world.wait(20 * MINUTE_MS)
    assert [receiver for receiver, *_ in told] == ["ops", "db"]


def test_what_is_over_or_silenced_is_not_escalated(store: Store) -> None:
    world = World(store, ESCALATED)
    world.fire("t1")
    world.wait(MINUTE_MS)
    world.end()
    told = world.wait(20 * MINUTE_MS)
    world.fire("t2")
    told += world.wait(MINUTE_MS)
    (second,) = [alert for alert in store.alerts() if alert.key["task_id"] == "t2"]
    silence(store, second.id, 60 * MINUTE_MS, Person("ann"), "known", world.now_ms)
    told += world.wait(20 * MINUTE_MS)
    assert [receiver for receiver, *_ in told] == ["ops"] * 2


def test_a_clock_that_is_set_back_keeps_nobody_waiting(store: Store) -> None:
    world = World(store, ESCALATED)
    world.fire("t1")
    world.wait(MINUTE_MS)
    with store.transaction() as writer:
        (group,) = store.alert_groups()
        writer.groups.set_timers([(group.id, store.alerts()[0].id, world.now_ms + 10**9)])
    told = world.wait(21 * MINUTE_MS)
    assert [receiver for receiver, *_ in told] == ["db"]


def test_a_route_has_it_from_above_and_may_have_its_own(store: Store) -> None:
    tree = (
        ESCALATED
        + "  routes:\n    - {matchers: [severity=critical], receiver: db, escalate_to: ops, escalate_after: 1m}\n"
    )
    routing = Routing.of(Alerting.model_validate(yaml.safe_load(tree + "    - {matchers: [severity=info]}\n")))
    assert routing is not None
    found = [route.escalation for route in routing.root.routes]
    told = [(of.after_ms, of.route.receiver) for of in found if of is not None]
    assert told == [(MINUTE_MS, "ops"), (15 * MINUTE_MS, "db")]


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("escalate_to: db", "route.escalate_to: found it without escalate_after"),
        ("escalate_after: 1m", "route.escalate_after: found it without escalate_to"),
        ("{escalate_to: dbx, escalate_after: 1m}", "there is no receiver 'dbx'"),
    ],
)
def test_half_an_escalation_is_refused(option: str, complaint: str) -> None:
    section = yaml.safe_load(TREE)
    section["route"] |= yaml.safe_load(option)
    with pytest.raises(ValueError, match=complaint):
        Alerting.model_validate(section)
