"""Pages of alerts: which rows, in which order, by which index.

Order is (start_ms, id), both descending: a page begins where the one before it ended (keyset), so that the thousandth
page costs what the first does. Every statement here walks one index in that order; a filter of several values becomes
one statement per value, whose rows are merged. What the index does not lead by, it carries, so that rows which do not
fit are passed over without being read.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Select,
    SQLColumnExpression,
    Text,
    and_,
    cast,
    column,
    exists,
    func,
    or_,
    select,
    tuple_,
    values,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session, selectinload
from sqlalchemy.sql.base import ExecutableOption
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from app.settings import Severity
from app.store.bulk import in_chunks
from app.store.models import AlertHostRow, AlertRow
from app.store.states import OPEN_STATES, SILENCED
from app.store.storable import storable_text
from app.store.subject import subject_text

MAX_ROWS = 10_000
MAX_SEARCHED = 50_000
"""A text, or an application, is looked for in so many of the latest alerts, and in all that are open: no index knows
where it stands."""
SEARCHED_VALUES = ("job_name", "application_name", "user", "queue", "attempt_id")
SEARCHED_LABELS = ("job", "application", "user", "queue")
Key = tuple[int, str]
"""(start_ms, id): the place of an alert in the order."""


@dataclass(frozen=True, slots=True)
class AlertFilter:
    """Which alerts; what is left out does not matter. Times: closed interval that the episode must touch."""

    states: tuple[str, ...] = ()
    """Any of these; SILENCED is one of them."""
    queries: tuple[str, ...] = ()
    severities: tuple[str, ...] = ()
    job_id: str | None = None
    """Exactly this job."""
    application_id: str | None = None
    """Exactly this application, by the alert's labels or values; looked for where `text` is."""
    host: str | None = None
    """Exactly this host, in any role."""
    from_ms: int | None = None
    to_ms: int | None = None
    merged: bool = True
    """False: without alerts that became part of another one."""
    members: bool = True
    """False: without alerts that an incident stands for: those that it is told in place of, and those that are over."""
    incidents: bool | None = None
    """True: incidents alone; False: without them."""
    text: str | None = None
    """Stands, in any case, in the title, the query's name, or what SEARCHED_VALUES and SEARCHED_LABELS name."""
    limit: int = 100
    offset: int = 0


