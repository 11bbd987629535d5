"""How particular queries can be divided, and why others cannot."""

from __future__ import annotations

import pytest

from engine import CompiledQuery, compile_queries, compile_query
from engine.events import FOREVER_MS, EventBatch
from tests.engine.runtime.dividing import Part, by_key, by_time, comparable, rows_of
from tests.engine.strategies import SCHEMA


def query(text: str) -> CompiledQuery:
    return compile_query(text, SCHEMA, name="q")


def chain(**texts: str) -> CompiledQuery:
    return compile_queries({name.replace("_", "-"): text for name, text in texts.items()}, SCHEMA)[-1]


ANY = "WHERE skip_till_any_match"


@pytest.mark.parametrize(
    ("text", "keys", "broadcast"),
    [
        (f"PATTERN SEQ(A a, L l, B b) {ANY} {{ [k] }} WITHIN 9", {"A": ("k",), "B": ("k",)}, {"L"}),
        (f"PATTERN SEQ(A a, P p) {ANY} {{ [k] AND [j] }} WITHIN 9", {"A": ("k",), "P": ("k",)}, set()),
        (f"PATTERN SEQ(A a, (B b OR P p)) {ANY} {{ [k] AND [j] }} WITHIN 9", dict.fromkeys("ABP", ("k",)), set()),
        (f"PATTERN SEQ(A a, B b) {ANY} {{ a.s = b.s }} WITHIN 9", {"A": ("s",), "B": ("s",)}, set()),
        (
            "PATTERN SEQ(A a, B b) WHERE partition_contiguity { [k] } WITHIN 9",
            dict.fromkeys("ABCNP", ("k",)),
            {"L"},  # an event without the key is in every partition, and may not lie between
        ),
    ],
)
def test_keys_and_what_every_bucket_needs(text: str, keys: dict[str, tuple[str, ...]], broadcast: set[str]) -> None:
    found = query(text).distribution
    assert found.keys == keys
    assert found.broadcast == broadcast
    assert found.key_obstacle is None
    assert found.types == keys.keys() | broadcast


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"PATTERN SEQ(A a, B b) {ANY} WITHIN 9", "no attribute is the same"),
        (f"PATTERN SEQ(A a, B b) {ANY} {{ a.timestamp = b.timestamp }} WITHIN 9", "no attribute is the same"),
        ("PATTERN SEQ(A a, B b) WHERE strict_contiguity { [k] } WITHIN 9", "in the whole stream"),
        (f"PATTERN (OR(A a, L l))+ {ANY} {{ [k] }} WITHIN 9", "may have no k"),
        (
            f"PATTERN SEQ(A a, B b) {ANY} {{ [k] }} WITHIN 9 OPEN ON x > 1 OUTPUT TOP 2 BY CONFIDENCE",
            "per opening event",
        ),
    ],
)
def test_no_key(text: str, reason: str) -> None:
    found = query(text).distribution
    assert not found.keys
    assert found.key_obstacle is not None
    assert reason in str(found.key_obstacle)


@pytest.mark.parametrize(
    ("clauses", "reason"),
    [
        ("WITHIN 9 OUTPUT NON_OVERLAPPING", "depends on earlier ones"),
        ("WITHIN 9 CONSUME a", "depends on earlier ones"),
        ("WITHIN 9 SELECT FIRST", "depends on earlier ones"),
        ("WITHIN 3 EVENTS", "says nothing about time"),
    ],
)
def test_what_time_cannot_cut(clauses: str, reason: str) -> None:
    found = query(f"PATTERN SEQ(A a, B b) {ANY} {clauses}").distribution
    assert not found.sliceable
    assert reason in str(found.slice_obstacle)


