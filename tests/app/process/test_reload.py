"""Configuration and queries that change while the process runs: refused as a whole, or taken over without a loss."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from app.alerting.delivery import Endpoint
from app.alerting.notifier import Notifier
from app.alerting.receivers.service import Message
from app.clock import SetClock
from app.commands.check import check_all
from app.config import load_settings
from app.live.assembly import checked_queries, endpoints_of, open_configured_store
from app.live.intake import Source
from app.live.sources import ConfiguredSource
from app.process.control_requests import ControlRequests
from app.process.reload import ReloadOutcome, changed_keys, taken_over
from app.process.runner import Runner
from app.process.supervisor import Supervisor
from app.settings import Settings
from app.store import Store
from app.store.api import AlertFilter
from tests.app.pipeline_fixtures import Script, ScriptedCollector, event
from tests.app.process.test_runner import write_settings

T0_MS = 1_000_000

PAIR = """
PATTERN SEQ(MapStart a, MapEnd b) WHERE skip_till_next_match { [task_id] } WITHIN 200 ms
RETURN a.task_id ALERT info '{task_id}' GROUP_GAP 1 ms
"""
OTHER = PAIR.replace("MapStart", "ReducerStart").replace("MapEnd", "ReducerEnd")
LATER = PAIR.replace("WITHIN 200 ms", "WITHIN 150 ms")


def tasks() -> list[tuple[int, dict[str, Any]]]:
    """Map and reduce tasks of 10 to 90 ms, one every 5 ms; each event is seen 3 ms later."""
    rows = []
    for n in range(40):
        kind = ("Map", "Reducer")[n % 2]
        start_ms, end_ms = T0_MS + 5 * n, T0_MS + 5 * n + 10 + (37 * n) % 80
        for suffix, at_ms in (("Start", start_ms), ("End", end_ms)):
            rows.append((at_ms + 3, event(f"{n}-{suffix}", at_ms, f"{kind}{suffix}", task_id=f"t{n}")))
    return rows


class Cluster:
    """A process over scripted sources with the real engine; its queries are files."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, queries: dict[str, str]) -> None:
        self.folder = folder
        self.clock = SetClock(T0_MS)
        self.configure(queries)
        settings = load_settings(folder / "config.yaml", {})
        monkeypatch.setattr("app.live.assembly.build_sources", self._sources)
        self.scripts = [Script("yarn_rest", tasks(), 10)]
        self.store = open_configured_store(settings, durable=False)
        self.notifier = Notifier(self.store, {}, self.clock)
        loaded = checked_queries(settings)
        self.runner = Runner(settings, loaded, self.store, self.notifier, self.clock, durable=False)

    def configure(self, queries: dict[str, str], more: str = "") -> None:
        """Write the files anew."""
        write_settings(self.folder, more=more)
        for old in (self.folder / "queries").iterdir():
            old.unlink()
        for name, text in queries.items():
            (self.folder / f"queries/{name}.cep").write_text(text)
        (self.folder / "queries/RUNBOOK.md").write_text("".join(f"# {name}\nLook.\n" for name in queries))

    def reload(self) -> ReloadOutcome:
        """As SIGHUP."""
        return self.runner.reload(lambda: check_all(self.folder / "config.yaml"))

    def run(self, until_ms: int, step_ms: int = 10) -> None:
        """Poll and step every so many milliseconds."""
        for now_ms in range(self.clock.now_ms(), T0_MS + until_ms + 1, step_ms):
            self.clock.advance_to(now_ms)
            for name in self.runner.live.sources:
                self.runner.poll(name)
            self.runner.step()

    def alerts(self, query: str) -> list[tuple[Any, ...]]:
        """What the store says of a query."""
        found = self.store.alerts(AlertFilter(queries=(query,), limit=1_000))
        return sorted((a.id, a.state, a.start_ms, a.end_ms, a.n_matches, a.revision, a.summary) for a in found)

    def _sources(self, _settings: Settings) -> dict[str, ConfiguredSource]:
        return {script.name: ConfiguredSource(Source(ScriptedCollector(script)), 10) for script in self.scripts}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Cluster]]:
    """Makes clusters."""
    made: list[Cluster] = []

    def make(name: str, **queries: str) -> Cluster:
        made.append(Cluster(tmp_path / name, monkeypatch, queries))
        return made[-1]

    yield make
    for each in made:
        each.runner.live.close()
        each.store.close()


