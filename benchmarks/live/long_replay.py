"""Memory and speed over an hour of cluster time: the committed recording again and again, as ever new jobs.

The collectors read the recording once; what each poll brought is then repeated with later times and other job ids
through the real pipeline (queries, event log, checkpoints, store, webhooks) as fast as it goes. Memory is sampled once
per minute of the cluster. Part of it has to grow until the longest window is full (queries over a day, ids that are
remembered for two): the table says how much is kept, beside what the process takes. The first round, which fills
caches, is no part of the comparison of the halves. The baseline makes the events and drops them.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import engine
from app.alerting.notifier import Notifier
from app.clock import SetClock
from app.config import load_settings
from app.live.assembly import Live, assemble, checked_queries, checkpoint_folder, endpoints_of, open_configured_store
from app.live.intake import Intake
from app.live.sources import build_sources
from app.process.logs import configure_logs
from app.replay.demo import demo_settings
from app.replay.recorded_rest import RecordedRest, serve
from app.replay.recording import Recording
from app.replay.replay import settings_for
from app.replay.spool import Spool
from app.replay.webhook_sink import webhook_sink
from app.settings import Log, Settings
from benchmarks.measure import resident_mib, show, size
from collectors.base import FinishedHistory
from collectors.time_units import MINUTE_MS
from engine.events import EventBatch

ROOT = Path(__file__).resolve().parents[2]
ROUND_TO_MS = 15_000
CLUSTER_START = r"_[0-9]{13}_"
"""In ids of jobs, tasks, attempts and containers: when their ResourceManager started."""


@dataclass(frozen=True)
class Recorded:
    """What the polls of one replay brought, in order, and how long it lasted."""

    polls: tuple[tuple[int, tuple[Intake, ...]], ...]
    """(time of the poll, what each source brought)."""
    duration_ms: int

    @property
    def n_events(self) -> int:
        """Events of one round, copies and histories included."""
        return sum(n_events(intake) for _, intakes in self.polls for intake in intakes)


def main() -> dict[str, Any]:
    """Print a table and return its figures; size: CLUSTERCEP_BENCH_REPLAY_MINUTES of cluster time."""
    configure_logs(Log(level="error"))
    minutes = size("REPLAY_MINUTES", 60)
    with tempfile.TemporaryDirectory(prefix="clustercep-bench-") as folder, ExitStack() as opened:
        settings = load_settings(ROOT / "config.yaml", {})
        recording = Recording.open(settings.demo.recording, Path(folder) / "recording", settings.replay)
        sink = opened.enter_context(webhook_sink())
        settings = demo_settings(settings, sink)
        settings = settings.model_copy(
            update={"store": settings.store.model_copy(update={"directory": Path(folder) / "store"})}
        )
        recorded, settings = record(recording, settings, Path(folder) / "spool")
        n_rounds = max(3, -(-minutes * MINUTE_MS // recorded.duration_ms))
        baseline_s = only_make(recorded, min(n_rounds, 5))
        samples = run(recorded, settings, n_rounds)
        n_told = len(sink.received)
    return report(recorded, samples, baseline_s, n_told)


# ------------------------------------------------------------------------------------------ the events


def record(recording: Recording, settings: Settings, folder: Path) -> tuple[Recorded, Settings]:
    """What the collectors read when the recording is replayed once, and the settings of its sources."""
    manifest = recording.manifest
    clock = SetClock(manifest.started_ms)
    spool = Spool(recording, folder)
    polls = []
    with serve(RecordedRest(recording.folder / "rest.jsonl.gz"), clock) as base_url:
        settings = settings_for(recording, settings, folder, base_url)
        sources = build_sources(settings)
        interval_ms = manifest.poll_interval_ms
        for now_ms in range(manifest.started_ms + interval_ms, manifest.ended_ms + interval_ms + 1, interval_ms):
            clock.advance_to(now_ms)
            spool.advance(now_ms)
            intakes = tuple(configured.source.poll(now_ms) for configured in sources.values())
            polls.append((now_ms, intakes))
    duration_ms = manifest.ended_ms - manifest.started_ms + interval_ms
    return Recorded(tuple(polls), -(-duration_ms // ROUND_TO_MS) * ROUND_TO_MS), settings


def n_events(intake: Intake) -> int:
    """Live ones and those of histories."""
    return len(intake.events) + sum(len(history.events) for history in intake.finished)


def later(recorded: Recorded, number: int) -> Iterator[tuple[int, list[Intake]]]:
    """One round: all as recorded, but later and with ids of its own."""
    shift_ms = number * recorded.duration_ms
    for now_ms, intakes in recorded.polls:
        yield now_ms + shift_ms, [_later_intake(intake, shift_ms, number) for intake in intakes]


def _later_intake(intake: Intake, shift_ms: int, number: int) -> Intake:
    return replace(
        intake,
        polled_ms=intake.polled_ms + shift_ms,
        events=later_events(intake.events, shift_ms, number),
        watermark_ms=None if intake.watermark_ms is None else intake.watermark_ms + shift_ms,
        finished=tuple(
            FinishedHistory(f"{h.job_id}-{number}", h.origin, later_events(h.events, shift_ms, number))
            for h in intake.finished
        ),
    )


def later_events(events: EventBatch, shift_ms: int, number: int) -> EventBatch:
    """Times moved; ids of events and jobs replaced."""
    if not len(events):
        return events
    table = events.table
    for idx, field in enumerate(table.schema):
        column = table.column(idx)
        if field.name in ("t_lo_ms", "t_hi_ms"):
            column = pc.add(column, pa.scalar(shift_ms, pa.int64()))
        elif field.name == "event_id":
            column = pc.binary_join_element_wise(column, str(number), "-")
        elif pa.types.is_string(field.type) and field.name != "type":
            column = pc.replace_substring_regex(column, CLUSTER_START, f"_{1_800_000_000_000 + number:013}_")
        table = table.set_column(idx, field, column.cast(field.type))
    return EventBatch(table)


def only_make(recorded: Recorded, n_rounds: int) -> float:
    """The baseline: seconds per round to make the events."""
    started = time.perf_counter()
    for number in range(n_rounds):
        for _ in later(recorded, number):
            pass
    return (time.perf_counter() - started) / n_rounds


# ------------------------------------------------------------------------------------------- the rounds


@dataclass(frozen=True)
class Sample:
    """How the process stands after so many minutes of the cluster."""

    minute: float
    memory_mib: float
    arrow_mib: float
    n_recent: int
    n_kept: int
    """Events and runs that the queries keep."""
    checkpoint_mib: float
    n_events: int
    """So far; the seconds likewise, without those of taking samples."""
    wall_s: float
    cpu_s: float


def run(recorded: Recorded, settings: Settings, n_rounds: int) -> list[Sample]:
    """All rounds through one pipeline."""
    clock = SetClock(recorded.polls[0][0])
    with open_configured_store(settings, durable=False) as store:
        notifier = Notifier(store, endpoints_of(settings), clock)
        notifier.start()
        try:
            live = assemble(settings, checked_queries(settings), store, notifier, clock.now_ms(), durable=False)
            samples = list(watched(live, recorded, n_rounds, clock, settings))
            notifier.drain(60)
        finally:
            notifier.stop()
        print(f"{n_rounds} rounds: alerts {dict(sorted(store.n_alerts_by_query().items()))}")
    return samples


def watched(live: Live, recorded: Recorded, n_rounds: int, clock: SetClock, settings: Settings) -> Iterator[Sample]:
    """A sample per minute of the cluster."""
    began_ms = due_ms = clock.now_ms()
    wall_s = cpu_s = 0.0
    n_taken = 0
    for number in range(n_rounds):
        for now_ms, intakes in later(recorded, number):
            wall, cpu = time.perf_counter(), time.process_time()
            clock.advance_to(now_ms)
            for intake in intakes:
                live.pipeline.intake.put(intake)
                n_taken += n_events(intake)
            live.pipeline.step(now_ms)
            wall_s, cpu_s = wall_s + time.perf_counter() - wall, cpu_s + time.process_time() - cpu
            if now_ms >= due_ms:
                due_ms = now_ms + MINUTE_MS
                yield sample(live, settings, (now_ms - began_ms) / MINUTE_MS, n_taken, wall_s, cpu_s)


def sample(live: Live, settings: Settings, minute: float, n_taken: int, wall_s: float, cpu_s: float) -> Sample:
    """Memory, and what is kept on purpose."""
    gc.collect()
    matcher = live.pipeline.matcher
    assert isinstance(matcher, engine.Engine)
    return Sample(
        minute,
        resident_mib(),
        pa.total_allocated_bytes() / 2**20,
        len(live.pipeline.recent),
        sum(counted.n_kept for counted in matcher.statistics.values()),
        max(path.stat().st_size for path in checkpoint_folder(settings).glob("checkpoint-*")) / 2**20,
        n_taken,
        wall_s,
        cpu_s,
    )


# ---------------------------------------------------------------------------------------------- figures


def report(recorded: Recorded, samples: Sequence[Sample], baseline_s: float, n_told: int) -> dict[str, Any]:
    """Print tenths of the whole and the halves; the figures."""
    warm = [s for s in samples if s.minute * MINUTE_MS >= recorded.duration_ms]
    middle = len(warm) // 2
    halves = {"first half": summary(warm[: middle + 1]), "second half": summary(warm[middle:])}
    shown = sorted({round(i * (len(samples) - 1) / 10) for i in range(11)})
    show(
        f"{recorded.n_events:,} events in each {recorded.duration_ms / MINUTE_MS:.0f} min of cluster, at full speed",
        ("minute", "MiB", "Arrow MiB", "recent", "kept", "ckpt MiB"),
        [
            [round(s.minute), round(s.memory_mib), round(s.arrow_mib), s.n_recent, s.n_kept, round(s.checkpoint_mib, 1)]
            for s in (samples[i] for i in shown)
        ],
    )
    names = ("memory_median_mib", "memory_max_mib", "growth_mib_per_hour", "events_per_s", "events_per_cpu_s")
    show(
        "after the first round",
        ("", "median MiB", "max MiB", "MiB per hour", "events/s", "events/CPU s"),
        [[name, *(half[key] for key in names)] for name, half in halves.items()],
    )
    last = samples[-1]
    made_per_s = round(recorded.n_events / baseline_s)
    print(
        f"{last.minute:.0f} min of cluster in {last.wall_s:.0f} s ({last.minute * 60 / last.wall_s:.0f} times as fast, "
        f"{last.cpu_s:.0f} CPU s); {n_told} messages; making the events alone: {made_per_s:,} events/s"
    )
    return {
        "minutes": round(last.minute, 1),
        "n_events": last.n_events,
        "wall_s": round(last.wall_s, 1),
        "cpu_s": round(last.cpu_s, 1),
        "halves": halves,
        "made_alone_events_per_s": made_per_s,
        "n_messages": n_told,
        "memory_mib": [round(s.memory_mib) for s in samples],
        "n_kept": [s.n_kept for s in samples],
    }


def summary(samples: Sequence[Sample]) -> dict[str, float]:
    """One stretch of the run."""
    first, last = samples[0], samples[-1]
    memory = [s.memory_mib for s in samples]
    n_taken = last.n_events - first.n_events
    return {
        "memory_median_mib": round(statistics.median(memory)),
        "memory_max_mib": round(max(memory)),
        # Of the straight line through the samples.
        "growth_mib_per_hour": round(float(np.polyfit([s.minute / 60 for s in samples], memory, 1)[0])),
        "n_kept_per_hour": round((last.n_kept - first.n_kept) / (last.minute - first.minute) * 60),
        "events_per_s": round(n_taken / (last.wall_s - first.wall_s)),
        "events_per_cpu_s": round(n_taken / (last.cpu_s - first.cpu_s)),
    }
