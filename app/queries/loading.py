"""The query files, compiled with their parameters; all that is wrong is found, not only the first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import engine
from app.alerting.catalog import QueryInfo
from app.alerting.recording.episodes import digest
from app.alerting.recording.kept import QUERIES
from app.alerting.text import placeholders, runbook_sections
from app.durations import parse_duration_ms
from app.errors import ConfigProblem
from app.nearest_name import did_you_mean
from app.queries.aggregates import register_configured
from app.queries.runbook import with_parameters
from app.settings import ParameterValue, Queries, Severity
from collectors.schema import load_event_types
from engine import ast
from engine.errors import QueryError, UnsupportedQueryError
from engine.events import FOREVER_MS, AttributeType, EventSchema

if TYPE_CHECKING:
    from engine import CompiledQuery

RUNBOOK = "RUNBOOK.md"
MAX_QUERY_BYTES = 2**16


@dataclass(frozen=True)
class Loaded:
    """The queries of a folder."""

    compiled: tuple[CompiledQuery, ...]
    infos: Mapping[str, QueryInfo]
    problems: tuple[str, ...]
    """What is wrong, ready to print."""
    left_out: tuple[str, ...] = ()
    """Queries that do not run because one that they use is disabled, with the reason, ready to print."""


def load_queries(settings: Queries, group_gap_ms: int, schema: EventSchema | None = None) -> Loaded:
    """Compile every NAME.cep of the folder that is not disabled."""
    schema = schema or load_event_types()
    problems = [str(problem) for problem in register_configured(settings.aggregates)]
    files = query_files(settings.directory, problems)
    problems += _unknown_names("queries.disabled", settings.disabled, files)
    problems += _unknown_names("queries.parameters", settings.parameters, files)
    problems += _unknown_names("queries.severities", settings.severities, files)
    runbook = _read_runbook(settings.directory, problems) if files else {}
    texts, parameters = _texts(files, settings, problems)
    left_out = _without_producers(texts, settings.disabled, schema)
    for name in left_out:
        del texts[name]
    compiled: dict[str, CompiledQuery] = {}
    for name in texts:
        try:
            # With what it uses, so that whatever is wrong elsewhere is told once, of the file where it is.
            compiled |= {query.name: query for query in engine.compile_queries(texts, schema, parameters, only=[name])}
        except QueryError as error:
            path = files[name]
            uses = f"it uses the matches of {error.name}, which has problems of its own"
            problems.append(f"{path}: {error if error.name == name else uses}")
    known = (compiled[name] for name in texts if name in compiled)
    queries = engine.with_consumed(known)
    infos = {}
    for query in queries:
        told = with_parameters(runbook.get(query.name, ""), query)
        info = describe(query, told, group_gap_ms)
        if (severity := settings.severities.get(query.name)) is not None:
            problems += _needless_severity(query.name, info, severity)
            info = info if info.is_report else replace(info, severity=severity)
        infos[query.name] = info
        where = f"{settings.directory / RUNBOOK}"
        problems += [f"{files[query.name]}: {text}" for text in _info_problems(query, info, where)]
        problems += [f"{files[query.name]}: {error}" for error in _endless(query, texts[query.name])]
    return Loaded(
        tuple(queries), infos, tuple(problems), tuple(f"{files[name]}: {left_out[name]}" for name in sorted(left_out))
    )


def without_incidents(loaded: Loaded) -> Loaded:
    """Without the queries with INCIDENT: where the alerts of matches are not known, these are told as if there were
    none."""
    kept = tuple(query for query in loaded.compiled if not loaded.infos[query.name].is_incident)
    return replace(loaded, compiled=kept, infos={query.name: loaded.infos[query.name] for query in kept})


def _without_producers(texts: Mapping[str, str], disabled: Iterable[str], schema: EventSchema) -> dict[str, str]:
    """The queries that use the matches of one that is disabled, directly or not, and why they cannot run."""
    used: dict[str, set[str]] = {}
    for name, text in texts.items():
        with suppress(QueryError):  # what is no query is told when it is compiled
            used[name] = {part.event_type for part, _ in ast.components(engine.parse(text, name).pattern)}
    gone = {engine.match_type(name): name for name in disabled if engine.match_type(name) not in schema.types}
    found: dict[str, str] = {}
    is_more = True
    while is_more:
        is_more = False
        for name in sorted(used.keys() - found.keys()):
            if lacking := sorted(gone[event_type] for event_type in used[name] & gone.keys()):
                found[name] = f"left out: it uses the matches of {', '.join(lacking)}, which does not run"
                gone[engine.match_type(name)] = name
                is_more = True
    return found


def _texts(
    files: Mapping[str, Path], settings: Queries, problems: list[str]
) -> tuple[dict[str, str], dict[str, dict[str, int | float | str]]]:
    """The texts and the parameters of the queries that are not disabled."""
    texts: dict[str, str] = {}
    parameters: dict[str, dict[str, int | float | str]] = {}
    for name, path in files.items():
        if name in settings.disabled:
            continue
        try:
            text = read_query(path)
            parameters[name] = parameter_values(text, settings.parameters.get(name, {}), name)
        except (QueryError, OSError, ValueError) as error:
            problems.append(f"{path}: {error}")
            continue
        texts[name] = text
    return texts, parameters


def query_files(directory: Path, problems: list[str]) -> dict[str, Path]:
    """NAME -> path of NAME.cep, in order of name."""
    if not directory.is_dir():
        problems.append(str(ConfigProblem("queries.directory", f"no folder {directory}", "a folder with .cep files")))
        return {}
    files = {path.stem: path for path in sorted(directory.glob("*.cep"))}
    if not files:
        problems.append(str(ConfigProblem("queries.directory", f"no .cep file in {directory}", "at least one")))
    return files


def read_query(path: Path) -> str:
    """The text of a query file; raises OSError, or ValueError when it is too long or no text."""
    if not path.is_file():
        raise ValueError("no file; expected the text of a query")
    if path.stat().st_size > MAX_QUERY_BYTES:
        raise ValueError(f"a query file of more than {MAX_QUERY_BYTES} bytes; expected a query")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} is not UTF-8; expected the text of a query") from None


def parameter_values(text: str, given: Mapping[str, ParameterValue], name: str) -> dict[str, int | float | str]:
    """Values for a query's PARAMETERS; a duration may be written with its unit where the default is a number.

    Raises ValueError that names the parameter, and QueryError when the text is not a query.
    """
    defaults = {default.name: default.value for default in engine.parse(text, name).parameters}
    values: dict[str, int | float | str] = {}
    for key, value in given.items():
        place = f"queries.parameters.{name}.{key}: found {value!r}"
        if isinstance(value, bool):
            raise ValueError(f"{place}; expected a number or a text")
        if isinstance(value, str) and isinstance(defaults.get(key), (int, float)):
            try:
                values[key] = parse_duration_ms(value)
            except ValueError as error:
                raise ValueError(f"{place}; expected a number, or {str(error).removeprefix('expected ')}") from None
        else:
            values[key] = value
    return values


def describe(query: CompiledQuery, runbook: str, group_gap_ms: int) -> QueryInfo:
    """What alerting needs to know; a query without a notice is a report, unless it is there for other queries alone."""
    notice = query.notice
    reported = notice is None or notice.severity.value == "report"
    return QueryInfo(
        name=query.name,
        hash=query.hash if notice is None or not notice.per else digest(query.hash, *notice.per),
        severity=None if notice is None or reported else Severity(notice.severity.value),
        summary="" if notice is None else notice.summary,
        group_gap_ms=group_gap_ms if query.group_gap_ms is None else query.group_gap_ms,
        key=_key(query),
        per=() if notice is None else notice.per,
        runbook=runbook,
        within_ms=query.reach_ms if query.reach_ms < FOREVER_MS else None,
        keep_ms=_reach_in_time_ms(query),
        within_events=query.resolved.query.within_events,
        types=query.read_types,
        numbers=_numbers(query),
        shown=query.resolved.query.shown,
        hosts=query.resolved.query.hosts,
        onset=query.resolved.query.onset,
        match_hash=query.hash,
        depth=query.depth,
        uses=frozenset(producer.name for producer in query.producers),
        binds=_bound(query),
    )


def _reach_in_time_ms(query: CompiledQuery) -> int:
    """`CompiledQuery.reach_ms` with windows of events as if they had no length."""
    own = query.plan.within_ms if query.resolved.query.within_events is None else 0
    return min(FOREVER_MS, own + max(map(_reach_in_time_ms, query.producers), default=0))


def _bound(query: CompiledQuery) -> frozenset[str]:
    """Of an incident, the queries that raise alerts and whose matches it binds."""
    if query.notice is None or not query.notice.is_incident:
        return frozenset()
    return frozenset(producer.name for producer in query.producers if _raises(producer))


def _raises(query: CompiledQuery) -> bool:
    return query.notice is not None and query.notice.severity.value != "report"


def _key(query: CompiledQuery) -> tuple[str, ...]:
    """The attributes in its rows' key: those of the partition, or of trends those of the group."""
    return query.resolved.query.group_by if query.resolved.is_trend else query.resolved.key


