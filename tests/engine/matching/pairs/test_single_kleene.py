"""Collapsed and counted rows of SEQ(S, ..., K, ..., S) in closed form: against the oracle and pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import Engine, Limits, compile_query
from engine.events import EventBatch
from engine.matching.output.match_row import MatchRow
from engine.matching.pairs.counting import Counted, Counting
from engine.matching.pairs.listing import Pair
from engine.matching.pairs.runtime import PostponedRuntime
from engine.plan.sequence.independent import OtherForm
from engine.plan.sequence.single_kleene import SingleKleeneForm, single_kleene_form
from tests.conformance.comparison import Tally, compare
from tests.engine.strategies import IMPRECISE, SCHEMA, SKEWED, WEIGHTED, Case, StreamScope, deliveries, streams
from tests.examples import each_drawn_anew, examples

PATTERNS = (
    "SEQ(A a, B+ b[], C c) WHERE skip_till_any_match { [k] }",
    "SEQ(A a, B+ b[], A c) WHERE skip_till_any_match { b[i].x <= c.x AND count(b[]) >= 2 }",
    "SEQ(A a, A b, B+ c[], C d) WHERE skip_till_any_match { b.x >= a.x }",
    "SEQ(A a, B+ c[], C d, C e) WHERE skip_till_any_match { [k] AND e.timestamp - d.timestamp <= 4 }",
    "SEQ(A a, A b, B+ c[], C d, A e) WHERE skip_till_any_match { c[i].x >= b.x AND e.x != a.x }",
    "SEQ(A a, B b, B+ c[], A d) WHERE skip_till_any_match { count(c[]) > 1 }",
    "SEQ(A a, A b, B+ c[], B d, A e) WHERE skip_till_any_match",
)
ENDINGS = ("OUTPUT COLLAPSED", "OUTPUT COUNT", *(f"OUTPUT COLLAPSED CONFIDENCE >= {c}" for c in (0.2, 0.5, 0.9)))
TYPES = ("A", "A", "B", "B", "C")
LONG = replace(IMPRECISE, max_events=7), PATTERNS, TYPES
SHORT = (*PATTERNS[:2], "SEQ(A a, B+ b[], C c) WHERE skip_till_any_match"), ("A", "B", "C")


def drawn_query(data: st.DataObject, patterns: Sequence[str]) -> str:
    pattern, ending = data.draw(st.sampled_from(patterns)), data.draw(st.sampled_from(ENDINGS))
    return f"PATTERN {pattern} WITHIN {data.draw(st.sampled_from((6, 12, 40)))} {ending}"


@pytest.mark.parametrize(
    ("scope", "patterns", "types"), [LONG, (WEIGHTED, *SHORT), (SKEWED, *SHORT)], ids=["uniform", "weighted", "skewed"]
)
def test_the_rows_of_the_oracle(scope: StreamScope, patterns: Sequence[str], types: Sequence[str]) -> None:
    tally = Tally()

    @settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        stream = data.draw(streams(scope, tuple(types), tuple(types)))
        parts = data.draw(deliveries(stream))
        case = Case(drawn_query(data, patterns), stream)
        compare(case, parts, data.draw(st.frozensets(st.integers(0, len(parts) - 1))), tally)

    with each_drawn_anew():
        check()
    assert tally.n_with_rows > 3


def rows_of(text: str, stream: EventBatch, *, closed: bool, limits: Limits | None = None) -> Sequence[MatchRow]:
    engine = Engine([compile_query(text, SCHEMA)], SCHEMA, limits=limits)
    (runtime,) = engine._runtimes.values()
    assert isinstance(runtime, PostponedRuntime)
    pairs = runtime._pairs
    assert pairs.together is not None
    assert isinstance(single_kleene_form(runtime.plan), SingleKleeneForm)
    if not closed:
        runtime._form = None
        runtime._pairs = replace(pairs, each=tuple(each for each in pairs.each if each is not pairs.together))
    return engine.process(stream, 10_000)


def said(row: MatchRow) -> MatchRow:
    """All but which of the equally good matches is shown, and the last digits of its confidence."""
    sizes = {name: (str(len(ids)),) for name, ids in row.bindings.items()}
    return replace(row, confidence=0.0, bindings=sizes)


def spread(n_events: int, seed: int, width_ms: int, sampled: Sequence[str] = ("B", "C")) -> EventBatch:
    """Events of two hosts with exact times, and samples of a third source that each cover a step of `width_ms`."""
    random = np.random.default_rng(seed)
    rows: list[dict[str, object]] = []
    for n in range(n_events):
        is_sample = random.random() < 0.6
        at_ms = int(random.integers(1, 6 * width_ms))
        hi_ms = (at_ms // width_ms + 1) * width_ms if is_sample else at_ms
        rows.append(
            {
                "event_id": f"e{n:02}",
                "type": str(random.choice(sampled if is_sample else ("A", "A", "C"))),
                "t_lo_ms": hi_ms - width_ms + 1 if is_sample else at_ms,
                "t_hi_ms": hi_ms,
                "source_seq": hi_ms,
                "clock_id": "samples" if is_sample else f"host{n % 2}",
                "k": "p",
                "j": 1,
                "x": int(random.integers(1, 4)),
            }
        )
    distinct = {(row["type"], row["t_hi_ms"], row["clock_id"]): row for row in rows}
    return EventBatch.from_rows(sorted(distinct.values(), key=lambda row: int(str(row["t_lo_ms"]))), SCHEMA)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_row_is_what_its_pair_gives_by_itself(pattern: str) -> None:
    """Samples of one clock beside exact times, as from a cluster: with and without a certain window."""
    n_rows = n_cut = 0
    for seed in range(6):
        stream = spread(22, seed, 7)
        for ending in ENDINGS:
            for within in (20, 100):
                text = f"PATTERN {pattern} WITHIN {within} {ending} RETURN a.x"
                closed, single = rows_of(text, stream, closed=True), rows_of(text, stream, closed=False)
                assert [said(row) for row in closed] == [said(row) for row in single]
                assert [row.confidence for row in closed] == pytest.approx(
                    [row.confidence for row in single], abs=1e-12
                )
                n_rows += len(closed)
                n_cut += sum(row.confidence < 1.0 for row in closed)
    assert n_rows > 100
    assert n_cut > 10


def test_no_pair_is_counted_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only single events overlap samples of one clock, whatever the threshold."""

    def of_pair(counting: Counting, pair: Pair) -> Counted | None:
        raise AssertionError("counted by itself")

    monkeypatch.setattr(Counting, "of_pair", of_pair)
    stream = spread(40, 3, 7, sampled=("B",))
    found = [len(rows_of(f"PATTERN {PATTERNS[4]} WITHIN 100 {ending}", stream, closed=True)) for ending in ENDINGS]
    assert found[0] == found[1] > found[-1]


