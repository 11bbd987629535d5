"""What stands behind the question mark of a request: matchers, a receiver, which alerts are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs

from app.alerting.dispatch.matchers import Matcher, all_match, made, parse_matchers
from app.alertmanager.answers import ApiError

MAX_FILTERS = 100
MAX_PARAMETERS = 200
_TRUE = frozenset({"true", "1", "yes", "ok", "y", "on", "selected", "checked", "t", "enabled"})
_FALSE = frozenset({"false", "0", "no", "n", "off", "f", "disabled", ""})


@dataclass(frozen=True)
class Wanted:
    """Which alerts."""

    matchers: tuple[Matcher, ...] = ()
    receiver: Matcher | None = None
    """Over `receiver`, the name of one."""
    receiver_labels: tuple[Matcher, ...] = ()
    """Over the labels of a receiver; its `name` is the only one here."""
    active: bool = True
    silenced: bool = True
    inhibited: bool = True
    muted: bool = True

    @property
    def any_receiver(self) -> bool:
        """Whether it is all the same who is told."""
        return self.receiver is None and not self.receiver_labels

    def has_receiver(self, name: str) -> bool:
        """Whether what this one is told is wanted."""
        if self.receiver is not None and not self.receiver.matches({"receiver": name}):
            return False
        return all_match(self.receiver_labels, {"name": name})


def parsed(query: str) -> dict[str, list[str]]:
    """Raises ApiError."""
    try:
        return parse_qs(
            query, keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS, strict_parsing=bool(query)
        )
    except ValueError:  # UnicodeDecodeError is one
        raise ApiError(
            HTTPStatus.BAD_REQUEST, "the query of the address cannot be read; expected name=value&..."
        ) from None


def wanted(query: str) -> Wanted:
    """Of the parameters of /alerts and /alerts/groups; raises ApiError."""
    found = parsed(query)
    return Wanted(
        filters(found),
        _receiver(found.get("receiver", [""])[-1]),
        filters(found, "receiver_matchers"),
        **flags(found, ("active", "silenced", "inhibited", "muted")),
    )


def flags(found: dict[str, list[str]], names: Sequence[str]) -> dict[str, bool]:
    """Of parameters that are true unless they are given; raises ApiError."""
    return {name: _flag(name, found.get(name, ["true"])[-1]) for name in names}


def filters(found: dict[str, list[str]], name: str = "filter") -> tuple[Matcher, ...]:
    """Of all parameters of this name; raises ApiError."""
    texts = found.get(name, [])
    try:
        matchers = tuple(matcher for text in texts for matcher in _some(text))
    except ValueError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"bad matcher format: {error}") from None
    if len(matchers) > MAX_FILTERS:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"{len(matchers)} matchers; expected at most {MAX_FILTERS}")
    return matchers


def _some(text: str) -> Sequence[Matcher]:
    if found := parse_matchers(text):
        return found
    raise ValueError(f'{text!r}: no matcher; expected one such as severity="critical"')


def _receiver(text: str) -> Matcher | None:
    if not text:
        return None
    try:
        return made("receiver", "=~", text)
    except ValueError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"failed to parse receiver param: {error}") from None


def _flag(name: str, text: str) -> bool:
    if (lower := text.lower()) in _TRUE:
        return True
    if lower in _FALSE:
        return False
    raise ApiError(HTTPStatus.BAD_REQUEST, f"{name}: found {text[:50]!r}; expected true or false")


__all__ = ["Wanted", "filters", "flags", "parsed", "wanted"]
