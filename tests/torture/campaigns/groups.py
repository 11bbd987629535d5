"""`kill -9` while groups, incidents and escalations wait and while remote write comes in, beside one nobody touches.

Both find the same, and what waits is told in the end: each alert to the receivers of its routes, what nobody
acknowledges to the second one, each under one key. When exactly a group is looked at differs between the two, so what
groups say is held against rules rather than against the other one's messages.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import select

from app.replay.webhook_sink import listening
from app.store import open_store
from app.store.models import AlertRow
from tests.ports import own_port
from tests.torture.campaign import Given, Verdict
from tests.torture.inputs.growing_cluster import LATENESS, QUERIES, GrowingCluster
from tests.torture.inputs.remote_sender import RemoteSender, sending
from tests.torture.processes.lives import Lives, is_dead, lives
from tests.torture.receivers.told_groups import Member, Told, keys_of, superseded_messages, wrong_messages

N_KILLS, N_PER_S = 60, 1.5
MOMENTS = ("any time", "delivery", "dispatch", "write")
LONGEST_LIFE_S, MEANT_S = 4.0, 30.0
"""As in `kills`."""
PATIENCE_S = 120.0
RETENTION_S = 600.0
"""What is old is no part of this."""
RECEIVERS = ("ops", "each", "on-call")

MORE_QUERIES = {
    "stays": """
        PATTERN NodeUnhealthy a WHERE skip_till_any_match { [host] } WITHIN 1 minute
        RETURN a.host ALERT warning '{host} is unhealthy' GROUP_GAP 12 hours""",
    "hot": """
        PATTERN Metric a WHERE skip_till_any_match { [host] AND a.name = 'load_one' AND a.value >= 100 }
        WITHIN 1 minute RETURN a.host ALERT warning 'load of {host}' GROUP_GAP 1500 ms""",
    "sick": """
        PATTERN AND(lost a, lost_after b) WHERE skip_till_any_match { [host] } WITHIN 1 minute
        RETURN b.n_reports INCIDENT critical '{host} is sick' HOSTS SUSPECT host GROUP_GAP 1500 ms""",
}
ROUTE: dict[str, Any] = {
    "receiver": "ops",
    "group_by": ["alertname"],
    "group_wait": "200ms",
    "group_interval": "1s",
    "repeat_interval": "4h",
    "routes": [
        {"matchers": ['alertname="stays"'], "group_by": ["..."], "escalate_to": "on-call", "escalate_after": "1s"},
        {"matchers": ['alertname=~"lost.*|sick"'], "receiver": "each", "group_by": ["..."], "continue": True},
        {"matchers": ['alertname=~"lost.*|sick"'], "group_by": ["host"]},
    ],
}


@dataclass
class Followed:
    """One of the two: its configuration, its receivers, who writes to it."""

    folder: Path
    config: Path
    sender: RemoteSender
    received: dict[str, list[Told]]
    before_answer: list[Callable[[], None]] = field(default_factory=list)
    """What is done once when the next message is there, before it is answered."""

    @property
    def store_url(self) -> str:
        """Its store."""
        return f"sqlite:///{self.folder / 'store/clustercep.db'}"


class Samples:
    """The load of hosts as one Prometheus scrapes it for both: quiet, unless it is told otherwise."""

    def __init__(self, *senders: RemoteSender) -> None:
        self.n_hot = 0
        self._senders = senders
        self._lock, self._stopping = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="samples", daemon=True)

    def hot(self) -> None:
        """A host that no one has heard of has a load that raises an alert."""
        self.n_hot += 1
        self._put(f"m{self.n_hot}", 200.0)

    def start(self) -> None:
        """Scrape from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Nothing more is scraped."""
        self._stopping.set()
        self._thread.join()

    def _put(self, host: str, load: float) -> None:
        with self._lock:
            sample = host, load, time.time_ns() // 1_000_000
            for sender in self._senders:
                sender.put(sample)

    def _go_on(self) -> None:
        while not self._stopping.wait(0.2):
            self._put("quiet", 0.5)


@contextmanager
def followed(folder: Path, cluster: GrowingCluster) -> Iterator[Followed]:
    """A folder with a configuration, receivers on loopback, and a server that sends what is put into it."""
    with ExitStack() as opened:
        port = opened.enter_context(own_port())
        sender = opened.enter_context(sending(port))
        one = Followed(folder, folder / "config.yaml", sender, {name: [] for name in RECEIVERS})
        urls = {name: opened.enter_context(listening(_taking(one, name))) for name in RECEIVERS}
        _configure(one, cluster, urls, port)
        yield one


def _taking(one: Followed, name: str) -> Callable[[str, Any], None]:
    def take(key: str, payload: Any) -> None:
        one.received[name].append(Told.of(key, payload))
        with suppress(IndexError):
            one.before_answer.pop()()

    return take


def _configure(one: Followed, cluster: GrowingCluster, urls: Mapping[str, str], port: int) -> None:
    (one.folder / "queries").mkdir(parents=True)
    queries = {**QUERIES, **MORE_QUERIES}
    for name, text in queries.items():
        (one.folder / f"queries/{name}.cep").write_text(text)
    (one.folder / "queries/RUNBOOK.md").write_text("".join(f"# {name}\nLook.\n" for name in queries))
    source = {"enabled": True, "interval": "200 ms", "lateness": LATENESS}
    retries = {"first_retry": "50 ms", "max_retry": "200 ms", "timeout": "5 s"}
    written = {"enabled": True, "interval": "1 s", "lateness": "1 s", "port": port, "metrics": ["load_one"]}
    settings = {
        "sources": {
            # A sender waits for us, so we wait for it.
            "silence_timeout": "1 h",
            "daemon_log": {**source, "directory": str(cluster.logs)},
            "job_history": {**source, "directories": [str(cluster.histories)]},
            "remote_write": {**written, "scrape_interval": "1 s"},
        },
        "store": {"directory": "store"},
        "alerting": {"receivers": {name: {"url": url, **retries} for name, url in urls.items()}, "route": ROUTE},
        "log": {"format": "json"},
        "web": {"enabled": False},
    }
    one.config.write_text(json.dumps(settings))  # which YAML is, too


# ---- lives -----------------------------------------------------------------------------------------------------


@dataclass
class Killing:
    """The one that is killed."""

    lives: Lives
    cut: Followed
    chosen: random.Random
    died: Counter[str] = field(default_factory=Counter)
    """By what it was at."""

    def life(self, number: int) -> None:
        """One life, to its end."""
        moment = MOMENTS[number % len(MOMENTS)]
        die = ("dispatch", self.chosen.randrange(1, 60)) if moment == "dispatch" else None
        pid = self.lives.start(self.cut.config, self.cut.folder / "log", die, retention_s=RETENTION_S)
        started_s = time.monotonic()

        def kill() -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

        awaited = {"delivery": self.cut.before_answer, "write": self.cut.sender.before_answer}.get(moment)
        if awaited is not None:
            awaited.append(kill)
        lifetime_s = self.chosen.uniform(0.05, LONGEST_LIFE_S) if moment == "any time" else MEANT_S
        while time.monotonic() - started_s < lifetime_s and not is_dead(pid):
            time.sleep(0.01)
        as_meant = moment == "any time" or is_dead(pid)
        if awaited is not None:
            awaited.clear()
        self.lives.end(pid)
        self.died[moment if as_meant else "any time"] += 1


def run(given: Given) -> Verdict:
    """Sixty lives."""
    return killed(given, N_KILLS, N_PER_S, most_s=max(60 * given.minutes - PATIENCE_S, 45 * given.minutes))


def killed(given: Given, n_kills: int, n_per_s: float, *, most_s: float) -> Verdict:
    """So many lives, or as many as the time allows."""
    cluster = GrowingCluster(given.folder / "cluster", given.seed, n_per_s)
    with ExitStack() as opened:
        nursery = opened.enter_context(lives())
        whole, cut = (opened.enter_context(followed(given.folder / name, cluster)) for name in ("whole", "cut"))
        killing = Killing(nursery, cut, random.Random(given.seed))
        samples = Samples(whole.sender, cut.sender)
        samples.start()
        opened.callback(samples.stop)
        untouched = nursery.start(whole.config, whole.folder / "log", retention_s=RETENTION_S)
        opened.callback(nursery.end, untouched)
        _begin(nursery, cut)
        cluster.start()
        started_s = time.monotonic()
        number = 0
        while number < n_kills and time.monotonic() - started_s < most_s:
            samples.hot()
            killing.life(number)
            number += 1
        cluster.stop()
        last = nursery.start(cut.config, cut.folder / "log", retention_s=RETENTION_S)
        opened.callback(nursery.end, last)
        failures = _settled(whole, cut, samples.n_hot)
        alerts, messages = alerts_of(cut), [told for name in RECEIVERS for told in cut.received[name]]
        n_retold, n_refused = retold(cut), cut.sender.n_retries
    died = ", ".join(f"{n} at {moment}" for moment, n in sorted(killing.died.items()))
    queries = Counter(alert[0] for alert in alerts.values())
    if not all(queries[name] for name in ("sick", "stays", "hot")):
        failures.append(f"expected alerts of each query, found {dict(queries)}: too little was tried")
    return Verdict(
        f"{number} lives killed ({died}), {len(alerts)} alerts, {queries['sick']} incidents, {queries['stays']} "
        f"escalations, {samples.n_hot} alerts of samples that were written ({n_refused} requests sent again); "
        f"{len({told.key for told in messages})} messages, {len(messages) - len({told.key for told in messages})} "
        f"repeats under the same key, {n_retold} in place of one that was taken, but not known to be",
        tuple(failures[:20]),
    )


def _begin(nursery: Lives, cut: Followed) -> None:
    """One life until it has taken a sample: what was there before a store's first step is none of its."""
    pid = nursery.start(cut.config, cut.folder / "log", retention_s=RETENTION_S)
    started_s = time.monotonic()
    while not cut.sender.n_taken:
        if time.monotonic() - started_s > PATIENCE_S or is_dead(pid):
            raise RuntimeError(f"the process takes no samples: see {cut.folder / 'log'}")
        time.sleep(0.1)
    nursery.end(pid)


