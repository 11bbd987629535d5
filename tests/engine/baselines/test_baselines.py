"""The papers' baselines against the oracle, and the numbers of runs that the papers state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from engine import Engine, compile_query, reference_output
from engine.baselines import OVER_INTERVALS, Backtracking, Baseline, BaselineKind, Buffers, Runs, make_baseline
from engine.errors import StateError, UnsupportedQueryError
from engine.events import FOREVER_MS, EventBatch
from engine.language import ast
from engine.matching.output.match_row import MatchRow
from engine.matching.protocol import Limits
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner
from tests.engine.strategies import ANY, PRECISE, SCHEMA, Case, Delivery, QueryScope, cases, deliveries
from tests.examples import examples

SCOPE = QueryScope(strategies=(ANY,), having=True)
KINDS = tuple(kind for kind in BaselineKind if kind not in OVER_INTERVALS)


def make(kind: BaselineKind, text: str, limits: Limits | None = None) -> Baseline:
    return make_baseline(kind, compile_query(text, SCHEMA).plan, Interner(), limits)


def feed(baseline: Baseline, batch: EventBatch, watermark_ms: int) -> Sequence[MatchRow]:
    return baseline.advance(StreamColumns(batch.sorted(), baseline.store.interner), watermark_ms)


def stream(kinds: str, times: Iterable[int] | None = None, keys: str | None = None) -> EventBatch:
    """Events of one-letter types; x is the number among its type; keys give k."""
    rows = []
    for at, (kind, t) in enumerate(zip(kinds, times or range(len(kinds)), strict=True)):
        row = {"event_id": f"{kind.lower()}{kinds[: at + 1].count(kind)}", "type": kind, "t_lo_ms": t, "source_seq": at}
        row |= {"x": kinds[: at + 1].count(kind)} | ({"k": keys[at]} if keys and kind != "L" else {})
        rows.append(row)
    return EventBatch.from_rows(rows, SCHEMA)


def bound(rows: Sequence[MatchRow]) -> list[tuple[str, ...]]:
    return [row.event_ids for row in rows]


# ------------------------------------------------------------------ the oracle


def released(parts: Sequence[Delivery]) -> Iterable[tuple[EventBatch, int]]:
    """The batches as an engine passes them on: what the watermark has passed, in order."""
    waiting = EventBatch.empty()
    for part in (*parts, Delivery(EventBatch.empty(), FOREVER_MS)):
        both = EventBatch.concat([waiting, part.batch])
        ready = both.t_lo_ms < part.watermark_ms
        waiting = both.where(~ready)
        yield both.where(ready), part.watermark_ms


def restarted(kind: BaselineKind, baseline: Baseline) -> Baseline:
    fresh = make_baseline(kind, baseline.plan, Interner(baseline.store.interner.texts))
    fresh.restore(baseline.save())
    return fresh


@st.composite
def delivered(draw: st.DrawFn) -> tuple[Case, list[Delivery]]:
    case = draw(cases(SCOPE, PRECISE))
    return case, draw(deliveries(case.stream))


@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(drawn=delivered(), restarts=st.booleans())
def test_every_baseline_agrees_with_the_oracle(
    kind: BaselineKind, drawn: tuple[Case, list[Delivery]], restarts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.baselines.base._COMPACT_AT", 0)
    case, parts = drawn
    note(f"{case}\n{parts}")
    try:
        query = compile_query(case.query, SCHEMA)
        baseline = make_baseline(kind, query.plan, Interner())
    except UnsupportedQueryError:
        return
    found: list[MatchRow] = []
    for batch, watermark_ms in released(parts):
        found += feed(baseline, batch, watermark_ms)
        if restarts:
            baseline = restarted(kind, baseline)
    wanted = {
        tuple(row.bindings.items()): (dict(row.key), row.first_lo_ms, row.last_hi_ms, dict(row.values))
        for row in reference_output(query.resolved, case.stream)
    }
    got = {
        tuple(row.bindings.items()): (dict(row.key), row.first_lo_ms, row.last_hi_ms, dict(row.values)) for row in found
    }
    assert got.keys() == wanted.keys()
    assert len(got) == len(found)
    for bindings, (key, first_ms, last_ms, values) in got.items():
        assert (key, first_ms, last_ms) == wanted[bindings][:3]
        assert values == pytest.approx(wanted[bindings][3], abs=1e-12)


# -------------------------------------------------------------- numbers of runs


def test_figure_3_of_sase_plus_plus_has_14_runs() -> None:
    runs = make(BaselineKind.RUNS, f"PATTERN SEQ(A a, B+ b[], C c) WHERE {ANY} WITHIN 10")
    rows = feed(runs, stream("AABBC", (1, 2, 5, 6, 7)), FOREVER_MS)
    assert len(rows) == 6
    assert runs.statistics.n_runs == 14
    assert runs.statistics.n_matches == 6
    assert runs.statistics.peak_runs == 8  # (a), (a b1), (a b1 b2), (a b2) of two a


def test_figure_4_of_sase_plus_plus_has_15_runs() -> None:
    text = f"PATTERN SEQ(A a, B+ b[], C c) WHERE {ANY} {{ b[i].x >= b[i-1].x }} WITHIN 100"
    runs = make(BaselineKind.RUNS, text)
    assert len(feed(runs, stream("ABBBC", (1, 4, 5, 6, 7)), FOREVER_MS)) == 7
    assert runs.statistics.n_runs == 15


def test_buffers_make_no_run_until_all_are_filled() -> None:
    text = f"PATTERN SEQ(A a, B+ b[], C c) WHERE {ANY} WITHIN 10"
    buffers, runs = make(BaselineKind.BUFFERS, text), make(BaselineKind.RUNS, text)
    for baseline in (buffers, runs):
        assert feed(baseline, stream("ABBBCAB", (1, 2, 3, 4, 20, 21, 22)), 23) == []
    assert (buffers.statistics.n_runs, runs.statistics.n_runs) == (0, 10)
    for baseline in (buffers, runs):
        assert bound(feed(baseline, stream("C", [24]), FOREVER_MS)) == [("a2", "b4", "c1")]
    assert (buffers.statistics.n_runs, runs.statistics.n_runs) == (3, 11)


def test_buffered_events_make_each_run_once() -> None:
    text = f"PATTERN SEQ(A a, B b, C c) WHERE {ANY} WITHIN 10"
    buffers = make(BaselineKind.BUFFERS, text)
    assert len(feed(buffers, stream("ABCBC"), FOREVER_MS)) == 3
    assert buffers.statistics.n_runs == 6  # a, ab1, ab1c1, ab2, ab1c2, ab2c2


def test_backtracking_reads_a_window_again_for_each_last_event() -> None:
    text = f"PATTERN SEQ(A a, B b, C c) WHERE {ANY} WITHIN 10"
    backtracking = make(BaselineKind.BACKTRACKING, text)
    assert bound(feed(backtracking, stream("ABCBC"), FOREVER_MS)) == [
        ("a1", "b1", "c1"),
        ("a1", "b1", "c2"),
        ("a1", "b2", "c2"),
    ]
    # to c1: a, ab1, ab1c1; to c2: a, ab1, ab1c2, ab2, ab2c2
    assert backtracking.statistics.n_runs == 8
    assert backtracking.statistics.peak_runs == 2


def test_broadcast_events_enter_partitions_that_come_later() -> None:
    text = f"PATTERN SEQ(L a, A b, L+ c[]) WHERE {ANY} {{ [k] }} WITHIN 10"
    for kind in KINDS:
        rows = feed(make(kind, text), stream("LALAL", keys=" p q "), FOREVER_MS)
        assert sorted(bound(rows)) == sorted(
            [
                ("l1", "a1", "l2"),
                ("l1", "a1", "l3"),
                ("l1", "a1", "l2", "l3"),
                ("l1", "a2", "l3"),
                ("l2", "a2", "l3"),
            ]
        )


# ----------------------------------------------------------------- size, limits


@pytest.mark.parametrize("kind", KINDS)
def test_rooms_grow_and_old_events_are_dropped(kind: BaselineKind) -> None:
    """Ten events between each first and last one: 1,023 matches each, of which a room holds few at first."""
    baseline = make(kind, f"PATTERN SEQ(A a, B+ b[], C c) WHERE {ANY} WITHIN 12")
    n_rounds = 12
    parts: list[int] = []
    for number in range(n_rounds):
        batch = stream("A" + "B" * 10 + "C", range(20 * number, 20 * number + 12))
        columns = StreamColumns(batch, baseline.store.interner)
        baseline.deliver(columns, 20 * number + 12, lambda matches: parts.append(matches.n_matches))
        assert sum(parts) == 1023 * (number + 1)
    assert baseline.statistics.n_matches == 1023 * n_rounds
    assert set(baseline.statistics.seconds) == {
        "event buffering", "run initialization", "pattern matching", "result construction",
    }  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_compaction_drops_what_no_match_can_need(kind: BaselineKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.baselines.base._COMPACT_AT", 8)
    baseline = make(kind, f"PATTERN SEQ(A a, B b) WHERE {ANY} {{ [k] }} WITHIN 3")
    found = []
    for t in range(0, 60, 2):
        found += bound(feed(baseline, stream("AB", (t, t + 1), "pp" if t % 4 else "qq"), t + 2))
    assert found == [("a1", "b1")] * 30
    assert baseline.n_rows <= 16


@pytest.mark.parametrize("kind", KINDS)
def test_rows_beyond_the_limit_are_reported(kind: BaselineKind) -> None:
    baseline = make(kind, f"PATTERN SEQ(A a, B+ b[], C c) WHERE {ANY} WITHIN 12", Limits(max_rows=5))
    rows = feed(baseline, stream("ABBBC"), FOREVER_MS)
    assert [row.capped for row in rows] == [False] * 4 + [True]
    assert baseline.statistics.n_matches == 7


@pytest.mark.parametrize("kind", KINDS)
def test_limit_takes_the_first_in_output_order(kind: BaselineKind) -> None:
    """Between one first and one last event by ids: they find them in orders of their own."""
    query = compile_query(f"PATTERN SEQ(B a, C+ b[], B c) WHERE {ANY} WITHIN 16 LIMIT 4", SCHEMA)
    engine = Engine([query], SCHEMA, baseline=kind)
    rows = [*engine.process(stream("BBCCB"), 100), *engine.finish()]
    expected = reference_output(query.resolved, stream("BBCCB"))
    assert [row.bindings for row in rows] == [row.bindings for row in expected]


def test_too_many_runs_are_refused_by_name() -> None:
    plan = compile_query(f"PATTERN SEQ(A+ a[], B b) WHERE {ANY} WITHIN 100", SCHEMA).plan
    runs = Runs(plan, Interner(), most_live_runs=2_000)
    with pytest.raises(UnsupportedQueryError, match=r"partial matches are alive at once(.|\n)*at most 2000"):
        feed(runs, stream("A" * 20), FOREVER_MS)


# ------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("pattern", "clauses", "message"),
    [
        ("A a, B b", "WHERE skip_till_next_match WITHIN 5", "do not evaluate skip_till_next_match"),
        ("A a, B b", f"WHERE {ANY} WITHIN 5 OUTPUT COLLAPSED", "do not evaluate OUTPUT COLLAPSED"),
        ("A a, B b", f"WHERE {ANY} WITHIN 5 SLIDE 2", "neither windows of a query's own"),
        ("A a, B b", f"WHERE {ANY} WITHIN 5 SELECT FIRST", "nor a selection"),
        ("A a, B b", f"WHERE {ANY} WITHIN 5 CONSUME a", "nor a selection"),
        ("AND(A a, B b), C c", f"WHERE {ANY} WITHIN 5", "no such pattern"),
        ("A a, !N n, B+ b[]", f"WHERE {ANY} {{ n.x > b[i].x }} WITHIN 5", "no such predicate"),
    ],
)
def test_what_they_do_not_evaluate_is_refused(pattern: str, clauses: str, message: str) -> None:
    for kind in KINDS:
        with pytest.raises(UnsupportedQueryError, match=message):
            make(kind, f"PATTERN SEQ({pattern}) {clauses}")


@pytest.mark.parametrize("kind", KINDS)
def test_imprecise_events_are_left_out_and_counted(kind: BaselineKind) -> None:
    rows = [
        {"event_id": n, "type": n.upper(), "t_lo_ms": t, "t_hi_ms": t + w} for n, t, w in (("a", 0, 1), ("b", 5, 0))
    ]
    baseline = make(kind, f"PATTERN SEQ(A a, B b) WHERE {ANY} WITHIN 9")
    assert feed(baseline, EventBatch.from_rows(rows, SCHEMA), FOREVER_MS) == []
    assert baseline.n_rejected == 1


def test_a_state_of_another_kind_is_refused() -> None:
    runs = make(BaselineKind.RUNS, f"PATTERN SEQ(A a, B b) WHERE {ANY} WITHIN 9")
    with pytest.raises(StateError, match="expected events, head"):
        runs.restore({"store": runs.store.save()})
    state = runs.save()
    with pytest.raises(StateError, match="version b'0', expected 1"):
        runs.restore({**state, "head": state["head"].replace_schema_metadata({"version": "0"})})


def test_the_kinds_have_their_own_classes() -> None:
    plan = compile_query(f"PATTERN SEQ(A a, B b) WHERE {ANY} WITHIN 9", SCHEMA).plan
    assert plan.strategy is ast.Strategy.SKIP_TILL_ANY_MATCH
    made = [type(make_baseline(kind, plan, Interner())) for kind in KINDS]
    assert made == [Runs, Buffers, Backtracking]
