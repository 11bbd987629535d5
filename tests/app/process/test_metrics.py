"""The exposition, read back by Prometheus' own parser, against what a pipeline really did."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

import engine
from app.alerting.recording.options import AlertingOptions
from app.clock import SetClock
from app.errors import StoreError
from app.live.assembly import Live
from app.live.sources import ConfiguredSource
from app.process.metrics.counters import Metrics
from app.process.metrics.gauges import LiveFigures
from app.process.metrics.shedding import Rising, overload_metrics
from app.process.metrics.store import StoreReader
from app.store import Store
from app.store.status import OverloadFigures, SheddingFigures
from collectors.base import FinishedHistory
from tests.app.alerting_fixtures import options, receiver
from tests.app.pipeline_fixtures import SCHEMA, Process, Script, batch, event, start

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
STEP_SECONDS = 0.03
ROOT = Path(__file__).resolve().parents[3]

PAIRS = """
PATTERN SEQ(MapStart a, MapEnd b)
WHERE   skip_till_next_match { [task_id] }
WITHIN  1 minute
"""


def scrape(metrics: Metrics) -> Samples:
    """Every sample by its name and labels."""
    text = generate_latest(metrics.registry).decode()
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    found = {(s.name, tuple(sorted(s.labels.items()))): s.value for s in samples}
    assert len(found) == len(samples), "a series twice"
    return found


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, tuple(sorted(labels.items()))))


def family(samples: Samples, name: str) -> dict[tuple[str, ...], float]:
    """The samples of a name by the values of their labels, in the order of the labels' names."""
    return {tuple(v for _, v in labels): n for (found, labels), n in samples.items() if found == name}


def scripts() -> list[Script]:
    """Duplicates, a late event, a history, a failed poll, and a source that is never heard."""
    quick = [
        (8, event("t1-start", 5, "MapStart", task_id="t1")),
        (43, event("t1-end", 40, task_id="t1", period_ms=35)),
        (150, event("t2-end", 20, task_id="t2", period_ms=3)),
    ]
    slow = [(30, event("t1-start", 5, "MapStart", task_id="t1")), (90, event("t1-end", 40, task_id="t1"))]
    lone = batch(event("h-start", 1, "MapStart", task_id="h"), event("h-end", 60, task_id="h"))
    return [
        Script("yarn_rest", quick, 30, failing=(50,)),
        Script("job_history", slow, 30, histories=[(70, FinishedHistory("job_h", "h.jhist", lone))]),
    ]


class Run:
    """A pipeline whose polls and steps are counted as the runner counts them."""

    def __init__(self, store: Store, folder: Path, alerting: AlertingOptions | None = None, **pipeline: Any) -> None:
        self.clock = SetClock(0)
        self.process: Process = start(store, folder, scripts(), alerting=alerting, **pipeline)
        sources = {name: ConfiguredSource(source, 10) for name, source in self.process.sources.items()}
        self.live = Live(self.process.pipeline, sources)
        self.metrics = Metrics()
        self.metrics.watch(lambda: self.live, store, self.clock)

    def to(self, to_ms: int) -> None:
        for now_ms in range(self.clock.now_ms(), to_ms + 1, 10):
            self.clock.advance_to(now_ms)
            for name, source in self.process.sources.items():
                intake = source.poll(now_ms)
                self.metrics.polled(name, 0.2, intake.watermark_ms is not None)
                self.live.pipeline.intake.put(intake)
            self.metrics.stepped(self.live.pipeline.step(now_ms), STEP_SECONDS)


