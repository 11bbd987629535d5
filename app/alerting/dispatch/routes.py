"""The routing tree: which receivers are told of an alert, and with which other alerts together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from app.alerting.dispatch.inhibition import InhibitRule
from app.alerting.dispatch.matchers import Matcher, Matchers, all_match, matchers_text
from app.alerting.dispatch.settings import ALL_LABELS, InhibitRuleSettings, RouteSettings, TimeIntervalSettings
from app.alerting.recording.episodes import digest
from app.settings import Alerting, Receiver
from collectors.time_units import HOUR_MS, MINUTE_MS, SECOND_MS

_MAX_REMEMBERED = 10_000


@dataclass(frozen=True)
class Timing:
    """When a group is told."""

    group_wait_ms: int = 30 * SECOND_MS
    group_interval_ms: int = 5 * MINUTE_MS
    repeat_interval_ms: int = 4 * HOUR_MS


@dataclass(frozen=True)
class Route:
    """A node of the tree, with what it has from those above."""

    key: str
    """As in Alertmanager: the matchers of the nodes from the root to it."""
    identity: str
    """Told apart from other nodes with the same key; it does not depend on the order of nodes that differ."""
    receiver: str
    matchers: Matchers
    goes_on: bool
    """`continue`: nodes behind it are asked, too."""
    group_by: tuple[str, ...]
    timing: Timing
    mute: tuple[TimeIntervalSettings, ...] = ()
    active: tuple[TimeIntervalSettings, ...] = ()
    escalation: Escalation | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """For messages: what those of the nodes above say, unless its own say otherwise."""
    routes: tuple[Route, ...] = ()

    def matched(self, labels: Mapping[str, str]) -> list[Route]:
        """The nodes that tell of an alert: the deepest ones that match, or this one where none of its own does."""
        if not all_match(self.matchers, labels):
            return []
        found: list[Route] = []
        for route in self.routes:
            of_route = route.matched(labels)
            found += of_route
            if of_route and not route.goes_on:
                break
        return found or [self]

    def muted(self, time_ms: int) -> str | None:
        """Why it tells nobody at a time; None: it does."""
        for interval in self.mute:
            if interval.holds(time_ms):
                return f"muted: {interval.name}"
        if self.active and not any(interval.holds(time_ms) for interval in self.active):
            return f"not active: outside of {', '.join(interval.name for interval in self.active)}"
        return None

    def treats_alike(self, other: Route) -> bool:
        """Whether both tell at the same times, and help to the same people as soon."""
        return (self.mute, self.active, self._helps) == (other.mute, other.active, other._helps)

    @property
    def _helps(self) -> tuple[str, int] | None:
        return None if self.escalation is None else (self.escalation.route.receiver, self.escalation.after_ms)

    def group_labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        """The labels by which alerts are together."""
        if self.group_by == (ALL_LABELS,):
            return dict(sorted(labels.items()))
        return {name: labels[name] for name in sorted(self.group_by) if name in labels}

    def all(self) -> Iterator[Route]:
        """It and all nodes below, with those that tell what is escalated."""
        yield self
        if self.escalation is not None:
            yield self.escalation.route
        for route in self.routes:
            yield from route.all()


@dataclass(frozen=True)
class Escalation:
    """Whom a node tells besides of what nobody acknowledges."""

    after_ms: int
    """Since its receiver was told that the alert fires."""
    route: Route
    """Leads to the second receiver; nothing matches it."""


@dataclass(frozen=True)
class Target:
    """A group of a route that an alert belongs to."""

    id: str
    key: str
    """As Alertmanager's `groupKey`."""
    route: Route
    labels: Mapping[str, str]


