"""Alerts that were at one time, counted without some of them: many incidents ask for all but their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

MAX_OTHERS = 1_000
"""Alerts beside an incident that are counted."""
MAX_NAMED = 5
"""Hosts or jobs that a sentence names."""


class Beside(NamedTuple):
    """Of an alert what it is counted by."""

    id: str
    query: str
    host: str | None
    job_id: str | None


class Names(NamedTuple):
    """Different names: the first MAX_NAMED of them, and how many there are."""

    first: Sequence[str]
    n: int

    @classmethod
    def of(cls, named: Iterable[str | None]) -> Names:
        """Each once, in their order; None is no name."""
        distinct = list(dict.fromkeys(name for name in named if name))
        return cls(distinct[:MAX_NAMED], len(distinct))


class Others(NamedTuple):
    """Of the alerts beside an incident."""

    n: int
    kinds: Counter[str]
    """How many of each query."""
    hosts: Names
    jobs: Names


class AtOnce:
    """Alerts in their order."""

    def __init__(self, alerts: Sequence[Beside]) -> None:
        self._alerts = alerts
        self._places = {alert.id: place for place, alert in enumerate(alerts)}
        self._counted: dict[int, tuple[Counter[str], Counter[str], Counter[str]]] = {}

    def without(self, known: Collection[str]) -> Others:
        """Of the first MAX_OTHERS whose ids are not `known`."""
        places = sorted(place for alert_id in known if (place := self._places.get(alert_id)) is not None)
        end, left_out = MAX_OTHERS, set()
        for place in places:
            if place >= end:
                break
            left_out.add(place)
            end += 1
        end = min(end, len(self._alerts))
        kinds, hosts, jobs = self._of_first(end)
        own = [self._alerts[place] for place in left_out]
        return Others(
            end - len(own),
            kinds - Counter(alert.query for alert in own),
            self._names(hosts, own, islice(self._alerts, end), left_out, _host),
            self._names(jobs, own, islice(self._alerts, end), left_out, _job),
        )

    def _of_first(self, end: int) -> tuple[Counter[str], Counter[str], Counter[str]]:
        """How many of them are of each query, host and job."""
        if (counted := self._counted.get(end)) is None:
            first = self._alerts[:end]
            counted = self._counted[end] = (
                Counter(alert.query for alert in first),
                Counter(filter(None, map(_host, first))),
                Counter(filter(None, map(_job, first))),
            )
        return counted

    @staticmethod
    def _names(
        counts: Counter[str],
        own: Sequence[Beside],
        alerts: Iterable[Beside],
        left_out: Collection[int],
        of: Callable[[Beside], str | None],
    ) -> Names:
        """Of `alerts` without those at the places that are left out, which are `own`; stops at what is named."""
        n = len(counts) - sum(counts[name] == n_own for name, n_own in Counter(filter(None, map(of, own))).items())
        first: dict[str, None] = {}
        for place, alert in enumerate(alerts):
            if len(first) == min(n, MAX_NAMED):
                break
            if place not in left_out and (name := of(alert)):
                first[name] = None
        return Names(list(first), n)


def _host(alert: Beside) -> str | None:
    return alert.host


def _job(alert: Beside) -> str | None:
    return alert.job_id


__all__ = ["MAX_NAMED", "MAX_OTHERS", "AtOnce", "Beside", "Names", "Others"]
