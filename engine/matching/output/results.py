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
from engine.events import FOREVER_MS, BoolArray, Int64Array
from engine.kernels.confidence.sequences import TOLERANCE
from engine.language import ast
from engine.matching.output.bounds import limit
from engine.matching.output.candidates import Collapsing
from engine.matching.output.entry_work import FORM_TIMES, Items, pay
from engine.matching.output.forms import (
    Entries,
    Formed,
    LatestEnds,
    all_rows,
    counted,
    first_of_windows,
    merged_sets,
    non_overlapping,
    top,
)
from engine.matching.output.listed import Matches, no_matches
from engine.matching.output.listing_order import listing_order
from engine.matching.output.match_row import MatchRow
from engine.matching.output.reading.formed_rows import FormedRows, Spelling, capped
from engine.matching.output.rows import joined_rows
from engine.matching.output.selection import Consumption, first_of_each_end
from engine.matching.output.windows import Windows, windows_of
from engine.matching.protocol import Limits
from engine.plan.model import BoundVariable, Plan
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner

PER_MATCH = 60
PER_NESTED_MATCH = 6_000
"""Steps that a match costs: where it is in order or ordered by numbers, and where it is spelled to be ordered."""
PER_WINDOW = 30
PER_ENTRY = 200
PER_BOUND = 20
PER_MERGED = 1_500
"""Steps that each of its windows costs: where it is only told in them, where a form looks at it in each, for each event
that CONSUME looks at, and where SETS may have to look at the matches of a set one by one."""

_PARTS = frozenset({"results", "windows", "held_events", "held_matches"})
_STATE_VERSION = 1
ALL_MATCHES = 2**62


