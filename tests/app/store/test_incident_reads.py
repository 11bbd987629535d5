"""What a step asks about incidents is read by the ids that it asks about, however many alerts, groups and messages
there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event

from app.alerting.case import case_of
from app.store.api import AlertFilter, Store, open_store
from app.store.writing.writer import Writer
from benchmarks.pages.store_pages import make_store, plans
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
        writer.rows.flush()
        event.remove(connection, "before_cursor_execute", explain)
    assert plans
    if name == "no longer covered":  # in each step, of all that are inhibited: rows of alerts are long
        searches = [line for line in plans if line.startswith("SEARCH")]
        assert len(searches) == 3
        assert all("USING COVERING INDEX" in line for line in searches), plans
    for line in plans:
        assert line == LONGEST or ("SCAN" not in line and not line.endswith(OF_ALL)), plans


def test_of_many_alerts_behind_an_incident_the_first_are_read_and_all_are_counted(tmp_path: Path) -> None:
    make_store(tmp_path / "store.db", 1_500)
    with open_store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        ids = [alert.id for alert in store.alerts(AlertFilter(incidents=True, limit=1_000))]
        whole = store.members_of(ids)
        assert max(map(len, whole.values())) > 5 < len(whole)
        for at_most in (1, 5, 1_000):
            first = store.first_members_of([*ids, "nobody"], at_most)
            assert {incident: n for incident, (_, n) in first.items()} == {i: len(of) for i, of in whole.items()}
            assert {i: [a.id for a in of] for i, (of, _) in first.items()} == {
                i: [a.id for a in of[:at_most]] for i, of in whole.items()
            }
            assert all(alert.hosts is not None for of, _ in first.values() for alert in of)
        for line in plans(store.engine, lambda: store.first_members_of(ids[:50], 5)):
            assert not any(p.startswith(("SCAN alerts", "SCAN incident_members")) for p in line.split("; ")), line
