"""`clustercep replay`: a recording through the same collectors, pipeline, store and webhooks as `clustercep run`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from app.alerting.dispatch.dispatcher import Dispatcher
from app.alerting.notifier import Notifier
from app.clock import SetClock, SystemClock
from app.live.assembly import checked_queries, endpoints_of, telling_of
from app.process.owned_store import owned_store
from app.process.runner import Runner
from app.replay.machine import SimulatedMachine
from app.replay.recorded_rest import RecordedRest, serve
from app.replay.recording import Recording
from app.replay.spool import CONSOLES, DAEMONS, HISTORY, RRDS, USERLOGS, Spool
from app.settings import Settings
from app.store.api import Store
from app.store.status import ReplayStatus
from collectors.sources import LIVE_SOURCES

DRAIN_TIMEOUT_S = 60.0

Speed = float | Literal["max"]


@dataclass(frozen=True)
class Progress:
    """How far a replay is."""

    now_ms: int
    started_ms: int
    ended_ms: int
    runner: Runner


def unwatched(_progress: Progress) -> None:
    """Nobody looks."""


def replay(
    recording: Recording,
    settings: Settings,
    folder: Path,
    *,
    command: str = "replay",
    speed: Speed = "max",
    watch: Callable[[Progress], None] = unwatched,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
    machine: SimulatedMachine | None = None,
) -> None:
    """Replay into the settings' store, which `command` owns meanwhile; `folder` takes the spool. Raises AppError.

    `machine`: on which it is matched, in place of this one, as far as the latency bound is concerned.
    """
    manifest = recording.manifest
    queries = checked_queries(settings)
    clock = SetClock(manifest.started_ms)
    with ExitStack() as opened:
        spool = Spool(recording, folder)
        base_url = opened.enter_context(serve(RecordedRest(recording.folder / "rest.jsonl.gz"), clock))
        settings = settings_for(recording, settings, folder, base_url)
        store: Store = opened.enter_context(owned_store(settings, command, durable=False))
        # Receivers are real: that one is back takes time of ours, not of the recording.
        notifier = Notifier(store, endpoints_of(settings), SystemClock())
        opened.callback(notifier.stop)
        matches_on = time.monotonic if machine is None else machine
        runner = Runner(
            settings, queries, store, notifier, clock, durable=False, monotonic=matches_on, works=machine
        )  # fmt: skip
        groups = Dispatcher(store, telling_of(settings), clock)  # they are told by the time of the recording
        notifier.start()
        started_s = monotonic()
        interval_ms = manifest.poll_interval_ms
        put_status(store, recording)
        # The first poll was recorded within the first interval.
        for now_ms in range(manifest.started_ms + interval_ms, manifest.ended_ms + interval_ms + 1, interval_ms):
            _wait(now_ms - manifest.started_ms, started_s, speed, sleep, monotonic)
            clock.advance_to(now_ms)
            spool.advance(now_ms)
            with nullcontext() if machine is None else machine.arrival((now_ms - manifest.started_ms) / 1000):
                for name in runner.live.sources:
                    runner.poll(name)
            runner.step()
            while runner.is_behind:
                runner.step()
            groups.dispatch_due()
            watch(Progress(now_ms, manifest.started_ms, manifest.ended_ms, runner))
        runner.live.pipeline.finish(clock.now_ms())
        groups.tell_all()
        notifier.wake()
        notifier.drain(DRAIN_TIMEOUT_S)


def put_status(store: Store, recording: Recording, verdict: Mapping[str, Any] | None = None) -> None:
    """The store says that a recording filled it, and (`verdict`) how the demo judged that."""
    manifest = recording.manifest
    status = ReplayStatus(started_ms=manifest.started_ms, ended_ms=manifest.ended_ms)
    if verdict is not None:
        status["demo"] = dict(verdict)
    with store.transaction() as writer:
        writer.progress.put_replay_status(status, manifest.ended_ms + manifest.poll_interval_ms)


def settings_for(recording: Recording, settings: Settings, folder: Path, base_url: str) -> Settings:
    """The settings with every source pointed at the replay; all else stays as configured."""
    manifest = recording.manifest
    interval = {"enabled": True, "interval_ms": manifest.poll_interval_ms}
    sources = settings.sources

    def changed(section: Any, values: Mapping[str, Any]) -> Any:
        return section.model_copy(update={**interval, **values})

    # What is not in the recording must not be asked: it would tell of now.
    others = {name: changed(getattr(sources, name), {"enabled": False}) for name in LIVE_SOURCES}
    return settings.model_copy(
        update={
            "sources": sources.model_copy(
                update={
                    **others,
                    "hosts": {**{host.address: host.name for host in manifest.hosts if host.address}, **sources.hosts},
                    "job_history": changed(sources.job_history, {"directories": (folder / HISTORY,)}),
                    "container_log": changed(
                        sources.container_log, {"directory": folder / USERLOGS, "time_zone": manifest.timezone}
                    ),
                    "daemon_log": changed(
                        sources.daemon_log, {"directory": folder / DAEMONS, "time_zone": manifest.timezone}
                    ),
                    "job_client_log": changed(
                        sources.job_client_log,
                        {
                            "enabled": (folder / CONSOLES).is_dir(),
                            "directory": folder / CONSOLES,
                            "time_zone": manifest.timezone,
                        },
                    ),
                    "ganglia_rrd": changed(sources.ganglia_rrd, {"directory": folder / RRDS, "daemon": None}),
                    # A recorded failure stays one however often it is asked.
                    "yarn_rest": changed(
                        sources.yarn_rest,
                        {"resource_managers": (base_url,), "history_server": base_url, "n_attempts": 1},
                    ),
                }
            )
        }
    )


def _wait(
    elapsed_ms: int, started_s: float, speed: Speed, sleep: Callable[[float], None], monotonic: Callable[[], float]
) -> None:
    """Until the wall clock has come to the replay's time."""
    if speed == "max":
        return
    left_s = elapsed_ms / 1000 / speed - (monotonic() - started_s)
    if left_s > 0:
        sleep(left_s)
