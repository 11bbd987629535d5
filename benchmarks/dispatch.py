"""Alerts in a storm through routes and groups: what that adds to the step that raises them, and what telling takes.

    CLUSTERCEP_BENCH_DISPATCH=20000    alerts at once

Processor time is that of this process with SQLite's work; alerts have no evidence here, see the benchmark `storm`.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import structlog
import yaml

from app.alerting.dispatch.dispatcher import Dispatcher, Telling
from app.alerting.dispatch.routes import Routing
from app.alerting.found import found_in
from app.alerting.recorder import AlertingOptions, Recorder
from app.clock import SetClock
from app.live.unstored import Unstored
from app.settings import Alerting
from app.store.api import open_store
from benchmarks.measure import show, size
from benchmarks.storm import OPTIONS, START_MS, Storm, storm

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
    alone = measured_on(given, None)
    rows: list[list[object]] = [["without routes", alone["raise_ms"], 0.0, 0.0, alone["n_messages"], 0.0, 0.0]]
    figures: dict[str, Any] = {"n_alerts": n_alerts, "without routes": alone}
    for name, tree in TREES.items():
        found = figures[name] = measured_on(given, tree)
        added = found["raise_ms"] - alone["raise_ms"]
        figures[name]["added_ms"] = added + found["tell_ms"]
        rows.append([name, found["raise_ms"], found["tell_ms"], added + found["tell_ms"], found["n_messages"],
                     found["first_s"], found["longest_s"]])  # fmt: skip
    columns = ("routes", "raise, ms", "tell, ms", "routing and telling, ms", "messages", "first message, s",
               "longest look, s")  # fmt: skip
    show(f"{n_alerts:,} alerts at once: processor time per alert", columns, rows)
    return figures


def measured_on(given: Storm, tree: str | None) -> dict[str, float]:
    """Raise the alerts in the parts of a step, then look at all groups; milliseconds per alert."""
    alerting = Alerting.model_validate(
        {
            "receivers": {name: {"url": f"http://127.0.0.1:9/{name}"} for name in ("ops", "db")},
            "route": None if tree is None else yaml.safe_load(tree),
            "inhibit_rules": [] if tree is None else yaml.safe_load(RULE),
        }
    )
    routing = Routing.of(alerting)
    options: AlertingOptions = replace(OPTIONS, receivers=alerting.receivers, routing=routing)
    clock, n_alerts = SetClock(START_MS), len(given.matches)
    with TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/store.db") as store:
        began_s = time.process_time()
        rest = Unstored(START_MS, found_in(given.matches, options.queries))
        while not rest.is_stored:
            with store.transaction() as writer:
                rest.store_part(Recorder(options, writer, given.recent.lookup, START_MS, rest.effort))
        raised_s = time.process_time() - began_s
        dispatcher = Dispatcher(store, Telling(routing, alerting.receivers), clock)
        dispatcher.dispatch_due()
        clock.advance_to(START_MS + 30_000)
        began_s, wall_s = time.process_time(), time.perf_counter()
        looks_s: list[float] = []
        first_s = 0.0
        while dispatcher.wait_ms() == 0:
            look_s = time.perf_counter()
            n_new = dispatcher._look()
            looks_s.append(time.perf_counter() - look_s)
            if n_new and not first_s:
                first_s = time.perf_counter() - wall_s
        told_s = time.process_time() - began_s
        n_messages = sum(store.n_notifications().values())
    per_alert = 1e3 / n_alerts
    return {
        "raise_ms": raised_s * per_alert,
        "tell_ms": told_s * per_alert,
        "n_messages": n_messages,
        "first_s": first_s,
        "longest_s": max(looks_s, default=0.0),
    }
