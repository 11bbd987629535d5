"""A step is stored in parts: what is in the store afterwards does not depend on them, nor on kills between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, event, select

from app.alerting import operations
from app.alerting.people import Person
from app.alerting.recording import between_steps
from app.alerting.recording.found import found_in
from app.alerting.recording.recorder import Recorder
from app.alerting.silencing import read_matchers, silencing
from app.live.checkpoint import CheckpointFolder
from app.live.intake import Intake, IntakeQueue
from app.live.pipeline import UNSTORED
from app.live.unstored import OfHistory, Unstored, read_tables
from app.store import Store, open_store
from app.store.models import (
    AlertChangeRow,
    AlertHostRow,
    AlertRow,
    EvidenceRow,
    NotificationRow,
    ReportRow,
    SilenceRow,
)
from collectors.base import FinishedHistory
from engine import Possibilities, ast
from tests.app.alerting_fixtures import FakeMatch, kept, options, receiver
from tests.app.live.test_pipeline import Killed, content, task, without_polls
from tests.app.pipeline_fixtures import Process, Script, batch, start
from tests.app.pipeline_fixtures import event as task_event
from tests.examples import examples
from tests.new_store import placed

TABLES = (AlertRow, AlertHostRow, AlertChangeRow, EvidenceRow, NotificationRow, ReportRow)
PLAIN = options(ops=receiver(), other=receiver(send_resolved=False))
OPTIONS = replace(
    PLAIN,
    queries={
        **PLAIN.queries,
        "slow": replace(
            PLAIN.queries["slow"],
            numbers=frozenset({"period_ms"}),
            shown=(ast.Shown(ast.Aspect.MAX, "period_ms", ()),),
            summary="{task_id} took {period_ms.max}, first {period_ms.first}",
        ),
        "often": replace(PLAIN.queries["slow"], name="often", hash="h3", per=("host",), onset="b"),
    },
    max_evidence_events=3,
)
PARTS = (1, 2, 5)


@pytest.fixture
def store(any_store: Store) -> Store:
    """What is true of parts does not depend on the database."""
    return any_store


def match(
    query: str, task_name: str, start_ms: int, length_ms: int, value: float | None, confidence: float
) -> FakeMatch:
    """Its events are its own; of equal arguments equal ones."""
    name = f"{query}-{task_name}-{start_ms}-{length_ms}-{value}"
    return FakeMatch(
        start_ms,
        start_ms + length_ms,
        query,
        (("task_id", task_name),),
        {"a": (f"{name}-a",), "b": tuple(f"{name}-b{i}" for i in range(length_ms % 4))},
        confidence,
        {"task_id": task_name, "period_ms": value, "host": f"n{start_ms % 2}", "user": "a\x00\udcff"},
        possible=None if confidence == 1.0 else Possibilities.known_by(confidence, confidence),
    )


MATCHES = st.lists(
    st.builds(
        match,
        st.sampled_from(["slow", "often", "times"]),
        st.sampled_from(["t1", "t2", "t3"]),
        st.integers(0, 80),
        st.integers(0, 8),
        st.sampled_from([1.0, 2.5, float("inf"), float("nan"), None]),
        st.sampled_from([1.0, 0.25]),
    ),
    max_size=9,
)
STEPS = st.lists(
    st.tuples(MATCHES, MATCHES, st.integers(0, 50), st.sampled_from(["", "acknowledge", "silence", "merge"])),
    min_size=1,
    max_size=4,
)


def in_one(store: Store, live: Sequence[FakeMatch], past: Sequence[FakeMatch], watermark_ms: int, now_ms: int) -> None:
    """As one transaction."""
    with store.transaction() as writer:
        recorder = Recorder(OPTIONS, writer, kept, now_ms)
        recorder.live(live, watermark_ms)
        recorder.history(past, kept)


def in_parts(
    store: Store, n: int, live: Sequence[FakeMatch], past: Sequence[FakeMatch], watermark_ms: int, now_ms: int
) -> None:
    """As transactions of `n` alerts, with a process for each that goes on where the one before it came to."""
    history = FinishedHistory("j", "j.jhist", batch())

    def replay(of: FinishedHistory) -> OfHistory:
        return OfHistory(of, found_in(past, OPTIONS.queries, "history"), kept)

    with store.transaction() as writer:
        Recorder(OPTIONS, writer, kept, now_ms).settle_changed_queries()
    rest = Unstored(watermark_ms, found_in(live, OPTIONS.queries), [replay(history)], n)
    tables, histories = rest.save(OPTIONS)
    n_parts = 0
    while not rest.is_stored:
        with store.transaction() as writer:
            rest.store_part(Recorder(OPTIONS, writer, kept, now_ms, rest.effort))
            progress = rest.progress()
        found, finished = read_tables(tables, histories)
        if rest.is_stored:
            break
        rest = Unstored.restored(watermark_ms, found, finished, progress, replay, n)
        n_parts += 1
        assert n_parts < 200


def rows(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Everything, in the order of its key."""
    with store.transaction() as writer:
        return {
            model.__tablename__: sorted(
                (tuple(map(repr, row)) for row in writer.session.execute(select(*model.__table__.columns))),
            )
            for model in TABLES
        }


