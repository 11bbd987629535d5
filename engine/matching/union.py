"""A query that is a union of several plans: the matches of all, equal bindings once, in one output form (DESIGN 3).

Each plan is evaluated by itself, by the runtime that suits it. Counted and collapsed rows of plans whose bindings
cannot be equal are merged as rows; everything else is made from the listed matches of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import FOREVER_MS, BoolArray, Int64Array
from engine.kernels.confidence.sequences import TOLERANCE
from engine.matching.brake import braked
from engine.matching.deduplication import distinct
from engine.matching.factory import branch_runtime
from engine.matching.output.bindings import comparable
from engine.matching.output.bounds import limit
from engine.matching.output.event_positions import EventPositions
from engine.matching.output.listed import Matches, no_matches
from engine.matching.output.match_row import EventPosition, MatchRow, RowPosition, flat_ids
from engine.matching.output.results import ALL_MATCHES, Results, TakesMatches
from engine.matching.output.rows import first_rows
from engine.matching.output.variables import bound_variables, shapes_of
from engine.matching.protocol import Limits, Runtime
from engine.matching.union_branch import UnionBranch
from engine.plan.evaluation import QueryEvaluation
from engine.plan.model import Plan
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner


class Collected:
    """Keeps the matches of a branch for the union to take; implements `TakesMatches`."""

    def __init__(self, n_returns: int) -> None:
        self.n_unfinished = 0
        self.longest_ms = 0
        self._none = no_matches(n_returns)
        self._found = self._none

    def take(
        self, found: Matches, stream: StreamColumns, watermark_ms: int, *, longest_ms: int = 0
    ) -> Sequence[MatchRow]:
        """No rows; `taken` gives the matches."""
        del stream, watermark_ms  # the union gives them to its own results
        self._found, self.longest_ms = found, longest_ms
        return []

    @property
    def n_wanted(self) -> int:
        """All: what the union makes of them is not known here."""
        return ALL_MATCHES

    def taken(self) -> Matches:
        """What was found since the last call."""
        found, self._found = self._found, self._none
        return replace(found, in_order=False)

    def buffered_from_ms(self, watermark_ms: int) -> int:
        """Nothing waits here."""
        return watermark_ms

    def save(self) -> dict[str, pa.Table]:
        """Nothing: matches are taken at once."""
        return {}

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Nothing was saved."""


