"""`clustercep demo`: the recorded cluster through the real pipeline, and what came of it beside the ground truth."""

from __future__ import annotations

import json
import resource
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from pydantic import SecretStr
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from app.alerting.recording.report_rows import HISTORY, LIVE
from app.alerting.text import iso
from app.chosen_store import DATABASE
from app.commands.dashboard import check_port, free_port, place_of, run_dashboard
from app.errors import AppError, OwnershipError, RecordingError, StoreError
from app.live.assembly import open_configured_store
from app.process.lock import only_process
from app.process.owned_store import owned_store
from app.replay.compiling import kernels_beside
from app.replay.demo_report import print_summary
from app.replay.ground_truth import SeenAlert, Verdict, judge
from app.replay.machine import SimulatedMachine
from app.replay.overload import (
    Capacity,
    Load,
    bounded,
    check_times,
    idle_machine,
    learned_of,
    overload_summary,
    unbounded,
)
from app.replay.recording import Fault, Recording
from app.replay.replay import Progress as ReplayProgress
from app.replay.replay import Speed, put_status, replay
from app.replay.webhook_sink import Sink, webhook_sink
from app.settings import Settings, StoreSettings, WebhookReceiver
from app.store.api import MAX_ROWS, AlertFilter, Store
from app.store.models import AlertRow

log = structlog.get_logger(__name__)

RECEIVER = "demo"


@dataclass(frozen=True)
class DemoResult:
    """What the demo leaves."""

    summary: dict[str, Any]
    summary_path: Path
    store_directory: Path
    passed: bool


def run_demo(
    settings: Settings,
    speed: Speed,
    console: Console,
    recording_place: Path | None = None,
    *,
    overload: float | None = None,
) -> DemoResult:
    """Replay into a fresh store, print the summary and write it as JSON; raises AppError.

    `overload`: so many times as fast as a simulated machine can take it, under a latency bound, once it was replayed
    without.
    """
    if overload is not None:
        check_times(overload)
    with only_process(settings.demo.directory, "demo.directory", "demo"):
        _refuse_to_clear(settings)
        return _run(settings, speed, console, recording_place, overload)


def _run(
    settings: Settings, speed: Speed, console: Console, recording_place: Path | None, overload: float | None
) -> DemoResult:
    folder, place = settings.demo.directory, recording_place or settings.demo.recording
    if not place.exists():
        raise RecordingError(f"{place}: not there; expected a recording (folder or .tar.xz)")
    for part in ("store", "spool", "recording", "unshed"):
        shutil.rmtree(folder / part, ignore_errors=True)
    recording = Recording.open(place, folder / "recording", settings.replay)
    load, without = None, None
    if overload is not None:
        machine = idle_machine()
        apart = settings.model_copy(update={"demo": settings.demo.model_copy(update={"directory": folder / "unshed"})})
        without = _replayed(recording, unbounded(apart), speed, machine).summary
        load = _load_of(recording, machine, overload, settings)
        settings = bounded(settings, load.bound_ms, learned_of(demo_store(apart)))
    result = _replayed(recording, settings, speed, None if load is None else load.machine(), load, without)
    path = folder.parent / "demo-summary.json"
    path.write_text(json.dumps(result.summary, indent=2, ensure_ascii=True) + "\n", encoding="utf-8")
    print_summary(console, result.summary)
    return DemoResult(result.summary, path, result.store_directory, result.passed)


@dataclass(frozen=True)
class _Replayed:
    """One replay of the recording."""

    summary: dict[str, Any]
    store_directory: Path
    passed: bool


