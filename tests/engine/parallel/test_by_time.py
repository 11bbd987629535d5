"""Threads that divide a batch by time find what one thread finds, whatever the query, the batches and the saves."""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch
from weakref import ref

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from engine import CompiledQuery, Engine, compile_queries, compile_query
from engine.errors import StateError, UnsupportedQueryError
from engine.events import FOREVER_MS, EventBatch
from engine.parallel import by_time as slices
from engine.parallel import workers
from engine.parallel.by_key import ShardedRuntime
from engine.parallel.by_time import SlicedRuntime
from engine.stream.by_time import SliceColumns
from engine.stream.columns import StreamColumns
from engine.stream.cuts import Cut, cut
from tests.engine.parallel.test_by_key import emitted
from tests.engine.strategies import SCHEMA, QueryScope, queries
from tests.examples import PROFILE, each_drawn_anew

QUERIES = QueryScope(outputs=("ALL", "ALL", "COLLAPSED", "COUNT"), confidence=True, having=True)


@contextmanager
def dividing(few: float = 1.0, many: float = 1.0, least: int = 2) -> Iterator[Counter[str]]:
    """Small batches are divided, by time where at most such shares of the rows are looked at twice: see
    `engine.parallel.by_time`. Counts what is done how often."""
    done: Counter[str] = Counter()
    parts, change = SlicedRuntime.parts, SlicedRuntime._change

    def counted_parts(runtime: SlicedRuntime, stream: StreamColumns, watermark_ms: int) -> object:
        found = parts(runtime, stream, watermark_ms)
        if runtime._leaving is not None:  # slices and shares have the numbers that they have in other queries
            assert found[-1].func.__self__ is runtime._leaving.runtime
        n_parts = len(found) - (runtime._leaving is not None)
        if n_parts > 1:
            done["key" if isinstance(runtime._current, ShardedRuntime) else "time"] += 1
        return found

    def counted_change(runtime: SlicedRuntime, stream: StreamColumns) -> None:
        before = runtime._current
        change(runtime, stream)
        done["change"] += runtime._current is not before
        done["leaving"] += runtime._current is not before and runtime._leaving is not None

    with (
        patch.multiple(slices, _FEW=few, _MANY=many, _MOST=max(few, many)),
        patch.multiple(SlicedRuntime, parts=counted_parts, _change=counted_change),
        patch.object(workers, "LEAST_EVENTS", least),
    ):
        yield done


def in_order(stream: EventBatch, sizes: Sequence[int]) -> Iterator[tuple[EventBatch, int]]:
    """The stream in batches of these sizes, over and over, under watermarks that have just passed them."""
    ordered = stream.sorted()
    start = number = 0
    while start < len(ordered):
        end = min(len(ordered), start + sizes[number % len(sizes)])
        while end < len(ordered) and ordered.t_lo_ms[end] == ordered.t_lo_ms[end - 1]:
            end += 1  # what the watermark has passed does not come later
        batch = EventBatch(ordered.table.slice(start, end - start))
        yield batch, int(ordered.t_lo_ms[end - 1]) + 1
        start, number = end, number + 1


def stream_of(seed: int, n_events: int, length_ms: int, width_ms: int = 0, wide: range = range(65, 130)) -> EventBatch:
    """Events of all types at random times, ties, NULLs and few keys among them; those of the numbers `wide` may be as
    late as `width_ms` after that."""
    random = np.random.default_rng(seed)
    rows = []
    for number, t_ms in enumerate(np.sort(random.integers(0, length_ms, n_events)).tolist()):
        values = {
            "k": str(random.choice(["p", "q"])),
            "j": int(random.integers(1, 3)),
            "x": int(random.integers(-3, 5)),
            "y": float(random.integers(-4, 7)) / 2,
            "s": str(random.choice(["ok", "bad"])),
        }
        event_type = str(random.choice(list("AABBBCCNLP")))
        has = {name: values[name] for name in SCHEMA.types[event_type] if random.integers(20)}
        late_ms = int(random.integers(width_ms + 1)) if number in wide else 0
        times = {"t_lo_ms": t_ms, "t_hi_ms": t_ms + late_ms}
        rows.append({"event_id": f"e{number}", "type": event_type, **times, "source_seq": number, **has})
    return EventBatch.from_rows(rows, SCHEMA)


