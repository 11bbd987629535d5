"""The constructs that random queries reach, told from their texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tests.engine.query_strategies import ANY, NEXT, PARTITION, STRICT

CONSTRUCTS: dict[str, Callable[[str], bool] | str] = {
    "kleene": r"\w\+ v",
    "two kleene": r"\+ v.*\+ v",
    "trailing kleene": r"\+ v\d\[\]\)\n",
    "leading kleene": r"SEQ\(\w\+",
    "negation at the start": r"SEQ\(!",
    "negation in the middle": r"SEQ\([^!)]+, !\w \w+, [^!]",
    "negation at the end": r"!\w v\d\)\n",
    "or": r"OR\(",
    "repeated group": r"\)(\+|\*|\{[\d,]+\})",
    "bounded group": r"\)\{",
    "optional group": r"\)\*",
    "group in a group": r"\)(\+|\*|\{[\d,]+\})[^\n]*\)\)(\+|\*|\{[\d,]+\})",
    "kleene in a group alone": r"\(\w\+ v\d+\[\]\)",
    "choice in a group": r"\(SEQ\((?=[^\n]*OR\()[^\n]*\)\)(\+|\*|\{)",
    "several negations": r"!.*!",
    "negations side by side": r"!\w v\d, !\w v",
    "and": r"AND\(",
    "and in a group": r"\([^\n]*AND\([^\n]*\)\)(\+|\*|\{)",
    "group in and": r"AND\([^\n]*\)(\+|\*|\{)[^\n]*\)",
    "any": r"ANY\(",
    "negated sequence": r"!SEQ\(",
    "negated kleene": r"!\w\+ v",
    "negated or": r"!OR\(",
    "negated and": r"!AND\(",
    "negated group": r"!\(SEQ",
    "negated bounded": r"!\w\{",
    "negation in a group": r"\(SEQ\([^\n]*!\w v[^\n]*\)\)(\+|\*|\{)",
    "two lists": r"v\d+\[v\d+\.len\]\.x \S+ v\d+\[1\]|v\d+\[\]\) \S+ (count|sum)",
    "sliding windows": r"SLIDE",
    "windows opened by events": r"OPEN ON",
    "windows of events opened by events": r"EVENTS OPEN ON",
    "selection": r"SELECT FIRST",
    "consumption": r"CONSUME",
    "optional": r"\? v",
    "star": r"\* v",
    "bounded": r"\w\{",
    "one type twice": r"SEQ\(.*\b([ABCLP])\b.*\b\1\b.*\)\n",
    "broadcast type under a key": lambda text: "L" in text.split("\n")[0] and "[k]" in text,
    "partly keyed type": lambda text: "P v" in text and "[j]" in text,
    "two key attributes": r"\[k\] AND \[j\]",
    "equivalence of one variable": r"\[v\d\.x\]",
    "previous": r"\[i-1\]\.",
    "first": r"v\d\[1\]",
    "last": r"\.len\]",
    "running aggregate": r"\[\.\.i-1\]",
    "values that repeat": r"repeats\(",
    "aggregate but the last": r"\.len-1\]",
    "the first but the last": r"first\(v\d\[\.\.v\d\.len-1",
    "aggregate": r"(min|max|sum|avg|first|last)\(v\d\[\]",
    "stddev": r"stddev",
    "every event against a single one": r"v\d\.x > v\d\[i\]|\[i\]\.x >= v\d\.x",
    "text": r"= 'ok'",
    "membership": r" IN \(",
    "remainder": r"% 2",
    "division": r"/ 2",
    "disjunction": r" OR ",
    "not": r"NOT v",
    "time attribute": r"timestamp",
    "window of events": r"EVENTS",
    "ties": r"TIES STRICT",
    "sets": r"OUTPUT SETS",
    "collapsed": r"OUTPUT COLLAPSED",
    "count": r"OUTPUT COUNT",
    "non-overlapping": r"NON_OVERLAPPING",
    "top": r"TOP 2",
    "threshold": r"CONFIDENCE >=",
    "limit": r"LIMIT",
    "return": r"RETURN",
    "having": r"HAVING",
    **{strategy: strategy for strategy in (ANY, NEXT, PARTITION, STRICT)},
}
"""What EVERYTHING must reach: a pattern of the query's text, or a test of it."""


def has(construct: str, text: str) -> bool:
    """Whether a query has it."""
    test = CONSTRUCTS[construct]
    return re.search(test, text) is not None if isinstance(test, str) else test(text)


def constructs_of(text: str) -> Iterator[str]:
    """All that a query has."""
    return (construct for construct in CONSTRUCTS if has(construct, text))


__all__ = ["CONSTRUCTS", "constructs_of", "has"]
