"""What the health page says, from rows of the store: tables with inert text, and what needs somebody's attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pandas as pd

from app.durations import format_size
from dashboard.alerts.evidence import attributes_text
from dashboard.store import (
    LateEventRow,
    NotificationRow,
    OverloadFigures,
    ProblemRow,
    ProcessStatus,
    ProcessStatusRow,
    QueryFigures,
    ReceiverStatusRow,
    SheddingFigures,
    SilenceRow,
    SourceStatusRow,
    StatisticRow,
    Watch,
    silence_text,
    stands,
    unknown_text,
)
from dashboard.text import inert
from dashboard.times import ago, duration, exactly, shown
from engine.events import FOREVER_MS

LOW_DISK_BYTES = 2 * 2**30
LOW_DISK_RATIO = 0.05
COUNTERS = {"events": "Events", "duplicates": "Copies", "late": "Late", "rejected": "Rejected"}


class Level(StrEnum):
    """How bad it is."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person should know; plain text, inert."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class Observed:
    """What the store and the disk say now."""

    now_ms: int
    status: ProcessStatusRow | None
    sources: Sequence[SourceStatusRow]
    n_notifications: Mapping[tuple[str, str], int]
    free_bytes: int | None
    total_bytes: int | None
    silence_timeout_ms: int
    watch: Watch
    receivers: Sequence[ReceiverStatusRow] = ()
    """Of receivers that are configured, and enabled."""


def process_status(row: ProcessStatusRow | None) -> ProcessStatus:
    """The figures; empty before the first step."""
    value: Any = {} if row is None else row.value
    status: ProcessStatus = value
    return status


def is_ongoing(watermark_ms: int | None) -> bool:
    """False for none, and for the end of all time, which replays reach."""
    return watermark_ms is not None and 0 <= watermark_ms < FOREVER_MS // 2


def findings(seen: Observed) -> list[Finding]:
    """The worst first."""
    found = [*_process(seen), *_sources(seen), *_notifications(seen), *_disk(seen)]
    return sorted(found, key=lambda finding: list(Level).index(finding.level))


def _process(seen: Observed) -> list[Finding]:
    if seen.status is None:
        return [
            Finding(
                Level.WARNING,
                "No process has worked on this store yet. Start it with clustercep run, or fill a store with "
                "clustercep demo.",
            )
        ]
    status, found = process_status(seen.status), []
    if seen.watch.is_replay:
        found.append(Finding(Level.INFO, f"A recording, as of {shown(seen.watch.as_of_ms)}: nothing is watched now."))
    elif not seen.watch.is_alive:
        found.append(
            Finding(
                Level.ERROR,
                f"{unknown_text(seen.watch, shown)} The process has not made a step for "
                f"{duration(seen.now_ms - seen.status.updated_ms)}: it is stopped, or hangs. Look at its log and at "
                "systemctl status clustercep. Nothing is lost: it goes on from its checkpoint and reads what came "
                "meanwhile.",
            )
        )
    elif (unknown := unknown_text(seen.watch, shown)) is not None:
        found.append(Finding(Level.WARNING, inert(unknown, 1_000)))
    for problem in status.get("reload_problems") or []:
        found.append(
            Finding(Level.WARNING, f"The last reload was refused, the settings before it hold: {inert(problem, 500)}")
        )
    found += _overload(status.get("overload"))
    n_outages = status.get("store_outages") or 0
    if n_outages:
        found.append(
            Finding(
                Level.INFO,
                f"The store could not be written {_times(n_outages)} since the process started; the steps were made up "
                "for afterwards.",
            )
        )
    return found


