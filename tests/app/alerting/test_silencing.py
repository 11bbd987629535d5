"""Silences by matchers, beginning later, at times only, changed and ended: which alerts are silenced after a step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext

import pytest
from alembic import command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import column, table, text

from app.alerting import operations
from app.alerting.dispatch.intervals import interval_section, parse_interval
from app.alerting.dispatch.matchers import Matcher
from app.alerting.operations import SilenceEdit, edit_silence, end_silence, hidden_by, silence_matching
from app.alerting.people import Person
from app.alerting.recording import between_steps
from app.alerting.recording.between_steps import BetweenSteps
from app.alerting.recording.found import found_in
from app.alerting.recording.recorder import Recorder
from app.alerting.recording.report_rows import LIVE
from app.alerting.silencing import MAX_SILENCES, Holding, Silencing, read_matchers, silencing, stands
from app.errors import AppError
from app.store import Store, open_store
from app.store.migrations.applying import alembic_config
from app.store.models import ProcessStatusRow, SilenceChangeRow, SilenceRow
from app.store.schema import open_database
from tests.app.alerting_fixtures import FakeMatch, kept, options, receiver
from tests.examples import examples

OPTIONS = options(ops=receiver())
TASKS = ("t1", "t2", "u1")
HOUR_MS = 3_600_000


def fire(store: Store, now_ms: int, *tasks: str) -> None:
    with store.transaction() as writer:
        matches = [FakeMatch(10, 20, key=(("task_id", task),), values={"task_id": task}) for task in tasks]
        Recorder(OPTIONS, writer, kept, now_ms).live(matches, 0)


def silenced(store: Store) -> set[str]:
    return {alert.key["task_id"] for alert in store.alerts() if alert.silenced}


def wanted(matchers: str, starts_ms: int, ends_ms: int, *intervals: dict[str, object], now_ms: int = 0) -> Silencing:
    return silencing(read_matchers([matchers]), starts_ms, ends_ms, intervals, now_ms)


def test_a_window_that_begins_later_silences_what_fires_then(any_store: Store) -> None:
    store = any_store
    fire(store, 1_000, "t1", "u1")
    assert silence_matching(store, wanted('task_id=~"t."', 2_000, 4_000), Person("mia"), "new disks", 1_000) == 0
    fire(store, 1_999)
    assert silenced(store) == set()
    fire(store, 2_000)
    assert silenced(store) == {"t1"}
    fire(store, 3_000, "t2")  # a new one
    assert silenced(store) == {"t1", "t2"}
    assert [n.state for n in store.notifications()] == ["firing", "firing"]  # t2 is told to nobody
    fire(store, 4_000)
    assert silenced(store) == set()
    assert len(store.notifications()) == 3  # t2 still fires
    history = [(c.silenced, c.actor, c.reason) for c in store.alert(store.alerts()[0].id).changes][1:]
    assert history == [] or history[-1] == (False, "clustercep", "the silence ended")


def test_a_recurring_silence_holds_at_its_times_only(store: Store) -> None:
    nights = {"times": [{"start_time": "02:00", "end_time": "04:00"}]}
    silence_matching(store, wanted('alertname="slow"', 0, 100 * HOUR_MS, nights), Person("mia"), "", 0)
    fire(store, HOUR_MS, "t1")
    found = []
    for hour in (1, 2, 3, 4, 25, 26, 28):
        fire(store, hour * HOUR_MS)
        (row,) = store.silences(hour * HOUR_MS)
        assert stands(row, hour * HOUR_MS) == ("active" if silenced(store) else "pending")
        found.append(bool(silenced(store)))
    assert found == [False, True, True, False, False, True, False]


def test_a_new_silence_hides_at_once_what_a_changed_one_that_ends_later_hides_with_the_next_step(store: Store) -> None:
    fire(store, 1_000, *TASKS)
    silence_matching(store, wanted('task_id="none"', 0, 9_000), Person("mia"), "first", 1_000)
    (row,) = store.silences(1_000)
    edit_silence(store, row.id, SilenceEdit(matchers=read_matchers(['task_id="t1"'])), Person("bob"), 1_100)
    assert silenced(store) == set()
    assert silence_matching(store, wanted('task_id="t1"', 0, 5_000), Person("eve"), "second", 1_150) == 1
    assert silenced(store) == {"t1"}
    fire(store, 1_200)
    assert silenced(store) == {"t1"}


def test_a_changed_silence_hides_what_it_says_now_and_its_history_is_kept(store: Store) -> None:
    fire(store, 1_000, *TASKS)
    silence_matching(store, wanted('task_id="t1"', 0, 9_000), Person("mia"), "first", 1_000)
    (row,) = store.silences(1_000)
    edit_silence(
        store, row.id, SilenceEdit(matchers=read_matchers(['task_id="u1"']), note="second"), Person("bob"), 1_100
    )
    fire(store, 1_200)
    assert silenced(store) == {"u1"}
    end_silence(store, row.id, Person("eve"), 1_300)
    fire(store, 1_400)
    assert silenced(store) == set()
    with pytest.raises(AppError, match="no silence 1 holds"):
        edit_silence(store, row.id, SilenceEdit(note="third"), Person("bob"), 1_500)
    with store.transaction() as writer:
        changes = [(c.actor, c.what) for c in writer.session.query(SilenceChangeRow).order_by("revision")]
    assert changes[0] == ("mia", "made")
    assert changes[1] == ("bob", "changed: matchers was {task_id=\"t1\"}, comment was 'first'")
    assert changes[2] == ("eve", "ended")


def test_the_preview_is_what_is_silenced(store: Store) -> None:
    fire(store, 1_000, *TASKS)
    matchers = read_matchers(['{alertname="slow",task_id!="t1"}'])
    expected = {alert.key["task_id"] for alert in hidden_by(store, matchers)}
    assert silence_matching(store, silencing(matchers, 1_000, 2_000, (), 1_000), Person("mia"), "", 1_000) == 2
    assert silenced(store) == expected == {"t2", "u1"}


@pytest.mark.parametrize(
    ("matchers", "starts_ms", "ends_ms", "reason"),
    [
        ("", 0, 10, "0 matchers"),
        ('team=""', 0, 10, "hides everything"),
        ('team!="x", host=~".*"', 0, 10, "hides everything"),
        (",".join(f'a{i}="b"' for i in range(21)), 0, 10, "21 matchers"),
        (f'a="{"b" * 1_001}"', 0, 10, "more than 1000 characters"),
        ('a="b"', 0, 5, "over before it begins"),
        ('a="b"', 20, 10, "expected more than nothing"),
        ('a="b"', 0, 367 * 24 * HOUR_MS, "at most"),
        ('a=~"("', 0, 10, "no regular expression"),
    ],
)
def test_what_is_no_silence_is_refused(matchers: str, starts_ms: int, ends_ms: int, reason: str) -> None:
    with pytest.raises(AppError, match=reason):
        wanted(matchers, starts_ms, ends_ms, now_ms=5)


def test_there_are_so_many_silences_at_most(store: Store) -> None:
    with store.transaction() as writer:
        row = {"matchers": [["a", "=", "b"]], "until_ms": 10_000, "created_ms": 0, "reason": "", "actor": "mia"}
        writer.session.add_all([SilenceRow(**row) for _ in range(MAX_SILENCES)])
    with pytest.raises(AppError, match="there are 1000 silences"):
        silence_matching(store, wanted('a="b"', 0, 10_000), Person("mia"), "", 1)


def test_intervals_are_kept_as_they_are_read() -> None:
    section = {
        "times": [{"start_time": "22:00", "end_time": "24:00"}],
        "weekdays": ["monday:friday", "sunday"],
        "days_of_month": ["-3:-1", "1"],
        "months": ["january:3"],
        "years": ["2026"],
        "location": "Europe/Berlin",
    }
    interval = parse_interval(section)
    assert parse_interval(json.loads(json.dumps(interval_section(interval)))) == interval


def test_more_alerts_than_a_step_takes_are_looked_at_by_the_next_ones(store: Store) -> None:
    fire(store, 1_000, *(f"t{n}" for n in range(10)))
    silence_matching(store, wanted('task_id=~"t[0-7]"', 2_000, 5_000), Person("mia"), "", 1_000)

    def apply(now_ms: int) -> int:
        with store.transaction() as writer:
            return Recorder(OPTIONS, writer, kept, now_ms).between_steps.follow(3)

    assert [apply(2_000), apply(2_001)] == [3, 3]
    fire(store, 2_002, "t8", "u1")  # a step takes all that is left
    assert silenced(store) == {f"t{n}" for n in range(8)}
    assert apply(2_003) == 0
    assert [apply(5_000), apply(5_001), apply(5_002), apply(5_003)] == [3, 3, 2, 0]
    assert silenced(store) == set()


def test_a_transaction_looks_at_a_bounded_number_of_alerts_whatever_it_finds(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(between_steps, "MOST_LOOKED_AT", 4)
    fire(store, 1_000, *(f"t{n}" for n in range(10)))
    silence_matching(store, wanted('task_id="t7"', 2_000, 5_000), Person("mia"), "", 1_000)
    n_parts = 0
    with store.transaction() as writer:
        while Recorder(OPTIONS, writer, kept, 2_000).between_steps.follow(3):
            n_parts += 1
    assert n_parts >= 2  # four, four, and two: what is found in the last part alone would be a third
    assert silenced(store) == {"t7"}


@pytest.mark.parametrize("dies", [False, True])
def test_a_silence_of_many_alerts_is_several_short_transactions(
    store: Store, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    monkeypatch.setattr(operations, "MOST_COVERED", 3)
    fire(store, 1_000, *(f"t{n}" for n in range(10)), "u1")
    parts: list[int] = []
    cover = BetweenSteps.cover

    def counted(self: BetweenSteps, silence_id: int, alert_ids: Sequence[str], actor: str, note: str) -> int:
        if dies and parts:
            raise KilledError
        parts.append(len(alert_ids))
        return cover(self, silence_id, alert_ids, actor, note)

    monkeypatch.setattr(BetweenSteps, "cover", counted)
    with pytest.raises(KilledError) if dies else nullcontext():
        n = silence_matching(store, wanted('task_id=~"t.*"', 0, 5_000), Person("mia"), "quiet", 2_000)
        assert n == 10
    assert parts == ([3] if dies else [3, 3, 3, 1])
    if dies:
        assert len(silenced(store)) == 3
        with store.transaction() as writer:
            Recorder(OPTIONS, writer, kept, 2_001).between_steps.follow(100)
    assert silenced(store) == {f"t{n}" for n in range(10)}


class KilledError(Exception):
    """The process ends."""


def test_an_alert_of_a_pause_is_silenced_when_the_same_silence_holds_again(store: Store) -> None:
    nights = {"times": [{"start_time": "02:00", "end_time": "04:00"}]}
    silence_matching(store, wanted('alertname="slow"', 0, 100 * HOUR_MS, nights), Person("mia"), "", 0)
    fire(store, 3 * HOUR_MS, "t1")
    with store.transaction() as writer:  # and then the process died, before it looked at what the pause ends
        match = FakeMatch(10, 20, key=(("task_id", "t2"),), values={"task_id": "t2"})
        recorder = Recorder(OPTIONS, writer, kept, 5 * HOUR_MS)
        for part in recorder.parts(found_in([match], OPTIONS.queries, LIVE, None).episodes):
            recorder.join(part, 0)
    assert silenced(store) == {"t1"}
    fire(store, 27 * HOUR_MS)
    assert silenced(store) == {"t1", "t2"}


def test_a_silence_that_cannot_be_read_hides_nothing_and_stops_nothing(store: Store) -> None:
    with store.transaction() as writer:
        row = {"until_ms": 10_000, "created_ms": 0, "reason": "", "actor": "mia", "matchers": [["a", "!=", "b"]]}
        writer.session.add(SilenceRow(**row, recurrence=[{"location": "Nowhere/Land"}]))
        writer.session.add(SilenceRow(**{**row, "matchers": [["a", "!~", "("]]}))
    fire(store, 1_000, "t1")
    assert silenced(store) == set()
    assert [stands(row, 1_000) for row in store.silences(1_000)] == ["pending", "pending"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["step", "fire", "silence", "end", "shorten"]),
        st.sampled_from(['task_id="t1"', 'task_id=~"t.*"', 'alertname="slow"', 'task_id!~"t1|t2", alertname="slow"']),
        st.integers(0, 30),
        st.integers(1, 60),
    ),
    max_size=12,
)


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
def test_after_each_step_exactly_what_a_silence_covers_is_silenced(store: Store, steps: list[tuple]) -> None:  # type: ignore[type-arg]
    """By definition: an alert is silenced when any silence whose time it is matches its labels."""
    covers = {
        'task_id="t1"': {"t1"}, 'task_id=~"t.*"': {"t1", "t2"}, 'alertname="slow"': {*TASKS},
        'task_id!~"t1|t2", alertname="slow"': {"u1"},
    }  # fmt: skip
    with store.transaction() as writer:
        for model in (SilenceChangeRow, SilenceRow, ProcessStatusRow):
            writer.session.query(model).delete()
    known: dict[int, list[object]] = {}
    now_ms = 1_000
    fire(store, now_ms, *TASKS)
    for what, matchers, waits_ms, n in steps:
        now_ms += waits_ms
        held = [number for number, (_, _, ends_ms) in known.items() if ends_ms > now_ms]  # type: ignore[operator]
        if what == "silence":
            silence_matching(store, wanted(matchers, now_ms + n // 2, now_ms + n), Person("mia"), "", now_ms)
            number = max(row.id for row in store.silences(now_ms))
            known[number] = [matchers, now_ms + n // 2, now_ms + n]
        elif what == "end" and held:
            end_silence(store, held[n % len(held)], Person("mia"), now_ms)
            known[held[n % len(held)]][2] = now_ms
        elif what == "shorten" and held:
            chosen = known[held[n % len(held)]]
            ends_ms = max(now_ms, int(str(chosen[1]))) + 1
            edit_silence(store, held[n % len(held)], SilenceEdit(ends_ms=ends_ms), Person("mia"), now_ms)
            chosen[2] = ends_ms
        else:
            fire(store, now_ms, *(TASKS if what == "fire" else ()))
            expected: set[str] = set()
            for pattern, starts_ms, ends_ms in known.values():
                if starts_ms <= now_ms < ends_ms:  # type: ignore[operator]
                    expected |= covers[str(pattern)]
            assert silenced(store) == expected


LABEL_NAMES, LABEL_VALUES = ("alertname", "host", "job"), ("", "a", "b")
MATCHERS = st.lists(
    st.tuples(
        st.sampled_from(LABEL_NAMES), st.sampled_from(["=", "=", "!=", "=~", "!~"]), st.sampled_from(LABEL_VALUES)
    ),
    max_size=3,
)


@given(
    silences=st.lists(MATCHERS, max_size=8),
    alerts=st.lists(st.dictionaries(st.sampled_from(LABEL_NAMES), st.sampled_from(LABEL_VALUES)), max_size=5),
)
def test_of_many_silences_the_first_whose_matchers_all_hold_covers_an_alert(
    silences: list[list[tuple[str, str, str]]], alerts: list[dict[str, str]]
) -> None:
    rows = [
        SilenceRow(id=number, revision=0, matchers=[[*of] for of in matchers], starts_ms=0, until_ms=9, recurrence=[])
        for number, matchers in enumerate(silences)
    ]
    holding = Holding(rows, 5)
    assert bool(holding) == bool(rows)
    for labels in alerts:
        of_each = ([Matcher(*of).matches(labels) for of in matchers] for matchers in silences)
        expected = next((number for number, found in enumerate(of_each) if found and all(found)), None)
        covering = holding.covering(labels)
        assert (None if covering is None else covering.id) == expected


def test_silences_of_earlier_versions_go_on(empty_url: str) -> None:
    engine = open_database(empty_url, upgrade=False)
    names = ("id", "query", "key_text", "until_ms", "created_ms", "reason", "actor")
    with engine.execution_options(writes=True).begin() as connection:
        command.upgrade(alembic_config(connection), "0012")
        silences = table("silences", *map(column, names))
        for number, key_text in enumerate([None, '{"n":1.5,"task_id":"t1"}', "no key"], 1):
            values = (number, "slow", key_text, 9_000, 100, "known", "mia")
            connection.execute(silences.insert(), dict(zip(names, values, strict=True)))
    engine.dispose()
    with open_store(empty_url) as store:
        assert [row.matchers for row in store.silences(1_000)] == [
            [["alertname", "=", "slow"]],
            [["alertname", "=", "slow"], ["n", "=", "1.5"], ["task_id", "=", "t1"]],
            [["alertname", "=", "slow"], ["key", "=", "no key"]],
        ]
        fire(store, 1_000, "t1")
        assert silenced(store) == {"t1"}
        with store.engine.execution_options(writes=True).begin() as connection:
            command.downgrade(alembic_config(connection), "0012")
            assert connection.execute(text("SELECT query, key_text FROM silences")).all() == [("slow", None)]