# ------------------------------------------------------------------------ state


def test_queries_that_stay_see_what_they_would_have_seen(cluster: Callable[..., Cluster]) -> None:
    whole = cluster("whole", pair=PAIR, added=LATER)
    whole.run(320)
    assert len(whole.alerts("pair")) == 20
    for at_ms in (0, 90, 170):
        cut = cluster(f"cut-{at_ms}", pair=PAIR, other=OTHER.replace("200", "30"), gone=PAIR)
        cut.run(at_ms)
        cut.configure({"pair": PAIR, "other": OTHER, "added": LATER})
        outcome = cut.reload()
        assert (outcome.ok, outcome.problems) == (True, ())
        assert outcome.notes == ("queries new: added", "queries changed: other", "queries removed: gone")
        seen_ms = cut.runner.live.pipeline.recent._watermark_ms
        cut.run(320)
        assert cut.alerts("pair") == whole.alerts("pair")
        # A new query finds what ends after the watermark, with beginnings that were seen before it.
        after = [alert for alert in whole.alerts("added") if alert[3] >= seen_ms]
        assert cut.alerts("added") == after
        assert any(start_ms < seen_ms for _, _, start_ms, *_ in after) == (at_ms > 0)
        # The alerts of a query that is gone stay, and end.
        assert {alert[1] for alert in cut.alerts("gone")} == ({"resolved"} if at_ms > 0 else set())


def test_a_source_that_is_switched_off_and_on_goes_on_where_it_stood(cluster: Callable[..., Cluster]) -> None:
    whole, cut = cluster("whole", pair=PAIR), cluster("cut", pair=PAIR)
    whole.run(320)
    scripts = cut.scripts
    cut.run(60)
    cut.scripts = []
    assert cut.reload().ok
    assert dict(cut.runner.live.sources) == {}
    cut.run(100)
    cut.scripts = scripts
    assert cut.reload().ok
    cut.run(320)
    assert cut.alerts("pair") == whole.alerts("pair")
    assert {s.name for s in cut.store.statistics()} <= {"events", "polls", "rows", "matches"}


def test_a_poll_under_way_belongs_to_what_was(cluster: Callable[..., Cluster]) -> None:
    whole, cut = cluster("whole", pair=PAIR), cluster("cut", pair=PAIR)
    whole.run(320)
    cut.run(60)
    old = cut.runner.live
    cut.clock.advance_to(T0_MS + 70)
    assert cut.reload().ok
    old.poll("yarn_rest", T0_MS + 70)
    cut.run(320)
    assert cut.alerts("pair") == whole.alerts("pair")


def test_a_reload_waits_for_the_step_under_way(cluster: Callable[..., Cluster]) -> None:
    running = cluster("c", pair=PAIR)
    inside, release, order = threading.Event(), threading.Event(), []

    def boundary(reached: str) -> None:
        if reached == "commit":
            inside.set()
            release.wait(240)
        if reached == "notify":
            order.append("step")

    running.runner.live.pipeline.boundary = boundary
    stepping = threading.Thread(target=running.runner.step)
    stepping.start()
    assert inside.wait(120)
    reloading = threading.Thread(target=lambda: order.append(str(running.reload().ok)))
    reloading.start()
    release.set()
    stepping.join()
    reloading.join()
    assert order == ["step", "True"]
    assert running.runner.live.pipeline.number == 1


# ---------------------------------------------------------------------- refusal


