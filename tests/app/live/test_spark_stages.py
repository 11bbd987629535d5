"""From a Spark event log that grows to the alert about a slow task of it, through the live path."""

from __future__ import annotations

from pathlib import Path

from app.alerting.notifier import Notifier
from app.clock import SetClock
from app.live.assembly import Live, assemble
from app.queries import Loaded, load_queries
from app.settings import Queries, Settings, Sources, StoreSettings
from app.store import Store
from tests.collectors.spark.logs import NAME, T0_MS, ended, lines, stage, started, task

MINUTE_MS = 60_000
"""The stage takes an hour: all but its last task's end wait in the driver's buffer until it is over."""
END_MS = T0_MS + 60 * MINUTE_MS
BEFORE = [*started(), stage(0, T0_MS)]
BUFFERED = [
    *(task(n, 0, T0_MS, T0_MS + n * MINUTE_MS) for n in (1, 2, 3)),
    task(4, 0, T0_MS, END_MS, Host="n7"),
    stage(0, END_MS, "Completed"),
]


ROOT = Path(__file__).parents[3]


def live(folder: Path, store: Store, queries: Loaded, now_ms: int) -> Live:
    sources = Sources.model_validate({"spark_events": {"enabled": True, "directory": folder / "logs"}})
    settings = Settings(sources=sources, store=StoreSettings(directory=folder / "store"))
    notifier = Notifier(store, {}, SetClock(now_ms))
    return assemble(settings, queries, store, notifier, now_ms, durable=False)


def test_a_slow_task_is_found_once_its_stage_is_over_whatever_was_promised(tmp_path: Path, store: Store) -> None:
    for folder in ("logs", "store/checkpoints"):
        (tmp_path / folder).mkdir(parents=True)
    log = tmp_path / "logs" / f"{NAME}.inprogress"
    queries = load_queries(Queries(directory=ROOT / "queries"), 60)
    assert not queries.problems
    log.write_bytes(lines(*BEFORE))
    running = live(tmp_path, store, queries, T0_MS + 1_000)
    for minute in (0, 10, 30, 59):  # others go on meanwhile: the watermark is far behind the first tasks' ends
        running.poll("spark_events", T0_MS + 1_000 + minute * MINUTE_MS)
        running.pipeline.step(T0_MS + 1_000 + minute * MINUTE_MS)
    running.close()
    assert store.alerts() == []
    log.write_bytes(lines(*BEFORE, *BUFFERED[:-1]) + lines(BUFFERED[-1])[:50])
    running = live(tmp_path, store, queries, END_MS + 1_000)
    for second in (1, 20):
        running.poll("spark_events", END_MS + 1_000 * second)
        running.pipeline.step(END_MS + 1_000 * second)
    assert store.alerts() == []
    running.close()  # with the ends of its tasks in the checkpoint
    log.write_bytes(lines(*BEFORE, *BUFFERED, ended(END_MS + 29_000)))
    log.rename(log.with_name(NAME))
    running = live(tmp_path, store, queries, END_MS + 30_000)
    for second in (30, 60):
        running.poll("spark_events", END_MS + 1_000 * second)
        running.pipeline.step(END_MS + 1_000 * second)
    running.close()
    (alert,) = store.alerts()
    assert (alert.query, alert.host) == ("spark-task-stragglers", "n7")
    assert alert.values["period_ms"] == 60 * MINUTE_MS
    assert (alert.values["avg_finished_ms"], alert.values["n_finished"]) == (2 * MINUTE_MS, 3)
    assert (alert.values["task"], alert.values["application_name"]) == ("4.0", "orders")
    labels = dict(alert.labels)
    assert (labels["application"], labels["user"]) == ("application_1795748346000_0007", "ann")
    assert store.late_events() == []
