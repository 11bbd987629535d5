"""What others say, before it is kept or shown: nothing in which a secret stands."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

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
    told = (line.casefold(), unquote(line).casefold())
    if any(part in one for secret in secrets for part in _parts(secret) for one in told):
        return NOT_SHOWN
    return plain(line)


def _parts(secret: str) -> set[str]:
    """A secret, and what of it stands between slashes and the like."""
    found = {
        piece for piece in _BETWEEN.split(secret) if len(piece) >= LEAST_SECRET_CHARS and not _WORD.fullmatch(piece)
    }
    found.add(secret)
    return {part.casefold() for piece in found for part in (piece, unquote(piece))}


__all__ = ["NOT_SHOWN", "without_secrets"]
