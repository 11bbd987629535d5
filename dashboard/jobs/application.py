"""A Spark application: facts, alerts, and what the heuristics find; and which applications there are."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from app.heuristics.judgement import Judgement
from app.heuristics.spark.figures import SparkFigures
from app.heuristics.spark.from_events import APPLICATION_TYPES, COLUMNS, OTHER_TYPES, application_figures
from app.heuristics.spark.judging import judged
from collectors.time_units import DAY_MS
from dashboard import links
from dashboard.events.source import HISTORY, PARAMETER, EventSource, Source, sources, tell
from dashboard.jobs.alerts import alerts_of_application, show_alerts
from dashboard.jobs.findings import chosen_findings, show_findings
from dashboard.jobs.list import QUIET_MS
from dashboard.static_table import show_facts
from dashboard.text import inert, md
from dashboard.times import duration, local, shown

SLACK_MS = 10 * 60_000
"""How far outside of its span an application's events are looked for: clocks differ."""
MAX_TASKS = 2_000_000
"""Tasks, of all applications in its span, that a page looks through."""
REFRESH_S = 10
QUIET_REFRESH_S = 60
"""Of one of which nothing was heard for long, and of one with more than SOME_TASKS."""
SOME_TASKS, MANY_TASKS = 5_000, 100_000
"""One with more than MANY_TASKS is not read again by itself: it takes seconds."""
MAX_LISTED_EVENTS = 200_000
"""Starts and ends of applications of which a list is made."""

_LIST_COLUMNS = (
    "type", "t_lo_ms", "t_hi_ms", "application_id", "application_name", "user", "queue", "period_ms", "exit_code",
)  # fmt: skip


@dataclass(frozen=True)
class ReadApplication:
    """What the events tell of one application so far."""

    judgement: Judgement[SparkFigures]
    seen_ms: int
    """Its latest event."""
    known_until_ms: int
    """Up to when anything is known of anything."""

    @property
    def application(self) -> SparkFigures:
        """Its figures."""
        return self.judgement.figures

    @property
    def has_ended(self) -> bool:
        """Whether nothing more is to be expected."""
        return self.application.end_ms is not None

    @property
    def n_tasks(self) -> int:
        """Tasks that have ended."""
        return sum(len(stage.tasks) for stage in self.application.stages)

    @property
    def is_quiet(self) -> bool:
        """Without an end, and nothing was heard of it for long: its tasks may take so long, or it was killed."""
        return not self.has_ended and self.known_until_ms - self.seen_ms > QUIET_MS


def show_application(application_id: str) -> bool:
    """The page of an application, which is read again as long as no end of it is known; False where no source knows
    it."""
    source = _source_of(application_id)
    if source is None:
        return False
    first = read_application(source.events, application_id)
    refresh_s = None if first is None or first.has_ended or not source.events.is_live else _refresh_s(first)
    if first is None:
        _too_many_tasks(application_id, source)
    elif refresh_s is None:
        _show(first, source, None)
    else:
        just_read = [first]

        def again() -> None:
            now = just_read.pop() if just_read else read_application(source.events, application_id)
            if now is None or now.has_ended:
                st.rerun()
            else:
                _show(now, source, refresh_s)

        st.fragment(again, run_every=refresh_s)()
    return True


def _source_of(application_id: str) -> Source | None:
    """Where the address looks for it, else whatever knows it: the event log first."""
    known = sources()
    first = [known[name] for name in st.query_params.get_all(PARAMETER) if name in known]
    mine = {"application_id": application_id}
    for source in dict.fromkeys([*first, *known.values()]):
        if source.events.read(types=APPLICATION_TYPES, equal=mine, columns=("type",)).num_rows:
            return source
    return None


def _refresh_s(found: ReadApplication) -> int | None:
    """None: to read it again and again would be too much."""
    if found.n_tasks > MANY_TASKS:
        return None
    return QUIET_REFRESH_S if found.is_quiet or found.n_tasks > SOME_TASKS else REFRESH_S


