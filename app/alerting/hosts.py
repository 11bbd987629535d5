"""The hosts that an alert names, with their roles: whose fault it probably is, and who suffers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, Self

from app.alerting.recording.extremes import Seen
from app.alerting.text import plain
from app.store.storable import storable_values
from app.store.subject import AFFECTED, SUSPECT, default_roles, subject_text
from engine import ast

if TYPE_CHECKING:
    from app.store.models import AlertRow

MAX_HOSTS = 50
"""Hosts of an alert that are kept; further ones are counted."""

MAX_FORGOTTEN = 1_000
"""Digests of further hosts, to count each once; beyond that their number is a lower bound."""

_ROOM = 4
"""How many times the bound are held before some are forgotten: sorting pays for many at a time."""

_RANKS = {SUSPECT: 1, AFFECTED: 0}


@dataclass(frozen=True, slots=True)
class NamedHost:
    """A host that a match names."""

    host: str
    role: str
    value_name: str | None = None
    """The RETURN value that is shown beside it."""
    value: Any = None


@dataclass(frozen=True, slots=True)
class _Entry:
    named: NamedHost
    seen: Seen
    """The last match that names it in this role."""

    def is_behind(self, other: _Entry) -> bool:
        """Whether the other one counts more: a suspect more than an affected host, a later match more than earlier."""
        mine, theirs = _RANKS[self.named.role], _RANKS[other.named.role]
        return self.seen.is_before(other.seen) if mine == theirs else mine < theirs


@dataclass
class Hosts:
    """All hosts of an episode's matches, up to a bound: which ones are left out depends on the matches alone."""

    known: dict[str, _Entry] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, seen: Seen, key: Mapping[str, Any], clause: tuple[ast.NamedHost, ...]) -> Self:
        """Those of one match."""
        return cls({named.host: _Entry(named, seen) for named in hosts_of(key, seen.values, clause)})

    def add(self, other: Hosts) -> None:
        """Those of both together."""
        for host, entry in other.known.items():
            known = self.known.get(host)
            if known is None or known.is_behind(entry):
                self.known[host] = entry
        self.forgotten |= other.forgotten
        if len(self.known) > _ROOM * MAX_HOSTS:
            self.trim()

    def trim(self) -> None:
        """Forget hosts beyond the bound, whenever that is: what is forgotten counts less than all that are kept, and
        these only ever come to count more."""
        if len(self.known) > MAX_HOSTS:
            ordered = sorted(self.known.values(), key=cmp_to_key(_more_first))
            self.known = {entry.named.host: entry for entry in ordered[:MAX_HOSTS]}
            self.forgotten.update(_digest(entry.named.host) for entry in ordered[MAX_HOSTS:])
        if self.forgotten:
            self.forgotten = set(sorted(self.forgotten - set(map(_digest, self.known)))[:MAX_FORGOTTEN])

    def in_order(self, shown: Sequence[NamedHost]) -> list[NamedHost]:
        """Suspects first, of these those of the match that is shown (`shown`), then the latest."""
        self.trim()
        first = {named.host for named in shown}
        entries = sorted(self.known.values(), key=lambda entry: entry.named.host)
        latest = sorted(entries, key=lambda entry: (entry.seen.last_ms, entry.seen.first_ms), reverse=True)
        roles = {host: entry.named.role for host, entry in self.known.items()}
        ordered = [
            NamedHost(named.host, roles.get(named.host, named.role), named.value_name, named.value) for named in shown
        ]
        ordered += [entry.named for entry in latest if entry.named.host not in first]
        return sorted(ordered, key=lambda named: -_RANKS[named.role])[:MAX_HOSTS]

    @property
    def n_left_out(self) -> int:
        """Hosts beyond those that are kept; MAX_FORGOTTEN: at least so many."""
        self.trim()
        return len(self.forgotten)

    # ------------------------------------------------------------- with the alert

    def to_json(self) -> dict[str, Any]:
        """To be kept with the alert."""
        self.trim()
        kept = [
            [entry.named.host, entry.named.role, entry.named.value_name, entry.named.value,
             entry.seen.last_ms, entry.seen.first_ms, entry.seen.digest]
            for _, entry in sorted(self.known.items())
        ]  # fmt: skip
        return {"hosts": kept, "forgotten": sorted(self.forgotten)}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        """What `to_json` returned."""
        known = {
            host: _Entry(NamedHost(host, role, name, value), Seen(last_ms, first_ms, {}, digest))
            for host, role, name, value, last_ms, first_ms, digest in kept["hosts"]
        }
        return cls(known, set(kept["forgotten"]))


def hosts_of(key: Mapping[str, Any], values: Mapping[str, Any], clause: tuple[ast.NamedHost, ...]) -> list[NamedHost]:
    """The hosts that a match names, each once, suspects first; without the clause see app.store.subject."""
    if not clause:
        return [NamedHost(host, role) for host, role in default_roles(key, values)]
    named = {**values, **key}
    found: dict[str, NamedHost] = {}
    for item in sorted(clause, key=lambda item: -_RANKS[item.role.value.lower()]):
        host = named.get(item.name)
        if isinstance(host, str) and host:
            value = None if item.value is None else storable_values({"": named.get(item.value)})[""]
            host = subject_text(host)
            found.setdefault(host, NamedHost(host, item.role.value.lower(), item.value, value))
    return list(found.values())


def hosts_text(alert: AlertRow) -> dict[str, str]:
    """The hosts of an alert by role, suspects first, each with the value beside it; and how many are left out."""
    told: dict[str, list[str]] = {}
    for named in alert.hosts:
        beside = "" if named.value_name is None else f" ({plain(named.value)})"
        told.setdefault(named.role, []).append(plain(named.host) + beside)
    found = {role: ", ".join(hosts) for role, hosts in told.items()}
    if alert.n_hosts_left_out:
        more = "at least " if alert.n_hosts_left_out >= MAX_FORGOTTEN else ""
        found["left out"] = f"{more}{alert.n_hosts_left_out} more hosts"
    return found


def _more_first(one: _Entry, other: _Entry) -> int:
    """Of hosts of one match in one role, the first in the alphabet counts more."""
    if one.is_behind(other):
        return 1
    if other.is_behind(one):
        return -1
    return (one.named.host > other.named.host) - (one.named.host < other.named.host)


def _digest(host: str) -> str:
    return hashlib.blake2b(host.encode(), digest_size=6).hexdigest()


__all__ = ["MAX_FORGOTTEN", "MAX_HOSTS", "Hosts", "NamedHost", "hosts_of", "hosts_text"]