def _overload(figures: OverloadFigures | None) -> list[Finding]:
    """What engine.latency_bound costs."""
    if figures is None:
        return []
    found, bound = [], duration(figures["bound_ms"])
    achievable_ms = figures.get("achievable_ms")
    if achievable_ms is not None:
        exempt = ", ".join(inert(name) for name in figures["exempt"][:20])
        fixed = f" Nothing can be dropped of what these queries keep: {exempt}." if exempt else ""
        found.append(
            Finding(
                Level.ERROR,
                f"engine.latency_bound of {bound} cannot be met with everything dropped that can be; "
                f"{duration(achievable_ms)} could.{fixed} Raise it, disable queries, or give the process more cores.",
            )
        )
    if figures["is_shedding"]:
        worst = sorted(
            figures["queries"].items(), key=lambda item: (-item[1].get("expected_matches", 0.0), -_n_dropped(item[1]))
        )
        names = ", ".join(f"{inert(name)} ({_loss_text(lost)})" for name, lost in worst[:5])
        found.append(
            Finding(
                Level.WARNING,
                f"Overload: what is least useful is dropped to hold engine.latency_bound of {bound}, so alerts may "
                f"be missing. So far, most of all: {names or 'none yet'}.",
            )
        )
    if events := figures.get("dropped_events"):
        named = ", ".join(f"{inert(name)} ({n:,})" for name, n in sorted(events.items(), key=lambda item: -item[1])[:5])
        loss = figures.get("expected_event_loss", 0.0)
        found.append(
            Finding(
                Level.WARNING,
                f"Events were dropped before any query had them, to hold engine.latency_bound of {bound}: {named}; "
                f"events like these contributed to about {loss:,.1f} matches.",
            )
        )
    return found


def _n_dropped(lost: SheddingFigures) -> float:
    return lost.get("n_partial_matches", 0) + lost.get("n_events", 0)


def _loss_text(lost: SheddingFigures) -> str:
    """What was dropped, and what that costs as far as it is known."""
    dropped, unknown = _n_dropped(lost), lost.get("n_unvalued", 0) + lost.get("n_events", 0)
    parts = [f"{dropped:,.0f} dropped"]
    if unknown < dropped:
        parts.append(f"about {lost.get('expected_matches', 0.0):,.0f} matches missing")
    if unknown:
        parts.append(f"{unknown:,.0f} of them without an estimate")
    return ", ".join(parts)


def shedding_frame(figures: OverloadFigures, queries: Sequence[str]) -> pd.DataFrame:
    """Per query what was dropped to hold the bound; those that lost most first."""
    lines: list[dict[str, Any]] = []
    for name in queries:
        lost = figures["queries"].get(name, {})
        lines.append(
            {
                "Query": inert(name),
                "Dropped": lost.get("n_partial_matches", 0) + lost.get("n_events", 0),
                "Matches missing": round(lost.get("expected_matches", 0.0), 1),
                "Without estimate": lost.get("n_unvalued", 0) + lost.get("n_events", 0),
                "Can be dropped": "nothing: a fixed cost" if name in figures["exempt"] else "",
            }
        )
    columns = ["Query", "Dropped", "Matches missing", "Without estimate", "Can be dropped"]
    ordered = sorted(lines, key=lambda line: (-line["Matches missing"], -line["Dropped"], line["Query"]))
    return pd.DataFrame(ordered, columns=columns)


def _sources(seen: Observed) -> list[Finding]:
    found = []
    for source in seen.sources:
        name = inert(source.name)
        if source.left_out:
            found.append(
                Finding(
                    Level.ERROR,
                    f"{name} has been silent for so long that the others go on without it: its events will be late. "
                    f"{_last_error(source)}",
                )
            )
        elif source.n_failed_in_a_row:
            found.append(
                Finding(
                    Level.WARNING,
                    f"{name} could not be read {_times(source.n_failed_in_a_row)} in a row. {_last_error(source)}",
                )
            )
    lag_ms = None if seen.status is None else _lag_ms(process_status(seen.status).get("watermark_ms"), seen.now_ms)
    if lag_ms is not None and lag_ms > seen.silence_timeout_ms and seen.watch.is_alive:
        found.append(
            Finding(
                Level.WARNING,
                f"Detection is {duration(lag_ms)} behind. The source with the oldest watermark holds it up.",
            )
        )
    return found


def _last_error(source: SourceStatusRow) -> str:
    return f"Last error: {inert(source.last_error, 300)}" if source.last_error else "It gave no error."


def _notifications(seen: Observed) -> list[Finding]:
    found = []
    for row in seen.receivers:
        if row.down_since_ms is not None:
            n = seen.n_notifications.get((row.receiver, "pending"), 0)
            found.append(
                Finding(
                    Level.ERROR,
                    f"{inert(row.receiver)} has taken no notification since {shown(row.down_since_ms)} "
                    f"({inert(row.last_error or '', 300)}). {n:,} {'waits' if n == 1 else 'wait'}, and will be tried "
                    "until alerting.receivers.NAME.give_up_after.",
                )
            )
    for (receiver, status), n in sorted(seen.n_notifications.items()):
        if status == "failed" and n:
            found.append(
                Finding(
                    Level.ERROR,
                    f"Given up: {n:,} {'notification' if n == 1 else 'notifications'} to {inert(receiver)}. They can "
                    "be sent again below (Notifications).",
                )
            )
    return found