def read_application(log: EventSource, application_id: str) -> ReadApplication | None:
    """An application that the log knows; None where there are too many tasks to look through for a page."""
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
    events = pa.concat_tables([ends, others], promote_options="permissive")
    seen_ms = int(pc.max(events.column("t_hi_ms")).as_py() or 0)
    span = log.span()
    return ReadApplication(
        judged(application_figures(application_id, events)), seen_ms, seen_ms if span is None else max(span[1], seen_ms)
    )


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


def _too_many_tasks(application_id: str, source: Source) -> None:
    if source.name == HISTORY:
        tell(source)
    st.title("Spark application")
    st.info(
        f"{md(application_id, 80)} has run beside more tasks than a page can look through; "
        f"{md(f'clustercep report job {application_id}', 120)} judges it.",
        icon=":material/hourglass_empty:",
    )
    show_alerts(alerts_of_application(application_id, None, None), "application")


def _show(found: ReadApplication, source: Source, refresh_s: int | None) -> None:
    """`refresh_s`: when it is read again; None: not by itself."""
    app = found.application
    _header(found, source, refresh_s)
    from_ms = None if app.start_ms is None else app.start_ms - SLACK_MS
    to_ms = None if app.end_ms is None else app.end_ms + SLACK_MS
    show_alerts(alerts_of_application(app.application_id, from_ms, to_ms), "application")
    st.subheader("Heuristics" if found.has_ended else "Heuristics so far", anchor=False)
    for gap in found.judgement.gaps:
        st.caption(f"Note: {md(gap, 300)}")
    findings = chosen_findings(found.judgement) if found.has_ended else found.judgement.corrected
    if findings:
        show_findings(findings)


def _header(found: ReadApplication, source: Source, refresh_s: int | None) -> None:
    app = found.application
    st.title(md(_text(app.application_name), 120))
    st.markdown(f"{_status(app.end_ms, app.exit_code)} · Spark · {md(app.application_id, 80)}")
    if source.name == HISTORY:
        tell(source)
    if not found.has_ended:
        told = [
            f"No end has been seen; the last sign of life was at {shown(found.seen_ms)}."
            if found.is_quiet
            else f"Known up to {shown(found.known_until_ms)}."
        ]
        if refresh_s is not None:
            told.append(f"Read again every {refresh_s} s.")
        elif source.events.is_live:
            told.append("It has so many tasks that it is read again only when the page is opened anew.")
        st.caption(" ".join(told))
    known_ms = app.end_ms if app.end_ms is not None else found.seen_ms if found.is_quiet else found.known_until_ms
    show_facts((
        ("User", inert(_text(app.user), 60)),
        ("Queue", inert(_text(app.queue), 60)),
        ("Start", "—" if app.start_ms is None else shown(app.start_ms)),
        ("Duration", duration(None if app.start_ms is None else max(0, known_ms - app.start_ms))),
        ("Jobs", f"{len(app.jobs):,}"),
        ("Stages", f"{len(app.stages):,}"),
        ("Tasks ended", f"{found.n_tasks:,}"),
        ("Executors", f"{len(app.executors):,}, {sum(one.is_lost for one in app.executors):,} lost"),
    ))  # fmt: skip
    with st.container(horizontal=True):
        links.link("jobs", "All jobs", icon=":material/work_history:")
        for label, url in links.application_links(app.application_id):
            st.link_button(md(label, 60), url, icon=":material/open_in_new:", type="tertiary")


def _status(end_ms: object, exit_code: object) -> str:
    if end_ms is None:
        return "▶ no end seen"
    if exit_code is None:
        return "✓ ended"
    return "✓ ended" if exit_code == 0 else f"✕ exit code {exit_code}"


def _text(value: object) -> str:
    return "—" if value is None else inert(value)


__all__ = ["ReadApplication", "applications", "applications_frame", "read_application", "show_application"]
