"""The path from sources to store: restart at any point, duplicates, late events, silent sources, finished jobs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from app.alerting.operations import acknowledge
from app.alerting.people import Person
from app.alerting.recording.match import Match
from app.errors import CheckpointError, StoreError
from app.live.checkpoint import CheckpointFolder
from app.live.histories import judgeable_types
from app.store import Store, open_store
from collectors.base import FinishedHistory
from collectors.schema import event_table
from engine.events import EventBatch
from tests.app.pipeline_fixtures import PairMatcher, Script, batch, event, logged, start
from tests.examples import PROFILE, examples
from tests.new_store import placed

BOUNDARIES = ("collect", "order", "match", "checkpoint", "log", "store", "commit", "notify")


class Killed(BaseException):
    """The process is gone: nothing catches this."""


def task(name: str, start_ms: int, end_ms: int, seen_after_ms: int = 3) -> list[tuple[int, dict[str, Any]]]:
    """A task's two events and when a source shows them."""
    return [
        (start_ms + seen_after_ms, event(f"{name}-start", start_ms, "MapStart", task_id=name)),
        (end_ms + seen_after_ms, event(f"{name}-end", end_ms, task_id=name, period_ms=end_ms - start_ms)),
    ]


def scripts() -> list[Script]:
    """Two sources that see the same tasks, one later and in more detail; one of them fails at times."""
    quick = [*task("t1", 5, 40), *task("t2", 12, 55), *task("t3", 90, 120)]
    slow = [*task("t1", 5, 40, 25), *task("t4", 33, 61, 9), *task("t3", 90, 120, 12)]
    lone = batch(event("h-start", 1, "MapStart", task_id="h"), event("h-end", 60, task_id="h"))
    histories = [(70, FinishedHistory("job_h", "h.jhist", lone))]
    return [
        Script("yarn_rest", quick, 30, failing=(50,)),
        Script("job_history", slow, 30, histories=histories),
    ]


def content(store: Store, folder: Path) -> dict[str, Any]:
    """Everything that a user or a receiver can see, without the clock of the run."""
    return {
        "alerts": [
            (a.id, a.state, a.start_ms, a.end_ms, a.n_matches, a.revision, a.values, a.lane)
            for a in sorted(store.alerts(), key=lambda a: a.id)
        ],
        "changes": [(c.alert_id, c.revision, c.to_state) for a in store.alerts() for c in store.alert(a.id).changes],
        "evidence": sorted(
            (e.alert_id, e.event_id, e.type) for a in store.alerts() for e in store.alert(a.id).evidence
        ),
        "reports": sorted((r.id, r.summary) for r in store.reports()),
        "keys": sorted((n.idempotency_key, n.receiver) for n in store.notifications()),
        "statistics": [(s.name, s.source, s.type, s.value) for s in store.statistics()],
        "late": sorted(late.event_id for late in store.late_events()),
        "event log": logged(store, folder),
    }


