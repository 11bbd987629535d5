"""What somebody may do: roles of a login's claims, of a file, of a reverse proxy's header, or of who is nobody.

A name tells nobody apart: people choose theirs. Who somebody is, is the issuer of the login and its subject (`sub`).
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.alerting.people import Person, Role
from app.config import read_secret
from app.errors import ConfigError, ConfigProblem
from app.settings import DashboardSettings
from dashboard.text import inert

ANYBODY = "dashboard"
"""The actor of changes where nobody logs in."""
PROXY = "proxy"
"""The issuer of names that a reverse proxy tells."""
MAX_FILE_BYTES = 2**20
MAX_NAME_CHARS = 120
MAX_PART_CHARS = 56
"""Of name, subject and issuer: together, with a digest, they are an actor's name, which has 200 characters."""


def anonymous(settings: DashboardSettings) -> Person:
    """Nobody in particular; beside a login, which everybody has to pass, never more than a viewer.

    Behind a proxy that tells who asks, loopback is where everybody comes from.
    """
    role = Role.VIEWER if settings.login else settings.anonymous_role
    if role is None:
        is_own = _is_loopback(settings.address) and settings.proxy is None
        role = Role.OPERATOR if is_own else Role.VIEWER
    return Person(ANYBODY, role)


def logged_in(claims: Mapping[str, Any], settings: DashboardSettings) -> Person:
    """By the claims of a login; raises ConfigError for a file of roles that cannot be read."""
    issuer, subject = (_text(claims.get(name)) for name in ("iss", "sub"))
    return Person(_shown(claims, issuer, subject), _role(claims, issuer, subject, settings), f"{issuer} {subject}")


def told_by_proxy(headers: Iterable[tuple[str, str]], settings: DashboardSettings) -> Person:
    """By the header of a reverse proxy; nobody in particular where the secret is not beside it. Raises ConfigError."""
    proxy = settings.proxy
    assert proxy is not None, "asked where there is one"
    by_name: dict[str, list[str]] = {}
    for name, value in headers:
        by_name.setdefault(name.lower(), []).append(value)
    secret = read_secret(None, proxy.secret_file, "dashboard.proxy.secret_file")
    assert secret is not None, "there is a file"
    given, users = (by_name.get(name.lower(), []) for name in (proxy.secret_header, proxy.user_header))
    expected = secret.get_secret_value().encode("utf-8")
    if len(given) != 1 or not hmac.compare_digest(given[0].encode("utf-8", "replace"), expected):
        return anonymous(settings)
    if len(users) != 1 or not (user := users[0].strip()):
        return anonymous(settings)
    shown = inert(user, MAX_NAME_CHARS)
    name = shown if shown == user else f"{shown} [{_digest(PROXY, user)}]"
    return Person(name, _role({}, PROXY, user, settings), f"{PROXY} {user}")


def _role(claims: Mapping[str, Any], issuer: str, subject: str, settings: DashboardSettings) -> Role:
    """The highest that claims or file give; a viewer where they give none, an operator where nobody gives any."""
    if settings.roles_file is None and settings.roles_claim is None:
        return Role.OPERATOR
    given = [
        settings.claim_roles[value] for value in _values(claims, settings.roles_claim) if value in settings.claim_roles
    ]
    if settings.roles_file is not None and issuer and subject:
        given += filter(None, [read_roles(settings.roles_file).get((issuer, subject))])
    return max(given, key=lambda role: role.rank, default=Role.VIEWER)


def _values(claims: Mapping[str, Any], claim: str | None) -> Sequence[str]:
    found = None if claim is None else claims.get(claim)
    values = [found] if isinstance(found, str) else found if isinstance(found, list | tuple) else []
    return [value for value in values if isinstance(value, str)]


def _shown(claims: Mapping[str, Any], issuer: str, subject: str) -> str:
    """A name, and beside it what is nobody else's: the subject, and the issuer but for its usual scheme.

    Where something of these cannot be shown whole, a digest of both stands behind them.
    """
    names = (
        inert(_text(claims.get(claim)), MAX_PART_CHARS) for claim in ("name", "email", "preferred_username", "sub")
    )
    name = next(filter(None, names), "somebody who logged in without a name")
    place = issuer.removeprefix("https://")
    shown_subject, shown_place = inert(subject, MAX_PART_CHARS), inert(place, MAX_PART_CHARS)
    parts = [] if shown_subject == name else [shown_subject]
    parts += [f"of {shown_place}"] if shown_place else []
    if (shown_subject, shown_place) != (subject, place):
        parts.append(_digest(issuer, subject))
    told_apart = " ".join(filter(None, parts))
    return f"{name} [{told_apart}]" if told_apart else name


def _digest(*texts: str) -> str:
    return f"#{hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:12]}"


def read_roles(file: Path) -> dict[tuple[str, str], Role]:
    """Lines `ROLE ISSUER SUBJECT` (of a proxy `ROLE proxy NAME`); raises ConfigError that names the line."""
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise _problem(file, "more than 1 MiB", "lines ROLE ISSUER SUBJECT")
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise _problem(file, reason, "a file that can be read, of lines ROLE ISSUER SUBJECT") from None
    roles: dict[tuple[str, str], Role] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = line.split(maxsplit=2)
        if len(found) != 3 or found[0] not in set(Role):
            raise _problem(
                file, f"line {number}: no role with its issuer and subject", f"one of {', '.join(Role)}, then both"
            )
        role, issuer, subject = found[0], found[1], found[2].rstrip()
        if (issuer, subject) in roles:
            raise _problem(file, f"line {number}: somebody for the second time", "everybody once")
        roles[issuer, subject] = Role(role)
    return roles


def _problem(file: Path, found: str, expected: str) -> ConfigError:
    return ConfigError(str(file), (ConfigProblem("dashboard.roles_file", found, expected),))


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _is_loopback(address: str) -> bool:
    if address.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


__all__ = ["ANYBODY", "anonymous", "logged_in", "read_roles", "told_by_proxy"]
