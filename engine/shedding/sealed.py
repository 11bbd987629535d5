"""What was learned, as JSON with a format, a version and a digest: read again as it was written, else refused.

Nothing in it is ever executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from engine.errors import StateError


@dataclass(frozen=True, slots=True)
class Seal:
    """Of one kind of text."""

    format: str
    version: int
    name: str
    """How errors call such a text: "a saved run model"."""
    remedy: str
    """What to do about one that is refused."""

    def text(self, body: Mapping[str, Any], indent: int | None = None) -> str:
        """As `opened` takes it."""
        whole = {"format": self.format, "version": self.version, **body}
        return json.dumps({**whole, "digest": digest_of(whole)}, indent=indent)

    def opened(self, text: str) -> dict[str, Any]:
        """The content of what `text` returned; raises StateError for what is damaged or of another version."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise StateError(f"{self.name} is no JSON ({error}): it was cut; {self.remedy}") from error
        if not isinstance(found, dict) or found.get("format") != self.format:
            raise StateError(f"found something else than a {self.format}; {self.remedy}")
        if found.get("version") != self.version:
            raise StateError(
                f"{self.name} has version {found.get('version')!r}, expected {self.version}; {self.remedy}"
            )
        if digest_of({name: value for name, value in found.items() if name != "digest"}) != found.get("digest"):
            raise StateError(f"{self.name} does not have the digest that it names: it was changed; {self.remedy}")
        return found

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Makes what goes wrong with parts of the content a StateError."""
        try:
            yield
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise StateError(f"{self.name} lacks a part, or it is no number: {error!r}; {self.remedy}") from error


def digest_of(body: Mapping[str, Any]) -> str:
    """Of everything but the digest: finds damage, no forgery."""
    return hashlib.blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=16).hexdigest()


__all__ = ["Seal", "digest_of"]
