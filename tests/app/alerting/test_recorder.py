"""The life of alerts: grouping, states, evidence, the outbox; all in the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.alerting import lifecycle
from app.alerting.lifecycle import State
from app.alerting.recording.episodes import alert_id, canonical_key, group, report_id
from app.alerting.recording.outcome import Outcome
from app.alerting.recording.recorder import Recorder
from app.store import Store
from tests.app.alerting_fixtures import GAP_MS, FakeMatch, hide, kept, options, receiver
from tests.app.silences import silencing_of

OPTIONS = options(ops=receiver())
KEY = canonical_key((("task_id", "t1"),))


def live(store: Store, matches: Sequence[FakeMatch], watermark_ms: int, now_ms: int = 1_000) -> Outcome:
    with store.transaction() as writer:
        return Recorder(OPTIONS, writer, kept, now_ms).live(matches, watermark_ms)


def states(store: Store, alert: str) -> list[str]:
    return [change.to_state for change in store.alert(alert).changes]


def told(store: Store) -> list[tuple[str, str]]:
    """(alert, state) of all messages, in their order."""
    ordered = sorted(store.notifications(), key=lambda message: message.sequence)
    return [(message.alert_id, message.state) for message in ordered]


def test_one_alert_per_episode_however_many_matches(store: Store) -> None:
    live(store, [FakeMatch(10, 20, count=1_000_000), FakeMatch(15, 30, count=5), FakeMatch(12, 18)], 31)
    (alert,) = store.alerts()
    assert (alert.n_matches, alert.start_ms, alert.end_ms, alert.state) == (1_000_006, 10, 30, "firing")
    assert alert.id == alert_id("slow", KEY, 10, "h1")
    assert alert.summary == "t1 took 5"
    assert alert.runbook == "Look at the task."


def test_matches_beyond_the_gap_are_two_alerts(store: Store) -> None:
    live(store, [FakeMatch(10, 20), FakeMatch(20 + GAP_MS, 40), FakeMatch(51, 60)], 0)
    assert sorted((a.start_ms, a.end_ms) for a in store.alerts()) == [(10, 40), (51, 60)]


def test_keys_do_not_mix(store: Store) -> None:
    live(store, [FakeMatch(10, 20), FakeMatch(10, 20, key=(("task_id", "t2"),))], 0)
    assert {a.key_text for a in store.alerts()} == {KEY, canonical_key((("task_id", "t2"),))}


def test_per_tells_alerts_of_one_key_apart(store: Store) -> None:
    per_host = replace(OPTIONS, queries={"slow": replace(OPTIONS.queries["slow"], per=("host",))})
    with store.transaction() as writer:
        matches = [FakeMatch(10, 20, values={"host": host}) for host in ("n1", "n2", "n1")]
        Recorder(per_host, writer, kept, 1_000).live(matches, 0)
    assert sorted((a.key["task_id"], a.key["host"], a.n_matches) for a in store.alerts()) == [
        ("t1", "n1", 2),
        ("t1", "n2", 1),
    ]


def test_late_match_that_extends_to_the_left_keeps_the_id(any_store: Store) -> None:
    store = any_store
    live(store, [FakeMatch(10, 20)], 15)
    (before,) = store.alerts()
    live(store, [FakeMatch(3, 12)], 16)
    (after,) = store.alerts()
    assert (after.id, after.start_ms, after.n_matches) == (before.id, 3, 2)
    assert states(store, after.id) == ["firing"]


def test_a_lower_bound_stays_a_lower_bound(any_store: Store) -> None:
    store = any_store
    live(store, [FakeMatch(10, 20, count=7, count_exact=False)], 0)
    live(store, [FakeMatch(12, 22, count=3)], 0)
    live(store, [FakeMatch(50, 60, capped=True)], 0)
    assert [(a.n_matches, a.n_matches_exact) for a in store.alerts()] == [(1, False), (10, False)]


def test_resolves_exactly_when_the_watermark_passes_end_and_gap(store: Store) -> None:
    live(store, [FakeMatch(10, 20)], 20 + GAP_MS)
    (alert,) = store.alerts()
    assert alert.state == "firing"
    live(store, [], 20 + GAP_MS + 1)
    assert states(store, alert.id) == ["firing", "resolved"]
    assert [(n.state, n.revision) for n in store.notifications()] == [("firing", 1), ("resolved", 2)]


def test_a_match_and_its_resolution_in_one_step_are_both_told(store: Store) -> None:
    live(store, [FakeMatch(10, 20)], 1_000)
    assert [n.state for n in store.notifications()] == ["firing", "resolved"]


def test_late_match_of_a_resolved_episode_fires_again_only_when_it_is_not_over(store: Store) -> None:
    live(store, [FakeMatch(10, 20)], 31)
    (alert,) = store.alerts()
    live(store, [FakeMatch(12, 19)], 32)
    assert states(store, alert.id) == ["firing", "resolved"]
    live(store, [FakeMatch(25, 40)], 33)
    assert states(store, alert.id) == ["firing", "resolved", "firing"]
    live(store, [], 51)
    assert states(store, alert.id) == ["firing", "resolved", "firing", "resolved"]
    assert len({n.idempotency_key for n in store.notifications()}) == 4


def test_a_match_that_bridges_two_episodes_joins_them(any_store: Store) -> None:
    store = any_store
    live(store, [FakeMatch(10, 20), FakeMatch(60, 70)], 5)
    early, late = sorted(store.alerts(), key=lambda a: a.start_ms)
    live(store, [FakeMatch(15, 65)], 6)
    joined, gone = store.alert(early.id).alert, store.alert(late.id).alert
    assert (joined.start_ms, joined.end_ms, joined.n_matches, joined.state) == (10, 70, 3, "firing")
    assert (gone.state, gone.merged_into, gone.open) == ("resolved", early.id, False)


def test_a_match_that_bridges_what_is_over_and_what_is_open_leaves_it_open(store: Store) -> None:
    live(store, [FakeMatch(10, 20)], 31)
    live(store, [FakeMatch(40, 50)], 51)
    over, going_on = sorted(store.alerts(), key=lambda a: a.start_ms)
    live(store, [FakeMatch(15, 45)], 52)
    joined, gone = store.alert(over.id).alert, store.alert(going_on.id).alert
    assert (joined.state, joined.open, joined.resolved_ms) == ("firing", True, None)
    assert (joined.end_ms, gone.state, gone.merged_into) == (50, "resolved", over.id)
    live(store, [], 61)
    assert states(store, over.id) == ["firing", "resolved", "firing", "resolved"]
    assert told(store) == [
        (over.id, "firing"),
        (over.id, "resolved"),
        (going_on.id, "firing"),
        (going_on.id, "resolved"),  # and only then that the other one fires: their labels are equal
        (over.id, "firing"),
        (over.id, "resolved"),
    ]
    assert store.alert(over.id).alert.labels == store.alert(going_on.id).alert.labels


def test_a_match_that_bridges_what_is_over_leaves_it_over(store: Store) -> None:
    live(store, [FakeMatch(10, 20)], 31)
    live(store, [FakeMatch(40, 50)], 61)
    live(store, [FakeMatch(15, 45)], 62)
    joined, _ = sorted(store.alerts(), key=lambda a: a.start_ms)
    assert (joined.state, joined.end_ms, len(told(store))) == ("resolved", 50, 4)


def test_what_was_acknowledged_stays_so_in_the_alert_that_it_joins(any_store: Store) -> None:
    store = any_store
    live(store, [FakeMatch(10, 20)], 31)
    live(store, [FakeMatch(40, 50)], 51)
    over, going_on = sorted(store.alerts(), key=lambda a: a.start_ms)
    with store.transaction() as writer:
        alert = writer.alerts.get(going_on.id)
        assert alert is not None
        Recorder(OPTIONS, writer, kept, 1_000).acknowledge(alert, "eve", "I look at it")
    live(store, [FakeMatch(15, 45)], 52)
    assert states(store, over.id) == ["firing", "resolved", "firing", "acknowledged"]
    last = store.alert(over.id).changes[-1]
    assert (last.actor, last.reason) == ("eve", f"I look at it (as {going_on.id})")
    live(store, [], 61)
    assert told(store)[-3:] == [(going_on.id, "resolved"), (over.id, "firing"), (over.id, "resolved")]


def test_an_episode_is_told_to_be_over_before_the_next_one_of_its_labels_fires(store: Store) -> None:
    live(store, [FakeMatch(10, 20)], 25)
    live(store, [FakeMatch(31, 40), FakeMatch(60, 70)], 71)
    first, second, third = (a.id for a in sorted(store.alerts(), key=lambda a: a.start_ms))
    assert told(store) == [
        (first, "firing"),
        (first, "resolved"),
        (second, "firing"),
        (second, "resolved"),
        (third, "firing"),
    ]


def test_evidence_is_the_last_match_unless_the_query_says_otherwise(store: Store) -> None:
    first = FakeMatch(10, 20, confidence=0.9, bindings={"a": ("e1", "e2")})
    live(store, [FakeMatch(10, 25, confidence=0.6, bindings={"a": ("e5",)})], 0)
    live(store, [first], 0)
    (alert,) = store.alerts()
    details = store.alert(alert.id)
    assert [(e.variable, e.event_id, e.raw) for e in details.evidence] == [("a", "e5", "line of e5")]
    assert details.evidence[0].attributes == {"host": "h"}
    assert details.alert.best_confidence == 0.9


def test_long_evidence_keeps_both_ends(any_store: Store) -> None:
    store = any_store
    ids = tuple(f"e{i}" for i in range(1_000))
    live(store, [FakeMatch(10, 20, bindings={"a": ids})], 0)
    found = [e.event_id for e in store.alert(store.alerts()[0].id).evidence]
    assert len(found) == 200
    assert (found[0], found[99], found[100], found[-1]) == ("e0", "e99", "e900", "e999")


def test_report_rows_are_written_once(any_store: Store) -> None:
    store = any_store
    live(store, [FakeMatch(1, 2, query="times"), FakeMatch(1, 3, query="times", bindings={"a": ("e9",)})], 0)
    live(store, [FakeMatch(1, 2, query="times")], 5)
    assert sorted((r.end_ms, r.summary) for r in store.reports()) == [(2, "t1: 5"), (3, "t1: 5")]
    assert store.alerts() == []


def test_history_replayed_twice_changes_nothing(any_store: Store) -> None:
    store = any_store
    matches = [FakeMatch(10, 20), FakeMatch(15, 22), FakeMatch(100, 110), FakeMatch(1, 2, query="times")]
    for _ in range(2):
        with store.transaction() as writer:
            Recorder(OPTIONS, writer, kept, 1_000).history(matches, kept)
    assert sorted((a.start_ms, a.n_matches, a.state, a.lane) for a in store.alerts()) == [
        (10, 2, "resolved", "history"),
        (100, 1, "resolved", "history"),
    ]
    assert len(store.reports()) == 1
    assert len(store.notifications()) == 4


def test_history_does_not_repeat_what_was_seen_live(store: Store) -> None:
    live(store, [FakeMatch(12, 20)], 15)
    with store.transaction() as writer:
        Recorder(OPTIONS, writer, kept, 1_000).history([FakeMatch(10, 20)], kept)
    assert len(store.alerts()) == 1


def test_old_history_is_no_news(store: Store) -> None:
    with store.transaction() as writer:
        Recorder(OPTIONS, writer, kept, 10 * 86_400_000).history([FakeMatch(10, 20)], kept)
    assert len(store.alerts()) == 1
    assert store.notifications() == []


def test_acknowledged_alert_resolves_without_further_ado(store: Store) -> None:
    live(store, [FakeMatch(10, 20)], 0)
    (alert,) = store.alerts()
    with store.transaction() as writer:
        row = writer.alerts.get(alert.id)
        assert row is not None
        Recorder(OPTIONS, writer, kept, 1_001).acknowledge(row, "mia", "looking")
    live(store, [FakeMatch(12, 22)], 10)
    live(store, [], 100)
    changes = store.alert(alert.id).changes
    assert [(c.to_state, c.actor) for c in changes] == [
        ("firing", "clustercep"),
        ("acknowledged", "mia"),
        ("resolved", "clustercep"),
    ]
    with store.transaction() as writer:
        row = writer.alerts.get(alert.id)
        assert row is not None
        with pytest.raises(lifecycle.TransitionError, match="resolved"):
            Recorder(OPTIONS, writer, kept, 1_002).acknowledge(row, "mia", "")


def test_silence_holds_back_messages_until_it_ends(any_store: Store) -> None:
    store = any_store
    with store.transaction() as writer:
        made = hide(Recorder(OPTIONS, writer, kept, 100), silencing_of("slow", None, 500))
    assert made == 0
    live(store, [FakeMatch(10, 20)], 0, now_ms=200)
    (alert,) = store.alerts()
    assert (alert.state, alert.silenced) == ("firing", True)
    assert store.notifications() == []
    live(store, [], 0, now_ms=500)
    assert [(c.to_state, c.silenced) for c in store.alert(alert.id).changes] == [("firing", True), ("firing", False)]
    assert [n.state for n in store.notifications()] == ["firing"]


def test_resolved_is_not_told_to_those_who_never_heard_of_it(store: Store) -> None:
    with store.transaction() as writer:
        hide(Recorder(OPTIONS, writer, kept, 100), silencing_of("slow", KEY, 5_000))
    live(store, [FakeMatch(10, 20)], 0)
    live(store, [], 100)
    assert [a.state for a in store.alerts()] == ["resolved"]
    assert store.notifications() == []


def test_silencing_a_firing_alert(store: Store) -> None:
    live(store, [FakeMatch(10, 20)], 0)
    with store.transaction() as writer:
        assert hide(Recorder(OPTIONS, writer, kept, 100), silencing_of("slow", KEY, 5_000)) == 1
    assert [(a.state, a.silenced) for a in store.alerts()] == [("firing", True)]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 15)), min_size=1, max_size=8),
    st.integers(0, 6),
)
def test_grouping_is_the_transitive_closure_of_nearness(spans: list[tuple[int, int]], gap_ms: int) -> None:
    matches = [FakeMatch(start, start + length) for start, length in spans]
    found = group(matches, {"slow": replace(OPTIONS.queries["slow"], group_gap_ms=gap_ms)})
    components: list[set[int]] = []
    for i, match in enumerate(matches):  # by definition: connected components of "nearer than the gap"
        near = [
            part
            for part in components
            if any(
                max(match.first_lo_ms, matches[j].first_lo_ms) - min(match.last_hi_ms, matches[j].last_hi_ms) <= gap_ms
                for j in part
            )
        ]
        components = [part for part in components if part not in near] + [{i}.union(*near)]
    expected = sorted(
        (min(matches[i].first_lo_ms for i in p), max(matches[i].last_hi_ms for i in p), len(p)) for p in components
    )
    assert [(e.start_ms, e.end_ms, e.n_matches) for e in found] == expected


@pytest.mark.parametrize(("watermark_ms", "over"), [(29, False), (30, False), (31, True)])
def test_an_episode_is_over_when_no_event_can_lie_within_the_gap(watermark_ms: int, over: bool) -> None:
    """The watermark w promises events at w and later: one at end + gap = 30 would still join."""
    assert lifecycle.is_over(20, GAP_MS, watermark_ms) is over
    assert (lifecycle.on_watermark(State.FIRING, 20, GAP_MS, watermark_ms) is not None) is over


def test_state_machine_covers_every_state() -> None:
    assert {s.value for s in State} == {"firing", "acknowledged", "resolved"}


def test_hostile_names_are_stored_on_every_database(any_store: Store) -> None:
    store = any_store
    names = ["<script>", "\x00", "\n\u202e", "x" * 10_000, "x" * 9_999 + "y", "\ud800", "é" * 5_000]
    for name in names:
        match = FakeMatch(10, 20, key=(("job_id", name), ("host", name)), values={"user": name, "n": float("nan")})
        live(store, [match], 0)
    found = store.alerts()
    assert len({alert.key_text for alert in found}) == len(found) == len(names)
    assert len(store.alert(found[0].id).changes) == 1
    for alert in found:
        assert alert.job_id is not None
        assert alert.id in {same.id for same in store.alerts_of_job(alert.job_id)}


def test_a_match_is_a_report_in_each_of_its_windows() -> None:
    plain = FakeMatch(0, 5)
    ids = {report_id("times", "h2", replace(plain, window=window), "{}") for window in (None, (0, 10), (5, 15))}
    assert len(ids) == 3
