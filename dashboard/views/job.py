"""One job: facts, alerts, its attempts over time, life times and queued data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.store.subject import application_of
from dashboard import links
from dashboard.charts.axes import TimeAxis
from dashboard.charts.drawn import draw
from dashboard.charts.job_curves import KIND_NAMES, life_time_chart, progress_chart
from dashboard.charts.job_timeline import attempt_chart, density_chart
from dashboard.charts.marks import AlertMark, Threshold, marks_caption
from dashboard.cluster.bins import bins_over, occupancy
from dashboard.cluster.data import natural_key
from dashboard.events.source import HISTORY, LIVE, PARAMETER, Source, sources, tell
from dashboard.jobs.alerts import alerts_of_application, alerts_of_job, show_alerts
from dashboard.jobs.application import show_application
from dashboard.jobs.attempt_table import show_all, show_earlier, show_unusual
from dashboard.jobs.curves import begun_and_finished, life_times
from dashboard.jobs.data import (
    STRAGGLER_OTHERS,
    STRAGGLER_RULE,
    chosen_attempts,
    lanes,
    limit_of_kind_ms,
    stragglers,
)
from dashboard.jobs.fetches import blamed, show_fetches
from dashboard.jobs.findings import chosen_findings, show_findings
from dashboard.jobs.heuristics import judge
from dashboard.jobs.list import QUIET, RUNNING
from dashboard.jobs.queued import show_queued
from dashboard.jobs.reading import JobEvents, read_job, read_jobs
from dashboard.jobs.unusual import unusual
from dashboard.on_sight import on_sight
from dashboard.static_table import show_facts
from dashboard.store import AlertFilter, live_store, settings
from dashboard.text import inert, md
from dashboard.times import duration, shown, zone
from dashboard.views.jobs import SIGNS

REFRESH_S = 10
MANY_ATTEMPTS, MANY_REFRESH_S = 2_000, 60
"""A job of many attempts is a page of more than a megabyte: it is read again less often."""
MAX_STRAGGLER_ALERTS = 10_000
MAX_BARS = 250
MAX_DENSITY_ROWS = 80
MAX_DENSITY_COLUMNS = 120
MAX_COMPARED = 5
ATTEMPTS_PX, CURVE_PX = 500, 400
"""What sections take, about; see `on_sight`."""
RULE = "the page's rule for stragglers"

COMPARE = "compare"
CLOCK, SINCE = "clock", "since the job's start"


def page() -> None:
    """The job or application that ?id= names; one that runs is read again every few seconds."""
    job_id = st.query_params.get("id", "")
    found = _found(job_id) if job_id else None
    if found is None:
        # Alerts about an application of YARN lead to the job that it would be.
        if not job_id or not show_application(application_of(job_id) or job_id):
            _unknown(job_id)
        return
    source, job = found
    if not job.is_running:
        _job(job, source)
        return

    just_read = [job]

    def again() -> None:
        now = just_read.pop() if just_read else read_job(source.events, job_id)
        if now is None or not now.is_running:
            st.rerun()
        else:
            _job(now, source)

    st.fragment(again, run_every=_refresh_s(job))()


def _found(job_id: str) -> tuple[Source, JobEvents] | None:
    """The job where the address looks for it, else in whatever knows it: the event log first."""
    known = sources()
    first = [known[name] for name in st.query_params.get_all(PARAMETER) if name in known]
    for source in dict.fromkeys([*first, *known.values()]):
        job = read_job(source.events, job_id)
        if job is not None:
            return source, job
    return None


def _refresh_s(found: JobEvents) -> int:
    return REFRESH_S if len(found.attempts) <= MANY_ATTEMPTS else MANY_REFRESH_S


def _unknown(job_id: str) -> None:
    st.title("Job")
    if not job_id:
        st.info("Which job? Choose one from the list.", icon=":material/work:")
    else:
        st.warning(
            f"No job {md(job_id, 100)} is known. It may be misspelt (ids look like job_1700000000000_0001), "
            "not have begun yet, or have ended longer ago than store.retention.events keeps: `clustercep ingest` "
            "brings its history back.",
            icon=":material/search_off:",
        )
        show_alerts(alerts_of_job(job_id) or alerts_of_application(job_id, None, None), "job")
    links.link("jobs", "All jobs", icon=":material/work_history:")


def _job(found: JobEvents, source: Source) -> None:
    alerts = alerts_of_job(str(found.job["job_id"]))
    _header(found, source)
    show_alerts(alerts, "job")
    found = replace(found, attempts=found.attempts.join(unusual(found.attempts)))
    if not len(found.attempts):
        st.info(
            "Nothing is known of this job's attempts. They come from the job history, the REST interface or the logs "
            "of containers: see the page Health.",
            icon=":material/hourglass_empty:",
        )
        return
    show_unusual(found.attempts)
    jobs = read_jobs(source.events).table
    show_earlier(found, source, jobs)
    axis = _axis(found)
    marks = [
        AlertMark(alert.onset_ms, alert.severity, alert.query, alert.summary)
        for alert in alerts
        if axis.from_ms <= alert.onset_ms <= axis.to_ms
    ]
    job_id = str(found.job["job_id"])
    if blame := blamed(alerts, found.pulls):
        show_fetches(job_id, found.pulls, blame, axis, marks)
    st.subheader("Attempts by host", anchor=False)
    on_sight(f"attempts-{job_id}", ATTEMPTS_PX, lambda: _attempts(found, axis, marks))
    st.subheader("Attempts begun and finished", anchor=False)
    on_sight(f"progress-{job_id}", CURVE_PX, lambda: _progress(found, axis, marks))
    st.subheader("Queued data", anchor=False)
    on_sight(f"queued-{job_id}", CURVE_PX, lambda: show_queued(found, axis, marks, alerts))
    if not blame:
        show_fetches(job_id, found.pulls, {}, axis, marks)
    st.subheader("Life times", anchor=False)
    on_sight(f"lives-{job_id}", CURVE_PX, lambda: _life_times(found, source, jobs))
    if found.is_running:
        _heuristics_so_far(found, source)
    elif found.job["state"] != QUIET:
        _heuristics(found, source)


def _header(found: JobEvents, source: Source) -> None:
    job = found.job
    st.title(md(_known(job["job_name"]), 120))
    st.markdown(f"{md(SIGNS.get(job['state'], job['state']))} · {md(job['job_id'], 80)}")
    if job["state"] == RUNNING:
        st.caption(f"Known up to {shown(found.known_until_ms)}; read again every {_refresh_s(found)} s.")
    elif job["state"] == QUIET:
        st.caption(f"No end has been seen; the last sign of life was at {shown(int(job['seen_ms']))}.")
    if source.name == HISTORY:
        tell(source)
    start = "—" if pd.isna(job["start_lo_ms"]) else shown(int(job["start_lo_ms"]))
    counts = found.attempts["status"].value_counts()
    facts = (
        ("User", inert(_known(job["user"]), 60)),
        ("Queue", inert(_known(job["queue"]), 60)),
        ("Start", start if job["start_seen"] else f"{start} (computed)"),
        ("Duration", duration(None if pd.isna(job["duration_ms"]) else int(job["duration_ms"]))),
        ("Maps", _number(job["n_maps"])),
        ("Reduces", _number(job["n_reduces"])),
        ("Attempts", f"{len(found.attempts):,}"),
        ("Failed, killed", f"{counts.get('FAILED', 0):,}, {counts.get('KILLED', 0):,}"),
    )
    show_facts(facts)
    elsewhere = links.job_links(str(job["job_id"]))
    with st.container(horizontal=True):
        links.link("jobs", "All jobs", icon=":material/work_history:")
        if pd.notna(job["job_name"]):
            links.link("jobs", "Jobs of this name", icon=":material/history:", name=str(job["job_name"])[:200])
        begin, end = (int(edge) for edge in found.span_ms)
        meanwhile: dict[str, Any] = {"from": begin, "to": end, PARAMETER: None if source.name == LIVE else source.name}
        links.link("cluster", "The cluster meanwhile", icon=":material/dns:", **meanwhile)
        for label, url in elsewhere:
            st.link_button(md(label, 60), url, icon=":material/open_in_new:", type="tertiary")


def _axis(found: JobEvents) -> TimeAxis:
    chosen = st.segmented_control(
        "Time axis", [CLOCK, SINCE], default=CLOCK, required=True, key="axis", bind="query-params"
    )
    start = found.span_ms[0] if pd.isna(found.job["start_lo_ms"]) else float(found.job["start_lo_ms"])
    since = start if chosen == SINCE else None
    return TimeAxis(*found.drawn_ms, zone().key, since, "the job's start")


def _attempts(found: JobEvents, axis: TimeAxis, marks: Sequence[AlertMark]) -> None:
    table = found.attempts
    judged = stragglers(table, _named(str(found.job["job_id"])))
    why = [inert(text, 120) for text in judged["why"]]
    table = table.assign(straggler=why, mean_others_ms=judged["mean_others_ms"], limit_ms=judged["limit_ms"])
    drawn = chosen_attempts(table, table["straggler"] != "", MAX_BARS)
    if drawn.left_out:
        _density(table, axis)
        left = ", ".join(f"{n:,} {md(status.lower())}" for status, n in drawn.left_out.items())
        st.caption(
            f"Of {drawn.n_all:,} attempts {len(drawn.attempts):,} are drawn one by one below: stragglers first, then "
            f"those that failed, were killed or have no end, then the longest. Not drawn: {left}. The density above "
            "counts all of them."
        )
    draw(
        attempt_chart(drawn.attempts.assign(lane=lanes(drawn.attempts)), axis, marks),
        alt="Attempts of the job as bars over time, by host",
    )
    n_stragglers = int((table["straggler"] != "").sum())
    st.caption(
        f"{n_stragglers:,} straggler{'' if n_stragglers == 1 else 's'}. {STRAGGLER_RULE} A tick on its bar is "
        f"where it passed that. {marks_caption(marks)} Marks at the end: a cross "
        "failed, a square was killed, a triangle still runs or has no end; without a mark it succeeded. Attempts of a "
        "host at one time stand beneath each other; pale ends are times known only to lie in an interval."
    )
    show_all(table)


def _named(job_id: str) -> dict[str, set[str]]:
    """Attempts that alerts of straggler queries name, each with those queries; one of a task marks no attempt of it."""
    patterns = settings().dashboard.straggler_queries
    alerts = live_store()
    if alerts is None:
        return {}
    queries = tuple(name for name in alerts.query_names() if any(fnmatchcase(name, pattern) for pattern in patterns))
    named: dict[str, set[str]] = {}
    if not queries:
        return named
    for alert in alerts.alerts(AlertFilter(job_id=job_id, queries=queries, limit=MAX_STRAGGLER_ALERTS)):
        if attempt := {**alert.values, **alert.key}.get("attempt_id"):
            named.setdefault(str(attempt), set()).add(alert.query)
    return named


def _density(table: pd.DataFrame, axis: TimeAxis) -> None:
    hosts = sorted({str(host) for host in table["host"].dropna()}, key=natural_key)
    bins = bins_over(int(axis.from_ms), int(axis.to_ms), 1_000, MAX_DENSITY_COLUMNS)
    per_row = max(1, -(-len(hosts) // MAX_DENSITY_ROWS))
    names = [
        hosts[first] if per_row == 1 else f"{inert(hosts[first], 30)} +{len(hosts[first : first + per_row]) - 1}"
        for first in range(0, len(hosts), per_row)
    ]
    place = {host: index // per_row for index, host in enumerate(hosts)}
    known = table[table["host"].notna()]
    row = np.asarray(known["host"].map(place), np.int64)
    lo_ms, hi_ms = (known[name].to_numpy(np.float64).astype(np.int64) for name in ("start_lo_ms", "end_hi_ms"))
    draw(
        density_chart(occupancy(bins, row, len(names), lo_ms, hi_ms), names, bins, axis),
        alt="How many attempts each host runs over time",
    )


def _progress(found: JobEvents, axis: TimeAxis, marks: Sequence[AlertMark]) -> None:
    curves = begun_and_finished(found.attempts, found.known_until_ms)
    draw(progress_chart(curves, axis, marks), alt="Cumulative number of attempts begun and finished over time")


def _life_times(found: JobEvents, source: Source, jobs: pd.DataFrame) -> None:
    job_id = str(found.job["job_id"])
    lives = [life_times(found.attempts).assign(job=inert(job_id, 80))]
    for other in _compared(found, jobs):
        events = read_job(source.events, other)
        if events is not None:
            lives.append(life_times(events.attempts).assign(job=inert(other, 80)))
    together = pd.concat([part for part in lives if len(part)] or lives[:1], ignore_index=True)
    columns = st.columns(2)
    for column, (kind, name) in zip(columns, KIND_NAMES.items(), strict=True):
        part = together[together["kind"] == kind]
        if len(part):
            limit_ms = limit_of_kind_ms(found.attempts, kind)
            limits = [] if limit_ms is None else [Threshold(RULE, limit_ms / 1000, duration(round(limit_ms)))]
            draw(life_time_chart(part, name, limits), place=column, alt=f"Share of {name} that ran at most so long")
        else:
            column.info(f"No {name} have succeeded{' yet' if found.is_running else ''}.", icon=":material/timer:")
    st.caption(
        "Attempts that succeeded; what runs, failed or was killed is left out. A dashed line is where the page's rule "
        f"begins to call an attempt a straggler; it takes {STRAGGLER_OTHERS} that succeeded."
    )


def _heuristics(found: JobEvents, source: Source) -> None:
    """What Dr. Elephant's heuristics say of a job that has ended."""
    st.subheader("Heuristics", anchor=False)
    judgement = judge(source.events, found)
    findings = chosen_findings(judgement)
    for gap in judgement.gaps:
        st.caption(f"Note: {md(gap, 300)}")
    if any(finding.note.startswith("not known") for finding in findings):
        st.caption(
            "What is not known needs the counters of attempts and the job's configuration: they are kept from when "
            f"{md('sources.job_history.counters')} is set; {md('clustercep ingest')} reads those of earlier jobs for "
            f"{md('clustercep report job')}."
        )
    if findings:
        show_findings(findings)