def check_threads(
    query: CompiledQuery, batches: Sequence[tuple[EventBatch, int]], n_threads: Sequence[int], saves: frozenset[int]
) -> int:
    """Compare with one thread; the engine goes on in the next number of threads at each save. Returns how many rows
    there were."""
    one, several = (Engine([query], SCHEMA, threads=threads) for threads in (1, n_threads[0]))
    n_rows = n_saved = 0
    output_watermark_ms = -FOREVER_MS
    for number, (batch, watermark_ms) in enumerate(batches):
        rows, found = emitted(one.process(batch, watermark_ms)), several.process(batch, watermark_ms)
        assert emitted(found) == rows
        assert all(row.last_hi_ms >= output_watermark_ms for row in found)
        output_watermark_ms = several._output_watermark_ms("q")
        n_rows += len(rows)
        if number in saves:
            n_saved += 1
            state, several = several.save(), Engine([query], SCHEMA, threads=n_threads[n_saved % len(n_threads)])
            assert not several.restore(state)
    rows = emitted(one.finish())
    assert emitted(several.finish()) == rows
    if not saves:
        for name in ("n_events", "n_rejected", "n_too_long"):
            assert getattr(several.statistics["q"], name) == getattr(one.statistics["q"], name)
    return n_rows + len(rows)


BY_HAND = (
    "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match { [k] AND b[i].x >= b[i-1].x } WITHIN 9 RETURN sum(b[].x) "
    "AS s",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match { [k] AND b[i].x >= 0 } WITHIN 12 OUTPUT COLLAPSED",
    "PATTERN SEQ(A a, A+ b[], A c) WHERE skip_till_any_match { [k] AND [j] } WITHIN 12 OUTPUT COUNT",
    "PATTERN SEQ(A a, B b, C c) WHERE skip_till_any_match { a.x < b.x } WITHIN 9",
    "PATTERN SEQ(A a, !N n, B b, !L l) WHERE skip_till_any_match { [k] } WITHIN 12",
    "PATTERN SEQ(A+ a[], B b) WHERE skip_till_any_match { [j] } WITHIN 7",
    "PATTERN SEQ(L a, B+ b[]) WHERE skip_till_next_match { [k] AND b[i].x >= b[i-1].x } WITHIN 9",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_next_match { [k] } WITHIN 20 RETURN a.k, sum(b[].x) AS s",
    "PATTERN SEQ(A+ a[], !N n, C c, !B m) WHERE skip_till_next_match { [k] } WITHIN 12",
    "PATTERN SEQ(A a, B b, A c) WHERE skip_till_next_match WITHIN 9 OUTPUT COUNT",
    "PATTERN SEQ(A a, B+ b[], !C n) WHERE partition_contiguity { [k] } WITHIN 20",
    "PATTERN SEQ(B a, L b) WHERE partition_contiguity { [k] } WITHIN 9 OUTPUT COLLAPSED",
    "PATTERN SEQ(A a, B+ b[]) WHERE strict_contiguity WITHIN 12",
)
STREAMS = st.tuples(
    st.integers(0, 2**32), st.integers(120, 240), st.sampled_from([150, 400, 800]), st.sampled_from([0, 0, 3])
)
SIZES = st.lists(st.sampled_from([1, 20, 60, 60, 100, 150]), min_size=1, max_size=4)
THREADS = st.lists(st.sampled_from([2, 3, 4, 1]), min_size=2, max_size=2)
SAVES = st.frozensets(st.integers(0, 6), max_size=3)
SHARES = {"by time": (1.0, 1.0), "by time or key": (0.2, 0.25)}


