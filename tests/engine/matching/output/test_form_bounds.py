"""What output forms make of listed matches is paid for by the events of the stream: bounded work and memory, the same
left out for every division of the stream, and told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.events import FOREVER_MS, EventBatch
from engine.matching.deduplication import distinct
from engine.matching.output import results
from engine.matching.output.binding_digests import binding_digests, groups_of, set_digests
from engine.matching.output.bindings import comparable
from engine.matching.output.entry_work import FORM_TIMES
from engine.matching.output.event_positions import EventPositions
from engine.matching.output.forms import LatestEnds
from engine.matching.output.listed import ListedMatches, MatchedEvents, Matches
from engine.matching.output.listing_order import listing_order
from engine.matching.output.match_row import MatchRow
from engine.matching.output.reading.formed_rows import bindings_of
from engine.matching.output.selection import Consumption
from engine.matching.output.windows import Spans
from engine.matching.protocol import Limits
from engine.matching.union import merged_rows
from engine.matching.work_account import WorkAccount
from engine.plan.model import BoundVariable
from tests.engine.matching.test_bounds import ANY, NEXT, Running, batch, emitted, query, whole

LISTS, PAIRS = "SEQ(A a, B+ b[], C c)", "SEQ(A a, B b)"
PATTERNS = (
    (LISTS, ANY),
    (PAIRS, ANY),
    (LISTS, NEXT),
    ("SEQ(A a, B b, !N n)", ANY),
    ("SEQ(A a, (SEQ(B b, B+ c[]))+, C d)", ANY),
    ("SEQ(A a, AND(B b, C c))", ANY),
    ("SEQ(A a, OR(B b, C c), B+ d[])", ANY),
)
"""Plain sequences, runs, what waits for its window, groups, several orders, a union."""
POSITIONS = ("", "SLIDE 30 ms", "OPEN ON type = 'B'", "OPEN ON x > 1")
FORMS = ("", "OUTPUT COUNT", "OUTPUT COLLAPSED", "OUTPUT SETS", "OUTPUT NON_OVERLAPPING", "SELECT FIRST", "CONSUME a")

STEPS_OF_ENTRY = 10**6
"""So that fifty are saved and one is paid for by fifty events: less than the streams below have."""


@contextmanager
def costly(steps: int = STEPS_OF_ENTRY) -> Iterator[None]:
    """Forms cost so much more than the searches before them that they alone are cut."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PER_MATCH", "PER_NESTED_MATCH", "PER_WINDOW", "PER_ENTRY"):
            patch.setattr(results, name, steps)
        yield


def rest_of(position: str, form: str) -> str:
    return f"WITHIN 200 ms {position} {form}"


def in_window(row: MatchRow) -> tuple[object, ...]:
    """What tells a row from the others of its query."""
    return row.key, row.window, str(row.bindings)


def decided_ms(row: MatchRow, waits: bool) -> int:
    """When a row is told: with a trailing negation not before its window is over. What is told by then cannot say what
    will be missing of its last event."""
    first = 10 * min(int(event_id[1:]) for event_id in row.bindings["a"])
    return max(row.last_hi_ms, first + 200) if waits else row.last_hi_ms


streams = st.lists(st.sampled_from("AABBBCN"), min_size=8, max_size=26)


# ---------------------------------------------------------- the same for every division


@given(
    st.sampled_from(PATTERNS), st.sampled_from(POSITIONS), st.sampled_from(FORMS), streams, st.sampled_from((0, 0, 14)),
    st.sampled_from((STEPS_OF_ENTRY, 7 * STEPS_OF_ENTRY)), st.data(),
)  # fmt: skip
def test_cuts_are_the_same_for_every_division_and_restart(
    pattern: tuple[str, str], position: str, form: str, types: list[str], width_ms: int, steps: int, data: st.DataObject
) -> None:
    text = query(*pattern, rest=rest_of(position, form))
    width_ms = width_ms if pattern[1] == ANY and "!" not in text else 0
    with costly(steps):
        expected = whole(text, types, width_ms=width_ms)
        running, n_before = Running(text, Limits()), 0
        cuts = sorted(data.draw(st.sets(st.integers(1, len(types) - 1), max_size=6)))
        for start, end in pairwise([0, *cuts, len(types)]):
            watermark_ms = FOREVER_MS if end == len(types) else 10 * end
            running.give(batch(types[start:end], first=start, width_ms=width_ms), watermark_ms)
            if data.draw(st.booleans()) and end < len(types):
                n_before += running.runtime.n_unfinished
                running.restart()
    found = sorted(map(repr, map(emitted, running.rows)))
    assert found == sorted(map(repr, map(emitted, expected.rows)))
    assert n_before + running.runtime.n_unfinished == expected.runtime.n_unfinished


