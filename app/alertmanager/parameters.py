"""What stands behind the question mark of a request: matchers, a receiver, which alerts are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs

from app.alerting.dispatch.matchers import Matcher, made, parse_matchers
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
    active: bool = True
    silenced: bool = True
    inhibited: bool = True
    muted: bool = True


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
        **{name: _flag(name, found.get(name, ["true"])[-1]) for name in ("active", "silenced", "inhibited", "muted")},
    )


def filters(found: dict[str, list[str]]) -> tuple[Matcher, ...]:
    """Of all parameters `filter`; raises ApiError."""
    texts = found.get("filter", [])
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


__all__ = ["Wanted", "filters", "parsed", "wanted"]
