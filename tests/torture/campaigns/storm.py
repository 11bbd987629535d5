"""Thousands of alerts at once: nobody waits for the store, the process is healthy, and all of them are there.

The live path with its endpoints, in this process; people who acknowledge, the API that others ask, and a receiver are
another one. Alerts that fire, then those that are over.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import event, text

from app.alerting.notifier import Notifier
from app.chosen_store import store_url
from app.clock import SystemClock
from app.commands.check import check_all
from app.config import load_settings
from app.live.assembly import checked_queries, endpoints_of, open_configured_store, telling_of
from app.live.intake import Intake
from app.process.control_requests import ControlRequests
from app.process.metrics.counters import Metrics
from app.process.runner import Runner
from app.process.supervisor import Supervisor
from app.settings import Settings
from app.store import Store
from app.store.alert_pages import AlertFilter
from collectors.schema import load_event_types
from engine.events import EventBatch
from tests.app.alerting.receivers.told import SETTINGS
from tests.torture.campaign import Given, Verdict
from tests.torture.receivers.kinds import KINDS

SIZES = (1_000, 5_000, 20_000)
N_HOSTS = 4_800
MOST_TRANSACTION_S, MOST_STEP_S, MOST_ACK_S, MOST_API_S = 0.5, 30.0, 1.0, 2.0
PATIENCE_S = 400.0
"""For one size."""
AHEAD_MS = 20_000
"""After so long alerts are over; their events are of now."""

QUERY = """
PATTERN SEQ(MapStart a, MapEnd+ b[], ReducerStart c) WHERE skip_till_next_match { [task_id] } WITHIN 1 hour
RETURN a.task_id, a.host, count(b[]) AS n_ends ALERT warning '{task_id} on {host} ended {n_ends} times'
"""


INCIDENT = """
PATTERN SEQ(storm a, storm b) WHERE skip_till_next_match { [host] AND a.task_id != b.task_id } WITHIN 1 hour
RETURN a.host INCIDENT warning 'tasks of {host} have one cause' HOSTS SUSPECT host
"""
TREE = """
  route:
    receiver: ops
    group_by: [alertname]
    group_wait: 2s
    group_interval: 5s
    escalate_to: on-call
    escalate_after: 1s
    routes:
    - {matchers: ['alertname="cause"'], continue: true, group_by: [host]}
    - {matchers: ['severity="warning"'], receiver: db, group_by: ['...']}
"""
"""Of few large groups, of many small ones; what is told is escalated at once."""
KINDS_INTERVAL_S = 20
TREE_OF_KINDS = f"""
  route:
    receiver: ops
    group_by: [alertname]
    group_wait: 2s
    group_interval: {KINDS_INTERVAL_S}s
    routes:
