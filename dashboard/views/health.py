"""Is everything well: the process, its sources, what could not be read, the engine, the notifications, the storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from dashboard import login
from dashboard.figure_row import show_figures
from dashboard.health_figures import (
    Finding,
    Level,
    Observed,
    counters_frame,
    engine_frame,
    findings,
    is_ongoing,
    lag,
    late_frame,
    notifications_frame,
    problems_frame,
    process_status,
    receivers_frame,
    shedding_frame,
    silences_frame,
    size,
    sources_frame,
)
from dashboard.storage_figures import Storage, storage
from dashboard.store import (
    AppError,
    OverloadFigures,
    SentAgain,
    StoreError,
    now_ms,
    send_again,
    settings,
    store,
    watched,
)
from dashboard.text import md
from dashboard.times import duration, shown

REFRESH_S = 10
MAX_ROWS = 500
EVERY = "all"
UNKNOWN = "—"

_SHOW: dict[Level, Callable[..., object]] = {Level.ERROR: st.error, Level.WARNING: st.warning, Level.INFO: st.info}
_ICONS = {Level.ERROR: ":material/error:", Level.WARNING: ":material/warning:", Level.INFO: ":material/info:"}


def page() -> None:
    """All of it, again every ten seconds."""
    title, refresh = st.columns([3, 2], vertical_alignment="bottom")
    title.title("Health")
    refreshes = refresh.toggle(f"Refresh every {REFRESH_S} s", value=True, key="health-refresh")
    st.fragment(_body, run_every=REFRESH_S if refreshes else None)()


def _body() -> None:
    try:
        seen, kept = _observe()
    except StoreError as error:
        _unreadable(error)
        return
    _verdict(findings(seen))
    _process(seen)
    chosen = st.segmented_control(
        "Part",
        list(SECTIONS),
        default="Sources",
        required=True,
        key="part",
        label_visibility="collapsed",
        bind="query-params",
    )
    try:
        SECTIONS[chosen or "Sources"](seen, kept)
    except StoreError as error:
        _unreadable(error)


def _observe() -> tuple[Observed, Storage]:
    now, kept = settings(), storage()
    return Observed(
        now_ms=now_ms(),
        status=store().process_status(),
        sources=store().source_status(),
        n_notifications=store().n_notifications(),
        free_bytes=kept.free_bytes,
        total_bytes=kept.total_bytes,
        silence_timeout_ms=now.sources.silence_timeout_ms,
        watch=watched(store(), now_ms()),
        receivers=[row for row in store().receiver_status() if row.receiver in _enabled()],
    ), kept


def _enabled() -> list[str]:
    """The receivers that are told."""
    return [name for name, receiver in settings().alerting.receivers.items() if receiver.enabled]


def _unreadable(error: StoreError) -> None:
    st.error(f"The store cannot be read. {md(error, 1_000)}", icon=":material/error:")
    st.markdown(
        "What this means: this page and the others cannot show anything now. Nothing is lost by that: while the store "
        "cannot be written, the process keeps what it has read, tries again with every step, and continues from its "
        "last checkpoint after a restart.\n\n"
        "What to check:\n"
        "- Is the database there? For SQLite: the file in *store.directory*, its owner and the free disk; for "
        "PostgreSQL: the server, the network and the password (*store.url*).\n"
        "- Does something else lock it, such as a backup?\n"
        "- Does the process run? Its log and its endpoint */-/healthy* say so without the store."
    )
    st.button("Try again", icon=":material/refresh:", key="health-again")


def _verdict(found: Sequence[Finding]) -> None:
    if not found:
        st.success("Everything is well.", icon=":material/check_circle:")
    for finding in found:
        _SHOW[finding.level](md(finding.text, 2_000), icon=_ICONS[finding.level])


def _process(seen: Observed) -> None:
    if seen.status is None:
        return
    status = process_status(seen.status)
    watermark_ms, started_ms = status.get("watermark_ms"), status.get("started_ms")
    queues = status.get("queues") or {}
    ended = watermark_ms is not None and not is_ongoing(watermark_ms)
    figures = [
        ("Last step", duration(seen.now_ms - seen.status.updated_ms), f"Ago; at {shown(seen.status.updated_ms)}."),
        (
            "Behind",
            "at the end" if ended else lag(watermark_ms, seen.now_ms),
            "How old the watermark is: matching is done up to it, nothing before it is awaited any more.",
        ),
        ("Step takes", _seconds(status.get("step_seconds")), f"{status.get('n_steps', 0):,} steps since the start."),
        ("Waiting", _number(queues.get("waiting")), "Events before the watermark: they are matched once it passes."),
        ("Memory", size(status.get("memory_bytes")), "Of the process."),
    ]
    known = [figure for figure in figures if figure[1] != UNKNOWN]
    show_figures(known)
    state = "alive" if seen.watch.is_alive else "a recording" if seen.watch.is_replay else "no step lately"
    started = f"process {status.get('pid', '—')} started {shown(started_ms)}" if started_ms is not None else ""
    loaded_ms = status.get("loaded_ms")
    loaded = f"; settings and queries read {shown(loaded_ms)}" if loaded_ms is not None else ""
    watermark = f"; watermark {shown(watermark_ms)}" if is_ongoing(watermark_ms) else ""
    version = f"clustercep {md(status['version'])}" if "version" in status else ""
    st.caption(", ".join(filter(None, (state.capitalize(), version, started))) + loaded + watermark)


def _number(n: int | None) -> str:
    return UNKNOWN if n is None else f"{n:,}"


def _seconds(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else duration(round(1_000 * seconds))


# -------------------------------------------------------------------- sections


def _sources(seen: Observed, _: Storage) -> None:
    sources = settings().sources
    configured = [name for name in sources.precedence if getattr(sources, name).enabled]
    frame = sources_frame(seen.sources, configured, seen.watch)
    if frame.empty:
        st.info(
            "No source is enabled. Enable what your cluster has below sources in config.yaml, then reload.",
            icon=":material/input:",
        )
    else:
        st.dataframe(frame, hide_index=True, height="content", key="health-sources")
        st.caption(
            "A source that is left out has not answered for sources.silence_timeout, or more than "
            "sources.max_waiting_events waited for it: the others go on without it."
        )
    st.subheader("Events", help="Since the store began. Copies: the same event from another source.")
    counters = counters_frame(store().statistics())
    if counters.empty:
        st.info("No event has come yet.", icon=":material/hourglass_empty:")
        return
    st.dataframe(counters, hide_index=True, key="health-counters")
    st.subheader("Late events", help="They came after the watermark had passed them and took no part in matching.")
    late = store().late_events(MAX_ROWS)
    if late:
        st.dataframe(late_frame(late), hide_index=True, key="health-late")
        st.caption("If there are many: raise the lateness of their source.")
    else:
        st.info("No event was late.", icon=":material/check:")


def _problems(seen: Observed, _: Storage) -> None:
    del seen
    found = store().problems(MAX_ROWS)
    if not found:
        st.info("Nothing was rejected: every file and record could be read.", icon=":material/check:")
        return
    by_source, by_kind = st.columns(2)
    sources = sorted({problem.source for problem in found})
    kinds = sorted({problem.kind for problem in found})
    source = by_source.selectbox("Source", [EVERY, *sources], key="source", bind="query-params")
    kind = by_kind.selectbox("Kind", [EVERY, *kinds], key="kind", bind="query-params")
    chosen = [problem for problem in found if source in (EVERY, problem.source) and kind in (EVERY, problem.kind)]
    if not chosen:
        st.info("No problem of this source and kind. Choose others.", icon=":material/filter_alt_off:")
        return
    st.dataframe(
        problems_frame(chosen),
        hide_index=True,
        column_config={"What": st.column_config.TextColumn(width="large")},
        key="health-problems",
    )
    most = f"; the last {MAX_ROWS:,} only" if len(found) == MAX_ROWS else ""
    st.caption(
        f"{len(chosen):,} problems{most}. Each was counted once per place; the rest of its file was read on as far as "
        "that is possible."
    )


def _engine(seen: Observed, _: Storage) -> None:
    status = process_status(seen.status)
    queries = status.get("queries") or {}
    if not queries or seen.status is None:
        st.info(
            "The process has told no figures yet: they come with its first step.", icon=":material/hourglass_empty:"
        )
        return
    started_ms = status.get("started_ms")
    running_ms = None if started_ms is None else seen.status.updated_ms - started_ms
    st.dataframe(
        engine_frame(queries, running_ms),
        hide_index=True,
        height="content",
        column_config={
            "Share": st.column_config.ProgressColumn(format="percent", min_value=0.0, max_value=1.0),
            "Load": st.column_config.NumberColumn(format="percent", help="Of one processor, since the start."),
            "Kept": st.column_config.NumberColumn(help="Events that a match may still need.", format="localized"),
            "Left out": st.column_config.NumberColumn(help="Events without an exact time, where one is needed."),
        },
        key="health-engine",
    )
    if (overload := status.get("overload")) is not None:
        _overload(overload, sorted(queries))
    queues = status.get("queues") or {}
    labels = (
        ("intake", "Polls taken in", "Answers of sources that wait for the next step."),
        ("waiting", "Before the watermark", "Events that wait until nothing earlier can come."),
        ("recent", "Recent events", "Events that a match may still bind; alerts take their evidence from them."),
        ("outbox", "Outbox", "Notifications that wait to be delivered."),
    )
    st.subheader("Queues")
    values = [(queues.get(name), label, help_text) for name, label, help_text in labels]
    show_figures(
        [(label, _number(value if isinstance(value, int) else None), help_text) for value, label, help_text in values]
    )


def _overload(figures: OverloadFigures, queries: Sequence[str]) -> None:
    st.subheader("Latency", help="From when the watermark releases an event to when it has been evaluated.")
    achievable_ms = figures.get("achievable_ms")
    show_figures(
        [
            ("Bound", duration(figures["bound_ms"]), "engine.latency_bound."),
            ("Last", duration(round(figures["latency_ms"])), "Of the events that were evaluated last."),
            ("Longest", duration(round(figures["longest_ms"])), "Since the engine was made."),
            ("Shedding", "yes" if figures["is_shedding"] else "no", "Whether partial matches are being dropped."),
            *([] if achievable_ms is None else [("Achievable", duration(achievable_ms), "With everything dropped.")]),
        ]
    )
    st.dataframe(
        shedding_frame(figures, queries),
        hide_index=True,
        height="content",
        column_config={
            "Dropped": st.column_config.NumberColumn(
                help="Partial matches; where matches are postponed, events kept for them.", format="localized"
            ),
            "Matches missing": st.column_config.NumberColumn(
                help="Estimated: how many matches partial matches in the same states became.", format="localized"
            ),
            "Without estimate": st.column_config.NumberColumn(
                help="Of the dropped ones those of which nothing is known that they would have become.",
                format="localized",
            ),
        },
        key="health-overload",
    )


def _notifications(seen: Observed, _: Storage) -> None:
    frame = receivers_frame(seen.n_notifications, _enabled(), seen.receivers)
    if frame.empty:
        st.info(
            "Nobody is told of alerts. Name a webhook below alerting.receivers in config.yaml.",
            icon=":material/notifications_off:",
        )
    else:
        st.dataframe(frame, hide_index=True, height="content", key="health-receivers")
        st.caption("Overtaken: what a later notification of the same alert told while this one waited.")
    if any(status == "failed" for _, status in seen.n_notifications):
        _failed(seen)
    pending = store().notifications("pending", MAX_ROWS)
    if pending:
        st.subheader("Waiting")
        st.dataframe(notifications_frame(pending, seen.now_ms, pending=True), hide_index=True, key="health-pending")
    st.subheader("Silences")
    silences = store().silences(seen.now_ms)
    if silences:
        st.dataframe(silences_frame(silences, seen.now_ms), hide_index=True, key="health-silences")
    else:
        st.caption("None holds. An alert's page can silence its query for a time.")


def _failed(seen: Observed) -> None:
    failed = store().failed_notifications(MAX_ROWS)
    if not failed:
        return
    st.subheader("Given up")
    st.caption(
        "After alerting.receivers.NAME.give_up_after, or refused. Mend the receiver first, then send them again."
    )
    state = st.dataframe(
        notifications_frame(failed, seen.now_ms, pending=False),
        hide_index=True,
        on_select="rerun",
        selection_mode="multi-row",
        key="health-failed",
    )
    chosen = [failed[row] for row in state.selection.rows if row < len(failed)]
    everything: dict[str | None, list[str]] = {None: []}
    selected: dict[str | None, list[str]] = {}
    for row in chosen:
        selected.setdefault(row.receiver, []).append(row.idempotency_key)
    in_all, in_selected = _would_be_sent(everything), _would_be_sent(selected)
    if in_all.n_overtaken:
        st.caption(f"{in_all.n_overtaken:,} of them stay given up: there is a later notification of the same alert.")
    buttons = st.container(horizontal=True)
    for part, n, key in (
        (selected, in_selected.n_pending, "health-send-selected"),
        (everything, in_all.n_pending, "health-send-all"),
    ):
        label = f"Send {n:,} selected again" if part is selected else f"Send all {n:,} again"
        if buttons.button(label, icon=":material/send:", disabled=not n, key=key):
            _send_again(part)


def _would_be_sent(keys: Mapping[str | None, Sequence[str]]) -> SentAgain:
    return sum((store().n_to_send_again(name, keys[name]) for name in keys), SentAgain(0, 0))


def _send_again(keys: Mapping[str | None, Sequence[str]]) -> None:
    """Pending again, each under its Idempotency-Key: who has it already can tell. `keys` by receiver; None: all."""
    try:
        again = send_again(store(), keys, login.person(), now_ms())
    except AppError as error:
        st.error(f"They could not be queued: {md(error, 1_000)}", icon=":material/error:")
        return
    st.toast(f"{again.n_pending:,} notifications will be sent again.", icon=":material/send:")
    st.rerun()


def _storage(seen: Observed, kept: Storage) -> None:
    del seen
    st.markdown(f"**Database** {md(kept.database, 300)}")
    span = kept.events_span
    length = "—" if span is None else duration(span[1] - span[0])
    free = "—" if kept.free_bytes is None else size(kept.free_bytes)
    shown_figures = [
        ("Database", size(kept.database_bytes), "An SQLite file with its log; ask the server for others."),
        ("Event log", size(kept.events_bytes), "Columnar files below store.directory."),
        ("Events cover", length, "From the first kept event to the last one."),
        ("Free disk", free, "Where store.directory is."),
    ]
    show_figures(shown_figures)
    for left_out in kept.left_out:
        st.warning(f"A file of the event log is left out: {md(left_out, 500)}", icon=":material/warning:")
    if kept.events_problem is not None:
        st.warning(f"The event log cannot be read: {md(kept.events_problem, 1_000)}", icon=":material/warning:")
    elif span is None:
        st.info(
            "The event log is empty: it is filled while clustercep run (or clustercep demo) works.",
            icon=":material/hourglass_empty:",
        )
    else:
        st.caption(f"Events from {shown(span[0])} to {shown(span[1])}. How long they are kept: store.retention.")


SECTIONS: dict[str, Callable[[Observed, Storage], None]] = {
    "Sources": _sources,
    "Problems": _problems,
    "Engine": _engine,
    "Notifications": _notifications,
    "Storage": _storage,
}
