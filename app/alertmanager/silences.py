"""Silences as API v2 has them: read, made, changed, ended."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any
from uuid import UUID

from app.alerting import operations
from app.alerting.dispatch.matchers import Matcher, Matchers, all_match, made
from app.alerting.people import ForbiddenError, Person
from app.alerting.silencing import stands
from app.alerting.text import iso
from app.alertmanager.answers import ApiError
from app.errors import AppError, NotFoundError, StoreError
from app.store.active import ChangedSilence
from app.store.api import Store
from app.store.models import SilenceRow
from app.store.storable import storable_text
from collectors.time_units import DAY_MS

RETENTION_MS = 5 * DAY_MS
"""How long those that are over are listed, as Alertmanager does."""
MAX_LISTED = 2_000
MAX_MATCHERS = 20
MAX_ANNOTATIONS, MAX_ANNOTATION_CHARS = 20, 1_000
_OURS = 0xC1057E2CE90080008000_000000000000
"""A UUID (version 8: of one's own making) whose last 48 bits are the number of a silence."""
_NUMBER_BITS = 48
_UUID = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)")
STATES = ("active", "pending", "expired")
_REQUIRED = ("comment", "createdBy", "endsAt", "matchers", "startsAt")
_MISSING, _WRONG_TYPE, _UNREADABLE = 602, 601, 400
"""Codes of go-swagger, which Alertmanager tells."""


def silence_uuid(number: int) -> str:
    """The id of a silence, as clients of Alertmanager expect one."""
    return str(UUID(int=_OURS | number))


def number_of(text: str) -> int | None:
    """The silence of an id; None: it is none of ours. Raises ApiError for what is no UUID."""
    if not _UUID.fullmatch(text):
        message = f"silenceID in path must be of type uuid: {json.dumps(text[:100])}"
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, message, _WRONG_TYPE)
    value = UUID(text).int
    return value & (2**_NUMBER_BITS - 1) if value >> _NUMBER_BITS == _OURS >> _NUMBER_BITS else None


def silence_json(found: ChangedSilence, now_ms: int) -> dict[str, Any]:
    """As Alertmanager tells it."""
    row = found.silence
    return {
        "id": silence_uuid(row.id),
        "status": {"state": stands(row, now_ms)},
        "updatedAt": iso(found.changed_ms),
        "comment": row.reason,
        "createdBy": row.created_by or row.actor,
        "endsAt": iso(row.until_ms),
        "matchers": [_matcher_json(*map(str, matcher)) for matcher in row.matchers],
        "startsAt": iso(row.starts_ms),
        "annotations": {str(name): str(text) for name, text in sorted(row.annotations.items())},
    }


def _matcher_json(name: str, operator: str, value: str) -> dict[str, Any]:
    return {"isEqual": operator in ("=", "=~"), "isRegex": "~" in operator, "name": name, "value": value}


def listed(
    store: Store, filters: Sequence[Matcher], now_ms: int, states: Collection[str] = STATES
) -> list[dict[str, Any]]:
    """Those in these states: active ones first, the next to end first; then pending and expired ones.

    Raises StoreError.
    """
    found = store.silences_since(now_ms - RETENTION_MS, MAX_LISTED)
    told = [(one, silence_json(one, now_ms)) for one in found if all_match(filters, _as_labels(one.silence))]
    told.sort(key=lambda pair: _place(pair[0].silence, pair[1]["status"]["state"]))
    return [shown for _, shown in told if shown["status"]["state"] in states]


def _as_labels(row: SilenceRow) -> dict[str, str]:
    """A filter asks what the matchers say, as in Alertmanager."""
    return {str(name): str(value) for name, _, value in row.matchers}


def _place(row: SilenceRow, state: str) -> tuple[int, int, int]:
    by_state = {"active": row.until_ms, "pending": row.starts_ms, "expired": -row.until_ms}
    return STATES.index(state), by_state[state], row.id


def one(store: Store, text: str, now_ms: int) -> dict[str, Any] | None:
    """By its id; None: there is none. Raises ApiError, StoreError."""
    number = number_of(text)
    found = None if number is None else store.silence(number)
    return None if found is None else silence_json(found, now_ms)


def put(store: Store, body: bytes, by: Person, now_ms: int) -> str:
    """Make a silence, or change the one that the body names; returns its id. Raises ApiError, StoreError."""
    wanted = _object(body)
    matchers, starts_ms, ends_ms = _matchers(wanted["matchers"]), _time(wanted, "startsAt"), _time(wanted, "endsAt")
    comment, created_by = _text(wanted, "comment"), _text(wanted, "createdBy")
    _within("comment", comment, operations.MAX_NOTE_CHARS)
    _within("createdBy", created_by, operations.MAX_ACTOR_CHARS)
    annotations = _annotations(wanted.get("annotations"))
    known = _known(store, wanted.get("id"))
    try:
        if known is None or known.until_ms <= now_ms:  # over: another one takes its place, as in Alertmanager
            made_ = operations.new_silence(
                store,
                matchers,
                max(starts_ms, now_ms),
                ends_ms,
                by,
                comment,
                now_ms,
                created_by=created_by,
                annotations=annotations,
            )
            return silence_uuid(made_)
        has_begun = known.starts_ms <= now_ms
        edit = operations.SilenceEdit(
            matchers=matchers,
            starts_ms=known.starts_ms if has_begun and starts_ms <= now_ms else max(starts_ms, now_ms),
            ends_ms=ends_ms,
            note=comment,
            created_by=created_by,
            annotations=annotations,
        )
        operations.edit_silence(store, known.id, edit, by, now_ms)
        return silence_uuid(known.id)
    except NotFoundError:
        raise ApiError(HTTPStatus.NOT_FOUND, "silence not found") from None
    except (StoreError, ForbiddenError):
        raise
    except AppError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"silence invalid: {error}") from None


