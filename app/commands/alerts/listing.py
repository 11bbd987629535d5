"""`clustercep alerts list|show`: what the store holds; what changes it is in `operations.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.box import HEAVY_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.alerting.case import case_of
from app.alerting.hosts import hosts_text
from app.alerting.lifecycle import State, lasted_text, state_text
from app.alerting.links import runbook_of
from app.alerting.recording.kept import expectation_of, is_shed, spread_of
from app.alerting.snapshots import snapshot_of
from app.alerting.text import EXPECTATION_TEXTS, SHED_TEXT, at_least_one_text, iso, plain
from app.clock import SystemClock
from app.commands.alerts.options import (
    AlertArgument,
    ConfigOption,
    Format,
    FormatOption,
    JsonOption,
    StoreOption,
    print_json,
)
from app.commands.completion import alerted_hosts, alerted_jobs, alerted_queries
from app.commands.friendly import friendly
from app.commands.opened_store import opened
from app.console import table_console
from app.durations import format_time, parse_time_ms
from app.nearest_name import did_you_mean
from app.settings import Severity
from app.store.api import AlertDetails, AlertFilter, Store
from app.store.models import AlertRow
from app.store.states import SILENCED
from app.tables import Column, Fit, number, print_table
from app.units import value_text
from app.watching import unknown_text, watched

MAX_RECORDS_SHOWN = 20
WIDE = 170
"""Columns of a terminal that shows all that the list has."""
_EVIDENCE = (
    Column("variable", Fit.WHOLE), Column("event", Fit.WRAP), Column("from", Fit.WHOLE),
    Column("to", Fit.WHOLE, spare=1), Column("attributes", Fit.WRAP, 20), Column("origin", Fit.WRAP, 16, spare=2),
)  # fmt: skip
_CHANGES = (
    Column("at", Fit.WHOLE), Column("state", Fit.WRAP), Column("reason", Fit.WRAP, 20), Column("by", Fit.WRAP),
)  # fmt: skip
_NOTIFICATIONS = (
    Column("receiver"), Column("state", Fit.WHOLE), Column("status", Fit.WHOLE), number("attempts"),
    Column("error", Fit.WRAP, 20),
)  # fmt: skip
_MEMBERS = (
    Column("alert", Fit.WHOLE), Column("severity", Fit.WHOLE), Column("state", Fit.WHOLE, spare=1), Column("host"),
    Column("summary", Fit.WRAP, 24),
)  # fmt: skip


class StateFilter(StrEnum):
    """What the list can be of: the states, and what stands beside them."""

    FIRING = State.FIRING.value
    ACKNOWLEDGED = State.ACKNOWLEDGED.value
    SILENCED = SILENCED
    RESOLVED = State.RESOLVED.value


@friendly
def list_alerts(
    config: ConfigOption = None,
    store: StoreOption = None,
    state: Annotated[
        StateFilter | None, typer.Option(help="Only alerts in this state; silenced: that a silence covers now.")
    ] = None,
    query: Annotated[
        str | None, typer.Option(help="Only alerts of this query.", autocompletion=alerted_queries)
    ] = None,
    severity: Annotated[Severity | None, typer.Option(help="Only alerts of this severity.")] = None,
    job: Annotated[
        str | None, typer.Option(help="Only alerts about this job: its whole id.", autocompletion=alerted_jobs)
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Only alerts that name this host, in any role.", autocompletion=alerted_hosts)
    ] = None,
    from_: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Only what lasted until then.")] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Only what began before. TIME: 2026-05-01T12:30 (UTC unless it says), or 2 h ago."
        ),
    ] = None,
    incidents: Annotated[
        bool, typer.Option("--incidents", help="Without the alerts behind incidents, which are counted.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many, the latest first.")] = 100,
    ids: Annotated[bool, typer.Option("--ids", help="Show ids also where the terminal is narrow.")] = False,
    format_: FormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    """List alerts, the latest first, each in a line; 'alerts show' has all that is known of one."""
    now_ms = SystemClock().now_ms()
    wanted = AlertFilter(
        states=() if state is None else (state.value,),
        queries=() if query is None else (query,),
        severities=() if severity is None else (severity.value,),
        job_id=job,
        host=host,
        from_ms=None if from_ is None else parse_time_ms("--from", from_, now_ms),
        to_ms=None if to is None else parse_time_ms("--to", to, now_ms),
        members=not incidents,
        limit=limit,
    )
    with opened(config, store) as found:
        alerts = found.alerts(wanted)
        n_all = found.n_alerts(wanted)
        behind = found.members_of([alert.id for alert in alerts if alert.is_incident])
        near = "" if alerts else _near_names(wanted, found)
        watch = watched(found, now_ms)
    if as_json or format_ is Format.JSON:
        print_json([alert_json(alert, behind.get(alert.id, ())) for alert in alerts])
        return
    as_of_ms = watch.as_of_ms if watch.is_replay and watch.as_of_ms is not None else now_ms
    console = table_console(whole_lines=True)
    if alerts:
        console.print(_table(_by_incident(alerts), behind, as_of_ms, console.width, ids=ids))
        if console.width < WIDE and not ids:
            console.print("--ids shows the ids that 'alerts show' and 'alerts ack' take.")
    else:
        none = "No alert is like that." if wanted != AlertFilter(limit=limit) else "There is no alert."
        console.print(Text(none + near))
    if n_all > len(alerts):
        console.print(f"{len(alerts)} of {n_all} alerts; see --limit.")
    if watch.is_replay and watch.as_of_ms is not None:
        console.print(f"A recording, as of {format_time(watch.as_of_ms)}.")
    elif unknown := unknown_text(watch, format_time):
        console.print(Text(plain(unknown, 2_000), style="bold"))


def _by_incident(alerts: Sequence[AlertRow]) -> list[tuple[AlertRow, bool]]:
    """In their order, but alerts behind an incident of the list right after it, with whether it is such a one."""
    listed = {alert.id for alert in alerts if alert.is_incident}
    behind: dict[str, list[AlertRow]] = {}
    for alert in alerts:
        if alert.incident_id in listed and alert.incident_id != alert.id:
            behind.setdefault(alert.incident_id, []).append(alert)
    ordered: dict[str, tuple[AlertRow, bool]] = {}

    def put(alert: AlertRow, is_behind: bool) -> None:
        if alert.id not in ordered:
            ordered[alert.id] = alert, is_behind
            for member in behind.get(alert.id, ()):
                put(member, True)

    for alert in alerts:
        if alert.incident_id not in listed:
            put(alert, False)
    for alert in alerts:  # whose incidents are part of each other
        put(alert, False)
    return list(ordered.values())


def _table(
    listed: Sequence[tuple[AlertRow, bool]],
    behind: Mapping[str, Sequence[AlertRow]],
    as_of_ms: int,
    width: int,
    *,
    ids: bool,
) -> Table:
    """A line for each alert: what does not fit is cut off at its end. Columns that say less are for wide terminals."""
    is_wide = width >= WIDE
    is_behind = {alert.id for alert, behind_incident in listed if behind_incident}

    def summary(alert: AlertRow) -> str:
        n = len(behind.get(alert.id, ()))
        counted = "" if not alert.is_incident else f"[{n:,} alert{'' if n == 1 else 's'}] "
        return ("- " if alert.id in is_behind else "") + counted + plain(alert.summary)

    columns: dict[str, Callable[[AlertRow], str]] = {
        "id": lambda alert: alert.id[:8],
        "state": lambda alert: state_text(alert.state, alert.silenced),
        "severity": lambda alert: alert.severity,
        "query": lambda alert: plain(alert.query),
        "began (UTC)": lambda alert: iso(alert.onset_ms)[: 19 if is_wide else 16],
        "lasted": lambda alert: lasted_text(alert, as_of_ms),
        "host": lambda alert: plain(alert.host or ""),
        "matches": _n_matches,
        "at least one": at_least_one_text,
        "summary": summary,
    }
    if not is_wide:
        narrow = ("id",) * ids + ("state", "severity", "began (UTC)", "summary")
        columns = {name: columns[name] for name in narrow}
    table = Table(box=HEAVY_HEAD if is_wide else None, pad_edge=is_wide)
    for name in columns:
        table.add_column(name, no_wrap=name != "summary")  # Rich makes those narrower that may wrap
    for alert, _ in listed:
        table.add_row(*(Text(of(alert), no_wrap=True, overflow="ellipsis") for of in columns.values()))
    return table


@friendly
def show(
    alert: AlertArgument,
    config: ConfigOption = None,
    store: StoreOption = None,
    format_: FormatOption = Format.TABLE,
    as_json: JsonOption = False,
) -> None:
    """Show one alert with its changes, evidence and notifications."""
    with opened(config, store) as found:
        details = found.alert(alert)
        row = details.alert
        case = found.read(lambda session: case_of(session, row)) if row.is_incident else None
        incidents = found.incidents_of(row.id)
    if as_json or format_ is Format.JSON:
        print_json({**details_json(details), "incident": case, "incidents": [of.id for of in incidents]})
    else:
        _print_details(table_console(), details, case, incidents)


def _near_names(wanted: AlertFilter, store: Store) -> str:
    """What may have been meant by a query, a job or a host of which there is no alert at all."""
    near = ""
    for name, of, known in (
        *((query, "of", store.query_names) for query in wanted.queries),
        (wanted.job_id, "about", store.job_ids),
        (wanted.host, "that names", store.host_names),
    ):
        if name is not None and name not in (names := known()):
            near += did_you_mean(name, names, f" There is none {of} {plain(name)!r}; ")
    return near


def alert_json(alert: AlertRow, behind: Sequence[AlertRow] = ()) -> dict[str, Any]:
    """An alert as JSON; `behind`: the alerts behind an incident."""
    return {
        "id": alert.id,
        "query": alert.query,
        "key": alert.key,
        "job_id": alert.job_id,
        "host": alert.host,
        "severity": alert.severity,
        "state": alert.state,
        "silenced": alert.silenced,
        "assigned_to": alert.assigned_to,
        "acknowledged_until": None if alert.acknowledged_until_ms is None else iso(alert.acknowledged_until_ms),
        "inhibited": alert.inhibited,
        "is_incident": alert.is_incident,
        "incident_id": alert.incident_id,
        "members": [member.id for member in behind],
        "hosts": [
            {"host": named.host, "role": named.role, "value_name": named.value_name, "value": named.value}
            for named in alert.hosts
        ],
        "hosts_left_out": alert.n_hosts_left_out,
        "labels": alert.labels,
        "onset": iso(alert.onset_ms),
        "last_seen": iso(alert.last_seen_ms),
        "start": iso(alert.start_ms),
        "end": iso(alert.end_ms),
        "matches": alert.n_matches,
        "matches_exact": alert.n_matches_exact,
        "shed": is_shed(alert),
        "expectation": expectation_of(alert),
        "confidence": None if expectation_of(alert) else alert.best_confidence,
        "at_least_one": {
            "low": alert.at_least_one_lower,
            "high": alert.at_least_one_upper,
            "method": alert.at_least_one_method,
            "estimate": alert.at_least_one_estimate,
            "standard_error": alert.at_least_one_error,
        },
        "values": alert.values,
        "first_last_max_min": spread_of(alert),
        "summary": alert.summary,
        "lane": alert.lane,
        "merged_into": alert.merged_into,
        "raised": iso(alert.raised_ms),
        "resolved": None if alert.resolved_ms is None else iso(alert.resolved_ms),
    }


def details_json(details: AlertDetails) -> dict[str, Any]:
    """An alert with all that is kept of it as JSON."""
    return {
        **alert_json(details.alert),
        "runbook": runbook_of(snapshot_of(details.alert)),
        "changes": [
            {
                "revision": c.revision,
                "from": c.from_state,
                "to": c.to_state,
                "silenced": c.silenced,
                "at": iso(c.at_ms),
                "reason": c.reason,
                "actor": c.actor,
            }
            for c in details.changes
        ],
        "evidence": [
            {
                "variable": e.variable,
                "id": e.event_id,
                "type": e.type,
                "t_lo_ms": e.t_lo_ms,
                "t_hi_ms": e.t_hi_ms,
                "attributes": e.attributes,
                "origin": e.origin,
                "raw": e.raw,
            }
            for e in details.evidence
        ],
        "notifications": [
            {
                "receiver": n.receiver,
                "state": n.state,
                "status": n.status,
                "attempts": n.n_attempts,
                "error": n.last_error,
                "idempotency_key": n.idempotency_key,
            }
            for n in details.notifications
        ],
    }


def _print_details(
    console: Console, details: AlertDetails, case: Mapping[str, Any] | None, incidents: Sequence[AlertRow]
) -> None:
    alert = details.alert
    console.print(Text(f"{alert.query} ({alert.severity}, {state_text(alert.state, alert.silenced)})", style="bold"))
    console.print(Text(alert.summary))
    span = f"began {iso(alert.onset_ms)}, last seen {iso(alert.last_seen_ms)}, raised {iso(alert.raised_ms)}"
    console.print(Text(f"{span}, {_n_matches(alert)} matches, id {alert.id}"))
    if alert.assigned_to is not None:
        console.print(Text(f"assigned to {plain(alert.assigned_to)}"))
    if alert.acknowledged_until_ms is not None:
        console.print(Text(f"acknowledged until {iso(alert.acknowledged_until_ms)}; then it fires again"))
    for role, hosts in hosts_text(alert).items():
        console.print(Text(f"{role}: {hosts}"))
    for name, by_aspect in spread_of(alert).items():
        values = ", ".join(f"{aspect} {plain(value_text(name, value))}" for aspect, value in by_aspect.items())
        console.print(Text(f"{plain(name)}: {values}"))
    if (expectation := expectation_of(alert)) is not None:
        console.print(Text(EXPECTATION_TEXTS[expectation]))
    else:
        sure = at_least_one_text(alert)
        console.print(Text(f"at least one match: {sure}; confidence of the best one: {alert.best_confidence:.3g}"))
    if is_shed(alert):
        console.print(Text(SHED_TEXT))
    for incident in incidents:
        how = ", which is told in its place" if alert.inhibited else ""
        console.print(Text(f"part of the incident {incident.id[:8]}{how}: {plain(incident.summary)}"))
    if case is not None:
        _print_case(console, case)
    if alert.merged_into:
        console.print(Text(f"It became part of {alert.merged_into}."))
    evidence = []
    for e in details.evidence:
        times = [iso(t) if t is not None else "" for t in (e.t_lo_ms, e.t_hi_ms)]
        attributes = ", ".join(f"{name}={plain(value_text(name, value))}" for name, value in e.attributes.items())
        evidence.append((e.variable, e.type or "no longer kept", *times, attributes, plain(e.origin or "")))
    changes = [
        (iso(c.at_ms), state_text(c.to_state, c.silenced), plain(c.reason), plain(c.actor)) for c in details.changes
    ]
    told = [(n.receiver, n.state, n.status, str(n.n_attempts), n.last_error or "") for n in details.notifications]
    for title, columns, rows in (
        ("evidence", _EVIDENCE, evidence), ("changes", _CHANGES, changes), ("notifications", _NOTIFICATIONS, told),
    ):  # fmt: skip
        if rows:
            print_table(console, columns, rows, title=title)
    records = [e for e in details.evidence if e.raw]
    if records:
        console.print(Text("records", style="bold"))
    for e in records[:MAX_RECORDS_SHOWN]:
        console.print(Text(f"{e.variable}: {plain(e.raw, 500)}"))
    if len(records) > MAX_RECORDS_SHOWN:
        console.print(f"and {len(records) - MAX_RECORDS_SHOWN} more; see --format json.")
    if alert.runbook:
        console.print(Text("What to do", style="bold"))
        console.print(Text(runbook_of(snapshot_of(alert))))


def _print_case(console: Console, case: Mapping[str, Any]) -> None:
    for word, name in (("for it", "for"), ("against it", "against")):
        console.print(Text(f"{word}: {'; '.join(case[name]) or 'nothing known'}"))
    members = [
        [
            plain(cell, 1_000)
            for cell in (member["id"][:8], member["severity"], member["state"], member["host"] or "", member["summary"])
        ]
        for member in case["members"]
    ]
    print_table(console, _MEMBERS, members, title="alerts behind it")
    if (n_more := case["n_members"] - len(case["members"])) > 0:
        console.print(f"and {n_more:,} more.")


def _n_matches(alert: AlertRow) -> str:
    return f"{alert.n_matches:,}" if alert.n_matches_exact else f"at least {alert.n_matches:,}"


__all__ = ["alert_json", "details_json", "list_alerts", "show"]
