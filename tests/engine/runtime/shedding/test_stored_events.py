"""Kept events dropped where matches are postponed: which, what is lost by it, and that the bound holds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from engine import Engine, MatchRow, compile_query
from engine.events import EventBatch
from engine.matching.shedding import DropsStored
from engine.runtime.shedding.control import OverloadControl
from engine.runtime.shedding.run_shedder import RunShedder, RunStrategy
from engine.runtime.shedding.run_watch import Sampling
from engine.shedding.overload.detector import Bound, OverloadDetector
from engine.stream.columns import StreamColumns
from tests.engine.runtime.shedding.simulated import SCHEMA, SimulatedClock, three_types

KEYED = "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match { [k] AND b[i].x > b[i-1].x } WITHIN 40"
PLAIN = "PATTERN SEQ(A a, B b, C c) WHERE skip_till_any_match { b.x = a.x AND c.x > b.x } WITHIN 60"
COUNTED = "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match { c.x > a.x } WITHIN 20 OUTPUT COUNT"
SHARED = "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match { c.x > a.x } WITHIN 60 OUTPUT COUNT"


def engine_of(
    texts: dict[str, str],
    bound: Bound,
    *,
    strategy: RunStrategy = RunStrategy.PSPICE,
    sampling: Sampling | None = None,
) -> Engine:
    """With a clock on which each event takes 0.1 ms, and 20 us for each kept one that matches may have."""
    clock = SimulatedClock(costs=None)  # type: ignore[arg-type]  # it gets no engine to look at
    queries = [compile_query(text, SCHEMA, name=name) for name, text in texts.items()]

    class Costly(Engine):
        def _step(self, stream: StreamColumns, watermark_ms: int) -> dict[str, list[MatchRow]]:  # type: ignore[override]
            n_kept = shedder_of(self).load
            clock.idle_s += len(stream) * (1e-4 + 2e-5 * n_kept)
            return super()._step(stream, watermark_ms)  # type: ignore[return-value]

    return Costly(
        queries,
        SCHEMA,
        overload=lambda known: OverloadControl(
            OverloadDetector(bound),
            RunShedder(known, strategy=strategy, sampling=sampling, clock=clock),
            clock,
            least_events=4,
        ),
    )


def shedder_of(engine: Engine) -> RunShedder:
    assert engine.overload is not None
    return engine.overload.shedder


def part(stream: EventBatch, from_ms: int, to_ms: int) -> EventBatch:
    return stream.where((stream.t_lo_ms >= from_ms) & (stream.t_lo_ms < to_ms))


def ids_of(row: MatchRow) -> set[str]:
    return set(row.event_ids)


def kept_ids(engine: Engine, name: str) -> list[str]:
    found: list[str] = engine._runtimes[name].store.ids.array().to_pylist()  # type: ignore[attr-defined]
    return found


def worth_by_definition(engine: Engine, name: str, now_ms: int) -> list[float]:
    """Pairs of kept first events and last ones that come in what is left of their windows."""
    runtime = engine._runtimes[name]
    store, masks, within_ms = runtime.store, runtime._masks, runtime.plan.within_ms  # type: ignore[attr-defined]
    n = len(store)
    groups = store.partition[:n].tolist()
    ends, firsts, middle = masks.ends(n), masks.begin[0, :n], masks.middle(n)
    n_groups = len(set(groups))
    n_ends = Counter(group for group, is_end in zip(groups, ends, strict=True) if is_end)
    usual = sum(n_ends.values()) / n_groups

    def of_first(row: int) -> float:
        left = max(0.0, 1.0 - (now_ms - int(store.t_lo_ms[row])) / (within_ms + 1))
        return left * (0.5 * (n_ends[groups[row]] + usual) + 1e-6) if firsts[row] else 0.0

    return [
        of_first(row) + (sum(of_first(f) for f in range(row + 1) if groups[f] == groups[row]) if middle[row] else 0.0)
        for row in range(n)
    ]


@pytest.mark.parametrize("text", [KEYED, PLAIN])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_event_is_worth_the_pairs_that_it_may_be_in(text: str, seed: int) -> None:
    engine = engine_of({"q": text}, Bound(1e9, 0.0))
    engine.process(three_types(300, seed), 300)
    runtime = engine._runtimes["q"]
    assert isinstance(runtime, DropsStored)
    assert runtime.n_stored > 10
    store, within_ms = runtime.store, runtime.plan.within_ms  # type: ignore[attr-defined]
    worth, in_window = runtime.stored_worth(300), store.t_lo_ms[: len(store)] >= 300 - within_ms
    expected = np.array(worth_by_definition(engine, "q", 300))
    assert worth[in_window] == pytest.approx(expected[in_window])
    assert np.isinf(worth[~in_window]).all()
    assert runtime.n_stored == int(in_window.sum())
    assert np.isinf(runtime.stored_worth(0)).all(), "none of them is decided yet"


def test_before_the_first_last_event_a_first_one_is_worth_something() -> None:
    """That nothing has matched yet does not say that nothing will: what is lost then is told, too."""
    engine = engine_of({"q": PLAIN}, Bound(1e9, 0.0))
    stream = three_types(60, 9)
    firsts = stream.of_types(["A"])
    engine.process(firsts, 60)
    shedder = shedder_of(engine)
    shedder.attach(engine._runtimes)
    n = shedder.load
    assert n == len(firsts)
    shedder.drop(n, 60)
    assert shedder.loss["q"].n_events == n
    assert shedder.loss["q"].last_ms == 60


@pytest.mark.parametrize("text", [KEYED, PLAIN])
@pytest.mark.parametrize("strategy", [RunStrategy.PSPICE, RunStrategy.RANDOM])
def test_exactly_the_matches_of_dropped_events_are_lost(text: str, strategy: RunStrategy) -> None:
    stream = three_types(400, 4)
    whole, engine = engine_of({"q": text}, Bound(1e9, 0.0)), engine_of({"q": text}, Bound(1e9, 0.0), strategy=strategy)
    expected = list(whole.process(stream, 1_000))
    found = list(engine.process(part(stream, 0, 200), 200))
    shedder = shedder_of(engine)
    shedder.attach(engine._runtimes)
    before = kept_ids(engine, "q")
    worth = engine._runtimes["q"].stored_worth(200)  # type: ignore[attr-defined]
    n = 4 * shedder.load // 5
    shedder.drop(n, 200)
    after = set(kept_ids(engine, "q"))
    assert len(after) == len(before) - n
    gone = set(before) - after
    if strategy is RunStrategy.PSPICE:
        assert max(worth[[event_id in gone for event_id in before]]) <= min(
            worth[[event_id in after for event_id in before]]
        )
    n_before = len(found)
    found += engine.process(part(stream, 200, 400), 1_000)
    lost = [row for row in expected[n_before:] if ids_of(row) & gone]
    assert lost
    assert found == [*expected[:n_before], *(row for row in expected[n_before:] if not ids_of(row) & gone)]
    assert shedder.loss["q"].n_events == int((worth[[event_id in gone for event_id in before]] > 0).sum())


def test_counts_are_lower_bounds_after_events_were_dropped() -> None:
    stream = three_types(300, 5)
    whole, engine = engine_of({"q": COUNTED}, Bound(1e9, 0.0)), engine_of({"q": COUNTED}, Bound(1e9, 0.0))
    full = {(row.event_ids[0], row.last_hi_ms): row.count for row in whole.process(stream, 1_000)}
    engine.process(part(stream, 0, 150), 150)
    shedder_of(engine).attach(engine._runtimes)
    shedder_of(engine).drop(shedder_of(engine).load // 2, 150)
    rows = engine.process(part(stream, 150, 300), 1_000)
    assert any(not row.count_exact for row in rows)
    for row in rows:
        assert row.count <= full[row.event_ids[0], row.last_hi_ms]
        assert row.count == full[row.event_ids[0], row.last_hi_ms] or not row.count_exact
    assert any(row.count_exact for row in rows), "what began after the drop is complete"


def test_a_shared_store_is_dropped_from_once_for_all_that_share_it() -> None:
    texts = {"one": SHARED, "two": SHARED.replace("WITHIN 60", "WITHIN 50")}
    engine = engine_of(texts, Bound(1e9, 0.0))
    engine.process(three_types(300, 6), 300)
    first, second = (engine._runtimes[name] for name in texts)
    assert isinstance(first, DropsStored)
    assert isinstance(second, DropsStored)
    assert first.stored is second.stored
    shedder = shedder_of(engine)
    shedder.attach(engine._runtimes)
    n = first.n_stored
    assert shedder.load == n
    shedder.drop(5, 300)
    assert first.n_stored == n - 5
    assert shedder.loss["one"].n_events == shedder.loss["two"].n_events


def test_what_is_denied_by_an_event_keeps_it() -> None:
    texts = {"q": "PATTERN SEQ(A a, !B b, C c) WHERE skip_till_any_match WITHIN 60"}
    engine = engine_of(texts, Bound(1e9, 0.0))
    engine.process(three_types(300, 7), 300)
    shedder = shedder_of(engine)
    shedder.attach(engine._runtimes)
    n = engine._runtimes["q"].n_rows
    assert n > 0
    assert shedder.load == 0
    shedder.drop(n, 300)
    assert engine._runtimes["q"].n_rows == n
    assert shedder.exempt == {"q"}


@pytest.mark.parametrize("text", [KEYED, PLAIN, COUNTED])
def test_the_bound_holds_under_overload(text: str) -> None:
    bound, stream = Bound(0.2, 0.04), three_types(4_000, 8)
    engine = engine_of({"q": text}, bound)
    control = engine.overload
    assert control is not None
    clock = control.clock
    assert isinstance(clock, SimulatedClock)
    per_s, n_each = 4_000.0, 20
    for start in range(0, len(stream), n_each):
        arrivals = (np.arange(start, start + n_each) / per_s).tolist()
        clock.idle_s = max(clock.idle_s, arrivals[-1])
        engine.process(part(stream, start, start + n_each), start + n_each, released_s=arrivals)
    assert control.statistics.n_shed_steps > 0
    assert control.statistics.longest_s <= bound.latency_s
    assert control.shedder.loss["q"].n_events > 100