def end(store: Store, text: str, by: Person, now_ms: int) -> None:
    """A silence is over; one that is already stays so. Raises ApiError, StoreError."""
    number = number_of(text)
    found = None if number is None else store.silence(number)
    if found is None:
        raise ApiError(HTTPStatus.NOT_FOUND, "silence not found")
    if found.silence.until_ms <= now_ms:
        return
    try:
        operations.end_silence(store, found.silence.id, by, now_ms)
    except NotFoundError:  # it ended meanwhile
        return


def _known(store: Store, given: object) -> SilenceRow | None:
    if given is None or given == "":
        return None
    if not isinstance(given, str):
        raise _invalid("id in body must be a text", _WRONG_TYPE)
    number = number_of(given) if _UUID.fullmatch(given) else None
    found = None if number is None else store.silence(number)
    if found is None:
        raise ApiError(HTTPStatus.NOT_FOUND, "silence not found")
    return found.silence


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "it is no JSON in UTF-8"
        message = f"parsing silence body failed, because {reason}"
        raise ApiError(HTTPStatus.BAD_REQUEST, message, _UNREADABLE) from None
    if not isinstance(found, dict):
        raise ApiError(HTTPStatus.BAD_REQUEST, "parsing silence body failed, because it is no object", _UNREADABLE)
    for name in _REQUIRED:
        if found.get(name) is None:
            raise _invalid(f"{name} in body is required", _MISSING)
    return found


def _matchers(found: object) -> Matchers:
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise _invalid("matchers in body must be a list of objects", _WRONG_TYPE)
    if not found:
        raise _invalid("matchers in body should have at least 1 items", 612)
    if len(found) > MAX_MATCHERS:
        raise _invalid(f"matchers in body has {len(found)} items; expected at most {MAX_MATCHERS}", 611)
    return tuple(_matcher(number, one) for number, one in enumerate(found))


def _matcher(number: int, found: Mapping[str, Any]) -> Matcher:
    values: dict[str, Any] = {"isEqual": True, **{name: value for name, value in found.items() if value is not None}}
    for name, kind in (("isRegex", bool), ("name", str), ("value", str), ("isEqual", bool)):
        if name not in values:
            raise _invalid(f"matchers.{number}.{name} in body is required", _MISSING)
        if not isinstance(values[name], kind):
            expected = "true or false" if kind is bool else "a text"
            raise _invalid(f"matchers.{number}.{name} in body must be {expected}", _WRONG_TYPE)
    operator = f"{'' if values['isEqual'] else '!'}{'~' if values['isRegex'] else ''}"
    try:
        return made(values["name"], {"": "=", "~": "=~", "!": "!=", "!~": "!~"}[operator], values["value"])
    except ValueError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"silence invalid: matcher {number}: {error}") from None


def _annotations(found: object) -> dict[str, str]:
    """Texts by name, which silences of Alertmanager have since 0.32; without any there are none."""
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _invalid("annotations in body must be an object of texts", _WRONG_TYPE)
    if len(found) > MAX_ANNOTATIONS:
        raise _invalid(f"annotations in body has {len(found)} names; expected at most {MAX_ANNOTATIONS}", 611)
    for name, text in found.items():
        if not isinstance(text, str):
            raise _invalid(f"annotations.{name[:60]} in body must be a text", _WRONG_TYPE)
        _within("the name of an annotation", name, MAX_ANNOTATION_CHARS)
        _within(f"the annotation {name[:60]}", text, MAX_ANNOTATION_CHARS)
    return {
        storable_text(name, MAX_ANNOTATION_CHARS): storable_text(text, MAX_ANNOTATION_CHARS)
        for name, text in found.items()
    }


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found[name]
    if not isinstance(value, str):
        raise _invalid(f"{name} in body must be a text", _WRONG_TYPE)
    return value


def _within(name: str, text: str, most: int) -> None:
    if len(text) > most:
        raise ApiError(HTTPStatus.BAD_REQUEST, f"silence invalid: {name} has {len(text)} characters; expected {most}")


def _time(found: Mapping[str, Any], name: str) -> int:
    """Milliseconds since the epoch of a time of RFC 3339."""
    text = found[name]
    try:
        if not isinstance(text, str) or len(text) > 60 or not _TIME.fullmatch(text):
            raise ValueError
        return round(datetime.fromisoformat(text.upper()).timestamp() * 1000)
    except (ValueError, OverflowError):
        shown = json.dumps(text)[:100] if isinstance(text, str) else type(text).__name__
        raise _invalid(f"{name} in body must be of type date-time: {shown}", _WRONG_TYPE) from None


def _invalid(message: str, code: int) -> ApiError:
    return ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, message, code)


__all__ = ["STATES", "end", "listed", "number_of", "one", "put", "silence_json", "silence_uuid"]
