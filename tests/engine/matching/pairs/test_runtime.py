"""The postponed runtime on small streams whose matches are known, and on ones with too many matches to list."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.compiled.query import CompiledQuery, compile_query
from engine.errors import EventError, StateError, UnsupportedQueryError
from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema
from engine.kernels.pairs.labels import MOST
from engine.matching.output.match_row import MatchRow
from engine.matching.pairs.runtime import PostponedRuntime
from engine.matching.protocol import Limits
from engine.stream.interner import Interner
from tests.engine.matching.feeding import advance
from tests.engine.matching.pairs.postponed import postponed

CONFORMANCE = Path(__file__).parents[5] / "shared" / "conformance"

SCHEMA = EventSchema.of(
    {
        "Start": {"task": AttributeType.STRING},
        "Sample": {"val": AttributeType.FLOAT},
        "End": {"task": AttributeType.STRING},
        "Fault": {"task": AttributeType.STRING},
    }
)

RISE = """
PATTERN SEQ(Start a, Sample+ b[], End c)
WHERE skip_till_any_match { [task] AND b[i].val >= b[i-1].val AND count(b[]) >= 4
                            AND b[b.len].val >= b[1].val + 5 }
WITHIN 10 minutes OUTPUT COLLAPSED CONFIDENCE >= 0.9 RETURN a.task
"""


def batch(*rows: tuple[Any, ...]) -> EventBatch:
    """Rows of (type, t_lo, t_hi, value of the type's attribute); ids e0, e1, ...; samples are of one clock."""
    events = []
    for number, (kind, lo, hi, value) in enumerate(rows):
        event = {"event_id": f"e{number}", "type": kind, "t_lo_ms": lo, "t_hi_ms": hi, "source_seq": number}
        event |= {"val": value, "clock_id": "gmond"} if kind == "Sample" else {"task": value}
        events.append(event)
    return EventBatch.from_rows(events, SCHEMA).sorted()


def run(text: str, events: EventBatch, limits: Limits | None = None) -> tuple[Sequence[MatchRow], PostponedRuntime]:
    query = compile_query(text, SCHEMA)
    runtime = postponed(query.plan, Interner(), limits)
    return advance(runtime, events, FOREVER_MS), runtime


def samples(values: list[float], step_ms: int = 5_000, width_ms: int | None = None) -> list[tuple[Any, ...]]:
    """One sample per step, covering the step (t - step, t]."""
    width = step_ms if width_ms is None else width_ms
    return [("Sample", 1 + k * step_ms, 1 + k * step_ms + width - 1, v) for k, v in enumerate(values)]


def rising_with(values: list[float]) -> EventBatch:
    around = samples(values)
    return batch(("Start", 0, 0, "r1"), *around, ("End", around[-1][2] + 1, around[-1][2] + 1, "r1"))


def n_rising(values: list[float], least: int, rise: float) -> int:
    """Non-decreasing subsequences with at least `least` values that rise by `rise`, counted one by one."""
    return sum(
        all(s <= t for s, t in itertools.pairwise(chosen)) and chosen[-1] >= chosen[0] + rise
        for size in range(least, len(values) + 1)
        for chosen in itertools.combinations(values, size)
    )


def test_a_collapsed_row_counts_all_matches_and_shows_the_longest() -> None:
    values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0, 5.0, 8.0]
    (row,), _ = run(RISE, rising_with(values))
    assert (row.count, row.count_exact, row.exact) == (n_rising(values, 4, 5.0), True, False)
    best = [values[int(name[1:]) - 1] for name in row.bindings["b"]]
    assert best == sorted(best)
    assert len(best) == 6  # 1 1 2 3 5 8, or with 5 5 in the place of 2 3
    assert row.confidence == 1.0
    assert row.key == (("task", "r1"),)
    assert row.values == {"task": "r1"}
    assert row.candidates is not None
    assert "e6" in row.candidates["b"]
    assert row.bindings["a"] == row.candidates["a"] == ("e0",)


