"""Streams written as `a1 b2 c2`: type and time, and the worked examples of GRETA with what the definitions give."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest

from engine.events import AttributeType, EventBatch, EventSchema

ATTRIBUTES = {"attr": AttributeType.INT, "x": AttributeType.FLOAT, "g": AttributeType.STRING}
SCHEMA = EventSchema.of(dict.fromkeys("ABCDE", ATTRIBUTES))


def stream(text: str, **attr: int) -> EventBatch:
    """Events such as `a1 b2`; `attr` by event."""
    rows = []
    for number, word in enumerate(text.split()):
        found = re.fullmatch(r"([a-z])(\d+)", word)
        assert found is not None, word
        rows.append(
            {
                "event_id": f"{word}.{number}",
                "type": found[1].upper(),
                "t_lo_ms": int(found[2]),
                "t_hi_ms": int(found[2]),
                "source_rank": 0,
                "source_seq": number,
                "attr": attr.get(word),
            }
        )
    return EventBatch.from_rows(rows, SCHEMA)


LONG = "a1 b2 c2 a3 e3 a4 c5 d6 b7 a8 b9"
"""The stream of GRETA's Figure 6."""


@dataclass(frozen=True)
class Golden:
    """A query and the values of its rows by the start of their windows."""

    query: str
    rows: dict[int, dict[str, object]]
    text: str = LONG
    attr: dict[str, int] = field(default_factory=dict)


def counted(pattern: str, count: int, clauses: str = "") -> Golden:
    """COUNT(*) of one window that holds the whole stream."""
    query = f"PATTERN {pattern} {clauses} WITHIN 10 SLIDE 10 RETURN COUNT(*)"
    return Golden(query, {0: {"count": count}} if count else {})


_ALL = "COUNT(*), COUNT(A), MIN(A.attr), MAX(A.attr), SUM(A.attr), AVG(A.attr)"