# ---------------------------------------------------------- what is told is true, what is missing is told


@given(
    st.sampled_from(PATTERNS[:5]),
    st.sampled_from(POSITIONS),
    st.sampled_from(("", "OUTPUT SETS", "SELECT FIRST")),
    streams,
)
@example(("SEQ(A a, B b, !N n)", ANY), "SLIDE 30 ms", "", [*"AAAAAAAAABB"])
@example((PAIRS, ANY), "SLIDE 30 ms", "SELECT FIRST", [*"AAAAAAAAAB"])
def test_told_rows_are_true_and_those_of_cut_events_say_so(
    pattern: tuple[str, str], position: str, form: str, types: list[str]
) -> None:
    text = query(*pattern, rest=rest_of(position, form))
    complete = whole(text, types)
    with costly():
        cut = whole(text, types)
    assert not any(row.capped for row in complete.rows)
    assert complete.runtime.n_unfinished == 0
    true = {in_window(row): row for row in complete.rows}
    found = {in_window(row) for row in cut.rows}
    assert found <= set(true)
    if form == "SELECT FIRST":  # what was not paid for might have come first: it is not known that nothing is missing
        assert len(found) == len(true) or cut.runtime.n_unfinished > 0
    else:
        assert (len(found) < len(true)) == (cut.runtime.n_unfinished > 0)
    waits = "!N" in pattern[0]
    missing_since = {
        row.last_hi_ms: min(decided_ms(each, waits) for each in lost)
        for row in true.values()
        if (lost := [each for own, each in true.items() if own not in found and each.last_hi_ms == row.last_hi_ms])
    }
    for row in cut.rows:
        assert row.capped or decided_ms(row, waits) < missing_since.get(row.last_hi_ms, decided_ms(row, waits) + 1)


@given(st.sampled_from(PATTERNS[:5]), st.sampled_from(POSITIONS), st.sampled_from(("COUNT", "COLLAPSED")), streams)
def test_counts_that_do_not_say_otherwise_are_whole(
    pattern: tuple[str, str], position: str, output: str, types: list[str]
) -> None:
    text = query(*pattern, rest=rest_of(position, f"OUTPUT {output}"))
    complete = whole(text, types)
    with costly():
        cut = whole(text, types)
    true = {(row.first_lo_ms, row.last_hi_ms, row.window): row for row in complete.rows}
    for row in cut.rows:
        of_all = true[row.first_lo_ms, row.last_hi_ms, row.window]
        assert row.count <= of_all.count
        assert row.capped or (row.count, row.candidates) == (of_all.count, of_all.candidates)
        assert row.capped or row.count_exact
        assert not (row.capped and row.count_exact)


# ---------------------------------------------------------- bounded by the events of the stream