def test_every_combination_being_a_match_is_exact() -> None:
    text = (
        "PATTERN SEQ(Start a, Sample+ b[], End c) WHERE skip_till_any_match { [task] } WITHIN 1 hour OUTPUT COLLAPSED"
    )
    (row,), _ = run(text, rising_with([2.0] * 20))
    assert (row.count, row.exact, row.count_exact) == (2**20 - 1, True, True)
    assert row.candidates is not None
    assert row.candidates["b"] == tuple(f"e{k}" for k in range(1, 21))


@pytest.mark.parametrize("n", [20, 40])
def test_the_work_of_a_collapsed_row_is_polynomial(n: int) -> None:
    """Strictly rising values have 2^n - ... matches; the steps stay below n^3 times the bound on the count."""
    values = [float(k) for k in range(n)]
    (row,), runtime = run(RISE, rising_with(values))
    expected = sum(
        sum(_binomial(last - first - 1, inner) for inner in range(2, n))
        for first in range(n)
        for last in range(first + 5, n)
    )
    assert row.count == expected
    assert row.count_exact
    assert len(row.bindings["b"]) == n
    assert runtime.n_work < 4 * n**3


def _binomial(n: int, k: int) -> int:
    return 0 if k > n else int(np.prod([(n - i) / (i + 1) for i in range(k)]).round())


def test_more_matches_than_an_integer_holds_are_a_lower_bound() -> None:
    text = "PATTERN SEQ(Start a, Sample+ b[], End c) WHERE skip_till_any_match { [task] } WITHIN 1 hour OUTPUT COUNT"
    (row,), _ = run(text, rising_with([1.0] * 80))
    assert (row.count, row.count_exact, row.candidates) == (MOST, False, None)
    assert len(row.bindings["b"]) == 80


def test_a_sum_is_searched_within_the_work_budget() -> None:
    text = """PATTERN SEQ(Start a, Sample+ b[], End c) WHERE skip_till_any_match { [task] AND sum(b[].val) >= 3 }
              WITHIN 1 hour OUTPUT COUNT"""
    values = [2.0 ** (k / 7) for k in range(40)]
    (row,), runtime = run(text, rising_with(values), Limits(work_budget=20_000))
    assert not row.count_exact
    assert 0 < row.count < 2**40
    assert runtime.n_work <= 2 * 20_001
    (exact,), _ = run(text, rising_with([1.0, 1.0, 1.0, 5.0]))
    assert (exact.count, exact.count_exact) == (8 + 1, True)


def test_a_sample_cut_by_the_start_lowers_the_confidence() -> None:
    """The first sample covers 1..5000 and the task starts at 2500: P(start < sample) is one half."""
    text = "PATTERN SEQ(Start a, Sample+ b[], End c) WHERE skip_till_any_match { [task] } WITHIN 1 hour"
    stream = batch(("Start", 2_500, 2_500, "r1"), *samples([1.0, 2.0]), ("End", 10_001, 10_001, "r1"))
    listed, _ = run(text, stream)
    found = {row.bindings["b"]: row.confidence for row in listed}
    assert found == {("e1",): pytest.approx(0.5), ("e2",): 1.0, ("e1", "e2"): pytest.approx(0.5)}
    (collapsed,), _ = run(text + " OUTPUT COLLAPSED CONFIDENCE >= 0.9", stream)
    assert (collapsed.count, collapsed.confidence, collapsed.bindings["b"]) == (1, 1.0, ("e2",))
    assert collapsed.candidates is not None
    assert collapsed.candidates["b"] == ("e2",)
    (all_of_them,), _ = run(text + " OUTPUT COLLAPSED", stream)
    assert (all_of_them.count, all_of_them.exact) == (3, True)


def test_overlapping_samples_of_one_clock_keep_their_order() -> None:
    text = "PATTERN SEQ(Start a, Sample+ b[], End c) WHERE skip_till_any_match { [task] } WITHIN 1 hour"
    events = batch(("Start", 0, 0, "r"), *samples([1.0, 2.0], 10, 15), ("End", 99, 99, "r"))
    listed, _ = run(text, events)
    assert {row.bindings["b"]: row.confidence for row in listed} == {("e1",): 1.0, ("e2",): 1.0, ("e1", "e2"): 1.0}


NEGATED = "PATTERN SEQ(Start a, !Fault n, End c) WHERE skip_till_any_match { [task] } WITHIN 100"