def test_a_limit_takes_the_first_rows_of_all() -> None:
    """Also where some of the pairs are counted in closed form, others by themselves."""
    text = f"PATTERN {PATTERNS[6]} WITHIN 100 OUTPUT COLLAPSED"
    stream = spread(40, 5, 7)
    rows = rows_of(text, stream, closed=True)
    assert len(rows) > 10
    for most in (1, 7, len(rows) - 1, len(rows)):
        for closed in (True, False):
            some = rows_of(text, stream, closed=closed, limits=Limits(max_rows=most))
            assert list(some[:-1]) == list(rows[: most - 1])
            assert some[-1] == replace(rows[most - 1], capped=most < len(rows))


def test_rows_are_made_in_parts_and_from_columns() -> None:
    query = f"PATTERN {PATTERNS[2]}"
    block = rows_of(f"{query} WITHIN 400 OUTPUT COLLAPSED", spread(40, 1, 7, sampled=("B",)), closed=True)
    made = list(block)
    assert [block[k] for k in (0, -1)] == [made[0], made[-1]]
    assert list(block[1:4]) == made[1:4]
    assert block.n_matches == sum(row.count for row in made)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("SEQ(A a, B+ b[])", "the first or the last one"),
        ("SEQ(A a, B+ b[], C c) { count(b[]) < 3 }", "an upper bound"),
        ("SEQ(A a, B+ b[], C c) { c.x > max(b[].x) }", "least or greatest value"),
        ("SEQ(A a, B+ b[], C c) { b[i].x >= b[i-1].x }", "compared with others"),
        ("SEQ(A a, !C n, B+ b[], C c)", "a negation"),
    ],
)
def test_other_forms_say_why(pattern: str, reason: str) -> None:
    sequence, _, predicates = pattern.partition("{")
    where = f"skip_till_any_match {'{' + predicates if predicates else ''}"
    plan = compile_query(f"PATTERN {sequence} WHERE {where} WITHIN 20 OUTPUT COLLAPSED", SCHEMA).plan
    form = single_kleene_form(plan)
    assert isinstance(form, OtherForm)
    assert reason in form.reason


def test_a_form_knows_its_least_number() -> None:
    plan = compile_query(f"PATTERN {PATTERNS[5]} WITHIN 20 OUTPUT COUNT", SCHEMA).plan
    form = single_kleene_form(plan)
    assert isinstance(form, SingleKleeneForm)
    assert form.least == 2