"""
"""Each kind of receiver is told of one group of all alerts."""
SECRETS = {"apprise": "url", "slack": "url", "teams": "url", "pagerduty": "routing_key", "opsgenie": "api_key"}
N_OF_KINDS = 5_000


class Ports(NamedTuple):
    """Of services on loopback."""

    http: int
    smtp: int


@dataclass
class Seen:
    """What one storm did."""

    n_alerts: int
    is_routed: bool = False
    """Through routes, with incidents and escalation."""
    of_kinds: bool = False
    """Through routes to a receiver of each kind."""
    n_incidents: int = 0
    n_untold: int = 0
    """Alerts of which no receiver was written a message."""
    n_messages: int = 0
    """That were written."""
    told_s: float = 0.0
    """From the alerts to when the last message about one that fires is written."""
    fired_s: float = 0.0
    ended_s: float = 0.0
    transactions_s: list[float] = field(default_factory=list)
    steps_s: list[float] = field(default_factory=list)
    acks_s: list[float] = field(default_factory=list)
    api_s: list[float] = field(default_factory=list)
    """Answers of Alertmanager's API."""
    unhealthy: list[str] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)
    """Questions for its health without an answer in time."""
    failures: list[str] = field(default_factory=list)

    @property
    def ack_p99_s(self) -> float:
        """Of what a person waited for."""
        return _p99(self.acks_s)

    @property
    def api_p99_s(self) -> float:
        """Of what a request waited for."""
        return _p99(self.api_s)

    def figures(self) -> str:
        """One line."""
        routed = f" with {self.n_incidents} incidents, told after {self.told_s:.1f} s" if self.is_routed else ""
        routed += f" in {self.n_messages} messages"
        to = f" to {len(KINDS)} kinds of receivers" if self.of_kinds else ""
        return (
            f"{self.n_alerts} alerts{to}{routed}: fired in {self.fired_s:.1f} s, over in {self.ended_s:.1f} s; "
            f"longest transaction {max(self.transactions_s):.2f} s (at most {MOST_TRANSACTION_S}), longest step "
            f"{max(self.steps_s):.1f} s (at most {MOST_STEP_S:.0f}), "
            f"p99 of {len(self.acks_s)} acks {self.ack_p99_s:.2f} s (at most {MOST_ACK_S}), "
            f"of {len(self.api_s)} answers of the API {self.api_p99_s:.2f} s (at most {MOST_API_S})"
        )

    def broken(self) -> list[str]:
        """Bounds that do not hold, and what failed."""
        found = [*self.unhealthy[:3], *self.unanswered[:3], *self.failures[:3]]
        if self.n_untold:
            found.append(f"{self.n_alerts} alerts: nobody was told of {self.n_untold}; expected all to be told")
        if not self.n_messages:
            found.append(f"{self.n_alerts} alerts: no message was written")
        if self.is_routed and not self.n_incidents and self.n_alerts > N_HOSTS:
            found.append(f"{self.n_alerts} alerts: no incident; expected one for each host with several")
        for name, value, bound in (
            ("longest transaction", max(self.transactions_s), MOST_TRANSACTION_S),
            ("longest step", max(self.steps_s), MOST_STEP_S),
            ("p99 of ack", self.ack_p99_s, MOST_ACK_S),
            ("p99 of the API's answers", self.api_p99_s, MOST_API_S),
        ):
            if value > bound:
                found.append(f"{self.n_alerts} alerts: {name} {value:.2f} s; expected at most {bound} s")
        return found


def _p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)] if seconds else 0.0


def run(given: Given) -> Verdict:
    """Each size once, and once through routes; raises TimeoutError when the alerts do not come."""
    seen = [
        storm(given.folder / f"{n}{'-routed' * is_routed}", n, is_routed=is_routed)
        for is_routed in (False, True)
        for n in SIZES
    ]
    seen.append(storm(given.folder / f"{N_OF_KINDS}-kinds", N_OF_KINDS, of_kinds=True))
    return Verdict("; ".join(one.figures() for one in seen), tuple(line for one in seen for line in one.broken()))


def storm(
    folder: Path, n_alerts: int, *, is_routed: bool = False, of_kinds: bool = False, n_hosts: int = N_HOSTS
) -> Seen:
    """One size."""
    seen = Seen(n_alerts, is_routed, of_kinds)
    with people(folder, seen) as ports:
        settings = write_settings(folder, ports, is_routed=is_routed, of_kinds=of_kinds)
        clock = SystemClock()
        with open_configured_store(settings) as store:
            watch_transactions(store, seen)
            metrics = Metrics()
            notifier = Notifier(store, endpoints_of(settings), clock, telling=telling_of(settings), metrics=metrics)
            runner = Runner(settings, checked_queries(settings), store, notifier, clock, metrics=metrics)
            runner.step = timed(runner.step, seen.steps_s)  # type: ignore[method-assign]  # the steps' thread calls it
            supervisor = Supervisor(runner, notifier, ControlRequests(), lambda: check_all(folder / "config.yaml"))
            supervisor.start()
            try:
                wait_for(lambda: runner.n_steps > 0)
                seen.steps_s.clear()
                seen.transactions_s.clear()
                with watched_health(supervisor, seen):
                    now_ms = clock.now_ms()
                    started_s = time.monotonic()
                    put(runner, events(n_alerts, now_ms, n_hosts), now_ms + 10)
                    wait_for(lambda: n_alerts_of(store) == n_alerts and not runner.is_behind)
                    seen.fired_s = time.monotonic() - started_s
                    if is_routed or of_kinds:  # what ends before its group's turn is told to nobody
                        wait_for(lambda: n_untold(store) == 0)
                        seen.told_s = time.monotonic() - started_s
                    started_s = time.monotonic()
                    put(runner, EventBatch.empty(), now_ms + AHEAD_MS)
                    wait_for(lambda: n_open(store) == 0)
                    seen.ended_s = time.monotonic() - started_s
                    if of_kinds:
                        wait_for(lambda: set(deliveries(store)) == {(kind, "delivered") for kind in KINDS})
                seen.n_incidents = store.n_alerts() - n_alerts_of(store)
                seen.n_untold, seen.n_messages = n_untold(store), n_messages(store)
            finally:
                supervisor.stop()
    return seen


