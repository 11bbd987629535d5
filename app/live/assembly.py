"""Putting the live path together from settings; again after a failure, from the checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

import engine
from app.alerting.delivery import Endpoint, endpoint_of
from app.alerting.dispatch.routes import Routing
from app.alerting.dispatch.telling import Telling
from app.alerting.links import Links
from app.alerting.notifier import Notifier
from app.alerting.recording.match import Match
from app.alerting.recording.options import AlertingOptions
from app.chosen_store import store_url
from app.errors import AppError, StoreError
from app.event_log import EventLog, EventLogReader
from app.live.bound_matches import BoundMatches
from app.live.checkpoint import CheckpointFolder
from app.live.engine_watch import EngineWatch
from app.live.histories import FreshMatcher, HistoryReplay, judgeable_types
from app.live.intake import Intake, IntakeQueue
from app.live.ordering.deduplicate import Deduplicator
from app.live.ordering.order import Order
from app.live.ordering.watermarks import Watermarks
from app.live.overload import LatencyBound, ReleaseTimes
from app.live.pipeline import Matcher, Pipeline
from app.live.recent import RecentEvents, last_events, longest_windows
from app.live.source_book import SourceBook
from app.live.sources import ConfiguredSource, build_derivation, build_sources, source_ranks
from app.process.private import private_folder
from app.queries.loading import Loaded, load_queries
from app.settings import Settings
from app.shedding.losses import OverloadOf, unbounded
from app.shedding.model import read_model
from app.store.api import Store, open_store
from app.store.owner import Claimant
from collectors.base import PositionError
from collectors.schema import AttributeRow, event_table, load_event_types
from collectors.sources import SPECS, TYPES_WITHOUT_COPIES
from engine.events import EventBatch

log = structlog.get_logger(__name__)

LIVE_PIPELINE = "live"


BRIEF_MS = 7_200_000
"""How long ids of samples are remembered: longer than sources go back when they are read from their start."""


class QueryFilesError(AppError):
    """Query files that cannot run; the message holds everything that is wrong."""


@dataclass(frozen=True)
class Live:
    """A pipeline with its sources."""

    pipeline: Pipeline
    sources: Mapping[str, ConfiguredSource]

    def poll(self, name: str, now_ms: int) -> Intake:
        """Poll one source into the queue of the next step; returns what it brought."""
        intake = self.sources[name].source.poll(now_ms)
        self.pipeline.intake.put(intake)
        return intake

    def tell_committed(self) -> None:
        """The last step is stored: sources may let go what they kept for it."""
        for name, position in self.pipeline.order.positions.items():
            if name in self.sources:
                self.sources[name].source.committed(position)

    def settle(self) -> None:
        """Wait for what goes on behind the steps, so that another path may take over its folder."""
        if self.pipeline.event_log is not None:
            self.pipeline.event_log.settle()

    def close(self) -> None:
        """No more steps are made."""
        if self.pipeline.event_log is not None:
            self.pipeline.event_log.close()
        for configured in self.sources.values():
            configured.source.close()


def open_configured_store(
    settings: Settings, *, durable: bool = True, by: Claimant | None = None, take_over: bool = False
) -> Store:
    """The store of the settings, and its folder when there is none; raises StoreError. `by`: becomes its owner."""
    directory = settings.store.directory
    try:
        private_folder(directory)
    except OSError as error:
        found = f"store.directory: {directory} cannot be made: {error.strerror}"
        raise StoreError(f"{found}; expected a folder that can be written") from error
    return open_store(store_url(settings), durable=durable, by=by, take_over=take_over)


def checked_queries(settings: Settings) -> Loaded:
    """The queries of the settings; raises QueryFilesError with all that is wrong."""
    loaded = load_queries(settings.queries, settings.alerting.group_gap_ms)
    if loaded.problems:
        raise QueryFilesError("\n".join(loaded.problems))
    for text in loaded.left_out:
        log.warning("a query does not run", why=text)
    return loaded


def endpoints_of(settings: Settings) -> dict[str, Endpoint]:
    """The enabled receivers; raises ConfigError."""
    return {
        name: endpoint_of(name, receiver, links_of(settings))
        for name, receiver in settings.alerting.receivers.items()
        if receiver.enabled
    }


def links_of(settings: Settings) -> Links:
    """Where messages lead to."""
    alerting = settings.alerting
    return Links(alerting.external_url, alerting.links, alerting.runbook_url)


def telling_of(settings: Settings) -> Telling:
    """How alerts are told: together by the routes of the settings, or each by itself."""
    alerting = settings.alerting
    return Telling(Routing.of(alerting), alerting.receivers, alerting.max_age_ms)


def alerting_options(settings: Settings, queries: Loaded) -> AlertingOptions:
    """What the recorder has of the settings."""
    return AlertingOptions(
        queries=queries.infos,
        receivers=settings.alerting.receivers,
        max_evidence_events=settings.alerting.max_evidence_events,
        max_age_ms=settings.alerting.max_age_ms,
        external_labels=settings.alerting.external_labels,
        routing=Routing.of(settings.alerting),
    )


def assemble(
    settings: Settings,
    queries: Loaded,
    store: Store,
    notifier: Notifier,
    now_ms: int,
    *,
    durable: bool = True,
    part_ended: Callable[[], None] = lambda: None,
    monotonic: Callable[[], float] = time.monotonic,
    works: engine.Works | None = None,
) -> Live:
    """The live path, where the store's checkpoint stands; raises ConfigError, CheckpointError,
    ModelError.

    `part_ended` is called whenever a part of a step has ended: a query, a transaction, a file. `monotonic`: the clock
    of `engine.latency_bound`, which `works` is told of where it is simulated.
    """
    sources = build_sources(settings)
    limits = engine.Limits(
        max_rows=settings.engine.max_rows,
        work_budget=settings.engine.work_budget,
        possibilities=True,
        trend_overlap=settings.engine.trend_overlap,
    )
    schema, watch = load_event_types(), EngineWatch()
    infos = queries.infos.values()
    bound = None
    if settings.engine.latency_bound_ms is not None:
        bound = LatencyBound(settings.engine.latency_bound_ms, ReleaseTimes(monotonic), works)
        bound.model = shedding_model(settings, queries)

    def clock() -> float:
        """The engine looks at it before and after each query."""
        part_ended()
        return time.perf_counter()

    def matcher_of(compiled: Sequence[engine.CompiledQuery], overload: OverloadOf | None = None) -> engine.Engine:
        threads = settings.engine.threads
        return engine.Engine(
            compiled,
            schema,
            limits=limits,
            clock=clock,
            on_failure=watch.failed,
            threads=threads,
            overload=overload,
        )

    def new_matcher() -> engine.Engine:
        return matcher_of(queries.compiled, None if bound is None else bound.control)

    def rewound(events: EventBatch, watermark_ms: int) -> tuple[Matcher, Sequence[Match]]:
        matcher = new_matcher()
        with unbounded(matcher):
            matches = matcher.process(events, watermark_ms)
        return matcher, [*matches, *matcher.take_silent()]

    judgeable = judgeable_types(event_table(), sources)
    of_source = {spec.name: spec.types_of_histories for spec in SPECS if spec.types_of_histories}
    of_source["job_history"] = judgeable
    for_histories = {
        source: [q for q in queries.compiled if q.read_types <= types and _is_of_jobs(q)]
        for source, types in of_source.items()
    }

    def history_matcher(source: str) -> FreshMatcher | None:
        judging = for_histories.get(source)
        return matcher_of(judging) if judging else None

    pipeline = Pipeline(
        intake=IntakeQueue(monotonic),
        order=Order(
            Deduplicator(
                source_ranks(settings),
                settings.sources.remember_ids_ms,
                brief_types=types_of_one_source(event_table()),
                brief_ms=BRIEF_MS,
            ),
            Watermarks(sources, settings.sources.silence_timeout_ms, now_ms),
            history_types=frozenset().union(*(q.read_types for judging in for_histories.values() for q in judging)),
            released=None if bound is None else bound.times,
            most_waiting=settings.sources.max_waiting_events,
        ),
        matcher=new_matcher(),
        histories=HistoryReplay(history_matcher),
        recent=RecentEvents(
            longest_windows((info.types, info.keep_ms) for info in infos),
            last=last_events((info.types, info.key, info.within_events) for info in infos),
        ),
        bound_matches=BoundMatches(queries.infos),
        alerting=alerting_options(settings, queries),
        store=store,
        checkpoints=CheckpointFolder(checkpoint_folder(settings), LIVE_PIPELINE, durable=durable),
        notifier=notifier,
        event_log=EventLog(event_log_folder(settings), durable=durable, in_background=True),
        retention=settings.store.retention,
        derivation=build_derivation(settings, sources),
        sources=SourceBook({name: source.interval_ms for name, source in sources.items()}),
        rewind=rewound,
        bound=bound,
        part_ended=part_ended,
    )
    pipeline.complaints = watch.complaints(lambda: pipeline.matcher)
    for name, position in (pipeline.restore(now_ms) or {}).items():
        _restore_position(sources, name, position)
    return Live(pipeline, sources)


def shedding_model(settings: Settings, queries: Loaded) -> engine.SheddingModel | None:
    """What load shedding has learned before, for these queries; None without. Raises ModelError."""
    if settings.engine.shedding_model is None:
        return None
    return read_model(settings.engine.shedding_model, {query.name: query for query in queries.compiled})


def _is_of_jobs(query: engine.CompiledQuery) -> bool:
    """Whether what it says of a job rests on the job's events: a row about trends counts all that its window has, and
    that of the job alone would be another row."""
    resolved = query.resolved
    return not resolved.is_trend or "job_id" in resolved.query.group_by


def types_of_one_source(rows: Iterable[AttributeRow]) -> frozenset[str]:
    """The event types of which no source has a copy of another's."""
    sources: dict[str, set[str]] = {}
    for row in rows:
        sources.setdefault(row.type, set()).update(row.sources)
    return TYPES_WITHOUT_COPIES | {event_type for event_type, known in sources.items() if len(known) == 1}


def checkpoint_folder(settings: Settings) -> Path:
    """Where checkpoints are."""
    return settings.store.directory / "checkpoints"


def event_log_folder(settings: Settings) -> Path:
    """Where the released events are."""
    return settings.store.directory / "events"


def open_event_log(settings: Settings, store: Store) -> EventLogReader:
    """The released events as far as their steps are in the store."""
    return EventLogReader(event_log_folder(settings), store.event_log_positions)


def _restore_position(sources: Mapping[str, ConfiguredSource], name: str, position: object) -> None:
    """A source that cannot use its position reads from the start: its events are known by their ids."""
    if name not in sources or not isinstance(position, dict):
        return
    try:
        sources[name].source.restore(position)
    except PositionError as error:
        log.warning("read position refused; the source is read from its start", source=name, reason=str(error))