class UnionRuntime:
    """Run state of a query of several branches; implements `engine.matching.protocol.Runtime`.

    `evaluation`: of the query, as a union.
    """

    def __init__(
        self, evaluation: QueryEvaluation, interner: Interner, limits: Limits, results: TakesMatches | None = None
    ) -> None:
        """`results`: what becomes of matches; None: the rows of the query's own output form."""
        head, variables = evaluation.plan, evaluation.variables
        branches = [branch.plan for branch in evaluation.branches]
        self.plan = head
        self.limits = limits
        self._merges_rows = evaluation.merges_rows
        self._contains = [any(_is_within(other, branch) for other in branches) for branch in branches]
        own = [branch.bound_variables for branch in branches]
        bound = bound_variables(branches, variables)
        self._positions = [np.array([variables.index(v.name) for v in part], np.int64) for part in own]
        self._depth = max((len(variable.path) for variable in bound), default=0)
        trailing = [branch.is_trailing for branch in branches]
        self._is_buffered = _holding(head, [frozenset(v.name for v in part) for part in own], trailing)
        self._buffered_ms = head.within_ms if any(trailing) else 0
        self._collected = [Collected(len(head.returns)) for _ in branches]
        alike = len({frozenset(v.name for v in part) for part in own}) < len(own)
        # Of matches that bind the same events in several ways it must be known in which worlds they are matches.
        limits_of_branch = replace(
            limits, possibilities=limits.possibilities or alike, n_sharing=limits.n_sharing * len(branches)
        )
        sinks: Sequence[Collected | None] = [None] * len(branches) if self._merges_rows else self._collected
        self._branches = [
            UnionBranch(branch.plan, branch_runtime(branch, interner, limits_of_branch, sink))
            for branch, sink in zip(evaluation.branches, sinks, strict=True)
        ]
        self._results: TakesMatches = results or Results(
            head, interner, limits, bound, trailing=any(trailing), shapes=shapes_of(branches, variables)
        )
        self._buffered = no_matches(len(head.returns), self._depth)
        self._event_positions = EventPositions(head.types.union(*(branch.types for branch in branches)))

    @property
    def branch_runtimes(self) -> list[Runtime]:
        """See `HasBranches`."""
        return [branch.runtime for branch in self._branches]

    @property
    def n_rows(self) -> int:
        """Events kept, by each branch for itself."""
        return sum(branch.n_rows for branch in self._branches)

    @property
    def n_rejected(self) -> int:
        """See `Runtime.n_rejected`; the most of any branch, for they reject the same events."""
        return max(branch.n_rejected for branch in self._branches)

    @property
    def n_unfinished(self) -> int:
        """See `Runtime.n_unfinished`."""
        return self._results.n_unfinished + sum(branch.n_unfinished for branch in self._branches)

    @braked
    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """See `Runtime.advance`."""
        emitted = [branch.advance(stream, watermark_ms) for branch in self._branches]
        if self._merges_rows:
            return self._merged(emitted, stream, watermark_ms)
        parts = [self._found_by(number) for number in range(len(self._branches))]
        ready = [part for part, holds in zip(parts, self._is_buffered, strict=True) if not holds]
        waiting = [part for part, holds in zip(parts, self._is_buffered, strict=True) if holds]
        decided = self._decided(Matches.joined([self._buffered, *waiting]), watermark_ms)
        found = Matches.joined([*ready, decided]) if ready else decided
        longest_ms = max(collected.longest_ms for collected in self._collected)
        return self._results.take(distinct(found), stream, watermark_ms, longest_ms=longest_ms)

    def _merged(
        self, emitted: Sequence[Sequence[MatchRow]], stream: StreamColumns, watermark_ms: int
    ) -> Sequence[MatchRow]:
        """The rows of the branches as those of the union, no further than every branch has told its own."""
        self._event_positions.put(stream.batch)
        most = limit(self.plan, self.limits)
        ended = [len(rows) >= most and rows[-1].capped for rows in emitted]
        merged = merged_rows(self._as_far_as_exact(emitted), self._event_positions, ended)
        reach_ms = self._buffered_ms + self.plan.within_ms + 2 * self._event_positions.longest_ms
        self._event_positions.forget(max(watermark_ms - reach_ms, -FOREVER_MS))
        return first_rows(merged, self.limits.max_rows)

    def _as_far_as_exact(self, emitted: Sequence[Sequence[MatchRow]]) -> list[Sequence[MatchRow]]:
        """Of the candidates of a branch those of another one within it can be selected, too: where no row of that one
        is merged with a row, these selections are no matches."""
        return [
            [replace(row, exact=row.candidates is None) for row in own] if contains else own
            for own, contains in zip(emitted, self._contains, strict=True)
        ]

    def output_watermark_ms(self, watermark_ms: int) -> int:
        """See `Runtime.output_watermark_ms`."""
        output_ms = min(branch.output_watermark_ms(watermark_ms) for branch in self._branches)
        return self._results.buffered_from_ms(self._buffered.ends_from_ms(output_ms))

    def _found_by(self, number: int) -> Matches:
        """The matches of a branch in the union's numbers of variables."""
        return in_union(self._collected[number].taken(), self._positions[number], self._depth)

    def _decided(self, matches: Matches, watermark_ms: int) -> Matches:
        """The matches that no equal one of another branch may follow any more; the others are held."""
        if not matches.n_matches:
            return matches
        latest = np.maximum.reduceat(matches.events.hi_ms[matches.listed.rows], matches.listed.offsets[:-1])
        due: BoolArray = latest + self._buffered_ms < watermark_ms
        self._buffered = matches.chosen(np.flatnonzero(~due)).compact().without_cut()
        return matches.chosen(np.flatnonzero(due))

    # ------------------------------------------------------------------ state

    def save(self) -> dict[str, pa.Table]:
        """The states of the branches, "NUMBER:part", the union's results, and the matches that it holds."""
        state = {
            f"{number}:{part}": table
            for number, branch in enumerate(self._branches)
            for part, table in branch.save().items()
        }
        buffered = self._buffered.save()
        return {
            **state,
            **self._results.save(),
            "union_events": buffered["events"],
            "union_matches": buffered["matches"],
            "union_places": self._event_positions.save(),
        }

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned; raises StateError when it does not fit."""
        if missing := {"union_events", "union_matches"} - set(state):
            raise StateError(f"saved state of {self.plan.name} lacks {sorted(missing)}")
        for number, branch in enumerate(self._branches):
            prefix = f"{number}:"
            branch.restore({k.removeprefix(prefix): table for k, table in state.items() if k.startswith(prefix)})
        self._results.restore(state)
        buffered = {"events": state["union_events"], "matches": state["union_matches"]}
        self._buffered = Matches.restored(buffered, len(self.plan.returns), self._depth)
        if "union_places" in state:  # states of before had none: events of one time come in the order of their ids
            self._event_positions.restore(state["union_places"])


def merged_rows(
    emitted: Sequence[Sequence[MatchRow]], event_positions: EventPositions, ended: Sequence[bool] = ()
) -> list[MatchRow]:
    """Counted rows of several branches, each in listing order, in that of all: those of one key, first and last event
    as one, with their counts added, candidates united, the best match shown.

    The bindings behind any two of them differ. A row that unites candidates is not `exact`. `ended`: of which branches
    there may be more rows after their last ones; what comes after the first of these is left out.
    """
    rows = [row for own in emitted for row in own]
    ends = _placed(rows, event_positions)
    numbers = np.cumsum([len(own) for own in emitted]) - 1
    last = min((ends[at] for at, is_ended in zip(numbers.tolist(), ended, strict=False) if is_ended), default=None)
    groups: dict[RowPosition, dict[object, list[MatchRow]]] = {}
    for row, position in zip(rows, ends, strict=True):
        if last is None or position <= last:
            groups.setdefault(position, {}).setdefault(row.key, []).append(row)
    merged: list[MatchRow] = []
    for position in sorted(groups):
        found = [_merged(group) for group in groups[position].values()]
        merged += sorted(found, key=_by_bindings) if len(found) > 1 else found
    if last is not None:
        merged[-1] = replace(merged[-1], capped=True)
    return merged


def _placed(rows: Sequence[MatchRow], event_positions: EventPositions) -> list[RowPosition]:
    """The positions of the last and the first event of each row; those of events that are alone at their times say no
    more than these."""
    lasts = [(row.last_hi_ms if row.last_lo_ms is None else row.last_lo_ms, _last_id(row)) for row in rows]
    firsts = [(row.first_lo_ms, _first_id(row)) for row in rows]
    ids: dict[int, set[str]] = {}
    for lo_ms, event_id in (*lasts, *firsts):
        ids.setdefault(lo_ms, set()).add(event_id)
    known = event_positions.of([(lo_ms, one) for lo_ms, several in ids.items() if len(several) > 1 for one in several])

    def position_of(lo_ms: int, event_id: str) -> EventPosition:
        return known.get(event_id) or (lo_ms, 0, 0, event_id)

    return [(position_of(*last), position_of(*first)) for last, first in zip(lasts, firsts, strict=True)]


def _first_id(row: MatchRow) -> str:
    return next(event_id for binding in row.bindings.values() for event_id in flat_ids(binding))


def _last_id(row: MatchRow) -> str:
    binding = next(binding for binding in reversed(list(row.bindings.values())) if binding)
    *_, last = flat_ids(binding[-1:])
    return last


def _by_bindings(row: MatchRow) -> tuple[object, ...]:
    return tuple((name, comparable(ids)) for name, ids in row.bindings.items())


def _longest_first(row: MatchRow) -> tuple[object, ...]:
    return -len(row.event_ids), _by_bindings(row)


def _merged(group: Sequence[MatchRow]) -> MatchRow:
    if len(group) == 1:
        return group[0]
    most_sure = max(row.confidence for row in group)
    best = min((row for row in group if row.confidence > most_sure - TOLERANCE), key=_longest_first)
    candidates: dict[str, tuple[str, ...]] | None = None
    if best.candidates is not None:
        candidates = {}
        for row in group:
            for variable, ids in (row.candidates or {}).items():
                candidates[variable] = tuple(dict.fromkeys((*candidates.get(variable, ()), *ids)))
    return replace(
        best,
        count=sum(row.count for row in group),
        count_exact=all(row.count_exact for row in group),
        candidates=candidates,
        exact=candidates is None,
        capped=any(row.capped for row in group),
    )


def in_union(found: Matches, positions: Int64Array, depth: int) -> Matches:
    """Matches of a branch whose variables have these numbers in the union, in groups so deep at most."""
    listed = found.listed
    iterations = None
    if depth:
        iterations = np.full((len(listed.rows), depth), -1, np.int64)
        if listed.iterations is not None:
            iterations[:, : listed.iterations.shape[1]] = listed.iterations
    return replace(found, listed=listed._replace(components=positions[listed.components], iterations=iterations))


def _is_within(other: Plan, branch: Plan) -> bool:
    """Whether a branch goes without some of what stands between the ends of another one, and is the same else."""
    inner, outer = ([step.variable for step in plan.steps] for plan in (other, branch))
    return set(inner) < set(outer) and inner[:1] == outer[:1] and inner[-1:] == outer[-1:]


def _holding(head: Plan, variables: Sequence[frozenset[str]], trailing: Sequence[bool]) -> list[bool]:
    """Which branches' matches wait for equal ones of others, or (counted rows) for those of the same events."""
    if head.is_counted and any(trailing):
        return [True] * len(variables)
    return [variables.count(bound) > 1 for bound in variables]


__all__ = [
    "Collected",
    "UnionRuntime",
    "distinct",
    "in_union",
    "merged_rows",
]