@pytest.fixture(autouse=True)
def _a_busy_machine_has_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what the store says: that a scrape does not wait for it long has its own test."""
    assert LiveFigures.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(LiveFigures.__init__.__kwdefaults__, "store_wait_s", 60.0)


@pytest.fixture
def run(store: Store, tmp_path: Path) -> Run:
    return Run(store, tmp_path / "checkpoints", options(ops=receiver(), pager=receiver(min_severity="critical")))


def stored(store: Store, name: str) -> dict[tuple[str, str], int]:
    return {(row.source, row.type): row.value for row in store.statistics(name)}


def test_counters_equal_the_table_of_statistics(run: Run, store: Store) -> None:
    run.to(200)
    samples = scrape(run.metrics)
    by_type = {
        "events": "clustercep_events_total",
        "duplicates": "clustercep_duplicate_events_total",
        "late": "clustercep_late_events_total",
        "history": "clustercep_history_events_total",
    }
    for statistic, name in by_type.items():
        assert family(samples, name) == stored(store, statistic) != {}
    for statistic, name in (("matches", "clustercep_matches_total"), ("rows", "clustercep_match_rows_total")):
        counted = {key: n for key, n in family(samples, name).items() if n}
        assert counted == stored(store, statistic)
    polls = family(samples, "clustercep_polls_total")
    assert {(source, ""): polls["success", source] for source in ("yarn_rest", "job_history")} == stored(store, "polls")
    assert (polls["failure", "yarn_rest"], polls["failure", "job_history"]) == (1, 0)
    assert stored(store, "failed_polls") == {("yarn_rest", ""): 1}


def test_what_the_run_did_is_what_the_scrape_says(run: Run, store: Store) -> None:
    run.to(200)
    samples = scrape(run.metrics)
    assert family(samples, "clustercep_events_total") == {
        ("yarn_rest", "MapStart"): 1,
        ("yarn_rest", "MapEnd"): 1,
    }
    assert family(samples, "clustercep_late_events_total") == {("yarn_rest", "MapEnd"): 1}
    assert value(samples, "clustercep_released_events_total") == 2
    lanes = family(samples, "clustercep_matches_total")
    assert lanes == {("live", "slow"): 1, ("live", "times"): 1, ("history", "slow"): 1, ("history", "times"): 1}
    assert value(samples, "clustercep_step_duration_seconds_count") == 21
    assert value(samples, "clustercep_step_duration_seconds_sum") == pytest.approx(21 * STEP_SECONDS)
    assert value(samples, "clustercep_step_duration_seconds_bucket", le="0.025") == 0
    assert value(samples, "clustercep_step_duration_seconds_bucket", le="0.05") == 21
    assert value(samples, "clustercep_poll_duration_seconds_sum", source="yarn_rest") == pytest.approx(21 * 0.2)


def test_changes_of_alerts_are_those_that_the_store_keeps(run: Run, store: Store) -> None:
    run.to(200)
    changes = Counter((c.to_state, a.query) for a in store.alerts() for c in store.alert(a.id).changes)
    changed = family(scrape(run.metrics), "clustercep_alert_changes_total")
    # labels in the order of their names: query, state
    assert {(state, query): n for (query, state), n in changed.items() if n} == changes
    assert changed["slow", "acknowledged"] == 0


def test_open_alerts_and_messages_are_those_of_the_store_now(run: Run, store: Store) -> None:
    run.to(80)
    samples = scrape(run.metrics)
    assert value(samples, "clustercep_store_up") == 1
    assert family(samples, "clustercep_alerts_open") == {("warning", "false", "firing"): 1}
    n_pending = store.n_notifications_by_status()["pending"]
    assert family(samples, "clustercep_notifications_pending") == {("ops",): n_pending, ("pager",): 0}
    assert family(samples, "clustercep_queue_length")["outbox",] == n_pending > 0
    first = store.notifications()[0]
    with store.transaction() as writer:
        writer.outbox.record_attempt(
            first.idempotency_key, first.receiver, status="failed", error="x", next_attempt_ms=0, now_ms=0
        )
    samples = scrape(run.metrics)
    assert value(samples, "clustercep_notifications_given_up", receiver="ops") == 1
    assert value(samples, "clustercep_notifications_pending", receiver="ops") == n_pending - 1
    run.to(200)
    assert sum(family(scrape(run.metrics), "clustercep_alerts_open").values()) == 0


def test_watermarks_are_behind_the_clock_by_what_the_sources_promise(run: Run) -> None:
    assert family(scrape(run.metrics), "clustercep_watermark_lag_seconds") == {}
    run.to(100)
    samples = scrape(run.metrics)
    lags = {("yarn_rest",): 0.03, ("job_history",): 0.03}
    assert family(samples, "clustercep_watermark_lag_seconds") == pytest.approx(lags)
    assert value(samples, "clustercep_combined_watermark_lag_seconds") == pytest.approx(0.03)
    assert value(samples, "clustercep_last_step_timestamp_seconds") == 0.1
    run.clock.advance_to(60_100)  # nobody steps any more
    samples = scrape(run.metrics)
    assert value(samples, "clustercep_combined_watermark_lag_seconds") == pytest.approx(60.03)
    assert value(samples, "clustercep_watermark_lag_seconds", source="yarn_rest") == pytest.approx(60.03)
    run.metrics.stepped(run.live.pipeline.step(60_100), 0.1)
    assert family(scrape(run.metrics), "clustercep_source_left_out") == {("yarn_rest",): 1, ("job_history",): 1}
    run.metrics.stepped(run.live.pipeline.finish(60_100), 0.1)
    assert value(scrape(run.metrics), "clustercep_combined_watermark_lag_seconds") == 0


def test_queues(run: Run) -> None:
    run.to(40)
    run.live.pipeline.intake.put(run.process.sources["yarn_rest"].poll(50))
    queues = family(scrape(run.metrics), "clustercep_queue_length")
    pipeline = run.live.pipeline
    assert queues["intake",] == 1
    assert queues["waiting",] == pipeline.order.n_waiting == 0
    assert queues["recent",] == len(pipeline.recent) == 1


def test_queries_show_what_the_engine_says(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path / "checkpoints")
    query = engine.compile_query(PAIRS, SCHEMA, name="slow")
    matcher = engine.Engine([query], SCHEMA)
    run.live.pipeline.matcher = matcher
    run.to(60)
    samples, statistics = scrape(run.metrics), matcher.statistics["slow"]
    assert value(samples, "clustercep_query_events_total", query="slow") == statistics.n_events == 1
    assert value(samples, "clustercep_query_events_kept", query="slow") == statistics.n_kept == 1
    assert value(samples, "clustercep_query_seconds_total", query="slow") == pytest.approx(statistics.seconds)
    assert value(samples, "clustercep_query_rejected_events_total", query="slow") == 0
    assert statistics.seconds > 0


def test_known_series_start_at_zero(run: Run) -> None:
    samples = scrape(run.metrics)
    assert value(samples, "clustercep_polls_total", source="yarn_rest", outcome="failure") == 0
    assert value(samples, "clustercep_rejected_events_total", source="job_history") == 0
    assert value(samples, "clustercep_notifications_total", receiver="pager", outcome="failed") == 0
    assert value(samples, "clustercep_failed_steps_total", reason="store") == 0
    assert value(samples, "clustercep_alert_changes_total", query="slow", state="firing") == 0
    assert value(samples, "clustercep_alert_changes_total", query="times", state="firing") is None  # a report


def test_a_path_put_together_anew_is_the_one_that_is_shown(run: Run, store: Store, tmp_path: Path) -> None:
    run.to(60)
    again = start(store, tmp_path / "checkpoints", scripts(), now_ms=60)
    again.pipeline.intake.put(run.process.sources["yarn_rest"].poll(60))
    run.live = Live(again.pipeline, run.live.sources)
    before = scrape(run.metrics)
    assert value(before, "clustercep_queue_length", queue="intake") == 1
    run.to(200)
    matched = family(scrape(run.metrics), "clustercep_matches_total")
    assert matched["live", "slow"] == 1  # going back counts nothing twice


def test_failed_steps_and_outages(run: Run) -> None:
    for n_outages, reason in enumerate(("defect", "store", "disk")):
        run.metrics.step_failed(reason)
        run.metrics.step_failed(reason)
        run.to(10 * (n_outages + 1))  # a step that is stored ends the outage
        assert value(scrape(run.metrics), "clustercep_store_outages_total") == n_outages
    for reason in ("store", "defect", "disk", "store"):  # one that goes on
        run.metrics.step_failed(reason)
    samples = scrape(run.metrics)
    assert family(samples, "clustercep_failed_steps_total") == {("store",): 4, ("disk",): 3, ("defect",): 3}
    assert value(samples, "clustercep_store_outages_total") == 3


def test_attempts_to_deliver(run: Run) -> None:
    for outcome, reason in (
        ("retried", "timeout"),
        ("retried", "server_5xx"),
        ("delivered", ""),
        ("failed", "timeout"),
    ):
        run.metrics.delivered("ops", outcome, reason)
    samples = scrape(run.metrics)
    attempts = family(samples, "clustercep_notifications_total")
    assert [attempts[outcome, "ops"] for outcome in ("delivered", "retried", "failed")] == [1, 2, 1]
    failures = family(samples, "clustercep_notification_failures_total")
    assert failures == {("timeout", "ops"): 2, ("server_5xx", "ops"): 1}


def test_reloads(run: Run) -> None:
    def shown() -> tuple[float | None, ...]:
        samples = scrape(run.metrics)
        return (
            value(samples, "clustercep_last_reload_successful"),
            value(samples, "clustercep_last_reload_success_timestamp_seconds"),
            value(samples, "clustercep_reloads_total", outcome="success"),
            value(samples, "clustercep_reloads_total", outcome="failure"),
        )

    assert shown() == (1, 0, 0, 0)
    run.metrics.reloaded(True, 5_500)
    assert shown() == (1, 5.5, 1, 0)
    run.metrics.reloaded(False, 9_000)
    assert shown() == (0, 5.5, 1, 1)


def test_the_process_and_the_build_are_told(run: Run) -> None:
    samples = scrape(run.metrics)
    assert (value(samples, "process_resident_memory_bytes") or 0) > 1e7
    (build,) = [dict(labels) for name, labels in samples if name == "clustercep_build_info"]
    assert set(build) == {"version", "python_version"}


def test_labels_are_bounded_whatever_the_cluster_names(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path / "checkpoints")
    n_before = len(scrape(run.metrics))
    for i in range(200):
        name = f'job-{i}\n"evil{i}'
        rows = [event(f"{i}-a", 1_290, "MapStart", task_id=name), event(f"{i}-b", 1_295, task_id=name)]
        run.process.sources["yarn_rest"]._collector._script.rows += [(1_300, row) for row in rows]  # type: ignore[attr-defined]
    run.to(1_400)
    samples = scrape(run.metrics)
    assert value(samples, "clustercep_matches_total", query="slow", lane="live") == 201
    assert len(samples) < n_before + 40
    assert not any("evil" in text for _, labels in samples for _, text in labels)


# --------------------------------------------------------------- who reads them


def shown_names(run: Run) -> set[str]:
    """Names of all families, with those that appear only once something happened."""
    run.live.pipeline.matcher = engine.Engine([engine.compile_query(PAIRS, SCHEMA, name="slow")], SCHEMA)
    run.to(200)
    run.metrics.delivered("ops", "failed", "tls")
    with_bound = {sample.name for metric in overload_metrics(BOUNDED, ["slow"]) for sample in metric.samples}
    return {name for name, _ in scrape(run.metrics)} | {"clustercep_alerts_open"} | with_bound


BOUNDED = OverloadFigures(
    bound_ms=500,
    strategy="pspice",
    is_shedding=True,
    latency_ms=350.0,
    longest_ms=480.0,
    achievable_ms=700,
    n_steps=9,
    n_shed_steps=3,
    shedding_seconds=0.25,
    exempt=["times"],
    queries={"slow": SheddingFigures(n_partial_matches=12, expected_matches=3.5, n_unvalued=2, n_events=7)},
    dropped_events={"MapEnd": 8},
    expected_event_loss=1.5,
)


def test_a_bound_shows_what_holding_it_costs() -> None:
    samples = {
        (sample.name, sample.labels.get("query", sample.labels.get("type"))): sample.value
        for metric in overload_metrics(BOUNDED, ["slow", "times"])
        for sample in metric.samples
    }
    assert samples == {
        ("clustercep_latency_bound_seconds", None): 0.5,
        ("clustercep_latency_seconds", None): 0.35,
        ("clustercep_latency_achievable_seconds", None): 0.7,
        ("clustercep_shedding", None): 1,
        ("clustercep_shedding_seconds_total", None): 0.25,
        ("clustercep_query_dropped_partial_matches_total", "slow"): 12,
        ("clustercep_query_dropped_partial_matches_total", "times"): 0,
        ("clustercep_query_dropped_kept_events_total", "slow"): 7,
        ("clustercep_query_dropped_kept_events_total", "times"): 0,
        ("clustercep_query_expected_missing_matches_total", "slow"): 3.5,
        ("clustercep_query_expected_missing_matches_total", "times"): 0,
        ("clustercep_query_exempt_from_shedding", "slow"): 0,
        ("clustercep_query_exempt_from_shedding", "times"): 1,
        ("clustercep_dropped_events_total", "MapEnd"): 8,
    }


def lost(n: int, *, n_events: int = 0) -> OverloadFigures:
    of_query = SheddingFigures(n_partial_matches=n, expected_matches=n / 4, n_unvalued=0, n_events=n_events)
    queries = {"slow": of_query} if n else {}
    return OverloadFigures({**BOUNDED, "queries": queries, "dropped_events": {"MapEnd": 2 * n}})


def test_what_was_dropped_is_told_by_counters_that_never_fall() -> None:
    """A step that fails goes back to what its checkpoint knows: Prometheus would take less for a counter from zero."""
    rising, told = Rising(), list[tuple[int, float, int]]()
    for n in (10, 25, 20, 24, 0, 3):  # two steps, back by 5, 4 more, begun anew, 3 more
        figures = rising.of(lost(n))
        of_query = figures["queries"]["slow"]
        told.append((of_query["n_partial_matches"], of_query["expected_matches"], figures["dropped_events"]["MapEnd"]))
    assert told == [(10, 2.5, 20), (25, 6.25, 50), (25, 6.25, 50), (29, 7.25, 58), (29, 7.25, 58), (32, 8.0, 64)]


def test_the_documentation_names_every_metric_and_no_other(run: Run) -> None:
    table = (ROOT / "docs" / "operations.md").read_text().partition("## Metrics")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`(clustercep_\w+)`", row)}
    shown = {re.sub(r"(_seconds)_(bucket|sum|count)$", r"\1", name) for name in shown_names(run)}
    assert documented == {name for name in shown if name.startswith("clustercep_")}


def test_the_rules_ask_for_metrics_that_exist_with_labels_that_they_have(run: Run) -> None:
    text = (ROOT / "deploy" / "prometheus" / "rules.yaml").read_text()
    rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    names = shown_names(run)
    labels = {name: {label for label, _ in found} for name, found in scrape(run.metrics)}
    for rule in rules:
        asked = re.findall(r"(clustercep_\w+)(?:\{(\w+)=)?", rule["expr"])
        assert {name for name, _ in asked} <= names, rule["alert"]
        assert all(not label or label in labels[name] for name, label in asked), rule["alert"]
        shown = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert shown <= set().union(*(labels[name] for name, _ in asked)) if asked else not shown, rule["alert"]


# --------------------------------------------------------------- a store that is gone


class DeadStore:
    """Refuses, or hangs until it is let go."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.asked, self.release = threading.Event(), threading.Event()
        self.n_requested = 0

    def n_open_alerts(self) -> Mapping[tuple[str, bool, str], int]:
        self.n_requested += 1
        self.asked.set()
        if self.error is not None:
            raise self.error
        self.release.wait(120)
        return {("firing", False, "info"): 1}

    def n_notifications(self) -> Mapping[tuple[str, str], int]:
        return {("ops", "pending"): 2}

    def group_figures(self) -> dict[str, tuple[int, int]]:
        return {}

    def receivers_down(self) -> Mapping[str, int]:
        return {}


