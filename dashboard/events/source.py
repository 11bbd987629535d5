"""Where a page's events come from: the event log of the process that watches, or the event store of the history.

The log is shown where it has events; the store where it has none, or where the address asks for it (`?events=history`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import streamlit as st

from dashboard.store import AppError, event_log, history, history_place, is_history_here, live_store, settings
from dashboard.text import md
from dashboard.times import shown

PARAMETER = "events"
LIVE, HISTORY = "live", "history"
"""Also what people choose between: an address has the words of a widget."""


class EventSource(Protocol):
    """What pages read events from."""

    @property
    def is_live(self) -> bool:
        """Whether more may come at any time; a history is complete as it is."""
        ...

    def snapshot(self) -> EventSource:
        """What is there now, for several looks that belong together. Raises AppError."""
        ...

    def span(self) -> tuple[int, int] | None:
        """(Earliest t_lo_ms, latest t_hi_ms) of all events; None without any. Raises AppError."""
        ...

    def count(
        self, *, types: Collection[str] | None = None, from_ms: int | None = None, to_ms: int | None = None
    ) -> int:
        """How many events there are at most. Raises AppError."""
        ...

    def last_seen(
        self, column: str, *, types: Collection[str] | None = None, from_ms: int | None = None, to_ms: int | None = None
    ) -> dict[str, int]:
        """Of the events that touch the closed span each value of an attribute that is text, with the latest t_hi_ms of
        those that have it. Raises AppError."""
        ...

    def read(
        self,
        *,
        types: Collection[str] | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        equal: Mapping[str, str] | None = None,
        columns: Sequence[str],
    ) -> pa.Table:
        """These columns of the events that touch the closed span and have `equal` values, in stream order.

        Raises AppError.
        """
        ...


@dataclass(frozen=True)
class Source:
    """One of them, with what it holds."""

    name: str
    """LIVE or HISTORY."""
    events: EventSource
    span: tuple[int, int]


def sources() -> dict[str, Source]:
    """Those that have events, the log first. Raises AppError where the log cannot be read, or there is none and the
    history cannot be; beside a log a history that cannot be read is told of, and the log is shown."""
    found: dict[str, Source] = {}
    if live_store() is None:
        past = history()
        if past is None:
            _put(found, LIVE, event_log())
        else:
            _put(found, HISTORY, past)
        return found
    _put(found, LIVE, event_log())
    try:
        past = history()
        if past is not None:
            _put(found, HISTORY, past)
    except AppError as error:
        st.warning(f"The history is not shown. {md(error, 1_000)}", icon=":material/inventory_2:")
    return found


def chosen_source() -> Source | None:
    """The one that a page shows; None where nothing is known. Lets people choose where there are both, and says where
    the events come from where that is not the event log."""
    found = sources()
    if not found:
        return None
    name = next(iter(found))
    if len(found) > 1:
        picked = st.segmented_control(
            "Events of",
            list(found),
            default=name,
            required=True,
            key=PARAMETER,
            bind="query-params",
            help="The event log is what the process that watches keeps; the event store is what was ingested.",
        )
        name = picked if picked in found else name
    source = found[name]
    if name == HISTORY:
        tell(source)
    return source


def history_only() -> bool:
    """Whether nobody has watched here, and something was ingested. Raises AppError."""
    past = history() if live_store() is None else None
    return past is not None and past.span() is not None


def tell(source: Source) -> None:
    """Where the events of a history come from, and what is not known of it."""
    alerts = ""
    if live_store() is None:
        alerts = (
            f" There is no database in {md(settings().store.directory, 300)}: nothing is watched, no alert is known."
        )
    st.caption(
        f":material/inventory_2: History of the event store {md(history_place(), 300)}, which `clustercep ingest` "
        f"fills, up to {shown(source.span[1])}.{alerts}"
    )


def not_read() -> str:
    """What a page without events says of an event store that pages do not read; "" where there is none such."""
    if is_history_here():
        return ""
    return (
        f" The event store {md(history_place(), 300)} is not on this machine: pages do not read it, `clustercep query` "
        "and `clustercep report` do."
    )


def _put(found: dict[str, Source], name: str, events: EventSource) -> None:
    span = events.span()
    if span is not None:
        found[name] = Source(name, events, span)


__all__ = [
    "HISTORY",
    "LIVE",
    "PARAMETER",
    "EventSource",
    "Source",
    "chosen_source",
    "history_only",
    "not_read",
    "sources",
    "tell",
]