@pytest.mark.parametrize("shares", SHARES)
def test_rows_are_those_of_one_thread(shares: str) -> None:
    done: Counter[str] = Counter()

    @settings(max_examples=settings().max_examples // 2, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(BY_HAND) | st.sampled_from(BY_HAND) | queries(QUERIES), STREAMS, SIZES, THREADS, SAVES)
    def check(
        text: str, stream: tuple[int, int, int, int], sizes: list[int], n_threads: list[int], saves: frozenset[int]
    ) -> None:
        try:
            query = compile_query(text, SCHEMA, name="q")
            Engine([query], SCHEMA)
        except UnsupportedQueryError:
            assume(False)
        assume(query.evaluation.is_divided_by_time)
        with dividing(*SHARES[shares]) as now:
            now["rows"] = check_threads(query, list(in_order(stream_of(*stream), sizes)), n_threads, saves)
        done.update(now)
        done["n"] += 1

    with each_drawn_anew():
        check()
    assert done["time"] > 20
    assert done["rows"] > 100
    if shares == "by time or key":
        assert done["key"] > 0


@pytest.mark.parametrize("number", [n for n, text in enumerate(BY_HAND) if "[" in text.partition("{")[2]])
def test_matches_go_on_while_others_begin_in_a_new_state(number: int) -> None:
    """From time to key and back, whatever is under way then: with intervals that reach beyond, and saved there.

    A query has one half of the streams, its neighbour the other; all of them in the thorough profile.
    """
    done: Counter[str] = Counter()
    for seed in (*range(16), *range(17, 32, 2)):
        if PROFILE != "thorough" and (seed // 2 + number) % 2:
            continue
        text = re.sub(r"WITHIN \d+", f"WITHIN {(20, 40, 60)[seed % 3]}", BY_HAND[number])
        query = compile_query(text, SCHEMA, name="q")
        sizes = ([70, 6, 4, 6], [70, 3], [70, 3, 70])[seed // 2 % 3]
        stream = stream_of(seed, 260, 1_300, 20 * (seed % 2), (range(70), range(70, 120))[seed // 8 % 2])
        batches = list(in_order(stream, sizes))
        saves = frozenset({1, 2, 5} if seed % 8 > 3 else {})
        with dividing(0.25, 0.25) as now:
            now["rows"] = check_threads(query, batches, [2, 3], saves)
        done.update(now)
    assert min(done[name] for name in ("rows", "time", "key", "leaving")) > 4, done


@pytest.mark.parametrize("seed", range(6))
def test_queries_over_matches_find_the_same(seed: int) -> None:
    texts = {
        "pairs": "PATTERN SEQ(A a, B b, !N n) WHERE skip_till_any_match { [k] } WITHIN 20 RETURN a.x AS low",
        "over": "PATTERN SEQ(pairs p, B+ b[]) WHERE skip_till_next_match { [k] AND b[i].x != p.low } WITHIN 30",
    }
    compiled = compile_queries(texts, SCHEMA)
    found: list[list[str]] = []
    for n_threads in (1, 3):
        running = Engine(compiled, SCHEMA, threads=n_threads)
        with dividing(0.25, 0.25) as done:
            sizes = ([70, 6, 4, 6], [70, 3, 70])[seed % 2]
            rows = [
                running.process(batch, watermark_ms)
                for batch, watermark_ms in in_order(stream_of(seed, 260, 1_300), sizes)
            ]
            found.append(emitted([row for part in (*rows, running.finish()) for row in part]))
    assert found[0] == found[1]
    assert len(found[0]) > 10
    assert min(done[name] for name in ("time", "key", "leaving")) > 0


@given(st.lists(st.integers(0, 60), max_size=40), st.integers(0, 70), st.integers(1, 5))
def test_slices_have_each_row_once_and_the_window_after_it(times: list[int], within_ms: int, n_slices: int) -> None:
    t_ms = np.sort(np.array(times, np.int64))
    cuts = cut(t_ms, within_ms, n_slices)
    assert 1 <= len(cuts) <= n_slices
    assert cuts[0].start == 0
    assert [one.start + one.n_begin for one in cuts] == [*(one.start for one in cuts[1:]), len(times)]
    for one in cuts:
        own = t_ms[one.start : one.start + one.n_begin]
        until_ms = max(own, default=-1) + within_ms
        following = [row for row, at_ms in enumerate(t_ms) if row >= one.start and at_ms <= until_ms]
        assert one.end == max(following, default=one.start - 1) + 1


def test_slices_are_equally_long_with_what_follows_them() -> None:
    sizes = [one.end - one.start for one in cut(np.arange(100_000), 4_000, 3)]
    assert max(sizes) - min(sizes) <= 2
    assert sum(sizes) == 108_000


def test_what_is_saved_is_what_one_thread_saves() -> None:
    for text in BY_HAND:
        query = compile_query(text, SCHEMA, name="q")
        saved = []
        for threads in (1, 3):
            running = Engine([query], SCHEMA, threads=threads)
            with dividing() as done:
                list(running.process(stream_of(3, 400, 4_000), 4_000))
            assert done["time"] == (threads > 1)
            saved.append(running.save())
        assert saved[0].keys() == saved[1].keys()


def test_slices_are_given_up_at_once() -> None:
    """The next batch is read into the same memory."""
    seen: list[ref[StreamColumns]] = []

    class Noticed(SliceColumns):
        def __init__(self, whole: StreamColumns, cut: Cut) -> None:
            super().__init__(whole, cut)
            seen.extend([ref(whole), ref(self)])

    running = Engine([compile_query(BY_HAND[1], SCHEMA)], SCHEMA, threads=2)
    gc.disable()
    try:
        with dividing(), patch("engine.stream.by_time.SliceColumns", Noticed):
            rows = running.process(stream_of(3, 400, 4_000), 4_000)
    finally:
        gc.enable()
    assert len(rows)
    assert len(seen) == 4
    assert {kept() for kept in seen} == {None}


def test_a_query_without_a_key_is_divided_when_it_is_alone() -> None:
    queries_ = [compile_query(BY_HAND[3], SCHEMA, name=name) for name in "qr"]
    for n_queries, is_divided in ((1, True), (2, False)):
        with dividing() as done:
            list(Engine(queries_[:n_queries], SCHEMA, threads=2).process(stream_of(3, 400, 4_000), 4_000))
        assert bool(done["time"]) == is_divided


def test_queries_of_like_windows_share_slices() -> None:
    """Of all queries the longest window says where a batch is cut, as far as that suits each of them."""
    texts = [BY_HAND[1].replace("WITHIN 12", f"WITHIN {n}") for n in (9, 12, 1_900)]
    queries_ = [compile_query(text, SCHEMA, name=f"q{n}") for n, text in enumerate(texts)]
    made: list[Cut] = []
    several, one = (Engine(queries_, SCHEMA, threads=threads) for threads in (2, 1))
    init = SliceColumns.__init__

    def noticed(columns: SliceColumns, whole: StreamColumns, cut: Cut) -> None:
        made.append(cut)
        init(columns, whole, cut)

    with dividing(0.3, 0.4) as done, patch.object(SliceColumns, "__init__", noticed):
        batch = stream_of(3, 400, 4_000)
        assert emitted(several.process(batch, 4_000)) == emitted(one.process(batch, 4_000))
    assert len(made) == 2
    assert (done["time"], done["key"]) == (2, 1)


@pytest.mark.parametrize("lost", [r"leaving", r"leaving\.events", r"leaving\..*"])
def test_a_saved_change_that_lacks_a_part_is_refused(lost: str) -> None:
    query = compile_query(BY_HAND[1].replace("WITHIN 12", "WITHIN 40"), SCHEMA, name="q")
    running = Engine([query], SCHEMA, threads=2)
    with dividing(0.1, 0.1) as done:
        for batch, watermark_ms in in_order(stream_of(3, 310, 1_550), [300, 2, 1]):
            if done["leaving"]:
                break
            list(running.process(batch, watermark_ms))
    assert done["time"] == 1
    saved = running.save()
    assert "q/leaving" in saved
    damaged = {name: table for name, table in saved.items() if not re.fullmatch(f"q/{lost}", name)}
    with pytest.raises(StateError, match=r"saved .* lacks"):
        Engine([query], SCHEMA).restore(damaged)


def test_only_queries_whose_matches_are_decided_by_what_follows_are_divided_by_time() -> None:
    others = (
        "PATTERN SEQ(!N n, A a, B b) WHERE skip_till_any_match { [k] } WITHIN 9",
        "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] } WITHIN 9 OUTPUT NON_OVERLAPPING",
        "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] } WITHIN 9 LIMIT 2",
        "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] } WITHIN 9 SELECT FIRST",
        "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] } WITHIN 9 EVENTS",
        "PATTERN SEQ(A a, B b) WHERE skip_till_any_match { [k] } WITHIN 9 SLIDE 3",
        "PATTERN SEQ(A a, B? b, C c) WHERE skip_till_any_match { [k] } WITHIN 9",
        "PATTERN (SEQ(A a, B b))+ WHERE skip_till_next_match { [k] } WITHIN 9",
    )
    assert all(compile_query(text, SCHEMA).evaluation.is_divided_by_time for text in BY_HAND)
    assert not any(compile_query(text, SCHEMA).evaluation.is_divided_by_time for text in others)