@pytest.mark.in_turn(of=2)
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS, n=st.sampled_from(PARTS))
def test_parts_leave_the_same_as_one_transaction(any_store: Store, steps: list[Any], n: int) -> None:
    assert_parts_leave_the_same(any_store, steps, n)


def test_those_that_a_silence_no_longer_hides_are_told_in_one_order(any_store: Store) -> None:
    begun = [match("slow", "t1", 100 * i, 0, 1.0, 1.0) for i in range(8)]
    assert_parts_leave_the_same(any_store, [(begun[:4], [], 0, "silence"), (begun[4:], [], 0, ""), ([], [], 0, "")], 1)
    by_start = sorted((alert for alert in any_store.alerts() if alert.revision > 1), key=lambda alert: alert.start_ms)
    assert len(by_start) > 4
    assert by_start != sorted(by_start, key=lambda alert: alert.id), "these would be in one order by chance"


def assert_parts_leave_the_same(any_store: Store, steps: list[Any], n: int) -> None:
    """What is in the store after the steps, in one transaction each and in parts of `n` alerts."""
    found = []
    for parts in (0, n):
        with any_store.transaction() as writer:
            for model in (*TABLES, SilenceRow):
                writer.session.execute(delete(model))
        watermark_ms, now_ms = 0, 1_000
        for live, past, passes_ms, what in steps:
            watermark_ms, now_ms = watermark_ms + passes_ms, now_ms + 10
            step(any_store, parts, live, past, watermark_ms, now_ms)
            open_ones = sorted(alert.id for alert in any_store.alerts() if alert.state == "firing")
            if what == "acknowledge" and open_ones:
                operations.acknowledge(any_store, open_ones[0], Person("mia"), "", now_ms)
            if what == "silence" and open_ones:
                operations.silence(any_store, open_ones[-1], 15, Person("mia"), "", now_ms)
        found.append(rows(any_store))
    assert found[0] == found[1]


def step(
    store: Store, n: int, live: Sequence[FakeMatch], past: Sequence[FakeMatch], watermark_ms: int, now_ms: int
) -> None:
    """In parts of `n` alerts, 0: in one."""
    if n:
        in_parts(store, n, live, past, watermark_ms, now_ms)
    else:
        in_one(store, live, past, watermark_ms, now_ms)


# ----------------------------------------------------------------- kills, lives

BOUNDARIES = ("collect", "order", "match", "checkpoint", "log", "store", "commit", "part", "commit part", "notify")


def scripts() -> list[Script]:
    """Ten tasks that are seen at once, and a job that is known from its history alone."""
    rows = [row for i in range(10) for row in task(f"t{i}", 10 + i, 40 + i, 25)]
    lone = [row for i in range(3) for row in (task_event(f"h{i}-start", 1, "MapStart", task_id=f"h{i}"),
                                             task_event(f"h{i}-end", 60, task_id=f"h{i}"))]  # fmt: skip
    return [Script("yarn_rest", rows, 30, histories=[(70, FinishedHistory("job_h", "h.jhist", batch(*lone)))])]


