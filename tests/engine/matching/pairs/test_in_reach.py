"""Pairs of a first and a last imprecise event: found in parts, as long as their searches are paid for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine import Engine, compile_query
from engine.events import EventBatch, Int64Array
from engine.kernels.pairs import pairs as postponed_pairs
from engine.kernels.pairs import shared_search
from engine.matching.output.match_row import MatchRow
from engine.matching.pairs import in_reach as pairs_in_reach
from engine.matching.pairs import listing as postponed_listing
from engine.matching.pairs import possible as possible_pairs
from engine.matching.pairs import shared_listing
from engine.matching.pairs.runtime import PostponedRuntime
from engine.matching.protocol import Limits
from engine.matching.work_account import WorkAccount
from tests.engine.strategies import SCHEMA

ANY = "WHERE skip_till_any_match"
QUERIES = (
    f"PATTERN SEQ(A a, B b, A c) {ANY} WITHIN 1 hour",
    f"PATTERN SEQ(A a, B b, A c) {ANY} {{ [k] }} WITHIN 1 hour",
    f"PATTERN SEQ(A a, B+ b[], A c) {ANY} {{ b[i].x > b[i-1].x }} WITHIN 1 hour LIMIT 40",
    f"PATTERN SEQ(A a, B b) {ANY} WITHIN 1 hour OUTPUT TOP 5 BY CONFIDENCE",
    f"PATTERN SEQ(A a, B b, !N n, A c) {ANY} WITHIN 1 hour",
    f"PATTERN SEQ(A a, B b, B+ c[]) {ANY} {{ sum(c[].x) < 40 }} WITHIN 1 hour OUTPUT SETS",
    f"PATTERN SEQ(A a, B b, A c) {ANY} {{ a.x < c.x }} WITHIN 1 hour OUTPUT NON_OVERLAPPING",
    f"PATTERN SEQ(A a, B b, A c) {ANY} {{ a.x < b.x }} WITHIN 1 hour OUTPUT COUNT",
    f"PATTERN SEQ(A a, B+ b[], A c) {ANY} WITHIN 1 hour OUTPUT COLLAPSED",
    f"PATTERN SEQ(A a, B b, A c) {ANY} WITHIN 1 hour SELECT FIRST",
    f"PATTERN SEQ(A a, B b, A c) {ANY} WITHIN 1 hour SLIDE 1 second OUTPUT COLLAPSED",
)


def stream(n: int, types: str = "AB", width_ms: int = 30, n_keys: int = 2) -> EventBatch:
    """One event every ten milliseconds."""
    rows = [
        {
            "event_id": f"e{at:04}",
            "type": types[at % len(types)],
            "t_lo_ms": 10 * at,
            "t_hi_ms": 10 * at + width_ms,
            "source_seq": at,
            "k": f"k{at // 2 % n_keys}",
            "j": 1,
            "x": 7 * at % 25,
        }
        for at in range(n)
    ]
    return EventBatch.from_rows(rows, SCHEMA)


def run(text: str, events: EventBatch, limits: Limits | None = None) -> tuple[list[MatchRow], PostponedRuntime]:
    engine = Engine([compile_query(text, SCHEMA, name="q")], SCHEMA, limits=limits or Limits())
    rows = [*engine.process(events, 10**9), *engine.finish()]
    runtime = engine._runtimes["q"]
    assert isinstance(runtime, PostponedRuntime)
    return rows, runtime


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pairs were found each time."""
    found: list[int] = []
    kernel = postponed_pairs.pairs

    def counted(*given: Any) -> Int64Array:
        result: Int64Array = kernel(*given)
        found.append(len(result))
        return result

    monkeypatch.setattr(pairs_in_reach, "pairs", counted)
    return found


def comparable(rows: Sequence[MatchRow]) -> list[tuple[object, ...]]:
    return [(row.bindings, round(row.confidence, 12), row.count, row.count_exact, row.capped) for row in rows]