def needs_results(plan: Plan) -> bool:
    """Whether matches become rows by more than listing them."""
    return plan.query.output is not ast.Output.ALL or plan.forms_from_listed


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

    def buffered_from_ms(self, watermark_ms: int) -> int:
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
        self._spelling = Spelling(plan, self._variables, interner.known, _collapsing(plan, variables, shapes))
        self._consumption = Consumption(frozenset(names.index(name) for name in query.consume))
        self._windows = windows or windows_of(plan, interner)
        self._buffered = no_matches(len(plan.returns), self._depth)
        self._latest = LatestEnds()
        self._work = limits.brake.account(limits.work_budget, FORM_TIMES)
        self._united = limits.brake.account(limits.work_budget, FORM_TIMES)
        """For sets whose orders share worlds."""
        self._united.terms[0] = self._united.terms[1]
        self._cut: dict[int, tuple[int, int]] = {}  # event, see `Cut` -> its t_hi, and from when on it is cut

    @property
    def n_wanted(self) -> int:
        """See `TakesMatches.n_wanted`."""
        if needs_results(self.plan) or self._threshold > 0 or self._buffered.n_matches:
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
        # An event may be cut twice: of what it decides, and of what waits for a negation at the end.
        self.n_unfinished += len({number for number, _ in found.cut} - self._cut.keys())
        self._cut.update({number: (hi_ms, -FOREVER_MS) for number, hi_ms in found.cut})
        found = found.without_cut()
        matches = self._in_order(self._decided(Matches.joined([self._buffered, found]), watermark_ms, longest_ms))
        most = limit(self.plan, self.limits)
        if self._windows is not None and self._counts and self._only_tells:
            formed = self._counted_in_windows(matches, self._windows, most + 1)
        else:
            entries = self._selected(matches, self._entries(matches, most + 1))
            if self.plan.limit is not None and self.plan.output is ast.Output.ALL:
                entries = first_of_windows(entries, self.plan.limit + 1)
            formed = self._formed(matches, entries, most + 1)
        rows = self._rows(matches, formed.at(slice(most)), cut=len(formed.n_behind) > most)
        self._forget(watermark_ms, longest_ms)
        return rows

    @property
    def _counts(self) -> bool:
        return self.plan.is_counted

    @property
    def _selects(self) -> bool:
        return self.plan.query.select_first or bool(self.plan.query.consume)

    def _in_order(self, matches: Matches) -> Matches:
        """Those that are sure enough, in listing order."""
        if self.plan.output is not ast.Output.SETS:
            sure = matches.listed.confidence >= self._threshold - TOLERANCE
            if not sure.all():
                matches = matches.chosen(np.flatnonzero(sure))
        return matches if matches.in_order else matches.chosen(listing_order(matches, self._variables))

    # --------------------------------------------------------------- deciding

    def buffered_from_ms(self, watermark_ms: int) -> int:
        """See `TakesMatches.buffered_from_ms`."""
        return self._buffered.ends_from_ms(watermark_ms)

    def _decided(self, matches: Matches, watermark_ms: int, longest_ms: int) -> Matches:
        """The matches that none still to come may displace, merge with or precede; the others are held."""
        due_ms = self._due_ms(matches, longest_ms)
        if due_ms is None:
            return matches
        decided: BoolArray = due_ms + self._trailing_ms < watermark_ms
        self._buffered = matches.chosen(np.flatnonzero(~decided)).compact()
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

    def _entries(self, matches: Matches, most: int) -> Entries:
        """The matches in their windows, as far as they are paid for; no more than `most` where nothing is chosen of
        them."""
        spans = None if self._windows is None else self._windows.spans(matches)
        n_entries = np.ones(matches.n_matches, np.int64) if spans is None else spans.n_entries(matches.n_matches)
        kept = self._paid(matches, self._per_match(matches), n_entries)
        if spans is None:
            return Entries.of_all(matches.n_matches).at(kept > 0)
        if self._only_tells:
            kept = _first(kept, most)
        return spans.at_most(kept).entries()

    def _counted_in_windows(self, matches: Matches, windows: Windows, most: int) -> Formed:
        """COUNT and COLLAPSED where nothing is chosen: all matches of one first and last event share windows."""
        pairs = counted(matches, Entries.of_all(matches.n_matches), matches.n_matches)
        shown = pairs.entries.match
        of_pairs = matches.chosen(shown)
        spans = windows.spans(of_pairs)
        kept = self._paid(of_pairs, pairs.n_behind * self._per_match(of_pairs), spans.n_entries(len(shown)))
        entries = spans.at_most(_first(kept, most)).entries()
        number = entries.match
        return pairs.in_windows(number, entries._replace(match=shown[number])).at(slice(most))

    def _paid(self, matches: Matches, fixed: Int64Array, n_entries: Int64Array) -> Int64Array:
        """In how many of its windows each match is kept."""
        last = matches.events.number[matches.last]
        paid = pay(self._work, Items(last, self._paid_at_ms(matches), fixed, n_entries, self._per_entry(matches)))
        if paid.cut:
            hi_ms = dict(zip(last.tolist(), matches.events.hi_ms[matches.last].tolist(), strict=True))
            for number, due_ms in paid.cut:
                self._cut.setdefault(number, (hi_ms[number], due_ms))
            self.n_unfinished += len(paid.cut)
        return paid.n_entries

    def _paid_at_ms(self, matches: Matches) -> Int64Array:
        """Times in whose order matches are decided, whatever the steps; equal ones in the order of last events."""
        events, query = matches.events, self.plan.query
        if query.select_first or query.consume:
            return np.zeros(matches.n_matches, np.int64)
        last_ms = events.hi_ms[matches.last]
        if query.output is ast.Output.NON_OVERLAPPING:
            return last_ms
        if query.output is ast.Output.SETS and matches.n_matches:
            last_ms = np.maximum.reduceat(events.hi_ms[matches.listed.rows], matches.listed.offsets[:-1])
        if self._trailing_ms:
            return np.maximum(last_ms, events.hi_ms[matches.first] + self._trailing_ms)
        return last_ms

    @property
    def _only_tells(self) -> bool:
        """Whether nothing is chosen or made of what is in a window."""
        plan = self.plan
        return not self._selects and (self._counts or (plan.output is ast.Output.ALL and plan.limit is None))

    def _per_entry(self, matches: Matches) -> Int64Array:
        """Steps that each window of a match costs, (n,)."""
        per_entry = np.full(matches.n_matches, PER_WINDOW if self._only_tells else PER_ENTRY)
        if self.plan.query.consume:
            per_entry += PER_BOUND * matches.n_events
        if self.plan.output is ast.Output.SETS:
            are_nested = matches.listed.iterations is not None
            per_entry += np.where(are_nested | matches.have_imprecise(), PER_MERGED, 0)
        return per_entry

    def _per_match(self, matches: Matches) -> Int64Array:
        """Steps that each match costs by itself, (n,): what it is alone decides, not what is found with it."""
        are_nested = matches.listed.iterations is not None
        return np.where(are_nested & matches.have_imprecise(), PER_NESTED_MATCH, PER_MATCH)

    def _selected(self, matches: Matches, entries: Entries) -> Entries:
        query = self.plan.query
        if query.select_first:
            entries = first_of_each_end(matches, entries)
        return self._consumption.accepted(matches, entries) if query.consume else entries

    def _formed(self, matches: Matches, entries: Entries, most: int) -> Formed:
        match self.plan.output:
            case ast.Output.SETS:
                lost: list[int] = []
                formed = merged_sets(matches, entries, self._threshold, lost, self._united, self._paid_at_ms(matches))
                self.n_unfinished += len(lost)
                return formed
            case ast.Output.COLLAPSED:
                return counted(matches, entries, most)
            case ast.Output.COUNT:
                return counted(matches, entries, most)
            case ast.Output.NON_OVERLAPPING:
                return non_overlapping(matches, entries, self._latest)
            case ast.Output.TOP:
                return top(matches, entries, self.plan.limit or 1)
            case _:
                return all_rows(matches, entries.at(np.arange(min(most, len(entries.match)))))

    def _forget(self, watermark_ms: int, longest_ms: int) -> None:
        """Forget what no match to come can touch: its first event is no earlier than this."""
        buffered_from_ms = watermark_ms - self._trailing_ms - longest_ms - self._waits_for_sets_ms(longest_ms)
        before_ms = buffered_from_ms - self.plan.within_ms
        self._consumption.forget(before_ms)
        if self._windows is not None:
            self._windows.forget(buffered_from_ms)
        self._cut = {number: when for number, when in self._cut.items() if when[0] >= before_ms}
        self._latest.forget(before_ms)

    # ------------------------------------------------------------------- rows

    def _rows(self, matches: Matches, formed: Formed, *, cut: bool) -> Sequence[MatchRow]:
        spelling = replace(self._spelling, strings=self._interner.known)
        rows = FormedRows(spelling, matches, formed, self._is_cut(matches))
        if matches.unfinished and not rows:
            self.n_unfinished += 1
        if not rows or not (cut or matches.unfinished):
            return rows
        counts = self.plan.output in (ast.Output.COLLAPSED, ast.Output.COUNT)
        return joined_rows(capped(rows, count_exact=not (counts and matches.unfinished)))

    def _is_cut(self, matches: Matches) -> BoolArray:
        """Matches of whose last event, or of whose first one where that decides, some are missing, bool (n,)."""
        found: BoolArray = np.zeros(matches.n_matches, np.bool_)
        if not self._cut:
            return found
        numbers = np.array(sorted(self._cut), np.int64)
        since_ms = np.array([self._cut[number][1] for number in numbers.tolist()], np.int64)
        paid_at_ms, known = self._paid_at_ms(matches), matches.events.number
        for deciding in (known[matches.last], ~known[matches.first]):
            at = np.minimum(np.searchsorted(numbers, deciding), len(numbers) - 1)
            found |= (numbers[at] == deciding) & (paid_at_ms >= since_ms[at])
        return found

    # ------------------------------------------------------------------ state

    def save(self) -> dict[str, pa.Table]:
        """The matches that wait, and what was chosen and consumed before."""
        state = {
            "ends": self._latest.save(),
            "consumed": self._consumption.save(),
            "cut": [[number, *when] for number, when in self._cut.items()],
            "work": self._work.save(),
            "united": self._united.save(),
        }
        meta = {"version": str(_STATE_VERSION), "state": json.dumps(state)}
        buffered = self._buffered.save()
        return {
            "results": pa.table({}).replace_schema_metadata(meta),
            "windows": pa.table({}) if self._windows is None else self._windows.save(),
            "held_events": buffered["events"],
            "held_matches": buffered["matches"],
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
        self._latest = LatestEnds.restored(saved["ends"])
        self._consumption.restore(saved["consumed"])
        self._cut = {number: (hi_ms, *(since_ms or [-FOREVER_MS])) for number, hi_ms, *since_ms in saved.get("cut", [])}
        if "work" in saved:  # states of before had no account
            self._work.restore(saved["work"])
        if "united" in saved:
            self._united.restore(saved["united"])
        if self._windows is not None:
            self._windows.restore(state["windows"])
        buffered = {"events": state["held_events"], "matches": state["held_matches"]}
        self._buffered = Matches.restored(buffered, len(self.plan.returns), self._depth)


def _first(kept: Int64Array, most: int) -> Int64Array:
    """The windows of the first items that have `most` between them, none of the others."""
    return np.where(np.cumsum(kept) - kept < most, kept, 0)


def _collapsing(
    plan: Plan, variables: Sequence[BoundVariable], shapes: Sequence[Sequence[int]] | None
) -> Collapsing | None:
    if plan.output is not ast.Output.COLLAPSED:
        return None
    return Collapsing(
        n_components=len(variables),
        kleene=frozenset(at for at, variable in enumerate(variables) if variable.kleene or variable.path),
        shapes=[tuple(range(len(variables)))] if shapes is None else shapes,
        strict_ties=plan.strict_ties,
    )


__all__ = ["ALL_MATCHES", "Results", "TakesMatches", "needs_results"]
