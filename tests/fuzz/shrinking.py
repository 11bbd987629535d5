"""A smaller case that shows the same: fewer events, pieces, queries, clauses, predicates and parts of the pattern."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from engine.errors import QueryError
from engine.language import ast
from engine.language.parser import parse
from engine.language.printer import print_query
from tests.conformance.ways import Setting
from tests.fuzz.case import FuzzCase
from tests.fuzz.trees import replaced

Shows = Callable[[FuzzCase], bool]

_WITHOUT: tuple[Mapping[str, Any], ...] = (
    {"output": ast.Output.ALL, "top_k": None},
    {"slide_ms": None, "open_on": None},
    {"limit": None},
    {"confidence": None},
    {"having": None},
    {"ties": None},
    {"select_first": False},
    {"consume": ()},
    {"returns": ()},
)
_HEADER = ("event_id", "type", "t_lo_ms", "t_hi_ms", "source_rank", "source_seq")


def shrunk(case: FuzzCase, shows: Shows, seconds: float) -> FuzzCase:
    """The smallest case found within this time that `shows` holds for."""
    end = time.monotonic() + seconds
    smaller: FuzzCase | None = case
    while smaller is not None:
        case = smaller
        smaller = next((other for other in _smaller(case) if time.monotonic() < end and _is_shown(shows, other)), None)
    return case


def _is_shown(shows: Shows, case: FuzzCase) -> bool:
    try:
        return shows(case)
    except QueryError:
        return False


def _smaller(case: FuzzCase) -> Iterator[FuzzCase]:
    """Candidates, those that leave out most first."""
    yield from _fewer_queries(case)
    yield from _fewer_pieces(case)
    yield from _fewer_events(case)
    for name, text in case.setting.texts.items():
        for other in smaller_queries(parse(text)):
            if other != text:
                setting = replace(case.setting, texts={**case.setting.texts, name: other})
                yield replace(case, setting=setting)
    yield from _plainer_events(case)


def _fewer_queries(case: FuzzCase) -> Iterator[FuzzCase]:
    texts = case.setting.texts
    for name in texts if len(texts) > 1 else ():
        rest = {other: text for other, text in texts.items() if other != name}
        given = {other: values for other, values in case.setting.parameters.items() if other != name}
        yield replace(case, setting=Setting(rest, given, case.setting.schema))


def _fewer_pieces(case: FuzzCase) -> Iterator[FuzzCase]:
    n = len(case.watermarks)
    if n > 1:
        everything = dict.fromkeys(case.piece_of, 0)
        yield replace(case, watermarks=case.watermarks[-1:], piece_of=everything, restarts=frozenset())
    if case.restarts:
        yield replace(case, restarts=frozenset())
        for number in case.restarts if len(case.restarts) > 1 else ():
            yield replace(case, restarts=case.restarts - {number})
    for gone in range(n - 1):  # a piece comes with the next one
        piece_of = {event: piece - (piece > gone) for event, piece in case.piece_of.items()}
        marks = case.watermarks[:gone] + case.watermarks[gone + 1 :]
        restarts = frozenset(number - (number > gone) for number in case.restarts if number != gone)
        yield replace(case, watermarks=marks, piece_of=piece_of, restarts=restarts)


def _fewer_events(case: FuzzCase) -> Iterator[FuzzCase]:
    rows = list(case.stream.rows())
    size = len(rows) // 2
    while size:
        for start in range(0, len(rows), size):
            yield _with_rows(case, rows[:start] + rows[start + size :])
        size //= 2


def _with_rows(case: FuzzCase, rows: list[dict[str, Any]]) -> FuzzCase:
    kept = {row["event_id"] for row in rows}
    other = case.with_events(rows)
    return replace(other, piece_of={event: piece for event, piece in case.piece_of.items() if event in kept})


def smaller_queries(query: ast.Query) -> Iterator[str]:
    for changes in _WITHOUT:
        if any(getattr(query, name) != value for name, value in changes.items()):
            yield print_query(replace(query, **changes))
    for at in range(len(query.predicates)):
        yield print_query(replace(query, predicates=query.predicates[:at] + query.predicates[at + 1 :]))
    for at in range(len(query.equivalences)):
        yield print_query(replace(query, equivalences=query.equivalences[:at] + query.equivalences[at + 1 :]))
    for at in range(len(query.returns) if len(query.returns) > 1 else 0):
        yield print_query(replace(query, returns=query.returns[:at] + query.returns[at + 1 :]))
    for node in ast.walk(query):
        for other in _smaller_nodes(node):
            yield print_query(replaced(query, node, other))


def _smaller_nodes(node: object) -> Iterator[object]:
    """What may stand in the place of a part of a pattern or an expression."""
    match node:
        case ast.Sequence(parts=parts) | ast.Conjunction(parts=parts) | ast.Alternative(parts=parts):
            if len(parts) > 1:
                yield from parts
                for at in range(len(parts)):
                    yield replace(node, parts=parts[:at] + parts[at + 1 :])
        case ast.AnyOf(parts=parts):
            yield from parts
        case ast.Repeat(pattern=inner) | ast.Negation(pattern=ast.Sequence(parts=(inner,))):
            yield inner if isinstance(node, ast.Repeat) else replace(node, pattern=inner)
        case ast.Component(kleene=True):
            yield replace(node, kleene=False)
        case ast.AllOf(operands=operands) | ast.OneOf(operands=operands):
            yield from operands
        case ast.Not(operand=inner):
            yield inner
        case ast.Arithmetic(left=left, right=right):
            yield left
            yield right
        case ast.Literal(value=int() | float()) if node.value != 0:
            yield ast.Literal(0)


def _plainer_events(case: FuzzCase) -> Iterator[FuzzCase]:
    rows = list(case.stream.rows())
    attributes = {name for row in rows for name in row} - set(_HEADER)
    for name in sorted(attributes):
        yield case.with_events([{key: value for key, value in row.items() if key != name} for row in rows])
    for at, row in enumerate(rows):
        for other in _plainer(row):
            yield case.with_events([*rows[:at], other, *rows[at + 1 :]])


def _plainer(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in row.keys() - set(_HEADER):
        yield {key: value for key, value in row.items() if key != name}
    if row["t_hi_ms"] > row["t_lo_ms"]:
        plain = {key: value for key, value in row.items() if key not in ("weights", "skew_ms")}
        yield {**plain, "t_hi_ms": row["t_lo_ms"]}
        yield {**plain, "t_lo_ms": row["t_hi_ms"]}
        yield {**plain, "t_hi_ms": row["t_hi_ms"] - 1}
    if row["source_rank"]:
        yield {**row, "source_rank": 0}


__all__ = ["shrunk", "smaller_queries"]
