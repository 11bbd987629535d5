"""Early filters (SASE++ section 5.2): which events can be what, by their types and local predicates alone.

Everything else of the stream is dropped before it is stored. Local predicates are evaluated once per batch and shared
by the queries that have the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from engine.events import TIME_ATTRIBUTE, AttributeType, BoolArray, Float64Array, Int64Array
from engine.kernels.programs.blocks import select_where
from engine.kernels.runs.recent_starts import mark_found
from engine.language import ast
from engine.plan.model import EdgePredicates, Plan
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner
from engine.stream.recent_starts import RecentStarts
from engine.stream.row_numbers import each_once
from engine.stream.store import EventStore

_NO_ROWS: Int64Array = np.empty(0, np.int64)


@dataclass(frozen=True)
class Survivors:
    """Rows that some edge accepts, in order, and which ones: bool (n_steps, n), (n_steps, n), (n_negations, n)."""

    rows: Int64Array
    begin: BoolArray
    take: BoolArray
    negated: BoolArray

    def where(self, mask: BoolArray) -> Survivors:
        """Those whose mask (n,) is True."""
        if mask.all():
            return self
        kept = np.flatnonzero(mask)
        tables = (np.take(table, kept, axis=1) for table in (self.begin, self.take, self.negated))
        return Survivors(self.rows[kept], *tables)

    def with_rows(self, rows: Int64Array) -> Survivors:
        """These and the given rows, which no edge need accept."""
        united = each_once(self.rows, rows)
        index = np.searchsorted(united, self.rows)

        def widened(table: BoolArray) -> BoolArray:
            wider: BoolArray = np.zeros((table.shape[0], len(united)), np.bool_)
            wider[:, index] = table
            return wider

        return Survivors(united, widened(self.begin), widened(self.take), widened(self.negated))


class Masks:
    """Which rows of a store the begin and take edges and the negations accept.

    begin, take: bool (n_steps, capacity); negated: bool (n_negations, capacity).
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._hold(np.zeros((2 * len(plan.steps) + len(plan.negations), 64), np.bool_))

    def _hold(self, table: BoolArray) -> None:
        n_steps = len(self.plan.steps)
        self.table = table
        """begin, take and negated, one below the other."""
        self.begin: BoolArray = table[:n_steps]
        self.take: BoolArray = table[n_steps : 2 * n_steps]
        self.negated: BoolArray = table[2 * n_steps :]

    def append(self, survivors: Survivors, start: int) -> None:
        """The rows from `start` on are these."""
        end = start + len(survivors.rows)
        self.reserve(end)
        for name in ("begin", "take", "negated"):
            getattr(self, name)[:, start:end] = getattr(survivors, name)

    def reserve(self, n_rows: int) -> None:
        """Make room for so many rows."""
        old = self.table
        if old.shape[1] < n_rows:
            grown: BoolArray = np.zeros((old.shape[0], max(n_rows, 2 * old.shape[1])), np.bool_)
            grown[:, : old.shape[1]] = old
            self._hold(grown)

    def middle(self, n_rows: int) -> BoolArray:
        """Rows that may stand between the first and the last event of a match."""
        found: BoolArray = np.any(self.take[:, :n_rows], axis=0)
        for step in self.plan.steps[1:]:
            if step.position < len(self.plan.steps) - 1 or step.kleene:
                found |= self.begin[step.position, :n_rows]
        return found

    def ends(self, n_rows: int) -> BoolArray:
        """Rows that may be the last event of a match."""
        return self.begin[-1, :n_rows] | self.take[-1, :n_rows]

    def keep_from(self, first: int, end: int) -> None:
        """Drop the rows before `first` of those before `end`."""
        self.table[:, : end - first] = self.table[:, first:end]

    def keep(self, kept: BoolArray) -> None:
        """Drop the rows whose mask is False."""
        rows = np.flatnonzero(kept)
        if len(rows):
            self.table[:, : len(rows)] = self.table[:, rows]


