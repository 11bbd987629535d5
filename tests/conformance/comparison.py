"""One case through all runtimes and through the oracle, and what has to be equal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import note

from engine import MatchRow, reference_output
from engine.errors import UnsupportedQueryError
from engine.events import EventBatch
from engine.language import ast
from engine.matching.output.match_row import flat_ids
from engine.reference import ReferenceRow
from tests.conformance.ways import AUTOMATON, AUTOMATON_CUT, BASELINES_CUT, COMPILED, CUT, Setting, rows_by
from tests.engine.strategies import Case, Delivery

Row = MatchRow | ReferenceRow


@dataclass
class Tally:
    """How many cases were compared, how many of these had rows, how often a baseline evaluated one, and how many the
    engine refused, by its reason."""

    n_compared: int = 0
    n_with_rows: int = 0
    n_by_baselines: int = 0
    refused: dict[str, int] | None = None

    @property
    def n_refused(self) -> int:
        """Cases left out of the comparison."""
        return sum((self.refused or {}).values())

    def refuse(self, reason: str) -> None:
        """Count a refusal."""
        self.refused = self.refused or {}
        self.refused[reason] = self.refused.get(reason, 0) + 1


def compare(case: Case, parts: Sequence[Delivery], restarts: Collection[int], tally: Tally) -> None:
    """The rows of every runtime against the oracle's; a query that one of them refuses is counted in `tally`, but for
    the baselines, which evaluate few."""
    note(f"{case}\n{parts}\nnew engines after {sorted(restarts)}")
    setting = Setting({"q": case.query}, {})
    try:
        queries = {False: setting.compiled(), True: setting.compiled(as_automata=True)}
        found = {COMPILED.name: rows_by(CUT, queries[False], parts, restarts)}
        for way in (AUTOMATON, AUTOMATON_CUT):
            found[way.name] = rows_by(way, queries[True], parts, restarts)
    except UnsupportedQueryError as error:
        tally.refuse(error.message.split(":")[0])
        return
    for way in BASELINES_CUT:
        with suppress(UnsupportedQueryError):
            found[way.name] = rows_by(way, queries[False], parts, restarts)
            tally.n_by_baselines += 1
    resolved = queries[False][0].resolved
    try:
        expected = reference_output(resolved, case.stream)
    except UnsupportedQueryError as error:
        if "worlds" not in error.message:
            raise
        tally.refuse("the oracle: too many worlds")  # it lists them one by one
        return
    tally.n_compared += 1
    tally.n_with_rows += bool(expected)
    for name, rows in found.items():
        note(name)
        check_rows(resolved.query.output, rows, expected, case.stream)
        check_order(resolved.query, rows, expected, case.stream)


def check_rows(output: ast.Output, found: Sequence[Any], expected: Sequence[ReferenceRow], stream: EventBatch) -> None:
    """Rows with the fields of MatchRow against the oracle's, for a form of output."""
    _CHECKS[output](found, expected, ends_in(stream))


def check_order(
    query: ast.Query, found: Sequence[MatchRow], expected: Sequence[ReferenceRow], stream: EventBatch
) -> None:
    """Under LIMIT rows come in output order, and those of a window say that there are more where that is known."""
    windows = [_window(row) for row in found]
    if query.limit is None or len(set(windows)) > 1 or query.output is ast.Output.SETS:
        return  # which of several equal orders stands for a set is not said
    # Nor which of several equal matches stands for those of one first and one last event.
    counted = query.output in (ast.Output.COLLAPSED, ast.Output.COUNT)
    place: Callable[[Row], object] = ends_in(stream) if counted else lambda row: row.bindings
    assert [place(row) for row in found] == [place(row) for row in expected]
    assert all(other.capped for row, other in zip(found, expected, strict=True) if row.capped)


Ends = Callable[[Row], tuple[object, ...]]
"""The window, the first and the last event of a row."""


def ends_in(stream: EventBatch) -> Ends:
    """Among precise events the first and the last are the stream's; imprecise ones stand in pattern order."""
    is_precise = bool((stream.t_lo_ms == stream.t_hi_ms).all())
    place = {event_id: n for n, event_id in enumerate(stream.sorted().table.column("event_id").to_pylist())}

    def ends(row: Row) -> tuple[object, ...]:
        ids = [event for bound in row.bindings.values() for event in flat_ids(bound)]
        if is_precise:
            ids.sort(key=place.__getitem__)
        return (_window(row), ids[0], ids[-1])

    return ends


