"""What is answered from memory of incidents and their parts is what the database would answer, whatever was read before
and is written meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.store.api import Store
from app.store.models import AlertGroupRow, AlertRow, GroupMemberRow, IncidentMemberRow
from app.store.writing.known_alerts import Span
from app.store.writing.writer import Writer
from tests.dashboard.job_fixtures import T0_MS, alert_row
from tests.examples import examples

IDS = [f"{n}" for n in range(6)]
NEW = ["n0", "n1"]
"""Alerts that are raised in the transaction."""

ALERTS = st.fixed_dictionaries(
    {
        "is_incident": st.booleans(),
        "open": st.booleans(),
        "state": st.sampled_from(["firing", "acknowledged", "resolved"]),
        "start_ms": st.sampled_from([T0_MS, T0_MS + 1]),
    }
)
PARTS = st.tuples(st.sampled_from(IDS), st.sampled_from(IDS), st.booleans()).filter(lambda part: part[0] != part[1])
WRITES = st.one_of(
    st.tuples(st.just("join"), st.sampled_from(IDS + NEW), st.sampled_from(IDS + NEW), st.booleans()),
    st.tuples(st.just("state"), st.sampled_from(IDS + NEW), st.sampled_from(["firing", "resolved"]), st.booleans()),
    st.tuples(st.just("leave"), st.sampled_from(IDS), st.sampled_from(IDS), st.booleans()),
    st.tuples(st.just("move"), st.sampled_from(IDS), st.sampled_from(IDS), st.booleans()),
)


class UndoneError(Exception):
    """Ends an example's transaction."""


def answers(writer: Writer) -> list[Any]:
    """All that can be asked."""
    ids, incidents = IDS + NEW, writer.incidents

    def part(row: IncidentMemberRow | None) -> Any:
        return None if row is None else (row.incident_id, row.alert_id, row.covered)

    found: list[Any] = [part(incidents.get(of, alert)) for of in ids for alert in ids]
    for alert_id in ids:
        found.append([part(row) for row in incidents.of(alert_id)])
        found.append([alert.id for alert in incidents.members(alert_id)])
        found += [incidents.above(alert_id), incidents.sharing(alert_id)]
    covering = incidents.covering(ids)
    return [*found, {alert_id: [of.id for of in covering[alert_id]] for alert_id in covering}]


def columns(name: str) -> dict[str, Any]:
    """Of a new alert, as the recorder gives them."""
    sure = {"at_least_one_lower": 1.0, "at_least_one_upper": 1.0, "at_least_one_method": "certain", "possible": None}
    flags = dict.fromkeys(("silenced", "inhibited", "to_tell"), False)
    empty = {"n_hosts_left_out": 0, "seen": {}, "labels": {}, "raised_ms": T0_MS}
    alert = alert_row(name, is_incident=name == NEW[0], **sure, **flags, **empty)
    return {column.key: getattr(alert, column.key) for column in AlertRow.__table__.columns}


def write(writer: Writer, kind: str, one: str, other: str, flag: bool) -> None:
    """One of WRITES."""
    match kind:
        case "join" if one != other and one not in writer.incidents.above(other):
            writer.incidents.add(one, other, 5, covered=flag)
        case "state":
            alert = writer.alerts.get(one)
            assert alert is not None
            alert.state, alert.open = other, flag
        case "leave":
            writer.incidents.leave(one, other)
        case "move" if one != other:
            writer.incidents.move(one, other)


def from_the_database(writer: Writer, ask: Callable[[Writer], list[Any]]) -> list[Any]:
    """With nothing known."""
    rows = writer.rows
    known, rows.known, rows.known_incidents = (rows.known, rows.known_incidents), None, None
    try:
        return ask(writer)
    finally:
        rows.known, rows.known_incidents = known


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    st.lists(ALERTS, min_size=len(IDS), max_size=len(IDS)),
    st.lists(PARTS, max_size=8),
    st.sets(st.sampled_from(IDS), max_size=4),
    st.lists(WRITES, max_size=6),
)
def test_memory_answers_as_the_database(
    store: Store,
    alerts: Sequence[dict[str, Any]],
    parts: Sequence[tuple[str, str, bool]],
    asked: set[str],
    writes: Sequence[tuple[str, str, str, bool]],
) -> None:
    try:
        with store.transaction() as writer:
            writer.session.add_all(alert_row(name, **of) for name, of in zip(IDS, alerts, strict=True))
            writer.session.flush()
            for incident, alert, covered in parts:
                if incident not in writer.incidents.above(alert):  # as the recorder: none is part of itself
                    writer.incidents.add(incident, alert, 1, covered=covered)
            writer.session.flush()
            writer.session.expunge_all()
            spans = [Span("slow", name, T0_MS, T0_MS + 10) for name in sorted(asked)]
            writer.rows.look_up(spans, with_incidents=True)
            for name in NEW:
                writer.alerts.add_gathered(columns(name))
            for of in writes:
                write(writer, *of)
                assert answers(writer) == from_the_database(writer, answers)
            raise UndoneError
    except UndoneError:
        pass


def test_what_is_known_asks_the_database_nothing(store: Store) -> None:
    with store.transaction() as writer:
        writer.session.add_all([alert_row("1", is_incident=True), alert_row("2")])
        writer.session.flush()
        writer.rows.look_up([Span("slow", name, T0_MS, T0_MS + 30_000) for name in "12"], with_incidents=True)
        writer.incidents.add("1", "2", 1, covered=True)
        assert writer.rows.new_parts, "asked of the database, it would have been written"
        assert [of.id for of in writer.incidents.covering(["2"])["2"]] == ["1"]
        assert writer.incidents.sharing("1") == {"1": {"2"}}
        assert [alert.id for alert in writer.incidents.members("1")] == ["2"]
        assert writer.rows.new_parts


def test_the_group_that_has_told_of_an_alert_is_that_of_the_receiver_and_the_first(store: Store) -> None:
    groups = {"g1": ("ops", 2), "g2": ("ops", 1), "g3": ("db", 0), "g4": ("db", 3)}
    told = {("g1", "1"): True, ("g2", "2"): True, ("g3", "1"): False, ("g4", "2"): True}
    with store.transaction() as writer:
        writer.session.add_all([alert_row("1"), alert_row("2")])
        for group, (receiver, created_ms) in groups.items():
            times = {"created_ms": created_ms, "flush_ms": 0, "told_ms": None, "n_told": 0}
            writer.session.add(AlertGroupRow(id=group, route="r", receiver=receiver, key=group, labels={}, **times))
        writer.session.flush()
        for (group, alert_id), is_told in told.items():
            flags = {"told": is_told, "hidden": False, "escalate_ms": None, "escalated": False}
            writer.session.add(GroupMemberRow(group_id=group, alert_id=alert_id, fingerprint="f", **flags))
        writer.session.flush()
        asked = [(ids, receiver) for ids in (["1"], ["2"], ["1", "2"], ["n"]) for receiver in ("ops", "db", "other")]

        def found() -> list[str | None]:
            groups = [writer.groups.told_group(ids, receiver) for ids, receiver in asked]
            return [None if group is None else group.id for group in groups]

        expected = ["g1", None, None, "g2", "g4", None, "g2", "g4", None, None, None, None]
        assert found() == expected
        writer.groups.look_up_told(["1", "2"])
        assert found() == expected
