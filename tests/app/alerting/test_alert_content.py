"""What an alert tells: which values, hosts and times, under which labels; whatever the order of arrival."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.alerting.catalog import QueryInfo
from app.alerting.dispatch.notice import group_payload, lone
from app.alerting.notices import Snapshot
from app.alerting.payload import template_fields, templated_payload
from app.alerting.recording.evidence import KnownEvent
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.recorder import Recorder
from app.settings import Severity
from app.store import Store
from app.store.api import AlertFilter
from app.store.models import AlertRow
from engine import ast
from tests.app.alerting_fixtures import FakeMatch, receiver
from tests.examples import examples

Aspect = ast.Aspect
SUSPECT, AFFECTED = ast.HostRole.SUSPECT, ast.HostRole.AFFECTED
INFO = QueryInfo(
    "slow",
    "h1",
    Severity.WARNING,
    "{bytes.last:size} wait, {bytes:size} at worst since {at:time}, by {who}",
    5,
    runbook="Look.",
    key=("task_id",),
    numbers=frozenset({"bytes", "at"}),
    shown=(ast.Shown(Aspect.MAX, "bytes", ("who", "at")), ast.Shown(Aspect.FIRST, "note")),
    hosts=(ast.NamedHost(SUSPECT, "who", "bytes"), ast.NamedHost(AFFECTED, "victim")),
    onset="b",
)


def options(*infos: QueryInfo, **external_labels: str) -> AlertingOptions:
    return AlertingOptions({info.name: info for info in infos}, {"ops": receiver()}, 200, 10**15, external_labels)


def event(event_id: str) -> KnownEvent:
    """`b7` is at 7."""
    time_ms = int(event_id[1:])
    return KnownEvent(event_id, "T", time_ms, time_ms, {"user": "ann", "queue": "q"}, None, None)


def lookup(ids: Sequence[str]) -> dict[str, KnownEvent]:
    return {i: event(i) for i in ids}


def match(first_ms: int, last_ms: int, number: int = 0, **values: Any) -> FakeMatch:
    """From a `b` at `first_ms` to a `c` at `last_ms`."""
    bound = {"b": (f"b{first_ms}",), "c": (f"c{last_ms}", f"n{number}")}
    given = {"bytes": 0, "who": "node1", "victim": None, "note": "", "at": last_ms, **values}
    return FakeMatch(first_ms, last_ms, bindings=bound, values=given)


def tell(
    store: Store,
    matches: Iterable[FakeMatch],
    watermark_ms: int = 0,
    told: AlertingOptions | None = None,
    now_ms: int = 0,
) -> None:
    with store.transaction() as writer:
        Recorder(told or options(INFO), writer, lookup, now_ms).live(list(matches), watermark_ms)


def only(store: Store) -> AlertRow:
    (alert,) = (alert for alert in store.alerts() if alert.merged_into is None)
    return alert


# ------------------------------------------------------------------------- values


def test_the_title_tells_the_worst_and_the_last_value(store: Store) -> None:
    mib = 2**20
    peaks = [(10, 40 * mib, "a"), (12, 144 * mib, "b"), (14, 41 * mib, "c")]
    for last_ms, size, who in peaks:
        tell(store, [match(9, last_ms, bytes=size, who=who, note=who)], 0)
    alert = only(store)
    assert alert.summary == "41.0 MiB wait, 144.0 MiB at worst since 1970-01-01 00:00:00.012 UTC, by b"
    assert alert.values == {"bytes": 144 * mib, "who": "b", "victim": None, "note": "a", "at": 12}
    assert [e.event_id for e in store.alert(alert.id).evidence] == ["b9", "c12", "n0"]


def test_resolved_messages_tell_the_worst_and_the_last_value(store: Store) -> None:
    tell(store, [match(9, 10, bytes=7, who="a"), match(9, 12, bytes=9, who="b"), match(9, 14, bytes=8, who="c")], 0)
    tell(store, [], 100)
    firing, resolved = (payload(n.payload) for n in store.notifications())
    assert (firing["status"], resolved["status"]) == ("firing", "resolved")
    told = resolved["annotations"]
    names = ("value_bytes", "first_bytes", "last_bytes", "max_bytes", "min_bytes", "value_who")
    assert [told[name] for name in names] == ["9", "7", "8", "9", "7", "b"]


def test_a_number_that_no_match_has_is_unknown(store: Store) -> None:
    tell(store, [match(1, 2, bytes=None, who="a"), match(1, 3, bytes=float("nan"), who="b")])
    alert = only(store)
    assert alert.summary == "nan wait, unknown at worst since unknown, by unknown"
    assert [e.event_id for e in store.alert(alert.id).evidence] == ["b1", "c2", "n0"]  # that of FIRST note


def test_infinite_numbers_win_and_survive_the_store(store: Store) -> None:
    tell(store, [match(1, 2, bytes=float("inf"), who="a")])
    tell(store, [match(1, 3, bytes=5, who="b")])
    assert only(store).values["who"] == "a"
    tell(store, [match(1, 4, bytes=float("-inf"), who="c")])
    assert only(store).values["who"] == "a"


def payload(kept: dict[str, Any]) -> dict[str, Any]:
    (alert,) = group_payload(lone(Snapshot.from_json(kept)), "ops", "http://127.0.0.1")["alerts"]
    assert isinstance(alert, dict)
    return alert


# -------------------------------------------------------------------------- hosts


def test_the_suspect_comes_first_and_both_roles_are_found(store: Store) -> None:
    tell(store, [match(1, 2, bytes=3, who="node5", victim="node1")])
    tell(store, [match(1, 3, bytes=2, who="node4", victim="node2")])
    alert = only(store)
    assert alert.host == "node5"
    assert [(h.host, h.role, h.value_name, h.value) for h in alert.hosts] == [
        ("node5", "suspect", "bytes", 3),  # of the match that is shown
        ("node4", "suspect", "bytes", 2),
        ("node1", "affected", None, None),
        ("node2", "affected", None, None),
    ]
    for host in ("node5", "node4", "node1", "node2"):
        assert [found.id for found in store.alerts(AlertFilter(host=host))] == [alert.id]
    assert store.alerts(AlertFilter(host="node3")) == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"host": "a"}, [("a", "suspect")]),
        ({"source_host": "a"}, [("a", "suspect")]),
        ({"source_host": "b", "host": "a"}, [("b", "suspect"), ("a", "affected")]),
        ({"source_host": "a", "host": "a"}, [("a", "suspect")]),
        ({"source_host": None, "host": 7}, []),
    ],
)
def test_hosts_without_the_clause(store: Store, values: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    tell(store, [replace(match(1, 2), values=values)], 0, options(replace(INFO, hosts=(), shown=())))
    assert [(h.host, h.role) for h in only(store).hosts] == expected


def test_hosts_beyond_the_bound_are_counted_once_each(store: Store) -> None:
    numbers = [*range(70), *range(65), 3]
    found = [match(1, 2 + i % 70, i, who=f"node{i % 70:03}") for i in numbers]
    tell(store, found[:30])
    tell(store, found[30:])
    alert = only(store)
    assert (len(alert.hosts), alert.n_hosts_left_out) == (50, 20)
    # The match that is shown, the first of equal ones, and the latest of the others.
    assert [h.host for h in alert.hosts] == ["node000", *(f"node{i:03}" for i in range(69, 20, -1))]


# -------------------------------------------------------------------------- times


def test_onset_is_when_the_condition_began_and_never_moves_later(store: Store) -> None:
    tell(store, [match(50, 60)], now_ms=1_000)
    tell(store, [match(52, 64)], now_ms=2_000)
    alert = only(store)
    assert (alert.start_ms, alert.onset_ms, alert.raised_ms, alert.last_seen_ms) == (50, 50, 1_000, 64)
    tell(store, [match(49, 59)], now_ms=3_000)
    alert = only(store)
    assert (alert.onset_ms, alert.raised_ms, alert.last_seen_ms) == (49, 1_000, 64)


def test_onset_without_the_clause_is_the_end_of_the_first_match(store: Store) -> None:
    told = options(replace(INFO, onset=None))
    tell(store, [match(1, 64), match(1, 61)], 0, told)
    assert only(store).onset_ms == 61
    tell(store, [], 100, told)
    firing, resolved = (payload(n.payload) for n in store.notifications())
    assert firing["startsAt"] == resolved["startsAt"] == "1970-01-01T00:00:00.061Z"
    assert resolved["endsAt"] == "1970-01-01T00:00:00.064Z"


# ------------------------------------------------------------------------- labels


def test_labels_are_fixed_when_the_alert_is_raised(store: Store) -> None:
    key = (("task_id", "task_17_0002_r_000003"),)
    at_first = replace(match(1, 2, bytes=1, who="node5"), key=key)
    tell(store, [at_first], 0, options(INFO, cluster="prod", queue="all"))
    other = replace(INFO, severity=Severity.CRITICAL, summary="other", hosts=())
    later = replace(match(1, 3, bytes=9, who="node7", victim="node8"), key=key)
    tell(store, [later], 0, options(other, cluster="test"))
    tell(store, [], 100, options(other, cluster="test"))
    firing, resolved = (payload(n.payload) for n in store.notifications())
    assert firing["labels"] == {
        **{"alertname": "slow", "severity": "warning", "task_id": "task_17_0002_r_000003", "job": "job_17_0002"},
        **{"application": "application_17_0002", "user": "ann", "queue": "all", "host": "node5", "cluster": "prod"},
    }
    assert resolved["labels"] == firing["labels"]
    assert (firing["startsAt"], firing["fingerprint"]) == (resolved["startsAt"], resolved["fingerprint"])
    assert resolved["annotations"]["summary"] == "other"


@pytest.mark.parametrize(
    ("values", "job"),
    [({"job_id": None}, None), ({"job_id": "job_17_0002"}, "job_17_0002"), ({}, "job_17_0002")],
)
def test_an_application_has_the_label_of_a_job_when_it_runs_one(
    store: Store, values: dict[str, Any], job: str | None
) -> None:
    tell(store, [replace(match(1, 2, **values), key=(("application_id", "application_17_0002"),))])
    labels = payload(store.notifications()[0].payload)["labels"]
    assert (labels.get("job"), labels["application"]) == (job, "application_17_0002")
    assert only(store).job_id == job


def test_templates_of_receivers_know_all_of_it(store: Store) -> None:
    tell(store, [match(1, 2, bytes=2048, who="node5"), match(1, 3, bytes=1024, who="node4")], 100)
    snapshot = Snapshot.from_json(store.notifications()[-1].payload)
    fields = template_fields(snapshot, "ops", "http://x")
    template = {"text": "{bytes:size} {bytes.last:size} {host} {user} {hosts_suspect} {severity} {state} {start}"}
    assert templated_payload(template, fields) == {
        "text": "2.0 KiB 1.0 KiB node5 ann node5 (2048), node4 (1024) warning resolved 1970-01-01T00:00:00.001Z"
    }


def test_all_hosts_are_annotations(store: Store) -> None:
    tell(store, [match(1, 2, bytes=3, who="node5", victim="node1"), match(1, 3, bytes=2, who="node4")], 100)
    *_, resolved = (payload(n.payload) for n in store.notifications())
    told = resolved["annotations"]
    assert (told["hosts_suspect"], told["hosts_affected"]) == ("node5 (3), node4 (2)", "node1")


# ------------------------------------------------------- whatever the order of arrival

MATCHES = st.lists(
    st.builds(
        lambda first, length, number, **values: match(first, first + length, number, **values),
        st.integers(0, 30),
        st.integers(0, 12),
        st.integers(0, 3),
        bytes=st.sampled_from([None, 1, 2, 2, 3, float("nan"), float("inf")]),
        who=st.sampled_from([None, "n1", "n2", "n3"]),
        victim=st.sampled_from([None, "n1", "n2"]),
        note=st.sampled_from(["x", "y"]),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda m: (m.first_lo_ms, m.last_hi_ms, m.bindings["c"]),
)
CLAUSES: st.SearchStrategy[Callable[[QueryInfo], QueryInfo]] = st.sampled_from(
    [
        lambda info: info,
        lambda info: replace(info, shown=(), hosts=(), onset=None),
        lambda info: replace(info, shown=(ast.Shown(Aspect.MIN, "bytes"), ast.Shown(Aspect.MAX, "at", ("who",)))),
        lambda info: replace(info, shown=(ast.Shown(Aspect.FIRST, "bytes", ("who", "note")),), onset="c"),
    ]
)


def content(store: Store) -> list[Any]:
    """All that must not depend on the order of arrival."""
    return sorted(
        (
            *(alert.start_ms, alert.end_ms, alert.onset_ms, alert.last_seen_ms, alert.n_matches),
            *(repr(alert.values), alert.summary, alert.host, alert.best_n_events, alert.n_hosts_left_out),
            [(h.host, h.role, h.value_name, repr(h.value)) for h in alert.hosts],
            [(e.variable, e.event_id) for e in store.alert(alert.id).evidence],
        )
        for alert in store.alerts()
        if alert.merged_into is None
    )


def by_definition(matches: Sequence[FakeMatch], info: QueryInfo) -> list[tuple[Any, ...]]:
    """(start, end, last values, greatest bytes) of each episode, from sorted matches alone."""
    episodes: list[list[FakeMatch]] = []
    for found in sorted(matches, key=lambda m: (m.first_lo_ms, m.last_hi_ms)):
        if episodes and found.first_lo_ms <= max(m.last_hi_ms for m in episodes[-1]) + info.group_gap_ms:
            episodes[-1].append(found)
        else:
            episodes.append([found])
    told = []
    for members in episodes:
        sizes = [m.values["bytes"] for m in members if m.values["bytes"] is not None and m.values["bytes"] >= 0]
        onset = {
            None: min(m.last_hi_ms for m in members),
            "b": min(m.first_lo_ms for m in members),
            "c": min(m.last_hi_ms for m in members),
        }[info.onset]
        span = (min(m.first_lo_ms for m in members), max(m.last_hi_ms for m in members))
        told.append((*span, onset, max(sizes, default=None), len(members)))
    return sorted(told, key=repr)


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(matches=MATCHES, clauses=CLAUSES, data=st.data())
def test_the_same_matches_give_the_same_alert(
    store: Store, matches: list[FakeMatch], clauses: Callable[[QueryInfo], QueryInfo], data: st.DataObject
) -> None:
    info = clauses(INFO)
    found = []
    for order in (matches, data.draw(st.permutations(matches))):
        cuts = sorted({0, len(order), *data.draw(st.lists(st.integers(0, len(order)), max_size=4))})
        with store.transaction() as writer:
            writer.session.query(AlertRow).delete()
        for start, end in pairwise(cuts):
            tell(store, order[start:end], 0, options(info))
        found.append(content(store))
    assert found[0] == found[1]
    greatest = [
        (a.start_ms, a.end_ms, a.onset_ms, seen_greatest(a), a.n_matches)
        for a in store.alerts()
        if a.merged_into is None
    ]
    assert sorted(greatest, key=repr) == by_definition(matches, info)


def seen_greatest(alert: AlertRow) -> Any:
    digest = alert.seen["max"].get("bytes")
    value = None if digest is None else alert.seen["matches"][digest]["values"]["bytes"]
    return float(value) if isinstance(value, str) else value


# ----------------------------------------------------------------- changed queries


def test_an_alert_of_a_query_that_was_renamed_ends_although_its_meaning_stays(store: Store) -> None:
    tell(store, [match(1, 2)])
    tell(store, [], 0, options(replace(INFO, name="other")))
    alert = only(store)
    reasons = [change.reason for change in store.alert(alert.id).changes]
    assert (alert.state, alert.open) == ("resolved", False)
    assert reasons == ["first match", "its query no longer runs: it was removed, renamed or disabled"]


def test_an_alert_of_a_changed_query_is_taken_over_without_a_word(store: Store) -> None:
    tell(store, [match(1, 2)])
    tell(store, [match(2, 4)], 0, options(replace(INFO, hash="h2")))
    alert = only(store)
    assert (alert.state, alert.query_hash, alert.n_matches) == ("firing", "h2", 2)
    assert [n.state for n in store.notifications()] == ["firing"]