class Routing:
    """The tree with all that belongs to it."""

    def __init__(self, root: Route, receivers: Mapping[str, Receiver], rules: Sequence[InhibitRule] = ()) -> None:
        self.root = root
        self.receivers = receivers
        self.rules = tuple(rules)
        self._by_identity = {route.identity: route for route in root.all()}
        self._matched: dict[tuple[tuple[str, str], ...], list[Route]] = {}

    @classmethod
    def of(cls, settings: Alerting) -> Routing | None:
        """The routing of the settings; None: there is no `route`."""
        if settings.route is None:
            return None
        intervals = {interval.name: interval for interval in settings.all_time_intervals}
        assert settings.route.receiver is not None, "settings demand one"
        top = Route("{}", "", settings.route.receiver, (), False, settings.route.group_by or (), Timing())
        root = _route(settings.route, top, intervals, {}, is_root=True)
        return cls(root, settings.receivers, [_rule(rule) for rule in settings.inhibit_rules])

    def route(self, identity: str) -> Route | None:
        """A node; None: it is not in the tree any more."""
        return self._by_identity.get(identity)

    @cached_property
    def digest(self) -> str:
        """Of all that decides which groups an alert belongs to."""
        parts = [
            f"{route.identity} {' '.join(route.group_by)} {self.receivers[route.receiver].enabled} {route.goes_on}"
            for route in self.root.all()
        ]
        return digest("routing", *parts)

    @cached_property
    def longest_wait_ms(self) -> int:
        """No timer of a group is further ahead."""
        timings = [route.timing for route in self.root.all()]
        return max(max(timing.group_wait_ms, timing.group_interval_ms) for timing in timings)

    def matched(self, labels: Mapping[str, str]) -> list[Route]:
        """The nodes that tell of an alert with these labels; alerts of one query and host share theirs."""
        known = tuple(sorted(labels.items()))
        found = self._matched.get(known)
        if found is None:
            if len(self._matched) >= _MAX_REMEMBERED:
                self._matched.clear()
            found = self._matched[known] = self.root.matched(labels)
        return found

    def targets(self, labels: Mapping[str, str]) -> list[Target]:
        """The groups that an alert with these labels belongs to."""
        return [target_of(route, labels) for route in self.matched(labels)]


def target_of(route: Route, labels: Mapping[str, str]) -> Target:
    """The group of a route that an alert with these labels belongs to."""
    of_group = route.group_labels(labels)
    parts = [text for pair in of_group.items() for text in pair]
    shown = ", ".join(str(Matcher(name, "=", value)) for name, value in of_group.items())
    return Target(digest("group", route.identity, *parts), f"{route.key}:{{{shown}}}", route, of_group)


def _route(
    settings: RouteSettings,
    above: Route,
    intervals: Mapping[str, TimeIntervalSettings],
    n_of_kind: dict[str, int],
    *,
    is_root: bool = False,
) -> Route:
    given = {
        name: value
        for name in ("group_wait_ms", "group_interval_ms", "repeat_interval_ms")
        if (value := getattr(settings, name)) is not None
    }
    key = "{}" if is_root else f"{above.key}/{matchers_text(settings.matchers)}"
    receiver = settings.receiver or above.receiver
    kind = f"{key} -> {receiver}"
    number = n_of_kind[kind] = n_of_kind.get(kind, 0) + 1
    route = Route(
        key=key,
        identity=kind if number == 1 else f"{kind} ({number})",
        receiver=receiver,
        matchers=settings.matchers,
        goes_on=settings.continue_,
        group_by=above.group_by if settings.group_by is None else settings.group_by,
        timing=replace(above.timing, **given),
        mute=tuple(intervals[name] for name in settings.mute_time_intervals),
        active=tuple(intervals[name] for name in settings.active_time_intervals),
        labels={**above.labels, **settings.labels},
    )
    route = replace(route, escalation=_escalation(settings, route, above.escalation))
    below = tuple(_route(child, route, intervals, n_of_kind) for child in settings.routes)
    return replace(route, routes=below)


def _escalation(settings: RouteSettings, route: Route, above: Escalation | None) -> Escalation | None:
    """Of a node; what it does not say it has from the one above."""
    receiver = settings.escalate_to or (None if above is None else above.route.receiver)
    after_ms = settings.escalate_after_ms or (None if above is None else above.after_ms)
    if receiver is None or after_ms is None:
        return None
    second = Route(
        key=f"{route.key}/escalated",
        identity=f"{route.identity} escalated -> {receiver}",
        receiver=receiver,
        matchers=(),
        goes_on=False,
        group_by=route.group_by,
        timing=replace(route.timing, group_wait_ms=0),
        labels=route.labels,
    )
    return Escalation(after_ms, second)


def _rule(settings: InhibitRuleSettings) -> InhibitRule:
    return InhibitRule(settings.source_matchers, settings.target_matchers, settings.equal)


__all__ = ["Route", "Routing", "Target", "Timing", "target_of"]