@pytest.mark.parametrize("error", [StoreError("database is locked"), RuntimeError("defect")])
def test_a_store_that_refuses_leaves_the_rest_of_the_scrape(run: Run, error: Exception) -> None:
    metrics = Metrics()
    metrics.watch(lambda: run.live, DeadStore(error), run.clock)  # type: ignore[arg-type]
    samples = scrape(metrics)
    assert value(samples, "clustercep_store_up") == 0
    assert set(family(samples, "clustercep_queue_length")) == {("intake",), ("waiting",), ("recent",)}
    assert family(samples, "clustercep_alerts_open") == {}


def test_a_store_that_hangs_is_waited_for_a_moment_only_and_by_one_thread(run: Run) -> None:
    dead = DeadStore(None)
    figures = LiveFigures(lambda: run.live, dead, run.clock, store_wait_s=0.01)  # type: ignore[arg-type]
    figures.look()
    metrics = Metrics()
    metrics.registry.register(figures)
    assert [value(scrape(metrics), "clustercep_store_up") for _ in range(3)] == [0, 0, 0]
    assert dead.asked.wait(60)
    assert dead.n_requested == 1
    dead.release.set()
    reader = StoreReader(dead, 120)  # type: ignore[arg-type]
    found = reader.read()
    assert found is not None
    assert found.n_pending("ops") == 2


def test_a_store_that_comes_back_is_shown_again(run: Run) -> None:
    dead = DeadStore(StoreError("gone"))
    dead.release.set()
    metrics = Metrics()
    metrics.watch(lambda: run.live, dead, run.clock)  # type: ignore[arg-type]
    assert value(scrape(metrics), "clustercep_store_up") == 0
    dead.error = None
    samples = scrape(metrics)
    assert value(samples, "clustercep_store_up") == 1
    assert value(samples, "clustercep_alerts_open", state="firing", silenced="false", severity="info") == 1
    assert value(samples, "clustercep_notifications_pending", receiver="ops") == 2


def test_nothing_is_shown_of_a_path_before_there_is_one() -> None:
    names = {name for name, _ in scrape(Metrics())}
    assert "clustercep_queue_length" not in names
    assert "clustercep_store_outages_total" in names


def test_two_processes_in_one_program_share_nothing(run: Run) -> None:
    other = Metrics()
    run.to(100)
    assert value(scrape(other), "clustercep_step_duration_seconds_count") == 0
