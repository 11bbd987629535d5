"""From the matches that a runtime has decided to the rows of its query: selection, output form, limits.

For every runtime and whatever form it has no better way to. A runtime hands over its matches as soon as they are
decided; those that a match still to come may displace wait here, as part of the saved state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import AttributeType, BoolArray, Int64Array
from engine.kernels.confidence import TOLERANCE
from engine.language import ast
from engine.matching.base import Limits
from engine.matching.bindings import BoundVariable, comparable
from engine.matching.collapsed_candidates import Collapsing
from engine.matching.formed_rows import FormedRows, Spelling, bindings_of, capped
from engine.matching.interner import Interner
from engine.matching.listed import Key, Matches, as_key, no_matches
from engine.matching.output import limit
from engine.matching.output_forms import (
    Entries,
    Formed,
    Window,
    all_rows,
    as_window,
    counted,
    first_of_windows,
    in_listing_order,
    merged_sets,
    non_overlapping,
    top,
)
from engine.matching.rows import MatchRow, Value, joined_rows
from engine.matching.selection import Consumption, first_of_each_end
from engine.matching.stream import StreamColumns
from engine.matching.windowed import Windows, windows_of
from engine.plan.model import Plan

_PARTS = frozenset({"results", "windows", "held_events", "held_matches"})
_STATE_VERSION = 1
ALL_MATCHES = 2**62


def needs_results(plan: Plan) -> bool:
    """Whether matches become rows by more than listing them."""
    query = plan.query
    return query.output is not ast.Output.ALL or selects(plan)


def selects(plan: Plan) -> bool:
    """Whether the query has windows of its own, SELECT FIRST, CONSUME, user-defined aggregates, or keys that only the
    events of a match complete: these look at matches one by one."""
    query = plan.query
    if plan.later is not None or plan.partial_key:
        return True
    return query.slide_ms is not None or query.open_on is not None or query.select_first or bool(query.consume)


def bound_variables(plan: Plan) -> tuple[BoundVariable, ...]:
    """The variables of a sequence of components."""
    return tuple(BoundVariable(step.variable, step.kleene) for step in plan.steps)


class TakesMatches(Protocol):
    """What a runtime hands its matches to."""

    n_unfinished: int

    @property
    def n_wanted(self) -> int:
        """How many matches of the next `take` matter, the first in listing order; the last tells of more."""
        ...

    def take(
        self, found: Matches, stream: StreamColumns, watermark_ms: int, *, longest_ms: int = 0
    ) -> Sequence[MatchRow]:
        """The rows that are decided now that `found` are; see `Results.take`."""
        ...

    def held_from_ms(self, watermark_ms: int) -> int:
        """The earliest t_lo of the last events of matches that wait here, `watermark_ms` when that is earlier."""
        ...

    def save(self) -> dict[str, pa.Table]:
        """State as Arrow tables."""
        ...

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned."""
        ...


