"""The cluster stream with a storm: a hog takes a node of a cluster, and the shipped alerts beside Q5 and Q6 of SASE++
are evaluated at twice what the machine takes of it.

Polls of 15 s come to the machine of the demo (`app.replay.machine`): an event costs by itself, and for each partial
match and kept event that it stands beside. Before the hog they come at 80 % of what it takes while the hog is there,
from then on at the rate. The bound is the time in which four polls come. Compared are alerts, grouped as the recorder
groups them: one is kept where one of the same query and key is there at the same time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

import engine
from app.alerting.catalog import QueryInfo
from app.alerting.recording.episodes import Episode, group, within_gap
from app.queries.loading import describe, load_queries
from app.replay.machine import Costs, SimulatedMachine
from app.settings.queries import Queries
from benchmarks.measure import scale, show, size
from benchmarks.workloads.hadoop_stream import SCHEMA, Cluster
from benchmarks.workloads.node_hog import Hog, HoggedStream
from engine.compiled.query import CompiledQuery
from engine.events import FOREVER_MS, EventBatch
from engine.matching.output.match_row import MatchRow
from engine.runtime.shedding.control import OverloadControl
from engine.runtime.shedding.latency_bound import BUFFER_SHARE, LEAST_SIMULATED
from engine.runtime.shedding.run_shedder import RunShedder, RunStrategy
from engine.shedding.overload.detector import Bound, OverloadDetector

QUERIES = Path(__file__).parents[2] / "queries"
PAPERS = {"q5": "papers/q5.cep", "q6-option1": "papers/q6-option1.cep"}
LEAST_CONFIDENCE = 0.9
KEPT = 0.99
"""Aimed at: so many of the alerts that are surer than that."""
LENGTH_MS = 1_200_000
CLUSTER = Cluster(n_nodes=1_000, length_ms=LENGTH_MS, jobs_per_node_s=0.0001, events_per_node_s=0.4)
"""Of the samples that hosts tell of themselves, which hardly a query reads, two in place of two hundred; a job every
ten seconds."""
BEFORE = 0.8
POLLS = 4
GROUP_GAP_MS = 300_000
LIMITS = engine.Limits(possibilities=True)
_NO_BOUND = Bound(1e9, 0.0)

Row = dict[str, Any]
Poll = tuple[EventBatch, int]


class Strategy(Enum):
    """What is done under overload."""

    LEARNING = "as `run` without a model"
    TRAINED = "as `run`, model of the time before"
    RANDOM = "any partial matches and kept events"


@dataclass(frozen=True)
class Storm:
    """The polls, from which on there is the hog, and the queries with what alerting knows of them."""

    polls: Sequence[Poll]
    first: int
    step_ms: int
    queries: Sequence[CompiledQuery]
    infos: Mapping[str, QueryInfo]

    @classmethod
    def of(cls, cluster: Cluster) -> Storm:
        """Half of the time without the hog, half with it."""
        hog = Hog(cluster.length_ms // 2)
        polls = tuple(HoggedStream(cluster, hog))
        return cls(polls, len(polls) // 2, cluster.step_ms, *shipped())


def shipped() -> tuple[Sequence[CompiledQuery], Mapping[str, QueryInfo]]:
    """The shipped queries that raise alerts, with those that they use; Q5 and Q6, of which each row is one."""
    loaded = load_queries(Queries(directory=QUERIES), GROUP_GAP_MS)
    raising = [query for query in loaded.compiled if loaded.infos[query.name].severity is not None]
    papers = [
        engine.compile_query(
            f"{(QUERIES / path).read_text(encoding='utf-8')} OUTPUT COLLAPSED CONFIDENCE >= {LEAST_CONFIDENCE}",
            SCHEMA,
            name=name,
        )
        for name, path in PAPERS.items()
    ]
    infos = dict(loaded.infos) | {query.name: describe(query, "", GROUP_GAP_MS) for query in papers}
    return (*engine.with_consumed(raising), *papers), infos


@dataclass
class Driven:
    """What a stream came to; `control` has what was dropped."""

    rows: list[MatchRow] = field(default_factory=list)
    work_s: list[float] = field(default_factory=list)
    """Of the machine, by poll; where several came together the first of them has it all."""
    control: OverloadControl | None = None


Control = Callable[[Mapping[str, CompiledQuery]], OverloadControl]


def drive(storm: Storm, machine: SimulatedMachine, arrivals_s: Sequence[float] | None, control: Control) -> Driven:
    """All polls; what has come while the machine worked is taken together. arrivals_s: None: it waits for nothing."""
    found = Driven()
    at = engine.Engine(list(storm.queries), SCHEMA, limits=LIMITS, overload=control)
    start = 0
    while start < len(storm.polls):
        end = start + 1
        released_s: list[float] = []
        if arrivals_s is not None:
            machine.idle_s += max(0.0, arrivals_s[start] - machine())
            while end < len(storm.polls) and arrivals_s[end] <= machine():
                end += 1
            for poll in range(start, end):
                released_s += [arrivals_s[poll]] * len(storm.polls[poll][0])
        batch = EventBatch.concat([poll for poll, _ in storm.polls[start:end]])
        before_s = machine.worked_s
        found.rows += at.process(batch, storm.polls[end - 1][1], released_s=released_s or None)
        found.work_s += [machine.worked_s - before_s, *[0.0] * (end - start - 1)]
        start = end
    found.rows += at.process(EventBatch.empty(), FOREVER_MS)
    found.control = at.overload
    return found


def alerts_of(storm: Storm, rows: Iterable[MatchRow]) -> list[Episode]:
    """The alerts of rows that end while there is the hog; reports are none."""
    since_ms = storm.first * storm.step_ms
    raised = (row for row in rows if storm.infos[row.query].severity is not None or row.query in PAPERS)
    return [alert for alert in group(raised, storm.infos) if alert.end_ms > since_ms]


def n_kept(storm: Storm, alerts: Iterable[Episode], found: Iterable[Episode]) -> dict[str, tuple[int, int]]:
    """By query: how many of the alerts are among those found, and how many there are."""
    by_key: dict[tuple[str, str], list[Episode]] = {}
    for alert in found:
        by_key.setdefault((alert.query, alert.key_text), []).append(alert)
    counts: dict[str, tuple[int, int]] = {}
    for alert in alerts:
        gap_ms = storm.infos[alert.query].group_gap_ms
        same = by_key.get((alert.query, alert.key_text), ())
        is_there = any(within_gap(one.start_ms, one.end_ms, alert.start_ms, alert.end_ms, gap_ms) for one in same)
        kept, every = counts.get(alert.query, (0, 0))
        counts[alert.query] = kept + is_there, every + 1
    return counts


def _never(machine: SimulatedMachine) -> Control:
    """Cuts and drops nothing; what is kept is counted."""

    def control(queries: Mapping[str, CompiledQuery]) -> OverloadControl:
        return OverloadControl(OverloadDetector(_NO_BOUND), RunShedder(queries, clock=machine), machine, works=machine)

    return control


def _of(strategy: Strategy, storm: Storm, machine: SimulatedMachine, bound_s: float) -> Control:
    if strategy is Strategy.LEARNING:
        return engine.latency_bound(bound_s, machine, works=machine)
    if strategy is Strategy.TRAINED:
        return engine.latency_bound(bound_s, machine, works=machine, model=_model(storm))

    def control(queries: Mapping[str, CompiledQuery]) -> OverloadControl:
        shedder = RunShedder(queries, strategy=RunStrategy.RANDOM, clock=machine)
        detector = OverloadDetector(Bound(bound_s, BUFFER_SHARE * bound_s))
        return OverloadControl(detector, shedder, machine, works=machine, least_events=LEAST_SIMULATED)

    return control


def _model(storm: Storm) -> engine.SheddingModel:
    """As `clustercep shed train` learns it, of the time without the hog; what offers cost here is no part of it."""
    training = engine.ModelTraining({query.name: query for query in storm.queries}, SCHEMA, LIMITS, 0, lambda: 0.0)
    for batch, _ in storm.polls[: storm.first]:
        training.take(batch)
    return training.finished(FOREVER_MS)


def measure(
    storm: Storm,
    rates: Sequence[float],
    seed: int,
    strategies: Sequence[Strategy] = tuple(Strategy),
    costs: Costs | None = None,
) -> Iterator[Row]:
    """A row for each rate and strategy; "queries": of how many alerts of each how many were kept. `costs`: None: the
    stored ones."""
    costs = costs or Costs.stored()
    capacity = SimulatedMachine(costs, None, n_clusters=1)
    whole = drive(storm, capacity, None, _never(capacity))
    alerts = alerts_of(storm, whole.rows)
    took_s = sum(whole.work_s[storm.first :]) / (len(storm.polls) - storm.first)
    for rate in rates:
        gaps_s = np.where(np.arange(len(storm.polls)) < storm.first, took_s / BEFORE, took_s / rate)
        bound_s = POLLS * took_s / rate
        for strategy in strategies:
            machine = SimulatedMachine(costs, None, n_clusters=1)
            control = _of(strategy, storm, machine, bound_s)
            came = drive(storm, machine, np.cumsum(gaps_s).tolist(), control)
            row: Row = {
                "dataset": "cluster",
                "shape": "storm",
                "query": "shipped alerts, Q5, Q6",
                "rate": rate,
                "match_probability": None,
                "strategy": strategy.value,
                "pane": None,
                "cost_factor": 1.0,
                "weight": 1.0,
                "seed": seed,
                "bound_ms": 1_000 * bound_s,
                "latency_max_ms": 1_000 * machine.longest_s,
                "latency_p999_ms": 1_000 * machine.latency_s(0.999),
                **_lost(storm, alerts, came),
            }
            kept = f"{1 - row['fn']:.1%} of {row['alerts']} alerts kept"
            print(f"storm: seed {seed}, {rate:.0%}, {strategy.value}: {kept}", flush=True)
            yield row


def _lost(storm: Storm, alerts: Sequence[Episode], came: Driven) -> Row:
    """Of the alerts that are sure enough: what is missing, and what is there without them."""
    assert came.control is not None
    found = alerts_of(storm, came.rows)
    kept = n_kept(storm, _sure(alerts), found)
    every, there = sum(n for _, n in kept.values()), sum(n for n, _ in kept.values())
    n_false = sum(n - there for there, n in n_kept(storm, _sure(found), alerts).values())
    losses, events = came.control.shedder.loss.items(), came.control.events
    return {
        "fn": 1.0 - there / max(1, every),
        "fp": n_false / max(1, every),
        "alerts": every,
        "queries": kept,
        "dropped_runs": {name: lost.n_runs for name, lost in losses if lost.n_runs},
        "dropped_kept_events": {name: lost.n_events for name, lost in losses if lost.n_events},
        "dropped_events": {} if events is None else events.dropped,
    }


def _sure(alerts: Iterable[Episode]) -> list[Episode]:
    return [alert for alert in alerts if alert.best_confidence > LEAST_CONFIDENCE]


def main() -> list[Row]:
    """Measure and print; a row for each rate, strategy and seed."""
    given = os.environ.get("CLUSTERCEP_BENCH_RATES")
    rates = (2.0,) if given is None else tuple(int(rate) / 100 for rate in given.split(","))
    rows: list[Row] = []
    for seed in range(1, 1 + size("SEEDS", 3)):
        cluster = replace(CLUSTER, length_ms=scale(LENGTH_MS) // CLUSTER.step_ms * CLUSTER.step_ms, seed=seed)
        rows += measure(Storm.of(cluster), rates, seed)
    show(
        f"storm: {CLUSTER.n_nodes:,} nodes, one of them hogged; alerts above {LEAST_CONFIDENCE:.0%}",
        ("strategy", "rate", "seed", "alerts", "kept %", "false %", "dropped: partial matches", "kept events", "events",
         "latency ms", "bound ms"),
        [
            [row["strategy"], f"{row['rate']:.0%}", row["seed"], row["alerts"], f"{100 * (1 - row['fn']):.1f}",
             f"{100 * row['fp']:.1f}",
             *(sum(row[name].values()) for name in ("dropped_runs", "dropped_kept_events", "dropped_events")),
             f"{row['latency_max_ms']:.1f}", f"{row['bound_ms']:.1f}"]
            for row in rows
        ],
    )  # fmt: skip
    show(
        "storm: alerts kept of each query",
        ("query", *(f"{row['strategy']}, {row['rate']:.0%}, {row['seed']}" for row in rows)),
        [
            [name, *("{} of {}".format(*row["queries"].get(name, (0, 0))) for row in rows)]
            for name in sorted({name for row in rows for name in row["queries"]})
        ],
    )
    goals = [
        (row["strategy"], f"{row['rate']:.0%}", row["seed"], "yes" if 1 - row["fn"] >= KEPT else "no",
         "yes" if row["latency_max_ms"] <= row["bound_ms"] else "no")
        for row in rows
    ]  # fmt: skip
    show("storm: goals", ("strategy", "rate", "seed", f"{KEPT:.0%} of alerts kept", "bound holds"), goals)
    return rows


__all__ = ["Storm", "Strategy", "alerts_of", "drive", "main", "measure", "n_kept", "shipped"]
