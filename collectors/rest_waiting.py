"""Applications that wait: accepted by the ResourceManager, without a master that has registered."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from collectors.base import printable
from collectors.hadoop_ids import job_of_application
from collectors.identity import record_id
from collectors.lifecycle import EventRows
from collectors.rest_documents import AppFacts

_MOMENT = re.compile(r"^\[[^\]]*\]\s*")
_DETAILS = re.compile(r"\s*(?:Details\s*:.*)?$", re.DOTALL)


def tell_waiting(
    rows: EventRows,
    apps: Iterable[AppFacts],
    since: Mapping[str, int],
    seen_running: Collection[str],
    clock_id: str,
    t_ms: int,
) -> dict[str, int]:
    """An AppWaiting for each application that was ACCEPTED at `t_ms`; returns by job since when it waits.

    `since` is what the poll before returned. An application waits since it was started; one that has run before waits
    for another master, since the poll that first saw it so: nobody says when the first one went.
    """
    waiting: dict[str, int] = {}
    for app in apps:
        if app.state != "ACCEPTED":
            continue
        job_id = job_of_application(app.application_id)
        first_ms = t_ms if job_id in seen_running or app.started_ms is None else app.started_ms
        since_ms = waiting[job_id] = since.get(job_id, first_ms)
        if since_ms > t_ms:
            continue  # the ResourceManager's clock is ahead: it would have waited for less than nothing
        attributes = {
            "job_id": job_id,
            "job_name": app.name,
            "user": app.user,
            "queue": app.queue,
            "wait_ms": t_ms - since_ms,
            "reason": pending_reason(app.diagnostics),
        }
        event_id = record_id(("yarn_rest", app.application_id), "AppWaiting", t_ms, (t_ms - since_ms,), 0)
        raw = None if app.diagnostics is None else printable(app.diagnostics, 2_000)
        rows.add("AppWaiting", event_id, t_ms, clock_id, f"rest:{app.application_id}", attributes, raw=raw)
    return waiting


def pending_reason(diagnostics: str | None) -> str | None:
    """What the scheduler says of a waiting application, without its leading date and its closing figures."""
    if diagnostics is None:
        return None
    return printable(_DETAILS.sub("", _MOMENT.sub("", diagnostics)).strip()) or None


__all__ = ["pending_reason", "tell_waiting"]