def test_how_far_events_are_needed() -> None:
    plain = query(f"PATTERN SEQ(A a, B b) {ANY} WITHIN 9").distribution
    assert (plain.reach_ms, plain.look_back_ms, plain.n_links) == (9, 0, 1)
    leading = query(f"PATTERN SEQ(!N n, A a, B b) {ANY} WITHIN 9").distribution
    assert (leading.reach_ms, leading.look_back_ms) == (9, 9)
    assert query(f"PATTERN SEQ(A a, B b) {ANY} WITHIN 3 EVENTS").distribution.reach_ms == FOREVER_MS
    two = chain(pairs=f"PATTERN SEQ(A a, B b) {ANY} WITHIN 5", over=f"PATTERN SEQ(pairs p, C c) {ANY} WITHIN 9")
    assert (two.distribution.reach_ms, two.distribution.look_back_ms, two.distribution.n_links) == (14, 5, 2)


PAIRS = f"PATTERN SEQ(A a, B b) {ANY} {{ [k] }} WITHIN 5 RETURN a.x"


@pytest.mark.parametrize(
    ("producer", "consumer", "is_by_key"),
    [
        (PAIRS, f"PATTERN SEQ(pairs p, C c) {ANY} {{ [k] }} WITHIN 9", True),
        (f"{PAIRS}, b.k AS k", f"PATTERN SEQ(pairs p, C c) {ANY} {{ [k] }} WITHIN 9", True),
        (f"{PAIRS}, b.s AS k", f"PATTERN SEQ(pairs p, C c) {ANY} {{ [k] }} WITHIN 9", False),  # another value
        (f"PATTERN L l {ANY} WITHIN 5 RETURN l.x AS z", f"PATTERN SEQ(A a, pairs p) {ANY} {{ [k] }} WITHIN 9", True),
        (PAIRS, f"PATTERN SEQ(pairs p, C c) {ANY} {{ [s] }} WITHIN 9", True),  # all pairs are in every bucket
        (f"{PAIRS}, a.s", f"PATTERN SEQ(pairs p, C c) {ANY} {{ [s] }} WITHIN 9", False),
        (f"{PAIRS} LIMIT 3", f"PATTERN SEQ(pairs p, C c) {ANY} {{ [k] }} WITHIN 9", False),
        (f"PATTERN SEQ(A a, B b) {ANY} WITHIN 5", f"PATTERN SEQ(pairs p, A a) {ANY} {{ [k] }} WITHIN 9", False),
    ],
)
def test_queries_over_matches(producer: str, consumer: str, *, is_by_key: bool) -> None:
    over = chain(pairs=producer, over=consumer)
    found = over.distribution
    assert bool(found.keys) == is_by_key
    rows = [
        {
            "event_id": f"e{n}",
            "type": "ABLC"[n % 4 if n % 3 else 3],
            "t_lo_ms": 2 * n,
            "source_seq": n,
            "k": "pq"[n % 2],
        }
        | {"x": n, "s": "ok"}
        for n in range(48)
    ]
    stream = EventBatch.from_rows([{**row, "k": None} if row["type"] == "L" else row for row in rows], SCHEMA)
    whole = comparable(rows_of(over.chain, Part(stream)))
    if found.keys:
        parts = by_key(stream, found, 5)
        assert comparable([row for part in parts for row in rows_of(over.chain, part, 2)]) == whole
    if found.sliceable:
        parts = by_time(stream, found, 7)
        assert comparable([row for part in parts for row in rows_of(over.chain, part, 2)]) == whole


def test_explain_tells_how_events_are_divided() -> None:
    text = query(f"PATTERN SEQ(A a, L l, B b) {ANY} {{ [k] }} WITHIN 9").explain()
    assert "divided by buckets of k: A, B\n           L in every bucket\n" in text
    text = query(f"PATTERN SEQ(A a, B b) {ANY} WITHIN 9 SELECT FIRST").explain()
    assert "not by key: no attribute is the same in all events of a match by [x]; name one" in text
    assert "not by time: under SELECT FIRST a match depends on earlier ones" in text
