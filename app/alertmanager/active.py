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
from app.alerting.dispatch.matchers import Matcher, all_match, those_matched
from app.alerting.silencing import labels_of_row
from app.alertmanager.fingerprints import label_fingerprint
from app.json_text import json_text
from app.store.api import Store

_FEW = 4
"""Where more than one of so many changes, what was looked for among all alerts is looked for anew."""
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


_By = Callable[[Mapping[str, str]], str | None]
"""Labels -> the fingerprint of an alert that inhibits those with them, None: there is none."""


@dataclass(frozen=True)
class ActiveAlerts:
    """All that are not over at one time."""

    alerts: Mapping[str, ActiveAlert] = field(default_factory=dict)
    """By their labels as text."""
    incidents: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By the id of an alert, the fingerprints in order of the incidents that are told in its place."""
    _by_rule: dict[InhibitRule, _By] = field(default_factory=dict)
    _by_label: dict[str, Mapping[str, list[ActiveAlert]]] = field(default_factory=dict)
    """By the name of a label that alerts have, and by its value, those with it."""

    def changed(self, came: Sequence[ActiveAlert], went: Sequence[ActiveAlert]) -> ActiveAlerts:
        """With those that came and without those that went, which are among them; what others hold stays as it is."""
        alerts = dict(self.alerts)
        for alert in went:
            del alerts[alert.identity]
        alerts |= {alert.identity: alert for alert in came}
        both = [*came, *went]
        if len(both) > len(alerts) // _FEW:
            return ActiveAlerts(alerts, self.incidents)
        by_rule = {
            rule: by
            for rule, by in self._by_rule.copy().items()
            if not any(all_match(rule.source, alert.labels) for alert in both)
        }
        by_label = {name: _changed(name, by, came, went) for name, by in self._by_label.copy().items()}
        return ActiveAlerts(alerts, self.incidents, by_rule, by_label)

    def matching(self, matchers: Sequence[Matcher]) -> list[ActiveAlert]:
        """Those whose labels fulfil all matchers, in no order."""
        if not matchers:
            return list(self.alerts.values())
        first, *others = sorted(matchers, key=lambda matcher: (matcher.operator != "=", "~" in matcher.operator))
        found = self._with_label(first)
        for matcher in others:
            found = _fulfilling(matcher, found)
        return found

    def _with_label(self, matcher: Matcher) -> list[ActiveAlert]:
        """Those whose label fulfils it; a label's values are looked for among all alerts once."""
        by_value = self._by_label.get(matcher.name)
        if by_value is None:
            by_value = _by_value(matcher.name, self.alerts.values())
            if by_value.keys() - {""}:  # others name as many labels as they like
                self._by_label[matcher.name] = by_value
        values = _matched(matcher, by_value)
        return list(chain.from_iterable(map(by_value.__getitem__, values)))

    def inhibited_by(self, rules: Sequence[InhibitRule]) -> _By:
        """See _By; of those that could, the first of the first rule. What is known of other rules is forgotten."""
        for former in self._by_rule.keys() - set(rules):
            self._by_rule.pop(former, None)
        of_rules = [self._by(rule) for rule in rules]

        def by(labels: Mapping[str, str]) -> str | None:
            return next((found for of_rule in of_rules if (found := of_rule(labels)) is not None), None)

        return by

    def _by(self, rule: InhibitRule) -> _By:
        known = self._by_rule.get(rule)
        if known is None:
            sources = sorted(self.matching(rule.source), key=lambda alert: (alert.start_ms, alert.id))
            by_id = {alert.id: alert for alert in sources}
            inhibitions = Inhibitions([rule], [(alert.id, alert.labels) for alert in sources])

            def by(labels: Mapping[str, str]) -> str | None:
                source = inhibitions.by(labels)
                return None if source is None else by_id[source].fingerprint

            known = self._by_rule[rule] = by
        return known