def _disk(seen: Observed) -> list[Finding]:
    if seen.free_bytes is None or not seen.total_bytes:
        return []
    if seen.free_bytes >= LOW_DISK_BYTES and seen.free_bytes >= LOW_DISK_RATIO * seen.total_bytes:
        return []
    return [
        Finding(
            Level.WARNING,
            f"Only {size(seen.free_bytes)} are free in store.directory. Make room, or shorten store.retention.",
        )
    ]


# --------------------------------------------------------------------- tables


def sources_frame(rows: Sequence[SourceStatusRow], configured: Sequence[str], watch: Watch) -> pd.DataFrame:
    """One line per source of the live process, and per configured one that it has not heard of."""
    known = {row.name for row in rows}
    lines = [_source_line(row, watch) for row in rows]
    lines += [{"Source": name, "State": "not heard of yet"} for name in configured if name not in known]
    return pd.DataFrame(lines, columns=list(_source_columns()))


def _source_columns() -> tuple[str, ...]:
    return (
        "Source",
        "State",
        "Interval",
        "Watermark",
        "Behind",
        "Last poll",
        "Last success",
        "Failed in a row",
        "Last error",
    )


def _source_line(row: SourceStatusRow, watch: Watch) -> dict[str, Any]:
    now_ms = watch.now_ms
    lag_ms = _lag_ms(row.watermark_ms, now_ms)
    done = row.watermark_ms is not None and not is_ongoing(row.watermark_ms)
    state = "left out" if row.left_out else "fails" if row.n_failed_in_a_row else "complete" if done else "well"
    if any(source.source == row.name for source in watch.unpolled):
        # What it was when it was polled last is not what it is.
        state = "not polled" if row.succeeded_ms is None else f"unknown since {shown(row.succeeded_ms)}"
    return {
        "Source": inert(row.name),
        "State": state,
        "Interval": duration(row.interval_ms),
        "Watermark": shown(row.watermark_ms) if is_ongoing(row.watermark_ms) else "at its end" if done else "—",
        "Behind": duration(lag_ms),
        "Last poll": ago(row.polled_ms, now_ms),
        "Last success": ago(row.succeeded_ms, now_ms),
        "Failed in a row": row.n_failed_in_a_row,
        "Last error": inert(row.last_error, 500) if row.last_error else "",
    }


