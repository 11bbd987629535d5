"""The demo's summary for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from app.durations import format_duration, format_size
from app.tables import Column, Fit, number, print_table

_EVENTS = (Column("event"), number("number"), number("again in finished jobs"))
_QUERIES = (
    Column("query", least=24), number("matches"),
    number("in finished jobs", spare=1), number("alerts"), number("report rows"),
)  # fmt: skip
_FAULTS = (
    Column("fault", least=10), Column("query", spare=2), Column("suspect", spare=1), Column("found by", Fit.WRAP, 24),
    Column("began", Fit.WHOLE, spare=3), Column("raised (UTC)", Fit.WHOLE),
)  # fmt: skip
_INCIDENTS = (Column("query", spare=1), Column("suspect"), number("alerts"), Column("incident", Fit.WRAP, 30))
_ALERTS = (
    Column("query"), Column("suspect", spare=1), Column("alert", Fit.WRAP, 24), Column("began (UTC)", Fit.WHOLE),
    Column("last seen", Fit.WHOLE, spare=2),
)  # fmt: skip
_DROPPED = (
    Column("query", least=24), number("partial matches"),
    number("expected matches", spare=3), number("no estimate", spare=4),
    number("kept events", spare=2), number("matches"), number("of"), number("alerts"), number("of"),
    number("marked", spare=1),
)  # fmt: skip


def print_summary(console: Console, summary: Mapping[str, Any]) -> None:
    """Tables of events, matches, alerts and the ground truth. Texts from the cluster are never read as markup."""
    _events(console, summary)
    _queries(console, summary)
    truth = summary["ground_truth"]
    _faults(console, truth)
    if truth["secondary"]:
        _alerts(console, "further alerts on the same faults", [row["alert"] for row in truth["secondary"]])
    if truth["unexplained"]:
        _alerts(console, "alerts on jobs with a fault, at another time", truth["unexplained"])
    if truth["false_alarms"]:
        _alerts(console, "false alarms: alerts that belong to no fault", truth["false_alarms"])
    _incidents(console, summary)
    _print_figures(console, summary)
    if (overload := summary.get("overload")) is not None:
        print_overload(console, summary, overload)
    else:
        console.print(Text(verdict_text(truth), style="bold"))


@dataclass(frozen=True, slots=True)
class JudgedFault:
    """One injected fault: of each query that is meant to find it, the row of the summary's ground_truth."""

    found: tuple[Mapping[str, Any], ...]
    """The alert that was raised first stands first."""
    missed: tuple[Mapping[str, Any], ...]


def judged_faults(truth: Mapping[str, Any]) -> list[JudgedFault]:
    """In order of time; `truth`: the summary's ground_truth. Several queries may be meant to find one fault."""
    found: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    missed: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for rows, kept in ((truth["found"], found), (truth["missed"], missed)):
        for row in rows:
            kept.setdefault((row["from"], row["to"], row["fault"], row["job_id"] or ""), []).append(row)
    return [
        JudgedFault(
            tuple(sorted(found.get(key, ()), key=lambda row: str(row["alert"]["raised"]))), tuple(missed.get(key, ()))
        )
        for key in sorted({*found, *missed})
    ]


def verdict_text(truth: Mapping[str, Any]) -> str:
    """`5 of 5 faults found, no false alarm.` A fault is found when each query that is meant to find it did."""
    faults, n_false = judged_faults(truth), len(truth["false_alarms"])
    n_found = sum(not fault.missed for fault in faults)
    alarms = "no false alarm" if n_false == 0 else "1 false alarm" if n_false == 1 else f"{n_false:,} false alarms"
    return f"{n_found:,} of {len(faults):,} faults found, {alarms}."


def print_overload(console: Console, summary: Mapping[str, Any], overload: Mapping[str, Any]) -> None:
    """How the bound was held, what of which query was dropped for it, and what that cost."""
    _dropped(console, summary, overload)
    for line in overload_lines(overload):
        console.print(Text(line))
    console.print(Text(overload_verdict(summary["ground_truth"], overload), style="bold"))


def overload_lines(overload: Mapping[str, Any]) -> list[str]:
    """The load, the bound, and what was done, in sentences."""
    machine, bound_ms, longest_ms = overload["machine"], overload["bound_ms"], overload["latency_max_ms"]
    held = "held" if longest_ms <= bound_ms else "NOT held"
    n_dropped = sum(lost["n_partial_matches"] for lost in overload["dropped"].values())
    n_kept = sum(lost["n_events"] for lost in overload["dropped"].values())
    missing = sum(lost["expected_matches"] for lost in overload["dropped"].values())
    exempt = ", ".join(overload["exempt"]) or "none"
    return [
        f"Simulated machine (app/replay/machine.json): {1e6 * machine['event_s']:.3g} us an event, "
        f"{1e9 * machine['kept_s']:.3g} ns more for each partial match or event that is kept. It watches "
        f"{machine['n_clusters']:,} clusters like this one; with nothing dropped it takes "
        f"{overload['capacity_events_per_s']:,.0f} events/s; they came at {overload['released_events_per_s']:,.0f}, "
        f"{overload['speed']:,.0f} times as fast as it happened.",
        f"Latency: {_ms(longest_ms)} at most, 99.9 % of the events within {_ms(overload['latency_p999_ms'])}; the "
        f"bound of {_ms(bound_ms)} was {held}. Without shedding: {_ms(overload['latency_max_without_shedding_ms'])}.",
        f"Dropped before {overload['n_shed_steps']:,} of {overload['n_steps']:,} steps ({overload['strategy']}): "
        f"{n_dropped:,} partial matches, of which about {missing:,.1f} matches were expected, and {n_kept:,} events "
        f"kept for matches to come. Nothing can be dropped of: {exempt}.",
        f"Events dropped before any query had them (gspice-h): {_by_type(overload['dropped_events'])}; events like "
        f"these contributed to about {overload['expected_event_loss']:,.1f} matches.",
        "What is worth what was learned from the same recording, without overload; in a history that knows less, more "
        "is lost.",
        f"Alerts marked as found under shedding: {sum(overload['marked'].values()):,}.",
    ]


