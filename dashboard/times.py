"""Times as the viewer reads them: in the zone of the browser, and spans that a URL carries without a zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from app.durations import format_duration
from collectors.time_units import DAY_MS, HOUR_MS, MINUTE_MS
from dashboard.store import now_ms

FROM, TO, LAST = "from", "to", "last"
"""Names in the URL; values are milliseconds, of the first two since the epoch."""

EARLIEST_MS, LATEST_MS = 0, 253_370_764_800_000
"""1970 to 9999: what a calendar can show."""

LATELY_MS = {"Last hour": HOUR_MS, "Last day": DAY_MS, "Last week": 7 * DAY_MS}

FOLLOWED_MS = {"15 minutes": 15 * MINUTE_MS, "hour": HOUR_MS, "6 hours": 6 * HOUR_MS, "day": DAY_MS}
"""Spans that go on with what is known."""

Span = tuple[int, int]
OpenSpan = tuple[int | None, int | None]


def zone() -> ZoneInfo:
    """The viewer's zone; UTC when the browser does not tell one."""
    try:
        return ZoneInfo(st.context.timezone or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo("UTC")


def local(time_ms: int) -> datetime:
    """A time in the viewer's zone; outside of the calendar the nearest time inside."""
    bounded_ms = min(max(time_ms, EARLIEST_MS), LATEST_MS)
    return datetime.fromtimestamp(0, UTC).astimezone(zone()) if bounded_ms == 0 else _exact(bounded_ms)


def shown(time_ms: int | None) -> str:
    """`2026-11-20 14:02:05`, in the viewer's zone; an em dash for none."""
    return "—" if time_ms is None else f"{local(time_ms):%Y-%m-%d %H:%M:%S}"


def exactly(time_ms: int | None) -> str:
    """As `shown`, with milliseconds."""
    return "—" if time_ms is None else local(time_ms).isoformat(sep=" ", timespec="milliseconds")[:23]


def duration(duration_ms: int | None) -> str:
    """`1 min 30 s`; an em dash for none, a minus sign before negative ones."""
    return "—" if duration_ms is None else format_duration(duration_ms)


def ago(time_ms: int | None, at_ms: int) -> str:
    """`2 min 3 s ago`; 'in …' for what lies ahead."""
    if time_ms is None:
        return "never"
    if time_ms > at_ms:
        return f"in {format_duration(time_ms - at_ms)}"
    return f"{format_duration(max(1_000, at_ms - time_ms))} ago"


def span_picker(key: str, default: Span) -> Span:
    """Two times to choose, bound to `?from=&to=`; `default` (both ends inclusive) where the URL names none."""
    from_ms, to_ms = _in_url(FROM), _in_url(TO)
    chosen = (default[0] if from_ms is None else from_ms, default[1] if to_ms is None else to_ms)
    _pick(key, chosen)
    if chosen[0] > chosen[1]:
        st.warning("The first time lies after the second one; both are exchanged.", icon=":material/swap_horiz:")
        return chosen[1], chosen[0]
    return chosen


def followed_span_picker(key: str, known: Span, default_ms: int) -> tuple[Span, bool]:
    """The last so many milliseconds of what is known, bound to `?last=`, or two times as in `span_picker`; and whether
    it follows."""
    from_ms, to_ms = _in_url(FROM), _in_url(TO)
    follows = from_ms is None and to_ms is None
    last_ms = min(_in_url(LAST) or default_ms, LATEST_MS) if follows else None
    with st.container(horizontal=True, vertical_alignment="center"):
        for label, length_ms in FOLLOWED_MS.items():
            kind: Literal["primary", "secondary"] = "primary" if length_ms == last_ms else "secondary"
            st.button(f"Last {label}", key=f"{key}-{length_ms}", type=kind, on_click=_follow, args=(length_ms,))
        others = st.popover("Other times", icon=":material/schedule:", width="content")
        told = st.container(width="content")
    if last_ms is None:
        with others:
            span = span_picker(key, known)
    else:
        span = (max(known[0], known[1] - last_ms), known[1])
        with others:
            _pick(key, span, keep=span)
    told.caption(f"{shown(span[0])} to {shown(span[1])} ({zone().key})")
    return span, follows


def open_span_picker(key: str) -> OpenSpan:
    """As `span_picker`, each end open where the URL names none."""
    chosen = (_in_url(FROM), _in_url(TO))
    with st.container(horizontal=True):
        for label, length_ms in LATELY_MS.items():
            st.button(label, key=f"{key}-{length_ms}", on_click=_lately, args=(length_ms,))
        st.button("Any time", key=f"{key}-any", on_click=_any_time, disabled=chosen == (None, None))
    _pick(key, chosen)
    if chosen[0] is not None and chosen[1] is not None and chosen[0] > chosen[1]:
        st.warning("The first time lies after the second one; both are exchanged.", icon=":material/swap_horiz:")
        return chosen[1], chosen[0]
    return chosen


def _pick(key: str, chosen: OpenSpan, keep: OpenSpan = (None, None)) -> None:
    """`keep`: what the address names from the first change on, beside the time that is changed."""
    for column, name, label, time_ms in zip(st.columns(2), (FROM, TO), ("From", "To"), chosen, strict=True):
        # The key holds the value: a URL with other times makes another widget, which starts with them.
        widget = f"{key}-{name}-{time_ms}"
        column.datetime_input(
            f"{label} ({zone().key})",
            value=None if time_ms is None else local(time_ms).replace(tzinfo=None),
            step=timedelta(minutes=1),
            format="YYYY-MM-DD",
            key=widget,
            on_change=_put_into_url,
            args=(name, widget, keep),
        )


def _put_into_url(name: str, widget: str, keep: OpenSpan = (None, None)) -> None:
    st.query_params.pop(LAST, None)
    for other, time_ms in zip((FROM, TO), keep, strict=True):
        if time_ms is not None:
            st.query_params[other] = str(time_ms)
    picked = st.session_state.get(widget)
    if picked is None:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = str(round(picked.replace(tzinfo=zone()).timestamp() * 1000))


def _lately(length_ms: int) -> None:
    _any_time()
    st.query_params[FROM] = str(now_ms() - length_ms)


def _follow(length_ms: int) -> None:
    _any_time()
    st.query_params[LAST] = str(length_ms)


def _any_time() -> None:
    for name in (FROM, TO, LAST):
        st.query_params.pop(name, None)


def _in_url(name: str) -> int | None:
    text = st.query_params.get(name, "")
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        return None
    return min(int(text), LATEST_MS)


def _exact(time_ms: int) -> datetime:
    seconds, ms = divmod(time_ms, 1_000)
    return datetime.fromtimestamp(seconds, zone()).replace(microsecond=ms * 1_000)