def _window(row: Row) -> tuple[int, int] | None:
    return getattr(row, "window", None)  # the dashboard's rows have none


def _frozen(bound: Any) -> Any:
    """Lists, from JSON, as tuples."""
    return bound if isinstance(bound, str) else tuple(map(_frozen, bound))


def bindings_of(row: Row) -> tuple[object, ...]:
    """Window and bindings."""
    return (_window(row), *sorted((v, _frozen(bound)) for v, bound in row.bindings.items()))


def sets_of(row: Row) -> tuple[object, ...]:
    """Window and sets of events by variable."""
    return (_window(row), *sorted((v, frozenset(flat_ids(bound))) for v, bound in row.bindings.items()))


def check_listed(found: Sequence[MatchRow], expected: Sequence[ReferenceRow], _: Ends) -> None:
    """ALL, NON_OVERLAPPING: the same rows with confidences, values, keys and intervals."""
    for row, other in _paired(found, expected, bindings_of):
        _check_common(row, other)
        assert dict(row.values) == pytest.approx(dict(other.values), rel=1e-12, abs=1e-12)
        assert (row.first_lo_ms, row.last_hi_ms) == (other.first_lo_ms, other.last_hi_ms)


def check_sets(found: Sequence[MatchRow], expected: Sequence[ReferenceRow], _: Ends) -> None:
    """SETS: the same sets; which of several equal orders stands for them is not said."""
    for row, other in _paired(found, expected, sets_of):
        _check_common(row, other)
        if other.count == 1:
            assert dict(row.values) == pytest.approx(dict(other.values), rel=1e-12, abs=1e-12)


def check_counted(found: Sequence[MatchRow], expected: Sequence[ReferenceRow], ends: Ends) -> None:
    """COUNT, COLLAPSED: one row per (first, last), exact counts, the candidates that are in a match."""
    for row, other in _paired(found, expected, ends):
        assert row.count_exact
        _check_common(row, other)
        if other.candidates is not None:
            assert row.candidates is not None
            candidates = {v: set(ids) for v, ids in row.candidates.items()}
            exact = {v: set(ids) for v, ids in other.candidates.items()}
            if row.exact:
                assert other.exact
                assert candidates == exact
            assert all(ids <= candidates[v] for v, ids in exact.items())


def check_top(found: Sequence[MatchRow], expected: Sequence[ReferenceRow], ends: Ends) -> None:
    """The same matches, window by window as these end, the most confident first, at a tie the first in output order."""
    check_listed(found, expected, ends)
    in_order = [bindings_of(row)[1:] for row in found], [bindings_of(row)[1:] for row in expected]
    if all(_window(row) is None for row in expected):  # two events of one time open two windows of these bounds
        assert in_order[0] == in_order[1]


def _paired(
    found: Sequence[MatchRow], expected: Sequence[ReferenceRow], identity: Callable[[Row], tuple[object, ...]]
) -> list[tuple[MatchRow, ReferenceRow]]:
    """Each row with its counterpart; there is one for each and no row twice (openers at one time give a row each)."""
    got, wanted = sorted(found, key=lambda r: repr(identity(r))), sorted(expected, key=lambda r: repr(identity(r)))
    assert [identity(row) for row in got] == [identity(row) for row in wanted]
    return list(zip(got, wanted, strict=True))


def _check_common(row: MatchRow, other: ReferenceRow) -> None:
    assert row.confidence == pytest.approx(float(other.confidence), abs=1e-12)
    assert dict(row.key) == dict(other.key)
    assert row.count == other.count


_CHECKS: dict[ast.Output, Callable[[Sequence[MatchRow], Sequence[ReferenceRow], Ends], None]] = {
    ast.Output.ALL: check_listed,
    ast.Output.SETS: check_sets,
    ast.Output.COLLAPSED: check_counted,
    ast.Output.COUNT: check_counted,
    ast.Output.NON_OVERLAPPING: check_listed,
    ast.Output.TOP: check_top,
}


__all__ = ["Tally", "check_order", "check_rows", "compare"]
