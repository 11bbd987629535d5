"""What exporters want to see before they answer: a bearer token, or a user and a password, from files.

Files are read at every poll, as tokens that expire are written anew. What is in them is never told.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

from collectors.base import OptionError, SourceUnavailableError

MAX_SECRET_BYTES = 1 << 14


@dataclass(frozen=True, slots=True)
class Credentials:
    """At most one kind of them."""

    bearer_token_file: Path | None = None
    username: str | None = None
    password_file: Path | None = None

    def __post_init__(self) -> None:
        if self.bearer_token_file is not None and (self.username is not None or self.password_file is not None):
            raise OptionError("prometheus: a bearer token and a user are given; expected one of them")
        if (self.username is None) != (self.password_file is None):
            raise OptionError("prometheus: basic_auth needs username and password_file; one of them is missing")
        if self.username is not None and (":" in self.username or not self.username.isprintable()):
            raise OptionError("prometheus: basic_auth.username: expected a name without ':'")

    def header(self) -> str | None:
        """The Authorization header; raises SourceUnavailableError where a file cannot be read."""
        if self.bearer_token_file is not None:
            return f"Bearer {_secret(self.bearer_token_file)}"
        if self.username is not None and self.password_file is not None:
            pair = f"{self.username}:{_secret(self.password_file)}".encode()
            return f"Basic {base64.b64encode(pair).decode()}"
        return None


NO_CREDENTIALS = Credentials()


def _secret(path: Path) -> str:
    try:
        with path.open("rb") as file:
            body = file.read(MAX_SECRET_BYTES + 1)
    except OSError as error:
        raise SourceUnavailableError(f"{path}, with the credentials, cannot be read: {error.strerror}") from error
    text = body.decode("utf-8", "replace").strip()
    if not text or len(body) > MAX_SECRET_BYTES or not text.isprintable() or not text.isascii():
        raise SourceUnavailableError(f"{path}: expected one line of at most 16 kiB with the secret alone")
    return text


__all__ = ["NO_CREDENTIALS", "Credentials"]
