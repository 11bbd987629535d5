"""Trend queries that share a graph, or what is taken in: rows, state and statistics are those of each alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from engine import CompiledQuery, Engine, compile_query
from engine.errors import QueryError
from engine.events import FOREVER_MS, EventBatch
from engine.plan.trends.model import TrendPlan
from engine.plan.trends.shared import Shared, shared_by
from engine.reference import reference_output
from engine.trends.runtime import TrendRuntime
from tests.engine.trends.evaluation import shown
from tests.engine.trends.sharing import by_query, check_sharing, planned, rows_of
from tests.engine.trends.trend_strategies import SCHEMA, SharingCase, sharing_cases
from tests.examples import examples

PATTERN = "PATTERN (SEQ(A+ a, B))+ WHERE a.x < NEXT(a).x GROUP BY g WITHIN 8 SLIDE 4"
RETURNED = ("COUNT(*)", "COUNT(a) AS n, MAX(a.y) AS most", "AVG(a.x) AS x", "SUM(a.y) AS y, SUM(B.x) AS b")


def queries(*texts: str) -> list[CompiledQuery]:
    return [compile_query(text, SCHEMA, name=f"q{number}") for number, text in enumerate(texts)]


def alike() -> list[CompiledQuery]:
    return queries(*(f"{PATTERN} HAVING COUNT(*) > {n} RETURN {what}" for n, what in enumerate(RETURNED)))


def events(first_ms: int, last_ms: int, *, longest_ms: int = 0) -> EventBatch:
    rows = [
        {
            "event_id": f"e{t}",
            "type": "AAB"[t % 3],
            "t_lo_ms": t,
            "t_hi_ms": t + (t % 2) * longest_ms,
            "source_seq": t,
            "x": 3 * t % 7,
            "y": t / 7,
            "g": "uv"[t % 5 == 0],
            "h": 1,
        }
        for t in range(first_ms, last_ms)
    ]
    return EventBatch.from_rows(rows, SCHEMA)


def n_sharing(running: Engine) -> list[int]:
    """With how many, itself among them, each query has its graph in common."""
    runtimes = [running._runtimes[query.name] for query in running.queries]
    return [len(runtime._graph.members) for runtime in runtimes if isinstance(runtime, TrendRuntime)]


@settings(max_examples=examples(60), deadline=None)
@given(sharing_cases())
def test_rows_are_bit_for_bit_those_of_each_query_alone(case: SharingCase) -> None:
    check_sharing(case)


@settings(max_examples=examples(25), deadline=None)
@given(sharing_cases(max_events=5, max_width_ms=4))
def test_so_are_those_over_intervals(case: SharingCase) -> None:
    check_sharing(case)


@settings(max_examples=examples(60), deadline=None)
@given(sharing_cases())
def test_they_are_those_of_the_definitions(case: SharingCase) -> None:
    queries = planned(case)
    found = rows_of(queries, case, restarts=True)
    for query in queries:
        assert shown(found[query.name]) == shown(reference_output(query.resolved, case.stream))


def test_sums_of_real_numbers_are_doubles_under_exact_also_by_definition() -> None:
    (query,) = queries("PATTERN A+ a WITHIN 8 SLIDE 8 EXACT RETURN SUM(a.y) AS y, SUM(a.x) AS x, SUM(a.x) / 2 AS half")
    row = {"event_id": "e", "type": "A", "t_lo_ms": 1, "t_hi_ms": 1, "source_seq": 0, "g": "u", "h": 1}
    stream = EventBatch.from_rows([{**row, "x": 3, "y": 1e300}, {**row, "event_id": "f", "x": 4}], SCHEMA)
    expected = {"y": 1e300, "x": 7, "half": 3.5}
    assert [each.values for each in reference_output(query.resolved, stream)] == [expected]
    assert [each.values for each in Engine([query], SCHEMA).process(stream, FOREVER_MS)] == [expected]


def test_what_is_shared_is_told_and_is_what_an_engine_shares() -> None:
    texts = [
        "PATTERN A+ a WHERE a.x > 1 GROUP BY g WITHIN 9 SLIDE 3 RETURN COUNT(*)",
        "PATTERN A+ a WHERE a.x > 1 GROUP BY g WITHIN 9 SLIDE 3 HAVING MAX(a.y) > 2 RETURN SUM(a.x)",
        "PATTERN A+ a WHERE a.x > 1 GROUP BY g WITHIN 9 SLIDE 9 RETURN COUNT(*), AVG(a.y) AS y",
        "PATTERN A+ a WHERE a.x > 2 GROUP BY g WITHIN 9 SLIDE 3 RETURN COUNT(*)",
        "PATTERN A+ a WHERE a.x > 1 GROUP BY h WITHIN 9 SLIDE 3 RETURN COUNT(*)",
        "PATTERN A+ a WHERE a.x > 1 GROUP BY g WITHIN 9 SLIDE 3 EXACT RETURN COUNT(*)",
        "PATTERN A+ a WHERE a.x > 1 GROUP BY g WITHIN 9 SLIDE 3 TIES SOURCE RETURN COUNT(*)",
    ]
    compiled = queries(*texts)
    plans = {query.name: query.plan for query in compiled if isinstance(query.plan, TrendPlan)}
    emitted = shared_by(plans)
    assert emitted == {
        "q0": Shared(("q1",), ("q5",), ("q2",)),
        "q1": Shared(("q0",), ("q5",), ("q2",)),
        "q2": Shared((), ("q5",), ("q0", "q1")),
        "q5": Shared((), ("q0", "q1", "q2")),
    }
    assert emitted["q0"].explain() == (
        "shared     one graph with q1; one graph of several windows with q2; what is taken in of the stream with q5"
    )
    assert emitted["q2"].explain() == (
        "shared     one graph of several windows with q0, q1; what is taken in of the stream with q5"
    )
    running = Engine(compiled, SCHEMA)
    assert n_sharing(running) == [3, 3, 3, 1, 1, 1, 1]
    assert running.shared == emitted


def test_queries_of_one_key_share_whatever_of_it_they_group_by() -> None:
    texts = [f"PATTERN A+ a WHERE [g, h] GROUP BY {by} WITHIN 9 SLIDE 3 RETURN COUNT(*)" for by in ("g", "h", "g, h")]
    running = Engine(queries(*texts, texts[0].replace("GROUP BY g", "")), SCHEMA)
    assert n_sharing(running) == [4, 4, 4, 4]


def test_the_state_of_a_query_is_found_again_alone_and_in_a_group() -> None:
    """A group of four, then two engines that have two each, then all four again: rows as without a restart."""
    compiled = alike()
    expected = Engine(compiled, SCHEMA)
    rows = [*expected.process(events(0, 17), 17), *expected.process(events(17, 40), 40), *expected.finish()]
    whole = Engine(compiled, SCHEMA)
    found = list(whole.process(events(0, 17), 17))
    halves = [Engine(compiled[:2], SCHEMA), Engine(compiled[2:], SCHEMA)]
    for half in halves:
        assert half.restore(whole.save()) == frozenset()
        assert n_sharing(half) == [2, 2]
    assert whole.save()["q0/vertices"].equals(Engine.save(halves[0])["q0/vertices"])
    found += [row for half in halves for row in half.process(events(17, 40), 40)]
    again = Engine(compiled, SCHEMA)
    one, other = (half.save() for half in halves)
    meta = {**(one["engine"].schema.metadata or {}), **(other["engine"].schema.metadata or {})}
    both = {**one, **other, "engine": one["engine"].replace_schema_metadata(meta)}
    assert again.restore(both) == frozenset()
    assert n_sharing(again) == [4, 4, 4, 4]
    found += again.finish()
    assert by_query(found, compiled) == by_query(rows, compiled)


def test_a_query_that_comes_later_shares_once_it_knows_the_same() -> None:
    compiled = alike()
    running = Engine(compiled[:3], SCHEMA)
    first = events(0, 30)
    running.process(first, 30)
    later = Engine(compiled, SCHEMA)
    assert later.restore(running.save()) == {"q3"}
    assert n_sharing(later) == [3, 3, 3, 1]
    later.warm_up({"q3"}, first.where(first.t_lo_ms >= 20))
    assert n_sharing(later) == [4, 4, 4, 4]
    own = Engine(compiled, SCHEMA)
    own.process(first, 30)
    assert list(later.process(events(30, 50), 50)) == list(own.process(events(30, 50), 50))


def test_a_query_that_begins_again_beside_others_comes_back_to_their_graph() -> None:
    compiled = alike()
    running = Engine(compiled, SCHEMA)
    running.process(events(0, 30), 30)
    running.warm_up({"q3"}, events(0, 20))
    assert n_sharing(running) == [3, 3, 3, 1]
    running.warm_up({"q3"}, events(0, 30))
    assert n_sharing(running) == [4, 4, 4, 4]


def test_a_query_that_is_refused_by_its_rows_stops_no_other() -> None:
    """EXACT with too few bits for a sum that one query returns and the other does not."""
    pattern = "PATTERN A+ a WITHIN 64 SLIDE 64 EXACT 64 BITS RETURN"
    compiled = queries(f"{pattern} COUNT(*)", f"{pattern} SUM(a.x) AS x")
    rows = [
        {
            "event_id": f"{t}",
            "type": "A",
            "t_lo_ms": t,
            "t_hi_ms": t,
            "source_seq": t,
            "x": 10,
            "y": 0.0,
            "g": "u",
            "h": 1,
        }
        for t in range(1, 61)
    ]
    failed: list[str] = []

    def on_failure(name: str, error: QueryError) -> None:
        failed.append(f"{name}: {error}")

    running = Engine(compiled, SCHEMA, on_failure=on_failure)
    (row,) = running.process(EventBatch.from_rows(rows, SCHEMA), 100)
    assert (row.query, row.values["count"]) == ("q0", 2**60 - 1)
    (message,) = failed
    assert message.startswith("q1: ")
    assert "bits" in message
    assert n_sharing(running) == [1, 1]
    (other, again) = running.process(events(130, 133), FOREVER_MS)
    assert (other.query, again.query) == ("q0", "q1")


def test_events_of_one_time_are_rounded_alike_whatever_others_sum_up() -> None:
    """Values of one query that no double holds the sum of change no bit of another's."""
    compiled = queries(*(f"PATTERN A+ a WITHIN 8 SLIDE 8 RETURN SUM(a.{name}) AS s" for name in ("x", "y")))
    rows = [
        {"event_id": f"{n}", "type": "A", "t_lo_ms": 1 + n // 20, "t_hi_ms": 1 + n // 20, "source_seq": n,
         "x": 2**52 + n, "y": 0.1 + n / 7, "g": "u", "h": 1}
        for n in range(120)
    ]  # fmt: skip
    stream = EventBatch.from_rows(rows, SCHEMA)
    together = by_query(Engine(compiled, SCHEMA).process(stream, FOREVER_MS), compiled)
    for query in compiled:
        assert [repr(row) for row in together[query.name]] == [
            repr(row) for row in Engine([query], SCHEMA).process(stream, FOREVER_MS)
        ]


