"""The tables. Times are milliseconds since the epoch; event times are the cluster's, others the pipeline's clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, Integer, MetaData, String, Text, false, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

AutoId = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself only in an INTEGER primary key."""


def _given(column: str) -> Callable[[Any], Any]:
    """The default of a column: what another one is given."""
    return lambda context: context.get_current_parameters()[column]


class Base(DeclarativeBase):
    """All tables, with constraint names that migrations can refer to."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {int: BigInteger, dict[str, Any]: JSON, list[Any]: JSON, str: Text}  # noqa: RUF012  # SQLAlchemy reads it so


class AlertRow(Base):
    """One episode of one query and key."""

    __tablename__ = "alerts"
    __table_args__ = (
        Index("ix_alerts_query_key_start", "query", "key_text", "start_ms"),
        Index("ix_alerts_open", "open", "query"),
        Index("ix_alerts_updated", "open", "updated_ms"),
        # Pages walk these in order; what stands behind `id` lets rows that a filter refuses be passed over unread.
        Index("ix_alerts_page", "start_ms", "id", "end_ms", "state", "merged_into"),
        Index("ix_alerts_page_state", "state", "start_ms", "id", "end_ms", "merged_into"),
        Index("ix_alerts_page_severity", "severity", "start_ms", "id", "end_ms", "state", "merged_into"),
        Index("ix_alerts_page_query", "query", "severity", "start_ms", "id", "end_ms", "state", "merged_into"),
        Index("ix_alerts_page_job", "job_id", "start_ms", "id"),
        Index("ix_alerts_length", text("(end_ms - start_ms)")),
        Index("ix_alerts_silenced", "silenced", "start_ms", "id"),
        Index("ix_alerts_to_tell", "id", sqlite_where=text("to_tell IS 1"), postgresql_where=text("to_tell IS true")),
        Index("ix_alerts_inhibited", "inhibited", "id", "silenced"),
        Index("ix_alerts_telling", "id", "revision", "state", "severity", "silenced", "inhibited"),
        Index("ix_alerts_goes_on", "id", "is_incident", "open", "state"),
        Index("ix_alerts_incident", "incident_id"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    query: Mapped[str]
    query_hash: Mapped[str]
    key: Mapped[dict[str, Any]]
    key_text: Mapped[str]
    job_id: Mapped[str | None]
    """The job that it is about, for filters."""
    host: Mapped[str | None]
    """The first of its hosts; all of them are in `alert_hosts`."""
    severity: Mapped[str] = mapped_column(String(16))
    state: Mapped[str] = mapped_column(String(16))
    """firing, acknowledged or resolved."""
    silenced: Mapped[bool] = mapped_column(server_default=false())
    """Whether a silence covers it, as of its last change; of one that is over: until who believes that it fires can be
    told so."""
    inhibited: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether it is part of an incident that goes on, which is told in its place; of one that is over: until who
    believes that it fires can be told so."""
    is_incident: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether other alerts are part of it, see `incident_members`."""
    incident_id: Mapped[str | None] = mapped_column(String(32), default=None)
    """The incident that it is part of, the latest of several; null: none."""
    open: Mapped[bool]
    """Whether matches can still join: false once the watermark has passed the end and the gap."""
    start_ms: Mapped[int]
    end_ms: Mapped[int]
    onset_ms: Mapped[int] = mapped_column(default=_given("start_ms"), server_default="0")
    """When the condition began to hold; only ever moves to an earlier time."""
    raised_ms: Mapped[int] = mapped_column(default=_given("created_ms"), server_default="0")
    """When the alert was raised, by the clock of the process."""
    last_seen_ms: Mapped[int] = mapped_column(default=_given("end_ms"), server_default="0")
    """When the condition held last: the end of its last match."""
    group_gap_ms: Mapped[int]
    revision: Mapped[int]
    """Grows by one with every change of state."""
    n_matches: Mapped[int]
    n_matches_exact: Mapped[bool]
    best_confidence: Mapped[float]
    at_least_one_lower: Mapped[float] = mapped_column(server_default="0")
    """P(at least one match) is between this and `at_least_one_upper`; both are equal where it is known exactly."""
    at_least_one_upper: Mapped[float] = mapped_column(server_default="1")
    at_least_one_method: Mapped[str] = mapped_column(String(16), server_default="bounds")
    """certain, exact, bounds or estimate."""
    at_least_one_estimate: Mapped[float | None]
    at_least_one_error: Mapped[float | None]
    """The standard error of the estimate."""
    possible: Mapped[str | None]
    """What the matches demand of uncertain times, so that later ones join exactly; null where that is not kept."""
    values: Mapped[dict[str, Any]]
    """The values that it shows, each from the match that the query's SHOW asks for."""
    seen: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default="{}")
    """Its first and last match and those with the greatest and least values (recording.extremes); its hosts with
    where they come from, see app.alerting.hosts; which match is the evidence."""
    labels: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default="{}")
    """What identifies it to receivers, fixed when it was raised."""
    n_hosts_left_out: Mapped[int] = mapped_column(default=0, server_default="0")
    """Hosts beyond those that are kept."""
    summary: Mapped[str]
    runbook: Mapped[str]
    best_n_events: Mapped[int]
    """Events of the match that is kept as evidence."""
    lane: Mapped[str]
    """'live', or 'history' for what a finished job's file was replayed to."""
    merged_into: Mapped[str | None] = mapped_column(String(32))
    created_ms: Mapped[int]
    updated_ms: Mapped[int]
    resolved_ms: Mapped[int | None]
    assigned_to: Mapped[str | None]
    """Who looks after it; null: nobody in particular."""
    acknowledged_until_ms: Mapped[int | None]
    """When its acknowledgement ends by itself; null: it does not, or there is none."""
    to_tell: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether somebody changed its state by hand, which the next step tells receivers."""
    hosts: Mapped[list[AlertHostRow]] = relationship(lazy="raise", viewonly=True, order_by="AlertHostRow.position")
    """In order, the first suspect first; there for alerts that app.store.api gives."""


class AlertHostRow(Base):
    """A host that an alert names, as suspect or as affected."""

    __tablename__ = "alert_hosts"
    __table_args__ = (Index("ix_alert_hosts_page", "host", "start_ms", "alert_id"),)

    alert_id: Mapped[str] = mapped_column(String(32), ForeignKey("alerts.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    host: Mapped[str]
    role: Mapped[str] = mapped_column(String(16))
    """suspect or affected."""
    value_name: Mapped[str | None]
    """The RETURN value that is shown beside it."""
    value: Mapped[Any] = mapped_column(JSON(none_as_null=True), nullable=True)
    start_ms: Mapped[int]
    """The alert's: pages of a host's alerts are read in this order."""


class IncidentMemberRow(Base):
    """An alert that is part of an incident: the incident's matches bind matches of it."""

    __tablename__ = "incident_members"
    __table_args__ = (Index("ix_incident_members_alert", "alert_id", "covered", "incident_id"),)

    incident_id: Mapped[str] = mapped_column(String(32), ForeignKey("alerts.id", ondelete="CASCADE"), primary_key=True)
    alert_id: Mapped[str] = mapped_column(String(32), ForeignKey("alerts.id", ondelete="CASCADE"), primary_key=True)
    covered: Mapped[bool]
    """Whether the incident may be told in its place: not when the alert is more severe."""
    joined_ms: Mapped[int]


