"""Who may ask, from a file: a line for each, `NAME ROLE TOKEN`. The token is a bearer token, or the password of basic
authentication with the name.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import stat
import threading
from dataclasses import dataclass
from pathlib import Path

import structlog

from app.alerting.people import Person, Role
from app.errors import ConfigError, ConfigProblem

log = structlog.get_logger(__name__)

KEY = "api.tokens_file"
MAX_FILE_BYTES = 2**16
LEAST_TOKEN_CHARS = 20
"""Tokens are drawn, not thought of: `openssl rand -hex 32`."""
MAX_HEADER_CHARS = 4_000
_NAME = re.compile(r"[^\s:#]{1,100}")
_TOKEN = re.compile(r"[\x21-\x7e]{20,500}")


class WrongCredentialsError(Exception):
    """Somebody says who they are, and it is not so."""


@dataclass(frozen=True)
class _Entry:
    person: Person
    digest: bytes


class Credentials:
    """The people of a file; it is read again when it changes, and while it cannot be read nobody is let in."""

    def __init__(self, file: Path | None) -> None:
        """Raises ConfigError; without a file there is nobody."""
        self._file = file
        self._lock = threading.Lock()
        self._state: tuple[int, ...] = ()
        self._entries: tuple[_Entry, ...] = ()
        if file is not None:
            self._state = _state(file)
            self._entries = _read(file)

    def __bool__(self) -> bool:
        return self._file is not None

    def person(self, header: str | None) -> Person | None:
        """Of an Authorization header; None: there is none. Raises WrongCredentialsError."""
        if header is None:
            return None
        self._follow()
        name, token = _of_header(header)
        digest, found = _digest(token), None
        for entry in self._entries:  # all of them: how long it takes tells nothing
            if hmac.compare_digest(entry.digest, digest) and name in (None, entry.person.name):
                found = entry.person
        if found is None:
            raise WrongCredentialsError
        return found

    def _follow(self) -> None:
        if self._file is None:
            return
        with self._lock:
            state = _state(self._file)
            if state == self._state:
                return
            self._state = state
            try:
                self._entries = _read(self._file)
            except ConfigError as error:
                self._entries = ()
                log.error("nobody is let in until the file is right", reason=str(error))
            else:
                log.info("the file of tokens was read again", people=len(self._entries))


def _of_header(header: str) -> tuple[str | None, str]:
    """(name, None of a bearer token; token)."""
    scheme, _, value = header.partition(" ")
    if len(header) > MAX_HEADER_CHARS:
        raise WrongCredentialsError
    if scheme.lower() == "bearer":
        return None, value.strip()
    if scheme.lower() != "basic":
        raise WrongCredentialsError
    try:
        name, colon, token = base64.b64decode(value.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise WrongCredentialsError from None
    if not colon:
        raise WrongCredentialsError
    return name, token


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _state(file: Path) -> tuple[int, ...]:
    try:
        status = file.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode


def _read(file: Path) -> tuple[_Entry, ...]:
    """Raises ConfigError that names the line, never what is in it."""
    try:
        status = file.stat()
        if status.st_mode & stat.S_IROTH:
            raise _problem(file, "a file that everybody on this machine may read", f"chmod o-r {file}")
        if status.st_size > MAX_FILE_BYTES:
            raise _problem(file, "more than 64 KiB", "a line for each who may ask: NAME ROLE TOKEN")
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise _problem(file, reason, "a file that can be read, with a line for each: NAME ROLE TOKEN") from None
    entries: dict[str, _Entry] = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            entry = _entry(file, number, line.split())
            if entry.person.name in entries or any(e.digest == entry.digest for e in entries.values()):
                raise _problem(file, f"line {number}: a name or a token for the second time", "each once")
            entries[entry.person.name] = entry
    if not entries:
        raise _problem(file, "nobody", "a line for each who may ask: NAME ROLE TOKEN")
    return tuple(entries.values())


def _entry(file: Path, number: int, words: list[str]) -> _Entry:
    place = f"line {number}"
    if len(words) != 3:
        raise _problem(file, f"{place}: {len(words)} words", "three: NAME ROLE TOKEN")
    name, role, token = words
    if not _NAME.fullmatch(name) or not name.isprintable():
        raise _problem(file, f"{place}: a name that cannot be one", "up to 100 characters without ':' and '#'")
    if role not in set(Role):
        raise _problem(file, f"{place}: a role that there is not", f"one of {', '.join(Role)}")
    if not _TOKEN.fullmatch(token):
        expected = f"{LEAST_TOKEN_CHARS} to 500 ASCII characters, drawn at random: openssl rand -hex 32"
        raise _problem(file, f"{place}: a token of {len(token)} characters", expected)
    return _Entry(Person(name, Role(role)), _digest(token))


def _problem(file: Path, found: str, expected: str) -> ConfigError:
    return ConfigError(str(file), (ConfigProblem(KEY, found, expected),))


__all__ = ["Credentials", "WrongCredentialsError"]
