"""Reading configuration and queries again while the process runs: what is checked, kept, taken over and told."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pydantic import BaseModel

from app.queries.loading import Loaded
from app.section import key_of
from app.settings import Settings
from app.store.api import Store
from app.store.writing.problems import NewProblem

FIXED = ("store.url", "store.url_file", "store.directory", "web", "sources.remote_write")
"""Keys, and sections, that hold from start to end: the store is open, the endpoints and the receiver listen."""

IGNORED = ("api", "dashboard", "replay", "demo")
"""Sections of other commands: a change of theirs is none of this process."""


@dataclass(frozen=True)
class ReloadOutcome:
    """What became of a reload."""

    ok: bool
    problems: tuple[str, ...] = ()
    """Why the process goes on unchanged."""
    notes: tuple[str, ...] = ()
    """What changed, and what needs a restart."""


def taken_over(running: Settings, read: Settings) -> tuple[Settings, tuple[str, ...]]:
    """The settings to go on with, and a note per key that has to wait for a restart."""
    notes = tuple(
        f"{key} changed: needs a restart; the process goes on with the old value"
        for key in sorted(changed_keys(running, read))
        if any(key == fixed or key.startswith(f"{fixed}.") for fixed in FIXED)
    )
    fixed_store = {name: getattr(running.store, name) for name in ("url", "url_file", "directory")}
    store = read.store.model_copy(update=fixed_store)
    sources = read.sources.model_copy(update={"remote_write": running.sources.remote_write})
    return read.model_copy(update={"store": store, "web": running.web, "sources": sources}), notes


def changed_keys(before: BaseModel, after: BaseModel, prefix: str = "") -> Iterator[str]:
    """The paths of the values that differ; never the values, which may be secret."""
    for name in type(before).model_fields:
        old, new, key = getattr(before, name), getattr(after, name), f"{prefix}{key_of(name)}"
        if key in IGNORED or old == new:
            continue
        if isinstance(old, BaseModel) and isinstance(new, BaseModel):
            yield from changed_keys(old, new, f"{key}.")
        else:
            yield key


def unreachable_messages(store: Store, receivers: Collection[str]) -> list[NewProblem]:
    """A problem per receiver that is no longer there (or switched off) though messages wait for it; raises StoreError.

    The messages stay: they are delivered when the receiver is back.
    """
    waiting = {name: n for (name, status), n in store.n_notifications().items() if status == "pending" and n}
    return [
        NewProblem(
            "alerting",
            f"receiver {name}",
            "no_receiver",
            f"{n} messages wait for a receiver that is not configured, or not enabled;"
            " they are kept, and delivered once alerting.receivers has it again",
        )
        for name, n in sorted(waiting.items())
        if name not in receivers
    ]


def changed_queries(before: Loaded, after: Loaded) -> tuple[str, ...]:
    """What became of the queries, for people."""
    old = {query.name: (query.hash, before.infos.get(query.name)) for query in before.compiled}
    new = {query.name: (query.hash, after.infos.get(query.name)) for query in after.compiled}
    parts = {
        "new": new.keys() - old.keys(),
        "changed": {name for name in new.keys() & old.keys() if new[name] != old[name]},
        "removed": old.keys() - new.keys(),
    }
    return tuple(f"queries {what}: {', '.join(sorted(names))}" for what, names in parts.items() if names)
