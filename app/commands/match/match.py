"""`clustercep match` and `clustercep explain`: any query on any events, and what the planner makes of it.

Exit 0 with matches (explain: when the query is valid), 1 without, 2 on a bad query or input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

import engine
from app.commands.friendly import JsonOption, print_json
from app.commands.match.absent_types import with_absent_types
from app.commands.match.oracle import oracle_rows
from app.commands.match.output import PRINTERS, OutputFormat, Printed
from app.durations import format_duration
from app.errors import AppError
from app.event_columns import LoadedEvents, load_events, parse_number
from app.event_file import EventFileError, read_event_file, shown
from app.nearest_name import near_query
from app.queries.aggregates import register_configured
from collectors.schema import load_event_types
from engine import ast
from engine.errors import EngineError, QueryError, UnsupportedQueryError
from engine.events import FOREVER_MS, EventSchema

if TYPE_CHECKING:
    from app.commands.match.files import MatchFile
    from app.settings import Settings
    from engine import ReferenceRow

EXIT_MATCHES, EXIT_NO_MATCH, EXIT_BAD = 0, 1, 2

MAX_ORACLE_EVENTS = 2_000
"""Above this, `--runtime auto` does not fall back to the oracle, which would not come to an end."""

MAX_UNCOMPILED_EVENTS = 5_000
"""Up to this, the first query on a machine is answered without the compiler; more take longer so than it does."""

MAX_REFUSED_SHOWN = 10
"""Refused events that are named, beyond these they are counted."""

Parameters = dict[str, int | float | str]

_AGGREGATE = "A function that queries may call as they call avg, of an installed module; repeatable."


class RuntimeChoice(StrEnum):
    """What evaluates the query."""

    AUTO = "auto"
    COMPILED = "compiled"
    ORACLE = "oracle"
    AUTOMATON = "automaton"  # what evaluates all that is no plain sequence, for plain sequences as well
    # The papers' baselines, to compare with.
    RUNS = "runs"
    BUFFERS = "buffers"
    BACKTRACKING = "backtracking"
    ENUMERATION = "enumeration"
    EXTENSION = "extension"


_PLANNED = frozenset({RuntimeChoice.AUTO, RuntimeChoice.COMPILED, RuntimeChoice.AUTOMATON})


class SchemaChoice(StrEnum):
    """Where attribute types come from."""

    INFER = "infer"
    CLUSTER = "cluster"


class TiesChoice(StrEnum):
    """How equal timestamps of precise events are ordered."""

    SOURCE = "source"
    STRICT = "strict"


@dataclass(frozen=True)
class Override:
    """Options that take the place of clauses of the query; None leaves the query's own."""

    confidence: float | None = None
    ties: ast.Ties | None = None
    limit: int | None = None


@dataclass(frozen=True)
class Job:
    """A checked query and the events for it: what every runtime is given.

    `text` is the query with the overrides filled in. `schema` knows the types of both. `others`: texts by name of the
    queries whose matches it may use.
    """

    name: str
    text: str
    schema: EventSchema
    parameters: Parameters
    events: LoadedEvents
    others: Mapping[str, str] = field(default_factory=dict)


# ---------------------------------------------------------------- commands


