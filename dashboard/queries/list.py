"""The query files as the dashboard shows them: those that run, those that are switched off, those that cannot run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import streamlit as st

import engine
from app.alerting.catalog import QueryInfo
from app.queries.loading import load_queries, query_files, read_query
from app.settings import ParameterValue, Settings
from dashboard.queries.check import OtherQueries
from dashboard.store import settings
from engine.errors import QueryError
from engine.events import FOREVER_MS

Parameter = int | float | str


class QueryState(StrEnum):
    """Whether a query runs."""

    ACTIVE = "active"
    DISABLED = "disabled"
    BROKEN = "broken"


@dataclass(frozen=True)
class KnownQuery:
    """One query file. `compiled` and `info` are None for a broken one, `problem` then says why."""

    name: str
    path: Path
    text: str
    state: QueryState
    compiled: engine.CompiledQuery | None
    info: QueryInfo | None
    problem: str | None
    defaults: Mapping[str, Parameter]
    configured: Mapping[str, ParameterValue]
    """As queries.parameters has them, with units."""

    @property
    def strategy(self) -> str:
        """Its strategy, or an em dash."""
        strategy = None if self.compiled is None else self.compiled.resolved.query.strategy
        return "—" if strategy is None else strategy.value

    @property
    def severity(self) -> str:
        """info, warning or critical; report; an em dash for a broken one."""
        if self.info is None:
            return "—"
        return "report" if self.info.severity is None else self.info.severity.value

    @property
    def within_ms(self) -> int | None:
        """The window; None without one."""
        within_ms = None if self.compiled is None else self.compiled.within_ms
        return within_ms if within_ms is not None and within_ms < FOREVER_MS else None

    @property
    def in_use(self) -> Mapping[str, Parameter]:
        """The values of all parameters."""
        return {} if self.compiled is None else self.compiled.resolved.parameters

    def has_changed_since(self, query_hash: str) -> bool:
        """Whether its text or a parameter means another thing than when an alert was raised that has this hash."""
        return self.info is not None and self.info.hash != query_hash


@dataclass(frozen=True)
class KnownQueries:
    """All query files of the folder. `problems`: what is wrong and belongs to none of them, or stops none."""

    queries: tuple[KnownQuery, ...]
    problems: tuple[str, ...]

    def named(self, name: str) -> KnownQuery | None:
        """The query of this name."""
        return next((query for query in self.queries if query.name == name), None)

    def others(self) -> OtherQueries:
        """What a query written here may use the matches of: those that are not switched off."""
        queries = [query for query in self.queries if query.state is not QueryState.DISABLED]
        return OtherQueries(
            {query.name: query.text for query in queries}, {query.name: dict(query.in_use) for query in queries}
        )


def loaded_queries() -> KnownQueries:
    """`known_queries` of the settings; read again when a file or a parameter has changed."""
    now = settings()
    return _loaded(files_stamp(now), now)


@st.cache_resource(show_spinner=False, max_entries=4)  # the server reads them when it starts
def _loaded(stamp: str, _settings: Settings) -> KnownQueries:
    del stamp
    return known_queries(_settings)


def is_about_trends(name: str) -> bool:
    """Whether a query of this name is there and aggregates trends; without compiling anything."""
    now = settings()
    return name in _about_trends(files_stamp(now), now)


@st.cache_resource(show_spinner=False, max_entries=4)
def _about_trends(stamp: str, _settings: Settings) -> frozenset[str]:
    del stamp
    return frozenset(
        name for name, path in query_files(_settings.queries.directory, []).items() if _is_trend(_text(path), name)
    )


def _is_trend(text: str, name: str) -> bool:
    try:
        return engine.parse(text, name).is_trend
    except QueryError:
        return False


def known_queries(settings: Settings) -> KnownQueries:
    """Read and compile every file, those that are switched off too; nothing raises for what stands in them."""
    problems: list[str] = []
    files = query_files(settings.queries.directory, problems)
    everything = settings.queries.model_copy(update={"disabled": ()})
    loaded = load_queries(everything, settings.alerting.group_gap_ms)
    compiled = {query.name: query for query in loaded.compiled}
    of_files = {f"{path}: ": name for name, path in files.items()}
    found: dict[str, str] = {}
    for problem in loaded.problems:
        name = next((name for prefix, name in of_files.items() if problem.startswith(prefix)), None)
        if name is None or name in compiled:
            problems.append(problem)
        else:
            found[name] = problem
    problems += _unknown(settings, files)
    queries = []
    for name, path in files.items():
        text = _text(path)
        query = compiled.get(name)
        disabled = name in settings.queries.disabled
        state = QueryState.DISABLED if disabled else QueryState.BROKEN if query is None else QueryState.ACTIVE
        queries.append(
            KnownQuery(
                name=name,
                path=path,
                text=text,
                state=state,
                compiled=query,
                info=loaded.infos.get(name),
                problem=found.get(name),
                defaults=default_values(text, name),
                configured=settings.queries.parameters.get(name, {}),
            )
        )
    return KnownQueries(tuple(queries), tuple(dict.fromkeys(problems)))


def default_values(text: str, name: str = "query") -> dict[str, Parameter]:
    """PARAMETERS of a query as written; none for a text that is no query."""
    try:
        return {default.name: default.value for default in engine.parse(text, name).parameters}
    except QueryError:
        return {}


def files_stamp(settings: Settings) -> str:
    """Differs when a query file, the runbook or a parameter has changed."""
    folder = settings.queries.directory
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix in (".cep", ".md"))
        stamps = [(path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in files]
    except OSError as error:
        stamps = [(str(error), 0, 0)]
    return f"{folder} {stamps} {settings.queries.model_dump_json()} {settings.alerting.group_gap_ms}"


def _text(path: Path) -> str:
    try:
        return read_query(path)
    except (OSError, ValueError):
        return ""  # the problem says why


def _unknown(settings: Settings, files: Mapping[str, Path]) -> list[str]:
    return [
        f"queries.disabled: found {name!r}; expected one of {', '.join(files)}"
        for name in settings.queries.disabled
        if files and name not in files
    ]


__all__ = [
    "KnownQueries",
    "KnownQuery",
    "QueryState",
    "default_values",
    "files_stamp",
    "is_about_trends",
    "known_queries",
    "loaded_queries",
]
