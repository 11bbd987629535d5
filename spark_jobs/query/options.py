"""What `clustercep query` was asked: from arguments, query files and settings to one checked request."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import engine
from app.clock import SystemClock
from app.commands.match.match import read_parameters, read_query
from app.config import load_settings
from app.durations import parse_duration_ms
from app.nearest_name import did_you_mean
from app.queries.aggregates import register_configured
from app.queries.loading import parameter_values, query_files
from app.settings import Settings
from collectors.schema import load_event_types
from spark_jobs.query.rows import RequestedQuery
from spark_jobs.session import SparkJobError


class QueryFormat(StrEnum):
    """How rows are given."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


@dataclass(frozen=True)
class Request:
    """A query over a span of a store, and what becomes of its rows."""

    requested: RequestedQuery
    settings: Settings
    store: str | None
    master: str | None
    from_ms: int | None
    to_ms: int | None
    format: QueryFormat
    out: str | None
    in_order: bool
    one_piece: bool
    explain: bool


def parser() -> argparse.ArgumentParser:
    """The arguments of the job; `clustercep query` has the same."""
    found = argparse.ArgumentParser(prog="clustercep query", description="Run a query over the event store.")
    found.add_argument("query", metavar="QUERY", help="file with a query, or the name of a predefined one")
    found.add_argument("--from", dest="from_", metavar="TIME", help="ms since 1970, 2026-03-01T12:00 (UTC), or 2 h ago")
    found.add_argument("--to", metavar="TIME", help="last moment of the span, included")
    found.add_argument("--store", metavar="URL", help="event store; else spark.store")
    found.add_argument("--master", metavar="URL", help="Spark's master; else spark.master, else this machine")
    found.add_argument("--config", type=Path, metavar="FILE", help="settings")
    found.add_argument("--format", type=QueryFormat, choices=list(QueryFormat), default=QueryFormat.TABLE)
    found.add_argument("--out", metavar="PATH", help="where rows go; for parquet a folder on any file system of Hadoop")
    found.add_argument("--order", action="store_true", help="rows by time, in place of as they are found")
    found.add_argument("--param", action="append", default=[], metavar="NAME=VALUE")
    found.add_argument("--with", dest="with_", action="append", default=[], type=Path, metavar="OTHER.cep")
    found.add_argument("--aggregate", action="append", default=[], metavar="MODULE:FUNCTION")
    found.add_argument("--confidence", type=float, metavar="C", help="least confidence, in place of the query's")
    found.add_argument("--limit", type=int, metavar="N", help="at most this many rows, in place of the query's")
    found.add_argument("--one-slice", action="store_true", help="evaluate everything in one task")
    found.add_argument("--explain", action="store_true", help="what would be read and how it would be divided")
    return found


def request_of(args: Sequence[str]) -> Request:
    """Check everything that can be before Spark starts; raises AppError or QueryError."""
    given = parser().parse_args(args)
    settings = load_settings(given.config)
    if given.confidence is not None and not 0 <= given.confidence <= 1:
        raise SparkJobError(f"--confidence {given.confidence}: expected a number from 0 to 1")
    if given.limit is not None and given.limit < 1:
        raise SparkJobError(f"--limit {given.limit}: expected at least 1")
    if given.format is QueryFormat.PARQUET and given.out is None and not given.explain:
        raise SparkJobError("--format parquet needs --out, the folder that the rows go to")
    from_ms, to_ms = (time_ms(name, text) for name, text in (("--from", given.from_), ("--to", given.to)))
    if from_ms is not None and to_ms is not None and from_ms > to_ms:
        raise SparkJobError(f"--from {given.from_} is after --to {given.to}; expected a span")
    return Request(
        requested=_requested(given, settings),
        settings=settings,
        store=given.store,
        master=given.master,
        from_ms=from_ms,
        to_ms=to_ms,
        format=given.format,
        out=given.out,
        in_order=given.order,
        one_piece=given.one_slice,
        explain=given.explain,
    )


def _requested(given: argparse.Namespace, settings: Settings) -> RequestedQuery:
    """The query with the options that take the place of its clauses, and the queries that it may use."""
    texts: dict[str, str] = {}
    problems: list[str] = []
    predefined = query_files(settings.queries.directory, problems)
    path = Path(given.query)
    is_name = not path.is_file() and given.query in predefined
    if not path.is_file() and not is_name:
        known = ", ".join(predefined) or "none"
        near = did_you_mean(given.query, predefined, after="; ")
        expected = f"{near} Expected" if near else "; expected"  # the nearest one before the long list
        raise SparkJobError(f"{given.query}: no such file, and no predefined query{expected} a file or one of {known}")
    name = given.query if is_name else path.stem
    parameters: dict[str, dict[str, int | float | str]] = {}
    if is_name:
        for other, file in predefined.items():
            texts[other] = read_query(file)
            try:
                configured = settings.queries.parameters.get(other, {})
                parameters[other] = parameter_values(texts[other], configured, other)
            except ValueError as error:
                raise SparkJobError(str(error)) from None
    parameters[name] = {**parameters.get(name, {}), **read_parameters(given.param)}
    for other in given.with_:
        if other.stem in texts and not is_name:
            raise SparkJobError(f"--with {other}: a second query called {other.stem}; expected each once")
        texts[other.stem] = read_query(other)
    text = texts[name] if is_name else read_query(path)
    changes = {
        field: value for field, value in (("confidence", given.confidence), ("limit", given.limit)) if value is not None
    }
    if changes:
        text = engine.print_query(replace(engine.parse(text, name), **changes))
    aggregates = tuple(dict.fromkeys((*settings.queries.aggregates, *given.aggregate)))
    if wrong := register_configured(aggregates, "--aggregate"):
        raise SparkJobError("; ".join(map(str, wrong)))
    return RequestedQuery(name, {**texts, name: text}, load_event_types(), parameters, aggregates)


def time_ms(option: str, text: str | None) -> int | None:
    """Milliseconds since 1970, a time as ISO 8601 writes it (UTC unless it says otherwise), or a duration before now.

    Raises SparkJobError.
    """
    if text is None:
        return None
    if text.lstrip("-").isdecimal():
        return int(text)
    with suppress(ValueError):
        return SystemClock().now_ms() - parse_duration_ms(text.removesuffix(" ago"))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SparkJobError(
            f"{option} {text!r}: expected ms since 1970, an ISO time as 2026-03-01 or 2026-03-01T12:00:00+01:00, or a "
            "duration before now as '2 h'"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


__all__ = ["QueryFormat", "Request", "parser", "request_of", "time_ms"]