def match(
    query: Annotated[Path, typer.Argument(metavar="QUERY.cep", help="File with the query.")],
    events: Annotated[str, typer.Argument(metavar="EVENTS", help="JSON lines, CSV or Parquet; - is standard input.")],
    runtime: Annotated[
        RuntimeChoice,
        typer.Option(
            help="auto: compiled, and the oracle for what that refuses; automaton: all by the general automaton. "
            "The others: baselines."
        ),
    ] = RuntimeChoice.AUTO,
    confidence: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Least confidence, in place of the query's.")
    ] = None,
    ties: Annotated[
        TiesChoice | None, typer.Option(help="Equal times of precise events: by row (source) or unordered (strict).")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many rows, in place of the query's.")] = None,
    param: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Value of a :name of the query; repeatable.")
    ] = None,
    schema: Annotated[
        SchemaChoice, typer.Option(help="Attribute types: from the events, or those of a cluster's events.")
    ] = SchemaChoice.INFER,
    with_: Annotated[
        list[Path] | None,
        typer.Option("--with", metavar="OTHER.cep", help="A query whose matches this one may use; repeatable."),
    ] = None,
    aggregate: Annotated[list[str] | None, typer.Option(metavar="MODULE:FUNCTION", help=_AGGREGATE)] = None,
    format_: Annotated[
        OutputFormat,
        typer.Option("--format", help="One JSON object per line, a table for people, Parquet, or a stream of Arrow."),
    ] = OutputFormat.JSONL,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format jsonl.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where Parquet or Arrow goes; else standard output.")
    ] = None,
) -> None:
    """Print the matches of a query on the events of a file.

    Every event has `type` and a time in ms: `t`, or `t_lo` and `t_hi` (both inclusive); `id` is the row number (from
    1) unless given. The exit code is 0 with matches, 1 without, 2 on a bad query or input.
    """
    format_ = OutputFormat.JSONL if as_json else format_
    override = Override(confidence, None if ties is None else ast.Ties[ties.name], limit)
    try:
        _register(aggregate or [])
        job = prepare(query, events, override, param or [], schema, with_ or [])
        with _printer(job, format_, out) as printer:
            # Written as matches are found: their number is no matter of memory then.
            sink = None if format_ is OutputFormat.TABLE else engine.RowSink(printer.write, in_listing_order=True)
            rows = evaluate(job, runtime, sink)
            printer.write(rows)
    except (AppError, EventFileError, EngineError) as error:
        _fail(error)
    _report_cut(rows)
    found = bool(len(rows) or (sink and sink.n_rows))
    if not found and format_ is OutputFormat.TABLE:
        n_events = len(job.events.batch)
        typer.echo(f"No match among {n_events:,} event{'' if n_events == 1 else 's'}.")
    raise typer.Exit(EXIT_MATCHES if found else EXIT_NO_MATCH)