def events(n_alerts: int, at_ms: int, n_hosts: int = N_HOSTS) -> EventBatch:
    """Five for each of so many tasks."""
    rows = []
    for number in range(n_alerts):
        task = f"task_1790000000000_0001_m_{number:06d}"
        for place, event_type in enumerate(("MapStart", "MapEnd", "MapEnd", "MapEnd", "ReducerStart")):
            t_ms = at_ms + place
            names = {"event_id": f"{task}-{place}", "type": event_type, "t_lo_ms": t_ms, "t_hi_ms": t_ms}
            rows.append({**names, "task_id": task, "host": f"node{number % n_hosts}", "user": "ann"})
    return EventBatch.from_rows(rows, load_event_types())


def put(runner: Runner, batch: EventBatch, watermark_ms: int) -> None:
    """As a poll would."""
    runner.live.pipeline.intake.put(Intake("job_history", runner._clock.now_ms(), batch, watermark_ms))


def n_open(store: Store) -> int:
    """Alerts that are not over."""
    return store.n_alerts(AlertFilter(states=("firing", "acknowledged")))


def n_alerts_of(store: Store) -> int:
    """Those that are no incidents."""
    return store.n_alerts(AlertFilter(queries=("storm",)))


def n_untold(store: Store) -> int:
    """Alerts about which there is no message, neither of themselves nor of the incident that they are part of; what
    somebody acknowledged may have been told to nobody."""
    with store.engine.connect() as connection:
        return int(connection.execute(text(_UNTOLD)).scalar_one())


def deliveries(store: Store) -> dict[tuple[str, str], int]:
    """How many messages, by receiver and what came of them."""
    with store.engine.connect() as connection:
        counted = connection.execute(text(_DELIVERIES)).all()
    return {(receiver, status): n for receiver, status, n in counted}


def n_messages(store: Store) -> int:
    """Written to receivers."""
    with store.engine.connect() as connection:
        return int(connection.execute(text("SELECT count(*) FROM notifications")).scalar_one())


_DELIVERIES = "SELECT receiver, status, count(*) FROM notifications GROUP BY receiver, status"

_UNTOLD = """
SELECT count(*) FROM alerts a WHERE a.incident_id IS NULL
AND NOT EXISTS (SELECT 1 FROM notifications n WHERE n.alert_id = a.id)
AND NOT EXISTS (SELECT 1 FROM told_alerts t WHERE t.alert_id = a.id)
AND NOT EXISTS (SELECT 1 FROM alert_changes c WHERE c.alert_id = a.id AND c.to_state = 'acknowledged')
"""


def wait_for(is_there: Callable[[], bool]) -> None:
    """Raises TimeoutError."""
    until_s = time.monotonic() + PATIENCE_S
    while not is_there():
        if time.monotonic() > until_s:
            raise TimeoutError(f"not there after {PATIENCE_S:.0f} s")
        time.sleep(0.1)


def timed(call: Callable[[], None], seconds: list[float]) -> Callable[[], None]:
    """The same, and how long each took."""

    def measured() -> None:
        started_s = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started_s)

    return measured


