"""A small cluster for tests of the pipeline: scripted sources and a matcher whose matches are easy to predict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from app.alerting.notifier import Notifier
from app.alerting.recording.match import Match
from app.alerting.recording.options import AlertingOptions
from app.clock import SetClock
from app.event_log import EventLog, EventLogReader
from app.live.bound_matches import BoundMatches
from app.live.checkpoint import CheckpointFolder
from app.live.histories import HistoryReplay
from app.live.intake import IntakeQueue, Source
from app.live.ordering.deduplicate import Deduplicator
from app.live.ordering.order import Order
from app.live.ordering.watermarks import Watermarks
from app.live.overload import LatencyBound
from app.live.pipeline import Boundary, Matcher, Pipeline, no_boundary
from app.live.recent import RecentEvents
from app.live.source_book import SourceBook
from app.store import Store
from collectors.base import Collected, Collector, CollectorError, FinishedHistory
from collectors.schema import load_event_types
from engine.errors import StateError
from engine.events import EventBatch
from tests.app.alerting_fixtures import FakeMatch, options, receiver

SCHEMA = load_event_types()


def event(event_id: str, t_ms: int, event_type: str = "MapEnd", **attributes: Any) -> dict[str, Any]:
    """One event as a row."""
    return {"event_id": event_id, "type": event_type, "t_lo_ms": t_ms, "t_hi_ms": t_ms, **attributes}


def batch(*rows: Mapping[str, Any]) -> EventBatch:
    """Rows as a batch."""
    return EventBatch.from_rows(rows, SCHEMA)


@dataclass
class Script:
    """What a source gives: (time from which it is there, event); polls give what is new."""

    name: str
    rows: Sequence[tuple[int, Mapping[str, Any]]]
    lateness_ms: int = 0
    failing: Sequence[int] = ()
    histories: Sequence[tuple[int, FinishedHistory]] = ()


class ScriptedCollector:
    """A collector over a script; its position is the time of the last poll."""

    def __init__(self, script: Script) -> None:
        self.name = script.name
        self._script = script
        self._read_ms = -1

    def poll(self, now_ms: int) -> Collected:
        if now_ms in self._script.failing:
            raise CollectorError(f"no answer at {now_ms}")
        rows = [row for at_ms, row in self._script.rows if self._read_ms < at_ms <= now_ms]
        finished = tuple(h for at_ms, h in self._script.histories if self._read_ms < at_ms <= now_ms)
        self._read_ms = now_ms
        return Collected(batch(*rows), now_ms - self._script.lateness_ms, finished=finished)

    def checkpoint(self) -> dict[str, Any]:
        return {"read_ms": self._read_ms}

    def restore(self, position: Mapping[str, Any]) -> None:
        self._read_ms = position["read_ms"]


class PairMatcher:
    """A match for every MapStart and MapEnd of one task whose MapStart is the latest before it; state must be saved."""

    behind_ms: Mapping[str, int] = MappingProxyType({})
    """It decides at once."""

    def __init__(self) -> None:
        self._waiting = EventBatch.empty()
        self._starts: dict[str, tuple[str, int]] = {}

    def process(self, events: EventBatch, watermark_ms: int) -> list[FakeMatch]:
        everything = EventBatch.concat([self._waiting, events]).sorted()
        ready = everything.t_lo_ms < watermark_ms
        self._waiting = everything.where(~ready)
        matches = []
        for row in everything.where(ready).rows():
            task, t_ms = row.get("task_id", ""), row["t_lo_ms"]
            if row["type"] == "MapStart":
                self._starts[task] = (row["event_id"], t_ms)
            elif row["type"] == "MapEnd" and task in self._starts:
                start_id, start_ms = self._starts[task]
                bindings = {"a": (start_id,), "b": (row["event_id"],)}
                values = {"task_id": task, "period_ms": t_ms - start_ms}
                for query in ("slow", "times"):
                    matches.append(FakeMatch(start_ms, t_ms, query, (("task_id", task),), bindings, 1.0, values))
        return matches

    def save(self) -> dict[str, pa.Table]:
        tasks = list(self._starts)
        return {
            "waiting": self._waiting.table,
            "starts": pa.table(
                {
                    "task": pa.array(tasks, pa.string()),
                    "id": pa.array([self._starts[t][0] for t in tasks], pa.string()),
                    "t": pa.array([self._starts[t][1] for t in tasks], pa.int64()),
                }
            ),
        }

    def restore(self, state: Mapping[str, pa.Table]) -> frozenset[str]:
        if "starts" not in state:
            raise StateError("of other queries")
        self._waiting = EventBatch(state["waiting"])
        self._starts = {row["task"]: (row["id"], row["t"]) for row in state["starts"].to_pylist()}
        return frozenset()

    def take_silent(self) -> list[FakeMatch]:
        return []

    def warm_up(self, names: Collection[str], events: EventBatch) -> None:
        raise AssertionError(f"{names} were restored, {len(events)} events are too many")


@dataclass
class Process:
    """One run of the program over scripted sources."""

    pipeline: Pipeline
    sources: dict[str, Source]

    def run(self, from_ms: int, to_ms: int, step_ms: int = 10) -> None:
        """Poll every source and step."""
        for now_ms in range(from_ms, to_ms + 1, step_ms):
            for source in self.sources.values():
                self.pipeline.intake.put(source.poll(now_ms))
            self.pipeline.step(now_ms)


def logged(store: Store, folder: Path) -> list[str]:
    """Ids of the events in the log of a process that `start` made, in their order."""
    events = EventLogReader(folder / "events", store.event_log_positions).read()
    return list(events.strings("event_id").to_pylist())


def start(
    store: Store,
    folder: Path,
    scripts: Sequence[Script],
    *,
    now_ms: int = 0,
    timeout_ms: int = 1_000,
    alerting: AlertingOptions | None = None,
    boundary: Boundary = no_boundary,
    rewind: Callable[[EventBatch, int], tuple[PairMatcher, Sequence[Match]]] | None = None,
    recent: RecentEvents | None = None,
    collectors: Sequence[Collector] | None = None,
    matcher: Matcher | None = None,
    bound: LatencyBound | None = None,
    bound_matches: BoundMatches | None = None,
) -> Process:
    """Build the pipeline and take up the store's checkpoint, as `clustercep run` does.

    `collectors`: in place of those that follow the scripts.
    """
    if collectors is None:
        collectors = [ScriptedCollector(script) for script in scripts]
    names = [collector.name for collector in collectors]
    folder.mkdir(exist_ok=True)
    pipeline = Pipeline(
        intake=IntakeQueue() if bound is None else IntakeQueue(bound.times.clock),
        order=Order(
            Deduplicator({name: rank for rank, name in enumerate(names)}, 100_000, pane_ids=3),
            Watermarks(names, timeout_ms, now_ms),
            history_types={"MapStart", "MapEnd"},
            released=None if bound is None else bound.times,
        ),
        matcher=PairMatcher() if matcher is None else matcher,
        bound=bound,
        bound_matches=BoundMatches({}) if bound_matches is None else bound_matches,
        histories=HistoryReplay(lambda _source: PairMatcher()),
        recent=RecentEvents({"MapStart": 1_000, "MapEnd": 1_000}) if recent is None else recent,
        alerting=alerting or options(ops=receiver()),
        store=store,
        checkpoints=CheckpointFolder(folder, "live", durable=False),
        notifier=Notifier(store, {}, SetClock(0)),
        event_log=EventLog(folder / "events", durable=False),
        sources=SourceBook(dict.fromkeys(names, 10)),
        boundary=boundary,
        rewind=rewind,
    )
    sources = {collector.name: Source(collector) for collector in collectors}
    positions = pipeline.restore(now_ms)
    for name, position in (positions or {}).items():
        if name in sources:
            sources[name].restore(position)
    return Process(pipeline, sources)