def _numbers(query: CompiledQuery) -> frozenset[str]:
    values = zip(query.resolved.query.returns, query.resolved.return_types, strict=True)
    return frozenset(item.name for item, kind in values if kind is not AttributeType.STRING)


def _read_runbook(directory: Path, problems: list[str]) -> dict[str, str]:
    path = directory / RUNBOOK
    try:
        return runbook_sections(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{path}: cannot be read: {error}; expected a heading per query")
        return {}


def _info_problems(query: CompiledQuery, info: QueryInfo, runbook: str) -> list[str]:
    if query.is_silent:  # nobody is told of its matches
        return []
    problems = []
    if query.notice is not None and query.notice.is_incident and not info.binds:
        problems.append(
            "INCIDENT binds no alerts; expected the match of a query with ALERT in its pattern, as in "
            "PATTERN SEQ(data_pull_straggler a, data_pull_straggler b); or write ALERT"
        )
    if not info.runbook:
        problems.append(f"no runbook paragraph; expected text below a heading {info.name!r} in {runbook}")
    known = {item.name for item in query.resolved.query.returns} | set(_key(query)) | {"query"}
    known |= {QUERIES} if info.is_incident else set()
    unknown = sorted(placeholders(info.summary) - known)
    if unknown:
        expected = ", ".join(sorted(known))
        problems.append(f"the summary names {', '.join(unknown)}; expected names of RETURN or of the key: {expected}")
    return problems


def _endless(query: CompiledQuery, text: str) -> Iterator[QueryError]:
    """LIMIT and TOP count over a window, or over a run that ends: on a stream that does not they need a window."""
    written = query.resolved.query
    if written.slide_ms is not None or written.open_on is not None:
        return
    is_top = written.output is engine.ast.Output.TOP
    if not is_top and written.limit is None:
        return
    clause, shown = ("OUTPUT", f"OUTPUT TOP {written.top_k}") if is_top else ("LIMIT", f"LIMIT {written.limit}")
    told = "would never be told" if is_top else "would be all there are, for ever"
    yield UnsupportedQueryError(
        f"{shown} counts over a whole run, and that of a stream has no end: its rows {told}",
        written.clause_span(clause),
        "a window to count in",
        f"add SLIDE, as in WITHIN 10 minutes SLIDE 10 minutes, or OPEN ON, or leave {shown} out; `clustercep match` "
        "and `clustercep query` evaluate it as it is",
        text,
        query.name,
    )


def _needless_severity(name: str, info: QueryInfo, severity: Severity) -> list[str]:
    if not info.is_report:
        return []
    expected = "the name of a query that raises alerts: this one has no ALERT"
    return [str(ConfigProblem(f"queries.severities.{name}", f"{severity.value!r}", expected))]


def _unknown_names(key: str, names: Iterable[str], files: Mapping[str, Path]) -> list[str]:
    problems = []
    for name in names:
        if files and name not in files:
            expected = f"one of {', '.join(files)}"
            problems.append(str(ConfigProblem(key, f"{name!r}", expected, did_you_mean(name, files))))
    return problems


__all__ = ["Loaded", "describe", "load_queries", "query_files", "read_query", "without_incidents"]