def explain(
    query: Annotated[Path, typer.Argument(metavar="QUERY.cep", help="File with the query.")],
    events: Annotated[
        str | None, typer.Argument(metavar="[EVENTS]", help="Events to infer the types from; else the cluster's.")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Value of a :name of the query; repeatable.")
    ] = None,
    with_: Annotated[
        list[Path] | None,
        typer.Option("--with", metavar="OTHER.cep", help="A query whose matches this one may use; repeatable."),
    ] = None,
    aggregate: Annotated[list[str] | None, typer.Option(metavar="MODULE:FUNCTION", help=_AGGREGATE)] = None,
    dot: Annotated[bool, typer.Option("--dot", help="Print a graph in Graphviz's language instead.")] = False,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Settings whose engine.latency_bound is shown, too.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print how a query is read and evaluated: automaton, predicates by edge and class, runtime, cost; of the queries
    whose matches it uses as well."""
    if dot and as_json:
        _fail(AppError("--dot and --json are both given; expected one of them"))
    try:
        _register(aggregate or [])
        others = _other_queries(with_ or [])
        compiled = _planned(query, events, read_parameters(param or []), others)
        shared = _shared(query, events, read_parameters(param or []), others) if compiled[-1].resolved.is_trend else ""
        settings = None if config is None else _settings(config)
    except (AppError, EventFileError, EngineError) as error:
        _fail(error)
    if as_json:
        bound = {} if settings is None else {"latency_bound_ms": settings.engine.latency_bound_ms}
        print_json([{**planned.facts(), **bound} for planned in compiled])
        return
    for planned in compiled:
        for warning in planned.resolved.warnings:
            _warn(f"warning: {warning}")
    texts = [planned.dot() if dot else planned.explain() for planned in compiled]
    if shared and not dot:
        texts[-1] = f"{texts[-1].rstrip()}\n{shared}\n"
    if settings is not None and not dot:
        texts = [f"{text.rstrip()}\n{_bound_text(settings)}\n" for text in texts]
    typer.echo("\n".join(texts))


def _settings(config: Path) -> Settings:
    from app.config import load_settings

    return load_settings(config)


def _bound_text(settings: Settings) -> str:
    """What the settings say of load shedding."""
    bound_ms = settings.engine.latency_bound_ms
    if bound_ms is None:
        return "bound      none: engine.latency_bound is not set, nothing is ever dropped"
    strategy = "the fewest expected matches per second of processing first (pSPICE)"
    return f"bound      engine.latency_bound {format_duration(bound_ms)}: {strategy}"


def _printer(job: Job, form: OutputFormat, out: Path | None) -> MatchFile | Printed:
    if form in PRINTERS:
        if out is not None:
            raise AppError(f"--out is for --format parquet or arrow; found {form}: redirect the output instead")
        return Printed(PRINTERS[form])
    from app.commands.match.files import MatchFile

    texts = {job.name: job.text, **job.others}
    *_, resolved = engine.resolve_queries(texts, job.schema, {job.name: job.parameters}, only=[job.name])
    return MatchFile(resolved, form, out)


def _planned(
    query: Path, events: str | None, parameters: Parameters, others: Mapping[str, str], *, only: bool = True
) -> list[engine.CompiledQuery]:
    """The query after all that it uses; with all others without `only`."""
    text, name = read_query(query), str(query)
    schema = load_event_types()
    if events is not None:
        schema = _load(events, SchemaChoice.INFER).schema
        for parsed in (engine.parse(text, name), *(engine.parse(other, at) for at, other in others.items())):
            matches = frozenset(other.replace("-", "_") for other in others)
            schema, _ = with_absent_types(parsed, schema, load_event_types(), matches)
    return engine.compile_queries({name: text, **others}, schema, {name: parameters}, only=[name] if only else None)


def _shared(query: Path, events: str | None, parameters: Parameters, others: Mapping[str, str]) -> str:
    """What a query about trends has in common with others in one engine."""
    found = engine.trend_sharing(_planned(query, events, parameters, others, only=False)) if others else {}
    return found[str(query)].explain() if str(query) in found else ""


def _register(aggregates: Sequence[str]) -> None:
    if problems := register_configured(aggregates, "--aggregate"):
        raise AppError("; ".join(map(str, problems)))


# ----------------------------------------------------------------- evaluation


def read_query(path: Path) -> str:
    """The text of a query file; raises AppError when it cannot be read as UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise AppError(f"{path}: byte {error.start + 1} is not UTF-8; expected the text of a query") from None
    except OSError as error:
        near = near_query(path) if isinstance(error, FileNotFoundError) else ""
        why = f"{error.strerror or error}; expected a file with a query{near}"
        raise AppError(f"{path}: cannot be read: {why}") from None


def prepare(
    query: Path,
    events: str,
    override: Override,
    param: Sequence[str],
    schema: SchemaChoice,
    others: Sequence[Path] = (),
) -> Job:
    """Read and check all files. Raises AppError, EventFileError or QueryError."""
    text, name = read_query(query), str(query)
    parsed = engine.parse(text, name)
    parameters = read_parameters(param)
    texts = _other_queries(others)
    loaded = _load(events, schema)
    known = loaded.schema
    if schema is SchemaChoice.INFER:  # of the cluster all types are known: another one is a mistake
        known = _with_absent_types([parsed, *(engine.parse(other, at) for at, other in texts.items())], texts, loaded)
    if override.ties is None and parsed.ties is None and loaded.equal_is_unordered:
        override = replace(override, ties=ast.Ties.STRICT)
    if not texts:
        (resolved,) = engine.resolve_queries({name: text}, known, {name: parameters})
        for warning in resolved.warnings:
            _warn(f"warning: {warning}")
    changes: dict[str, Any] = {
        field: value
        for field, value in (("confidence", override.confidence), ("ties", override.ties), ("limit", override.limit))
        if value is not None
    }
    text = engine.print_query(replace(parsed, **changes)) if changes else text
    return Job(name, text, known, parameters, loaded, texts)


def _other_queries(paths: Sequence[Path]) -> dict[str, str]:
    """The texts of queries by the names of their files."""
    texts: dict[str, str] = {}
    for path in paths:
        if path.stem in texts:
            raise AppError(f"--with {path}: a second query called {path.stem}; expected each once")
        texts[path.stem] = read_query(path)
    return texts


def _with_absent_types(queries: Sequence[ast.Query], others: Iterable[str], loaded: LoadedEvents) -> EventSchema:
    known, cluster = loaded.schema, load_event_types()
    matches = frozenset(name.replace("-", "_") for name in others)
    for query in queries:
        known, absent = with_absent_types(query, known, cluster, matches)
        for event_type in absent:
            found = ", ".join(map(shown, loaded.schema.types)) or "none"
            _warn(f"no event has the type {shown(event_type)}; found {found}")
    return known


class _ImpreciseEventsError(UnsupportedQueryError):
    """Imprecise events for a query that is not defined over them, by whatever runtime."""


def evaluate(
    job: Job, choice: RuntimeChoice, sink: engine.RowSink | None = None
) -> Sequence[engine.MatchRow] | Sequence[ReferenceRow]:
    """All rows that the sink has not got. Raises UnsupportedQueryError when the chosen runtime does not evaluate the
    query; `sink` has then got none."""
    if choice is RuntimeChoice.ORACLE:
        return _by_oracle(job)
    try:
        return _by_engine(job, choice, sink)
    except _ImpreciseEventsError:
        raise
    except UnsupportedQueryError as error:
        if choice is not RuntimeChoice.AUTO or len(job.events.batch) > MAX_ORACLE_EVENTS:
            raise
        _warn(f"{error}\n  evaluated by the oracle instead")
        return _by_oracle(job)


def _by_oracle(job: Job) -> list[ReferenceRow]:
    texts = {job.name: job.text, **job.others}
    for resolved in engine.resolve_queries(texts, job.schema, {job.name: job.parameters}, only=[job.name]):
        _warn_of_too_long(resolved.name, engine.fitting_events(resolved, job.events.batch)[1])
    return oracle_rows(texts, job.name, job.schema, {job.name: job.parameters}, job.events.batch)


def _by_engine(job: Job, choice: RuntimeChoice, sink: engine.RowSink | None) -> Sequence[engine.MatchRow]:
    baseline = None if choice in _PLANNED else engine.BaselineKind(choice.value)
    texts = {job.name: job.text, **job.others}
    as_automata = choice is RuntimeChoice.AUTOMATON
    queries = engine.compile_queries(
        texts, job.schema, {job.name: job.parameters}, only=[job.name], as_automata=as_automata
    )
    if len(job.events.batch) <= MAX_UNCOMPILED_EVENTS:
        engine.answer_while_compiling()
    at_once = baseline is None and _is_listed_at_once(queries)
    limits = engine.Limits(possibilities=any(q.name == job.name and _stands_for_several(q) for q in queries))
    running = engine.Engine(queries, job.schema, limits=limits, baseline=baseline, sink=sink if at_once else None)
    rows = engine.joined_rows([running.process(job.events.batch, FOREVER_MS), running.finish()])
    for compiled in queries:
        _check_finished(compiled, running.statistics[compiled.name], baseline)
        _warn_of_too_long(compiled.name, engine.fitting_events(compiled.resolved, job.events.batch)[1])
        if running.statistics[compiled.name].n_limited and compiled.name != job.name:
            _warn(f"{compiled.name}: its LIMIT was reached, {job.name} did not see all of its matches")
    return rows if len(queries) == 1 else [row for row in rows if row.query == job.name]


def _stands_for_several(query: engine.CompiledQuery) -> bool:
    """Whether a row may stand for several matches, whose common probability is then printed."""
    return query.resolved.query.output in (ast.Output.COLLAPSED, ast.Output.COUNT)


def _warn_of_too_long(name: str, refused: engine.Refused) -> None:
    if refused.n_events:
        _warn(f"{name}: {refused.summary(MAX_REFUSED_SHOWN)}")


def _is_listed_at_once(queries: Sequence[engine.CompiledQuery]) -> bool:
    """Whether what is found cannot turn out to be wrong, or only a part, at the end of the events."""
    return len(queries) == 1 and queries[0].is_listed_in_blocks


def _check_finished(
    compiled: engine.CompiledQuery, counted: engine.QueryStatistics, baseline: engine.BaselineKind | None
) -> None:
    """Warn of matches that may be missing; raises UnsupportedQueryError when there were events of the wrong kind."""
    if counted.n_unfinished:
        _warn(
            f"{counted.n_unfinished} search(es) were stopped by the work budget; matches may be missing: constrain the "
            "query further, or shorten its window"
        )
    if counted.n_rejected:
        needed = compiled.exact_times
        construct, remedy = f"--runtime {baseline}", "evaluate it with --runtime auto"
        expected = "events with t_lo = t_hi"
        if needed is not None and baseline is None:
            construct, remedy = needed.construct, needed.remedy
            expected += f", for {needed.reason}"
        elif compiled.resolved.is_trend:
            construct, remedy = "an aggregate over trends", "leave these events out, or match them"
            expected += (
                ", or intervals that do not depend on each other: of one clock they do not overlap, no skew, no weights"
            )
        raise _ImpreciseEventsError(
            f"{construct} is not defined over imprecise events; found {counted.n_rejected}",
            expected=expected,
            remedy=remedy,
            name=compiled.name,
        )


def _load(events: str, choice: SchemaChoice) -> LoadedEvents:
    raw, problems = read_event_file(events)
    loaded = load_events(raw, problems, load_event_types() if choice is SchemaChoice.CLUSTER else None)
    for event_type, n_events in loaded.skipped.items():
        _warn(f"{problems.name}: {n_events} event(s) of the unknown type {shown(event_type)} left out")
    if loaded.refused.n_events:
        _warn(f"{problems.name}: {loaded.refused.summary(MAX_REFUSED_SHOWN)}")
    return loaded


def read_parameters(param: Sequence[str]) -> Parameters:
    """NAME=VALUE: a number, a number with a unit of time (45s), else text; '...' is always text."""
    found: Parameters = {}
    for item in param:
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise AppError(f"--param {shown(item)}: expected NAME=VALUE, as in --param min_rise=5")
        if name.strip() in found:
            raise AppError(f"--param {shown(item)}: {name.strip()} is given twice")
        found[name.strip()] = _parameter_value(value.strip())
    return found


def _parameter_value(value: str) -> int | float | str:
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    number = parse_number(value)
    if not isinstance(number, str):
        return number
    try:  # the language knows the units of time
        default = engine.parse(f"PATTERN SEQ(A a) PARAMETERS value = {value}").parameters
    except QueryError:
        return value
    is_duration = len(default) == 1 and not isinstance(default[0].value, str)
    return default[0].value if is_duration else value


# --------------------------------------------------------------------- output


def _report_cut(rows: Sequence[engine.MatchRow | ReferenceRow]) -> None:
    if any(row.capped for row in rows):
        _warn(f"the limit was reached: {len(rows)} row(s) are shown, there are more")


def _warn(message: str) -> None:
    typer.echo(f"clustercep: {message}", err=True)


def _fail(error: Exception) -> NoReturn:
    _warn(str(error))
    raise typer.Exit(EXIT_BAD) from None


app = typer.Typer(add_completion=False, no_args_is_help=True)
app.command()(match)
app.command()(explain)

if __name__ == "__main__":
    app()


__all__ = ["Job", "Override", "RuntimeChoice", "SchemaChoice", "evaluate", "explain", "match", "prepare"]
