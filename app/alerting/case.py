"""What an incident rests on: the alerts behind it, and what speaks for and against its suspect, in numbers.

A function of what the store holds, made when somebody is told or looks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from app.alerting.at_once import MAX_NAMED, MAX_OTHERS, AtOnce, Beside, Names, Others
from app.alerting.text import at_least_one_text, cut, plain
from app.store.alert_pages import filtered_later, longest_ms
from app.store.bulk import in_chunks
from app.store.models import AlertRow, IncidentMemberRow

MAX_MEMBERS = 50
"""Alerts that a message names; further ones are counted."""
_MAX_SUMMARY_CHARS = 300


class Told(NamedTuple):
    """Of an alert what is said of it: an incident may have thousands, and rows are large."""

    id: str
    query: str
    severity: str
    state: str
    host: str | None
    job_id: str | None
    start_ms: int
    end_ms: int
    summary: str


_MEMBERS = (
    select(IncidentMemberRow.incident_id, *(getattr(AlertRow, name) for name in Told._fields))
    .join(AlertRow, AlertRow.id == IncidentMemberRow.alert_id)
    .where(IncidentMemberRow.incident_id.in_(bindparam("ids", expanding=True)), AlertRow.merged_into.is_(None))
    .order_by(AlertRow.start_ms, AlertRow.id)
)


def case_of(session: Session, incident: AlertRow) -> dict[str, Any]:
    """Members (`id`, `query`, `severity`, `state`, `host`, `summary`; the earliest first), `n_members`, `for` and
    `against` (sentences)."""
    return Cases(session, [incident]).of(incident)


class Cases:
    """Of several incidents, as one transaction sees them: what they have in common is read once."""

    def __init__(self, session: Session, incidents: Iterable[AlertRow]) -> None:
        self._session = session
        self._members: dict[str, list[Told]] = {incident.id: [] for incident in incidents}
        for chunk in in_chunks(sorted(self._members)):
            for incident_id, *alert in session.execute(_MEMBERS, {"ids": chunk}):
                self._members[incident_id].append(Told(*alert))
        self._beside: dict[tuple[tuple[str, ...], int, int], AtOnce] = {}
        self._most = MAX_OTHERS + 1 + max(map(len, self._members.values()), default=0)

    def of(self, incident: AlertRow) -> dict[str, Any]:
        """See case_of."""
        members = self._members[incident.id]
        return {
            "members": [_member(alert) for alert in members[:MAX_MEMBERS]],
            "n_members": len(members),
            "for": _speaks_for(incident, members),
            "against": _speaks_against(incident, members, self._others(incident, members)),
        }

    def _others(self, incident: AlertRow, members: Sequence[Told]) -> Others:
        """Alerts of the same queries at the same time that are not part of it, the first MAX_OTHERS."""
        if not members:
            return AtOnce([]).without(())
        first_ms = min(incident.start_ms, *(alert.start_ms for alert in members))
        last_ms = max(incident.end_ms, *(alert.end_ms for alert in members))
        asked = tuple(sorted({alert.query for alert in members})), first_ms, last_ms
        if (found := self._beside.get(asked)) is None:
            found = self._beside[asked] = self._at_once(*asked)
        return found.without({alert.id for alert in members} | {incident.id})

    def _at_once(self, queries: Sequence[str], first_ms: int, last_ms: int) -> AtOnce:
        """Alerts of queries that touch a closed interval, the earliest first."""
        statement = select(AlertRow.id, AlertRow.query, AlertRow.host, AlertRow.job_id).where(
            filtered_later(AlertRow.query.in_(queries)),  # by time: a query has many
            AlertRow.start_ms >= first_ms - longest_ms(self._session),
            AlertRow.start_ms <= last_ms,
            AlertRow.end_ms >= first_ms,
            AlertRow.merged_into.is_(None),
        )
        rows = self._session.execute(statement.order_by(AlertRow.start_ms, AlertRow.id).limit(self._most))
        return AtOnce([Beside(*row) for row in rows])


def _member(alert: Told) -> dict[str, Any]:
    return {
        "id": alert.id,
        "query": alert.query,
        "severity": alert.severity,
        "state": alert.state,
        "host": alert.host,
        "summary": cut(alert.summary, _MAX_SUMMARY_CHARS),
    }


def _speaks_for(incident: AlertRow, members: Sequence[Told]) -> list[str]:
    if not members:
        return []
    told = [f"{_n(len(members), 'alert')}: {_kinds(Counter(alert.query for alert in members))}"]
    if incident.host and (n_naming := sum(incident.host == alert.host for alert in members)):
        told.append(f"{plain(incident.host)} is the first suspect of {n_naming} of {len(members)}")
    if (jobs := Names.of(alert.job_id for alert in members)).n > 1:
        told.append(f"in {jobs.n} jobs: {_named(jobs)}")
    return told


def _speaks_against(incident: AlertRow, members: Sequence[Told], others: Others) -> list[str]:
    told = []
    if incident.host and (elsewhere := [a for a in members if a.host and a.host != incident.host]):
        suspect = "suspects" if len(elsewhere) == 1 else "suspect"
        hosts = _named(Names.of(alert.host for alert in elsewhere))
        told.append(f"{_n(len(elsewhere), 'alert')} of it {suspect} another host first: {hosts}")
    if others.n:
        names = others.hosts if others.hosts.n else others.jobs
        about = f" ({_named(names)})" if names.n else ""
        more = "at least " if others.n >= MAX_OTHERS else ""
        told.append(
            f"at the same time {more}{_n(others.n, 'alert')} that it does not explain: {_kinds(others.kinds)}{about}"
        )
    if incident.at_least_one_method != "certain":
        told.append(f"the times of its events are uncertain: at least one match {at_least_one_text(incident)}")
    return told


def _kinds(counted: Counter[str]) -> str:
    return ", ".join(f"{n:,} {query}" for query, n in sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])))


def _named(names: Names) -> str:
    more = f" and {names.n - len(names.first):,} more" if names.n > len(names.first) else ""
    return ", ".join(map(plain, names.first)) + more


def _n(n: int, word: str) -> str:
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"


def case_annotations(case: Mapping[str, Any]) -> dict[str, str]:
    """As annotations of a message."""
    members = case["members"]
    n_more = case["n_members"] - len(members)
    named = [f"{plain(m['query'])} {m['id'][:8]}: {plain(m['summary'])}" for m in members[:MAX_NAMED]]
    n_unnamed = case["n_members"] - len(named)
    told = {
        "incident_alerts": "; ".join(named) + (f"; and {n_unnamed:,} more" if n_unnamed else ""),
        "incident_alert_ids": ", ".join(m["id"] for m in members) + (f", and {n_more:,} more" if n_more else ""),
        "incident_for": "; ".join(case["for"]),
        "incident_against": "; ".join(case["against"]) or "nothing known",
    }
    return {name: text for name, text in told.items() if text}


__all__ = ["MAX_MEMBERS", "case_annotations", "case_of"]