@pytest.mark.parametrize(
    ("fault", "confidence"),
    [((11, 11), 1.0), ((5, 5), None), ((8, 12), 0.6), ((1, 9), None), ((0, 9), 0.1)],
)
def test_an_imprecise_negated_event_may_be_absent(fault: tuple[int, int], confidence: float | None) -> None:
    """Between 0 and 10; the share of the fault's interval outside it."""
    stream = batch(("Start", 0, 0, "r"), ("Fault", *fault, "r"), ("End", 10, 10, "r"))
    listed, _ = run(NEGATED, stream)
    expected = [] if confidence is None else [pytest.approx(confidence)]
    assert [row.confidence for row in listed] == expected


def test_a_trailing_negation_waits_for_its_window() -> None:
    text = "PATTERN SEQ(Start a, End c, !Fault n) WHERE skip_till_any_match { [task] } WITHIN 100"
    query = compile_query(text, SCHEMA)
    runtime = postponed(query.plan, Interner())
    assert advance(runtime, batch(("Start", 0, 0, "r"), ("End", 10, 10, "r")), 50) == []
    assert advance(runtime, EventBatch.empty(), 100) == []
    assert len(advance(runtime, EventBatch.empty(), 101)) == 1
    assert advance(runtime, EventBatch.empty(), FOREVER_MS) == []
    other = postponed(query.plan, Interner())
    advance(other, batch(("Start", 0, 0, "r"), ("End", 10, 10, "r")), 50)
    fault = EventBatch.from_rows(
        [{"event_id": "f", "type": "Fault", "t_lo_ms": 100, "t_hi_ms": 100, "task": "r"}], SCHEMA
    )
    assert advance(other, fault, FOREVER_MS) == []


def test_a_trailing_negation_waits_for_a_first_event_that_may_end_after_the_last() -> None:
    text = "PATTERN SEQ(Start a, End c, !Fault n) WHERE skip_till_any_match { [task] } WITHIN 3"
    runtime = postponed(compile_query(text, SCHEMA).plan, Interner())
    assert advance(runtime, batch(("Start", 0, 9, "r"), ("End", 0, 4, "r")), 12) == []  # the window may reach to 12
    assert [row.confidence for row in advance(runtime, EventBatch.empty(), 13)] == [pytest.approx(9 / 50)]


def test_memory_is_bounded_by_the_window() -> None:
    text = "PATTERN SEQ(Start a, End c) WHERE skip_till_any_match { [task] } WITHIN 10"
    query = compile_query(text, SCHEMA)
    runtime = postponed(query.plan, Interner())
    kept = []
    for t in range(0, 4_000, 2):
        event = {
            "event_id": f"e{t}",
            "type": "Start" if t % 8 else "End",
            "t_lo_ms": t,
            "t_hi_ms": t,
            "task": f"t{t % 6}",
        }
        advance(runtime, EventBatch.from_rows([event], SCHEMA), t + 1)
        kept.append(runtime.n_rows)
    assert max(kept) <= 7


def test_what_an_undecided_imprecise_event_may_reach_is_kept() -> None:
    """The end is in 5..20 and the window 5: at watermark 15 the start at 3 may still be its match."""
    text = "PATTERN SEQ(Start a, End c) WHERE skip_till_any_match { [task] } WITHIN 5"
    query = compile_query(text, SCHEMA)
    runtime = postponed(query.plan, Interner())
    assert advance(runtime, batch(("Start", 3, 3, "r"), ("End", 5, 20, "r")), 15) == []
    (row,) = advance(runtime, EventBatch.empty(), 21)
    assert row.confidence == pytest.approx(4 / 16)


def test_prefixes_that_differ_in_their_first_event_are_counted_apart() -> None:
    """Here the first event of b is compared two components later."""
    text = """PATTERN SEQ(Start a, Sample+ b[], Fault f, End c) WHERE skip_till_any_match { [task] AND max(b[].val) > 2
              AND b[b.len].val >= b[1].val + 1 } WITHIN 1 hour OUTPUT COLLAPSED"""
    values = [2.0, 1.0, 3.0, 0.0, 2.0]
    end = 30_000
    stream = batch(("Start", 0, 0, "r"), *samples(values), ("Fault", end, end, "r"), ("End", end + 1, end + 1, "r"))
    (row,), _ = run(text, stream)
    expected = sum(
        chosen[-1] >= chosen[0] + 1 and max(chosen) > 2
        for size in range(1, 6)
        for chosen in itertools.combinations(values, size)
    )
    assert row.count == expected


