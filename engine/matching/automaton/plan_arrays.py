"""An automaton plan as the arrays of its kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from engine.errors import UnsupportedQueryError
from engine.events import TIME_ATTRIBUTE
from engine.kernels.automaton import tables as at
from engine.language import ast
from engine.plan.automaton.model import Action, AutomatonPlan, Check, Condition, Crossing, Guard, Term
from engine.plan.programs import strategy_number
from engine.stream.interner import Interner

_INDEXES = {
    ast.Index.SINGLE: at.ONLY,
    ast.Index.FIRST: at.FIRST_OF,
    ast.Index.LAST: at.LAST_OF,
    ast.Index.CURRENT: at.CURRENT_OF,
    ast.Index.PREVIOUS: at.PREVIOUS_OF,
}
_AGGREGATES = {
    "count": at.COUNT,
    "sum": at.SUM,
    "min": at.MIN,
    "max": at.MAX,
    "avg": at.AVG,
    "stddev": at.STDDEV,
    "first": at.VALUE_OF_FIRST,
    "last": at.VALUE_OF_LAST,
    "repeats": at.REPEATS,
}
_RANGES = {ast.Range.ALL: at.WHOLE, ast.Range.BEFORE_CURRENT: at.UP_TO_CURRENT, ast.Range.BEFORE_LAST: at.UP_TO_LAST}


class _Lists:
    """Rows of the arrays that edges and exits have ranges in."""

    def __init__(self) -> None:
        self.guards: list[tuple[int, int, int]] = []
        self.actions: list[tuple[int, int]] = []
        self.crossings: list[tuple[int, int]] = []
        self.checks: list[tuple[int, int, int, int]] = []

    def add_guards(self, guards: Iterable[Guard]) -> tuple[int, int]:
        first = len(self.guards)
        self.guards += [(g.counter, g.low, at.UNBOUNDED if g.high is None else g.high) for g in guards]
        return first, len(self.guards)

    def add_actions(self, actions: Iterable[Action]) -> tuple[int, int]:
        first = len(self.actions)
        self.actions += [(action.counter, int(action.restart)) for action in actions]
        return first, len(self.actions)

    def add_crossings(self, crossings: Iterable[Crossing]) -> tuple[int, int]:
        first = len(self.crossings)
        self.crossings += [(crossing.negation, int(crossing.iteration_begun)) for crossing in crossings]
        return first, len(self.crossings)

    def add_checks(self, checks: Iterable[Check]) -> tuple[int, int]:
        first = len(self.checks)
        self.checks += [(c.condition, c.depth, int(c.newest), int(c.before)) for c in checks]
        return first, len(self.checks)


def tables(plan: AutomatonPlan, interner: Interner) -> at.Tables:
    """The arrays of `plan` with strings coded as `interner` does."""
    automaton, lists = plan.states, _Lists()
    programs = automaton.programs
    edges = [
        [
            edge.source, edge.target, edge.occurrence, automaton.occurrences[edge.occurrence].variable,
            int(edge.blocks), *lists.add_guards(edge.guards), *lists.add_actions(edge.actions),
            *lists.add_crossings(edge.crossings), *lists.add_checks(edge.checks),
        ]
        for edge in automaton.edges
    ]  # fmt: skip
    exits = [
        [
            end.state,
            *lists.add_guards(end.guards),
            *lists.add_crossings(end.crossings),
            *lists.add_checks(end.checks),
        ]
        for end in automaton.exits
    ]
    conditions, contexts, terms = _conditions(automaton.conditions)
    return at.Tables(
        code=programs.code,
        bounds=programs.bounds,
        constants=programs.with_strings(interner.constant),
        edges=_table(edges, 13),
        state_edges=_starts([edge.source for edge in automaton.edges], automaton.n_states),
        exits=_table(exits, 7),
        state_exits=_starts([end.state for end in automaton.exits], automaton.n_states),
        guards=_table(lists.guards, 3),
        actions=_table(lists.actions, 2),
        crossings=_table(lists.crossings, 2),
        checks=_table(lists.checks, 4),
        conditions=conditions,
        contexts=contexts,
        terms=terms,
        paths=np.array([group for path in automaton.paths for group in path], np.int64),
        path_bounds=_bounds(automaton.paths),
        in_context=np.array(
            [
                [path[: len(condition.context)] == condition.context for path in automaton.paths]
                for condition in automaton.conditions
            ],
            np.bool_,
        ).reshape(-1, len(automaton.paths)),
        negations=_negations(plan),
        beside=_table([pair for negation in automaton.negations for pair in negation.beside], 2),
        parallel=_parallel(plan),
        returns=plan.return_programs,
        naming=_naming(plan),
        scalars=_scalars(plan),
    )


def _conditions(
    conditions: Sequence[Condition],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    rows: list[list[int]] = []
    contexts: list[int] = []
    terms: list[list[int]] = []
    for condition in conditions:
        first_term, first_group = len(terms), len(contexts)
        terms += [_term(term) for term in condition.terms]
        contexts += condition.context
        rows.append(
            [
                condition.program, first_term, len(terms), first_group, len(contexts), condition.stepping,
                condition.first_i,
            ]
        )  # fmt: skip
    return _table(rows, 7), np.array(contexts, np.int64), _table(terms, 5)


def _term(term: Term) -> list[int]:
    node = term.node
    if isinstance(node, ast.Attribute):
        return [_INDEXES[node.index], term.variable, term.column, term.depth, at.WHOLE]
    kind = _AGGREGATES.get(node.function)
    if kind is None:
        raise UnsupportedQueryError(
            f"the aggregate {node.function}() is not evaluated in this pattern",
            node.span,
            ", ".join(sorted(_AGGREGATES)),
            "use one of these, or a pattern that is a SEQ of components",
        )
    if node.name is None and node.function == "count":
        kind = at.COUNT_EVENTS
    return [kind, term.variable, term.column, term.depth, _RANGES[node.range]]


def _negations(plan: AutomatonPlan) -> npt.NDArray[np.int64]:
    rows, n_beside = [], 0
    for negation in plan.states.negations:
        rows.append([negation.start, n_beside, n_beside + len(negation.beside)])
        n_beside += len(negation.beside)
    return _table(rows, 3)


def _naming(plan: AutomatonPlan) -> npt.NDArray[np.int64]:
    automaton = plan.states
    closures = {occurrence.variable for occurrence in automaton.occurrences if occurrence.closure}
    names = automaton.variables[: automaton.n_positive]
    positions = {name: position for position, name in enumerate(sorted(names))}
    always = automaton.in_every_match()
    return _table([(positions[name], int(v in closures), int(v in always)) for v, name in enumerate(names)], 3)


def _parallel(plan: AutomatonPlan) -> npt.NDArray[np.int64]:
    n = len(plan.states.occurrences)
    found = np.full((n, n), -1, np.int64)
    for pair in plan.states.parallel:
        found[pair.left, pair.right] = pair.depth
    return found


def _scalars(plan: AutomatonPlan) -> npt.NDArray[np.int64]:
    automaton = plan.states
    depth = max((len(path) for path in automaton.paths), default=0)
    values = [0] * 9
    values[at.N_POSITIVE] = automaton.n_positive
    values[at.N_COUNTERS] = automaton.n_counters
    values[at.N_DEPTH] = depth
    values[at.HAVING] = plan.having_program
    values[at.WITHIN_MS] = plan.within_ms
    strict = plan.strict_ties
    values[at.STRICT_TIES] = int(strict)
    values[at.MUST_BE_KEYED] = int(bool(plan.broadcast))
    counted = plan.query.within_events is not None
    values[at.TIME_COLUMN] = plan.programs.columns.index(TIME_ATTRIBUTE) if strict and counted else -1
    values[at.STRATEGY] = strategy_number(plan.strategy)
    return np.array(values, np.int64)


def _table(rows: Sequence[Sequence[int]], width: int) -> npt.NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(-1, width)


def _starts(states: Sequence[int], n_states: int) -> npt.NDArray[np.int64]:
    return np.searchsorted(np.array(states, np.int64), np.arange(n_states + 1)).astype(np.int64)


def _bounds(paths: Sequence[tuple[int, ...]]) -> npt.NDArray[np.int64]:
    return np.append(0, np.cumsum([len(path) for path in paths])).astype(np.int64)


__all__ = ["tables"]
