"""What is told of an alert: the snapshot kept in the outbox, and who receives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from app.alerting.lifecycle import State
from app.settings import Receiver, Severity


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An alert at one revision: all that a message can say of it."""

    alert_id: str
    query: str
    key: dict[str, Any]
    severity: str
    state: str
    revision: int
    start_ms: int
    end_ms: int
    values: dict[str, Any]
    summary: str
    runbook: str
    n_matches: int
    n_matches_exact: bool
    best_confidence: float
    at_least_one_lower: float = 0.0
    at_least_one_upper: float = 1.0
    at_least_one_method: str = "bounds"
    at_least_one_estimate: float | None = None
    at_least_one_error: float | None = None
    """P(at least one match), see AlertRow; the defaults are for messages that were written before it was known."""
    onset_ms: int | None = None
    raised_ms: int | None = None
    last_seen_ms: int | None = None
    labels: dict[str, str] | None = None
    """None, as all below: in messages of versions that knew no labels; the key was their identity."""
    hosts: list[list[Any]] = field(default_factory=list)
    """[host, role, name of a value, value], in order."""
    n_hosts_left_out: int = 0
    spread: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of each number that the matches do not agree on: its first, last, max and min."""
    shed: bool = False
    """Whether partial matches were dropped that may have become further matches of it."""
    expectation: str | None = None
    """Of an alert about trends over uncertain times: what its numbers are."""
    incident: dict[str, Any] | None = None
    """Of an incident: the alerts behind it and what speaks for and against it, see app.alerting.case."""
    thread: str | None = None
    """Under this key it goes on what was told of an alert that has become part of it; None: under its own."""

    def as_json(self) -> dict[str, Any]:
        """For the outbox; to be changed by nobody, since it shares what the snapshot holds."""
        return dict(zip(_FIELDS, _values(self), strict=True))

    @classmethod
    def from_json(cls, payload: Mapping[str, Any]) -> Snapshot:
        """From the outbox."""
        return cls(**payload)


_FIELDS = tuple(part.name for part in fields(Snapshot))
_values = attrgetter(*_FIELDS)


@dataclass(frozen=True, slots=True)
class Audience:
    """What the stages look at."""

    snapshot: Snapshot
    receiver: Receiver
    told_before: bool
    """Of a firing alert: whether the receiver was told so since it began to fire. Of a resolved one: whether the last
    that it was told of the alert, or of one with the same labels, is that it fires."""
    silenced: bool
    now_ms: int
    max_age_ms: int
    inhibited: bool = False
    """An incident that it is part of is told in its place."""
    same_fires: bool = False
    """Another alert with the same labels goes on: of a resolved one, any; of a firing one, a later one of which the
    receiver was told."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a receiver is told, and why (not)."""

    send: bool
    reason: str


Stage = Callable[[Audience], str | None]
"""A reason not to send, or None."""


def _enabled(audience: Audience) -> str | None:
    return None if audience.receiver.enabled else "the receiver is disabled"


def _not_silenced(audience: Audience) -> str | None:
    return "it is silenced" if audience.silenced else None


def _not_inhibited(audience: Audience) -> str | None:
    return "it is part of an incident, which is told in its place" if audience.inhibited else None


def _wanted_state(audience: Audience) -> str | None:
    state = audience.snapshot.state
    if state not in (State.FIRING, State.RESOLVED):
        return f"{state} is not announced"
    if state == State.RESOLVED and not audience.receiver.send_resolved:
        return "the receiver does not want resolved alerts"
    return None


def _severe_enough(audience: Audience) -> str | None:
    if Severity(audience.snapshot.severity).rank < audience.receiver.min_severity.rank:
        return f"{audience.snapshot.severity} is below {audience.receiver.min_severity}"
    return None


def _not_of_the_same(audience: Audience) -> str | None:
    """To whoever goes by labels, alerts with the same labels are one: it fires until the last of them is over."""
    if not audience.same_fires:
        return None
    if audience.snapshot.state == State.RESOLVED:
        return "another alert with the same labels still fires"
    return "the receiver was told that a later alert with the same labels fires"


def _news(audience: Audience) -> str | None:
    if audience.snapshot.state == State.RESOLVED and not audience.told_before:
        return "the receiver was never told that it fires"
    if audience.snapshot.state == State.FIRING and audience.told_before:
        return "the receiver was told before the silence"
    return None


def _recent(audience: Audience) -> str | None:
    if audience.snapshot.state == State.FIRING and audience.snapshot.end_ms < audience.now_ms - audience.max_age_ms:
        return "it is too old to be news"
    return None


STAGES: tuple[Stage, ...] = (
    _enabled, _not_silenced, _not_inhibited, _wanted_state, _severe_enough, _not_of_the_same, _news, _recent,
)  # fmt: skip


def decide(audience: Audience) -> Decision:
    """Pass the stages in order; the first reason against it decides."""
    for stage in STAGES:
        reason = stage(audience)
        if reason is not None:
            return Decision(False, reason)
    return Decision(True, "wanted")
