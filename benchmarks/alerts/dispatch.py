"""Alerts in a storm through routes and groups: what that adds to the step that raises them, and what telling takes.

    CLUSTERCEP_BENCH_DISPATCH=20000    alerts at once

Processor time is that of this process with SQLite's work, without evidence, see the benchmark `storm`. With incidents
the alerts of a host that has several are part of one, which is raised in the same step.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import structlog
import yaml

from app.alerting.catalog import QueryInfo
from app.alerting.dispatch.dispatcher import Dispatcher
from app.alerting.dispatch.routes import Routing
from app.alerting.dispatch.telling import Telling
from app.alerting.recording.episodes import BoundMatch, canonical_key
from app.alerting.recording.found import found_in
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.recorder import Recorder
from app.clock import SetClock
from app.live.unstored import Unstored
from app.process.spare_memory import rarely_collect
from app.settings import Alerting, Severity
from app.store.alert_pages import AlertFilter
from app.store.api import open_store
from benchmarks.alerts.storm import GAP_MS, OPTIONS, QUERY, START_MS, Storm, storm
from benchmarks.measure import show, size
from engine import MatchRow

TREES = {
    "one group of all": "{receiver: ops, group_by: [alertname]}",
    "a group of each alert": "{receiver: ops, group_by: ['...']}",
    "a group of each host, two receivers": """
      receiver: ops
      group_by: [host]
      routes:
      - {matchers: ['severity=~"critical|warning"'], receiver: db, continue: true, group_by: [alertname]}
      - {matchers: ['host=~"node[0-9]+"']}
    """,
}
INCIDENT = "tasks-of-host"
INCIDENTS = """
      receiver: ops
      group_by: [alertname, host]
      escalate_to: db
      escalate_after: 1m
    """
OF_HOST = QueryInfo(
    INCIDENT, "1" * 32, Severity.WARNING, "tasks of {host} have one cause", GAP_MS,
    key=("host",), depth=1, binds=frozenset({QUERY}),
)  # fmt: skip
WITHOUT, OF_HOSTS = "without routes", "incidents of hosts, by host, escalated"
RULE = """
- {source_matchers: ['alertname="node-lost"'], target_matchers: ['alertname=~".*straggler.*"'], equal: [host]}
"""


def quiet() -> None:
    """No lines of the log: where they go to is no part of what is measured."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


def main() -> dict[str, Any]:
    """Measure, print the table, return the figures."""
    quiet()
    n_alerts = size("DISPATCH", 20_000)
    given = storm(n_alerts, 2)
    measured_on(storm(100, 2), None)
    rarely_collect()  # as the live process does
    alone = measured_on(given, None)
    rows: list[list[object]] = [[WITHOUT, alone["raise_ms"], 0.0, 0.0, *_told(alone)]]
    figures: dict[str, Any] = {"n_alerts": n_alerts, WITHOUT: alone}
    for name, tree in (*TREES.items(), (OF_HOSTS, INCIDENTS)):
        of_hosts = incidents_of(given) if name == OF_HOSTS else []
        found = figures[name] = measured_on(given, tree, of_hosts)
        added = found["raise_ms"] - alone["raise_ms"]
        found["added_ms"] = added + found["tell_ms"]
        rows.append([name, found["raise_ms"], found["tell_ms"], found["added_ms"], *_told(found)])
    columns = ("routes", "raise, ms", "tell, ms", "routing and telling, ms", "messages by receiver", "incidents",
               "first message, s", "of processor time", "longest look, s")  # fmt: skip
    show(f"{n_alerts:,} alerts at once: processor time per alert", columns, rows)
    return figures


def _told(found: dict[str, Any]) -> list[object]:
    messages = ", ".join(f"{name} {n:,}" for name, n in found["n_messages"].items())
    return [messages, found["n_incidents"], found["first_s"], found["first_cpu_s"], found["longest_s"]]


def incidents_of(given: Storm) -> list[MatchRow]:
    """Of each host with several alerts a match that binds all of these: by their places."""
    by_host: dict[str, list[int]] = {}
    for place, match in enumerate(given.matches):
        by_host.setdefault(str(match.values["host"]), []).append(place)
    end_ms = START_MS + len(given.matches)
    return [
        MatchRow(
            INCIDENT, (("host", str(host)),), START_MS, end_ms, {"a": tuple(map(str, places))}, 1.0, {"host": str(host)}
        )
        for host, places in by_host.items()
        if len(places) > 1
    ]


def measured_on(given: Storm, tree: str | None, incidents: Sequence[MatchRow] = ()) -> dict[str, Any]:
    """Raise the alerts in the parts of a step, then look at all groups; milliseconds per alert, and seconds until the
    first message is written, from when its group is to be looked at."""
    alerting = Alerting.model_validate(
        {
            "receivers": {name: {"url": f"http://127.0.0.1:9/{name}"} for name in ("ops", "db")},
            "route": None if tree is None else yaml.safe_load(tree),
            "inhibit_rules": [] if tree is None else yaml.safe_load(RULE),
        }
    )
    routing = Routing.of(alerting)
    queries = {**OPTIONS.queries, INCIDENT: OF_HOST} if incidents else OPTIONS.queries
    options: AlertingOptions = replace(OPTIONS, queries=queries, receivers=alerting.receivers, routing=routing)

    def find(place: str) -> BoundMatch:
        match = given.matches[int(place)]
        return BoundMatch(match.query, canonical_key(match.key), match.last_hi_ms)

    clock, n_alerts = SetClock(START_MS), len(given.matches)
    with TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/store.db") as store:
        began_s = time.process_time()
        rest = Unstored(START_MS, found_in([*given.matches, *incidents], options.queries, find=find))
        while not rest.is_stored:
            with store.transaction() as writer:
                rest.store_part(Recorder(options, writer, given.recent.lookup, START_MS, rest.effort))
        raised_s = time.process_time() - began_s
        dispatcher = Dispatcher(store, Telling(routing, alerting.receivers), clock)
        dispatcher.dispatch_due()
        clock.advance_to(START_MS + 30_000)
        began_s, wall_s = time.process_time(), time.perf_counter()
        looks_s: list[float] = []
        first_s = first_cpu_s = 0.0
        while dispatcher.wait_ms() == 0:
            look_s = time.perf_counter()
            n_new = dispatcher._look()
            looks_s.append(time.perf_counter() - look_s)
            if n_new and not first_s:
                first_s, first_cpu_s = time.perf_counter() - wall_s, time.process_time() - began_s
        told_s = time.process_time() - began_s
        clock.advance_to(START_MS + 120_000)  # what nobody has acknowledged is escalated
        dispatcher.dispatch_due()
        n_messages = Counter(message.receiver for message in store.notifications(limit=10 * n_alerts))
        n_incidents = len(store.alerts(AlertFilter(queries=(INCIDENT,), limit=n_alerts)))
    per_alert = 1e3 / n_alerts
    return {
        "raise_ms": raised_s * per_alert,
        "tell_ms": told_s * per_alert,
        "n_messages": dict(sorted(n_messages.items())),
        "n_incidents": n_incidents,
        "first_s": first_s,
        "first_cpu_s": first_cpu_s,
        "longest_s": max(looks_s, default=0.0),
    }