GOLDEN = {
    "figure 12": Golden(
        f"PATTERN (SEQ(A+, B))+ WITHIN 10 SLIDE 10 RETURN {_ALL}",
        {0: {"count": 11, "count_A": 20, "min_attr": 4, "max_attr": 6, "sum_attr": 100, "avg_attr": 5}},
        "a1 b2 a3 a4 b7",
        {"a1": 5, "a3": 6, "a4": 4},
    ),
    "A+": counted("A+", 15),
    "SEQ(A+, B)": counted("SEQ(A+, B)", 23),
    "(SEQ(A+, B))+": counted("(SEQ(A+, B))+", 43),
    "nested negation": counted("(SEQ(A+, NOT SEQ(C, NOT E, D), B))+", 13),
    "what a negated trend's neighbours are asked": Golden(
        "PATTERN SEQ(A, NOT SEQ(C, D), B) WHERE C.attr < NEXT(D).attr WITHIN 10 SLIDE 10 RETURN COUNT(*)",
        # c2 d3 rises, and lies in a1 b4 and a1 b8; c6 d7 falls.
        {0: {"count": 1}},
        "a1 c2 d3 b4 a5 c6 d7 b8",
        {"c2": 1, "d3": 2, "c6": 5, "d7": 3},
    ),
    "a negated trend of rising events": Golden(
        "PATTERN SEQ(A, NOT SEQ(C{2,}, D), B) WHERE C.attr < NEXT(C).attr WITHIN 10 SLIDE 10 RETURN COUNT(*)",
        # c2 c3 d4 lies in a1 b5 and a1 b10; c7 c8 does not rise.
        {0: {"count": 1}},
        "a1 c2 c3 d4 b5 a6 c7 c8 d9 b10",
        {"c2": 1, "c3": 2, "c7": 4, "c8": 2},
    ),
    "negation in a negated pattern, of several events": Golden(
        "PATTERN SEQ(A, NOT SEQ(C, NOT SEQ(D, E), C c2), B) WITHIN 20 SLIDE 20 RETURN COUNT(*)",
        # Of a1 b6 alone: between c2 and c5 lie d3 e4. Between c5 and c8, and c8 and c10, there is no D before an E.
        {0: {"count": 1}},
        "a1 c2 d3 e4 c5 b6 a7 c8 e9 c10 b11",
    ),
    "trailing negation": counted("SEQ(A+, NOT E)", 14),
    "leading negation": counted("SEQ(NOT E, A+)", 12),
    "(A+)+ is A+": counted("(A+)+", 15),
    "SEQ(A+, A+)": counted("SEQ(A+ p, A+ q)", 11),
    "trailing negation, two windows of which one holds e3": Golden(
        "PATTERN SEQ(A+, NOT E) WITHIN 10 SLIDE 3 RETURN COUNT(*)",
        # Where the window holds e3, at 3, trends that end at 1 do not count.
        {-9: {"count": 1}, -6: {"count": 6}, -3: {"count": 6}, 0: {"count": 14}, 3: {"count": 3}, 6: {"count": 1}},
    ),
    "leading negation, two windows of which one holds e3": Golden(
        "PATTERN SEQ(NOT E, A+) WITHIN 10 SLIDE 3 RETURN COUNT(*)",
        # Where the window holds e3, trends that start at 4 or 8 do not count.
        {-9: {"count": 1}, -6: {"count": 6}, -3: {"count": 6}, 0: {"count": 12}, 3: {"count": 3}, 6: {"count": 1}},
    ),
    "an index of values": Golden(
        "PATTERN A+ WHERE A.attr < NEXT(A).attr WITHIN 10 SLIDE 10 RETURN COUNT(*), SUM(A.attr)",
        # 5 | 6 | 4 | 9 | 5 6 | 5 9 | 6 9 | 4 9 | 5 6 9
        {0: {"count": 9, "sum_attr": 24 + 11 + 14 + 15 + 13 + 20}},
        "a1 a3 a4 a8",
        {"a1": 5, "a3": 6, "a4": 4, "a8": 9},
    ),
    "a disjunction counts what both parts match once": counted("A+ p OR SEQ(A q, A+ r)", 15),
    "a minimal length": counted("A{3,} a", 5),
    "pairs of parts without a trend in common": counted("A+ AND SEQ(A, B)", 15 * 8),
    "pairs of the trends of one pattern": counted("A+ AND A+ p", 15 * 14 // 2),
    # A pair of the 15 has one of the 11 with two events or more: all but the pairs of the 4 single ones.
    "pairs of parts of which one has all of the other's trends": counted("A+ AND SEQ(A, A+ p)", 105 - 6),
    "pairs add over both trends": Golden(
        "PATTERN A+ AND SEQ(A, B) WITHIN 10 SLIDE 10 "
        "RETURN COUNT(*), COUNT(A), SUM(A.attr), MIN(A.attr), MAX(A.attr), AVG(A.attr)",
        # Trends of A+: a1 | a3 | a1 a3; of SEQ(A, B): a1 b2 | a1 b7 | a3 b7; each of one with each of the other.
        {
            0: {
                "count": 9,
                "count_A": 3 * 4 + 3 * 3,
                "sum_attr": 3 * 22 + 3 * 16,
                "min_attr": 5,
                "max_attr": 6,
                "avg_attr": pytest.approx(114 / 21),
            }
        },
        "a1 b2 a3 b7",
        {"a1": 5, "a3": 6},
    ),
    "ties in the order of the stream": Golden(
        "PATTERN A+ TIES SOURCE WITHIN 10 SLIDE 10 RETURN COUNT(*)", {0: {"count": 7}}, "a1 a1 a1"
    ),
    "ties unordered": Golden("PATTERN A+ WITHIN 10 SLIDE 10 RETURN COUNT(*)", {0: {"count": 3}}, "a1 a1 a1"),
    "windows begin before the first event": Golden(
        "PATTERN A+ WITHIN 3 SLIDE 1 RETURN COUNT(*)",
        {-2: {"count": 1}, -1: {"count": 1}, 0: {"count": 1}},
        "a1",
    ),
    "all values NULL": Golden(
        f"PATTERN A+ WITHIN 10 SLIDE 10 RETURN {_ALL}",
        {0: {"count": 1, "count_A": 1, "min_attr": None, "max_attr": None, "sum_attr": None, "avg_attr": None}},
        "a1",
    ),
    "HAVING": Golden("PATTERN A+ WITHIN 5 SLIDE 5 HAVING COUNT(*) > 1 RETURN COUNT(*)", {0: {"count": 7}}),
}


__all__ = ["ATTRIBUTES", "GOLDEN", "LONG", "SCHEMA", "Golden", "counted", "stream"]