class AlertChangeRow(Base):
    """One change of an alert's state, or of whether it is silenced; none is ever deleted before its alert."""

    __tablename__ = "alert_changes"

    alert_id: Mapped[str] = mapped_column(String(32), ForeignKey("alerts.id", ondelete="CASCADE"), primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    from_state: Mapped[str | None] = mapped_column(String(16))
    to_state: Mapped[str] = mapped_column(String(16))
    silenced: Mapped[bool] = mapped_column(server_default=false())
    """Whether a silence covered it from then on; where the states are equal, that is what changed."""
    at_ms: Mapped[int]
    reason: Mapped[str]
    actor: Mapped[str]


class EvidenceRow(Base):
    """One event of the match that an alert shows."""

    __tablename__ = "evidence"

    alert_id: Mapped[str] = mapped_column(String(32), ForeignKey("alerts.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    variable: Mapped[str]
    event_id: Mapped[str]
    type: Mapped[str | None]
    """Null, with all below, for an event that is no longer kept."""
    t_lo_ms: Mapped[int | None]
    t_hi_ms: Mapped[int | None]
    attributes: Mapped[dict[str, Any]]
    origin: Mapped[str | None]
    raw: Mapped[str | None]


EvidenceValues = tuple[
    str, int, str, str, str | None, int | None, int | None, dict[str, Any], str | None, str | None
]  # fmt: skip
"""The columns of EvidenceRow in their order: there are many."""


class SilenceRow(Base):
    """No notifications for alerts whose labels fulfil all matchers, from a time until another."""

    __tablename__ = "silences"
    __table_args__ = (Index("ix_silences_until", "until_ms"),)

    id: Mapped[int] = mapped_column(AutoId, primary_key=True)
    matchers: Mapped[list[Any]] = mapped_column(server_default="[]")
    """[label, operator, value] of each, see app.alerting.silencing."""
    starts_ms: Mapped[int] = mapped_column(default=_given("created_ms"), server_default="0")
    until_ms: Mapped[int]
    recurrence: Mapped[list[Any]] = mapped_column(default=list, server_default="[]")
    """Time intervals as a configuration has them, in any of which it holds; none: it holds all the time."""
    revision: Mapped[int] = mapped_column(default=1, server_default="1")
    """Grows by one with every change."""
    created_ms: Mapped[int]
    reason: Mapped[str]
    actor: Mapped[str]
    created_by: Mapped[str | None]
    """Who is said to have made it, where somebody else said so (`actor`); null: the actor."""
    ended_by: Mapped[str | None]
    """Who ended it before its time."""
    annotations: Mapped[dict[str, Any]] = mapped_column(default=dict, server_default="{}")
    """Texts by name that clients of Alertmanager's API give with it and ask for again."""


class SilenceChangeRow(Base):
    """What somebody did to a silence; none is ever deleted before its silence."""

    __tablename__ = "silence_changes"

    silence_id: Mapped[int] = mapped_column(ForeignKey("silences.id", ondelete="CASCADE"), primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at_ms: Mapped[int]
    actor: Mapped[str]
    what: Mapped[str]


class ReportRow(Base):
    """One row of a query with REPORT."""

    __tablename__ = "reports"
    __table_args__ = (
        Index("ix_reports_page", "start_ms", "id", "end_ms"),
        Index("ix_reports_page_query", "query", "start_ms", "id", "end_ms"),
        Index("ix_reports_created", "created_ms"),
        Index("ix_reports_length", text("(end_ms - start_ms)")),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    query: Mapped[str]
    query_hash: Mapped[str]
    key: Mapped[dict[str, Any]]
    key_text: Mapped[str]
    start_ms: Mapped[int]
    end_ms: Mapped[int]
    confidence: Mapped[float]
    n_matches: Mapped[int]
    n_matches_exact: Mapped[bool]
    values: Mapped[dict[str, Any]]
    summary: Mapped[str]
    lane: Mapped[str]
    created_ms: Mapped[int]


class NotificationRow(Base):
    """One message to one receiver, written with the change it tells of."""

    __tablename__ = "notifications"
    __table_args__ = (
        Index("ix_notifications_due", "status", "receiver", "next_attempt_ms", "sequence"),
        Index("ix_notifications_fingerprint", "receiver", "fingerprint", "status", "sequence"),
        Index("ix_notifications_status_sequence", "status", "sequence", "receiver"),
        Index("ix_notifications_created", "created_ms"),
        Index("ix_notifications_sequence", "sequence", "receiver"),
        Index("ix_notifications_alert", "alert_id"),
    )

    idempotency_key: Mapped[str] = mapped_column(String(64), primary_key=True)
    receiver: Mapped[str] = mapped_column(String(100), primary_key=True)
    sequence: Mapped[int]
    """Order of writing: of what has the same fingerprint, a receiver is told in this order."""
    alert_id: Mapped[str] = mapped_column(String(32), ForeignKey("alerts.id", ondelete="CASCADE"))
    group_id: Mapped[str | None] = mapped_column(String(32), default=None)
    """Of the group of alerts that it tells of, the first of which is `alert_id`; null: it tells of one alert."""
    fingerprint: Mapped[str] = mapped_column(String(32), default=_given("alert_id"), server_default="")
    """Of the alert's labels: alerts that have the same ones are one to a receiver. Of a group: its id."""
    state: Mapped[str] = mapped_column(String(16))
    revision: Mapped[int]
    payload: Mapped[dict[str, Any]]
    """The alert, or the group of alerts, as it was then; the body is rendered from it when it is sent."""
    status: Mapped[str] = mapped_column(String(16))
    """pending, delivered, failed (given up) or overtaken: a later message tells what holds in its place, or a
    silence has withdrawn it."""
    n_attempts: Mapped[int]
    tried_since_ms: Mapped[int | None]
    """When attempts began, at it or at one that it has overtaken; null: there was none."""
    next_attempt_ms: Mapped[int]
    last_error: Mapped[str | None]
    created_ms: Mapped[int]
    finished_ms: Mapped[int | None]


class ToldAlertRow(Base):
    """A message to a receiver told something new of an alert: that it fires, or that it is over."""

    __tablename__ = "told_alerts"

    alert_id: Mapped[str] = mapped_column(String(32), ForeignKey("alerts.id", ondelete="CASCADE"), primary_key=True)
    idempotency_key: Mapped[str] = mapped_column(String(64), primary_key=True)
    receiver: Mapped[str] = mapped_column(String(100), primary_key=True)


class AlertGroupRow(Base):
    """Alerts of which one route tells its receiver together, with the timer of the group."""

    __tablename__ = "alert_groups"
    __table_args__ = (Index("ix_alert_groups_flush", "flush_ms", "id"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    route: Mapped[str]
    """The identity of the route; when the tree lacks it, no alerts join any more."""
    receiver: Mapped[str] = mapped_column(String(100))
    key: Mapped[str]
    """As Alertmanager's `groupKey`."""
    labels: Mapped[dict[str, Any]]
    created_ms: Mapped[int]
    flush_ms: Mapped[int]
    """When it is looked at next."""
    told_ms: Mapped[int | None]
    """When the last message was written; null: there was none."""
    n_told: Mapped[int]
    """Messages so far."""


class GroupMemberRow(Base):
    """An alert of a group, from when it fires until the receiver was told that it is over."""

    __tablename__ = "alert_group_members"
    __table_args__ = (Index("ix_alert_group_members_alert", "alert_id"),)

    group_id: Mapped[str] = mapped_column(
        String(32), ForeignKey("alert_groups.id", ondelete="CASCADE"), primary_key=True
    )
    alert_id: Mapped[str] = mapped_column(String(32), ForeignKey("alerts.id", ondelete="CASCADE"), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(32))
    """Of its labels."""
    told: Mapped[bool]
    """Whether the receiver is, or will be, told that it fires."""
    hidden: Mapped[bool]
    """Whether it was silenced, inhibited or muted when the group was looked at: of such a one that is over by then
    nobody is told."""
    escalate_ms: Mapped[int | None] = mapped_column(default=None)
    """When somebody else is told, unless it is acknowledged; null: nobody is, or the timer has not begun."""
    escalated: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether somebody else is told as well."""


class ReceiverStatusRow(Base):
    """Whether a receiver takes messages, as of the last attempt."""

    __tablename__ = "receiver_status"

    receiver: Mapped[str] = mapped_column(String(100), primary_key=True)
    down_since_ms: Mapped[int | None]
    """Since when it takes none; null: it takes them."""
    last_error: Mapped[str | None]
    """Of the last attempt that failed while it was down; null while it is not."""
    delivered_ms: Mapped[int | None]
    """When it took one last."""


class ProblemRow(Base):
    """Something that could not be read or done as expected; one row however often it happens."""

    __tablename__ = "problems"
    __table_args__ = (Index("ix_problems_page", "last_ms", "source", "place", "kind"),)

    source: Mapped[str] = mapped_column(String(100), primary_key=True)
    place: Mapped[str] = mapped_column(String(500), primary_key=True)
    kind: Mapped[str] = mapped_column(String(100), primary_key=True)
    message: Mapped[str]
    n_times: Mapped[int]
    first_ms: Mapped[int]
    last_ms: Mapped[int]


class LateEventRow(Base):
    """An event that came after the watermark: it took no part in matching."""

    __tablename__ = "late_events"
    __table_args__ = (Index("ix_late_events_page", "seen_ms", "event_id", "source"),)

    event_id: Mapped[str] = mapped_column(String(100), primary_key=True)
    source: Mapped[str] = mapped_column(String(100), primary_key=True)
    type: Mapped[str]
    t_lo_ms: Mapped[int]
    t_hi_ms: Mapped[int]
    watermark_ms: Mapped[int]
    attributes: Mapped[dict[str, Any]]
    origin: Mapped[str | None]
    seen_ms: Mapped[int]


class CheckpointRow(Base):
    """Which checkpoint belongs to what the other tables hold: written in the same transaction."""

    __tablename__ = "checkpoints"

    pipeline: Mapped[str] = mapped_column(String(100), primary_key=True)
    number: Mapped[int]
    file: Mapped[str]
    digest: Mapped[str] = mapped_column(String(64))
    version: Mapped[int]
    written_ms: Mapped[int]
    epoch: Mapped[str] = mapped_column(String(16), server_default="")
    """Of the numbers: another start without a past counts from 1 again."""
    place: Mapped[str] = mapped_column(server_default="")
    """HOST:FOLDER of the file, as of whoever wrote it; empty: by an earlier version."""


class OwnerRow(Base):
    """The one process that makes the store's steps, or the last one that did."""

    __tablename__ = "owner"

    name: Mapped[str] = mapped_column(String(16), primary_key=True)
    token: Mapped[str] = mapped_column(String(32))
    """Known to the owner alone, and another one for each; empty: it has ended."""
    command: Mapped[str] = mapped_column(String(16))
    host: Mapped[str] = mapped_column(String(255))
    pid: Mapped[int]
    folder: Mapped[str]
    """Its store.directory."""
    boot: Mapped[str]
    namespace: Mapped[str]
    started: Mapped[str]
    lock: Mapped[str]
    """By these the same machine knows whether it is gone: see `app.store.owner.Claimant`."""
    claimed_ms: Mapped[int]
    renewed_ms: Mapped[int]
    """Both by the database's clock."""


class StatisticRow(Base):
    """A counter: how many events of a type came from a source, and what became of them."""

    __tablename__ = "statistics"

    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    source: Mapped[str] = mapped_column(String(100), primary_key=True)
    type: Mapped[str] = mapped_column(String(100), primary_key=True)
    value: Mapped[int]


class SourceStatusRow(Base):
    """How one source of the live process stands, as of its last step."""

    __tablename__ = "source_status"

    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    interval_ms: Mapped[int]
    watermark_ms: Mapped[int | None]
    """What it promises; null until it was heard of."""
    polled_ms: Mapped[int | None]
    """Its last poll, however it ended."""
    succeeded_ms: Mapped[int | None]
    n_failed_in_a_row: Mapped[int]
    last_error: Mapped[str | None]
    """Of the last poll that failed; null while the last one succeeded."""
    left_out: Mapped[bool]
    """Silent for so long that the others go on without it."""


class ProcessStatusRow(Base):
    """How the live process stands, as of its last step: figures since it started, as JSON."""

    __tablename__ = "process_status"

    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    updated_ms: Mapped[int]
    value: Mapped[dict[str, Any]]
