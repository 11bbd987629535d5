"""Silences: which alerts nobody is told of, and when. Matchers and time intervals are Alertmanager's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from app.alerting.dispatch.intervals import TimeInterval, parse_interval
from app.alerting.dispatch.matchers import Matcher, Matchers, all_match, made, matchers_text, parse_matchers
from app.alerting.recording.episodes import digest
from app.alerting.text import plain
from app.durations import format_duration
from app.errors import AppError
from app.store.models import AlertRow, SilenceRow
from app.store.storable import storable_text
from collectors.time_units import DAY_MS

log = structlog.get_logger(__name__)

MAX_SILENCES = 1_000
"""That are not over."""
MAX_MATCHERS = 20
MAX_VALUE_CHARS = 1_000
MAX_INTERVALS = 20
MAX_SILENCE_MS = 366 * DAY_MS
"""Longer is a mistake, or means that the query should be disabled."""
MAX_RECURRING_MS = 10 * 366 * DAY_MS
"""Of one that holds at times only."""
_MAX_REMEMBERED = 10_000


@dataclass(frozen=True)
class Silencing:
    """What a silence is to hide, and when; make it with `silencing`."""

    matchers: Matchers
    starts_ms: int
    ends_ms: int
    recurrence: tuple[Mapping[str, Any], ...] = ()

    def columns(self) -> dict[str, Any]:
        """Of SilenceRow."""
        return {
            "matchers": [[matcher.name, matcher.operator, matcher.value] for matcher in self.matchers],
            "starts_ms": self.starts_ms,
            "until_ms": self.ends_ms,
            "recurrence": [dict(interval) for interval in self.recurrence],
        }


def silencing(
    matchers: Sequence[Matcher], starts_ms: int, ends_ms: int, recurrence: Sequence[Mapping[str, Any]], now_ms: int
) -> Silencing:
    """Raises AppError that says what is wrong."""
    if not 0 < len(matchers) <= MAX_MATCHERS:
        raise AppError(f"a silence with {len(matchers)} matchers; expected 1 to {MAX_MATCHERS}")
    if any(len(part) > MAX_VALUE_CHARS for matcher in matchers for part in (matcher.name, matcher.value)):
        raise AppError(f"a label or value of more than {MAX_VALUE_CHARS} characters; expected a shorter one")
    if any(text != storable_text(text) for matcher in matchers for text in (matcher.name, matcher.value)):
        raise AppError("a label or value with characters that no label has; expected others")
    if all_match(matchers, {}):
        raise AppError(
            f"{matchers_text(matchers)} matches alerts without any labels, so it hides everything; expected at least "
            'one matcher that an empty value does not fulfil, such as alertname="node-lost"'
        )
    if len(recurrence) > MAX_INTERVALS:
        raise AppError(f"{len(recurrence)} time intervals; expected at most {MAX_INTERVALS}")
    try:
        for interval in recurrence:
            parse_interval(interval)
    except ValueError as error:
        raise AppError(f"time interval: {error}") from None
    if ends_ms <= now_ms:
        raise AppError("a silence that is over before it begins; expected more than nothing, and an end ahead")
    longest_ms = MAX_RECURRING_MS if recurrence else MAX_SILENCE_MS
    if not 0 < ends_ms - starts_ms <= longest_ms or starts_ms > now_ms + longest_ms:
        found = format_duration(abs(ends_ms - starts_ms))
        sign = "-" if ends_ms < starts_ms else ""
        raise AppError(
            f"silence for {sign}{found}: expected more than nothing, at most {format_duration(longest_ms)}, and a "
            "start no further ahead"
        )
    return Silencing(tuple(matchers), starts_ms, ends_ms, tuple(recurrence))


def read_matchers(texts: Iterable[str]) -> Matchers:
    """Each text is one matcher or several; raises AppError."""
    try:
        return tuple(matcher for text in texts for matcher in parse_matchers(text))
    except ValueError as error:
        raise AppError(str(error)) from None


def matchers_of_row(silence: SilenceRow) -> Matchers:
    """Of a silence that is kept; raises ValueError where the store was changed by others."""
    return tuple(made(*map(str, matcher)) for matcher in silence.matchers)


def matchers_of_alert(alert: AlertRow, *, every_key: bool) -> Matchers:
    """What this alert and others of its query and key (or whatever the key) fulfil."""
    labels = labels_of_row(alert.labels, alert.key, alert.query, alert.severity)
    names = [] if every_key else [name for name in sorted(alert.key) if name in labels and name != "alertname"]
    return (Matcher("alertname", "=", alert.query), *(Matcher(name, "=", labels[name]) for name in names))


def labels_of_row(labels: Mapping[str, str], key: Mapping[str, Any], query: str, severity: str) -> Mapping[str, str]:
    """Of an alert; those of versions without labels were known by their key."""
    if labels:
        return labels
    return {**{name: plain(value) for name, value in key.items()}, "alertname": query, "severity": severity}


def silence_text(silence: SilenceRow) -> str:
    """What it hides, as people read it."""
    return matchers_text([Matcher(*map(str, matcher)) for matcher in silence.matchers])


def stands(silence: SilenceRow, now_ms: int) -> str:
    """Whether it is active, pending (later, or at other times) or expired."""
    if silence.until_ms <= now_ms:
        return "expired"
    found = _readable(silence)
    return "active" if found is not None and found.holds(now_ms) else "pending"


class _Silence:
    """A silence that can be asked; the matchers that cost least are asked first."""

    def __init__(self, row: SilenceRow) -> None:
        self.row = row
        matchers = matchers_of_row(row)
        self.matchers = tuple(sorted(matchers, key=lambda matcher: "~" in matcher.operator))
        self._intervals: tuple[TimeInterval, ...] = tuple(parse_interval(interval) for interval in row.recurrence)

    def holds(self, now_ms: int) -> bool:
        if not self.row.starts_ms <= now_ms < self.row.until_ms:
            return False
        return not self._intervals or any(interval.holds(now_ms) for interval in self._intervals)

    @property
    def equal(self) -> list[tuple[str, str]]:
        """Labels, with their values, that an alert has to have."""
        return [(matcher.name, matcher.value) for matcher in self.matchers if matcher.operator == "="]

    def covers(self, labels: Mapping[str, str]) -> bool:
        return bool(self.matchers) and all_match(self.matchers, labels)


def _readable(row: SilenceRow) -> _Silence | None:
    """None for what this machine cannot read, such as a place that it has no times of: rather is somebody told."""
    try:
        return _Silence(row)
    except (ValueError, TypeError) as error:
        log.warning("a silence cannot be read, and hides nothing", silence=row.id, why=str(error))
        return None


class Holding:
    """The silences that hold at a time."""

    def __init__(self, not_over: Sequence[SilenceRow], now_ms: int) -> None:
        """`not_over`: those whose end lies ahead."""
        silences = [silence for row in not_over if (silence := _readable(row)) is not None]
        holding = [silence for silence in silences if silence.holds(now_ms)]
        self._pausing = [silence for silence in silences if silence.row.starts_ms <= now_ms and silence not in holding]
        self.digest = digest("silences", *sorted(f"{of.row.id} {of.row.revision}" for of in holding))
        # In a storm each of thousands of alerts is held against many silences, of which most are of one host or job.
        self._n_silences, self._of_any = len(holding), list[tuple[int, _Silence]]()
        self._of_label: dict[str, dict[str, list[tuple[int, _Silence]]]] = {}
        n_alike = Counter(label for silence in holding for label in silence.equal)
        for place, silence in enumerate(holding):
            if not silence.equal:
                self._of_any.append((place, silence))
                continue
            name, value = min(silence.equal, key=lambda label: n_alike[label])
            self._of_label.setdefault(name, {}).setdefault(value, []).append((place, silence))
        self._found: dict[tuple[tuple[str, str], ...], SilenceRow | None] = {}

    def __bool__(self) -> bool:
        return self._n_silences > 0

    def covering(self, labels: Mapping[str, str]) -> SilenceRow | None:
        """The silence that covers alerts with these labels; of several, that which ends last."""
        if not self:
            return None
        place = tuple(sorted(labels.items()))
        if place not in self._found:
            if len(self._found) >= _MAX_REMEMBERED:
                self._found.clear()
            self._found[place] = next(self._all_covering(labels), None)
        return self._found[place]

    def is_covered_by(self, silence_id: int, labels: Mapping[str, str]) -> bool:
        """Whether this one of those that hold covers alerts with these labels, also where another one ends later."""
        return any(row.id == silence_id for row in self._all_covering(labels))

    def _all_covering(self, labels: Mapping[str, str]) -> Iterator[SilenceRow]:
        """Those that cover alerts with these labels, that which ends last first."""
        asked = list(self._of_any)
        for name, of_value in self._of_label.items():
            asked += of_value.get(labels.get(name, ""), ())
        asked.sort(key=lambda pair: pair[0])
        return (silence.row for _, silence in asked if silence.covers(labels))

    def is_pausing(self, labels: Mapping[str, str]) -> bool:
        """Whether one that will hold again, at other times, would cover these."""
        return any(silence.covers(labels) for silence in self._pausing)


def reason_of(silence: SilenceRow) -> str:
    """Why something is silenced."""
    return silence.reason or f"by {silence.actor}"


def ended_by(over: Iterable[SilenceRow], labels: Mapping[str, str]) -> str | None:
    """Who ended the last silence that covered these labels; None: it was over by itself. `over`: the last first."""
    known = (found for row in over if (found := _readable(row)) is not None)
    last = next((silence.row for silence in known if silence.covers(labels)), None)
    return None if last is None else last.ended_by


__all__ = [
    "MAX_SILENCES",
    "MAX_SILENCE_MS",
    "Holding",
    "Silencing",
    "ended_by",
    "labels_of_row",
    "matchers_of_alert",
    "matchers_of_row",
    "read_matchers",
    "reason_of",
    "silence_text",
    "silencing",
    "stands",
]
