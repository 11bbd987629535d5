"""A Spark application: facts, and what the heuristics find; and which applications there are."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import streamlit as st

from app.heuristics.judgement import Judgement
from app.heuristics.spark.figures import SparkFigures
from app.heuristics.spark.from_events import APPLICATION_TYPES, COLUMNS, OTHER_TYPES, application_figures
from app.heuristics.spark.judging import judged
from collectors.time_units import DAY_MS
from dashboard import links
from dashboard.events.source import HISTORY, PARAMETER, EventSource, Source, sources, tell
from dashboard.jobs.findings import chosen_findings, show_findings
from dashboard.static_table import show_facts
from dashboard.text import inert, md
from dashboard.times import duration, local, shown

SLACK_MS = 10 * 60_000
"""How far outside of its span an application's events are looked for: clocks differ."""
MAX_TASKS = 2_000_000
"""Tasks, of all applications in its span, that a page looks through."""
MAX_LISTED_EVENTS = 200_000
"""Starts and ends of applications of which a list is made."""

_LIST_COLUMNS = (
    "type", "t_lo_ms", "t_hi_ms", "application_id", "application_name", "user", "queue", "period_ms", "exit_code",
)  # fmt: skip


def show_application(application_id: str) -> bool:
    """The page of an application; False where no source knows it."""
    known = sources()
    first = [known[name] for name in st.query_params.get_all(PARAMETER) if name in known]
    for source in dict.fromkeys([*first, *known.values()]):
        ends = source.events.read(types=APPLICATION_TYPES, equal={"application_id": application_id}, columns=COLUMNS)
        if ends.num_rows:
            _show(application_id, source)
            return True
    return False


def judge(log: EventSource, application_id: str) -> Judgement[SparkFigures] | None:
    """An application by what the events tell of it; None where they are too many for a page."""
    mine = {"application_id": application_id}
    ends = log.read(types=APPLICATION_TYPES, equal=mine, columns=COLUMNS)
    told = ends.select(["type", "t_lo_ms", "t_hi_ms"]).to_pylist()
    starts = [row["t_lo_ms"] for row in told if row["type"] == "SparkApplicationStart"]
    over = [row["t_hi_ms"] for row in told if row["type"] == "SparkApplicationEnd"]
    from_ms = min(starts) - SLACK_MS if starts and len(starts) >= len(over) else None
    to_ms = max(over) + SLACK_MS if over and len(over) >= len(starts) else None
    if log.count(types=("SparkTaskEnd",), from_ms=from_ms, to_ms=to_ms) > MAX_TASKS:
        return None
    others = log.read(types=OTHER_TYPES, from_ms=from_ms, to_ms=to_ms, equal=mine, columns=COLUMNS)
    return judged(application_figures(application_id, pa.concat_tables([ends, others], promote_options="permissive")))


def applications(log: EventSource) -> pd.DataFrame:
    """Those that began or ended, the latest first: application_id, application_name, user, queue, start_ms, end_ms,
    exit_code; where they are very many, those of the last day alone."""
    span = log.span()
    many = log.count(types=APPLICATION_TYPES) > MAX_LISTED_EVENTS
    from_ms = span[1] - DAY_MS if many and span is not None else None
    found: dict[str, dict[str, object]] = {}
    for row in log.read(types=APPLICATION_TYPES, from_ms=from_ms, columns=_LIST_COLUMNS).to_pylist():
        own = found.setdefault(row["application_id"], {"start_ms": None, "end_ms": None, "exit_code": None})
        own |= {name: row.get(name) for name in ("application_name", "user", "queue")}
        if row["type"] == "SparkApplicationStart":
            own |= {"start_ms": row["t_lo_ms"], "end_ms": None, "exit_code": None}  # of an attempt, the last in order
        else:
            period_ms, start_ms = row.get("period_ms"), own["start_ms"]
            if start_ms is None and period_ms is not None:
                start_ms = row["t_hi_ms"] - period_ms
            own |= {"start_ms": start_ms, "end_ms": row["t_hi_ms"], "exit_code": row.get("exit_code")}
    rows = [{"application_id": name, **own} for name, own in found.items() if name is not None]
    names = ("application_id", "application_name", "user", "queue", "start_ms", "end_ms", "exit_code")
    return pd.DataFrame({name: pd.Series([row[name] for row in reversed(rows)], dtype=object) for name in names})


def applications_frame(found: pd.DataFrame) -> pd.DataFrame:
    """One line per application as it is shown."""
    starts = [None if start is None else local(int(start)) for start in found["start_ms"]]
    lives = [
        duration(None if start is None or end is None else int(end) - int(start))
        for start, end in zip(found["start_ms"], found["end_ms"], strict=True)
    ]
    return pd.DataFrame({
        "Status": [_status(end, code) for end, code in zip(found["end_ms"], found["exit_code"], strict=True)],
        "Application": [inert(name, 80) for name in found["application_id"]],
        "Name": [_text(name) for name in found["application_name"]],
        "User": [_text(name) for name in found["user"]],
        "Queue": [_text(name) for name in found["queue"]],
        "Start": pd.Series(starts, dtype=object if not any(starts) else None),
        "Duration": lives,
    })  # fmt: skip


def _show(application_id: str, source: Source) -> None:
    judgement = judge(source.events, application_id)
    if source.name == HISTORY:
        tell(source)
    if judgement is None:
        st.title("Spark application")
        st.info(
            f"{md(application_id, 80)} has run beside more tasks than a page can look through; "
            f"{md(f'clustercep report job {application_id}', 120)} judges it.",
            icon=":material/hourglass_empty:",
        )
        return
    app = judgement.figures
    st.title(md(_text(app.application_name), 120))
    st.markdown(f"{_status(app.end_ms, app.exit_code)} · Spark · {md(app.application_id, 80)}")
    known = app.end_ms if app.end_ms is not None else source.span[1]
    show_facts((
        ("User", inert(_text(app.user), 60)),
        ("Queue", inert(_text(app.queue), 60)),
        ("Start", "—" if app.start_ms is None else shown(app.start_ms)),
        ("Duration", duration(None if app.start_ms is None else max(0, known - app.start_ms))),
        ("Jobs", f"{len(app.jobs):,}"),
        ("Stages", f"{len(app.stages):,}"),
        ("Tasks ended", f"{sum(len(stage.tasks) for stage in app.stages):,}"),
        ("Executors", f"{len(app.executors):,}, {sum(one.is_lost for one in app.executors):,} lost"),
    ))  # fmt: skip
    with st.container(horizontal=True):
        links.link("jobs", "All jobs", icon=":material/work_history:")
        for label, url in links.application_links(app.application_id):
            st.link_button(md(label, 60), url, icon=":material/open_in_new:", type="tertiary")
    st.subheader("Heuristics" if app.end_ms is not None else "Heuristics so far", anchor=False)
    for gap in judgement.gaps:
        st.caption(f"Note: {md(gap, 300)}")
    findings = chosen_findings(judgement) if app.end_ms is not None else judgement.corrected
    if findings:
        show_findings(findings)


def _status(end_ms: object, exit_code: object) -> str:
    if end_ms is None:
        return "▶ no end seen"
    if exit_code is None:
        return "✓ ended"
    return "✓ ended" if exit_code == 0 else f"✕ exit code {exit_code}"


def _text(value: object) -> str:
    return "—" if value is None else inert(value)


__all__ = ["applications", "applications_frame", "judge", "show_application"]