def process(store: Store, folder: Path, now_ms: int, most_alerts: int, boundary: Any = None) -> Process:
    """With parts of so many alerts; what was set aside is then stored in such parts, too."""
    started = start(store, folder, scripts(), now_ms=now_ms)
    started.pipeline.most_alerts = most_alerts
    if started.pipeline.unstored is not None:
        started.pipeline.unstored._most_alerts = most_alerts
    if boundary is not None:
        started.pipeline.boundary = boundary
    return started


def run(started: Process, from_ms: int) -> None:
    """To the end."""
    started.run(from_ms, 200)
    while started.pipeline.is_behind:
        started.pipeline.step(200)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("whole")
    with open_store(placed(folder / "whole.db"), durable=False) as store:
        run(process(store, folder / "whole", 0, 1_000), 0)
        return without_polls(content(store, folder / "whole"))


def test_small_parts_leave_the_same_as_whole_steps(tmp_path: Path, expected: dict[str, Any]) -> None:
    reached: list[str] = []
    with open_store(placed(tmp_path / "store.db"), durable=False) as store:
        run(process(store, tmp_path / "cut", 0, 2, reached.append), 0)
        assert without_polls(content(store, tmp_path / "cut")) == expected
    assert set(reached) == set(BOUNDARIES)
    assert reached.count("part") > 10
    assert len(expected["alerts"]) == 13


@settings(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    kills=st.lists(st.tuples(st.sampled_from(BOUNDARIES), st.integers(0, 5)), min_size=1, max_size=6),
    most_alerts=st.sampled_from([1, 3]),
)
def test_any_series_of_kills_between_parts_loses_and_doubles_nothing(
    tmp_path_factory: pytest.TempPathFactory, expected: dict[str, Any], kills: list[tuple[str, int]], most_alerts: int
) -> None:
    folder = tmp_path_factory.mktemp("kills")
    placed(folder / "store.db")
    now_ms = 0
    for name, after in kills:
        now_ms = until_killed(folder, name, after, now_ms, most_alerts)
    with open_store(f"sqlite:///{folder / 'store.db'}", durable=False) as store:
        run(process(store, folder / "cut", now_ms, most_alerts), now_ms)
        assert without_polls(content(store, folder / "cut")) == expected


def until_killed(folder: Path, name: str, after: int, from_ms: int, most_alerts: int) -> int:
    """Run until the boundary is reached for the (after + 1)-th time; returns the time of that step."""
    n_left, now_ms = after, from_ms

    def boundary(reached: str) -> None:
        nonlocal n_left
        if reached == name:
            if n_left == 0:
                raise Killed
            n_left -= 1

    with open_store(f"sqlite:///{folder / 'store.db'}", durable=False) as store:
        started = process(store, folder / "cut", from_ms, most_alerts, boundary)
        try:
            for now_ms in range(from_ms, 200, 10):
                started.run(now_ms, now_ms)
        except Killed:
            pass
    return now_ms


def test_each_life_brings_the_store_further_however_short_it_is(tmp_path: Path, expected: dict[str, Any]) -> None:
    """Each ends after one transaction."""
    placed(tmp_path / "store.db")
    seen: list[tuple[int, ...]] = []
    n_left = 0

    def boundary(reached: str) -> None:
        nonlocal n_left
        if reached == "notify":
            n_left -= 1
            if not n_left:
                raise Killed

    for _ in range(100):
        with open_store(f"sqlite:///{tmp_path / 'store.db'}", durable=False) as store:
            started = process(store, tmp_path / "cut", 200, 2, boundary)
            if (
                started.pipeline.number
                and not started.pipeline.unstored
                and seen[-1][-1] == len(expected["alerts"]) * 2
            ):
                break
            n_left = 1
            with pytest.raises(Killed):
                run(started, 200)
            row, progress = store.checkpoint("live"), store.progress()
            assert row is not None
            n_changes = sum(alert.revision for alert in store.alerts())
            done = (progress.get("n_episodes", 0), progress.get("n_reports", 0), progress.get("n_histories", 0))
            seen.append((row.number, *done, n_changes))
    assert seen == sorted(seen), "what was stored stays so"
    assert len(set(seen)) > 8
    assert seen[-1][-1] == len(expected["alerts"]) * 2


