"""The plan of a trend query as the arrays of its kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine.events import Float64Array, Int64Array
from engine.kernels.programs import opcodes
from engine.kernels.trends import arrays as ta
from engine.kernels.trends.numbers import ADDED, GREATEST, LAST_LIMB, LEAST, LIMB
from engine.plan.trends.model import Join, JoinWay, NumberKind, TrendPlan
from engine.plan.trends.template import Cuts

_OPS = {
    "<": opcodes.LT,
    "<=": opcodes.LE,
    ">": opcodes.GT,
    ">=": opcodes.GE,
    "=": opcodes.EQ,
    "!=": opcodes.NE,
}
_WAYS = {NumberKind.LEAST: LEAST, NumberKind.GREATEST: GREATEST}


class Indexed(NamedTuple):
    """An index: its place among stored states, the derived value that is its key, and 1.0, or -1.0 where keys are
    negated."""

    stored: int
    derived: int
    sign: float


class Values(NamedTuple):
    """What an inequality compares: derived values of the earlier and the later event, how, and the sign that makes
    smaller ones admitted."""

    earlier: int
    later: int
    how: int
    sign: float


class BroughtScan(NamedTuple):
    """A transition under one inequality or two, which events bring ahead: its number among scans, the position of its
    source among stored states, the state that it leads to, and what is compared."""

    scan: int
    stored: int
    target: int
    by: tuple[Values, ...]


@dataclass(frozen=True)
class TrendTables:
    """`template`: for kernels. `variables`: of each state, the positive ones first. `stored_states`: the states whose
    events are kept; `held_states`: those of negated patterns. `derived`: the order in which kernels have the values of
    `TrendPlan.derived` (`n_planned` of them), by their numbers there, each value once. `selection`: None under skip
    till any match."""

    template: ta.Template
    variables: tuple[str, ...]
    indexed: tuple[Indexed, ...]
    brought_scans: tuple[BroughtScan, ...]
    stored_states: tuple[int, ...]
    held_states: tuple[int, ...]
    derived: tuple[int, ...]
    n_planned: int
    keeps_columns: bool
    selection: ta.Selection | None


def trend_tables(plan: TrendPlan, constants: Float64Array) -> TrendTables:
    """The arrays; `constants` have the engine's codes of strings."""
    return _Builder(plan).tables(constants)


def saved_numbers(tables: TrendTables) -> tuple[int, ...]:
    """By which numbers derived values are known in a saved state: those of the plan, whatever their order here; places
    in the stream come after them."""
    n_more = int(tables.template.sizes[ta.N_DERIVED]) - len(tables.derived)
    n_planned = tables.n_planned
    return (*tables.derived, *range(n_planned, n_planned + n_more))


class _Lists:
    """A list of entries for each state, one after the other."""

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.items: list[int] = []

    def add(self, items: Iterable[int]) -> None:
        self.items += items
        self.ends.append(len(self.items))


