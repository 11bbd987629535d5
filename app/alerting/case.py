"""What an incident rests on: the alerts behind it, and what speaks for and against its suspect, in numbers.

A function of what the store holds, made when somebody is told or looks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from app.alerting.text import at_least_one_text, cut, plain
from app.store.alert_pages import filtered_later, longest_ms
from app.store.models import AlertRow, IncidentMemberRow

MAX_MEMBERS = 50
"""Alerts that a message names; further ones are counted."""
MAX_NAMED = 5
"""Hosts or jobs that a sentence names."""
MAX_OTHERS = 1_000
"""Alerts beside it that are counted."""
_MAX_SUMMARY_CHARS = 300


_COLUMNS = (
    AlertRow.id,
    AlertRow.query,
    AlertRow.severity,
    AlertRow.state,
    AlertRow.host,
    AlertRow.job_id,
    AlertRow.start_ms,
    AlertRow.end_ms,
    AlertRow.summary,
)
"""Of alerts what is said of them: an incident may have thousands, and rows are large."""

Told = Row[str, str, str, str, str | None, str | None, int, int, str]
"""These columns of an alert."""


def case_of(session: Session, incident: AlertRow) -> dict[str, Any]:
    """Members (`id`, `query`, `severity`, `state`, `host`, `summary`; the earliest first), `n_members`, `for` and
    `against` (sentences)."""
    of = select(*_COLUMNS).join(IncidentMemberRow, IncidentMemberRow.alert_id == AlertRow.id)
    of = of.where(IncidentMemberRow.incident_id == incident.id, AlertRow.merged_into.is_(None))
    members = session.execute(of.order_by(AlertRow.start_ms, AlertRow.id)).all()
    others = _others(session, incident, members)
    return {
        "members": [_member(alert) for alert in members[:MAX_MEMBERS]],
        "n_members": len(members),
        "for": _speaks_for(incident, members),
        "against": _speaks_against(incident, members, others),
    }


def _member(alert: Told) -> dict[str, Any]:
    return {
        "id": alert.id,
        "query": alert.query,
        "severity": alert.severity,
        "state": alert.state,
        "host": alert.host,
        "summary": cut(alert.summary, _MAX_SUMMARY_CHARS),
    }


def _others(session: Session, incident: AlertRow, members: Sequence[Told]) -> list[Told]:
    """Alerts of the same queries at the same time that are not part of it."""
    if not members:
        return []
    first_ms = min(incident.start_ms, *(alert.start_ms for alert in members))
    last_ms = max(incident.end_ms, *(alert.end_ms for alert in members))
    statement = select(*_COLUMNS).where(
        filtered_later(AlertRow.query.in_(sorted({alert.query for alert in members}))),  # by time: a query has many
        AlertRow.start_ms >= first_ms - longest_ms(session),
        AlertRow.start_ms <= last_ms,
        AlertRow.end_ms >= first_ms,
        AlertRow.merged_into.is_(None),
    )
    known = {alert.id for alert in members} | {incident.id}
    found = session.execute(statement.order_by(AlertRow.start_ms, AlertRow.id).limit(MAX_OTHERS + len(known)))
    return [alert for alert in found if alert.id not in known]


def _speaks_for(incident: AlertRow, members: Sequence[Told]) -> list[str]:
    if not members:
        return []
    told = [f"{_n(len(members), 'alert')}: {_kinds(members)}"]
    if incident.host and (n_naming := sum(incident.host == alert.host for alert in members)):
        told.append(f"{plain(incident.host)} is the first suspect of {n_naming} of {len(members)}")
    if len(jobs := _distinct(members, lambda alert: alert.job_id)) > 1:
        told.append(f"in {len(jobs)} jobs: {_named(jobs)}")
    return told


def _speaks_against(incident: AlertRow, members: Sequence[Told], others: Sequence[Told]) -> list[str]:
    told = []
    if incident.host and (elsewhere := [a for a in members if a.host and a.host != incident.host]):
        hosts = _distinct(elsewhere, lambda alert: alert.host)
        told.append(f"{_n(len(elsewhere), 'alert')} of it suspects another host first: {_named(hosts)}")
    if others:
        hosts = _distinct(others, lambda alert: alert.host)
        jobs = [] if hosts else _distinct(others, lambda alert: alert.job_id)
        about = f" ({_named(hosts or jobs)})" if hosts or jobs else ""
        more = "at least " if len(others) >= MAX_OTHERS else ""
        told.append(
            f"at the same time {more}{_n(len(others), 'alert')} that it does not explain: {_kinds(others)}{about}"
        )
    if incident.at_least_one_method != "certain":
        told.append(f"the times of its events are uncertain: at least one match {at_least_one_text(incident)}")
    return told


def _kinds(alerts: Iterable[Told]) -> str:
    counted = Counter(alert.query for alert in alerts)
    return ", ".join(f"{n:,} {query}" for query, n in sorted(counted.items(), key=lambda pair: (-pair[1], pair[0])))


def _distinct(alerts: Iterable[Told], of: Callable[[Told], str | None]) -> list[str]:
    return list(dict.fromkeys(value for alert in alerts if (value := of(alert))))


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED:,} more" if len(names) > MAX_NAMED else ""
    return ", ".join(map(plain, names[:MAX_NAMED])) + more


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
