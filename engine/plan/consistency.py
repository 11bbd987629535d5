"""Which predicates over Kleene events may be decided early (SASE++ section 5.2).

A predicate of the edge that takes b[i] is judged by what happens when events are left out of b[..i-1]:

| term over b[..i-1] or b[] | leaving events out | b[i] op term                      |
|---------------------------|--------------------|-----------------------------------|
| max                       | can only fall      | > >= true-consistent, < <= false  |
| min                       | can only rise      | < <= true-consistent, > >= false  |
| count                     | can only fall      | as max                            |
| sum, avg, stddev          | either             | inconsistent (values may be < 0)  |
| b[i-1], b[1], b[b.len]    | another event      | inconsistent                      |

Everything that refers to no chosen Kleene event is both true-value and false-value consistent. NULL values make an
aggregate skip events, which is leaving them out, and keep the classes.
"""

from __future__ import annotations

from engine.language import ast
from engine.plan.model import Consistency

_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_FALLS = frozenset({"max", "count"})


def classify(conjunct: ast.Expression, kleene: frozenset[str]) -> Consistency:
    """The class of one conjunct, given the names of the Kleene variables."""
    if not any(_chosen(node, kleene) for node in ast.walk(conjunct)):
        return Consistency.TRUE_FALSE
    if isinstance(conjunct, ast.Comparison):
        return _comparison(conjunct, kleene)
    return Consistency.INCONSISTENT


def _comparison(node: ast.Comparison, kleene: frozenset[str]) -> Consistency:
    if _is_free(node.right, kleene):
        node = ast.Comparison(_SWAPPED.get(node.op, node.op), node.right, node.left)
    aggregate = node.right
    if not (_is_free(node.left, kleene) and isinstance(aggregate, ast.Aggregate)) or node.op in ("=", "!="):
        return Consistency.INCONSISTENT
    if aggregate.function not in ("min", "max", "count"):
        return Consistency.INCONSISTENT
    term_falls = aggregate.function in _FALLS
    wants_small_term = node.op in (">", ">=")
    return Consistency.TRUE if term_falls == wants_small_term else Consistency.FALSE


def _is_free(expression: ast.Expression, kleene: frozenset[str]) -> bool:
    return not any(_chosen(node, kleene) for node in ast.walk(expression))


def _chosen(node: object, kleene: frozenset[str]) -> bool:
    """True for a term whose value depends on which events of a Kleene component were selected."""
    if isinstance(node, ast.Aggregate):
        return True
    return (
        isinstance(node, ast.Attribute)
        and node.variable in kleene
        and node.index in (ast.Index.FIRST, ast.Index.PREVIOUS, ast.Index.LAST)
    )