def test_a_match_without_a_key_is_one_and_any_key_may_deny_it() -> None:
    text = """PATTERN SEQ(Sample a, !Fault f, !End e, Sample b)
              WHERE skip_till_any_match { [task] AND e.timestamp > 2 } WITHIN 1 hour"""
    start = [("Sample", 0, 0, 1.0), ("Start", 0, 0, "r"), ("End", 1, 1, "r"), ("End", 2, 2, "s")]
    rows, _ = run(text, batch(*start, ("Fault", 3, 3, None), ("Sample", 5, 5, 1.0)))
    assert [row.bindings for row in rows] == [{"a": ("e0",), "b": ("e5",)}]
    for denying in (("Fault", 3, 3, "s"), ("End", 3, 3, "r"), ("End", 3, 3, "t")):
        assert run(text, batch(*start, denying, ("Sample", 5, 5, 1.0)))[0] == []


def test_overlapping_events_are_counted_within_the_work_budget() -> None:
    text = """PATTERN SEQ(Start a, Sample+ b[], End c) WHERE skip_till_any_match { [task] }
              WITHIN 1 hour OUTPUT COUNT"""
    events = [{"event_id": "a", "type": "Start", "t_lo_ms": 0, "task": "t"}]
    events += [
        {"event_id": f"b{k}", "type": "Sample", "t_lo_ms": 2 * k, "t_hi_ms": 2 * k + 12, "val": 1.0} for k in range(30)
    ]
    events += [{"event_id": "c", "type": "End", "t_lo_ms": 500, "task": "t"}]
    (row,), runtime = run(text, EventBatch.from_rows(events, SCHEMA), Limits(work_budget=200))
    assert row.count > 1
    assert not row.count_exact
    assert runtime.n_work <= 4 * 200 + 1


@pytest.mark.parametrize("output", ["ALL", "SETS", "NON_OVERLAPPING", "TOP 2 BY CONFIDENCE", "COLLAPSED", "COUNT"])
def test_a_search_that_ends_without_a_row_is_counted(output: str) -> None:
    where = "WHERE skip_till_any_match { [task] AND avg(b[].val) = 1.5 }"
    text = f"PATTERN SEQ(Start a, Sample+ b[], End c) {where} WITHIN 1 hour OUTPUT {output}"
    rows, runtime = run(text, rising_with([1.0] * 12), Limits(work_budget=10))
    assert (rows, runtime.n_unfinished) == ([], 1)
    rows, runtime = run(text, rising_with([1.0] * 4))
    assert (rows, runtime.n_unfinished) == ([], 0)


def test_a_limit_is_reported() -> None:
    text = "PATTERN SEQ(Start a, Sample+ b[], End c) WHERE skip_till_any_match { [task] } WITHIN 1 hour"
    rows, runtime = run(text, rising_with([1.0] * 12), Limits(max_rows=50))
    assert (len(rows), runtime.n_unfinished) == (50, 0)
    assert [row.capped for row in rows] == [False] * 49 + [True]
    rows, _ = run(text + " LIMIT 3", rising_with([1.0] * 2))
    assert [row.capped for row in rows] == [False] * 3
    rows, _ = run(text + " LIMIT 2", rising_with([1.0] * 2))
    assert [row.capped for row in rows] == [False] * 3, "one more, so that whoever counts knows that there are more"
    rows, _ = run(text + " LIMIT 1", rising_with([1.0] * 2))
    assert [row.capped for row in rows] == [False, True]


def test_the_most_confident_matches_come_first() -> None:
    text = """PATTERN SEQ(Start a, Sample b, End c) WHERE skip_till_any_match { [task] } WITHIN 1 hour
              OUTPUT TOP 2 BY CONFIDENCE"""
    stream = batch(
        ("Start", 5, 5, "r"),
        ("Sample", 1, 10, 1.0),
        ("Sample", 4, 13, 2.0),
        ("Sample", 3, 12, 3.0),
        ("End", 20, 20, "r"),
    )
    rows, _ = run(text, stream)
    assert [(row.bindings["b"], row.confidence) for row in rows] == [(("e2",), 0.8), (("e3",), pytest.approx(0.7))]


