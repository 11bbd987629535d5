"""P(at least one match) of alerts: evaluated over the matches of an episode, kept, joined by later ones, told."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from app.alerting.dispatch.notice import group_payload, lone
from app.alerting.notices import Snapshot
from app.alerting.payload import annotations_of
from app.alerting.receivers.news import facts_of
from app.alerting.recording import certainty
from app.alerting.recording.found import found_in
from app.alerting.recording.kept import expectation_of
from app.alerting.recording.recorder import Recorder
from app.alerting.recording.set_aside import from_table, to_table
from app.alerting.snapshots import snapshot_of
from app.alerting.text import EXPECTATION_TEXTS, at_least_one_text
from app.commands.alerts.listing import alert_json
from app.store import Store
from app.store.models import AlertRow
from dashboard.alerts.words import meaning
from engine import Engine, Expectation, Limits, Possibilities, compile_query
from engine.events import EventBatch
from engine.uncertainty.possibilities import Conditions, TimedEvent
from tests.app.alerting_fixtures import FakeMatch, kept, options, receiver
from tests.engine.strategies import SCHEMA

OPTIONS = options(ops=receiver())


def live(store: Store, *matches: FakeMatch) -> AlertRow:
    """One step; the only alert that there is afterwards."""
    with store.transaction() as writer:
        Recorder(OPTIONS, writer, kept, 1_000).live(matches, 0)
    (alert,) = [alert for alert in store.alerts() if alert.merged_into is None]
    return alert


def before(*events: TimedEvent) -> FakeMatch:
    """A match of these events in this order."""
    possible = Conditions(None).of_matches([events])
    return FakeMatch(10, 20, confidence=0.45, possible=possible)


def tossed(name: str, number: int, lo_ms: int = 0) -> TimedEvent:
    """At one of ten milliseconds."""
    return TimedEvent(name, lo_ms, lo_ms + 9, number)


X, Y, Z = (tossed(name, number) for number, name in enumerate("xyz"))
FIXED = TimedEvent("at 5", 5, 5, 9)


def sure(alert: AlertRow) -> tuple[float, float, str]:
    return round(alert.at_least_one_lower, 12), round(alert.at_least_one_upper, 12), alert.at_least_one_method


def test_a_certain_match_makes_the_alert_certain(store: Store) -> None:
    assert sure(live(store, before(X, Y), FakeMatch(10, 20))) == (1.0, 1.0, "certain")
    alert = live(store, before(Y, X))
    assert sure(alert) == (1.0, 1.0, "certain")
    assert alert.possible is None


def test_matches_of_other_events_multiply(store: Store) -> None:
    assert sure(live(store, before(X, FIXED), before(Y, FIXED))) == (0.75, 0.75, "exact")


def test_matches_that_share_events_are_told_apart(store: Store) -> None:
    """x before y in 45 of 100 worlds, y before x in as many, the rest are ties."""
    assert sure(live(store, before(X, Y), before(Y, X))) == (0.9, 0.9, "exact")


def test_a_match_of_a_later_step_joins_exactly(store: Store) -> None:
    assert sure(live(store, before(X, FIXED))) == (0.5, 0.5, "exact")
    assert sure(live(store, before(FIXED, X))) == (0.9, 0.9, "exact")
    assert sure(live(store, before(Y, FIXED))) == (0.95, 0.95, "exact")
    assert sure(live(store, before(Y, FIXED))) == (0.95, 0.95, "exact")  # told twice, as after a restart


def test_a_match_that_bridges_two_episodes_joins_what_is_known_of_them(store: Store) -> None:
    with store.transaction() as writer:
        apart = [before(X, FIXED), FakeMatch(60, 70, possible=before(Y, FIXED).possible, confidence=0.5)]
        Recorder(OPTIONS, writer, kept, 1_000).live(apart, 0)
    assert len(store.alerts()) == 2
    bridge = FakeMatch(15, 65, possible=before(Z, FIXED).possible, confidence=0.5)
    assert sure(live(store, bridge)) == (0.875, 0.875, "exact")


def test_rows_without_conditions_give_bounds(store: Store) -> None:
    assert sure(live(store, FakeMatch(10, 20, confidence=0.5))) == (0.5, 0.5, "exact")
    assert sure(live(store, FakeMatch(11, 20, confidence=0.25))) == (0.5, 0.75, "bounds")
    assert sure(live(store, FakeMatch(12, 20, confidence=0.1, count=7))) == (0.5, 1.0, "bounds")


def test_what_a_limit_cut_off_may_have_happened_too(store: Store) -> None:
    cut = FakeMatch(10, 20, confidence=0.5, possible=before(X, FIXED).possible, capped=True)
    assert sure(live(store, cut)) == (0.5, 1.0, "bounds")


def test_many_matches_are_kept_as_bounds(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certainty, "MAX_MATCHES", 2)
    events = [tossed(f"e{n}", n, n) for n in range(4)]
    alert = live(store, *(before(event, TimedEvent(f"at {n}", n + 5, n + 5, 9 + n)) for n, event in enumerate(events)))
    assert sure(alert) == (0.875, 1.0, "bounds")
    assert alert.possible is not None
    assert [part.lower for part in certainty.kept(alert).parts] == [pytest.approx(0.875)]


def test_what_is_too_long_to_keep_goes_on_as_bounds(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.uncertainty.possibilities.MAX_JSON_CHARS", 10)
    assert live(store, before(X, FIXED)).possible is None
    assert sure(live(store, before(Y, FIXED))) == (0.5, 1.0, "bounds")


def test_the_message_tells_it(store: Store) -> None:
    alert = live(store, before(X, Y), before(Y, X))
    (notification,) = store.notifications()
    payload = group_payload(lone(Snapshot.from_json(notification.payload)), "ops", "http://localhost")
    annotations = payload["alerts"][0]["annotations"]
    assert annotations["at_least_one"] == "90 % (exact)"
    assert (annotations["at_least_one_low"], annotations["at_least_one_high"]) == ("0.9", "0.9")
    assert annotations["at_least_one_method"] == "exact"
    assert snapshot_of(alert).best_confidence == 0.45


def test_a_message_of_an_earlier_version_tells_that_nothing_is_known() -> None:
    values = {
        **{"alert_id": "a", "query": "q", "key": {}, "severity": "info", "state": "firing", "revision": 1},
        **{"start_ms": 0, "end_ms": 1, "values": {}, "summary": "", "runbook": "", "n_matches": 2},
        **{"n_matches_exact": True, "best_confidence": 0.5},
    }
    assert at_least_one_text(Snapshot.from_json(values)) == "unknown"


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ((None,), None),
        ((Expectation.EXPECTED, None), "expected"),
        ((Expectation.EXPECTED, Expectation.UPPER_BOUND), "upper bound"),
        ((Expectation.UPPER_BOUND, None, Expectation.EXPECTED), "upper bound"),
    ],
)
@pytest.mark.parametrize("is_one_step", [True, False])
def test_numbers_of_trends_over_uncertain_times_are_told_as_such(
    store: Store, found: tuple[Expectation | None, ...], told: str | None, is_one_step: bool
) -> None:
    matches = [FakeMatch(10 + n, 20, window=(0, 20 + n), expected=each) for n, each in enumerate(found)]
    for step in [matches] if is_one_step else [[match] for match in matches]:
        alert = live(store, *step)
    snapshot = snapshot_of(alert)
    assert (alert_json(alert)["expectation"], snapshot.expectation) == (told, told)
    facts, annotations = dict(facts_of(snapshot)), annotations_of(snapshot)
    assert annotations.get("expectation") == facts.get("numbers") == (None if told is None else EXPECTATION_TEXTS[told])
    is_sure = None in found  # of a row whose numbers are expected values nothing is known of what happened
    assert sure(alert) == ((1.0, 1.0, "certain") if is_sure else (0.0, 1.0, "bounds"))
    if told is not None:
        assert "at least one match" not in facts
        assert (alert_json(alert)["confidence"], annotations["confidence"]) == (None, "unknown")
        assert EXPECTATION_TEXTS[told] in meaning(alert)


def test_what_numbers_are_is_set_aside_and_survives_a_merge(store: Store) -> None:
    queries = OPTIONS.queries
    found = found_in([FakeMatch(60, 70, expected=Expectation.EXPECTED)], queries)
    (episode,) = from_table(to_table(found, queries, 8)).episodes
    assert episode.expectation == "expected"
    with store.transaction() as writer:
        Recorder(OPTIONS, writer, kept, 1_000).live(
            [FakeMatch(10, 20), FakeMatch(60, 70, expected=Expectation.EXPECTED)], 0
        )
    assert sorted(str(expectation_of(alert)) for alert in store.alerts()) == ["None", "expected"]
    assert expectation_of(live(store, FakeMatch(15, 65))) == "expected"


@pytest.mark.parametrize(
    ("method", "lower", "upper", "estimate", "expected"),
    [
        ("certain", 1.0, 1.0, None, "certain"),
        ("exact", 0.87512, 0.87512, None, "87.5 % (exact)"),
        ("exact", 0.99999, 0.99999, None, "> 99.9 % (exact)"),
        ("exact", 1e-9, 1e-9, None, "< 0.1 % (exact)"),
        ("bounds", 0.81, 0.97, None, "between 81 and 97 %"),
        ("bounds", 0.998, 0.99991, None, "between 99.8 and > 99.9 %"),
        ("bounds", 0.81, 1.0, None, "at least 81 %"),
        ("bounds", 0.0, 0.25, None, "at most 25 %"),
        ("bounds", 0.0, 1.0, None, "unknown"),
        ("estimate", 0.2, 1.0, 0.934, "about 93.4 % (estimated, ± 0.4)"),
    ],
)
def test_words(method: str, lower: float, upper: float, estimate: float | None, expected: str) -> None:
    known = {"at_least_one_method": method, "at_least_one_lower": lower, "at_least_one_upper": upper}
    alert = AlertRow(**known, at_least_one_estimate=estimate, at_least_one_error=None if estimate is None else 0.002)
    assert at_least_one_text(alert) == expected


def _events(rows: Sequence[tuple[str, str, int, int]]) -> EventBatch:
    return EventBatch.from_rows(
        [{"event_id": i, "type": t, "t_lo_ms": lo_ms, "t_hi_ms": hi_ms} for i, t, lo_ms, hi_ms in rows], SCHEMA
    )


def test_from_the_engine_to_the_alert(any_store: Store) -> None:
    """Two starts at unknown times before an end: each in half of its worlds, one of them in three quarters."""
    store = any_store
    query = compile_query("PATTERN SEQ(A a, C c) WHERE skip_till_any_match WITHIN 100", SCHEMA, name="slow")
    matcher = Engine([query], SCHEMA, limits=Limits(possibilities=True))
    rows = [*matcher.process(_events([("a1", "A", 0, 9), ("a2", "A", 0, 9), ("c", "C", 5, 5)]), 50), *matcher.finish()]
    with store.transaction() as writer:
        Recorder(OPTIONS, writer, kept, 1_000).live(rows, 0)
    (alert,) = store.alerts()
    assert (alert.n_matches, alert.best_confidence) == (2, 0.5)
    assert sure(alert) == (0.75, 0.75, "exact")
    assert certainty.kept(alert) != Possibilities.certain()
