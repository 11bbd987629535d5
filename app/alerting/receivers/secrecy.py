"""What others say, before it is kept or shown: nothing in which a secret stands."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import unquote, urlsplit

from app.alerting.text import plain

LEAST_SECRET_CHARS = 6
"""Parts of an address that are shorter are no secrets."""
NOT_SHOWN = "(not shown: it repeats a secret)"
_WORD = re.compile(r"[a-z]{1,11}")
"""Parts that every address has: alerts, services, webhook."""
_BETWEEN = re.compile(r"[/?&=:@#;, ]")


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """A text in one short line; nothing of it when it repeats a secret, as pages about errors repeat addresses."""
    line = " ".join(text.split())
    told = {one.casefold() for one in (line, unquote(line), "".join(text.split()))}
    if any(part in one for secret in secrets for part in _parts(secret) for one in told):
        return NOT_SHOWN
    return plain(line)


def _parts(secret: str) -> set[str]:
    """A secret, and what of it stands between slashes and the like."""
    found = {
        piece for piece in _BETWEEN.split(secret) if len(piece) >= LEAST_SECRET_CHARS and not _WORD.fullmatch(piece)
    }
    found |= {secret, *_of_login(secret)}
    return {part.casefold() for piece in found for part in (piece, unquote(piece)) if part}


def _of_login(secret: str) -> set[str]:
    """Of an address the password, or the name where it stands alone, and both as they are sent; of Basic the same."""
    user = password = None
    with suppress(ValueError):
        parts = urlsplit(secret)
        user, password = parts.username, parts.password
    if user or password:
        name, word = unquote(user or ""), unquote(password or "")
        return {password or user or "", word or name, in_base64(f"{name}:{word}")}
    scheme, _, given = secret.partition(" ")
    if scheme.casefold() == "basic":
        with suppress(binascii.Error, UnicodeError):
            return {base64.b64decode(given.strip(), validate=True).decode("utf-8").partition(":")[2]}
    return set()


def in_base64(text: str) -> str:
    """As logins are sent, without what fills the end."""
    return base64.b64encode(text.encode("utf-8", "replace")).decode("ascii").rstrip("=")


__all__ = ["NOT_SHOWN", "in_base64", "without_secrets"]