class Results:
    """The rows of one query.

    `variables`: the positive variables in textual order, which `ListedMatches.components` numbers. `trailing`: the
    query ends in a negation, so that a match may be decided as late as its first event + WITHIN. `shapes`: the
    sequences of variables that a match may be, none when it may be something else; None: all variables in their order.
    `windows`: the query's own, where these are not told by times.
    """

    def __init__(
        self,
        plan: Plan,
        interner: Interner,
        limits: Limits,
        variables: Sequence[BoundVariable],
        *,
        trailing: bool,
        shapes: Sequence[Sequence[int]] | None = None,
        windows: Windows | None = None,
    ) -> None:
        query = plan.query
        self.plan = plan
        self.limits = limits
        self.n_unfinished = 0
        self._interner = interner
        self._variables = tuple(variables)
        self._depth = max((len(variable.path) for variable in variables), default=0)
        self._trailing_ms = plan.within_ms if trailing else 0
        self._threshold = 0.0 if plan.confidence is None else float(plan.confidence)
        names = [variable.name for variable in variables]
        self._spelling = Spelling(plan, self._variables, self._value, _collapsing(plan, variables, shapes))
        self._consumption = Consumption(frozenset(names.index(name) for name in query.consume))
        self._windows = windows or windows_of(plan, interner)
        self._held = no_matches(len(plan.returns), self._depth)
        self._ends_ms: dict[tuple[Window, Key], int] = {}
        self._cut: dict[int, int] = {}

    @property
    def n_wanted(self) -> int:
        """See `TakesMatches.n_wanted`."""
        if needs_results(self.plan) or self._threshold > 0 or self._held.n_matches:
            return self.limits.max_listed + 1
        return min(limit(self.plan, self.limits), self.limits.max_listed) + 1

    def take(
        self, found: Matches, stream: StreamColumns, watermark_ms: int, *, longest_ms: int = 0
    ) -> Sequence[MatchRow]:
        """The rows that are decided now that `found` are, after the batch `stream`; to be called for every batch.

        `longest_ms`: the longest interval of an event that may still end a match with earlier stream order.
        """
        if self._windows is not None:
            self._windows.observe(stream)
        self._cut.update(found.cut)
        self.n_unfinished += len(found.cut)
        found = found.without_cut()
        matches = self._decided(Matches.joined([self._held, found]), watermark_ms, longest_ms)
        matches, entries = self._entries(matches)
        if self.plan.output is not ast.Output.SETS:
            entries = entries.at(matches.listed.confidence[entries.match] >= self._threshold - TOLERANCE)
        if self._windows is not None or not matches.in_order:
            entries = in_listing_order(matches, entries, lambda tied: self._ids(matches, tied))
        entries = self._selected(matches, entries)
        if self.plan.limit is not None and self.plan.output is ast.Output.ALL:
            entries = first_of_windows(entries, self.plan.limit + 1)
        most = limit(self.plan, self.limits)
        formed = self._formed(matches, entries, most + 1)
        rows = self._rows(matches, formed.at(slice(most)), cut=len(formed.n_behind) > most)
        self._forget(watermark_ms, longest_ms)
        return rows

    # --------------------------------------------------------------- deciding

    def held_from_ms(self, watermark_ms: int) -> int:
        """See `TakesMatches.held_from_ms`."""
        return self._held.ends_from_ms(watermark_ms)

    def _decided(self, matches: Matches, watermark_ms: int, longest_ms: int) -> Matches:
        """The matches that none still to come may displace, merge with or precede; the others are held."""
        due_ms = self._due_ms(matches, longest_ms)
        if due_ms is None:
            return matches
        decided: BoolArray = due_ms + self._trailing_ms < watermark_ms
        self._held = matches.chosen(np.flatnonzero(~decided)).compact()
        return matches.chosen(np.flatnonzero(decided))

    def _due_ms(self, matches: Matches, longest_ms: int) -> Int64Array | None:
        events, query = matches.events, self.plan.query
        due: list[Int64Array] = []
        if query.select_first or query.consume:
            # Whatever comes before in listing order ends in an event that begins no later.
            due.append(events.lo_ms[matches.last] + longest_ms + self._waits_for_sets_ms(longest_ms))
        if query.output is ast.Output.NON_OVERLAPPING:
            # With a negation at its end a match is decided by its first event, which may end later than its last one.
            due.append(events.hi_ms[matches.last] + (longest_ms if self._trailing_ms else 0))
        if query.output is ast.Output.SETS and matches.n_matches:
            due.append(np.maximum.reduceat(events.hi_ms[matches.listed.rows], matches.listed.offsets[:-1]))
        return np.maximum.reduce(due) if due else None

    def _waits_for_sets_ms(self, longest_ms: int) -> int:
        """How much longer a match is held that another order of its events may displace.

        Under SETS a match is decided when all its events have ended: one that its last event overlaps may end so much
        later, since no interval is longer than the window.
        """
        query = self.plan.query
        chooses = query.output is ast.Output.SETS and (query.select_first or bool(query.consume))
        return self.plan.within_ms if chooses and longest_ms else 0

    def _entries(self, matches: Matches) -> tuple[Matches, Entries]:
        if self._windows is None:
            return matches, Entries.of_all(matches.n_matches)
        entries, cut = self._windows.entries(matches, self.limits.max_listed)
        return replace(matches, unfinished=matches.unfinished or cut), entries

    def _selected(self, matches: Matches, entries: Entries) -> Entries:
        query = self.plan.query
        if query.select_first:
            entries = first_of_each_end(matches, entries)
        return self._consumption.accepted(matches, entries) if query.consume else entries

    def _formed(self, matches: Matches, entries: Entries, most: int) -> Formed:
        match self.plan.output:
            case ast.Output.SETS:
                lost: list[int] = []
                formed = merged_sets(matches, entries, self._threshold, lost)
                self.n_unfinished += len(lost)
                return formed
            case ast.Output.COLLAPSED:
                return counted(matches, entries, most, collapsed=True)
            case ast.Output.COUNT:
                return counted(matches, entries, most, collapsed=False)
            case ast.Output.NON_OVERLAPPING:
                return non_overlapping(matches, entries, self._ends_ms)
            case ast.Output.TOP:
                return top(matches, entries, self.plan.limit or 1)
            case _:
                return all_rows(matches, entries.at(np.arange(min(most, len(entries.match)))))

    def _forget(self, watermark_ms: int, longest_ms: int) -> None:
        """Forget what no match to come can touch: its first event is no earlier than this."""
        held_from_ms = watermark_ms - self._trailing_ms - longest_ms - self._waits_for_sets_ms(longest_ms)
        before_ms = held_from_ms - self.plan.within_ms
        self._consumption.forget(before_ms)
        if self._windows is not None:
            self._windows.forget(held_from_ms)
        self._cut = {number: hi_ms for number, hi_ms in self._cut.items() if hi_ms >= before_ms}
        self._ends_ms = {owner: end_ms for owner, end_ms in self._ends_ms.items() if end_ms >= before_ms}

    # ------------------------------------------------------------------- rows

    def _rows(self, matches: Matches, formed: Formed, *, cut: bool) -> Sequence[MatchRow]:
        rows = FormedRows(self._spelling, matches, formed, frozenset(self._cut))
        if matches.unfinished and not rows:
            self.n_unfinished += 1
        if not rows or not (cut or matches.unfinished):
            return rows
        counts = self.plan.output in (ast.Output.COLLAPSED, ast.Output.COUNT)
        return joined_rows(capped(rows, count_exact=not (counts and matches.unfinished)))

    def _value(self, number: float, kind: AttributeType) -> Value:
        if not np.isfinite(number):
            return None
        if kind is AttributeType.STRING:
            return self._interner.text(int(number))
        return int(number) if kind is AttributeType.INT else number

    def _ids(self, matches: Matches, numbers: Int64Array) -> list[tuple[object, ...]]:
        found = bindings_of(self._variables, matches, matches.listed.chosen(numbers))
        return [tuple((name, comparable(binding)) for name, binding in bound.items()) for bound in found]

    # ------------------------------------------------------------------ state

    def save(self) -> dict[str, pa.Table]:
        """The matches that wait, and what was chosen and consumed before."""
        state = {
            "ends": [[window, key, end_ms] for (window, key), end_ms in self._ends_ms.items()],
            "consumed": self._consumption.save(),
            "cut": list(self._cut.items()),
        }
        meta = {"version": str(_STATE_VERSION), "state": json.dumps(state)}
        held = self._held.save()
        return {
            "results": pa.table({}).replace_schema_metadata(meta),
            "windows": pa.table({}) if self._windows is None else self._windows.save(),
            "held_events": held["events"],
            "held_matches": held["matches"],
        }

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """Take over what `save` returned, other parts are left alone; raises StateError when it does not fit."""
        if missing := _PARTS - set(state):
            raise StateError(f"saved state of {self.plan.name} lacks {sorted(missing)}")
        meta: Mapping[bytes, bytes] = state["results"].schema.metadata or {}
        if meta.get(b"version") != str(_STATE_VERSION).encode():
            raise StateError(
                f"saved results of {self.plan.name} have version {meta.get(b'version')!r}, expected {_STATE_VERSION}"
            )
        saved: Mapping[str, Any] = json.loads(meta[b"state"])
        self._ends_ms = {(as_window(window), as_key(key)): end_ms for window, key, end_ms in saved["ends"]}
        self._consumption.restore(saved["consumed"])
        self._cut = dict(saved.get("cut", []))
        if self._windows is not None:
            self._windows.restore(state["windows"])
        held = {"events": state["held_events"], "matches": state["held_matches"]}
        self._held = Matches.restored(held, len(self.plan.returns), self._depth)


def _collapsing(
    plan: Plan, variables: Sequence[BoundVariable], shapes: Sequence[Sequence[int]] | None
) -> Collapsing | None:
    if plan.output is not ast.Output.COLLAPSED:
        return None
    return Collapsing(
        n_components=len(variables),
        kleene=frozenset(at for at, variable in enumerate(variables) if variable.kleene or variable.path),
        shapes=[tuple(range(len(variables)))] if shapes is None else shapes,
        strict_ties=plan.ties is ast.Ties.STRICT,
    )


__all__ = ["ALL_MATCHES", "Results", "TakesMatches", "bound_variables", "needs_results", "selects"]
