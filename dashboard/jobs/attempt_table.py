"""Attempts as tables: those that are unusual, and all with their figures; and the job's earlier runs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
import streamlit as st

from dashboard.events.source import LIVE, Source
from dashboard.jobs.earlier import FIGURES, amounts, earlier_runs, times_median
from dashboard.jobs.reading import JobEvents
from dashboard.jobs.unusual import LEAST_PEERS, MEASURES, UNUSUAL_SCORE
from dashboard.links import url
from dashboard.on_demand import on_demand
from dashboard.static_table import Cell, Link, show_table
from dashboard.text import inert
from dashboard.times import local, shown
from dashboard.units import duration_texts, size_texts

MAX_UNUSUAL = 10
MAX_ROWS = 500

SIZES = frozenset({"input_bytes", "output_bytes", "memory_bytes"})
TIMES = frozenset({"duration_ms", "shuffle_ms", "sort_ms", "reduce_ms", "gc_ms", "cpu_ms"})


def by_unusual(table: pd.DataFrame) -> pd.DataFrame:
    """The most unusual first, then the longest; `table`: of jobs.data.attempts, with `score`."""
    return table.sort_values(["score", "duration_ms"], ascending=False, kind="stable")


def show_unusual(table: pd.DataFrame) -> None:
    """What is unusual about which attempts; nothing for a job of few attempts."""
    n_peers = table[table["status"] == "SUCCEEDED"]["kind"].value_counts()
    if not len(n_peers) or n_peers.max() < LEAST_PEERS:
        return
    st.subheader("Unusual attempts", anchor=False)
    found = by_unusual(table[table["score"] > 0])
    rule = (
        f"Figures of an attempt against those of the job's successful attempts of its kind, where there are at least "
        f"{LEAST_PEERS}: the score is the distance from their median in robust standard deviations (at least a tenth "
        f"of the median), and {UNUSUAL_SCORE:g} or more is unusual."
    )
    n_of_kind = {kind: int(n_peers.get(kind, 0)) for kind in sorted(table["kind"].unique())}
    left_out = "".join(
        f"{kind.capitalize()} attempts are not compared: {n:,} succeeded. "
        for kind, n in n_of_kind.items()
        if n < LEAST_PEERS
    )
    if not len(found):
        st.caption(f"None. {left_out}{rule}")
        return
    top = found.head(MAX_UNUSUAL)
    show_table(
        {
            "Attempt": [inert(name, 80) for name in top["attempt_id"]],
            "Host": _hosts(top),
            "Status": [inert(status, 30) for status in top["status"]],
            "Unusual": [inert(what, 600) for what in top["what"]],
            "Score": [f"{score:.1f}" for score in top["score"]],
        },
        label="Unusual attempts",
        numbers=("Score",),
    )
    more = (
        f"The {len(top):,} most unusual of {len(found):,}; the table below has all. " if len(found) > len(top) else ""
    )
    st.caption(f"{more}{left_out}{rule}")


def show_all(table: pd.DataFrame) -> None:
    """All attempts with their figures, the most unusual first."""
    on_demand("Attempts as a table", "attempts-table", lambda: _all(table), icon=":material/table_rows:")


def _all(table: pd.DataFrame) -> None:
    order = by_unusual(table)
    if len(order) > MAX_ROWS:
        st.caption(f"{MAX_ROWS:,} of {len(order):,} attempts: the most unusual, then the longest.")
    top = order.head(MAX_ROWS)
    figures = {measure.title: _texts(measure.column, top) for measure in MEASURES if _is_known(measure.column, top)}
    st.dataframe(
        pd.DataFrame(
            {
                "Attempt": [inert(name, 80) for name in top["attempt_id"]],
                "Host": _hosts(top),
                "Status": [inert(status, 30) for status in top["status"]],
                "Straggler": top["straggler"].to_numpy(),
                "Unusual": [inert(what, 600) for what in top["what"]],
                "Start": [local(int(time)) for time in top["start_lo_ms"]],
                **figures,
                "Mean of others": duration_texts(top["mean_others_ms"]),
                "Progress": top["progress"].to_numpy(),
            }
        ),
        hide_index=True,
        column_config={
            "Attempt": st.column_config.TextColumn(pinned=True),
            "Unusual": st.column_config.TextColumn(width="medium"),  # else cut to what its heading takes
            "Start": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss"),
            "Progress": st.column_config.NumberColumn(format="percent", help="As last sampled, until it succeeded."),
            "Memory": st.column_config.TextColumn(
                help="Physical memory at the attempt's end, where its counters are kept."
            ),
        },
        key="attempts",
    )


def show_earlier(found: JobEvents, source: Source, jobs: pd.DataFrame) -> None:
    """The job beside its earlier runs of the same name, of all `jobs`; nothing where there are none."""
    this = jobs[jobs["job_id"] == found.job["job_id"]]
    runs = earlier_runs(jobs, found.job)
    if not len(runs) or not len(this):
        return
    st.subheader("Earlier runs of this name", anchor=False)
    both = pd.concat([this, runs], ignore_index=True)  # rows of one table: columns keep their types
    sums = amounts(source.events, both)
    columns: dict[str, Iterable[Cell]] = {"Duration": duration_texts(both["duration_ms"].astype(float))}
    if sums is not None:
        of = {name: sums[name].reindex(both["job_id"]).tolist() for name in FIGURES}
        columns |= {
            "Records in": _counts(of["n_input_records"]),
            "Bytes in": size_texts(of["input_bytes"]),
            "Records out": _counts(of["n_output_records"]),
            "Bytes out": size_texts(of["output_bytes"]),
        }
    events = None if source.name == LIVE else source.name
    show_table(
        {
            "Run": ["this one", *["earlier"] * len(runs)],
            "Start": [None if pd.isna(time) else shown(int(time)) for time in both["start_lo_ms"]],
            "Status": [inert(state, 30) for state in both["state"]],
            **columns,
            "Maps": _counts(both["n_maps"].astype(float)),
            "Reduces": _counts(both["n_reduces"].astype(float)),
            "Job": [Link(inert(job_id, 80), url("job", id=job_id, events=events)) for job_id in both["job_id"]],
        },
        label="This run and earlier ones",
        numbers=(*columns, "Maps", "Reduces"),
    )
    told = [f"duration {_times(float(found.job['duration_ms']), runs['duration_ms'])}"]
    if sums is not None:
        own, others = sums.loc[str(found.job["job_id"])], sums.loc[runs["job_id"]]
        told += [
            f"records in {_times(float(own['n_input_records']), others['n_input_records'])}",
            f"bytes in {_times(float(own['input_bytes']), others['input_bytes'])}",
        ]
    known = [text for text in told if not text.endswith("—")]
    so = f"This run against the median of those before: {', '.join(known)}. " if known else ""
    st.caption(
        f"{so}Records and bytes in are what its successful mappers read, out what its last phase wrote; at most "
        f"{len(runs):,} runs before it by the same user."
    )


def _times(value: float, others: pd.Series) -> str:
    times = times_median(value, others)
    return "—" if np.isnan(times) else f"{times:,.2f} times"


def _is_known(column: str, table: pd.DataFrame) -> bool:
    return column in table and bool(table[column].notna().any())


def _texts(column: str, table: pd.DataFrame) -> list[str]:
    values = table[column].astype(float)
    if column in TIMES:
        return duration_texts(values)
    return size_texts(values) if column in SIZES else _counts(values)


def _counts(values: Iterable[float]) -> list[str]:
    return ["—" if pd.isna(value) else f"{value:,.0f}" for value in values]


def _hosts(table: pd.DataFrame) -> list[str]:
    return ["—" if pd.isna(host) else inert(host, 60) for host in table["host"]]


__all__ = ["by_unusual", "show_all", "show_earlier", "show_unusual"]
