"""What a step has found and the store has not yet: stored in parts, each a transaction that holds the store briefly.

Where one part is not enough, what was found is part of the step's checkpoint, and each part says in its transaction
how far it came: a process that takes the checkpoint up goes on there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from app.alerting.lifecycle import is_over
from app.alerting.recording import certainty
from app.alerting.recording.batches import MOST_ALERTS, MOST_ROWS
from app.alerting.recording.episodes import Episode
from app.alerting.recording.evidence import KnownEvent
from app.alerting.recording.found import Found
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.recorder import EvidenceLookup, Recorder
from app.alerting.recording.set_aside import from_table, to_table
from collectors.base import FinishedHistory
from engine.events import EventBatch

FOUND = "found"
_AHEAD = 4 * MOST_ALERTS
"""Episodes whose events are looked up at once, at most: it takes long enough to be noticed in a transaction."""
_ROWS_PER_ALERT = MOST_ROWS // MOST_ALERTS
"""How many rows of reports are as much work as an alert."""


@dataclass(frozen=True)
class OfHistory:
    """What the history of a finished job gave."""

    history: FinishedHistory
    found: Found
    lookup: EvidenceLookup


class Unstored:
    """The rest of a step, in its order: alerts that fire or grow, those that are over, silences, reports, histories."""

    def __init__(
        self,
        watermark_ms: int,
        live: Found,
        histories: Sequence[OfHistory | None] = (),
        most_alerts: int = MOST_ALERTS,
    ) -> None:
        """`histories`: None for those that are stored. `most_alerts`: that one part takes, about."""
        self.watermark_ms = watermark_ms
        self._most_alerts = most_alerts
        self.is_set_aside = False
        """Whether it is part of the checkpoint."""
        self._live = live
        self._histories = histories
        self._n_episodes = self._n_reports = self._n_histories = 0
        """So many are stored."""
        self._n_of_history = 0
        """Episodes of the history that is next."""
        self._looked_up: tuple[set[str], Mapping[str, KnownEvent]] = set(), {}
        """Ids of events that episodes show, and those of them that are kept."""
        self._over: list[str] | None = None
        self._uncovered_told = self._has_closed = self._members_released = self._silences_ended = False
        self.effort = certainty.Effort()
        """Of all parts together."""

    @property
    def is_stored(self) -> bool:
        """Whether nothing is left."""
        return self._n_histories == len(self._histories) and self._live_is_stored

    @property
    def found(self) -> list[Found]:
        """Of all lanes."""
        return [self._live, *(of.found for of in self._histories if of is not None)]

    def is_much(self, n_waiting: int) -> bool:
        """Whether it is more than one part; `n_waiting`: alerts in the store that are over, or were changed."""
        n_alerts = n_waiting + sum(len(part.episodes) for part in self.found)
        n_alerts += sum(self._closes(episode) for episode in self._live.episodes)
        return n_alerts + sum(len(part.reports) for part in self.found) // _ROWS_PER_ALERT > self._most_alerts

    def store_part(self, recorder: Recorder, at_most: int | None = None) -> int:
        """As much as one transaction takes, `at_most` of it; all, when it is not set aside. Returns how many alerts'
        work it was."""
        at_most = self._most_alerts if at_most is None else min(at_most, self._most_alerts)
        n_done = 0
        while not self.is_stored and (n_done < at_most or not self.is_set_aside):
            n_done += self._store_some(recorder, max(at_most - n_done, 1) if self.is_set_aside else MOST_ALERTS)
        return n_done

    # --------------------------------------------------------------------- parts

    @property
    def _live_is_stored(self) -> bool:
        found = self._live
        return (
            self._n_episodes == len(found.episodes)
            and self._over == []
            and not self._has_closed
            and self._members_released
            and self._silences_ended
            and self._n_reports == len(found.reports)
        )

    def _store_some(self, recorder: Recorder, room: int) -> int:
        """The next thing, of at most `room` alerts; returns how many alerts' work it was."""
        if self._n_episodes < len(self._live.episodes):
            return self._join_some(recorder, room)
        if not self._uncovered_told:  # before they are over: else nobody would be told of them
            n_released = recorder.release_members(room)
            self._uncovered_told = n_released < room
            return n_released
        if self._over is None or (self._over == [] and self._has_closed):  # an incident is over when its alerts are
            is_first = self._over is None
            self._over, self._has_closed = recorder.over(self.watermark_ms), False
            self._members_released = is_first and not self._over  # none is uncovered since they were told
            return 0
        if self._over:
            part_over, self._over, self._has_closed = self._over[:room], self._over[room:], True
            recorder.close(part_over, self.watermark_ms)
            return len(part_over)
        if not self._members_released:
            n_released = recorder.release_members(room)
            self._members_released = n_released < room
            return n_released
        if not self._silences_ended:  # after them: what is over by now need not be told to fire
            n_ended = recorder.between_steps.follow(room)
            self._silences_ended = n_ended < room
            return n_ended
        if self._n_reports < len(self._live.reports):
            rows = self._live.reports[self._n_reports : self._n_reports + room * _ROWS_PER_ALERT]
            recorder.report(rows)
            self._n_reports += len(rows)
            return -(-len(rows) // _ROWS_PER_ALERT)
        return self._store_history(recorder, self._histories[self._n_histories], room)

    def _join_some(self, recorder: Recorder, room: int) -> int:
        known = self._live.episodes[self._n_episodes : self._n_episodes + room]
        gone = next((at for at, episode in enumerate(known) if not recorder.alerts_on(episode)), len(known))
        if gone == 0:
            self._n_episodes += 1
            return 0
        part = next(recorder.parts(known[:gone]))
        recorder.join(part, self.watermark_ms, lambda ids: self._look_up(recorder, ids))
        self._n_episodes += len(part)
        return len(part) if len(part) == gone else room

    def _look_up(self, recorder: Recorder, event_ids: Sequence[str]) -> Mapping[str, KnownEvent]:
        """Events of a part; together with those of the next ones, since each time all recent events are looked at."""
        asked, found = self._looked_up
        if not asked.issuperset(event_ids):
            following = self._live.episodes[self._n_episodes : self._n_episodes + _AHEAD]
            known = [episode for episode in following if recorder.alerts_on(episode)]
            asked = {*event_ids, *recorder.events_of(next(recorder.parts(known, _AHEAD)))}
            found = recorder.lookup([*asked])
            self._looked_up = asked, found
        return found

    def _store_history(self, recorder: Recorder, of: OfHistory | None, room: int) -> int:
        assert of is not None, "those that were stored before are passed over"
        episodes = of.found.episodes
        if self._n_of_history < len(episodes):
            part = next(recorder.parts(episodes[self._n_of_history : self._n_of_history + room]))
            recorder.join_complete(part, of.lookup)
            self._n_of_history += len(part)
            return len(part)
        recorder.remove_incomplete(of.found.whole)
        recorder.report(of.found.reports)
        self._n_histories, self._n_of_history = self._n_histories + 1, 0
        return len(of.found.reports) // _ROWS_PER_ALERT

    def _closes(self, episode: Episode) -> bool:
        return is_over(episode.end_ms, 0, self.watermark_ms)

    # ---------------------------------------------------------------- checkpoint

    def progress(self) -> dict[str, Any]:
        """How far it came."""
        return {
            "n_episodes": self._n_episodes,
            "n_reports": self._n_reports,
            "n_histories": self._n_histories,
            "of_history": self._place_in_history(),
            "n_hard": self.effort.n_hard,
        }

    def _place_in_history(self) -> list[Any]:
        """How many episodes of the history that is next are stored, and which was the last one."""
        if not self._n_of_history:
            return []
        of = self._histories[self._n_histories]
        assert of is not None, "it is under way"
        last = of.found.episodes[self._n_of_history - 1]
        return [self._n_of_history, last.query, last.key_text, last.start_ms]

    def _go_on_in_history(self, place: Sequence[Any]) -> None:
        """From a place; when the history now gives other episodes from its start: those that are known stay so."""
        self._n_of_history = place[0] if place else 0
        of = self._histories[self._n_histories] if self._n_histories < len(self._histories) else None
        if of is None or self._n_of_history > len(of.found.episodes) or self._place_in_history() != list(place):
            self._n_of_history = 0

    def save(self, alerting: AlertingOptions) -> tuple[dict[str, pa.Table], list[list[str]]]:
        """Tables, and which histories: (job, origin, source)."""
        self.is_set_aside = True
        histories = [of.history for of in self._histories if of is not None]
        tables = {f"history-{i}": history.events.table for i, history in enumerate(histories)}
        found = to_table(self._live, alerting.queries, alerting.max_evidence_events)
        return {FOUND: found, **tables}, [[history.job_id, history.origin, history.source] for history in histories]

    @classmethod
    def restored(
        cls,
        watermark_ms: int,
        live: Found,
        histories: Sequence[FinishedHistory],
        progress: Mapping[str, Any],
        replay: Callable[[FinishedHistory], OfHistory],
        most_alerts: int = MOST_ALERTS,
    ) -> Unstored:
        """What was set aside, as far as it was stored."""
        n_histories = int(progress.get("n_histories", 0))
        left = [replay(history) if i >= n_histories else None for i, history in enumerate(histories)]
        rest = cls(watermark_ms, live, left, most_alerts)
        rest.is_set_aside = True
        rest._n_episodes, rest._n_reports = (int(progress.get(name, 0)) for name in ("n_episodes", "n_reports"))
        rest._n_histories = n_histories
        rest._go_on_in_history(progress.get("of_history", ()))
        rest.effort.n_hard = int(progress.get("n_hard", 0))
        return rest


def read_tables(
    tables: Mapping[str, pa.Table], histories: Sequence[Sequence[str]]
) -> tuple[Found, list[FinishedHistory]]:
    """What `Unstored.save` returned; raises KeyError, TypeError or ValueError for anything else."""
    finished = [
        FinishedHistory(str(job_id), str(origin), EventBatch(tables[f"history-{i}"]), *map(str, source))
        for i, (job_id, origin, *source) in enumerate(histories)
    ]
    return from_table(tables[FOUND]), finished


__all__ = ["OfHistory", "Unstored", "read_tables"]
