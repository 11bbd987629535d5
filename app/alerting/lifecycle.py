"""States of alerts and what changes them; decisions carry their reason. Nothing here writes.

Silenced is no state: it holds beside one, as in Alertmanager. While it holds nobody is told anything; afterwards the
alert is what it has become meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from app.alerting.recording.episodes import digest
from app.durations import format_duration
from app.store.states import SILENCED

if TYPE_CHECKING:
    from app.store.models import AlertRow


class State(StrEnum):
    """Where an alert stands."""

    FIRING = "firing"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


SYSTEM = "clustercep"
"""The actor of changes that no person made."""


@dataclass(frozen=True, slots=True)
class Change:
    """A transition to be recorded."""

    to_state: State
    reason: str
    actor: str = SYSTEM
    silenced: bool | None = None
    """Whether a silence covers the alert from now on; None: as before."""
    until_ms: int | None = None
    """When an acknowledgement ends by itself; None: it does not."""
    inhibited: bool | None = None
    """Whether an incident that it is part of is told in its place from now on; None: as before."""


class TransitionError(ValueError):
    """A change that the alert's state does not allow."""


def on_new(silenced: str | None, *, claimed: bool = False) -> Change:
    """The first match of an episode; `silenced` is the reason of a silence that covers it, `claimed`: an incident of
    the same step binds it."""
    if silenced is not None:
        return Change(State.FIRING, f"first match; silenced: {silenced}", silenced=True, inhibited=claimed)
    return Change(State.FIRING, "first match", silenced=False, inhibited=claimed)


def on_late_match(state: State, *, goes_on: bool, silenced: str | None, covered: bool = False) -> Change | None:
    """A match joins an episode that is over: it fires again when it now ends later, or was joined to one that is open
    (`goes_on`). `covered`: an incident that goes on is told in its place."""
    if state is not State.RESOLVED or not goes_on:
        return None
    inhibited = True if covered else None
    if silenced is not None:
        return Change(State.FIRING, f"matches again; silenced: {silenced}", silenced=True, inhibited=inhibited)
    return Change(State.FIRING, "matches again", silenced=False, inhibited=inhibited)


def on_watermark(state: State, end_ms: int, gap_ms: int, watermark_ms: int) -> Change | None:
    """The watermark passes the end of an episode and its gap: nothing can join any more."""
    if state is State.RESOLVED or not is_over(end_ms, gap_ms, watermark_ms):
        return None
    return Change(State.RESOLVED, "no match for longer than the gap")


def is_over(end_ms: int, gap_ms: int, watermark_ms: int) -> bool:
    """True when every later event lies beyond the end and the gap."""
    return end_ms + gap_ms < watermark_ms


def lasted_ms(alert: AlertRow, now_ms: int) -> int:
    """How long the condition held, or holds: until it was seen last when that is over, else until now."""
    until_ms = alert.last_seen_ms if alert.state == State.RESOLVED else max(now_ms, alert.last_seen_ms)
    return until_ms - alert.onset_ms


def lasted_text(alert: AlertRow, now_ms: int) -> str:
    """See lasted_ms; what was seen at one time only has no duration."""
    return format_duration(duration_ms) if (duration_ms := lasted_ms(alert, now_ms)) else "seen once"


def on_acknowledge(state: State, actor: str, note: str, until_ms: int | None = None) -> Change:
    """A person has seen it; whether it is silenced does not matter. `until_ms`: when that ends by itself."""
    if state is not State.FIRING:
        raise TransitionError(f"it is {state}; only firing alerts can be acknowledged")
    return Change(State.ACKNOWLEDGED, note or "acknowledged", actor, until_ms=until_ms)


def on_unacknowledge(state: State, actor: str, note: str) -> Change:
    """A person looks after it no longer: it fires, and who is told of what fires is told."""
    if state is not State.ACKNOWLEDGED:
        raise TransitionError(f"it is {state}; only acknowledged alerts can be acknowledged no longer")
    return Change(State.FIRING, note or "acknowledged no longer", actor)


def on_acknowledgement_end() -> Change:
    """The time of an acknowledgement is over, and the alert is not."""
    return Change(State.FIRING, "the acknowledgement ended")


def on_close(state: State, actor: str, note: str) -> Change:
    """A person says that it is over; a further match says otherwise."""
    if state is State.RESOLVED:
        raise TransitionError("it is resolved already; only alerts that are not over can be closed")
    return Change(State.RESOLVED, note or "closed by hand", actor)


def on_silence(state: State, silenced: bool, actor: str, note: str) -> Change | None:
    """A silence now covers it; None when that changes nothing."""
    if silenced or state is State.RESOLVED:
        return None
    return Change(state, note or "silenced", actor, silenced=True)


def on_silence_end(state: State, ended_by: str | None = None) -> Change:
    """No silence covers it any more; `ended_by`: who ended the last one before its time."""
    if ended_by is not None:
        return Change(state, "the silence was ended", ended_by, silenced=False)
    return Change(state, "the silence ended", silenced=False)


def on_joining(state: State, incident: str, *, covered: bool, inhibited: bool) -> Change:
    """An alert becomes part of an incident, which is told in its place unless it is more severe (not `covered`);
    `inhibited`: whether it was until now."""
    if covered:
        return Change(state, f"part of the incident {incident}, which is told in its place", inhibited=True)
    return Change(
        state,
        f"part of the incident {incident}, and told beside it: it is more severe",
        inhibited=None if not inhibited else False,
    )


def on_leaving(state: State) -> Change:
    """No incident that it is part of goes on any more."""
    return Change(state, "the incident that it was part of is over", inhibited=False)


def state_text(state: str, silenced: bool) -> str:
    """`firing`, `acknowledged, silenced`; of what is over only that."""
    return f"{state}, {SILENCED}" if silenced and state != State.RESOLVED else state


def idempotency_key(alert: str, state: State, revision: int) -> str:
    """Names one change of one alert: receivers drop what they have seen."""
    return digest("notification", alert, state, str(revision))