def _id_and_start(text: str) -> tuple[str, int]:
    alert_id, _, start_ms = text.partition(" ")
    return alert_id, int(start_ms)


def _by_value(name: str, alerts: Iterable[ActiveAlert]) -> dict[str, list[ActiveAlert]]:
    found: dict[str, list[ActiveAlert]] = {}
    for alert in alerts:
        found.setdefault(alert.labels.get(name, ""), []).append(alert)
    return found


def _changed(
    name: str,
    by_value: Mapping[str, list[ActiveAlert]],
    came: Sequence[ActiveAlert],
    went: Sequence[ActiveAlert],
) -> Mapping[str, list[ActiveAlert]]:
    """The same without those that went and with those that came; lists are read meanwhile, so they are made anew."""
    found = dict(by_value)
    for value, gone in _by_value(name, went).items():
        ids = {alert.id for alert in gone}
        if left := [alert for alert in found[value] if alert.id not in ids]:
            found[value] = left
        else:
            del found[value]
    for value, new in _by_value(name, came).items():
        found[value] = [*found.get(value, ()), *new]
    return found


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
        self._listed: frozenset[str] = frozenset()
        self._known: dict[str, ActiveAlert] = {}
        self._alike: dict[str, dict[str, ActiveAlert]] = {}
        """By their labels as text, then by id."""
        self._texts: dict[str, str] = {}
        """Labels share their texts: hosts, users and queries are few."""
        self._mark: int | None = None
        self._now = ActiveAlerts()

    def now(self) -> ActiveAlerts:
        """As the store has them now; raises StoreError. Of those with the same labels, which are one to Alertmanager,
        the latest."""
        with self._lock:
            mark = self._store.change_mark()
            if mark is not None and mark == self._mark:
                return self._now
            self._take(self._store.active_alerts())
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

    def _take(self, listed: frozenset[str]) -> None:
        """What has changed since."""
        starts = dict(map(_id_and_start, listed - self._listed))
        over = {alert_id for alert_id, _ in map(_id_and_start, self._listed - listed)} - starts.keys()
        if not starts and not over:
            return
        if len(self._texts) > _MAX_TEXTS_PER_ALERT * len(listed):
            self._texts = {}
        new = self._store.labelled([alert_id for alert_id in starts if alert_id not in self._known])
        touched: set[str] = set()
        for alert_id in over:
            if (gone := self._known.pop(alert_id, None)) is not None:  # it was deleted before its labels were read
                del self._alike[gone.identity][alert_id]
                touched.add(gone.identity)
        moved = [replace(self._known[of], start_ms=start_ms) for of, start_ms in starts.items() if of in self._known]
        for found in new:
            labels = labels_of_row(found.labels, found.key, found.query, found.severity)
            names = tuple(sorted(found.key))
            moved.append(ActiveAlert(found.id, starts[found.id], found.query, names, self._shared(labels)))
        for alert in moved:
            self._known[alert.id] = alert
            self._alike.setdefault(alert.identity, {})[alert.id] = alert
            touched.add(alert.identity)
        self._listed = listed
        self._tell(touched)

    def _tell(self, touched: Iterable[str]) -> None:
        """What the alerts with these labels have become."""
        came, went = [], []
        for identity in touched:
            before = self._now.alerts.get(identity)
            alike = self._alike[identity].values()
            latest = max(alike, key=lambda alert: (alert.start_ms, alert.id), default=None)
            if latest is not before:
                came += [] if latest is None else [latest]
                went += [] if before is None else [before]
            if not alike:
                del self._alike[identity]
        if came or went:
            self._now = self._now.changed(came, went)

    def _shared(self, labels: Mapping[str, str]) -> dict[str, str]:
        texts = self._texts
        return {
            texts.setdefault(name, name): texts.setdefault(value, value)
            for name, value in sorted(labels.items())
            if value
        }


__all__ = ["Active", "ActiveAlert", "ActiveAlerts"]