def counters_frame(rows: Sequence[StatisticRow]) -> pd.DataFrame:
    """Events by source and type, and what became of them; of all times."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for row in rows:
        if row.name in COUNTERS:
            counted = found.setdefault((row.source, row.type), dict.fromkeys(COUNTERS.values(), 0))
            counted[COUNTERS[row.name]] += row.value
    lines = [
        {"Source": inert(source), "Type": inert(event_type) if event_type else "—", **counted}
        for (source, event_type), counted in sorted(found.items())
    ]
    return pd.DataFrame(lines, columns=["Source", "Type", *COUNTERS.values()])


def problems_frame(rows: Sequence[ProblemRow]) -> pd.DataFrame:
    """One line per problem; places are file names and messages quote lines: inert."""
    lines = [
        {
            "Last seen": shown(row.last_ms),
            "Source": inert(row.source),
            "Kind": inert(row.kind),
            "Place": inert(row.place, 500),
            "What": inert(row.message, 1_000),
            "Times": row.n_times,
            "First seen": shown(row.first_ms),
        }
        for row in rows
    ]
    return pd.DataFrame(lines, columns=["Last seen", "Source", "Kind", "Place", "What", "Times", "First seen"])


def late_frame(rows: Sequence[LateEventRow]) -> pd.DataFrame:
    """Events that took no part in matching: how far the watermark was beyond them."""
    columns = ["Came", "Source", "Type", "Time of the event", "Late by", "Attributes", "From where"]
    lines = [
        {
            "Came": shown(row.seen_ms),
            "Source": inert(row.source),
            "Type": inert(row.type),
            "Time of the event": exactly(row.t_lo_ms),
            "Late by": duration(row.watermark_ms - row.t_lo_ms) if is_ongoing(row.watermark_ms) else "after the end",
            "Attributes": attributes_text(row.attributes, 500),
            "From where": inert(row.origin, 300) if row.origin else "—",
        }
        for row in rows
    ]
    return pd.DataFrame(lines, columns=columns)


def engine_frame(queries: Mapping[str, QueryFigures], running_ms: int | None) -> pd.DataFrame:
    """Per query since the process started; the busiest first. `Load`: of one processor, over the whole time."""
    lines = []
    total_s = sum(figures.get("seconds", 0.0) for figures in queries.values())
    for name, figures in sorted(queries.items(), key=lambda item: -item[1].get("seconds", 0.0)):
        seconds = figures.get("seconds", 0.0)
        lines.append(
            {
                "Query": inert(name),
                "Events": figures.get("n_events", 0),
                "Rows": figures.get("n_rows", 0),
                "Kept": figures.get("n_kept", 0),
                "Left out": figures.get("n_rejected", 0),
                "Engine time": duration(round(1_000 * seconds)),
                "Share": seconds / total_s if total_s > 0 else 0.0,
                "Load": None if not running_ms or running_ms <= 0 else seconds * 1000 / running_ms,
            }
        )
    columns = ["Query", "Events", "Rows", "Kept", "Left out", "Engine time", "Share", "Load"]
    return pd.DataFrame(lines, columns=columns)


def receivers_frame(
    n_notifications: Mapping[tuple[str, str], int],
    configured: Sequence[str],
    known: Sequence[ReceiverStatusRow] = (),
) -> pd.DataFrame:
    """One line per receiver: whether it takes notifications; delivered, waiting, overtaken, given up."""
    down = {row.receiver: row for row in known if row.down_since_ms is not None}
    names = sorted({*configured, *(receiver for receiver, _ in n_notifications)})
    lines = [
        {
            "Receiver": inert(name),
            "State": f"down since {shown(down[name].down_since_ms)}" if name in down else "",
            "Last error": inert(down[name].last_error or "", 500) if name in down else "",
            "Delivered": n_notifications.get((name, "delivered"), 0),
            "Waiting": n_notifications.get((name, "pending"), 0),
            "Overtaken": n_notifications.get((name, "overtaken"), 0),
            "Given up": n_notifications.get((name, "failed"), 0),
            "Configured": name in configured,
        }
        for name in names
    ]
    columns = [
        *("Receiver", "State", "Last error"),
        *("Delivered", "Waiting", "Overtaken", "Given up", "Configured"),
    ]
    return pd.DataFrame(lines, columns=columns)


def notifications_frame(rows: Sequence[NotificationRow], now_ms: int, *, pending: bool) -> pd.DataFrame:
    """Messages that wait or were given up."""
    lines = []
    for row in rows:
        when = {"Next attempt": _due(row.next_attempt_ms, now_ms)} if pending else {"Given up": shown(row.finished_ms)}
        lines.append(
            {
                "Receiver": inert(row.receiver),
                "Alert": row.alert_id,
                "Tells": row.state,
                **when,
                "Attempts": row.n_attempts,
                "Last error": inert(row.last_error, 500) if row.last_error else "—",
                "Since": shown(row.created_ms),
            }
        )
    return pd.DataFrame(lines)


def silences_frame(rows: Sequence[SilenceRow], now_ms: int) -> pd.DataFrame:
    """Silences that are not over."""
    columns = ["What", "Is", "From", "Until", "Comment", "By"]
    lines = [
        {
            "What": inert(silence_text(row), 500),
            "Is": stands(row, now_ms),
            "From": shown(row.starts_ms),
            "Until": shown(row.until_ms),
            "Comment": inert(row.reason, 500),
            "By": inert(row.actor),
        }
        for row in rows
    ]
    return pd.DataFrame(lines, columns=columns)


# --------------------------------------------------------------------- figures


def size(n_bytes: int | None) -> str:
    """`1.5 GiB`; an em dash for none."""
    return "—" if n_bytes is None else format_size(n_bytes)


def lag(watermark_ms: int | None, now_ms: int) -> str:
    """How far a watermark is behind."""
    return duration(_lag_ms(watermark_ms, now_ms))


def _lag_ms(watermark_ms: int | None, now_ms: int) -> int | None:
    return max(0, now_ms - watermark_ms) if watermark_ms is not None and is_ongoing(watermark_ms) else None


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n:,} times"


def _due(next_attempt_ms: int, now_ms: int) -> str:
    return "now" if next_attempt_ms <= now_ms else f"in {duration(next_attempt_ms - now_ms)}"
