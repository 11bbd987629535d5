"""A process that dies at any statement of a step or of a look at groups, and one that starts again: receivers are told
what one that nothing disturbs tells, under the same keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from app.alerting.dispatch.dispatcher import Dispatcher
from app.alerting.dispatch.known import Known
from app.alerting.dispatch.look import Look
from app.store import Store, open_store
from tests.app.alerting.dispatch.world import GAP_MS, MINUTE_MS, TREE, World
from tests.new_store import placed

INTERVAL_MS, WAIT_MS = 5 * MINUTE_MS, 30_000
N_DEATHS = 25

ROUTED = (
    TREE
    + """
  routes:
  - matchers: ['alertname="node-lost"']
    receiver: db
    continue: true
    group_by: [task_id]
    group_wait: 0s
  - matchers: ['alertname=~".+"']
inhibit_rules:
- source_matchers: ['alertname="node-lost"']
  target_matchers: ['alertname="slow"']
  equal: [task_id]
"""
)


class Killed(BaseException):
    """The process died."""


@contextmanager
def dying(store: Store, at: int | None) -> Iterator[list[str]]:
    """Die before a statement, counted from 0; gives the statements so far."""
    seen: list[str] = []

    def count(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)
        if len(seen) - 1 == at:
            raise Killed

    event.listen(store.engine, "before_cursor_execute", count)
    try:
        yield seen
    finally:
        event.remove(store.engine, "before_cursor_execute", count)


def story(world: World) -> list[Callable[[], object]]:
    """What happens, one part after the other; a part that was cut off is made again."""
    world.takes = False
    return [
        lambda: world.fire("t1", "t2"),
        lambda: world.fire("t2", query="node-lost"),
        world.dispatcher.dispatch_due,
        lambda: world.clock.advance_to(world.now_ms + WAIT_MS),
        world.dispatcher.dispatch_due,
        lambda: world.fire("t3", "t4"),
        world.end,
        lambda: world.clock.advance_to(world.now_ms + INTERVAL_MS),
        world.dispatcher.dispatch_due,
        lambda: world.fire("t1"),
        lambda: world.clock.advance_to(world.now_ms + INTERVAL_MS),
        world.dispatcher.dispatch_due,
        lambda: world.step(watermark_ms=world.now_ms + GAP_MS + 1),
        lambda: world.clock.advance_to(world.now_ms + INTERVAL_MS),
        world.dispatcher.dispatch_due,
        lambda: world.clock.advance_to(world.now_ms + INTERVAL_MS),
        world.dispatcher.dispatch_due,
    ]


def told(folder: Path, name: str, at: int | None) -> tuple[list[Any], list[str]]:
    """The outbox of the whole story, and the statements that it took."""
    with open_store(placed(folder / f"{name}.db"), durable=False) as store:
        world = World(store, ROUTED)
        with dying(store, at) as seen:
            for part in story(world):
                try:
                    part()
                except Killed:
                    world.restart()
                    part()
        left = [(group.id, group.flush_ms, group.n_told) for group in store.alert_groups()]
        rows = [(row.sequence, row.idempotency_key, row.receiver, row.payload) for row in store.notifications()]
        return [rows, left], seen


def test_a_death_at_any_statement_changes_nothing_that_is_told(tmp_path: Path) -> None:
    expected, statements = told(tmp_path, "whole", None)
    assert len(expected[0]) >= 6
    assert len(statements) > N_DEATHS
    for at in range(0, len(statements), len(statements) // N_DEATHS):
        assert told(tmp_path, f"cut{at}", at)[0] == expected, at


def test_timers_that_were_set_before_their_message_was_written_would_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test above finds: a look at a group in two transactions."""

    def split(self: Any) -> int:
        now_ms = self._clock.now_ms()
        with self._store.transaction() as writer:
            (group, *_) = writer.groups.due(now_ms, now_ms + self._telling.longest_wait_ms, 1)
            group.flush_ms = now_ms + INTERVAL_MS
        with self._store.transaction() as writer:
            (again,) = [found for found in writer.groups.all_after("", 1_000) if found.id == group.id]
            look = Look(writer, self._telling, now_ms, Known())
            return look.write(look.at([again]))

    monkeypatch.setattr(Dispatcher, "_look", split)
    expected, statements = told(tmp_path, "whole", None)
    at = next(n for n, statement in enumerate(statements) if statement.startswith("UPDATE alert_groups"))
    assert told(tmp_path, "cut", at + 3)[0] != expected
