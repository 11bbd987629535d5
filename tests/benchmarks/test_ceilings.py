"""What shedding could keep at most: its runs are those of the engine, and no shedder of runs keeps more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.shedding.ceilings import Ceiling, Machine, kept_at_most, runs_of, work_of, worth_keeping
from benchmarks.shedding.simulation import Load, at_most, halved, shed, unshed
from benchmarks.shedding.windows import Stream
from benchmarks.shedding.workload import Pattern, Step, shared_prefixes
from engine.runtime.shedding import control
from engine.runtime.shedding.run_shedder import RunStrategy
from engine.shedding.overload.price import Price

AB = Pattern((Step(0, 1), Step(1, 1)), 10)


def _events(*kinds: int) -> Stream:
    n = len(kinds)
    return Stream(np.array(kinds, np.int64), np.ones(n), np.arange(n, dtype=np.int64), tuple(map(str, range(n))))


def test_runs_cost_and_complete_as_the_engine_says() -> None:
    shape = shared_prefixes(40)
    stream = shape.stream(1_500, 4)
    known = unshed(shape, stream)
    columns = Stream.of(stream, shape.types, shape.attributes[0])
    runs = runs_of(shape.patterns, columns)
    found = sorted(tuple(columns.ids[row] for row in run.moves) for run in runs if run.completes)
    assert found == sorted(known.matches.elements())
    assert work_of(runs, len(stream)).sum() == pytest.approx(known.cost * len(stream), rel=1e-12)


def test_nobody_keeps_more_than_who_knows_more() -> None:
    shape = shared_prefixes(60)
    stream = shape.stream(2_000, 2)
    known = unshed(shape, stream)
    load = Load(2.0, 2)
    load = replace(load, bound=halved(shape, stream, known, load))
    ours = shed(shape, stream, known, RunStrategy.PSPICE, load)
    rows = {ceiling: at_most(shape, stream, known, ceiling, load) for ceiling in Ceiling}
    assert all(row["latency_max_ms"] <= row["bound_ms"] for row in (ours, *rows.values()))
    lost = [rows[Ceiling.FUTURE]["fn"], rows[Ceiling.STATE]["fn"], ours["fn"]]
    assert lost == sorted(lost)
    assert rows[Ceiling.STATE]["fn"] > 0, "nothing had to be dropped"


def test_where_windows_pass_while_events_wait_runs_go_by_what_they_are_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = shared_prefixes(60)
    stream = shape.stream(4_000, 1)
    known = unshed(shape, stream)
    load = Load(2.0, 1)
    load = replace(load, bound=halved(shape, stream, known, load))
    queues: list[float] = []
    follow = Price.follow

    def followed(price: Price, queue: float, elapsed: float) -> None:
        queues.append(queue)
        follow(price, queue, elapsed)

    monkeypatch.setattr(Price, "follow", followed)
    ours = shed(shape, stream, known, RunStrategy.PSPICE, load)
    assert min(queues) < 0 < max(queues), "the price follows a queue that is shorter and longer than is aimed at"
    monkeypatch.setattr(control, "_SHORT", 0.0)
    limited = shed(shape, stream, known, RunStrategy.PSPICE, load)
    assert ours["latency_max_ms"] <= ours["bound_ms"]
    assert ours["fn"] < limited["fn"] - 0.05, "a limit of runs drops nearly all that begin at once"


def test_of_runs_that_complete_the_dearest_are_dropped_until_the_bound_holds() -> None:
    """An A begins a run at each of 0 to 3, all of which the B at 7 completes; an event is evaluated before the next."""
    events = _events(0, 0, 0, 0, 2, 2, 2, 1)
    machine = Machine(np.arange(0.0, 80.0, 10.0), 1.0, 0, 5.0)
    for n_kept in range(5):
        kept = kept_at_most(Ceiling.FUTURE, [AB], events, replace(machine, bound_s=1.0 + n_kept))
        assert kept.recall == n_kept / 4
        assert kept.latencies_s[7] == 1.0 + n_kept
        assert kept.latencies_s[3] == max(1.0, n_kept), "the first ones would have met most events"


def test_a_run_is_worth_its_cost_as_long_as_the_next_type_may_come_often_enough() -> None:
    """Of ten events one is an A and one a B, so an offer costs a fifth of the price at each event, and a run with n
    events left completes by 1 - 0.9^n: its worth is positive while the price is below a half, whatever is left."""
    events = _events(*([0, 1] + [2] * 8) * 10)
    assert worth_keeping(AB, events, 0.49)[1, 1:].all()
    assert not worth_keeping(AB, events, 0.51)[1].any()


def test_a_common_prefix_is_offered_once() -> None:
    """A, then C before D: both queries wait for B with one run, after it with one, and apart no more."""
    patterns = [Pattern(tuple(Step(kind, 1) for kind in kinds), 10) for kinds in ((0, 1, 2), (0, 1, 3))]
    events = _events(0, 1, 2, 3)
    apart = work_of(runs_of(patterns, events), 4)
    together = kept_at_most(Ceiling.SHARED, patterns, events, Machine(np.arange(0.0, 40.0, 10.0), 1.0, 0, 100.0))
    assert apart.tolist() == [1, 3, 2, 2], "the first query's run is not offered the D, nor the second's the C"
    assert together.latencies_s.tolist() == [1, 2, 2, 2]