class _Builder:
    def __init__(self, plan: TrendPlan) -> None:
        self.plan = plan
        self.positive = plan.templates.positive
        self.n_positive = len(self.positive.states)
        self.channels: dict[tuple[frozenset[int], Cuts], int] = {}
        self.stored: dict[int, int] = {}
        self.held: dict[int, int] = {}
        self.merged: dict[int, bool] = {}
        self.cuts: list[int] = []
        self.compared: list[tuple[int, int, int]] = []
        self.programs: list[int] = []
        self.indexed: list[Indexed] = []
        self.scan_of: dict[tuple[int, int], int] = {}
        first = _first_alike(plan)
        joins = [join for own in (plan.joins, *plan.negated_joins) for join in own]
        kept = {first[each.earlier]: None for join in joins for each in join.compared}
        self.n_kept = len(kept)
        self.derived = tuple(dict.fromkeys((*kept, *first)))
        self.derived_at = [self.derived.index(each) for each in first]

    def tables(self, constants: Float64Array) -> TrendTables:
        plan, n = self.plan, self.n_positive
        fed_by, feeds, scans, scan_rows = _Lists(), _Lists(), _Lists(), list[tuple[int, ...]]()
        for state in range(n):
            into = [join for join in plan.joins if join.target == state]
            fed_by.add(self._summed(into))
            rows = [self._scan(join) for join in into if join.way is not JoinWay.SUM]
            scans.add(range(len(scan_rows), len(scan_rows) + len(rows)))
            followed = (join.source for join in into if join.way is not JoinWay.SUM)
            self.scan_of.update(
                ((source, state), len(scan_rows) + position) for position, source in enumerate(followed)
            )
            scan_rows += rows
        self._add_negated(scans, scan_rows)
        end_channels, end_scans = self._ends(scan_rows)
        for state in range(n):
            feeds.add(number for (sources, _), number in self.channels.items() if state in sources)
        graphs = self._graphs(fed_by, feeds)
        killed_by = _Lists()
        for _, cuts in self.channels:
            killed_by.add(sorted(cuts))
        start_cuts = _Lists()
        for state in range(n):
            start_cuts.add(sorted(self.positive.starts.get(state, ())))
        contributions, rows = _Lists(), list[tuple[int, ...]]()
        for each in self.positive.states:
            own = self._contributions(each.variable)
            contributions.add(range(len(rows), len(rows) + len(own)))
            rows += own
        keeps_columns = bool(self.programs)
        sizes = np.zeros(18, np.int64)
        sizes[ta.N_POSITIVE] = n
        sizes[ta.N_STATES] = n + len(graphs.states)
        sizes[ta.N_NUMBERS] = plan.n_numbers
        sizes[ta.N_WINDOWS] = plan.n_windows
        sizes[ta.N_CHANNELS] = len(self.channels)
        sizes[ta.N_GRAPHS] = len(plan.templates.negated)
        sizes[ta.N_GRAPH_CHANNELS] = len(graphs.channels)
        sizes[ta.WITHIN_MS] = plan.within_ms
        sizes[ta.SLIDE_MS] = plan.slide_ms
        sizes[ta.N_STORED] = len(self.stored)
        sizes[ta.N_INDEXES] = len(self.indexed)
        sizes[ta.N_COLUMNS] = len(plan.programs.columns) if keeps_columns else 0
        sizes[ta.N_DERIVED] = len(self.derived) + (2 if plan.counts_positions else 0)
        sizes[ta.N_KEPT] = sizes[ta.N_DERIVED] if plan.counts_positions else self.n_kept
        sizes[ta.N_HELD] = len(self.held)
        sizes[ta.N_LIMBS] = plan.n_limbs
        sizes[ta.N_LENGTHS] = len(plan.windows)
        sizes[ta.N_EMITTED] = sum(-(-within // slide) for within, slide in plan.windows) or plan.n_windows
        ways = [ADDED, *(_WAYS.get(number.kind, ADDED) for number in plan.numbers)]
        for _ in range((plan.n_numbers - len(ways)) // max(1, plan.n_limbs)):
            ways += [*[LIMB] * (plan.n_limbs - 1), LAST_LIMB]
        template = ta.Template(
            sizes=sizes,
            ways=_numbers(ways),
            limbs=_numbers(plan.first_limbs),
            is_start=_numbers([*(int(s in self.positive.starts) for s in range(n)), *graphs.starts]),
            start_cut_ends=_numbers(start_cuts.ends),
            start_cuts=_numbers(start_cuts.items),
            fed_by_ends=_numbers(fed_by.ends),
            fed_by=_numbers(fed_by.items),
            feeds_ends=_numbers(feeds.ends),
            feeds=_numbers(feeds.items),
            scan_ends=_numbers(scans.ends),
            scans=_table(scan_rows, 8),
            compared=_table(self.compared, 3),
            programs=_numbers(self.programs),
            cuts=_numbers(self.cuts),
            contribution_ends=_numbers(contributions.ends),
            contributions=_table(rows, 3),
            stored=_numbers(
                [(self.stored if state < n else self.held).get(state, -1) for state in range(n + len(graphs.states))]
            ),
            is_merged=_numbers(int(self.merged[state]) for state in self.held),
            killed_by_ends=_numbers(killed_by.ends),
            killed_by=_numbers(killed_by.items),
            end_channels=_numbers(end_channels),
            end_scans=_numbers(end_scans),
            graph_of=_numbers([*([-1] * n), *graphs.graph_of]),
            ends_graph=_numbers([*([0] * n), *graphs.ends]),
            graph_killed_by_ends=_numbers(graphs.killed_by.ends),
            graph_killed_by=_numbers(graphs.killed_by.items),
            code=plan.programs.code,
            bounds=plan.programs.bounds,
            constants=constants,
            emitted_within=_numbers(within for within, _ in plan.windows),
            emitted_slide=_numbers(slide for _, slide in plan.windows),
        )
        variables = (*(state.variable for state in self.positive.states), *graphs.states)
        return TrendTables(
            template, variables, tuple(self.indexed), self._brought_scans(), tuple(self.stored), tuple(self.held),
            self.derived, len(plan.derived), keeps_columns, self._selection(),
        )  # fmt: skip

    # -------------------------------------------------------------- strategies

    def _selection(self) -> ta.Selection | None:
        if not self.plan.selects:
            return None
        taking, rows = _Lists(), list[tuple[int, int]]()
        for source in self.stored:
            own = [(other, self.scan_of[one, other]) for one, other in sorted(self.positive.taking) if one == source]
            taking.add(range(len(rows), len(rows) + len(own)))
            rows += own
        return ta.Selection(
            is_contiguous=_numbers([int(self.plan.is_contiguous)]),
            taking_ends=_numbers(taking.ends),
            taking=_table(rows, 2),
            length=np.zeros(len(self.stored), np.int64),
        )

    def _brought_scans(self) -> tuple[BroughtScan, ...]:
        return tuple(
            BroughtScan(
                self.scan_of[join.source, join.target], self.stored[join.source], join.target,
                tuple(
                    Values(self.derived_at[each.earlier], self.derived_at[each.later], _OPS[each.op], _sign(each.op))
                    for each in join.compared
                ),
            )
            for join in self.plan.joins
            if join.way in (JoinWay.INDEX, JoinWay.DOMINANCE)
        )  # fmt: skip

    # --------------------------------------------------------------- positive

    def _summed(self, into: Sequence[Join]) -> list[int]:
        """The channels of the transitions that need no look at single events: one for those with the same cuts."""
        sources: dict[Cuts, set[int]] = {}
        for join in into:
            if join.way is JoinWay.SUM:
                sources.setdefault(join.cuts, set()).add(join.source)
        return [self._channel(frozenset(states), cuts) for cuts, states in sources.items()]

    def _channel(self, sources: frozenset[int], cuts: Cuts) -> int:
        return self.channels.setdefault((sources, cuts), len(self.channels))

    def _scan(self, join: Join) -> tuple[int, ...]:
        self.stored.setdefault(join.source, len(self.stored))
        compared, programs, cuts = self._add_requested(join)
        if self.plan.counts_positions:  # a position, and the one before it: see `TrendIntake`
            position = len(self.derived)
            self.compared.append((position, opcodes.EQ, position + 1))
        index = -1
        if join.way is JoinWay.INDEX:
            (only,) = join.compared
            own = Indexed(self.stored[join.source], self.derived_at[only.earlier], _sign(only.op))
            if own not in self.indexed:
                self.indexed.append(own)
            index = self.indexed.index(own)
        return (
            join.source, compared, len(self.compared), programs, len(self.programs), cuts, len(self.cuts), index,
        )  # fmt: skip

    def _add_requested(self, join: Join) -> tuple[int, int, int]:
        """What is asked of neighbours; returns where comparisons, programs and cuts begin."""
        begun = len(self.compared), len(self.programs), len(self.cuts)
        self.compared += [
            (self.derived_at[each.earlier], _OPS[each.op], self.derived_at[each.later]) for each in join.compared
        ]
        self.programs += join.programs
        self.cuts += sorted(join.cuts)
        return begun

    def _ends(self, scan_rows: list[tuple[int, ...]]) -> tuple[list[int], list[int]]:
        by_cuts: dict[Cuts, set[int]] = {}
        for state, cuts in self.positive.ends.items():
            by_cuts.setdefault(cuts, set()).add(state)
        channels: list[int] = []
        scans: list[int] = []
        for cuts, states in by_cuts.items():
            if cuts <= self.plan.instant:
                channels.append(self._channel(frozenset(states), cuts))
                continue
            for state in sorted(states):
                scans.append(len(scan_rows))
                scan_rows.append(self._scan(Join(state, state, JoinWay.SCAN, cuts=cuts)))
        return channels, scans

    def _contributions(self, variable: str) -> list[tuple[int, ...]]:
        columns = self.plan.programs.columns
        found: list[tuple[int, ...]] = []
        for number, each in enumerate(self.plan.numbers, start=1):
            if each.variable != variable:
                continue
            kind = {
                NumberKind.EVENTS: ta.OF_EVENTS,
                NumberKind.KNOWN: ta.OF_KNOWN,
                NumberKind.SUM: ta.OF_WHOLE_VALUES if each.is_whole else ta.OF_REAL_VALUES,
                NumberKind.LEAST: ta.OF_EXTREMES,
                NumberKind.GREATEST: ta.OF_EXTREMES,
            }[each.kind]
            column = -1 if each.attribute is None else columns.index(each.attribute)
            found.append((number, kind, column))
        return found

    # ---------------------------------------------------------------- negated

    def _add_negated(self, scans: _Lists, scan_rows: list[tuple[int, ...]]) -> None:
        """The transitions of negated templates that look at events."""
        first = self.n_positive
        for number, template in enumerate(self.plan.templates.negated):
            looking = [join for join in self.plan.negated_joins[number] if join.way is not JoinWay.SUM]
            for state in range(len(template.states)):
                own = [join for join in looking if join.target == state]
                scans.add(range(len(scan_rows), len(scan_rows) + len(own)))
                for join in own:
                    source = first + join.source
                    self.held.setdefault(source, len(self.held))
                    self.merged[source] = join.way is JoinWay.BEST
                    compared, programs, cuts = self._add_requested(join)
                    ends = len(self.compared), len(self.programs), len(self.cuts)
                    scan_rows.append((source, compared, ends[0], programs, ends[1], cuts, ends[2], -1))
            first += len(template.states)

    def _graphs(self, fed_by: _Lists, feeds: _Lists) -> _Graphs:
        found = _Graphs()
        for number, template in enumerate(self.plan.templates.negated):
            first = len(found.states)
            own: dict[tuple[frozenset[int], Cuts], int] = {}
            read: list[list[int]] = []
            for state in range(len(template.states)):
                sources: dict[Cuts, set[int]] = {}
                for join in self.plan.negated_joins[number]:
                    if join.target == state and join.way is JoinWay.SUM:
                        sources.setdefault(join.cuts, set()).add(first + join.source)
                keys = [(frozenset(states), cuts) for cuts, states in sources.items()]
                for key in keys:
                    own.setdefault(key, len(found.channels) + len(own))
                read.append([own[key] for key in keys])
            for number_of_state, variable in enumerate(each.variable for each in template.states):
                found.states.append(variable)
                found.graph_of.append(number)
                found.starts.append(int(number_of_state in template.starts))
                found.ends.append(int(number_of_state in template.ends))
                fed_by.add(read[number_of_state])
                feeds.add(channel for (sources, _), channel in own.items() if first + number_of_state in sources)
            for _, cuts in own:
                found.killed_by.add(sorted(cuts))
            found.channels += own.values()
        return found


class _Graphs:
    def __init__(self) -> None:
        self.states: list[str] = []
        self.graph_of: list[int] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.channels: list[int] = []
        self.killed_by = _Lists()


def _first_alike(plan: TrendPlan) -> list[int]:
    """Of each of `TrendPlan.derived` the first that has the same value of every event: programs are of one event,
    whatever the register that they read it by."""
    known: dict[bytes, int] = {}
    found: list[int] = []
    for number, program in enumerate(plan.derived):
        code = plan.programs.code[plan.programs.bounds[program] : plan.programs.bounds[program + 1]].copy()
        code[code[:, 0] == opcodes.COLUMN, 1] = 0
        found.append(known.setdefault(code.tobytes(), number))
    return found


def _sign(op: str) -> float:
    """Of keys, so that smaller ones are admitted."""
    return 1.0 if op in ("<", "<=") else -1.0


def _numbers(values: Iterable[int]) -> Int64Array:
    return np.array(list(values), np.int64)


def _table(rows: Sequence[Sequence[int]], width: int) -> Int64Array:
    return np.array(rows, np.int64).reshape(len(rows), width)


__all__ = ["BroughtScan", "Indexed", "TrendTables", "Values", "saved_numbers", "trend_tables"]