def _replayed(
    recording: Recording,
    settings: Settings,
    speed: Speed,
    machine: SimulatedMachine | None,
    load: Load | None = None,
    without: dict[str, Any] | None = None,
) -> _Replayed:
    """`load`: under which `machine` matches it; `without`: the summary without that."""
    started_s = time.monotonic()
    with webhook_sink() as sink:
        settings = demo_settings(settings, sink)
        _replay_with_progress(recording, settings, settings.demo.directory / "spool", speed, machine)
    with open_configured_store(settings) as store:
        verdict = judge(seen_alerts(store), recording.manifest.ground_truth, recording.manifest.jobs)
        summary = summarise(store, recording, verdict, sink, time.monotonic() - started_s)
        if load is not None and machine is not None and without is not None:
            status = store.process_status()
            figures = None if status is None else status.value.get("overload")
            summary["overload"] = overload_summary(load, machine, store, without, figures)
        put_status(store, recording, summary["ground_truth"])
    return _Replayed(summary, settings.store.directory, verdict.passed)


def _load_of(recording: Recording, machine: SimulatedMachine, times: float, settings: Settings) -> Load:
    """Of a machine that has evaluated the recording."""
    manifest = recording.manifest
    if machine.worked_s <= 0:
        raise RecordingError("--overload: no event of the recording reaches matching; expected one with events")
    capacity = Capacity(machine, max(manifest.poll_interval_ms, manifest.ended_ms - manifest.started_ms) / 1000)
    return Load.of(capacity, times, settings, manifest.poll_interval_ms)


def demo_settings(settings: Settings, sink: Sink) -> Settings:
    """A store of its own, a receiver of its own, and the parameters that suit a small cluster."""
    receiver = WebhookReceiver(url=SecretStr(sink.url))
    alerting = settings.alerting.model_copy(update={"receivers": {RECEIVER: receiver}})
    return demo_store(settings).model_copy(update={"alerting": alerting})


def demo_store(settings: Settings) -> Settings:
    """A store of its own, and the parameters that suit a small cluster."""
    return with_demo_parameters(settings).model_copy(update={"store": _store_of(settings)})


def _store_of(settings: Settings) -> StoreSettings:
    return settings.store.model_copy(
        update={"directory": settings.demo.directory / "store", "url": None, "url_file": None}
    )


def _refuse_to_clear(settings: Settings) -> None:
    """The store of the last demo goes, unless a process makes steps in it: raises AppError."""
    before = settings.model_copy(update={"store": _store_of(settings)})
    if not (before.store.directory / DATABASE).exists():
        return
    try:
        with owned_store(before, "demo", durable=False):
            pass
    except OwnershipError:
        raise
    except StoreError as error:
        log.info("the store of the last demo cannot be opened; it goes anyway", reason=str(error))


def show_demo(settings: Settings, result: DemoResult, config: Path | None, announce: Callable[[str], None]) -> None:
    """The dashboard on the demo's store, until Ctrl-C; on another port where the configured one is taken."""
    place = place_of(settings.dashboard)
    try:
        check_port(place)
        port = place.port
    except AppError:
        port = free_port(place.address)
        announce(f"Port {place.port} of {place.address} is taken; using {port}.")
    announce("Ctrl-C ends the demo.")
    run_dashboard(
        with_demo_parameters(settings), config=config, store_folder=result.store_directory, port=port, announce=announce
    )


def with_demo_parameters(settings: Settings) -> Settings:
    """The parameters that suit a small cluster."""
    parameters = dict(settings.queries.parameters)
    for query, values in settings.demo.parameters.items():
        parameters[query] = {**parameters.get(query, {}), **values}
    return settings.model_copy(update={"queries": settings.queries.model_copy(update={"parameters": parameters})})


def seen_alerts(store: Store) -> list[SeenAlert]:
    """All alerts of a store, without those that became part of another one."""
    return [
        SeenAlert(
            id=alert.id,
            query=alert.query,
            names={**alert.values, **alert.key},
            onset_ms=alert.onset_ms,
            last_seen_ms=alert.last_seen_ms,
            raised_ms=alert.raised_ms,
            confidence=alert.best_confidence,
            summary=alert.summary,
            hosts=tuple(named.host for named in alert.hosts),
        )
        for alert in store.alerts(AlertFilter(limit=MAX_ROWS))
        if alert.merged_into is None
    ]