def _settled(whole: Followed, cut: Followed, n_hot: int) -> list[str]:
    """What is wrong once nothing changes any more."""
    started_s, reached = time.monotonic(), -1
    while failures := judged(whole, cut, n_hot):
        n = sum(map(len, [*whole.received.values(), *cut.received.values()]))
        if n > reached:
            started_s, reached = time.monotonic(), n
        if time.monotonic() - started_s > PATIENCE_S:
            break
        time.sleep(1)
    return failures


# ---- what is right ---------------------------------------------------------------------------------------------

Alert = tuple[Any, ...]


def judged(whole: Followed, cut: Followed, n_hot: int) -> list[str]:
    """Which rules do not hold."""
    expected, found = alerts_of(whole), alerts_of(cut)
    failures = [f"lost: {expected[alert_id]}" for alert_id in sorted(expected.keys() - found.keys())]
    failures += [f"found without a reason: {found[alert_id]}" for alert_id in sorted(found.keys() - expected.keys())]
    failures += [
        f"expected {expected[alert_id]}, found {found[alert_id]}"
        for alert_id in sorted(expected.keys() & found.keys())
        if expected[alert_id] != found[alert_id]
    ]
    for one in (whole, cut):
        failures += [f"{one.folder.name}: {failure}" for failure in _of_messages(one, n_hot)]
    return failures