def uninterrupted(folder: Path) -> dict[str, Any]:
    with open_store(f"sqlite:///{folder / 'whole.db'}", durable=False) as store:
        start(store, folder / "whole", scripts()).run(0, 200)
        return content(store, folder / "whole")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run without kills leaves; not to be changed."""
    return uninterrupted(tmp_path_factory.mktemp("uninterrupted"))


def test_the_whole_path(tmp_path: Path) -> None:
    found = uninterrupted(tmp_path)
    assert [
        (state, start_ms, end_ms) for _, state, start_ms, end_ms, *_ in sorted(found["alerts"], key=lambda a: a[2])
    ] == [
        ("resolved", 1, 60),
        ("resolved", 5, 40),
        ("resolved", 12, 55),
        ("resolved", 33, 61),
        ("resolved", 90, 120),
    ]
    assert len(found["reports"]) == 5
    assert len(found["keys"]) == 10
    assert found["late"] == []
    tasks = [f"t{i}-{end}" for i in range(1, 5) for end in ("start", "end")]
    assert sorted(found["event log"]) == sorted(["h-start", "h-end", *tasks])
    statistics = {(name, source): value for name, source, kind, value in found["statistics"] if kind in ("MapEnd", "")}
    assert statistics["events", "yarn_rest"] == 3
    assert statistics["duplicates", "job_history"] == 2
    assert statistics["events", "job_history"] == 1
    assert statistics["history", "job_history"] == 1
    assert statistics["failed_polls", "yarn_rest"] == 1


@pytest.mark.in_turn(of=2)
@pytest.mark.parametrize("name", BOUNDARIES)
def test_a_kill_at_any_boundary_neither_loses_nor_repeats(tmp_path: Path, expected: dict[str, Any], name: str) -> None:
    """At three of five steps, which are others at the next boundary; in the thorough profile at all."""
    turn = BOUNDARIES.index(name)
    for place, at_step in enumerate((0, 3, 5, 7, 13)):
        if PROFILE != "thorough" and (place + turn) % 5 in (1, 3):
            continue
        folder = tmp_path / f"{name}-{at_step}"
        crash_and_go_on(folder, name, [at_step])
        with open_store(f"sqlite:///{folder / 'store.db'}", durable=False) as store:
            assert without_polls(content(store, folder / "checkpoints")) == without_polls(expected), (
                f"killed before {name} of step {at_step}"
            )


@settings(
    max_examples=examples(8),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(st.sampled_from(BOUNDARIES), st.integers(0, 6)), min_size=1, max_size=5))
def test_any_series_of_kills(
    tmp_path_factory: pytest.TempPathFactory, expected: dict[str, Any], kills: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("kills") / "one"
    now_ms = 0
    for name, after in kills:
        now_ms = until_killed(folder, name, after, now_ms)
    with open_store(f"sqlite:///{folder / 'store.db'}", durable=False) as store:
        start(store, folder / "checkpoints", scripts(), now_ms=now_ms).run(now_ms, 200)
        assert without_polls(content(store, folder / "checkpoints")) == without_polls(expected)


def without_polls(found: dict[str, Any]) -> dict[str, Any]:
    """Polls that were lost with the process are made again, so their number differs."""
    statistics = [s for s in found["statistics"] if s[0] not in ("polls", "failed_polls")]
    return {**found, "statistics": statistics}


def crash_and_go_on(folder: Path, name: str, at_steps: list[int]) -> None:
    now_ms = 0
    for at_step in at_steps:
        now_ms = until_killed(folder, name, at_step, now_ms)
    with open_store(f"sqlite:///{folder / 'store.db'}", durable=False) as store:
        start(store, folder / "checkpoints", scripts(), now_ms=now_ms).run(now_ms, 200)


def until_killed(folder: Path, name: str, after: int, from_ms: int) -> int:
    """Run until the boundary is reached for the (after + 1)-th time; returns when that was."""
    if not folder.exists():
        placed(folder / "store.db")
    n_left = after

    def boundary(reached: str) -> None:
        nonlocal n_left
        if reached == name:
            if n_left == 0:
                raise Killed
            n_left -= 1

    with open_store(f"sqlite:///{folder / 'store.db'}", durable=False) as store:
        process = start(store, folder / "checkpoints", scripts(), now_ms=from_ms, boundary=boundary)
        with pytest.raises(Killed):
            process.run(from_ms, 1_000)
    return from_ms + 10 * after


def test_an_event_of_two_sources_enters_once_with_the_better_copy(any_store: Store, tmp_path: Path) -> None:
    store = any_store
    rest = event("e", 50, task_id="t", status="SUCCEEDED", host="from-rest")
    history = event("e", 50, task_id="t", host="from-history", rack="r1")
    sources = [
        Script("job_history", [(0, event("s", 10, "MapStart", task_id="t")), (60, history)], 30),
        Script("yarn_rest", [(55, rest), (56, rest)], 30),
    ]
    start(store, tmp_path, sources).run(0, 200)
    (alert,) = store.alerts()
    (_, end) = store.alert(alert.id).evidence
    assert alert.n_matches == 1
    assert end.attributes == {"task_id": "t", "host": "from-history", "rack": "r1", "status": "SUCCEEDED"}
    counted = {(s.name, s.source): s.value for s in store.statistics() if s.type == "MapEnd" and s.name != "rows"}
    assert sum(n for (name, _), n in counted.items() if name == "events") == 1
    assert sum(n for (name, _), n in counted.items() if name == "duplicates") == 2


def test_late_events_are_kept_and_take_no_part(any_store: Store, tmp_path: Path) -> None:
    store = any_store
    late = event("e", 10, task_id="t")
    start(store, tmp_path, [Script("yarn_rest", [(0, event("s", 5, "MapStart", task_id="t")), (90, late)])]).run(0, 100)
    assert store.alerts() == []
    (kept,) = store.late_events()
    assert (kept.event_id, kept.t_lo_ms, kept.watermark_ms, kept.attributes) == ("e", 10, 80, {"task_id": "t"})
    assert [p.kind for p in store.problems()] == ["late"]


def test_a_refused_event_is_told_and_the_others_of_its_poll_enter(store: Store, tmp_path: Path) -> None:
    bad = {**event("bad", 10, task_id="t"), "t_hi_ms": 9}
    polls = [(0, event("s", 5, "MapStart", task_id="t")), (20, bad), (20, event("e", 11, task_id="t"))]
    start(store, tmp_path, [Script("yarn_rest", polls)]).run(0, 100)
    (problem,) = store.problems()
    assert (problem.source, problem.kind) == ("yarn_rest", "refused")
    assert (
        problem.message == "1 event(s) refused: event bad (MapEnd): its interval starts at 10 ms, after its end at 9 ms"
    )
    counted = {(row.name, row.source, row.type): row.value for row in store.statistics()}
    assert counted["rejected", "yarn_rest", ""] == 1
    assert sum(n for (name, _, _), n in counted.items() if name == "events") == 2


def test_a_silent_source_is_left_out_after_its_timeout(any_store: Store, tmp_path: Path) -> None:
    store = any_store
    dead = Script("ganglia_rrd", [], failing=range(0, 10_000))
    process = start(store, tmp_path, [Script("yarn_rest", task("t", 5, 20)), dead], timeout_ms=50)
    process.run(0, 50)
    assert store.alerts() == []
    process.run(60, 60)
    assert len(store.alerts()) == 1
    problems = {(p.source, p.kind): p.n_times for p in store.problems()}
    assert problems == {("ganglia_rrd", "unavailable"): 7, ("ganglia_rrd", "left_out"): 1}


def test_finished_history_of_a_job_seen_live_is_a_copy(store: Store, tmp_path: Path) -> None:
    seen = [(10, event("job", 4, "JobStart", job_id="j")), *task("t", 5, 20)]
    history = batch(*(row for _, row in seen))
    script = Script("job_history", seen, histories=[(100, FinishedHistory("j", "j.jhist", history))])
    start(store, tmp_path, [script]).run(0, 200)
    assert [a.lane for a in store.alerts()] == ["live"]
    assert {s.type: s.value for s in store.statistics("duplicates")} == {"JobStart": 1, "MapStart": 1, "MapEnd": 1}


def test_history_replaces_what_the_live_view_missed(store: Store, tmp_path: Path) -> None:
    seen = [(10, event("job", 4, "JobStart", job_id="j")), (10, event("s", 5, "MapStart", task_id="t"))]
    whole = [*(row for _, row in seen), event("e", 20, task_id="t")]
    script = Script("job_history", seen, histories=[(100, FinishedHistory("j", "j.jhist", batch(*whole)))])
    start(store, tmp_path, [script]).run(0, 200)
    assert [(a.lane, a.start_ms, a.end_ms) for a in store.alerts()] == [("history", 5, 20)]
    assert [late.event_id for late in store.late_events()] == ["e"]


def test_a_finished_job_is_judged_with_what_other_sources_tell_of_it(store: Store, tmp_path: Path) -> None:
    """The history gives the start, the log the end; and it comes only after the history."""
    start_row = event("s", 5, "MapStart", task_id="t", job_id="j")
    whole = batch(event("job", 4, "JobStart", job_id="j"), start_row, event("job-end", 25, "JobEnd", job_id="j"))
    history = FinishedHistory("j", "j.jhist", whole)
    log = [(95, event("e", 20, task_id="t", job_id="j")), (95, event("other", 20, task_id="t", job_id="k"))]
    sources = [
        Script("job_history", [], histories=[(10, history)]),
        Script("container_log", log, lateness_ms=80),
    ]
    start(store, tmp_path, sources).run(0, 200)
    assert [(a.lane, a.start_ms, a.end_ms, a.n_matches) for a in store.alerts()] == [("history", 5, 20, 1)]


def test_which_types_can_be_judged_once_a_job_is_over() -> None:
    life_cycle = {"JobStart", "JobEnd", "MapStart", "MapEnd", "ReducerStart", "ReducerEnd", "Mapper", "Reducer"}
    life_cycle |= {"AttemptCounters", "JobCounters", "JobSettings"}
    assert judgeable_types(event_table(), ["job_history"]) == life_cycle
    with_logs = judgeable_types(event_table(), ["job_history", "container_log"])
    of_jobs = {"DataPull", "DataIO", "PipelineLost", "ConnectRetry", "FetchFailed", "HostBlacklisted", "Speculated"}
    of_jobs |= {"ReducerSilent"}
    assert with_logs == life_cycle | of_jobs
    everything = {"job_history", "container_log", "yarn_rest", "ganglia_rrd", "daemon_log"}
    of_daemons = {"ContainerKilled", "ContainerFailed", "ContainerLocalized", "LocalizerFailed", "MasterFailed"}
    more = of_daemons | {"ClientTrace", "TaskSample", "AppWaiting"}
    assert judgeable_types(event_table(), everything) == with_logs | more


def test_a_damaged_checkpoint_is_refused(store: Store, tmp_path: Path) -> None:
    start(store, tmp_path, scripts()).run(0, 50)
    *_, file = sorted(tmp_path.glob("checkpoint-*.arrow"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match="not what was written"):
        start(store, tmp_path, scripts())


def test_only_the_last_checkpoints_are_kept(store: Store, tmp_path: Path) -> None:
    (tmp_path / "checkpoint-000000000099.arrow.part").write_bytes(b"half")
    start(store, tmp_path, scripts()).run(0, 50)
    assert sorted(p.name for p in tmp_path.glob("checkpoint*")) == [f"checkpoint-{n:012d}.arrow" for n in (4, 5, 6)]


def test_changed_queries_start_again_from_kept_events(store: Store, tmp_path: Path) -> None:
    start(store, tmp_path, scripts()).run(0, 50)
    found: list[int] = []
    fresh = PairMatcher()

    def rewind(events: EventBatch, _watermark_ms: int) -> tuple[PairMatcher, list[Match]]:
        found.append(len(events))
        return fresh, []

    process = start(store, tmp_path, scripts())
    process.pipeline.matcher.save = lambda: {}  # type: ignore[method-assign]  # as an engine with other queries
    process.run(60, 60)
    again = start(store, tmp_path, scripts(), rewind=rewind)
    assert found == [len(again.pipeline.recent)]
    assert again.pipeline.matcher is fresh


def test_a_store_that_refuses_leaves_the_step_undone(any_store: Store, tmp_path: Path) -> None:
    store = any_store
    process = start(store, tmp_path, [Script("yarn_rest", task("t", 5, 20))])
    refusing = {
        "sqlite": ["CREATE TRIGGER no BEFORE INSERT ON alerts BEGIN SELECT RAISE(ABORT, 'disk full'); END"],
        "postgresql": [
            "CREATE FUNCTION refuse() RETURNS trigger AS 'BEGIN RAISE ''disk full''; END' LANGUAGE plpgsql",
            "CREATE TRIGGER no BEFORE INSERT ON alerts FOR EACH ROW EXECUTE FUNCTION refuse()",
        ],
    }
    with store.transaction() as writer:
        for statement in refusing[store.engine.dialect.name]:
            writer.session.execute(text(statement))
    with pytest.raises(StoreError, match="disk full"):
        process.run(0, 100)
    with store.transaction() as writer:
        on = "" if store.engine.dialect.name == "sqlite" else " ON alerts"
        writer.session.execute(text(f"DROP TRIGGER no{on}"))
    start(store, tmp_path, [Script("yarn_rest", task("t", 5, 20))], now_ms=100).run(100, 200)
    assert [a.state for a in store.alerts()] == ["resolved"]


def test_the_boundaries_of_a_step_are_those_that_are_tested(store: Store, tmp_path: Path) -> None:
    reached: list[str] = []
    start(store, tmp_path, scripts(), boundary=reached.append).run(0, 0)
    assert tuple(reached) == BOUNDARIES


def test_a_person_waits_for_the_step_and_the_step_for_the_person(any_store: Store, tmp_path: Path) -> None:
    """An acknowledgement that comes while a step is about to commit: both are kept, neither fails."""
    store = any_store
    errors: list[BaseException] = []
    people: list[threading.Thread] = []

    def acknowledging() -> None:
        try:
            acknowledge(store, store.alerts()[0].id, Person("alice"), "", 1_000)
        except BaseException as error:  # noqa: BLE001  # told by the assertion below
            errors.append(error)

    def boundary(reached: str) -> None:
        if reached == "collect" and people:
            people[0].join(60)
        if reached == "commit" and any(alert.state == "firing" for alert in store.alerts()) and not people:
            people.append(threading.Thread(target=acknowledging))
            people[0].start()

    more_ends = [(t_ms + 3, event(f"end-{t_ms}", t_ms, task_id="t")) for t_ms in (24, 36, 44, 52, 60)]
    source = Script("yarn_rest", [*task("t", 5, 20), *more_ends])
    start(store, tmp_path, [source], boundary=boundary).run(0, 100)
    assert errors == []
    (alert,) = store.alerts()
    changes = store.alert(alert.id).changes
    assert [change.revision for change in changes] == list(range(1, len(changes) + 1))
    assert "acknowledged" in [change.to_state for change in changes]
    assert (alert.n_matches, alert.end_ms, alert.state) == (6, 60, "resolved")


def test_forgetting_the_position_begins_another_epoch(any_store: Store, tmp_path: Path) -> None:
    store = any_store
    sources = [Script("yarn_rest", task("t", 5, 20))]
    start(store, tmp_path, sources).run(0, 100)
    before = logged(store, tmp_path)
    with store.transaction() as writer:
        writer.progress.forget_checkpoint("live")
    CheckpointFolder(tmp_path, "live").forget()
    assert logged(store, tmp_path) == before == ["t-start", "t-end"]
    later = [Script("yarn_rest", [*task("t", 5, 20), *task("u", 105, 120)])]
    process = start(store, tmp_path, later, now_ms=100)
    assert process.pipeline.number == 0
    process.run(100, 200)
    assert logged(store, tmp_path) == ["t-start", "t-end", "u-start", "u-end"]
    assert len(store.event_log_positions()) == 2


def test_how_the_sources_and_the_process_stand(any_store: Store, tmp_path: Path) -> None:
    store = any_store
    sources = [Script("yarn_rest", [], 7), Script("ganglia_rrd", [], failing=(20, 30))]
    process = start(store, tmp_path, sources)
    process.pipeline.status = lambda: {"pid": 7, "queries": {"slow": {"n_events": 3}}}
    process.run(0, 30)
    rest, ganglia = reversed(store.source_status())
    assert (rest.name, rest.interval_ms, rest.watermark_ms, rest.polled_ms, rest.succeeded_ms) == (
        "yarn_rest",
        10,
        23,
        30,
        30,
    )
    assert (rest.n_failed_in_a_row, rest.last_error, rest.left_out) == (0, None, False)
    assert (ganglia.watermark_ms, ganglia.polled_ms, ganglia.succeeded_ms, ganglia.n_failed_in_a_row) == (10, 30, 10, 2)
    assert ganglia.last_error == "no answer at 30"
    row = store.process_status()
    assert row is not None
    assert (row.updated_ms, row.value["stepped_ms"], row.value["watermark_ms"], row.value["pid"]) == (30, 30, 10, 7)
    assert row.value["queues"] == {"intake": 0, "waiting": 0, "recent": 0, "outbox": 0}
    assert row.value["queries"] == {"slow": {"n_events": 3}}
    again = start(store, tmp_path, [Script("ganglia_rrd", [], failing=(40, 2_000))], now_ms=40)
    again.run(40, 40)
    (ganglia,) = store.source_status()
    assert (ganglia.succeeded_ms, ganglia.n_failed_in_a_row) == (10, 3)  # counted on over the restart
    again.run(2_000, 2_000)
    (ganglia,) = store.source_status()
    assert (ganglia.n_failed_in_a_row, ganglia.left_out) == (4, True)
