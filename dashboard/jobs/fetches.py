"""What reducers fetched from which host: in words where that explains an alert, then as bars and in a table."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app.durations import format_duration
from dashboard.charts.axes import TimeAxis
from dashboard.charts.drawn import draw
from dashboard.charts.job_timeline import fetch_chart, fetches_px
from dashboard.charts.marks import AlertMark
from dashboard.jobs.data import fetches_by_host
from dashboard.on_demand import on_demand
from dashboard.on_sight import AROUND_PX, on_sight
from dashboard.static_table import show_table
from dashboard.store import AlertRow
from dashboard.text import inert, md
from dashboard.units import duration_texts, size_texts

MAX_FETCHES = 500
MAX_FETCH_HOSTS = 20
MAX_TABLE_ROWS = 100
MAX_EXPLAINED = 5

SOURCE_HOST = "source_host"
"""The value by which an alert names the host that served a fetch."""


def blamed(alerts: Sequence[AlertRow], pulls: pd.DataFrame) -> dict[str, list[str]]:
    """Hosts that served fetches of this job and that alerts name as their source, each with those alerts' queries."""
    served = set(pulls[SOURCE_HOST].dropna())
    found: dict[str, list[str]] = {}
    for alert in alerts:
        host = {**alert.key, **alert.values}.get(SOURCE_HOST)
        if isinstance(host, str) and host in served and alert.query not in found.setdefault(host, []):
            found[host].append(alert.query)
    return found


def explanation(host: str, queries: Sequence[str], pulls: pd.DataFrame) -> str:
    """`**node5** (alert data-pull-straggler) served 12 fetches, in the median in 4 s; the other hosts 120, in 11 ms:
    363.6 times as long.`"""
    own = pulls[pulls[SOURCE_HOST] == host]["period_ms"].dropna()
    others = pulls[pulls[SOURCE_HOST] != host]["period_ms"].dropna()
    told = f"**{md(host, 60)}** (alert {', '.join(md(name, 60) for name in queries)}) served"
    if not len(own):
        return f"{told} fetches of unknown duration."
    told += f" {len(own):,} fetch{'' if len(own) == 1 else 'es'}, in the median in {_median(own)}"
    if not len(others):
        return f"{told}; no fetch from another host is known to compare with."
    times = float(own.median()) / max(float(others.median()), 1.0)  # a log tells milliseconds
    return f"{told}; the other hosts {len(others):,}, in {_median(others)}: {times:,.1f} times as long."


def show_fetches(
    job_id: str, pulls: pd.DataFrame, blame: dict[str, list[str]], axis: TimeAxis, marks: Sequence[AlertMark] = ()
) -> None:
    """The section; nothing where no fetch is known."""
    if not len(pulls):
        return
    st.subheader("Fetches by source host", anchor=False)
    for host, queries in list(blame.items())[:MAX_EXPLAINED]:
        st.markdown(explanation(host, queries, pulls))
    by_host = fetches_by_host(pulls)
    is_blamed = by_host[SOURCE_HOST].isin(set(blame))
    by_host = pd.concat([by_host[is_blamed], by_host[~is_blamed]], ignore_index=True)
    hosts = by_host[SOURCE_HOST].tolist()[:MAX_FETCH_HOSTS]
    longest = pulls.sort_values("period_ms", ascending=False, kind="stable")
    drawn = longest[longest[SOURCE_HOST].fillna("").isin(hosts)].head(MAX_FETCHES)
    on_sight(
        f"fetches-{job_id}",
        fetches_px(len(hosts)) + AROUND_PX,
        lambda: draw(
            fetch_chart(drawn, hosts, axis, frozenset(blame), marks),
            alt="Fetches of map output over time, by the host that served them",
        ),
    )
    marked = "▶ marks hosts that alerts name. " if blame else ""
    if len(drawn) < len(pulls):
        st.caption(
            f"{marked}The {len(drawn):,} longest of {len(pulls):,} fetches, from {len(hosts)} of {len(by_host):,} "
            "hosts, those that alerts name and the slowest; the table counts all."
        )
    elif marked:
        st.caption(marked.strip())
    if blame:
        _table(by_host, blame)
    else:
        on_demand(
            "Fetches by source host as a table", "fetches", lambda: _table(by_host, blame), icon=":material/table_rows:"
        )


def _table(by_host: pd.DataFrame, blame: dict[str, list[str]]) -> None:
    top = by_host.head(MAX_TABLE_ROWS)
    show_table(
        {
            "Served by": [
                f"{'▶ ' if host in blame else ''}{inert(host, 80) or 'unknown'}" for host in top[SOURCE_HOST]
            ],
            "Fetches": [f"{n:,}" for n in top["n_fetches"]],
            "Size": size_texts(top["bytes"]),
            "Median": duration_texts(top["median_ms"]),
            "Longest": duration_texts(top["longest_ms"]),
            "Per second": size_texts(top["bytes_per_s"]),
        },
        label="Fetches by source host",
        numbers=("Fetches", "Size", "Median", "Longest", "Per second"),
    )
    if len(by_host) > len(top):
        st.caption(f"The first {len(top):,} of {len(by_host):,} hosts.")


def _median(periods_ms: pd.Series) -> str:
    return format_duration(float(periods_ms.median()))


__all__ = ["blamed", "explanation", "show_fetches"]
