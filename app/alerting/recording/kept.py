"""What an alert keeps of its matches, and what it shows of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from app.alerting.catalog import QueryInfo
from app.alerting.hosts import Hosts, NamedHost, hosts_of
from app.alerting.recording.certainty import weaker
from app.alerting.recording.episodes import Episode
from app.alerting.recording.extremes import Extremes, Seen, all_aspects, number, shown_match, shown_values, spread
from app.alerting.text import fill, names_in
from app.store.subject import job_of

if TYPE_CHECKING:
    from app.store.models import AlertRow


SHED, EXPECTATION, QUERIES = "shed", "expectation", "queries"
"""In what an alert keeps of its matches; the last also in the text of an incident."""


@dataclass
class Kept:
    """Of all matches so far."""

    extremes: Extremes
    hosts: Hosts
    evidence: str | None = None
    """The digest of the match whose events are the evidence; None: there is none yet."""
    shed: bool = False
    """Whether partial matches were dropped that may have become further ones."""
    expectation: str | None = None
    """See `weaker`."""
    queries: frozenset[str] = frozenset()
    """Of an incident: those whose matches it binds."""

    @classmethod
    def of_new(cls, episode: Episode) -> Self:
        """Of a new alert."""
        return cls(
            episode.extremes,
            episode.hosts,
            shed=episode.shed,
            expectation=episode.expectation,
            queries=episode.queries,
        )

    @classmethod
    def of(cls, alert: AlertRow) -> Self:
        """Of one that is in the store."""
        if not alert.seen:
            seen = Seen(alert.end_ms, alert.start_ms, alert.values, "")
            numbers = [name for name, value in alert.values.items() if number(value) is not None]
            return cls(Extremes.of(seen, numbers), Hosts.of(seen, alert.key, ()), "")
        return cls(
            Extremes.from_json(alert.seen),
            Hosts.from_json(alert.seen),
            alert.seen["evidence"],
            is_shed(alert),
            expectation_of(alert),
            frozenset(alert.seen.get(QUERIES, ())),
        )

    def add(self, more: Episode | Kept) -> None:
        """Further matches."""
        self.extremes.add(more.extremes)
        self.hosts.add(more.hosts)
        self.shed = self.shed or more.shed
        self.expectation = weaker(self.expectation, more.expectation)
        self.queries |= more.queries

    def shown_of(self, key: Mapping[str, Any], info: QueryInfo) -> tuple[dict[str, Any], list[NamedHost]]:
        """Columns of the alert with this key that show it (values, title, job and hosts), and the hosts in order."""
        values = shown_values(self.extremes, info.shown)
        named: dict[str, Any] = {**key, **values}
        if any("." in name for name in names_in(info.summary)):
            named |= all_aspects(self.extremes)
        if info.is_incident:
            named[QUERIES] = ", ".join(sorted(self.queries)) or None
        hosts = self.hosts.in_order(hosts_of(key, self.shown(info).values, info.hosts))
        told = [[named.host, named.role, named.value_name, named.value] for named in hosts]
        kept: dict[str, Any] = {**self.extremes.to_json(), **self.hosts.to_json()}
        columns = {
            "values": values,
            "summary": fill(info.summary, {**named, "query": info.name}),
            "job_id": job_of(key, values),
            "host": hosts[0].host if hosts else None,
            "n_hosts_left_out": self.hosts.n_left_out,
            "seen": {
                **kept,
                "evidence": self.evidence,
                "told_hosts": told,
                **({SHED: True} if self.shed else {}),
                **({EXPECTATION: self.expectation} if self.expectation else {}),
                **({QUERIES: sorted(self.queries)} if self.queries else {}),
            },
        }
        return columns, hosts

    def shown(self, info: QueryInfo) -> Seen:
        """The match that the title shows, whose events are the evidence."""
        return shown_match(self.extremes, info.shown)


def is_shed(alert: AlertRow) -> bool:
    """Whether an alert was found while partial matches were dropped that may have become further matches of it."""
    return bool(alert.seen and alert.seen.get(SHED))  # a row that was not stored yet has none


def expectation_of(alert: AlertRow) -> str | None:
    """What the numbers of an alert about trends are, see `weaker`."""
    known: str | None = (alert.seen or {}).get(EXPECTATION)
    return known


def spread_of(alert: AlertRow) -> dict[str, dict[str, Any]]:
    """Of each number that the matches of an alert do not agree on: its first, last, greatest and least value."""
    is_one_match = len(alert.seen.get("matches", ())) <= 1
    return {} if is_one_match else spread(Extremes.from_json(alert.seen))


__all__ = ["Kept", "expectation_of", "is_shed", "spread_of"]