def _heuristics_so_far(found: JobEvents, source: Source) -> None:
    """What the corrected heuristics say of the tasks of a running job that have succeeded."""
    judgement = judge(source.events, found)
    if not judgement.corrected:
        return  # nothing is done yet
    st.subheader("Heuristics so far", anchor=False)
    for gap in judgement.gaps:
        st.caption(f"Note: {md(gap, 300)}")
    show_findings(judgement.corrected)


def _compared(found: JobEvents, jobs: pd.DataFrame) -> list[str]:
    """Other jobs to compare with: those of the same name and user first."""
    job = found.job
    same = (jobs["job_name"] == job["job_name"]) & (jobs["user"] == job["user"])
    others = jobs.assign(same=same)[jobs["job_id"] != job["job_id"]].sort_values("same", ascending=False, kind="stable")
    names = dict(zip(others["job_id"], others["job_name"], strict=True))
    wanted = [name for name in st.query_params.get_all(COMPARE) if name in names][:MAX_COMPARED]
    options = list(dict.fromkeys([*wanted, *list(names)[:1_000]]))
    return st.multiselect(
        "Compare with",
        options,
        default=wanted,
        format_func=lambda name: f"{inert(name, 60)} {inert(_known(names.get(name)), 60)}",
        max_selections=MAX_COMPARED,
        key=f"job-{COMPARE}",
        placeholder="Other jobs, those of the same name first",
        on_change=_compare_in_url,  # ids there, not the labels that a bound widget would write
    )


def _compare_in_url() -> None:
    st.query_params[COMPARE] = st.session_state[f"job-{COMPARE}"]


def _known(value: object) -> str:
    return "—" if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)) else str(value)


def _number(value: object) -> str:
    return _known(value) if _known(value) == "—" else f"{int(float(str(value))):,}"


__all__ = ["page"]