@pytest.mark.parametrize("form", [*FORMS, "OUTPUT TOP 2 BY CONFIDENCE", "LIMIT 3"])
@pytest.mark.parametrize("position", ["SLIDE 10 ms", "OPEN ON type = 'B'"])
def test_entries_are_paid_for_by_events(position: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    entries_of = Spans.entries

    def counted(spans: Spans) -> object:
        sizes.append(int(spans.n_windows.sum()))
        return entries_of(spans)

    monkeypatch.setattr(Spans, "entries", counted)
    n_events, budget = 400, 4_000
    text = query(PAIRS, rest=f"WITHIN 10 min {position} {form}")
    running = whole(text, ("ABBC" * n_events)[:n_events], Limits(work_budget=budget))
    _, capacity, rate = WorkAccount(budget, FORM_TIMES).terms.tolist()
    steps = capacity + rate * n_events
    per_entry = results.PER_WINDOW if form in ("", "OUTPUT COUNT", "OUTPUT COLLAPSED") else results.PER_ENTRY
    assert 0 < sum(sizes) <= steps // per_entry
    assert len(running.rows) <= sum(sizes)
    assert running.runtime.n_unfinished > 0


def test_pairs_share_their_windows() -> None:
    """The matches between two events are told in each window by one row, which costs no more for being many."""
    text = query(LISTS, rest="WITHIN 10 min SLIDE 1 s OUTPUT COUNT")
    running = whole(text, "A" + 12 * "B" + "C")
    assert {row.count for row in running.rows} == {2**12 - 1}
    assert len(running.rows) == 599
    spent = WorkAccount(Limits().work_budget, FORM_TIMES).account[0] - running.runtime._results._work.account[0]
    assert spent == (2**12 - 1) * results.PER_MATCH + 599 * results.PER_WINDOW


# ---------------------------------------------------------- unions


def test_branches_share_what_one_query_may_spend() -> None:
    alone = Running(query(PAIRS), Limits(work_budget=9_000))
    union = Running(query("SEQ(A a, OR(B b, C c, N n))"), Limits(work_budget=9_000))
    of_branches = [runtime._work.terms for runtime in union.runtime.branch_runtimes]
    assert len(of_branches) == 3
    assert sum(of_branches).tolist() == alone.runtime._work.terms.tolist()


def counted_row(first: int, last: int, ids: tuple[str, str], **other: object) -> MatchRow:
    bindings = {"a": (ids[0],), "b": (ids[1],)}
    return MatchRow("q", (), first, last, bindings, 1.0, {}, **other)  # type: ignore[arg-type]


def test_merged_rows_come_in_the_order_of_the_stream() -> None:
    positions = EventPositions(frozenset("AB"))
    table = batch("AABB", ids=["z", "y", "x", "w"]).table
    level_ms = pa.array([0, 0, 30, 30], pa.int64())
    positions.put(EventBatch(table.set_column(table.column_names.index("t_lo_ms"), "t_lo_ms", level_ms)))
    emitted_by = [
        [counted_row(0, 30, ("y", "x")), counted_row(0, 30, ("y", "w"))],
        [counted_row(0, 30, ("z", "x")), counted_row(0, 30, ("z", "w"))],
    ]
    found = [(row.bindings["a"], row.bindings["b"]) for row in merged_rows(emitted_by, positions)]
    assert found == [(("z",), ("x",)), (("y",), ("x",)), (("z",), ("w",)), (("y",), ("w",))]


def test_rows_after_the_end_of_a_branch_are_left_out() -> None:
    ended = [counted_row(0, 10, ("a", "b")), counted_row(0, 20, ("a", "c"), capped=True)]
    other = [counted_row(0, 10, ("a", "b"), count=4), counted_row(0, 20, ("a", "c")), counted_row(0, 30, ("a", "d"))]
    found = merged_rows([ended, other], EventPositions(()), [True, False])
    assert [(row.last_hi_ms, row.count, row.capped) for row in found] == [(10, 5, False), (20, 2, True)]


@given(streams, st.integers(1, 6))
def test_a_union_that_is_cut_tells_whole_counts(types: list[str], max_rows: int) -> None:
    text = query("SEQ(A a, B? b, C* c, N n)", rest="WITHIN 10 min OUTPUT COUNT")
    complete = whole(text, types).rows
    found = whole(text, types, Limits(max_rows=max_rows)).rows
    assert [(row.first_lo_ms, row.last_hi_ms, row.count) for row in found] == [
        (row.first_lo_ms, row.last_hi_ms, row.count) for row in complete[: len(found)]
    ]
    assert (len(found) < len(complete)) == (bool(found) and found[-1].capped)


# ---------------------------------------------------------- columns against definitions

VARIABLES = (BoundVariable("b", kleene=True), BoundVariable("a", kleene=True), BoundVariable("c", kleene=True))


@st.composite
def some_matches(draw: st.DrawFn) -> Matches:
    """Matches of six events, which may be alike, in no order."""
    ids = draw(st.permutations("uvwxyz"))
    chains = draw(
        st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=4), max_size=14)
    )
    chains = [sorted(dict(chain).items()) for chain in chains]
    listed = ListedMatches.none(0)._replace(
        partition=np.array([draw(st.integers(0, 1)) for _ in chains], np.int64),
        offsets=np.append(0, np.cumsum([len(chain) for chain in chains])).astype(np.int64),
        rows=np.array([position for chain in chains for position, _ in chain], np.int64),
        components=np.array([component for chain in chains for _, component in chain], np.int64),
        confidence=np.ones(len(chains)),
        values=np.empty((len(chains), 0)),
    )
    times = np.arange(6, dtype=np.int64)
    events = MatchedEvents(pa.array(ids), times, times, np.zeros(6, np.int64), times, times)
    return Matches(listed, events, ((("k", 0),), (("k", 1),)))