def test_weights_that_do_not_fit_are_refused_before_anything_is_kept() -> None:
    query = compile_query(NEGATED, SCHEMA)
    runtime = postponed(query.plan, Interner())
    rows = [{"event_id": "bad", "type": "End", "t_lo_ms": 1, "t_hi_ms": 2, "task": "r", "weights": [1.0]}]
    with pytest.raises(EventError, match="event bad: its 1 weights do not fit the 2 ms"):
        advance(runtime, EventBatch.from_rows(rows, SCHEMA), 5)
    assert runtime.n_rows == 0


def test_another_strategy_is_refused() -> None:
    query = compile_query(NEGATED.replace("any", "next"), SCHEMA)
    with pytest.raises(UnsupportedQueryError, match="skip_till_next_match is not evaluated by postponing"):
        postponed(query.plan, Interner())


def test_a_state_of_something_else_is_refused() -> None:
    query = compile_query(NEGATED, SCHEMA)
    runtime = postponed(query.plan, Interner())
    with pytest.raises(StateError, match="lacks"):
        runtime.restore({})
    state = runtime.save()
    state["ends"] = state["ends"].replace_schema_metadata({"version": "0"})
    with pytest.raises(StateError, match="version"):
        runtime.restore(state)


# --------------------------------------------------------------- conformance


def shared_cases() -> list[Path]:
    """The cases whose strategy is skip till any match."""
    found = sorted(CONFORMANCE.glob("*.json"))
    return [path for path in found if '"strategy": "skip-till-any-match"' in path.read_text()]


def shared_query(case: dict[str, Any]) -> tuple[CompiledQuery, EventBatch]:
    events = case["events"]
    names = [name for name in events[0] if name not in ("id", "ts", "type", "lo", "hi")]
    types = {component["type"] for component in case["components"]} | {event["type"] for event in events}
    schema = EventSchema.of({name: dict.fromkeys(names, AttributeType.INT) for name in types})
    rows = [
        {"event_id": str(e["id"]), "type": e["type"], "t_lo_ms": e.get("lo", e["ts"]), "t_hi_ms": e.get("hi", e["ts"])}
        | {name: e[name] for name in names}
        for e in events
    ]
    # Events given as intervals are compared as such, points among them: equal means not ordered.
    ties = "\nTIES STRICT" if case["engine"] == "imprecise" else ""
    return compile_query(case["query"] + ties, schema), EventBatch.from_rows(rows, schema)


@pytest.mark.external
@pytest.mark.skipif(not CONFORMANCE.is_dir(), reason="the shared cases are not there")
@pytest.mark.parametrize("path", shared_cases(), ids=lambda path: path.stem)
@pytest.mark.parametrize("n_batches", [1, 3])
def test_shared_cases(path: Path, n_batches: int) -> None:
    case = json.loads(path.read_text())
    query, events = shared_query(case)
    events = events.sorted()
    runtime = postponed(query.plan, Interner())
    found: dict[tuple[tuple[int, ...], ...], float] = {}
    n = len(events)
    for k in range(n_batches):
        start, end = k * n // n_batches, (k + 1) * n // n_batches
        part = events.take(np.arange(start, end)).of_types(query.types)
        watermark = FOREVER_MS if end == n else int(events.t_lo_ms[end])
        early = part.where(part.t_lo_ms < watermark)
        for row in advance(runtime, early, watermark):
            found[tuple(tuple(map(int, ids)) for ids in row.bindings.values())] = row.confidence
        if len(early) < len(part):  # equal times across the cut belong to the next batch
            n_batches_left = events.take(np.arange(start + len(early), n))
            found |= {
                tuple(tuple(map(int, ids)) for ids in row.bindings.values()): row.confidence
                for row in advance(runtime, n_batches_left, FOREVER_MS)
            }
            break
    expected = {tuple(tuple(ids) for ids in m["bindings"]): m.get("confidence", 1.0) for m in case["matches"]}
    assert found == {key: pytest.approx(value, abs=1e-12) for key, value in expected.items()}