def overload_verdict(truth: Mapping[str, Any], overload: Mapping[str, Any]) -> str:
    """`At 2 times what the machine takes: 4 of 5 faults found, no false alarm. Without overload: 5 of 5 ...`"""
    before = verdict_text(overload["without_shedding"]["ground_truth"])
    return f"At {overload['times']:g} times what the machine takes: {verdict_text(truth)} Without overload: {before}"


def _dropped(console: Console, summary: Mapping[str, Any], overload: Mapping[str, Any]) -> None:
    title = f"dropped at {overload['times']:g} times what the machine takes, and what was found of what there is"
    told = []
    without = overload["without_shedding"]
    names = {*overload["dropped"], *overload["marked"]}
    for part in ("matches", "alerts"):
        every = {*summary[part], *without[part]}
        names |= {name for name in every if summary[part].get(name, 0) != without[part].get(name, 0)}
    for name in sorted(names):
        lost = overload["dropped"].get(name, {})
        cells = [
            *(f"{lost[key]:,}" if lost.get(key) else "" for key in _LOST),
            *(f"{where[part].get(name, 0):,}" for part in ("matches", "alerts") for where in (summary, without)),
            f"{overload['marked'].get(name, 0) or ''}",
        ]
        told.append((name, *cells))
    print_table(console, _DROPPED, told, title=title)


def _by_type(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in sorted(dropped.items(), key=lambda each: -each[1])) or "none"


_LOST = ("n_partial_matches", "expected_matches", "n_unvalued", "n_events")


def _ms(milliseconds: float) -> str:
    return format_duration(milliseconds) if milliseconds >= 1 else f"{milliseconds:.3g} ms"


def _events(console: Console, summary: Mapping[str, Any]) -> None:
    told, again = [], summary["events_in_histories"]
    for event_type in sorted({*summary["events"], *again}):
        n_live, n_again = summary["events"].get(event_type, 0), again.get(event_type, 0)
        told.append((event_type, f"{n_live:,}", f"{n_again:,}" if n_again else ""))
    print_table(console, _EVENTS, told, title="events")


def _queries(console: Console, summary: Mapping[str, Any]) -> None:
    told, parts = [], ("matches", "matches_in_histories", "alerts", "reports")
    for name in sorted({name for part in parts for name in summary[part]}):
        cells = (summary[part].get(name) for part in parts)
        told.append((name, *("" if n is None else f"{n:,}" for n in cells)))
    print_table(console, _QUERIES, told, title="queries")


def _faults(console: Console, truth: Mapping[str, Any]) -> None:
    told: list[tuple[str | Text, ...]] = []
    for fault in judged_faults(truth):
        for row in fault.found:
            alert = row["alert"]
            times = (_clock(alert["began"]), _clock(alert["raised"]))
            told.append((row["fault"], row["query"], next(iter(alert["hosts"]), ""), alert["summary"], *times))
        for row in fault.missed:
            told.append((row["fault"], row["query"], "", Text("MISSED", style="bold red"), "", ""))
    print_table(console, _FAULTS, told, title="injected faults")


def _incidents(console: Console, summary: Mapping[str, Any]) -> None:
    """What an operator is told of: causes, each with the number of alerts behind it."""
    told = summary["incidents"]
    n_alerts = sum(len(row["alerts"]) for row in told)
    title = f"{n_alerts:,} alerts in {len(told):,} incidents (one alone counts as one)"
    rows = [(row["query"], row["host"] or "", f"{len(row['alerts']):,}", row["summary"]) for row in told]
    print_table(console, _INCIDENTS, rows, title=title)


def _alerts(console: Console, title: str, alerts: list[Mapping[str, Any]]) -> None:
    told = []
    for alert in alerts:
        times = (_clock(alert["began"]), _clock(alert["last_seen"]))
        told.append((alert["query"], next(iter(alert["hosts"]), ""), alert["summary"], *times))
    print_table(console, _ALERTS, told, title=title)


def _print_figures(console: Console, summary: Mapping[str, Any]) -> None:
    notifications = ", ".join(f"{n} {status}" for status, n in sorted(summary["notifications"].items()))
    problems = ", ".join(f"{n} x {kind}" for kind, n in summary["problems"].items()) or "none"
    n_events = sum(summary["events"].values())
    memory = format_size(summary["peak_memory_bytes"])
    lines = (
        f"Notifications: {notifications}.",
        f"Copies of events from a second source: {summary['duplicates']:,}; late: {summary['late']:,}.",
        f"Problems: {problems}.",
        f"{n_events:,} events in {format_duration(summary['seconds'] * 1000)}, {memory} at most.",
    )
    for line in lines:
        console.print(Text(line))


def _clock(moment: str) -> str:
    """2026-01-02T03:04:05.678Z -> 03:04:05."""
    return moment[11:19]