def watch_transactions(store: Store, seen: Seen) -> None:
    """How long each holds the store: from its beginning, when it has the lock, to when its connection is given back."""
    began = threading.local()

    def begin(connection: Any) -> None:
        writes = connection.get_execution_options().get("writes", False)
        began.at_s = time.perf_counter() if writes else None

    def checkin(_connection: object, _entry: object) -> None:
        if (at_s := getattr(began, "at_s", None)) is not None:
            seen.transactions_s.append(time.perf_counter() - at_s)
            began.at_s = None

    event.listen(store.engine, "begin", begin)
    event.listen(store.engine, "checkin", checkin)


@contextmanager
def watched_health(supervisor: Supervisor, seen: Seen) -> Iterator[None]:
    """Ask all the time over HTTP."""
    over = threading.Event()
    assert supervisor._endpoints is not None
    host, port = supervisor._endpoints.address

    def ask() -> None:
        while not over.wait(0.2):
            try:
                with urllib.request.urlopen(f"http://{host}:{port}/-/healthy", timeout=10):
                    pass
            except urllib.error.HTTPError as error:
                seen.unhealthy.append(f"{seen.n_alerts} alerts: /-/healthy: {error}; expected 200")
                error.close()
            except (OSError, http.client.HTTPException) as error:
                seen.unanswered.append(f"{seen.n_alerts} alerts: /-/healthy: {error}; expected an answer")

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join()


@contextmanager
def people(folder: Path, seen: Seen) -> Iterator[Ports]:
    """The ports of receivers in a process that also acknowledges; what it saw is in `seen` at the end."""
    (folder / "store").mkdir(parents=True)
    settings = write_settings(folder, Ports(9, 9))
    with open_configured_store(settings):
        pass
    words = [sys.executable, "-m", "tests.torture.processes.storm_people", store_url(settings), str(folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Ports(**json.loads(process.stdout.readline()))
            told, _ = process.communicate(timeout=240)
        finally:
            process.kill()
    found = json.loads(told)
    seen.acks_s += found["seconds"]
    seen.api_s += found["api_seconds"]
    seen.failures += [f"{seen.n_alerts} alerts: somebody beside it failed: {text}" for text in found["failures"]]


def write_settings(folder: Path, ports: Ports, *, is_routed: bool = False, of_kinds: bool = False) -> Settings:
    """One query, an empty folder as its source, and a receiver; `is_routed`: an incident, three and a tree; `of_kinds`:
    one of each kind, and a tree."""
    for name in ("queries", "history"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "queries/storm.cep").write_text(QUERY)
    (folder / "queries/RUNBOOK.md").write_text("# storm\nLook at it.\n# cause\nLook at the host.\n")
    if is_routed:
        (folder / "queries/cause.cep").write_text(INCIDENT)
    names = ("ops", "db", "on-call") if is_routed else ("ops",)
    receivers = {name: {"url": f"http://127.0.0.1:{ports.http}/hook"} for name in names}
    tree, secrets = TREE if is_routed else "", {}
    if of_kinds:
        known = {kind: {**SETTINGS[kind], **place_of(kind, ports)} for kind in KINDS}
        secrets = {secret_variable(kind, name): known[kind].pop(name) for kind, name in SECRETS.items()}
        receivers |= known
        tree = TREE_OF_KINDS + "".join(f"    - {{receiver: {kind}, continue: true}}\n" for kind in KINDS)
    (folder / "config.yaml").write_text(
        "sources: {job_history: {enabled: true, directories: [history], interval: 1 h}}\n"
        "store: {directory: store}\nweb: {port: 0}\n"
        f"alerting:\n  group_gap: 1 s\n  receivers: {json.dumps(receivers)}\n{tree}"
    )
    return load_settings(folder / "config.yaml", secrets)


def secret_variable(receiver: str, name: str) -> str:
    """What is in no file."""
    return f"CLUSTERCEP__ALERTING__RECEIVERS__{receiver.upper()}__{name.upper()}"


def place_of(kind: str, ports: Ports) -> dict[str, str]:
    """Where the service of a kind is."""
    if kind == "email":
        return {"smarthost": f"127.0.0.1:{ports.smtp}"}
    scheme, path = ("gotify", "token") if kind == "apprise" else ("http", kind)
    return {"url": f"{scheme}://127.0.0.1:{ports.http}/{path}"}
