"""What the shell offers for names that only this installation knows; nothing where settings or store cannot be read.

Shells evaluate what they are offered (Typer's script for zsh by `eval`), and whoever runs a job names it: so only names
of plain characters are offered, and nothing that a job says beside them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import typer

from app.errors import AppError

if TYPE_CHECKING:
    from app.store.api import Store

MAX_OFFERED = 100
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


def predefined_queries(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of the queries of queries.directory."""
    from app.config import load_settings
    from app.queries.loading import query_files

    return _offered(lambda: query_files(load_settings(ctx.params.get("config")).queries.directory, []), incomplete)


def receivers(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names in alerting.receivers."""
    from app.config import load_settings

    return _offered(lambda: sorted(load_settings(ctx.params.get("config")).alerting.receivers), incomplete)


def open_alerts(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ids of alerts that are open, the latest first."""
    from app.store.api import AlertFilter
    from app.store.states import OPEN_STATES

    wanted = AlertFilter(states=OPEN_STATES, limit=MAX_OFFERED)
    return _in_store(lambda store: [alert.id for alert in store.alerts(wanted)], ctx, incomplete)


def alerted_queries(ctx: typer.Context, incomplete: str) -> list[str]:
    """The queries that have alerts."""
    return _in_store(lambda store: store.query_names(), ctx, incomplete)


def alerted_jobs(ctx: typer.Context, incomplete: str) -> list[str]:
    """The jobs that alerts are about."""
    return _in_store(lambda store: store.job_ids(), ctx, incomplete)


def alerted_hosts(ctx: typer.Context, incomplete: str) -> list[str]:
    """The hosts that alerts name."""
    return _in_store(lambda store: store.host_names(), ctx, incomplete)


def _in_store(names: Callable[[Store], Iterable[str]], ctx: typer.Context, incomplete: str) -> list[str]:
    from app.commands.opened_store import opened

    def read() -> Iterable[str]:
        with opened(ctx.params.get("config"), ctx.params.get("store")) as store:
            return names(store)

    return _offered(read, incomplete)


def _offered(names: Callable[[], Iterable[str]], incomplete: str) -> list[str]:
    try:
        found = [name for name in names() if name.startswith(incomplete) and _PLAIN.fullmatch(name)]
    except AppError:  # the command itself says what is wrong
        return []
    return found[:MAX_OFFERED]


__all__ = ["alerted_hosts", "alerted_jobs", "alerted_queries", "open_alerts", "predefined_queries", "receivers"]