@dataclass(frozen=True)
class _Role:
    """One edge: its event type, its local programs [first, last), and what they mean whatever names they use, as text:
    its hash is known."""

    event_type: str
    first: int
    last: int
    meaning: str


class EarlyFilter:
    """The filter of one plan."""

    def __init__(self, plan: Plan, interner: Interner, *, live: bool = True) -> None:
        """`live` False: `select` takes rows whether a match may be under way or not."""
        self._plan = plan
        programs = plan.programs
        self._constants = programs.with_strings(interner.constant)
        self._begin = [_role(step.event_type, step.begin) for step in plan.steps]
        self._take = [_role(step.event_type, step.take) if step.kleene else None for step in plan.steps]
        self._negated = [_role(negation.event_type, negation.edge) for negation in plan.negations]
        kept = () if live else tuple(name for name in plan.key if name not in programs.columns)
        self._names = (*programs.columns, *kept)
        first = self._begin[0]
        key = () if first.event_type in plan.broadcast else plan.key
        self._firsts = (first.event_type, first.meaning, *key)
        # What a leading negation forbids comes before every event of the match.
        leading = any(negation.after < 0 for negation in plan.negations)
        self._live = RecentStarts(plan) if live and not leading else None

    def select(self, stream: StreamColumns) -> Survivors:
        """The rows of a batch that some edge accepts while a match may be under way; rows of keyed types without all
        of the key are none."""
        first = self.may_begin(stream)
        live = None if self._live is None else self._live.select(stream, _united(list(first.values())))
        return self.select_near(stream, first, live)

    def may_begin(self, stream: StreamColumns) -> dict[int, Int64Array]:
        """The rows that may begin a match, by the component that they would be the first event of."""
        starts = {number: self._accepted(self._begin[number], stream, None) for number in self._plan.starts}
        return {number: _beginning(stream, rows) for number, rows in starts.items()}

    def firsts(self, stream: StreamColumns) -> Int64Array:
        """The rows that may be the first event of a match, shared by the queries that begin alike."""
        found = stream.chosen.get(self._firsts)
        if found is None:
            found = stream.chosen[self._firsts] = self._accepted(self._begin[0], stream, None)
        return _beginning(stream, found)

    @property
    def meaning(self) -> tuple[tuple[str, str] | None, ...]:
        """What each edge accepts, by event type and local predicates: equal filters accept the same events."""
        roles = (*self._begin, *self._take, *self._negated)
        return tuple(None if role is None else (role.event_type, role.meaning) for role in roles)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes in `columns`: those that programs read, by number, then those of the key, unless `live`."""
        return self._names

    @property
    def constants(self) -> Float64Array:
        """The constants of the plan's programs, with the interner's codes."""
        return self._constants

    @property
    def edges(self) -> list[tuple[str, int, int] | None]:
        """Begin edges, take edges and negations: event type and local programs [first, last), None for no edge."""
        roles = (*self._begin, *self._take, *self._negated)
        return [None if role is None else (role.event_type, role.first, role.last) for role in roles]

    def select_near(self, stream: StreamColumns, first: Mapping[int, Int64Array], live: Int64Array | None) -> Survivors:
        """The given rows that may begin a match, and of the rows `live` (None: of all) those that some other edge
        accepts; what may stand before the first event need not be one of them."""

        def rows_of(role: _Role | None) -> Int64Array:
            return self._accepted(role, stream, live)

        negated = zip(self._plan.negations, self._negated, strict=True)
        return _survivors(
            [first[number] if number in first else rows_of(role) for number, role in enumerate(self._begin)],
            [rows_of(role) for role in self._take],
            [self._accepted(role, stream, None if n.after < 0 else live) for n, role in negated],
        )

    def begins(self, stream: StreamColumns) -> Int64Array:
        """The rows of a batch that the first component accepts, with or without the key."""
        return _beginning(stream, self._of_batch(self._begin[0], stream))

    def negates(self, stream: StreamColumns, numbers: Iterable[int]) -> Int64Array:
        """The rows of a batch that some of these negations accept, with or without the key."""
        return _united([self._of_batch(self._negated[number], stream) for number in numbers])

    def by_role(self, stream: StreamColumns) -> list[Int64Array]:
        """The rows of a batch that each begin edge, each take edge and each negation accepts, with or without the key,
        whether a match may be under way or not."""
        roles = (*self._begin, *self._take, *self._negated)
        accepted = [_NO_ROWS if role is None else self._of_batch(role, stream) for role in roles]
        for number in self._plan.starts:
            accepted[number] = _beginning(stream, accepted[number])
        return accepted

    def accepted(self, stream: StreamColumns, rows: Int64Array | None = None) -> BoolArray:
        """Which of these rows of a batch, ascending (None: of all), each begin edge, each take edge and each negation
        accepts, with or without the key, whether a match may be under way or not: bool (n_roles, n)."""
        roles = (*self._begin, *self._take, *self._negated)
        n = len(stream) if rows is None else len(rows)
        table: BoolArray = np.zeros((len(roles), n), np.bool_)
        of_type: dict[str, Int64Array] = {}
        for role, marks in zip(roles, table, strict=True):
            if role is None or n == 0:
                continue
            if rows is not None:
                self._mark(role, stream, rows, of_type, marks)
            elif len(found := self._of_batch(role, stream)) == n:
                marks[:] = True
            else:
                marks[found] = True
        if stream.n_begin is not None:
            n_begin = stream.n_begin if rows is None else int(np.searchsorted(rows, stream.n_begin))
            table[list(self._plan.starts), n_begin:] = False
        return table

    def _mark(
        self,
        role: _Role,
        stream: StreamColumns,
        rows: Int64Array,
        of_type: dict[str, Int64Array],
        marks: BoolArray,
    ) -> None:
        """Mark the rows that an edge accepts; looked up when it has been asked of all rows, or nearly all are asked.

        of_type: those of the rows that are of a type, as far as they have been looked for.
        """
        found = stream.chosen.get((role.event_type, role.meaning))
        if found is None and 2 * len(rows) >= len(stream):
            found = self._of_batch(role, stream)
        if found is None:
            found = of_type.get(role.event_type)
            if found is None:
                found = of_type[role.event_type] = stream.of_type(rows, role.event_type)
            if len(found) == len(rows) and role.first == role.last:
                marks[:] = True
                return
            found = self._where(role, self.columns(stream), found)
        mark_found(rows, found, marks)

    def _of_batch(self, role: _Role, stream: StreamColumns) -> Int64Array:
        found = stream.chosen.get((role.event_type, role.meaning))
        if found is None:
            found = self._where(role, self.columns(stream), stream.rows_of_type(role.event_type))
            stream.chosen[role.event_type, role.meaning] = found
        return found

    def _accepted(self, role: _Role | None, stream: StreamColumns, live: Int64Array | None) -> Int64Array:
        """The rows that an edge accepts, among `live`: looked up when another query has asked the same of all rows."""
        if role is None or (live is not None and not len(live)):
            return _NO_ROWS
        found = stream.chosen.get((role.event_type, role.meaning))
        if found is None and live is not None and 2 * len(live) < len(stream):
            found = self._where(role, self.columns(stream), stream.of_type(live, role.event_type))
        else:
            found = self._of_batch(role, stream)
            if live is not None:
                marked = np.zeros(len(stream), np.bool_)
                marked[live] = True
                found = found[marked[found]]
        return found if role.event_type in self._plan.broadcast else self.with_key(stream, found)

    def of_store(self, store: EventStore) -> Survivors:
        """What the kept rows of a store can be; all of them survive."""
        n = len(store)
        types = store.type_index[:n]

        def rows_of(role: _Role | None) -> Int64Array:
            if role is None:
                return np.empty(0, np.int64)
            of_type = np.flatnonzero(types == store.types.index(role.event_type))
            return self._where(role, store.columns, of_type)

        roles = [[rows_of(role) for role in roles] for roles in (self._begin, self._take, self._negated)]
        if self._live is not None:
            self._live.of_store(store, _united([roles[0][number] for number in self._plan.starts]))
        every = np.arange(n, dtype=np.int64)
        return Survivors(every, *(_table(rows, every) for rows in roles))

    def _where(self, role: _Role, columns: Float64Array, rows: Int64Array) -> Int64Array:
        if role.first == role.last or not len(rows):
            return rows
        programs = self._plan.programs
        chosen = rows.copy()
        n = select_where(programs.code, programs.bounds, role.first, role.last, self._constants, columns, chosen)
        return chosen[:n]

    def columns(self, stream: StreamColumns) -> Float64Array:
        """The columns of `names`, float64 (n_columns, n)."""
        return stream.stacked(self._names, self._plan.attribute_types)

    def _kind(self, name: str) -> AttributeType:
        return AttributeType.INT if name == TIME_ATTRIBUTE else self._plan.attribute_types[name]

    def with_key(self, stream: StreamColumns, rows: Int64Array) -> Int64Array:
        """The rows that have all attributes of the key."""
        for name in self._plan.key:
            column = stream.column(name, self._kind(name))
            if stream.is_complete(name):
                continue
            missing = np.isnan(column[rows])
            if missing.any():
                rows = rows[~missing]
        return rows


def _beginning(stream: StreamColumns, rows: Int64Array) -> Int64Array:
    """Those of the rows, ascending, that may begin a match."""
    return rows if stream.n_begin is None else rows[: np.searchsorted(rows, stream.n_begin)]


def _survivors(begin: list[Int64Array], take: list[Int64Array], negated: list[Int64Array]) -> Survivors:
    survivors = _united([*begin, *take, *negated])
    return Survivors(survivors, *(_table(roles, survivors) for roles in (begin, take, negated)))


def _united(roles: list[Int64Array]) -> Int64Array:
    """All rows, ascending, each once."""
    roles = [rows for rows in roles if len(rows)]
    if len(roles) <= 1:
        return roles[0] if roles else _NO_ROWS
    low, high = min(int(rows[0]) for rows in roles), max(int(rows[-1]) for rows in roles) + 1
    accepted = np.zeros(high - low, np.bool_)
    for rows in roles:
        accepted[rows - low] = True
    return np.flatnonzero(accepted) + low


def _table(roles: list[Int64Array], survivors: Int64Array) -> BoolArray:
    table: BoolArray = np.zeros((len(roles), len(survivors)), np.bool_)
    for rows, marks in zip(roles, table, strict=True):
        if len(rows) == len(survivors):
            marks[:] = True
        elif len(rows):
            mark_found(survivors, rows, marks)
    return table


def _role(event_type: str, edge: EdgePredicates) -> _Role:
    local = (predicate.conjunct for predicate in edge.predicates if predicate.local)
    return _Role(event_type, edge.first, edge.rest, repr([_of_event(conjunct) for conjunct in local]))


def _of_event(conjunct: ast.Expression) -> ast.Expression:
    """The conjunct with one name for the event that it is about: a local predicate has no other."""
    match conjunct:
        case ast.Attribute():
            return ast.Attribute("", ast.Index.SINGLE, conjunct.name)
        case ast.Negative() | ast.Not():
            return replace(conjunct, operand=_of_event(conjunct.operand))
        case ast.Membership():
            return replace(conjunct, operand=_of_event(conjunct.operand))
        case ast.Arithmetic() | ast.Comparison():
            return replace(conjunct, left=_of_event(conjunct.left), right=_of_event(conjunct.right))
        case ast.AllOf() | ast.OneOf():
            return replace(conjunct, operands=tuple(_of_event(operand) for operand in conjunct.operands))
    return conjunct
