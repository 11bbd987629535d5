"""Writing matches as alerts and reports, with their notifications, inside one transaction.

The open alerts of the store are the only memory of episodes: after a restart nothing has to be brought in agreement.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from app.alerting import lifecycle
from app.alerting.catalog import QueryInfo
from app.alerting.lifecycle import Change, State
from app.alerting.recording import certainty
from app.alerting.recording.batches import MOST_ALERTS, in_parts
from app.alerting.recording.between_steps import BetweenSteps
from app.alerting.recording.episodes import (
    NOTHING_MISSING,
    CreatedAlert,
    Episode,
    alert_id,
    created_id,
    onset_ms,
)
from app.alerting.recording.evidence import Bound, KnownEvent, evidence_rows
from app.alerting.recording.extremes import shown_match
from app.alerting.recording.found import WholeReport, found_in
from app.alerting.recording.incidents import IncidentMembers, severity_of
from app.alerting.recording.kept import Kept
from app.alerting.recording.labels import labels_of_new
from app.alerting.recording.match import Match
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.outcome import Outcome
from app.alerting.recording.report_rows import HISTORY, LIVE
from app.alerting.recording.telling import Telling
from app.store.models import AlertRow
from app.store.storable import storable_values
from app.store.writing.known_alerts import Span
from app.store.writing.writer import Writer

EvidenceLookup = Callable[[Sequence[str]], Mapping[str, KnownEvent]]
"""Event ids -> the events that are still kept, as mappings of header columns and attributes."""


class Recorder:
    """Applies one step's matches to the store."""

    def __init__(
        self,
        options: AlertingOptions,
        writer: Writer,
        lookup: EvidenceLookup,
        now_ms: int,
        effort: certainty.Effort | None = None,
    ) -> None:
        """`effort`: what the evaluations of the same step have taken in other transactions."""
        self._options = options
        self._writer = writer
        self.lookup = lookup
        self._now_ms = now_ms
        self._effort = effort or certainty.Effort()
        self._events: Mapping[str, KnownEvent] = {}
        """The kept events of the episodes that are being written, by id."""
        self._ids: dict[tuple[str, str, int], str] = {}
        """Of their alerts, by query, key and start."""
        self.outcome = Outcome()

    def live(
        self,
        matches: Sequence[Match],
        watermark_ms: int,
        events: Mapping[int, str] | None = None,
        missing_until_ms: Mapping[str, int] = NOTHING_MISSING,
    ) -> Outcome:
        """Matches of the live stream: new episodes fire, known ones grow, those that are over resolve.

        `events`: the engine.bindings_digest of rows of reports that come without their events, by place in `matches`.
        `missing_until_ms`: see `episodes.is_shed`.
        """
        found = found_in(matches, self._options.queries, LIVE, events, missing_until_ms=missing_until_ms)
        self.settle_changed_queries()
        for part in self.parts(found.episodes):
            self.join(part, watermark_ms)
        while self.release_members(MOST_ALERTS):  # before they are over: else nobody would be told of them
            pass
        while over := self.over(watermark_ms):  # an incident is over when the alerts behind it are
            for ids in in_parts(over):
                self.close(ids, watermark_ms)
        while self.release_members(MOST_ALERTS):
            pass
        while self.between_steps.follow(MOST_ALERTS):  # after them: what is over by now need not be told to fire
            pass
        self.report(found.reports)
        return self.outcome

    def history(self, matches: Sequence[Match], lookup: EvidenceLookup) -> Outcome:
        """Matches of a finished job's file: complete, so each episode fires and resolves; known ones stay as they are.

        Rows of reports replace what an incomplete live view gave for the same query and key.
        """
        found = found_in(matches, self._options.queries, HISTORY)
        for part in self.parts(found.episodes):
            self.join_complete(part, lookup)
        self.remove_incomplete(found.whole)
        self.report(found.reports)
        return self.outcome

    def parts(self, episodes: Sequence[Episode], at_most: int = MOST_ALERTS) -> Iterator[Sequence[Episode]]:
        """Cut into what one transaction takes."""
        return in_parts(episodes, at_most, n_events=lambda episode: len(self._evidence_of(episode)))

    def join(self, episodes: Sequence[Episode], watermark_ms: int, lookup: EvidenceLookup | None = None) -> None:
        """Some of a step's episodes, all of one query and key together: new ones fire, known ones grow.

        `lookup`: in place of that of all.
        """
        self._look_up(episodes, lookup)
        for episode in episodes:
            self._join(episode, watermark_ms)
        self._done()

    def over(self, watermark_ms: int) -> list[str]:
        """Ids of the open alerts that the watermark has passed."""
        return self._writer.alerts.open_over(watermark_ms)

    def close(self, alert_ids: Sequence[str], watermark_ms: int) -> None:
        """Resolve alerts that the watermark has passed, as far as they are still open."""
        alerts = self._writer.alerts.look_up_to_close(alert_ids)
        self._telling.look_up(alerts)
        for alert in alerts:
            self._close(alert, watermark_ms)
        self._done()

    def alerts_on(self, episode: Episode) -> bool:
        """Whether the query of an episode that was set aside still raises alerts."""
        info = self._options.queries.get(episode.query)
        return info is not None and not info.is_report

    def _look_up(self, episodes: Sequence[Episode], lookup: EvidenceLookup | None = None) -> None:
        """Read at once what these need of the store and of the kept events."""
        queries, spans = self._options.queries, []
        for episode in episodes:
            info = queries[episode.query]
            from_ms, to_ms = episode.start_ms - info.group_gap_ms, episode.end_ms + info.group_gap_ms
            spans.append(Span(episode.query, episode.key_text, from_ms, to_ms, self._id(episode)))
        bound = [Span(match.query, match.key_text, match.at_ms, match.at_ms) for of in episodes for match in of.bound]
        self._writer.rows.look_up([*spans, *bound], with_incidents=bool(bound))
        if bound and self._writer.rows.known is not None:
            self._writer.groups.look_up_told(self._writer.rows.known.by_id.keys())
        self._events = (lookup or self.lookup)(self.events_of(episodes))

    def events_of(self, episodes: Sequence[Episode]) -> list[str]:
        """Ids of the events that are asked for when these episodes are joined."""
        wanted: list[str] = []
        for episode in episodes:
            wanted += [event_id for _, event_id in self._evidence_of(episode)]
            wanted += filter(None, episode.onset)
        return wanted

    def _evidence_of(self, episode: Episode) -> Bound:
        """What is kept of the match that the episode shows, with whatever other matches its alert has, if any."""
        shown = shown_match(episode.extremes, self._options.queries[episode.query].shown)
        return shown.evidence(self._options.max_evidence_events)

    def _done(self) -> None:
        self._writer.rows.forget()
        self._events, self._ids = {}, {}

    def join_complete(self, episodes: Sequence[Episode], lookup: EvidenceLookup) -> None:
        """Some of the episodes of a finished job; `lookup`: of its events."""
        self._look_up(episodes, lookup)
        complete = Change(State.RESOLVED, "the job's history is complete")
        for episode in episodes:
            info = self._options.queries[episode.query]
            near = self._writer.alerts.near(
                episode.query, episode.key_text, episode.start_ms, episode.end_ms, info.group_gap_ms
            )
            if not near and self._writer.alerts.get(self._id(episode)) is None:
                alert = self._create(episode, HISTORY)
                if episode.bound:
                    self._members.complete(alert, HISTORY, complete)
                if not episode.is_claimed:  # else with its incident, which comes: whom that is not told to is told
                    self._change(alert, complete)
                    alert.open = False
            elif near and episode.bound:
                self._members.bind(near[0], episode.bound)
                self._members.complete(near[0], HISTORY, complete)
        self._done()

    def acknowledge(self, alert: AlertRow, actor: str, note: str, until_ms: int | None = None) -> None:
        """A person has seen the alert; raises TransitionError when it is over."""
        self._change(alert, lifecycle.on_acknowledge(State(alert.state), actor, note, until_ms))
        if alert.is_incident:
            self._members.acknowledge(alert, actor, note, until_ms)

    def release_members(self, at_most: int) -> int:
        """Alerts are told by themselves of which no incident goes on any more. Returns how many there were; as many as
        `at_most`: there may be more."""
        n_released = self._members.release(at_most)
        self._writer.rows.flush()
        return n_released

    def end_failed_incidents(self, failed: Collection[str]) -> None:
        """Incidents of queries that have failed are over: their alerts are told as if there were none."""
        names = [name for name in failed if name in self._options.queries and self._options.queries[name].is_incident]
        for incident in self._writer.incidents.open_of(names) if names else ():
            self._resolve(incident, "its query has failed, see the problems; its alerts are told by themselves")

    @cached_property
    def _members(self) -> IncidentMembers:
        return IncidentMembers(self._writer, self._change, self._now_ms)

    @cached_property
    def _telling(self) -> Telling:
        return Telling(self._options, self._writer, self._members, self.outcome, self._now_ms)

    @cached_property
    def between_steps(self) -> BetweenSteps:
        """What alerts have become by people and by the clock."""
        return BetweenSteps(self._writer, self._telling, self._change, self._now_ms)

    def unacknowledge(self, alert: AlertRow, actor: str, note: str) -> None:
        """A person looks after the alert no longer, which the next step tells; raises TransitionError when nobody
        does."""
        self._change(alert, lifecycle.on_unacknowledge(State(alert.state), actor, note))
        alert.to_tell = True
        if alert.is_incident:
            self._members.unacknowledge(alert, actor, note)

    def close_by_hand(self, alert: AlertRow, actor: str, note: str) -> None:
        """A person says that the alert is over, which the next step tells; raises TransitionError when it is. Matches
        can still join it."""
        self._change(alert, lifecycle.on_close(State(alert.state), actor, note))
        alert.to_tell = True
        if alert.is_incident:
            self._members.close(alert, actor, note)

    def assign(self, alert: AlertRow, to: str | None, actor: str, note: str) -> None:
        """Somebody looks after the alert, None: nobody in particular; nobody is told. It stays as it is otherwise."""
        alert.revision += 1
        alert.assigned_to, alert.updated_ms = to, self._now_ms
        said = "assigned to nobody" if to is None else f"assigned to {to}"
        self._record(alert, alert.state, Change(State(alert.state), f"{said}: {note}" if note else said, actor))

    # ---------------------------------------------------------------- episodes

    def settle_changed_queries(self) -> None:
        """Open alerts of queries that are no longer as they were: taken over where new matches can still join them."""
        queries = self._options.queries
        for alert in self._writer.alerts.open_of_other_meanings({name: info.hash for name, info in queries.items()}):
            info = queries.get(alert.query)
            if info is None:
                self._resolve(alert, "its query no longer runs: it was removed, renamed or disabled")
            elif info.is_report:
                self._resolve(alert, "its query was changed, and raises no alerts any more")
            elif set(alert.key) != {*info.key, *info.per}:
                now = ", ".join([*info.key, *(name for name in info.per if name not in info.key)]) or "nothing"
                self._resolve(alert, f"its query was changed: alerts are now told apart by {now}")
            else:
                alert.query_hash = info.hash
                self.outcome.tell(alert, "its query was changed; the alert is taken over")
        incidents = [name for name, info in queries.items() if info.is_incident]
        for alert in self._writer.incidents.open_of_other_kind(incidents):
            if alert.open and alert.query in queries:
                alert.is_incident = queries[alert.query].is_incident
                becomes = "an incident" if alert.is_incident else "an alert like any other, and hides none"
                self.outcome.tell(alert, f"its query was changed; it is now {becomes}")

    def _resolve(self, alert: AlertRow, reason: str) -> None:
        self._change(alert, Change(State.RESOLVED, reason))
        alert.open = False
        self.outcome.n_resolved += 1

    def _id(self, episode: Episode) -> str:
        place = episode.query, episode.key_text, episode.start_ms
        if (known := self._ids.get(place)) is None:
            known = self._ids[place] = self._id_of(episode)
        return known

    def _id_of(self, episode: Episode) -> str:
        info = self._options.queries[episode.query]
        told = created_id(self._options.told, episode, info.hash, info.group_gap_ms) if self._options.told else None
        return told or alert_id(episode.query, episode.key_text, episode.start_ms, info.hash)

    def _join(self, episode: Episode, watermark_ms: int) -> None:
        gap_ms = self._options.queries[episode.query].group_gap_ms
        near = self._writer.alerts.near(episode.query, episode.key_text, episode.start_ms, episode.end_ms, gap_ms)
        if not near and (same := self._writer.alerts.get(self._id(episode))) is not None:
            near = [same]  # merged into another one since
            while (into_id := near[0].merged_into) is not None and (
                into := self._writer.alerts.get(into_id)
            ) is not None:
                near = [into]
            self._writer.rows.forget()  # of such a one not all was read
        if not near and episode.bound:  # it goes on while alerts behind it do
            near = self._writer.alerts.open_of(episode.query, episode.key_text)[:1]
        if not near:
            self._close_before(episode, watermark_ms)
            self._create(episode, LIVE)
            return
        alert, *others = near
        grew = episode.end_ms > max(other.end_ms for other in near)
        going_on = [other for other in others if State(other.state) is not State.RESOLVED]
        acknowledged = [other for other in going_on if State(other.state) is State.ACKNOWLEDGED]
        until_ms = acknowledged[0].acknowledged_until_ms if acknowledged else None
        for other in others:
            self._merge(alert, other)
        self._extend(alert, episode, others)
        over = lifecycle.is_over(alert.end_ms, alert.group_gap_ms, watermark_ms)
        goes_on = not over and (grew or bool(going_on))
        state = State(alert.state)
        # With a route `group_wait` hides it, and receivers that its incident does not lead to are told.
        claimed = episode.is_claimed and self._options.routing is None
        covered = state is State.RESOLVED and (claimed or self._members.is_covered(alert))
        silenced = self.between_steps.silenced(alert)
        change = lifecycle.on_late_match(state, goes_on=goes_on, silenced=silenced, covered=covered)
        if self._change(alert, change):
            alert.open, alert.resolved_ms = True, None
            if acknowledged and acknowledged == going_on:
                self._change(alert, self._acknowledged_as(acknowledged[0], until_ms))
        if episode.bound:
            self._members.bind(alert, episode.bound)

    def _close_before(self, episode: Episode, watermark_ms: int) -> None:
        """A new alert follows others of its key: these are told to be over before it is told to fire, since their
        labels may be the same, and whoever goes by labels would take it for over."""
        for alert in self._writer.alerts.open_of(episode.query, episode.key_text):
            if alert.end_ms < episode.start_ms and lifecycle.is_over(alert.end_ms, alert.group_gap_ms, watermark_ms):
                self._close(alert, watermark_ms)

    def _acknowledged_as(self, other: AlertRow, until_ms: int | None) -> Change:
        """What was said when an alert was acknowledged that has become part of another."""
        said = self._writer.alerts.last_change_to(other.id, State.ACKNOWLEDGED)
        return Change(State.ACKNOWLEDGED, f"{said.reason} (as {other.id})", said.actor, until_ms=until_ms)

    def _create(self, episode: Episode, lane: str) -> AlertRow:
        info = self._options.queries[episode.query]
        severity = severity_of(episode, info, self._options.queries)
        key, kept, new_id = storable_values(dict(episode.key)), Kept.of_new(episode), self._id(episode)
        shown, bound = kept.shown(info), kept.shown(info).evidence(self._options.max_evidence_events)
        kept.evidence = shown.digest if bound else None
        columns, hosts = kept.shown_of(key, info)
        labels = {**self._labels(info, key, columns, bound), "severity": severity.value}
        change = lifecycle.on_new(self.between_steps.silencing(labels), claimed=episode.is_claimed)
        # All at once: each change of an attribute would be noted for the database.
        alert = self._writer.alerts.add_gathered(
            {
                "id": new_id,
                "query": episode.query,
                "query_hash": info.hash,
                "key": key,
                "key_text": episode.key_text,
                "severity": severity.value,
                "state": change.to_state.value,
                "silenced": bool(change.silenced),
                "inhibited": bool(change.inhibited),
                "is_incident": info.is_incident,
                "incident_id": None,
                "open": True,
                "start_ms": episode.start_ms,
                "end_ms": episode.end_ms,
                "onset_ms": min(episode.end_ms, onset_ms(episode, self._events)),
                "raised_ms": self._now_ms,
                "last_seen_ms": episode.end_ms,
                "group_gap_ms": info.group_gap_ms,
                "revision": 1,
                "n_matches": episode.n_matches,
                "n_matches_exact": episode.n_matches_exact,
                "best_confidence": episode.best_confidence,
                "labels": labels,
                "runbook": info.runbook,
                "best_n_events": shown.n_events if bound else 0,
                "lane": lane,
                "merged_into": None,
                "created_ms": self._now_ms,
                "updated_ms": self._now_ms,
                "resolved_ms": None,
                "assigned_to": None,
                "acknowledged_until_ms": None,
                "to_tell": False,
                **columns,
                **certainty.columns(episode.possible, self._effort),
            }
        )
        if bound:
            self._writer.alerts.replace_evidence(new_id, evidence_rows(new_id, bound, self._events))
        self._writer.alerts.replace_hosts(new_id, episode.start_ms, hosts)
        self._record(alert, None, change)
        if episode.bound:  # before it is told: with the alerts behind it
            self._members.bind(alert, episode.bound)
        self._telling.change(alert, None)
        self.outcome.n_new_alerts += 1
        now = (new_id, episode.query, info.hash, episode.key_text, episode.start_ms, episode.end_ms)
        self.outcome.created.append(CreatedAlert(*now))
        return alert

    def _extend(self, alert: AlertRow, episode: Episode, others: Sequence[AlertRow]) -> None:
        """Further matches join an alert, with those of others that have just become part of it."""
        kept = Kept.of(alert)
        for other in others:
            kept.add(Kept.of(other))
        kept.add(episode)
        alert.start_ms = min(alert.start_ms, episode.start_ms)
        alert.end_ms = max(alert.end_ms, episode.end_ms)
        alert.last_seen_ms = max(alert.last_seen_ms, episode.end_ms)
        alert.n_matches += episode.n_matches
        alert.n_matches_exact = alert.n_matches_exact and episode.n_matches_exact
        alert.best_confidence = max(alert.best_confidence, episode.best_confidence)
        certainty.add(alert, episode.possible, self._effort)
        alert.updated_ms = self._now_ms
        alert.is_incident = self._options.queries[alert.query].is_incident
        self._show(alert, kept, episode, others)

    def _merge(self, alert: AlertRow, other: AlertRow) -> None:
        """A match bridges two episodes: the earlier one goes on, the other ends in it."""
        alert.start_ms, alert.end_ms = min(alert.start_ms, other.start_ms), max(alert.end_ms, other.end_ms)
        alert.onset_ms, alert.raised_ms = min(alert.onset_ms, other.onset_ms), min(alert.raised_ms, other.raised_ms)
        alert.last_seen_ms = max(alert.last_seen_ms, other.last_seen_ms)
        alert.best_confidence = max(alert.best_confidence, other.best_confidence)
        alert.assigned_to = alert.assigned_to or other.assigned_to
        alert.n_matches += other.n_matches
        alert.n_matches_exact = alert.n_matches_exact and other.n_matches_exact
        certainty.add(alert, certainty.kept(other), self._effort)
        self._members.merge(alert, other)
        if State(other.state) is not State.RESOLVED:
            self._change(other, Change(State.RESOLVED, f"joined {alert.id}: a match bridges both"))
        other.open, other.merged_into, other.updated_ms = False, alert.id, self._now_ms

    def _close(self, alert: AlertRow, watermark_ms: int) -> None:
        change = lifecycle.on_watermark(State(alert.state), alert.end_ms, alert.group_gap_ms, watermark_ms)
        self._change(alert, change)
        alert.open = False
        self.outcome.n_resolved += 1

    def _show(self, alert: AlertRow, kept: Kept, episode: Episode, before: Sequence[AlertRow] = ()) -> None:
        """Put into the alert what its matches say now; `before`: alerts that have just become part of it."""
        info = self._options.queries[alert.query]
        shown = kept.shown(info)
        bound: Bound = ()
        if shown.has_events and shown.digest != kept.evidence:
            bound = shown.evidence(self._options.max_evidence_events)
            alert.best_n_events = shown.n_events
        events = self._events
        alert.onset_ms = min(alert.onset_ms, onset_ms(episode, events))
        if bound:
            self._writer.alerts.replace_evidence(alert.id, evidence_rows(alert.id, bound, events))
            kept.evidence = shown.digest
        for other in before:
            if shown.digest != kept.evidence and shown.digest == Kept.of(other).evidence:
                self._writer.alerts.copy_evidence(other.id, alert.id)
                alert.best_n_events, kept.evidence = other.best_n_events, shown.digest
        columns, hosts = kept.shown_of(alert.key, info)
        for name, value in {**columns, "runbook": info.runbook}.items():
            setattr(alert, name, value)
        self._writer.alerts.replace_hosts(alert.id, alert.start_ms, hosts)
        if not alert.labels:
            alert.labels = self._labels(info, alert.key, columns, bound)

    def _labels(
        self, info: QueryInfo, key: Mapping[str, Any], shown: Mapping[str, Any], bound: Bound
    ) -> dict[str, str]:
        events = (known.attributes for _, event_id in bound if (known := self._events.get(event_id)) is not None)
        return labels_of_new(info, key, shown, events, self._options.external_labels)

    # ------------------------------------------------------ states and messages

    def _change(self, alert: AlertRow, change: Change | None) -> bool:
        if change is None:
            return False
        before = alert.state or None
        alert.revision += 1
        alert.state = change.to_state.value
        if change.silenced is not None:
            alert.silenced = change.silenced
        if change.inhibited is not None:
            alert.inhibited = change.inhibited
        alert.updated_ms = self._now_ms
        if change.to_state != before:
            alert.acknowledged_until_ms, alert.to_tell = change.until_ms, False
        if change.to_state is State.RESOLVED:
            alert.resolved_ms = self._now_ms
        self._changed(alert, before, change)
        return True

    def _changed(self, alert: AlertRow, before: str | None, change: Change) -> None:
        """A change was made on an alert that was in the state `before`: it is recorded, and told."""
        self._record(alert, before, change)
        self._telling.change(alert, before, again=change.inhibited is False and before is not None)

    def _record(self, alert: AlertRow, before: str | None, change: Change) -> None:
        if change.silenced or change.inhibited:
            self._writer.outbox.withdraw(alert, self._now_ms)
        if change.silenced is not None:
            self.between_steps.looked_for_silences()
        self._writer.alerts.add_change(
            {
                "alert_id": alert.id,
                "revision": alert.revision,
                "from_state": before,
                "to_state": alert.state,
                "silenced": alert.silenced,
                "at_ms": self._now_ms,
                "reason": change.reason,
                "actor": change.actor,
            }
        )
        if alert.state != before:
            self.outcome.n_changes[alert.query, alert.state] += 1
        self.outcome.tell(alert, f"{lifecycle.state_text(alert.state, alert.silenced)}: {change.reason}")

    # ----------------------------------------------------------------- reports

    def report(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows of reports, see app.alerting.recording.found."""
        self.outcome.n_reports += self._writer.reports.add({**row, "created_ms": self._now_ms} for row in rows)

    def remove_incomplete(self, whole: Sequence[WholeReport]) -> None:
        """Remove rows that an incomplete live view gave where a job's history gives all of them."""
        for known in whole:
            self._writer.reports.remove(known.query, known.key_text, LIVE, known.from_ms, known.to_ms, keep=known.ids)
