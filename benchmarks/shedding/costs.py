"""What shedding itself costs on this machine: look-ups, choosing runs, observing, models."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import median_seconds, scale, show
from benchmarks.shedding.workload import ten_stocks
from engine import Engine, Limits, compile_query
from engine.runtime.shedding.control import OverloadControl
from engine.runtime.shedding.run_shedder import RunShedder
from engine.runtime.shedding.run_watch import Sampling
from engine.shedding.events.features import AttributeBins, Features, Pane
from engine.shedding.events.forest import FOREST_TREES, Forest, ForestUtilities
from engine.shedding.events.hashed import EventDropper, HashedUtilities
from engine.shedding.events.observations import AggregatedObservations
from engine.shedding.overload.detector import Bound, OverloadDetector
from engine.shedding.partial_matches.transitions import RunObservations, Transitions
from engine.shedding.partial_matches.utilities import Outlook, UtilityTable


def main() -> dict[str, float]:
    """Measure and print; returns nanoseconds and seconds by name."""
    found = {**_events(), **_models(), **_runs()}
    show("what shedding costs", ("what", "cost"), [[name, f"{value:.4g}"] for name, value in found.items()])
    return found


def _events() -> dict[str, float]:
    random = np.random.default_rng(1)
    n = scale(1_000_000)
    features = Features(tuple("ABCDEF"), (AttributeBins("x", 1.0, 1.0, 10),), pane_events=10)
    kinds, t_ms = random.integers(0, 6, n), np.arange(n)
    x = random.integers(0, 10, (1, n))
    empty = HashedUtilities(features, AggregatedObservations.of(np.empty((0, 8), np.int64), np.empty(0)))
    _, counts = Pane(features, empty.keys).observe(kinds, t_ms)
    started = time.perf_counter()
    observed = AggregatedObservations.of(np.column_stack([kinds, x[0], counts]), random.random(n))
    hashed = HashedUtilities(features, observed)
    build_s = time.perf_counter() - started
    pane_keys = hashed.pane().follow(kinds, t_ms)
    utilities = hashed.of(kinds, x, pane_keys)
    threshold = hashed.distribution.threshold(0.4)
    few = slice(0, 2_000)  # again and again: in cache
    hashed.of(kinds[few], x[:, few], pane_keys[few])

    seen = hashed.pane().observe(kinds, t_ms)[1]
    by_trees = {}
    for name, n_trees in (("T", 1), ("F", FOREST_TREES)):
        started = time.perf_counter()
        by = ForestUtilities(features, Forest.grown(observed, n_trees), observed)
        by_trees[f"gSPICE-{name} model of {n} observations, s"] = time.perf_counter() - started
        by_trees[f"gSPICE-{name} nodes"] = float(len(by.forest.asked))
        by_trees[f"gSPICE-{name} look-up, ns per event"] = _ns(partial(by.of, kinds, x, seen), n)

    def in_cache() -> None:
        for _ in range(100):
            hashed.of(kinds[few], x[:, few], pane_keys[few])

    return {
        "keys of panes, ns per event": _ns(lambda: hashed.pane().follow(kinds, t_ms), n),
        "gSPICE-H look-up, ns per event": _ns(lambda: hashed.of(kinds, x, pane_keys), n),
        "gSPICE-H look-up in cache, ns per event": _ns(in_cache, 100 * 2_000),
        "gSPICE-H entries": float(len(observed)),
        "choosing events, ns per event": _ns(lambda: EventDropper().keeps(utilities, threshold), n),
        f"gSPICE-H model of {n} observations, s": build_s,
        **by_trees,
    }


def _models() -> dict[str, float]:
    random = np.random.default_rng(2)
    n_states = 10
    n_next = random.integers(1, 100, (n_states, n_states + 1))
    n_next = np.triu(n_next)
    observed = RunObservations(n_next.sum(axis=1), n_next)

    def build() -> None:
        outlook = Outlook.of(Transitions.of(observed), np.ones(n_states), 32_000)
        UtilityTable.of(outlook)

    return {"pSPICE model of ten states, window of 32,000 events, s (paper: 2.4)": median_seconds(build)}


def _runs() -> dict[str, float]:
    shape = ten_stocks(1_000)
    stream = shape.stream(scale(100_000), 1)

    def engine(control: bool) -> Engine:
        query = compile_query(shape.texts[0], shape.schema, name="q")

        def make(queries: Any) -> OverloadControl:
            shedder = RunShedder(queries, sampling=Sampling(), clock=time.perf_counter)
            return OverloadControl(OverloadDetector(Bound(1e6, 0.0)), shedder, time.perf_counter)

        return Engine([query], shape.schema, limits=Limits(merge_runs=False), overload=make if control else None)

    def evaluate(control: bool) -> Callable[[], object]:
        def work() -> None:
            engine(control).process(stream, len(stream))

        return work

    plain, watched = median_seconds(evaluate(False)), median_seconds(evaluate(True))
    shed = engine(True)
    shed.process(stream, len(stream))
    assert shed.overload is not None
    shedder = shed.overload.shedder
    shedder.attach(shed._runtimes)
    n_runs = shedder.n_runs
    started = time.perf_counter()
    n_dropped = shedder.drop(n_runs // 10, len(stream))
    drop_s = time.perf_counter() - started
    return {
        "evaluation without control, ns per event": 1e9 * plain / len(stream),
        "evaluation with control and observation, ns per event": 1e9 * watched / len(stream),
        f"dropping {n_dropped} of {n_runs} runs, ms": 1e3 * drop_s,
    }


def _ns(work: Callable[[], object], n: int) -> float:
    return 1e9 * median_seconds(work) / n


__all__ = ["main"]
