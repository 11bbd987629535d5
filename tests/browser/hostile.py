"""Alerts that still fire, and names that try to act, in a copy of the demo's store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.alerting.recording.evidence import KnownEvent
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.recorder import Recorder
from app.event_log import EventLog
from app.live.assembly import event_log_folder
from app.queries.loading import load_queries
from app.reports.tables import LIFE_TIMES, QUEUING, STRAGGLERS
from app.settings import Settings
from app.store.api import Store, open_store
from app.store.writing.problems import NewProblem
from collectors.schema import load_event_types
from engine.events import EventBatch
from tests.app.alerting_fixtures import FakeMatch
from tests.dashboard.report_fixtures import host, life_time, queue_of_job, queued, straggler, write_report

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "![x](http://evil.example/x.png)",
    ":red[x] :smile: :material/star:",
    "$\\LaTeX$ $$x^2$$",
    "two\nlines\r\n# three",
    "long" + "x" * 10_000,
    "a\u202edcb\u202c",
    "\"'`quotes`'\" &lt;b&gt;",
    "http://evil.example www.evil.example",
    "שלום עולם (x)",
)
JOB = "job_1795178134302_09{:02}"
"""Of the job with the n-th of these names."""

QUERY = "mapper-straggler-running"
OPEN_JOBS = ("job_1795178134302_0801", "job_1795178134302_0802")
"""Each with an alert that fires, for somebody to look after."""


def add_alerts(store_folder: Path, settings: Settings, now_ms: int) -> dict[str, str]:
    """Through the recorder, with evidence; returns the alerts' ids by job."""
    infos = load_queries(settings.queries, settings.alerting.group_gap_ms).infos
    matches = [_match(JOB.format(i), name, now_ms) for i, name in enumerate(HOSTILE)]
    matches += [_match(job, "nightly report", now_ms) for job in OPEN_JOBS]
    with open_store(f"sqlite:///{store_folder / 'clustercep.db'}") as store:
        with store.transaction() as writer:
            Recorder(AlertingOptions(infos, {}), writer, _evidence(now_ms), now_ms).live(matches, now_ms)
            writer.problems.add(
                [NewProblem("container_log", f"/logs/{name}:1", "unreadable", f"found {name}") for name in HOSTILE],
                now_ms,
            )
        return {str(alert.job_id): alert.id for alert in _firing(store)}


def add_reports(store_folder: Path) -> None:
    """All reports, about jobs, users and hosts with these names."""
    folder = store_folder / "reports"
    named = list(enumerate(HOSTILE))
    attempts = [straggler(i, host=name, job_name=name, user=name, job_id=JOB.format(i)) for i, name in named]
    hosts = [host(name, 2.0 - i / 10) for i, name in named]
    life_times = [life_time(name, "MAP", "SUCCEEDED") | {"job_name": name} for name in HOSTILE]
    queues = [queue_of_job(i, 1 << 20, "complete") | {"job_name": name, "user": name} for i, name in named]
    windows = [queued(i, i << 20, i << 21) for i in range(30)]
    write_report(folder, STRAGGLERS, {"attempts": attempts, "hosts": hosts})
    write_report(folder, LIFE_TIMES, {"by_job": life_times, "by_user": life_times})
    write_report(folder, QUEUING, {"of_cluster": windows, "by_job_and_window": [], "by_job": queues})


def add_events(store_folder: Path, settings: Settings, now_ms: int) -> None:
    """Jobs, attempts and samples with these names, in the log of events, as if released by one more step."""
    rows: list[dict[str, Any]] = []
    for i, name in enumerate(HOSTILE):
        job = {"job_id": JOB.format(i), "job_name": name, "user": name, "queue": name, "n_maps": 1, "n_reduces": 0}
        ids = {"job_id": JOB.format(i), "task_id": JOB.format(i).replace("job", "task") + "_m_000000"}
        attempt = {**ids, "attempt_id": ids["task_id"].replace("task", "attempt") + "_0", "host": name, "rack": name}
        end = {"status": "SUCCEEDED", "period_ms": 5_000}
        rows += [
            {"event_id": f"js{i}", "type": "JobStart", "t_lo_ms": now_ms, **job},
            {"event_id": f"ms{i}", "type": "MapStart", "t_lo_ms": now_ms + 1_000, **attempt},
            {"event_id": f"me{i}", "type": "MapEnd", "t_lo_ms": now_ms + 6_000, **attempt, **end},
            {"event_id": f"je{i}", "type": "JobEnd", "t_lo_ms": now_ms + 7_000, **job, **end},
            {
                "event_id": f"x{i}", "type": "Metric", "t_lo_ms": now_ms + 1, "t_hi_ms": now_ms + 5_000,
                "host": name, "name": "cpu_user", "value": 50.0, "unit": "%",
            },
        ]  # fmt: skip
    with open_store(f"sqlite:///{store_folder / 'clustercep.db'}") as store, store.transaction() as writer:
        checkpoint = writer.progress.checkpoint("live")
        assert checkpoint is not None
        checkpoint.number += 1
        here = settings.model_copy(update={"store": settings.store.model_copy(update={"directory": store_folder})})
        log = EventLog(event_log_folder(here), durable=False)
        log.begin(checkpoint.epoch, checkpoint.number - 1)
        log.write(checkpoint.number, EventBatch.from_rows(rows, load_event_types()).sorted(), now_ms)
        log.close()


def _match(job: str, name: str, now_ms: int) -> FakeMatch:
    task = job.replace("job", "task") + "_m_000000"
    values = {
        "attempt_id": task.replace("task", "attempt") + "_0", "host": name, "elapsed_ms": 63_665, "n_finished": 9,
        "avg_finished_ms": 15_363.0, "job_name": name, "user": name, "progress": 0.5,
    }  # fmt: skip
    key = (("job_id", job), ("task_id", task))
    return FakeMatch(now_ms - 60_000, now_ms, QUERY, key, {"a": (f"{job}-a",), "b": (f"{job}-b",)}, values=values)


def _evidence(now_ms: int) -> Any:
    names = {**{JOB.format(i): name for i, name in enumerate(HOSTILE)}, **dict.fromkeys(OPEN_JOBS, "node4")}

    def lookup(ids: Sequence[str]) -> dict[str, KnownEvent]:
        return {
            event_id: KnownEvent.of({
                "event_id": event_id, "type": "MapEnd", "t_lo_ms": now_ms - 60_000, "t_hi_ms": now_ms - 30_000,
                "host": names[event_id[:-2]], "job_name": names[event_id[:-2]],
                "origin": f"/logs/{names[event_id[:-2]]}:7", "raw": f"line of {names[event_id[:-2]]}",
            })
            for event_id in ids
        }  # fmt: skip

    return lookup


def _firing(store: Store) -> list[Any]:
    return [alert for alert in store.alerts_of_query(QUERY, 1_000) if alert.state == "firing"]
