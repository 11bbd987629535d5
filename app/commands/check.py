"""`clustercep check`: everything that is wrong with configuration, queries, sources and receivers at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import engine
from app.alerting.delivery import endpoint_of
from app.alerting.dispatch.doubts import doubts, template_doubts
from app.alerting.dispatch.routes import Routing
from app.alerting.receivers.sample import sample_news
from app.alerting.recording.labels import possible_labels
from app.alerting.text import plain
from app.config import load_settings
from app.errors import ConfigError
from app.live.assembly import endpoints_of, links_of, shedding_model
from app.live.sources import build_sources, clock_skew_of
from app.queries.loading import Loaded, load_queries
from app.settings import Settings
from app.shedding.model import ModelError
from collectors.schema import load_event_types
from engine import ast
from engine.errors import QueryError


@dataclass(frozen=True)
class CheckReport:
    """What a check found."""

    problems: tuple[str, ...]
    n_queries: int = 0
    n_receivers: int = 0
    settings: Settings | None = None
    """What was read; None when it cannot be."""
    queries: Loaded | None = None
    warnings: tuple[str, ...] = ()
    """What works, but perhaps not as it is meant."""
    shared: tuple[str, ...] = ()
    """What queries about trends have in common."""


def check_all(config: Path | None) -> CheckReport:
    """Check; a configuration that cannot be read ends the check, for all else depends on it."""
    try:
        settings = load_settings(config)
    except ConfigError as error:
        return CheckReport(tuple(str(error).splitlines()))
    loaded = load_queries(settings.queries, settings.alerting.group_gap_ms)
    problems = [
        *loaded.problems,
        *_runtime_problems(loaded),
        *_model_problems(settings, loaded),
        *_source_problems(settings),
        *_receiver_problems(settings),
    ]
    warnings = tuple(_warnings(settings, loaded))
    return CheckReport(
        tuple(problems), len(loaded.compiled), len(settings.alerting.receivers), settings, loaded, warnings,
        tuple(f"{name}: {each.text}" for name, each in engine.trend_sharing(loaded.compiled).items()),
    )  # fmt: skip


def _warnings(settings: Settings, loaded: Loaded) -> Iterator[str]:
    for query in loaded.compiled:
        yield from query.resolved.warnings
    yield from loaded.left_out
    yield from _routing_doubts(settings, loaded)
    exempt = {query.name for query in loaded.compiled if query.evaluation.is_exempt}
    exempt = exempt.union(*(query.needs_whole for query in loaded.compiled))
    if exempt and settings.engine.latency_bound_ms is not None:
        yield (
            "engine.latency_bound: nothing can be dropped of what these queries keep, which is a fixed cost under "
            f"overload: {', '.join(sorted(exempt))}"
        )
    if settings.engine.shedding_model is not None and settings.engine.latency_bound_ms is None:
        yield "engine.shedding_model: without engine.latency_bound nothing is dropped, and the model is not used"
    exact = [query.name for query in loaded.compiled if query.plan.strategy is not ast.Strategy.SKIP_TILL_ANY_MATCH]
    if exact and clock_skew_of(settings).greatest_ms:
        yield (
            "sources.clock_skew: events of a clock with a bound have no exact time, and are rejected by queries with "
            f"another strategy than skip_till_any_match: {', '.join(exact)}"
        )


def _routing_doubts(settings: Settings, loaded: Loaded) -> Iterator[str]:
    alerting = settings.alerting
    returned = {item.name for query in loaded.compiled for item in query.resolved.query.returns}
    returned |= {name for info in loaded.infos.values() for name in (*info.key, *info.per)}
    yield from template_doubts(alerting.receivers, returned, alerting.external_labels)
    yield from _jinja_doubts(settings, returned)
    routing = Routing.of(alerting)
    if routing is not None:
        severities = {
            name: None if info.severity is None else info.severity.value for name, info in loaded.infos.items()
        }
        labels = possible_labels(loaded.infos.values(), alerting.external_labels)
        yield from doubts(routing, severities, alerting.external_labels, labels)


def _jinja_doubts(settings: Settings, returned: set[str]) -> Iterator[str]:
    """Templates that fail for an alert that has the values and labels of all queries."""
    common = {"host", "job", "application", "user", "queue", *settings.alerting.external_labels}
    for name, receiver in sorted(settings.alerting.receivers.items()):
        if receiver.template is None or receiver.template.suffix != ".j2" or not receiver.enabled:
            continue
        try:
            endpoint = endpoint_of(name, receiver, links_of(settings))
            endpoint.message(sample_news(name, endpoint.links, 0, names=returned | common))
        except ConfigError:  # told as a problem of the receiver
            continue
        except Exception as error:  # noqa: BLE001  # a boundary: whatever is wrong with a template is told
            what = plain(str(error) or type(error).__name__)
            yield f"alerting.receivers.{name}.template: {what}; messages go without the template where it fails"


def _runtime_problems(loaded: Loaded) -> list[str]:
    """Queries that are right but that the live process cannot evaluate."""
    problems, schema = [], load_event_types()
    for query in loaded.compiled:
        try:
            engine.Engine(query.chain, schema)
        except QueryError as error:
            problems.append(str(error))
    return problems


def _model_problems(settings: Settings, loaded: Loaded) -> list[str]:
    """A shedding model that cannot be used, of queries that are right."""
    if loaded.problems:
        return []
    try:
        shedding_model(settings, loaded)
    except ModelError as error:
        return [str(error)]
    return []


def _source_problems(settings: Settings) -> list[str]:
    try:
        build_sources(settings)
    except ConfigError as error:
        return str(error).splitlines()
    return []


def _receiver_problems(settings: Settings) -> list[str]:
    problems = []
    for name, receiver in settings.alerting.receivers.items():
        alone = settings.model_copy(
            update={"alerting": settings.alerting.model_copy(update={"receivers": {name: receiver}})}
        )
        try:
            endpoints_of(alone)
        except ConfigError as error:
            problems += str(error).splitlines()
    return problems
