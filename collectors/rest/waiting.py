"""Applications that wait for containers, of any type: ACCEPTED ones for their master, RUNNING ones for further ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from collectors.hadoop_ids import application_of_job, is_application, job_of_application
from collectors.identity import record_id
from collectors.lifecycle import EventRows
from collectors.printable import printable
from collectors.rest.documents import AppFacts

_MOMENT = re.compile(r"^\[[^\]]*\]\s*")
_DETAILS = re.compile(r"Details\s*:.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class WaitState:
    """What a poll remembers of an open application until the next one."""

    state: str
    has_run: bool
    since_ms: int | None
    """Since when it waits; None when it does not."""
    n_containers: int | None = None
    n_pending: int | None = None

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> WaitState:
        """Back from `asdict`; raises TypeError or ValueError for anything else."""
        known = cls(**saved)
        whole = [known.since_ms, known.n_containers, known.n_pending]
        if not isinstance(known.state, str) or any(n is not None and not isinstance(n, int) for n in whole):
            raise ValueError(f"no state of a waiting application: {saved!r}")
        return known


class Waiting:
    """The open applications, and since when each of them waits."""

    def __init__(self) -> None:
        self._known: dict[str, WaitState] = {}
        """By application id."""

    def tell(self, rows: EventRows, apps: Iterable[AppFacts], clock_id: str, t_ms: int) -> None:
        """An AppWaiting for each application of the list of `t_ms` that waits."""
        before, self._known = self._known, {}
        for app in apps:
            if app.state not in ("ACCEPTED", "RUNNING"):
                continue
            known = before.get(app.application_id)
            since_ms = (
                _accepted_since(app, known, t_ms) if app.state == "ACCEPTED" else _starved_since(app, known, t_ms)
            )
            has_run = app.state == "RUNNING" or (known is not None and known.has_run)
            held = app.containers
            self._known[app.application_id] = WaitState(app.state, has_run, since_ms, held.n_containers, held.n_pending)
            if since_ms is not None and since_ms <= t_ms:  # else the ResourceManager's clock is ahead
                _tell(rows, app, clock_id, t_ms, t_ms - since_ms)

    def checkpoint(self) -> dict[str, Any]:
        """As JSON-able values."""
        return {application_id: asdict(known) for application_id, known in self._known.items()}

    def restore(self, saved: Mapping[str, Any], has_run: Collection[str]) -> None:
        """Back from `checkpoint`; raises TypeError or ValueError for anything else.

        Earlier versions saved MapReduce jobs and since when they wait. `has_run`: ids of jobs that have run.
        """
        found = {application_of_job(job_id): WaitState("RUNNING", has_run=True, since_ms=None) for job_id in has_run}
        for name, known in saved.items():
            if is_application(name):
                found[name] = WaitState.from_json(known)
            else:
                found[application_of_job(name)] = WaitState("ACCEPTED", name in has_run, int(known))
        self._known = found


def _accepted_since(app: AppFacts, known: WaitState | None, t_ms: int) -> int:
    """Since it was started; one that has run before waits for another master, since the poll that first saw it so.

    Nobody says when the first master went.
    """
    if known is not None and known.state == "ACCEPTED" and known.since_ms is not None:
        return known.since_ms
    return t_ms if app.started_ms is None or (known is not None and known.has_run) else app.started_ms


def _starved_since(app: AppFacts, known: WaitState | None, t_ms: int) -> int | None:
    """Since the first of the polls in a row that saw it ask for containers and be given none; None when it was."""
    if not app.containers.asks:
        return None
    if known is None or known.state != "RUNNING" or known.since_ms is None or _was_given(app, known):
        return t_ms
    return known.since_ms


def _was_given(app: AppFacts, known: WaitState) -> bool:
    """It has more containers than at the poll before, or asks for fewer."""
    more = (app.containers.n_containers or 0) > (known.n_containers or 0)
    return more or (app.containers.n_pending or 0) < (known.n_pending or 0)


def _tell(rows: EventRows, app: AppFacts, clock_id: str, t_ms: int, wait_ms: int) -> None:
    attributes = {
        "application_id": app.application_id,
        "application_type": app.application_type,
        "application_name": app.name,
        "job_id": job_of_application(app.application_id) if app.is_mapreduce else None,
        "job_name": app.name if app.is_mapreduce else None,
        "user": app.user,
        "queue": app.queue,
        "state": app.state,
        "wait_ms": wait_ms,
        "reason": pending_reason(app.diagnostics),
        **app.containers.attributes(),
    }
    event_id = record_id(("yarn_rest", app.application_id), "AppWaiting", t_ms, (wait_ms,), 0)
    raw = None if app.diagnostics is None else printable(app.diagnostics, 2_000)
    rows.add("AppWaiting", event_id, t_ms, clock_id, f"rest:{app.application_id}", attributes, raw=raw)


def pending_reason(diagnostics: str | None) -> str | None:
    """What the scheduler says of a waiting application, without its leading date and its closing figures."""
    if diagnostics is None:
        return None
    return printable(_DETAILS.sub("", _MOMENT.sub("", diagnostics)).strip()) or None


__all__ = ["WaitState", "Waiting", "pending_reason"]
