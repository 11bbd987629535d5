"""GET /alerts and /alerts/groups: what fires, who is told of it, and what hides it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from app.alerting.dispatch.matchers import Matcher, all_match
from app.alerting.dispatch.routes import Routing
from app.alerting.silencing import matchers_of_row, stands
from app.alerting.text import iso
from app.alertmanager.active import Active, ActiveAlert, ActiveAlerts
from app.alertmanager.answers import encoded
from app.alertmanager.parameters import Wanted
from app.alertmanager.silences import silence_uuid
from app.alertmanager.texts import AlertTexts
from app.settings import Settings
from app.store.api import Store
from app.store.models import SilenceRow
from collectors.time_units import MINUTE_MS

RESOLVE_TIMEOUT_MS = 5 * MINUTE_MS
"""What fires is over so much later unless it is told again: as Alertmanager says of alerts without an end."""
CHUNK = 500
"""Alerts that are read whole at once."""
PART_BYTES = 2**16
NOBODY = "none"
"""The receiver where there are none: every alert of the API has one."""


Mutes = tuple[str, ...]
"""The names of the intervals that mute a route."""
NOT_MUTED: Mutes = ()


class Place(NamedTuple):
    """A group; in the order of answers."""

    labels: tuple[tuple[str, str], ...]
    receiver: str
    group: str
    """What tells it apart from others with these."""


@dataclass(frozen=True)
class OfGroup:
    """What the route of a group says."""

    muted_by: Mutes = NOT_MUTED
    """The intervals that mute it now."""
    route_labels: Mapping[str, str] = field(default_factory=dict)


class Silenced:
    """Which silences cover labels; those of the same host or query alone are asked."""

    def __init__(self, silences: Iterable[SilenceRow], now_ms: int) -> None:
        self._by_pair: dict[tuple[str, str] | None, list[tuple[str, Sequence[Matcher]]]] = {}
        for row in silences:
            if stands(row, now_ms) == "active":
                matchers = matchers_of_row(row)
                pairs = [(m.name, m.value) for m in matchers if m.operator == "=" and m.value]
                self._by_pair.setdefault(min(pairs, default=None), []).append((silence_uuid(row.id), matchers))

    def by(self, labels: Mapping[str, str]) -> list[str]:
        """The ids of all that do."""
        if not self._by_pair:
            return []
        asked = list(self._by_pair.get(None, ()))
        for pair in labels.items():
            asked += self._by_pair.get(pair, ())
        return sorted(silence_id for silence_id, matchers in asked if all_match(matchers, labels))


class Standing(NamedTuple):
    """What hides an alert."""

    silenced_by: list[str]
    inhibited_by: list[str]
    """The alert that does so by a rule, then the incidents that are told in its place."""


STANDS = Standing([], [])
"""Nothing hides it."""


class AlertAnswers:
    """Answers over the alerts of one store, as the settings of the moment tell them."""

    def __init__(
        self, store: Store, active: Active, texts: AlertTexts, settings: Settings, routing: Routing | None, now_ms: int
    ) -> None:
        """`routing`: of the settings."""
        self._active: ActiveAlerts = active.now()
        self._texts = texts
        self._routing = routing
        self._receivers = receiver_names(settings)
        self._settings = settings
        self._now_ms = now_ms
        self._silenced = Silenced(store.silences(now_ms), now_ms)
        rules = () if self._routing is None else self._routing.rules
        self._inhibited_by = self._active.inhibited_by(rules)
        self._as_json: dict[tuple[str, ...], bytes] = {}

    def alerts(self, wanted: Wanted) -> Iterator[bytes]:
        """The JSON list, in parts."""
        found = [alert for alert in self._active.matching(wanted.matchers) if self._is_told(alert, wanted)]
        found.sort(key=lambda alert: alert.fingerprint)
        return _gathered(self._alert_list(found, wanted))

    def groups(self, wanted: Wanted) -> Iterator[bytes]:
        """The JSON list of groups, in parts: alerts that are told together."""
        by_group: dict[Place, list[ActiveAlert]] = {}
        told_of: dict[str, OfGroup] = {}
        for alert in self._active.matching(wanted.matchers):
            for place, of_group in self._places(alert):
                if not wanted.has_receiver(place.receiver):
                    continue
                if of_group.muted_by and not wanted.muted:
                    continue
                by_group.setdefault(place, []).append(alert)
                told_of[place.group] = of_group
        groups = []
        for place in sorted(by_group):
            alerts = sorted(by_group[place], key=lambda alert: alert.fingerprint)
            if members := [alert for alert in alerts if self._is_wanted(self._standing(alert), wanted)]:
                groups.append((place, members))
        return _gathered(self._group_list(groups, told_of))

    # ----------------------------------------------------------------- who is told

    def _is_told(self, alert: ActiveAlert, wanted: Wanted) -> bool:
        """Whether a wanted receiver is."""
        return wanted.any_receiver or any(map(wanted.has_receiver, self._told(alert)))

    def _told(self, alert: ActiveAlert) -> Sequence[str]:
        if self._routing is None:
            return self._receivers
        return list(dict.fromkeys(route.receiver for route in self._routing.matched(alert.labels)))

    def _places(self, alert: ActiveAlert) -> Iterator[tuple[Place, OfGroup]]:
        """The groups of an alert, and what their routes say.

        Without a route each alert is told by itself: a group by its query and key.
        """
        if self._routing is None:
            names = ("alertname", *alert.key)
            labels = tuple(sorted((name, alert.labels[name]) for name in set(names) if name in alert.labels))
            for name in self._receivers:
                yield Place(labels, name, ""), OfGroup()
            return
        for target in self._routing.targets(alert.labels):
            route = target.route
            mutes = tuple(interval.name for interval in route.mute if interval.holds(self._now_ms))
            if not mutes and route.muted(self._now_ms) is not None:
                mutes = tuple(interval.name for interval in route.active)
            yield Place(tuple(sorted(target.labels.items())), route.receiver, target.id), OfGroup(mutes, route.labels)

    # ------------------------------------------------------------------ what hides

    def _standing(self, alert: ActiveAlert) -> Standing:
        incidents = self._active.incidents.get(alert.id, ())
        source = self._inhibited_by(alert.labels)
        silenced_by = self._silenced.by(alert.labels)
        if not (incidents or source or silenced_by):
            return STANDS
        first = [] if source is None or source in incidents else [source]
        return Standing(silenced_by, [*first, *incidents])

    @staticmethod
    def _is_wanted(standing: Standing, wanted: Wanted) -> bool:
        if not wanted.active and not standing.silenced_by and not standing.inhibited_by:
            return False
        return (wanted.silenced or not standing.silenced_by) and (wanted.inhibited or not standing.inhibited_by)

    # ----------------------------------------------------------------------- whole

    def _alert_list(self, alerts: Iterable[ActiveAlert], wanted: Wanted) -> Iterator[bytes]:
        standing = ((alert, self._standing(alert), NOT_MUTED) for alert in alerts)
        separator = b"["
        for text in self._rendered(one for one in standing if self._is_wanted(one[1], wanted)):
            if text is not None:
                yield separator + text
                separator = b","
        yield b"[]\n" if separator == b"[" else b"]\n"

    def _group_list(
        self, groups: Sequence[tuple[Place, list[ActiveAlert]]], told_of: Mapping[str, OfGroup]
    ) -> Iterator[bytes]:
        rendered = self._rendered(
            (alert, self._standing(alert), told_of[place.group].muted_by)
            for place, alerts in groups
            for alert in alerts
        )
        yield b"["
        for n, (place, alerts) in enumerate(groups):
            yield b',{"alerts":[' if n else b'{"alerts":['
            separator = b""
            for text in islice(rendered, len(alerts)):
                if text is not None:
                    yield separator + text
                    separator = b","
            labels, route_labels = dict(place.labels), dict(told_of[place.group].route_labels)
            rest = encoded({"labels": labels, "receiver": {"name": place.receiver}, "routeLabels": route_labels})
            yield b"]," + rest[1:]
        yield b"]\n"

    def _rendered(self, found: Iterable[tuple[ActiveAlert, Standing, Mutes]]) -> Iterator[bytes | None]:
        """The JSON of each in order, read some at a time; None of one that is over, and was deleted, by now."""
        ends_at = encoded(iso(self._now_ms + RESOLVE_TIMEOUT_MS))
        pending = iter(found)
        while chunk := list(islice(pending, CHUNK)):
            texts = self._texts.of([alert for alert, _, _ in chunk], self._settings, self._told_as_json)
            for (_, standing, mutes), text in zip(chunk, texts, strict=True):
                yield None if text is None else text.with_all(ends_at, _status(standing, mutes))

    def _told_as_json(self, alert: ActiveAlert) -> bytes:
        """Alerts share their receivers."""
        told = tuple(self._told(alert))
        known = self._as_json.get(told)
        if known is None:
            known = self._as_json[told] = encoded([{"name": name} for name in told])
        return known


def _status(standing: Standing, muted_by: Mutes) -> bytes:
    if not (standing.silenced_by or standing.inhibited_by or muted_by):
        return _ACTIVE
    return encoded(
        {
            "inhibitedBy": standing.inhibited_by,
            "mutedBy": list(muted_by),
            "silencedBy": standing.silenced_by,
            "state": "suppressed",
        }
    )


_ACTIVE = encoded({"inhibitedBy": [], "mutedBy": [], "silencedBy": [], "state": "active"})


def receiver_names(settings: Settings) -> list[str]:
    """Those that are enabled."""
    return [name for name, of in settings.alerting.receivers.items() if of.enabled] or [NOBODY]


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same in larger parts."""
    parts, size = [], 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size >= PART_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


__all__ = ["NOBODY", "AlertAnswers", "receiver_names"]