@given(some_matches())
def test_listing_order_is_that_of_last_and_first_events_and_bindings(matches: Matches) -> None:
    bound = bindings_of(VARIABLES, matches, matches.listed)
    keys = [
        (last, first, tuple((name, comparable(ids)) for name, ids in own.items()))
        for last, first, own in zip(matches.last.tolist(), matches.first.tolist(), bound, strict=True)
    ]
    assert listing_order(matches, VARIABLES).tolist() == sorted(range(len(keys)), key=lambda at: (keys[at], at))


@given(some_matches())
def test_digests_tell_apart_what_differs(matches: Matches) -> None:
    bound = bindings_of(VARIABLES, matches, matches.listed)
    partitions = matches.listed.partition.tolist()
    for digests, same in (
        (binding_digests(matches), lambda own: tuple(own.items())),
        (set_digests(matches), lambda own: tuple((name, frozenset(ids)) for name, ids in own.items())),
    ):
        order, bounds = groups_of(digests)
        found = {frozenset(order[start:end].tolist()) for start, end in pairwise(bounds.tolist())}
        expected: dict[object, set[int]] = {}
        for at, own in enumerate(bound):
            expected.setdefault((partitions[at], same(own)), set()).add(at)
        assert found == set(map(frozenset, expected.values()))
    assert distinct(matches).n_matches == len({(p, str(own)) for p, own in zip(partitions, bound, strict=True)})


# ---------------------------------------------------------- state of before


def test_states_of_before_are_read() -> None:
    text = query(LISTS, rest="WITHIN 10 min SLIDE 1 min OUTPUT NON_OVERLAPPING CONSUME b")
    types = "ABBCABC"
    expected, running = Running(text, Limits()), Running(text, Limits())
    for each in (expected, running):
        each.give(batch(types[:4]), 40)
    state = running.runtime.save()
    meta = state["results"].schema.metadata
    saved = json.loads(meta[b"state"])
    consumed = saved["consumed"]
    owners = [[start_ms, start_ms + 600_000, -1] for start_ms in consumed["windows"]]
    of_before = {
        "ends": [
            [[start_ms, start_ms + 600_000, -1], [], end_ms]
            for start_ms, end_ms in zip(saved["ends"]["windows"], saved["ends"]["ends_ms"], strict=True)
        ],
        "consumed": [
            [
                owner,
                [],
                [
                    [event % 4096, event // 4096, hi_ms]
                    for of, event, hi_ms in zip(consumed["owner"], consumed["event"], consumed["hi_ms"], strict=True)
                    if of == number
                ],
            ]
            for number, owner in enumerate(owners)
        ],
        "cut": [[0, 5]],
    }
    assert of_before["ends"]
    assert of_before["consumed"]
    state["results"] = pa.table({}).replace_schema_metadata({**meta, b"state": json.dumps(of_before)})
    running = Running(text, Limits())
    running.runtime.restore(state)
    assert running.runtime._results._work.account.tolist() == WorkAccount(2_000_000, FORM_TIMES).account.tolist()
    n_told = len(expected.rows)
    for each in (expected, running):
        each.give(batch(types[4:], first=4), FOREVER_MS)
    assert [emitted(row) for row in running.rows] == [emitted(row) for row in expected.rows[n_told:]]


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2), st.integers(0, 50)), max_size=12, unique=True))
def test_ends_and_consumed_events_survive_a_restart_and_forgetting(rows: list[tuple[int, int, int]]) -> None:
    known = {(start, key): end for start, key, end in rows}
    saved = [[[start, start + 9, -1], [["k", key]], end] for (start, key), end in known.items()]
    latest = LatestEnds.restored(saved)
    latest.forget(20)
    again = LatestEnds.restored(json.loads(json.dumps(latest.save())))
    assert again.save() == latest.save()
    assert sorted(again.ends_ms.tolist()) == sorted(end for end in known.values() if end >= 20)
    consumption = Consumption(frozenset({0}))
    consumption.restore([[window, key, [[0, at, end]]] for at, (window, key, end) in enumerate(saved)])
    consumption.forget(20)
    other = Consumption(frozenset({0}))
    other.restore(json.loads(json.dumps(consumption.save())))
    other.forget(20)
    assert sorted(other.save()["hi_ms"]) == sorted(end for end in known.values() if end >= 20)
