"""From a Spark event log that grows to the alert about a slow task of it, through the live path."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from app.alerting.notifier import Notifier
from app.clock import SetClock
from app.live.assembly import Live, assemble
from app.queries.loading import Loaded, load_queries
from app.settings import Queries, Settings, Sources, StoreSettings
from app.store import Store
from tests.collectors.spark.logs import LATER_MS, NAME, T0_MS, ended, lines, recorded, stage, started, task

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


def slow_by_hand(factor: float, min_elapsed_ms: int, min_finished: int) -> set[tuple[str, str]]:
    """(stage, task) by the text of the recorded log alone, from the definition."""
    slow, finished = set[tuple[str, str]](), defaultdict[int, list[int]](list)
    for record in map(json.loads, recorded().splitlines()):
        if record["Event"] != "SparkListenerTaskEnd":
            continue
        info, before = record["Task Info"], finished[record["Stage ID"]]
        period_ms = info["Finish Time"] - info["Launch Time"]
        if (
            len(before) >= min_finished
            and period_ms >= min_elapsed_ms
            and period_ms > factor * sum(before) / len(before)
        ):
            slow.add((f"{record['Stage ID']}.0", f"{info['Index']}.{info['Attempt']}"))
        if record["Task End Reason"]["Reason"] == "Success":
            before.append(period_ms)
    return slow


def test_the_slow_task_of_the_recorded_log_is_the_one_that_is_found(tmp_path: Path, store: Store) -> None:
    for folder in ("logs", "store/checkpoints"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "logs" / f"{NAME}.zstd").write_bytes(recorded(".zstd"))
    given = {"spark-task-stragglers": {"factor": 2, "min_elapsed": 2_000, "min_finished": 3}}
    queries = load_queries(Queries(directory=ROOT / "queries", parameters=given), 60)
    assert not queries.problems
    running = live(tmp_path, store, queries, LATER_MS)
    for second in (0, 30):
        running.poll("spark_events", LATER_MS + 1_000 * second)
        running.pipeline.step(LATER_MS + 1_000 * second)
    running.close()
    found = {(alert.values["stage"], alert.values["task"]) for alert in store.alerts()}
    assert found == slow_by_hand(2, 2_000, 3)
    assert len(found) == 1