EVERY_ALERT = AlertFilter()


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place of an alert in the order of pages."""

    start_ms: int
    id: str


@dataclass(frozen=True)
class AlertPage:
    """Some alerts in order, and where the pages beside it begin; None where there are none."""

    alerts: tuple[AlertRow, ...]
    next: Cursor | None
    previous: Cursor | None


class filtered_later(FunctionElement[bool]):  # noqa: N801  # SQL functions are lower case
    """A condition that is checked on each row, and never chooses the index."""

    inherit_cache = True
    name = "filtered_later"
    type = Boolean()


@compiles(filtered_later)
def _as_it_is(element: filtered_later, compiler: SQLCompiler, **options: Any) -> str:
    return f"({compiler.process(element.clauses, **options)})"


@compiles(filtered_later, "sqlite")
def _beside_the_index(element: filtered_later, compiler: SQLCompiler, **options: Any) -> str:
    # SQLite has no statistics unless ANALYZE ran; a unary plus takes a term away from the choice of index.
    return f"+({compiler.process(element.clauses, **options)})"


class like_in_any_case(FunctionElement[bool]):  # noqa: N801
    """Whether the first text fits the second, a pattern with / before what means itself."""

    inherit_cache = True
    name = "like_in_any_case"
    type = Boolean()


@compiles(like_in_any_case)
def _both_lowered(element: like_in_any_case, compiler: SQLCompiler, **options: Any) -> str:
    said, pattern = (compiler.process(clause, **options) for clause in element.clauses)
    return f"(lower({said}) LIKE lower({pattern}) ESCAPE '/')"


@compiles(like_in_any_case, "sqlite")
def _as_sqlite_compares(element: like_in_any_case, compiler: SQLCompiler, **options: Any) -> str:
    # Its LIKE leaves no more to case than its lower() does, and takes a third of the time.
    said, pattern = (compiler.process(clause, **options) for clause in element.clauses)
    return f"({said} LIKE {pattern} ESCAPE '/')"


@dataclass(frozen=True)
class _Branch:
    """One walk along one index: terms that lead it, and terms that are checked on the way."""

    leading: tuple[ColumnElement[bool], ...]
    checked: tuple[ColumnElement[bool], ...]
    of_host: bool = False
    """Whether it walks the hosts of alerts, which carry the place of their alert, instead of the alerts."""

    @property
    def start_ms(self) -> SQLColumnExpression[int]:
        """The first part of the place in the order."""
        return AlertHostRow.start_ms if self.of_host else AlertRow.start_ms

    @property
    def id(self) -> SQLColumnExpression[str]:
        """The second part."""
        return AlertHostRow.alert_id if self.of_host else AlertRow.id

    def places(self, terms: Sequence[ColumnElement[bool]]) -> Select[int, str]:
        """The places for which the terms hold."""
        statement = select(self.start_ms, self.id)
        if self.of_host:
            statement = statement.join(AlertRow, AlertRow.id == AlertHostRow.alert_id)
        return statement.where(*terms)


def page(session: Session, wanted: AlertFilter, after: Cursor | None, before: Cursor | None) -> AlertPage:
    """The first page, the one after a place, or the one before it."""
    n = max(1, min(wanted.limit, MAX_ROWS))
    backwards = before is not None
    keys = list(islice(_keys(session, wanted, n + 1, after=after, before=before), n + 1))
    more, keys = len(keys) > n, keys[:n]
    if backwards:
        keys.reverse()
    alerts = tuple(rows_at(session, keys))
    first, last = (_place(alerts[0]), _place(alerts[-1])) if alerts else (after or before, after or before)
    if backwards:
        return AlertPage(alerts, last, first if more else None)
    return AlertPage(alerts, last if more else None, None if after is None else first)


def listed(session: Session, wanted: AlertFilter) -> list[AlertRow]:
    """Alerts in order, without paging."""
    n = min(wanted.limit, MAX_ROWS)
    keys = _keys(session, wanted, wanted.offset + n)
    return rows_at(session, list(islice(keys, wanted.offset, wanted.offset + n)))


def count(session: Session, wanted: AlertFilter, at_most: int | None, before: Cursor | None = None) -> tuple[int, bool]:
    """(How many, whether that is all), of those before a place where one is given; counting stops beyond `at_most`."""
    n = 0
    for branch in _branches(wanted):
        statement = branch.places(_terms(session, branch, wanted, None, before))
        if at_most is not None:
            statement = statement.limit(at_most + 1 - n)
        n += session.scalar(select(func.count()).select_from(statement.subquery())) or 0
        if at_most is not None and n > at_most:
            return at_most, False
    return n, True


def counts_of_jobs(session: Session, job_ids: Sequence[str], at_most: int) -> dict[str, int]:
    """How many alerts each job has, up to `at_most`, without those that became part of another one."""
    jobs = values(column("job_id", Text), name="jobs").data([(subject_text(job_id),) for job_id in job_ids]).cte()
    of_job = select(AlertRow.id).where(AlertRow.job_id == jobs.c.job_id, filtered_later(AlertRow.merged_into.is_(None)))
    n = select(func.count()).select_from(of_job.limit(at_most).correlate(jobs).subquery()).correlate(jobs)
    rows = session.execute(select(jobs.c.job_id, n.scalar_subquery())).all()
    found = {job_id: counted for job_id, counted in rows}  # noqa: C416  # rows are no tuples to the type checker
    return {job_id: found[subject_text(job_id)] for job_id in job_ids}


def places_of(session: Session, wanted: AlertFilter) -> list[Select[int, str]]:
    """Disjoint statements that together give the places of the wanted alerts, in no order."""
    return [branch.places(_terms(session, branch, wanted, None, None)) for branch in _branches(wanted)]


def with_hosts() -> ExecutableOption:
    """Alerts are read with their hosts, in one statement more."""
    return selectinload(AlertRow.hosts)


_LENGTH = AlertRow.end_ms - AlertRow.start_ms
_LONGEST = select(_LENGTH).order_by(_LENGTH.desc()).limit(1)


def longest_ms(session: Session) -> int:
    """How long the longest alert lasted: none that touches a time began earlier than this before it."""
    return session.scalar(_LONGEST) or 0


def _keys(
    session: Session, wanted: AlertFilter, n: int, *, after: Cursor | None = None, before: Cursor | None = None
) -> Iterator[Key]:
    """The first `n` places of the wanted alerts (backwards from `before`), merged from all branches."""
    backwards = before is not None
    found: list[list[Key]] = []
    for branch in _branches(wanted):
        terms = _terms(session, branch, wanted, after, before)
        ascending = (branch.start_ms.asc(), branch.id.asc())
        order = ascending if backwards else (branch.start_ms.desc(), branch.id.desc())
        statement = branch.places(terms).order_by(*order).limit(n)
        found.append([(start_ms, alert_id) for start_ms, alert_id in session.execute(statement)])
    return heapq.merge(*found, reverse=not backwards)


def _branches(wanted: AlertFilter) -> list[_Branch]:
    """Disjoint walks that together give the wanted alerts, by the index that fits the filter best."""
    states, queries, severities = (tuple(sorted(set(v))) for v in (wanted.states, wanted.queries, wanted.severities))
    checks: dict[str, ColumnElement[bool] | None] = {
        "state": _in_states(states) if states else None,
        "query": AlertRow.query.in_(queries) if queries else None,
        "severity": AlertRow.severity.in_(severities) if severities else None,
        "host": None if wanted.host is None else _names_host(wanted.host),
    }

    def checked(*leading: str) -> tuple[ColumnElement[bool], ...]:
        return tuple(check for name, check in checks.items() if check is not None and name not in leading)

    if wanted.job_id is not None:
        return [_Branch((AlertRow.job_id == subject_text(wanted.job_id),), checked())]
    if states and {*OPEN_STATES, SILENCED}.issuperset(states):
        return [
            _Branch((AlertRow.state == state,), (*checked("state"), *(() if state in states else (_silenced(),))))
            for state in (OPEN_STATES if SILENCED in states else states)
        ]
    if wanted.host is not None:
        return [_Branch((AlertHostRow.host == subject_text(wanted.host),), checked("host"), of_host=True)]
    if queries:
        pairs = product(queries, severities or [severity.value for severity in Severity])
        return [
            _Branch((AlertRow.query == query, AlertRow.severity == severity), checked("query", "severity"))
            for query, severity in pairs
        ]
    if severities:
        return [_Branch((AlertRow.severity == severity,), checked("severity")) for severity in severities]
    return [_Branch((), checked())]


def _in_states(states: Sequence[str]) -> ColumnElement[bool]:
    named = AlertRow.state.in_(states)
    return or_(named, and_(_silenced(), AlertRow.state.in_(OPEN_STATES))) if SILENCED in states else named


def _silenced() -> ColumnElement[bool]:
    return AlertRow.silenced.is_(True)


def _told_alone() -> ColumnElement[bool]:
    """More severe than its incident, or still firing after it."""
    return AlertRow.inhibited.is_(False)


def _terms(
    session: Session, branch: _Branch, wanted: AlertFilter, after: Cursor | None, before: Cursor | None
) -> list[ColumnElement[bool]]:
    terms = [*branch.leading, *_range(session, branch, wanted, after, before)]
    checked = list(branch.checked)
    if wanted.from_ms is not None:
        checked.append(AlertRow.end_ms >= wanted.from_ms)
    if not wanted.merged:
        checked.append(AlertRow.merged_into.is_(None))
    if not wanted.members:
        checked.append(or_(AlertRow.incident_id.is_(None), and_(AlertRow.state.in_(OPEN_STATES), _told_alone())))
    if wanted.incidents is not None:
        checked.append(AlertRow.is_incident.is_(wanted.incidents))
    if wanted.application_id is not None:
        checked.append(_is_about(wanted.application_id))
    if wanted.text:
        checked.append(_says(wanted.text))
    return [*terms, *(filtered_later(term) for term in checked)]


def _says(text: str) -> ColumnElement[bool]:
    pattern = _pattern(text)
    named = [AlertRow.values[name].as_string() for name in SEARCHED_VALUES]
    named += [AlertRow.labels[name].as_string() for name in SEARCHED_LABELS]
    among = _anywhere(text, pattern, or_(*(like_in_any_case(said, pattern) for said in named)))
    return or_(*(like_in_any_case(said, pattern) for said in (AlertRow.summary, AlertRow.query)), among)


def _is_about(application_id: str) -> ColumnElement[bool]:
    told = storable_text(application_id)
    named = (AlertRow.values["application_id"].as_string(), AlertRow.labels["application"].as_string())
    return _anywhere(told, _pattern(told), or_(*(name == told for name in named)))


def _anywhere(text: str, pattern: str, among: ColumnElement[bool]) -> ColumnElement[bool]:
    """The same as `among`, which holds only where values or labels have the text."""
    if not (text.isascii() and text.isprintable()) or set(text) & {'"', "\\"}:
        return among
    # JSON has such a text as it is: most rows are refused before theirs is taken apart.
    whole = (cast(column, Text) for column in (AlertRow.values, AlertRow.labels))
    return and_(or_(*(like_in_any_case(said, pattern) for said in whole)), among)


def _pattern(text: str) -> str:
    return "%" + "".join(f"/{one}" if one in "/%_" else one for one in text) + "%"


def _searched_since_ms(session: Session, wanted: AlertFilter) -> int | None:
    """None: all that the filter lets through are searched."""
    is_searched = bool(wanted.text) or wanted.application_id is not None
    if not is_searched or (wanted.states and {*OPEN_STATES, SILENCED}.issuperset(wanted.states)):
        return None
    latest = select(AlertRow.start_ms).order_by(AlertRow.start_ms.desc(), AlertRow.id.desc())
    return session.scalar(latest.offset(MAX_SEARCHED).limit(1))


def _names_host(host: str) -> ColumnElement[bool]:
    # By the alert, which has a few hosts: of a host there may be most alerts, which would be looked at for each.
    is_named = filtered_later(AlertHostRow.host == subject_text(host))
    return exists().where(AlertHostRow.alert_id == AlertRow.id, is_named)


def _range(
    session: Session, branch: _Branch, wanted: AlertFilter, after: Cursor | None, before: Cursor | None
) -> list[ColumnElement[bool]]:
    """At most one bound on either side, the tighter of place and time: an index is entered by one of each only."""
    place = tuple_(branch.start_ms, branch.id)
    terms: list[ColumnElement[bool]] = []
    bounds = [] if wanted.from_ms is None else [wanted.from_ms - longest_ms(session)]
    searched_since_ms = _searched_since_ms(session, wanted)
    earliest_ms = max([*bounds, *([] if searched_since_ms is None else [searched_since_ms])], default=None)
    if before is not None and (earliest_ms is None or before.start_ms >= earliest_ms):
        terms.append(place > tuple_(before.start_ms, before.id))
    elif earliest_ms is not None:
        terms.append(branch.start_ms >= earliest_ms)
    if after is not None and (wanted.to_ms is None or after.start_ms <= wanted.to_ms):
        terms.append(place < tuple_(after.start_ms, after.id))
    elif wanted.to_ms is not None:
        terms.append(branch.start_ms <= wanted.to_ms)
    return terms


def rows_at(session: Session, keys: Sequence[Key]) -> list[AlertRow]:
    """The alerts at these places, in their order; those that are gone are left out."""
    ids = [alert_id for _, alert_id in keys]
    rows: dict[str, AlertRow] = {}
    for chunk in in_chunks(ids):
        of_chunk = select(AlertRow).where(AlertRow.id.in_(chunk)).options(with_hosts())
        rows |= {row.id: row for row in session.scalars(of_chunk)}
    return [rows[alert_id] for alert_id in ids if alert_id in rows]


def _place(alert: AlertRow) -> Cursor:
    return Cursor(alert.start_ms, alert.id)
