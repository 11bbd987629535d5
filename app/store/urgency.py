"""Open alerts as somebody on call works them off: by state, severity and the time that they were raised.

All that is open is sorted: it is counted anew every few seconds anyway. What is over is read by
`app.store.alert_pages`, whatever its number.
"""

from __future__ import annotations

import heapq
from itertools import islice

from sqlalchemy import ColumnElement, case
from sqlalchemy.orm import Session

from app.settings import Severity
from app.store import alert_pages
from app.store.alert_pages import MAX_ROWS, AlertFilter
from app.store.models import AlertRow
from app.store.states import OPEN_STATES


def most_urgent(session: Session, wanted: AlertFilter) -> list[AlertRow]:
    """`wanted.limit` alerts from `wanted.offset` on: firing, acknowledged, silenced, over; of each the most severe
    first, then the last raised (of those at once the last begun, then the greatest id).
    """
    last = min(wanted.offset, MAX_ROWS) + min(wanted.limit, MAX_ROWS)
    state, severity = _state_rank(), _severity_rank()
    found = []
    for places in alert_pages.places_of(session, wanted):
        statement = places.add_columns(state, severity, AlertRow.raised_ms)
        descending = (AlertRow.raised_ms, AlertRow.start_ms, AlertRow.id)
        ordered = statement.order_by(state, severity, *(column.desc() for column in descending)).limit(last)
        found.append(
            [
                ((-state_rank, -severity_rank, raised_ms, start_ms, alert_id), (start_ms, alert_id))
                for start_ms, alert_id, state_rank, severity_rank, raised_ms in session.execute(ordered)
            ]
        )
    merged = heapq.merge(*found, reverse=True)
    return alert_pages.rows_at(session, [place for _, place in islice(merged, wanted.offset, last)])


def _state_rank() -> ColumnElement[int]:
    """Silenced ones behind those that somebody is to look at."""
    is_open = AlertRow.state.in_(OPEN_STATES)
    named = [(AlertRow.state == state, rank) for rank, state in enumerate(OPEN_STATES)]
    return case((is_open & AlertRow.silenced.is_(True), len(named)), *named, else_=len(named) + 1)


def _severity_rank() -> ColumnElement[int]:
    ranks = {severity.value: rank for rank, severity in enumerate(reversed(Severity))}
    return case(ranks, value=AlertRow.severity, else_=len(ranks))
