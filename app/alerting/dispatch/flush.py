"""What a group has to tell when it is looked at: nothing here reads or writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.alerting.dispatch.notice import MAX_ALERTS, Reason
from app.alerting.lifecycle import State
from app.settings import Severity


class Member(Protocol):
    """An alert of a group, as it is now."""

    @property
    def alert_id(self) -> str:
        """Of the alert."""
        ...

    @property
    def fingerprint(self) -> str:
        """Of its labels: to receivers, alerts with the same ones are one."""
        ...

    @property
    def told(self) -> bool:
        """Whether the receiver is, or will be, told that it fires."""
        ...

    @property
    def hidden(self) -> bool:
        """Whether it was silenced, inhibited or muted when the group was looked at."""
        ...

    @property
    def state(self) -> str:
        """firing, acknowledged or resolved."""
        ...

    @property
    def silenced(self) -> bool:
        """Whether a silence covers it."""
        ...

    @property
    def inhibited(self) -> bool:
        """Whether the receiver is told of an incident in its place."""
        ...

    @property
    def severity(self) -> str:
        """Of the alert."""
        ...

    @property
    def start_ms(self) -> int:
        """Of its episode."""
        ...

    @property
    def end_ms(self) -> int:
        """Of its episode, so far."""
        ...

    @property
    def revision(self) -> int:
        """Grows with each change of state."""
        ...

    @property
    def labels(self) -> Mapping[str, str]:
        """What identifies it."""
        ...


@dataclass(frozen=True)
class Now:
    """What holds when a group is looked at."""

    time_ms: int
    told_ms: int | None
    """When the group told something last; None: never."""
    repeat_interval_ms: int
    max_age_ms: int
    """What ended longer ago is no news."""
    send_resolved: bool
    min_severity: Severity
    is_muted: bool
    """By the time intervals of the route: nobody is told anything."""
    inhibited_by: Callable[[Mapping[str, str]], str | None]


@dataclass
class Flush:
    """What comes of it."""

    reason: Reason | None = None
    """None: nothing is told."""
    firing: list[Member] = field(default_factory=list)
    """All that fire, when something is told; also what is over by now and of which the receiver was not told yet: each
    alert is told to fire once."""
    resolved: list[Member] = field(default_factory=list)
    """Those that are over, of which the receiver believes that they fire."""
    news: list[Member] = field(default_factory=list)
    """Those of `firing` of which the receiver was not told before."""
    later: list[Member] = field(default_factory=list)
    """What is over as well, of which a later message tells: one tells at most MAX_ALERTS news."""
    told: list[str] = field(default_factory=list)
    """Alerts that are known to the receiver as firing from now on."""
    hidden: list[str] = field(default_factory=list)
    """Alerts that are silenced, inhibited or muted, and were not before."""
    gone: list[str] = field(default_factory=list)
    """Alerts that belong to the group no more."""


_RESOLVED = State.RESOLVED.value
_RANKS = {severity.value: severity.rank for severity in Severity}
"""Asked of every member at every look."""


def place(member: Member) -> tuple[Any, ...]:
    """The most urgent first, then the latest."""
    return -_RANKS[member.severity], -member.start_ms, member.alert_id


def flush(members: Sequence[Member], now: Now) -> Flush:
    """Look at a group: what is new since its last message, or has to be said again."""
    result, n_told = Flush(), 0
    by_labels: dict[str, list[Member]] = {}
    for member in members:
        by_labels.setdefault(member.fingerprint, []).append(member)
    for same in by_labels.values():
        n_told += _look_at(same, now, result)
    _decide(result, now, n_told, by_labels)
    return result


def _look_at(same: Sequence[Member], now: Now, result: Flush) -> bool:
    """Members with the same labels, which are one to the receiver: it fires until the last of them is over.

    Returns whether the receiver was told that they fire.
    """
    was_told = same[0].told if len(same) == 1 else any(member.told for member in same)
    going_on = [member for member in same if member.state != _RESOLVED]
    if going_on:
        if len(going_on) < len(same):
            result.gone += [member.alert_id for member in same if member.state == _RESOLVED]
        if was_told:
            result.told += [member.alert_id for member in going_on if not member.told]
        told_of = [
            member
            for member in going_on
            if not member.silenced and not member.inhibited and now.inhibited_by(member.labels) is None
        ]
        if now.is_muted or len(told_of) < len(going_on):
            shown = set() if now.is_muted else {member.alert_id for member in told_of}
            result.hidden += [m.alert_id for m in going_on if not m.hidden and m.alert_id not in shown]
        if not told_of:
            return was_told
        latest = _latest(told_of)
        if was_told:
            result.firing.append(latest)
        elif latest.state == State.FIRING and _is_news(latest, now):
            result.news.append(latest)
        return was_told
    latest = _latest(same)
    if was_told:
        if now.send_resolved:
            if not any(member.silenced for member in same):  # else it is told when the silence is over
                result.resolved.append(latest)
        else:
            result.gone += [member.alert_id for member in same]
        return was_told
    is_hidden = now.is_muted or latest.hidden or latest.silenced or latest.inhibited
    is_hidden = is_hidden or now.inhibited_by(latest.labels) is not None
    if is_hidden or not _is_news(latest, now):
        result.gone += [member.alert_id for member in same]
    else:
        result.news.append(latest)
    return was_told


def _latest(members: Sequence[Member]) -> Member:
    return members[0] if len(members) == 1 else max(members, key=lambda member: (member.start_ms, member.alert_id))


def _is_news(member: Member, now: Now) -> bool:
    is_recent = member.end_ms >= now.time_ms - now.max_age_ms
    return is_recent and _RANKS[member.severity] >= now.min_severity.rank


def _decide(result: Flush, now: Now, n_told: int, by_labels: Mapping[str, Sequence[Member]]) -> None:
    """Whether something is told, and what becomes of the members then; `n_told`: sets of labels that were told before
    to fire."""
    if not now.is_muted:
        result.reason = _reason(result, now, n_told)
    if result.reason is None:
        result.firing, result.resolved, result.news = [], [], []
        return
    result.firing += result.news
    if len(result.news) + len(result.resolved) > MAX_ALERTS:
        result.news = sorted(result.news, key=place)[:MAX_ALERTS]
        n_left, resolved = MAX_ALERTS - len(result.news), sorted(result.resolved, key=place)
        result.resolved, result.later = resolved[:n_left], resolved[n_left:]
    result.told += [member.alert_id for member in result.news]
    for over in result.resolved:
        result.gone += [member.alert_id for member in by_labels[over.fingerprint]]


def _reason(result: Flush, now: Now, n_told: int) -> Reason | None:
    if result.news:
        return Reason.NEW if n_told else Reason.FIRST
    if result.resolved:
        return Reason.SOME_RESOLVED if n_told > len(result.resolved) else Reason.ALL_RESOLVED
    if now.told_ms is None or now.time_ms - now.told_ms < now.repeat_interval_ms:
        return None
    # Who acknowledged an alert need not hear of it again.
    return Reason.REPEAT if any(member.state == State.FIRING for member in result.firing) else None


__all__ = ["Flush", "Now", "Reason", "flush", "place"]
