"""What a step asks about incidents is read by the ids that it asks about, however many alerts, groups and messages
there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, event

from app.alerting.case import case_of
from app.store import Store
from app.store.writing.writer import Writer
from tests.app.alerting.test_incidents import A, B, cause, step

READS: dict[str, Callable[[Writer], object]] = {
    "covering": lambda writer: writer.incidents.covering(["a", "b"]),
    "sharing": lambda writer: writer.incidents.sharing("a"),
    "above": lambda writer: writer.incidents.above("a"),
    "members": lambda writer: writer.incidents.members("a"),
    "no longer covered": lambda writer: writer.incidents.no_longer_covered(10),
    "move": lambda writer: writer.incidents.move("a", "b"),
    "forget untold": lambda writer: writer.groups.forget_untold("a", ["ops"]),
    "told group": lambda writer: writer.groups.told_group(["a"], "ops"),
    "thread": lambda writer: writer.outbox.thread("a", ["b"], "ops"),
    "case": lambda writer: case_of(writer.session, writer.incidents.open_of(["cause"])[0]),
}
OF_ALL = ("(open=?)", "(status=? AND receiver=?)", "(query=?)", "(receiver=?", "(state=?")
"""Indexes of what there is too much of."""
LONGEST = "SCAN alerts USING INDEX ix_alerts_length"
"""Of which one row is read."""


@pytest.mark.parametrize("name", list(READS))
def test_no_read_of_incidents_looks_at_all_alerts_groups_or_messages(store: Store, name: str) -> None:
    plans: list[str] = []

    def explain(connection: Connection, _cursor: object, statement: str, parameters: Any, *_of: object) -> None:
        if statement.startswith(("SELECT", "UPDATE", "DELETE")):
            found = connection.connection.cursor()
            found.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.extend(row[3] for row in found.fetchall())

    step(store, [A, B, cause(A, B)], 110)
    with store.transaction() as writer:
        connection = writer.session.connection()
        event.listen(connection, "before_cursor_execute", explain)
        READS[name](writer)
        event.remove(connection, "before_cursor_execute", explain)
    assert plans
    for line in plans:
        assert line == LONGEST or ("SCAN" not in line and not line.endswith(OF_ALL)), plans
