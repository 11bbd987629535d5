"""Saved state of graphs: that of one query out of a shared one, and of two graphs that know the same put together.

What is saved of a query is what it would save alone, so that it is found again whichever queries it shares with then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.kernels.trends.numbers import ZERO
from engine.language import ast
from engine.plan.trends.model import NumberKind, TrendPlan
from engine.plan.trends.sharing import number_positions

State = Mapping[str, pa.Table]

_NUMBERS = ("sums", "numbers", "overlap_base", "overlap_numbers")
_COLUMNS = {"waiting": "columns", "vertices": "column", "held": "column", "overlap_members": "columns"}
_EVENTS = {"waiting": ("ids0",), "overlap_members": ("id", "reached0", "reached1", "reached2")}
"""Of queries that people are told of."""


def part_of(state: State, shared: TrendPlan, own: TrendPlan) -> dict[str, pa.Table]:
    """What a query has of the state of its graph, whose plan is `shared`."""
    found = dict(state)
    positions = number_positions(own, shared)
    for name in _NUMBERS:
        if name in found and own.numbers != shared.numbers:
            found[name] = _chosen(found[name], positions, shared.n_numbers)
    for name, prefix in _COLUMNS.items():
        if name in found:
            kept = _without(found[name], () if own.has_notice else _EVENTS.get(name, ()))
            found[name] = _columns_of([(kept, shared.programs.columns)], own.programs.columns, prefix)
    return found


FORMAT = b"2"
"""Of numbers in saved states, beside their keys; before there was any, whether a sum has a value stood in a number of
its own."""


def of_this_format(state: State, plan: TrendPlan) -> State:
    """What a query has saved, whenever that was; raises StateError for numbers that are not those of the query."""
    if "keys" not in state or (state["keys"].schema.metadata or {}).get(b"format") == FORMAT:
        return state
    known = {
        number: replace(number, kind=NumberKind.KNOWN, is_whole=False)
        for number in plan.numbers
        if number.kind is NumberKind.SUM
    }
    numbers = dict.fromkeys(each for number in plan.numbers for each in (number, known.get(number, number)))
    before = replace(plan, numbers=tuple(numbers))
    pairs = [(1 + before.numbers.index(each), 1 + before.numbers.index(known[each])) for each in known]
    found = dict(state)
    for name in _NUMBERS:
        if name in found:
            found[name] = _with_zeros(name, found[name], pairs, before.n_numbers)
    return part_of(found, before, plan)


def _with_zeros(name: str, table: pa.Table, pairs: Sequence[tuple[int, int]], n_numbers: int) -> pa.Table:
    """Sums that are zero and have a value say so; `pairs`: where sums are and how many values they have."""
    if len(table) % n_numbers:
        raise StateError(f"saved state of trends has {len(table)} {name}; expected a multiple of {n_numbers}")
    columns = {column: table.column(column).to_numpy() for column in table.column_names}
    for column, whole in columns.items():
        if column.endswith("whole"):
            numbers = whole.reshape(-1, n_numbers)
            scale_name = column.removesuffix("whole") + "scale"
            scale = columns[scale_name].reshape(-1, n_numbers).copy()
            for total, n_known in pairs:
                is_zero = (numbers[:, total] == 0) & (scale[:, total] == 0) & (numbers[:, n_known] != 0)
                scale[is_zero, total] = ZERO
            columns[scale_name] = scale.reshape(-1)
    return pa.table(columns)


def joined(one: State, its: TrendPlan, other: State, others: TrendPlan, plan: TrendPlan) -> dict[str, pa.Table]:
    """The state of the graph of `plan` out of those of two graphs that know the same."""
    found = dict(one)
    for name in _NUMBERS:
        if name in found:
            both = ((one[name], number_positions(its, plan)), (other[name], number_positions(others, plan)))
            found[name] = _widened(both, its.n_numbers, others.n_numbers, plan.n_numbers)
    for name, prefix in _COLUMNS.items():
        if name in found:
            tables = [(one[name], its.programs.columns), (other[name], others.programs.columns)]
            found[name] = _columns_of(tables, plan.programs.columns, prefix)
            events = next((state for state, own in ((one, its), (other, others)) if own.has_notice), one)[name]
            for column in _EVENTS.get(name, ()):
                if column in events.column_names and column not in found[name].column_names:
                    found[name] = found[name].append_column(column, events.column(column))
    return found


def know_the_same(one: State, its: TrendPlan, other: State, others: TrendPlan) -> bool:
    """Whether two graphs agree in what both know."""
    common = replace(
        its,
        numbers=tuple(number for number in its.numbers if number in others.numbers),
        programs=replace(
            its.programs, columns=tuple(name for name in its.programs.columns if name in others.programs.columns)
        ),
        query=replace(its.query, notice=its.query.notice if others.has_notice else None),
    )
    mine, theirs = part_of(one, its, common), part_of(other, others, common)
    return agree(mine, theirs, counts_events=its.ties is ast.Ties.SOURCE or its.counts_positions)


def agree(mine: State, theirs: State, *, counts_events: bool) -> bool:
    """Whether two states with the same numbers and columns are equal bit for bit; `counts_events`: also in how many
    events came."""
    if mine.keys() != theirs.keys():
        return False
    if counts_events and _n_seen(mine) != _n_seen(theirs):
        return False
    return all(name == "windows" or _are_equal(mine[name], theirs[name]) for name in mine) and _are_open_alike(
        mine["windows"], theirs["windows"]
    )


def _n_seen(state: State) -> object:
    return (state["keys"].schema.metadata or {}).get(b"n_seen")


def _are_equal(one: pa.Table, other: pa.Table) -> bool:
    """Bit for bit; NULL and NaN are what they are."""
    if len(one) != len(other) or set(one.column_names) != set(other.column_names):
        return False
    return all(_bytes(one, name) == _bytes(other, name) for name in one.column_names)


def _bytes(table: pa.Table, name: str) -> object:
    values = table.column(name)
    if pa.types.is_primitive(values.type) and not values.null_count:
        return values.to_numpy().tobytes()
    return values.to_pylist()


def _are_open_alike(one: pa.Table, other: pa.Table) -> bool:
    """Partitions without an open window begin anew with their next event."""
    mine, theirs = (
        np.stack([table.column(name).to_numpy() for name in ("first_open", "last_open", "order")])
        for table in (one, other)
    )
    live = mine[0] <= mine[1]
    return bool(np.array_equal(live, theirs[0] <= theirs[1]) and np.array_equal(mine[:, live], theirs[:, live]))


def _chosen(table: pa.Table, positions: np.ndarray, n_numbers: int) -> pa.Table:
    return pa.table(
        {
            name: table.column(name).to_numpy().reshape(-1, n_numbers)[:, positions].reshape(-1)
            for name in table.column_names
        }
    )


def _widened(both: Sequence[tuple[pa.Table, np.ndarray]], n_one: int, n_other: int, n_numbers: int) -> pa.Table:
    found: dict[str, np.ndarray] = {}
    for name in both[0][0].column_names:
        parts = [
            (table.column(name).to_numpy().reshape(-1, n), positions)
            for (table, positions), n in zip(both, (n_one, n_other), strict=True)
        ]
        whole = np.empty((len(parts[0][0]), n_numbers), parts[0][0].dtype)
        for values, positions in parts:
            whole[:, positions] = values
        found[name] = whole.reshape(-1)
    return pa.table(found)


def _columns_of(tables: Sequence[tuple[pa.Table, Sequence[str]]], wanted: Sequence[str], prefix: str) -> pa.Table:
    """The first of the tables, with the wanted columns of events, by number, each from the first that has it."""
    first, names = tables[0]
    numbered = {f"{prefix}{number}" for number in range(len(names))}
    found = {name: first.column(name) for name in first.column_names if name not in numbered}
    for number, name in enumerate(wanted):
        known = ((table, f"{prefix}{list(own).index(name)}") for table, own in tables if name in own)
        source = next(((table, column) for table, column in known if column in table.column_names), None)
        if source is not None:
            found[f"{prefix}{number}"] = source[0].column(source[1])
        elif prefix == "columns":  # vertices have none but where edges read them; nobody asks for these ones
            found[f"{prefix}{number}"] = np.full(len(first), np.nan)
    return pa.table(found)


def _without(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    return table.drop_columns([name for name in columns if name in table.column_names])


__all__ = ["FORMAT", "State", "agree", "joined", "know_the_same", "of_this_format", "part_of"]