def _of_messages(one: Followed, n_hot: int) -> Iterator[str]:
    alerts = alerts_of(one)
    names = {alert_id: f"{alert[0]} {alert[1]}" for alert_id, alert in alerts.items()}
    if (n := sum(alert[0] == "hot" for alert in alerts.values())) != n_hot:
        yield f"{n_hot} samples were taken that raise an alert, found {n} alerts"
    stay = {alert_id for alert_id, alert in alerts.items() if alert[0] == "stays"}
    superseded = superseded_of(one)
    for receiver, messages in one.received.items():
        by_itself = alerts if receiver in ("each", "on-call") else stay
        yield from wrong_messages(receiver, messages, names, superseded, by_itself.__contains__)
        keys = keys_of(messages)
        for alert_id, alert in alerts.items():
            query, state, incident = alert[0], alert[4], alert[7]
            wanted = {
                "ops": incident is None,
                "each": incident is None and query in ("lost", "lost-after", "sick"),
                "on-call": query == "stays",
            }[receiver]
            if wanted and (alert_id, "firing") not in keys:
                yield f"{receiver} was not told of {names[alert_id]}"
            if query == "stays":
                continue
            if state != "resolved":
                yield f"{names[alert_id]} is still {state}"
            elif (alert_id, "firing") in keys and (alert_id, "resolved") not in keys:
                yield f"{receiver} believes that {names[alert_id]} fires"


def alerts_of(one: Followed) -> dict[str, Alert]:
    """By id: query, key, start, end, state, matches, summary, the incident that it is part of."""
    columns = ("query", "key_text", "start_ms", "end_ms", "state", "n_matches", "summary", "incident_id")
    with open_store(one.store_url, durable=False) as store, store.engine.connect() as connection:
        found = connection.execute(select(AlertRow.id, *(getattr(AlertRow, name) for name in columns)))
        return {alert_id: tuple(values) for alert_id, *values in found}


def superseded_of(one: Followed) -> dict[str, frozenset[Member]]:
    """As superseded_messages, of its store."""
    with open_store(one.store_url, durable=False) as store:
        return superseded_messages(store)


def retold(one: Followed) -> int:
    """How many of these were taken nevertheless."""
    taken = {told.key for messages in one.received.values() for told in messages}
    return len(taken & superseded_of(one).keys())
