"""The alerts that are not over, with the labels by which they are asked for.

Which there are is read when the store has changed; labels never change, so that they are read once. A filter looks at
labels alone, and only what it lets through is read whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from app.alerting.dispatch.inhibition import Inhibitions, InhibitRule
from app.alerting.dispatch.matchers import Matcher, those_matched
from app.alerting.silencing import labels_of_row
from app.alertmanager.fingerprints import label_fingerprint
from app.json_text import json_text
from app.store.api import Store

_MAX_TEXTS_PER_ALERT = 50
"""Beyond it most are of alerts that are over."""


@dataclass(eq=False)
class ActiveAlert:
    """One that is not over."""

    id: str
    start_ms: int
    query: str
    key: tuple[str, ...]
    """The names of the labels that its query tells alerts apart by."""
    labels: Mapping[str, str]
    """Without empty ones, which are none in Alertmanager."""

    @cached_property
    def identity(self) -> str:
        """The labels as one text."""
        return json_text(self.labels)

    @cached_property
    def fingerprint(self) -> str:
        """As Alertmanager's."""
        return label_fingerprint(self.labels)


@dataclass(frozen=True)
class ActiveAlerts:
    """All that are not over at one time."""

    alerts: Sequence[ActiveAlert]
    incidents: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By the id of an alert, the fingerprints in order of the incidents that are told in its place."""
    _memory: dict[tuple[InhibitRule, ...], Callable[[Mapping[str, str]], str | None]] = field(default_factory=dict)

    _positions: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    """By the name of a label that alerts have, and by its value, the positions of those with it, in order."""

    def matching(self, matchers: Sequence[Matcher]) -> list[ActiveAlert]:
        """Those whose labels fulfil all matchers, in order."""
        if not matchers:
            return list(self.alerts)
        first, *others = sorted(matchers, key=lambda matcher: (matcher.operator != "=", "~" in matcher.operator))
        found = self._with_label(first)
        for matcher in others:
            found = _fulfilling(matcher, found)
        return found

    def _with_label(self, matcher: Matcher) -> list[ActiveAlert]:
        """Those whose label fulfils it; a label's values are looked for among all alerts once."""
        by_value = self._positions.get(matcher.name)
        if by_value is None:
            by_value = {}
            for position, alert in enumerate(self.alerts):
                by_value.setdefault(alert.labels.get(matcher.name, ""), []).append(position)
            if by_value.keys() - {""}:  # others name as many labels as they like
                self._positions[matcher.name] = by_value
        values = _matched(matcher, by_value)
        return [self.alerts[position] for position in sorted(chain.from_iterable(map(by_value.__getitem__, values)))]

    def inhibited_by(self, rules: Sequence[InhibitRule]) -> Callable[[Mapping[str, str]], str | None]:
        """Labels -> the fingerprint of an alert that inhibits those with them, None: there is none."""
        known = self._memory.get(tuple(rules))
        if known is None:
            known = self._memory[tuple(rules)] = self._inhibitions(rules)
        return known

    def _inhibitions(self, rules: Sequence[InhibitRule]) -> Callable[[Mapping[str, str]], str | None]:
        of_rules = []
        for rule in rules:
            sources = self.matching(rule.source)
            by_id = {alert.id: alert for alert in sources}
            inhibitions = Inhibitions([rule], [(alert.id, alert.labels) for alert in sources])
            if sources:
                of_rules.append((inhibitions, by_id))

        def by(labels: Mapping[str, str]) -> str | None:
            for inhibitions, by_id in of_rules:
                if (source := inhibitions.by(labels)) is not None:
                    return by_id[source].fingerprint
            return None

        return by


def _fulfilling(matcher: Matcher, alerts: Sequence[ActiveAlert]) -> list[ActiveAlert]:
    values = _matched(matcher, {alert.labels.get(matcher.name, "") for alert in alerts})
    return [alert for alert in alerts if alert.labels.get(matcher.name, "") in values]


def _matched(matcher: Matcher, values: Collection[str]) -> Collection[str]:
    """Those of the values that fulfil it; an expression is asked once for each."""
    wanted = matcher.value
    match matcher.operator:
        case "=":
            return {wanted} if wanted in values else ()
        case "!=":
            return {value for value in values if value != wanted}
    matched = those_matched(wanted, set(values))
    return matched if matcher.operator == "=~" else {value for value in values if value not in matched}


class Active:
    """Of one store; safe for several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[str, ActiveAlert] = {}
        self._texts: dict[str, str] = {}
        """Labels share their texts: hosts, users and queries are few."""
        self._listed: list[tuple[str, int]] = []
        self._mark: int | None = None
        self._now = ActiveAlerts(())

    def now(self) -> ActiveAlerts:
        """As the store has them now; raises StoreError. Of those with the same labels, which are one to Alertmanager,
        the latest."""
        with self._lock:
            mark = self._store.change_mark()
            if mark is not None and mark == self._mark:
                return self._now
            listed = self._store.active_alerts()
            if listed != self._listed:
                self._now = ActiveAlerts(tuple(self._taken_in(dict(listed))))
                self._listed = listed
            incidents = self._incidents()
            if incidents != self._now.incidents:
                self._now = replace(self._now, incidents=incidents)
            self._mark = mark
            return self._now

    def _incidents(self) -> dict[str, list[str]]:
        return {
            alert_id: sorted(self._known[of].fingerprint for of in told_by if of in self._known)
            for alert_id, told_by in self._store.told_by_incidents().items()
        }

    def _taken_in(self, starts: Mapping[str, int]) -> Iterable[ActiveAlert]:
        if len(self._texts) > _MAX_TEXTS_PER_ALERT * len(starts):
            self._texts = {}
        known = {alert_id: of for alert_id, of in self._known.items() if alert_id in starts}
        for found in self._store.labelled([alert_id for alert_id in starts if alert_id not in known]):
            labels = labels_of_row(found.labels, found.key, found.query, found.severity)
            names = tuple(sorted(found.key))
            known[found.id] = ActiveAlert(found.id, starts[found.id], found.query, names, self._shared(labels))
        by_labels: dict[str, ActiveAlert] = {}
        for alert_id, alert in known.items():
            if alert.start_ms != starts[alert_id]:
                known[alert_id] = replace(alert, start_ms=starts[alert_id])  # others read the one of before
        for alert in known.values():
            other = by_labels.get(alert.identity)
            if other is None or (other.start_ms, other.id) < (alert.start_ms, alert.id):
                by_labels[alert.identity] = alert
        self._known = known
        return by_labels.values()

    def _shared(self, labels: Mapping[str, str]) -> dict[str, str]:
        texts = self._texts
        return {
            texts.setdefault(name, name): texts.setdefault(value, value)
            for name, value in sorted(labels.items())
            if value
        }


__all__ = ["Active", "ActiveAlert", "ActiveAlerts"]
