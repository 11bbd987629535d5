"""Keys that equalities imply, and what keeps a query from having one."""

from __future__ import annotations

import pytest

from engine import compile_query
from engine.events import AttributeType, EventSchema
from engine.plan.implied_key import implied_key

_ATTRIBUTES = {"k": AttributeType.STRING, "j": AttributeType.STRING, "x": AttributeType.INT}
SCHEMA = EventSchema.of({"A": _ATTRIBUTES, "B": _ATTRIBUTES, "N": _ATTRIBUTES})
SEQ = "PATTERN SEQ(A a, B+ b[], A c)"


@pytest.mark.parametrize(
    ("pattern", "predicates", "key"),
    [
        (SEQ, "a.k = b[i].k AND a.k = c.k", ("k",)),
        (SEQ, "b[i].k = a.k AND c.k = a.k AND a.j = b[i].j AND a.j = c.j", ("j", "k")),
        ("PATTERN SEQ(A a, B b, A c)", "a.k = b.k AND b.k = c.k", ("k",)),
        (SEQ, "a.k = b[i].k", ()),  # c may have another
        (SEQ, "a.k = b[1].k AND a.k = c.k", ()),  # so may b[2]
        (SEQ, "a.k = b[i].k AND b[i].k = c.k", ()),  # decided at c: b takes what it likes first
        (SEQ, "a.k = b[i].j AND a.k = c.j", ()),
        (SEQ, "a.x >= b[i].x AND a.x >= c.x", ()),
        (SEQ, "(a.k = b[i].k OR a.x > 3) AND a.k = c.k", ()),
        ("PATTERN SEQ(B+ b[], A c)", "b[i].k = c.k", ()),
        ("PATTERN SEQ(A a, !N n, B b)", "a.k = b.k AND a.k = n.k", ()),
        (SEQ, "[k] AND a.j = b[i].j AND a.j = c.j", ()),  # it has a key
    ],
)
def test_implied_key(pattern: str, predicates: str, key: tuple[str, ...]) -> None:
    query = compile_query(f"{pattern} WHERE skip_till_next_match {{ {predicates} }} WITHIN 10", SCHEMA)
    assert implied_key(query.plan) == key


@pytest.mark.parametrize("strategy", ["strict_contiguity", "partition_contiguity", "skip_till_any_match"])
def test_other_strategies_see_what_predicates_refuse(strategy: str) -> None:
    query = compile_query(f"{SEQ} WHERE {strategy} {{ a.k = b[i].k AND a.k = c.k }} WITHIN 10", SCHEMA)
    assert implied_key(query.plan) == ()