def summarise(store: Store, recording: Recording, verdict: Verdict, sink: Sink, seconds: float) -> dict[str, Any]:
    """The content of demo-summary.json."""
    counters: dict[str, Counter[str]] = {}
    matches: dict[str, Counter[str]] = {LIVE: Counter(), HISTORY: Counter()}
    for row in store.statistics():
        counters.setdefault(row.name, Counter())[row.type] += row.value
        if row.name == "matches":
            matches[row.source][row.type] += row.value
    events, again = counters.get("events", Counter()), counters.get("history", Counter())
    return {
        "recording": {
            "started": iso(recording.manifest.started_ms),
            "ended": iso(recording.manifest.ended_ms),
            "versions": recording.manifest.versions,
        },
        "events": dict(sorted(events.items())),
        "events_in_histories": dict(sorted(again.items())),
        "duplicates": sum(counters.get("duplicates", Counter()).values()),
        "late": sum(counters.get("late", Counter()).values()),
        "matches": dict(sorted(matches[LIVE].items())),
        "matches_in_histories": dict(sorted(matches[HISTORY].items())),
        "reports": store.n_reports_by_query(),
        "alerts": store.n_alerts_by_query(),
        "incidents": _incidents(store),
        "ground_truth": {
            "found": [{**_fault(fault), "alert": _alert(alert)} for fault, alert in verdict.found],
            "missed": [_fault(fault) for fault in verdict.missed],
            "false_alarms": [_alert(alert) for alert in verdict.false_alarms],
            "secondary": [{**_fault(fault), "alert": _alert(alert)} for fault, alert in verdict.secondary],
            "unexplained": [_alert(alert) for alert in verdict.unexplained],
        },
        "notifications": {**store.n_notifications_by_status(), "received": len(sink.received)},
        "problems": dict(sorted(Counter(f"{p.source}: {p.kind}" for p in store.problems(MAX_ROWS)).items())),
        "seconds": round(seconds, 2),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _incidents(store: Store) -> list[dict[str, Any]]:
    """What is told by itself, the earliest first: incidents with the alerts behind them, and alerts that stay alone."""
    alone = store.alerts(AlertFilter(members=False, merged=False, limit=MAX_ROWS))
    behind = store.members_of([alert.id for alert in alone if alert.is_incident])
    inner = store.members_of([of.id for members in behind.values() for of in members if of.is_incident])

    def alerts_of(alert: AlertRow) -> list[str]:
        if not alert.is_incident:
            return [alert.id]
        direct = behind.get(alert.id, [])
        known = [*direct, *(member for of in direct for member in inner.get(of.id, []))]
        return list(dict.fromkeys(member.id for member in known if not member.is_incident))

    return [
        {
            "id": alert.id,
            "query": alert.query,
            "is_incident": alert.is_incident,
            "host": alert.host,
            "summary": alert.summary,
            "alerts": alerts_of(alert),
        }
        for alert in reversed(alone)
    ]


def _replay_with_progress(
    recording: Recording, settings: Settings, spool: Path, speed: Speed, machine: SimulatedMachine | None
) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        manifest = recording.manifest
        task = bar.add_task("replaying the cluster", total=max(1, manifest.ended_ms - manifest.started_ms))

        def watch(progress: ReplayProgress) -> None:
            bar.update(task, completed=progress.now_ms - progress.started_ms)

        with kernels_beside(bar):
            replay(recording, settings, spool, command="demo", speed=speed, watch=watch, machine=machine)


def _fault(fault: Fault) -> dict[str, Any]:
    return {
        "fault": fault.fault,
        "query": fault.query,
        "job_id": fault.job_id,
        "task_ids": list(fault.task_ids),
        "hosts": sorted(fault.all_hosts),
        "from": iso(fault.from_ms),
        "to": iso(fault.to_ms),
        "note": fault.note,
    }


def _alert(alert: SeenAlert) -> dict[str, Any]:
    return {
        "id": alert.id,
        "query": alert.query,
        "summary": alert.summary,
        "hosts": list(alert.hosts),
        "began": iso(alert.onset_ms),
        "last_seen": iso(alert.last_seen_ms),
        "raised": iso(alert.raised_ms),
        "confidence": round(alert.confidence, 6),
    }