@pytest.mark.parametrize("what", ["fires again", "no longer acknowledged", "silenced", "no longer silenced"])
def test_what_people_and_the_clock_changed_is_told_in_parts(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A step that finds nothing, and has to follow many: people wait for no transaction that does all of it."""
    monkeypatch.setattr(between_steps, "MOST_LOOKED_AT", 3)
    live(store, many(9), 0)
    mia = Person("mia")
    if "silenced" not in what:
        for alert in store.alerts():
            operations.acknowledge(store, alert.id, mia, "", 1_001, for_ms=15)
            if what == "fires again":
                operations.unacknowledge(store, alert.id, mia, "", 1_002)
    else:
        wanted = silencing(read_matchers(['alertname="slow"']), 1_010, 1_020, (), 1_001)
        operations.silence_matching(store, wanted, mia, "", 1_001)
    reached: list[str] = []
    started = start(store, tmp_path / "cut", [], alerting=options(ops=receiver()), boundary=reached.append)
    started.pipeline.most_alerts = 2
    if "no longer" in what:
        run_at(started, 1_010)
        assert {(alert.state, alert.silenced) for alert in store.alerts()} != {("firing", False)}
        reached.clear()
    now_ms = 1_020 if "no longer" in what else 1_010
    run_at(started, now_ms)
    assert reached.count("commit part") >= 3
    assert {(alert.state, alert.silenced) for alert in store.alerts()} == {("firing", what == "silenced")}
    reached.clear()
    run_at(started, now_ms + 1)
    assert "commit part" not in reached, "all of it was followed"


def run_at(started: Process, now_ms: int) -> None:
    """What is to be done at one time."""
    started.pipeline.step(now_ms)
    while started.pipeline.is_behind:
        started.pipeline.step(now_ms)


def test_a_backlog_is_released_in_shares_and_the_position_moves_in_each_life(tmp_path: Path) -> None:
    placed(tmp_path / "store.db")
    positions: list[int] = []
    rows = [row for i in range(60) for row in task(f"t{i}", 10 * i, 10 * i + 5)]
    for _life in range(40):
        with open_store(f"sqlite:///{tmp_path / 'store.db'}", durable=False) as store:
            started = start(store, tmp_path / "cut", [Script("yarn_rest", rows)], now_ms=1_000)
            started.pipeline.order.most_events = 7
            started.run(1_000, 1_000)
            row = store.process_status()
            assert row is not None
            positions.append(row.value["watermark_ms"])
            if not started.pipeline.is_behind:
                break
    assert positions == sorted(set(positions)), "further in each life"
    assert len(positions) > 10
    with open_store(f"sqlite:///{tmp_path / 'store.db'}", durable=False) as store:
        assert len(store.alerts()) == 60


# ------------------------------------------------------------------- statements


@contextmanager
def counted(store: Store) -> Iterator[list[str]]:
    """The statements of a block, one for each call of the driver."""
    statements: list[str] = []

    def seen(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        statements.append(statement)

    event.listen(store.engine, "before_cursor_execute", seen)
    try:
        yield statements
    finally:
        event.remove(store.engine, "before_cursor_execute", seen)


def many(n: int, first: int = 0) -> list[FakeMatch]:
    return [match("slow", f"t{i}", 10 + i % 3, 7, 1.0, 1.0) for i in range(first, first + n)]


def test_statements_do_not_grow_with_alerts_nor_with_their_evidence(store: Store) -> None:
    """Of one part: alerts that are new, that grow, and that are over, with messages for two receivers."""
    n_statements = []
    for number, n in enumerate((5, 60)):
        with counted(store) as statements:
            live(store, many(n, 1_000 * number), 0)
            grown = [replace(m, last_hi_ms=m.last_hi_ms + 1) for m in many(n, 1_000 * number)]
            live(store, grown, 0)
            live(store, [], 1_000)
        n_statements.append(len(statements))
    assert store.n_alerts() == 65
    assert len(rows(store)["notifications"]) == 65 * 3
    few, lots = n_statements
    assert lots <= few + 6, "a few more, since updates of many rows go by the columns that change"
    assert few < 75


@pytest.mark.parametrize(("watermark_ms", "n"), [(0, 1), (1_000, 2)])
def test_alerts_behind_incidents_are_looked_at_again_only_after_some_were_over(
    store: Store, watermark_ms: int, n: int
) -> None:
    live(store, many(3), 0)
    rest = Unstored(watermark_ms, found_in([], OPTIONS.queries), ())
    with counted(store) as statements, store.transaction() as writer:
        rest.store_part(Recorder(OPTIONS, writer, kept, 2_000))
    assert len([text for text in statements if "alerts.inhibited IS" in text and "NOT (EXISTS" in text]) == n


def live(store: Store, matches: Sequence[FakeMatch], watermark_ms: int) -> None:
    with store.transaction() as writer:
        Recorder(OPTIONS, writer, kept, 1_000).live(matches, watermark_ms)


def test_messages_of_a_batch_overtake_what_is_tried_of_their_labels(store: Store) -> None:
    live(store, many(3), 0)
    (first, *_) = store.notifications()
    with store.transaction() as writer:
        writer.outbox.record_attempt(
            first.idempotency_key, "ops", status="pending", error="x", next_attempt_ms=9_000, now_ms=1_001
        )
    live(store, [], 1_000)
    by_alert = {n.state: n for n in store.notifications() if n.alert_id == first.alert_id and n.receiver == "ops"}
    assert by_alert["firing"].status == "overtaken"
    assert (by_alert["resolved"].status, by_alert["resolved"].next_attempt_ms) == ("pending", 9_000)


def test_what_waits_for_receivers_is_not_looked_through_for_each_batch(tmp_path: Path) -> None:
    """In a storm all of it waits: messages of the same labels are found by their index."""
    with open_store(placed(tmp_path / "store.db"), durable=False) as store:
        live(store, many(5), 0)
        with counted(store) as statements:
            live(store, many(5, 100), 0)
        (of_same,) = {text for text in statements if "FROM notifications" in text and "tried_since_ms IS NOT" in text}
        with store.engine.connect() as connection:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {of_same}", ("",) * of_same.count("?")).all()
    assert [row[-1] for row in plan] == [
        "SEARCH notifications USING INDEX ix_notifications_fingerprint (receiver=? AND fingerprint=? AND status=?)"
    ]


def test_recent_events_are_looked_through_for_several_parts_at_once(store: Store) -> None:
    asked: list[int] = []

    def lookup(ids: Sequence[str]) -> Any:
        asked.append(len(ids))
        return kept(ids)

    rest = Unstored(0, found_in([replace(m, bindings={"a": (f"{m.key}",)}) for m in many(40)], OPTIONS.queries), (), 4)
    rest.save(OPTIONS)
    while not rest.is_stored:
        with store.transaction() as writer:
            rest.store_part(Recorder(OPTIONS, writer, lookup, 1_000))
    assert asked == [40]
    found = [store.alert(alert.id).evidence[0] for alert in store.alerts()]
    assert {row.event_id: row.t_hi_ms for row in found} == {f"{m.key}": 2 for m in many(40)}


def test_a_checkpoint_of_before_has_nothing_set_aside(tmp_path: Path, expected: dict[str, Any]) -> None:
    with open_store(placed(tmp_path / "store.db"), durable=False) as store:
        started = process(store, tmp_path / "cut", 0, 1_000)
        started.run(0, 50)
        row = store.checkpoint("live")
        assert row is not None
        folder = CheckpointFolder(tmp_path / "cut", "live", durable=False)
        now = folder.read(row)
        state = {name: value for name, value in now.state.items() if name != UNSTORED}
        with store.transaction() as writer:
            writer.progress.put_checkpoint(folder.write(replace(now, state=state), 50, row.epoch))
        again = process(store, tmp_path / "cut", 60, 2)
        assert again.pipeline.unstored is None
        run(again, 60)
        assert without_polls(content(store, tmp_path / "cut")) == expected


def test_a_step_takes_in_a_bounded_share_of_the_polls_that_wait() -> None:
    queue = IntakeQueue()
    for n in (3, 2, 9, 1):
        queue.put(Intake("yarn_rest", n, batch(*(task_event(f"{n}-{i}", 1) for i in range(n))), 0))
    taken = [[intake.polled_ms for intake in queue.drain(5)] for _ in range(4)]
    assert taken == [[3, 2], [9], [1], []]
