"""What the store knows of each query: alerts, report rows, matches, and the engine's figures of the live process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from app.store.states import OPEN_STATES
from dashboard.store import AlertFilter, store

AT_MOST = 10_000
"""Counting stops here: more is shown as 10,000+."""


@dataclass(frozen=True, slots=True)
class Figures:
    """None: not known. `n_events`, `n_kept`, `n_rejected`, `n_unfinished` (searches that
    the work budget stopped) and `seconds` count since the process started."""

    n_open: int
    n_alerts: int
    n_alerts_exact: bool
    n_reports: int
    n_rows: int
    n_matches: int
    n_events: int | None = None
    n_kept: int | None = None
    n_rejected: int | None = None
    n_unfinished: int | None = None
    seconds: float | None = None

    @property
    def alerts_text(self) -> str:
        """`1,234`, or `10,000+`."""
        return f"{self.n_alerts:,}{'' if self.n_alerts_exact else '+'}"


def query_figures(names: Sequence[str]) -> dict[str, Figures]:
    """By name; raises StoreError. What takes counting is up to ten seconds old."""
    status = store().process_status()
    live = {} if status is None else dict(status.value.get("queries") or {})
    n_reports, n_rows, n_matches = _stored_counts()
    found = {}
    for name in names:
        engine = live.get(name, {})
        (n_alerts, exact), n_open = _n_alerts(name), _n_open(name)
        found[name] = Figures(
            n_open=n_open,
            n_alerts=n_alerts,
            n_alerts_exact=exact,
            n_reports=n_reports.get(name, 0),
            n_rows=n_rows.get(name, 0),
            n_matches=n_matches.get(name, 0),
            n_events=engine.get("n_events"),
            n_kept=engine.get("n_kept"),
            n_rejected=engine.get("n_rejected"),
            n_unfinished=engine.get("n_unfinished"),
            seconds=engine.get("seconds"),
        )
    return found


def _n_open(name: str) -> int:
    return store().count_alerts(AlertFilter(queries=(name,), states=OPEN_STATES, merged=False), AT_MOST)[0]


@st.cache_data(ttl=10, show_spinner=False, max_entries=1_000)
def _n_alerts(name: str) -> tuple[int, bool]:
    return store().count_alerts(AlertFilter(queries=(name,), merged=False), AT_MOST)


@st.cache_data(ttl=10, show_spinner=False)
def _stored_counts() -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    rows: Counter[str] = Counter()
    matches: Counter[str] = Counter()
    for name, counted in (("rows", rows), ("matches", matches)):
        for row in store().statistics(name):
            counted[row.type] += row.value
    return store().n_reports_by_query(), dict(rows), dict(matches)


__all__ = ["AT_MOST", "Figures", "query_figures"]