@pytest.mark.parametrize("text", QUERIES)
def test_parts_of_pairs_have_the_rows_of_all_pairs(
    text: str, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    events = stream(40)
    whole = comparable(run(text, events)[0])
    most_at_once = max(sizes)
    sizes.clear()
    most = 30
    monkeypatch.setattr(pairs_in_reach.PairsInReach.parts, "__defaults__", (-(2**62), 2**63 - 1, most))
    monkeypatch.setattr("engine.matching.pairs.runtime.PAIRS_COUNTED", most)
    assert comparable(run(text, events)[0]) == whole
    n_firsts = 20
    assert max(sizes) <= most + n_firsts * 2  # those of one last event stay together
    if "SETS" not in text and "NON_OVERLAPPING" not in text:  # these ask for the pairs of each last event
        assert most_at_once > 3 * max(sizes)


def test_no_more_pairs_are_found_than_are_searched(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_in_reach.PairsInReach.parts, "__defaults__", (-(2**62), 2**63 - 1, 500))
    text = f"PATTERN SEQ(A a, A b) {ANY} WITHIN 1 hour"
    rows, _ = run(f"{text} LIMIT 100", stream(400, "A"))
    assert len(rows) == 100
    assert sum(sizes) < 2_000
    sizes.clear()
    monkeypatch.setattr(postponed_listing, "FREE_STEPS", 10_000)
    _, runtime = run(f"{text} HAVING b.x < 0", stream(400, "A"), Limits(work_budget=1))
    assert runtime.n_unfinished > 0
    assert sum(sizes) < 20_000 < 400 * 399 // 2


def test_looks_that_cost_nothing_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each first event has all the others around it, and none of them is a match."""
    n_events, budget = 200, 40
    text = f"PATTERN SEQ(A a, A b) {ANY} {{ a.x < b.x - 100 }} WITHIN 1 hour"
    rows, runtime = run(text, stream(n_events, "A"), Limits(work_budget=budget))
    assert not rows
    assert runtime.n_unfinished == 0
    free, kernel = 500_000, shared_search.list_shared
    n_looked = 0

    def counted(*given: Any) -> Any:
        nonlocal n_looked
        before = int(given[12][0] + given[13][0])
        result = kernel(*given)
        n_looked += before - int(given[12][0] + given[13][0])
        return result

    monkeypatch.setattr(postponed_listing, "FREE_STEPS", free)
    monkeypatch.setattr(shared_listing, "list_shared", counted)
    _, runtime = run(text, stream(n_events, "A"), Limits(work_budget=budget))
    assert runtime.n_unfinished > 0
    account = WorkAccount(budget, 25)
    # The last search notices at its next step.
    assert 300_000 < n_looked <= free + account.terms[1] + 100 * n_events


@pytest.mark.parametrize("output", ["COUNT", "COLLAPSED"])
def test_counting_overlapping_events_is_paid_for(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n_events, budget = 120, 40
    text = f"PATTERN SEQ(A a, B+ b[], A c) {ANY} WITHIN 1 hour OUTPUT {output}"
    monkeypatch.setattr(possible_pairs, "FREE_STEPS", 1_000)
    rows, runtime = run(text, stream(n_events, width_ms=400), Limits(work_budget=budget))
    assert runtime.n_unfinished > 0
    complete, _ = run(text, stream(n_events, width_ms=400))
    n_matches = {(row.first_lo_ms, row.last_hi_ms): row.count for row in complete}
    assert len(rows) < len(complete)
    assert all(1 <= row.count <= n_matches[row.first_lo_ms, row.last_hi_ms] for row in rows)
    assert 0 >= runtime._work.account[0] > -100_000


@pytest.mark.parametrize(("n_between", "budget"), [(36, 200), (120, 3_000)])
def test_what_cannot_follow_is_found_when_a_search_goes_on(n_between: int, budget: int) -> None:
    """2^n selections of Kleene events, of which all but three overlap with nothing that could follow them."""
    kinds = "ABBB" + "C" + n_between * "B" + "A"
    rows = [{"type": kind, "t_lo_ms": 10 * k, "t_hi_ms": 10 * k, "x": 1} for k, kind in enumerate(kinds)]
    rows[3]["t_hi_ms"] = 50  # beside the C at 40
    events = EventBatch.from_rows(
        [row | {"event_id": f"e{n:03}", "source_seq": n, "k": "p", "j": 1} for n, row in enumerate(rows)], SCHEMA
    )
    found, runtime = run(f"PATTERN SEQ(A a, B+ b[], C c, A d) {ANY} WITHIN 1 hour", events, Limits(work_budget=budget))
    assert len(found) == 2**3 - 1
    assert runtime.n_unfinished == 0
    assert not any(row.capped for row in found)


@pytest.mark.parametrize("text", QUERIES[:2])
def test_most_pairs_is_a_bound(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What divides pairs into parts: no last event has more."""
    seen: list[tuple[Int64Array, Int64Array]] = []
    of, most = pairs_in_reach.PairsInReach.of, pairs_in_reach.PairsInReach._most

    def recorded(self: pairs_in_reach.PairsInReach, lasts: Int64Array, *given: int) -> Int64Array:
        found = of(self, lasts, *given)
        seen.append((most(self, lasts), np.array([(found[:, 1] == last).sum() for last in lasts])))
        return found

    monkeypatch.setattr(pairs_in_reach.PairsInReach, "of", recorded)
    run(text, stream(40))
    assert seen
    assert all((bound >= exact).all() for bound, exact in seen)