def test_statistics_are_those_of_each_query_alone() -> None:
    """Rejected events and those that are longer than the window among them; the latter end what is shared."""
    compiled = alike()
    stream = events(0, 40, longest_ms=11)
    together = Engine(compiled, SCHEMA)
    rows = by_query(together.process(stream, 30), compiled)
    for query in compiled:
        own = Engine([query], SCHEMA)
        assert list(own.process(stream, 30)) == rows[query.name]
        mine, its = together.statistics[query.name], own.statistics[query.name]
        assert mine.n_too_long > 0
        assert (mine.n_events, mine.n_rows, mine.n_kept, mine.n_rejected, mine.n_too_long) == (
            its.n_events, its.n_rows, its.n_kept, its.n_rejected, its.n_too_long,
        )  # fmt: skip


@pytest.mark.parametrize("emitted", [0, 1])
def test_only_queries_that_people_are_told_of_have_events(emitted: int) -> None:
    texts = [f"{PATTERN} RETURN COUNT(*)", f"{PATTERN} RETURN SUM(a.y) AS y"]
    texts[emitted] += " ALERT warning 'found'"
    compiled = queries(*texts)
    running = Engine(compiled, SCHEMA)
    assert n_sharing(running) == [2, 2]
    rows = by_query(running.process(events(0, 40), FOREVER_MS), compiled)
    assert all(row.bindings and row.n_events for row in rows[f"q{emitted}"])
    assert not any(row.bindings or row.n_events for row in rows[f"q{1 - emitted}"])
    assert rows == {query.name: list(Engine([query], SCHEMA).process(events(0, 40), FOREVER_MS)) for query in compiled}