def test_with_anything_wrong_everything_stays(cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    running = cluster("c", pair=PAIR)
    running.run(50)
    before = (running.runner.live, running.runner.settings, running.runner.queries)
    with (tmp_path / "c/config.yaml").open("a") as file:
        file.write("nonsense: 1\n")
    with capture_logs() as lines:
        refused = running.reload()
        assert not refused.ok
        running.configure({"pair": "PATTERN PATTERN", "lone": "PATTERN SEQ(Nope a) WITHIN 1 s"})
        again = running.reload()
    assert "nonsense" in refused.problems[0]
    text = "\n".join(again.problems)
    assert "pair.cep" in text
    assert "Nope" in text
    assert (running.runner.live, running.runner.settings, running.runner.queries) == before
    assert running.runner.reload_problems == again.problems
    told = [line for line in lines if line["event"] == "reload refused; the process goes on unchanged"]
    assert len(told) == len(refused.problems) + len(again.problems)
    registry = running.runner.metrics.registry
    assert registry.get_sample_value("clustercep_reloads_total", {"outcome": "failure"}) == 2
    assert registry.get_sample_value("clustercep_last_reload_successful") == 0
    running.configure({"pair": PAIR})
    assert running.reload().ok
    assert running.runner.reload_problems == ()
    assert registry.get_sample_value("clustercep_last_reload_successful") == 1


def test_a_query_that_no_runtime_evaluates_is_found_before(cluster: Callable[..., Cluster]) -> None:
    running = cluster("c", pair=PAIR)
    before = running.runner.live
    keys_differ = "PATTERN (MapStart a OR NodeLost n){2,3} WHERE skip_till_next_match { [job_id] } WITHIN 3 EVENTS"
    running.configure({"pair": PAIR, "counted": keys_differ})
    refused = running.reload()
    assert not refused.ok
    assert "iterations of different keys" in refused.problems[0]
    assert running.runner.live is before


def test_a_path_that_cannot_be_put_together_is_refused(
    cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = cluster("c", pair=PAIR)
    running.run(20)
    before = running.runner.live
    file = max((running.folder / "store/checkpoints").glob("checkpoint-*"))
    file.write_bytes(b"damaged")
    refused = running.reload()
    assert not refused.ok
    assert "not what was written" in refused.problems[0]
    assert running.runner.live is before
    running.run(40)
    assert running.reload().ok  # the next step wrote a new one


@pytest.mark.parametrize("place", ["app.commands.check.load_queries", "app.process.runner.assemble"])
def test_a_defect_in_a_reload_is_no_end(
    cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    running = cluster("c", pair=PAIR)
    before = (running.runner.live, running.runner.settings)

    def fail(*_arguments: object, **_options: object) -> None:
        raise ZeroDivisionError("nobody expects it")

    monkeypatch.setattr(place, fail)
    with capture_logs() as lines:
        refused = running.reload()
    assert refused.problems == ("the reload failed: ZeroDivisionError: nobody expects it",)
    assert (running.runner.live, running.runner.settings) == before
    assert "the reload failed" in [line["event"] for line in lines]
    running.run(20)


# --------------------------------------------------------------------- settings


def read(folder: Path, more: str) -> Settings:
    return write_settings(folder, more=more)


def test_what_cannot_change_is_named_and_kept(tmp_path: Path) -> None:
    old = read(tmp_path / "a", "")
    (tmp_path / "a/config.yaml").write_text(
        "sources: {job_history: {enabled: true, directories: [history], interval: 5 s}}\n"
        "store: {directory: elsewhere, url: 'sqlite:///hunter2', retention: {alerts: 3 days}}\n"
        "web: {port: 1234, allowed_hosts: [x]}\nlog: {level: debug}\ndemo: {directory: d}\n"
    )
    new = load_settings(tmp_path / "a/config.yaml", {})
    settings, notes = taken_over(old, new)
    assert [note.split()[0] for note in notes] == ["store.directory", "store.url", "web.allowed_hosts", "web.port"]
    assert all("needs a restart" in note for note in notes)
    assert "hunter2" not in str(notes)
    assert (settings.store.directory, settings.store.url, settings.web) == (old.store.directory, None, old.web)
    assert settings.store.retention == new.store.retention
    assert settings.log.level == "debug"
    assert sorted(changed_keys(old, settings)) == [
        "log.level",
        "sources.job_history.interval",
        "store.retention.alerts",
    ]


def test_the_log_follows(tmp_path: Path) -> None:
    settings = read(tmp_path, "")
    clock = SetClock(T0_MS)
    with open_configured_store(settings) as store:
        notifier = Notifier(store, {}, clock)
        runner = Runner(settings, checked_queries(settings), store, notifier, clock)
        supervisor = Supervisor(runner, notifier, ControlRequests(), lambda: check_all(tmp_path / "config.yaml"))
        read(tmp_path, "log: {level: error}\n")
        assert supervisor.reload().ok
        assert not structlog.get_logger("x").is_enabled_for(logging.WARNING)
        runner.live.close()


# -------------------------------------------------------------------- receivers


class Outbox:
    """A process with receivers whose messages are caught, and matches to tell them of."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.sent: list[tuple[str, str]] = []

        def post(endpoint: Endpoint, message: Message, key: str) -> None:
            self.sent.append((message.url, key))

        cluster.notifier._post = post

    def reload(self, **urls: str) -> ReloadOutcome:
        """With these receivers."""
        receivers = ", ".join(f"{name}: {{url: '{url}'}}" for name, url in urls.items())
        self.cluster.configure({"pair": PAIR}, more=f"alerting: {{receivers: {{{receivers}}}}}\n")
        return self.cluster.reload()

    def pending(self) -> dict[str, int]:
        """Messages that wait, by receiver."""
        found = self.cluster.store.n_notifications()
        return {name: n for (name, status), n in found.items() if status == "pending"}


def test_receivers_follow(cluster: Callable[..., Cluster]) -> None:
    running = cluster("c", pair=PAIR)
    outbox = Outbox(running)
    assert outbox.reload(a="http://a/", b="http://b/").ok
    running.run(60)
    waiting = outbox.pending()
    assert waiting.keys() == {"a", "b"}
    assert outbox.reload(a="http://other/").ok  # b is gone, a is elsewhere
    assert outbox.pending() == waiting
    (told,) = [problem for problem in running.store.problems() if problem.kind == "no_receiver"]
    assert told.place == "receiver b"
    assert told.message.startswith(f"{waiting['b']} messages wait")
    running.notifier.start()
    assert running.notifier.drain(120)
    assert {url for url, _ in outbox.sent} == {"http://other/"}
    assert outbox.pending() == {"b": waiting["b"]}
    assert outbox.reload(b="http://b/").ok  # b is back, while all is at work
    assert running.notifier.drain(120)
    running.notifier.stop(120)
    assert outbox.pending() == {}
    assert sum(url == "http://b/" for url, _ in outbox.sent) == waiting["b"]
    assert len(outbox.sent) == len(set(outbox.sent)) == sum(waiting.values())


def test_the_attempt_under_way_ends_before_the_successor_begins(cluster: Callable[..., Cluster]) -> None:
    running = cluster("c", pair=PAIR)
    outbox = Outbox(running)
    inside, release = threading.Event(), threading.Event()

    def post(endpoint: Endpoint, message: Message, key: str) -> None:
        if message.url == "http://old/":
            inside.set()
            release.wait(240)
        outbox.sent.append((message.url, key))

    running.notifier._post = post
    assert outbox.reload(a="http://old/").ok
    running.run(60)
    n_waiting = outbox.pending()["a"]
    assert n_waiting > 1
    running.notifier.start()
    assert inside.wait(120)
    assert outbox.reload(a="http://new/").ok
    release.set()
    assert running.notifier.drain(120)
    running.notifier.stop(120)
    assert [url for url, _ in outbox.sent] == ["http://old/"] + ["http://new/"] * (n_waiting - 1)
    assert len({key for _, key in outbox.sent}) == n_waiting


def test_receivers_that_stay_keep_their_worker(store: Store) -> None:
    settings = Settings.model_validate({"alerting": {"receivers": {"a": {"url": "http://a/"}}}})
    notifier = Notifier(store, endpoints_of(settings), SetClock(0))
    before = notifier._workers["a"]
    notifier.follow(endpoints_of(settings))
    assert notifier._workers == {"a": before}
    notifier.follow({})
    assert notifier._workers == {}
