"""Large groups are read before their transaction; what is told is as if they had been read in it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event, text

from app.alerting.dispatch import dispatcher
from app.alerting.dispatch.look import Look
from app.alerting.operations import silence
from app.alerting.people import Person
from app.store import Store
from tests.app.alerting.dispatch.world import MINUTE_MS, START_MS, TREE, World

N_LOOKS = 40
TASKS = [f"t{number}" for number in range(6)]
WITH_RULES = (
    TREE.replace("group_by: [alertname]", "group_by: [severity]").replace("repeat_interval: 4h", "repeat_interval: 20m")
    + """
  escalate_to: db
  escalate_after: 7m
inhibit_rules:
- {source_matchers: ['alertname="node-lost"'], target_matchers: ['alertname="slow"'], equal: [task_id]}
"""
)
Change = Callable[[World], object]


def changes(drawn: random.Random) -> Change:
    """What happens in one moment."""
    kind, tasks = drawn.randrange(8), drawn.sample(TASKS, drawn.randint(1, 4))
    query, place = drawn.choice(["slow", "slow", "node-lost", "chatty"]), drawn.random()

    def someone(world: World, act: Callable[[Any], object]) -> None:
        firing = sorted((a for a in world.store.alerts() if a.state == "firing"), key=lambda a: a.id)
        if firing:
            act(firing[int(place * len(firing))])

    return [
        lambda world: world.fire(*tasks, query=query),
        lambda world: world.fire(*tasks, query=query),
        lambda world: world.fire(*tasks, query="slow"),
        World.end,
        lambda world: someone(world, lambda alert: world.acknowledge(alert.key["task_id"], alert.query)),
        lambda world: someone(
            world, lambda alert: silence(world.store, alert.id, 12 * MINUTE_MS, Person("ann"), "", world.now_ms)
        ),
        lambda world: world.step(watermark_ms=0),
        lambda _world: None,
    ][kind]


def rows_of(world: World) -> list[list[tuple[Any, ...]]]:
    """Messages, groups and members."""
    with world.store.engine.connect() as connection:
        return [
            [tuple(row) for row in connection.execute(text(f"SELECT * FROM {table} ORDER BY 1, 2"))]
            for table in ("notifications", "alert_groups", "alert_group_members", "told_alerts")
        ]


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("seed", range(8))
def test_what_changes_after_it_was_read_counts(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    drawn = random.Random(seed)
    foreseeing, plain = World(store, WITH_RULES), World(other_store, WITH_RULES)
    waiting: list[Change] = []
    foresee = Look.foresee

    def interrupted(self: Look, groups: Any) -> None:
        if is_foreseeing:
            foresee(self, groups)
        while waiting and is_foreseeing:
            waiting.pop()(foreseeing)

    monkeypatch.setattr(Look, "foresee", interrupted)
    monkeypatch.setattr(dispatcher, "MOST_MEMBERS", -1)
    n_between = 0
    for _ in range(N_LOOKS):
        before, between = changes(drawn), changes(drawn)
        until_ms = foreseeing.now_ms + (foreseeing.dispatcher.wait_ms() or MINUTE_MS)
        for world in (foreseeing, plain):
            before(world)
            world.clock.advance_to(until_ms)
        waiting.append(between)
        is_foreseeing = True
        foreseeing.new_messages()
        foreseeing.dispatcher.dispatch_due()
        n_between += not waiting
        while waiting:
            waiting.pop()(foreseeing)
        is_foreseeing = False
        plain.new_messages()
        between(plain)
        plain.dispatcher.dispatch_due()
        assert rows_of(foreseeing) == rows_of(plain)
    assert n_between > N_LOOKS / 4
    assert len(store.notifications()) > 10


def test_the_transaction_of_a_large_group_reads_its_alerts_from_an_index_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rows are long, and others wait for it."""
    monkeypatch.setattr(dispatcher, "MOST_MEMBERS", 2)
    world = World(store)
    world.dispatcher.dispatch_due()
    world.fire("t1", "t2", "t3")
    world.clock.advance_to(START_MS + MINUTE_MS)
    statements: list[tuple[str, Any]] = []

    def note(connection: Any, _cursor: object, statement: str, parameters: Any, *_rest: object) -> None:
        if connection.get_execution_options().get("writes", False):
            statements.append((statement, parameters))

    event.listen(store.engine, "before_cursor_execute", note)
    assert world.dispatcher.dispatch_due() == 1
    event.remove(store.engine, "before_cursor_execute", note)
    assert not [statement for statement, _ in statements if "alerts.labels" in statement]
    ((statement, parameters),) = [pair for pair in statements if "alerts.state" in pair[0]]
    with store.engine.connect() as connection:
        plan = [str(row) for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
    assert [line for line in plan if "USING COVERING INDEX ix_alerts_telling" in line], plan
