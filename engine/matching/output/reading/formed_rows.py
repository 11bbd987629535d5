"""Rows of an output form as columns: none is spelled out before it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from engine.events import BoolArray
from engine.language import ast
from engine.matching.output.bindings import bindings
from engine.matching.output.candidates import Candidates, Collapsing, candidates_of
from engine.matching.output.forms import NO_WINDOW, Formed
from engine.matching.output.listed import ListedMatches, Matches
from engine.matching.output.match_row import Binding, MatchRow, RowEnds
from engine.matching.output.reading.rows_as_arrow import rows_table
from engine.matching.output.rows import ChunkedRows
from engine.plan.model import BoundVariable, Plan
from engine.stream.interner import KnownTexts
from engine.stream.values import typed_value
from engine.uncertainty.possibilities import Possibilities, united

_MOST_UNITED = 200
"""Matches behind one row whose worlds are put together."""


@dataclass(frozen=True)
class Spelling:
    """What rows of a query need beside the matches: `variables` as `Results` has them, `strings` by code, `collapsing`
    of OUTPUT COLLAPSED, else None."""

    plan: Plan
    variables: Sequence[BoundVariable]
    strings: KnownTexts
    collapsing: Collapsing | None


class FormedRows(ChunkedRows):
    """The rows of `formed`; they stay valid whatever becomes of the run state.

    `cut`: bool, by match: of its last event some are missing, its row says so; None: of no match.
    """

    def __init__(self, spelling: Spelling, matches: Matches, formed: Formed, cut: BoolArray | None = None) -> None:
        self._cut = cut
        self._spelling = spelling
        self._matches = matches
        self._formed = formed

    def __len__(self) -> int:
        return len(self._formed.n_behind)

    def _part(self, start: int, stop: int) -> Sequence[MatchRow]:
        return FormedRows(self._spelling, self._matches, self._formed.at(slice(start, stop)), self._cut)

    @property
    def n_matches(self) -> int:
        """Matches behind the rows."""
        return int(self._formed.n_behind.sum())

    def to_arrow(self) -> pa.Table:
        """See `rows.rows_table`."""
        return rows_table(self)

    # ------------------------------------------------------------------ rows

    def _rows(self, start: int) -> list[MatchRow]:
        """A chunk from row `start` on."""
        plan, matches, formed = self._spelling.plan, self._matches, self._formed.at(slice(start, start + self.CHUNK))
        shown = matches.listed.chosen(formed.entries.match)
        events = matches.events
        first, last = shown.first, shown.last
        last_lo_ms = events.lo_ms[last].tolist()
        windows = list(zip(*(column.tolist() for column in formed.entries.windows), strict=True))
        confidence, count = formed.confidence.tolist(), formed.n_behind.tolist()
        first_ms, last_ms = events.lo_ms[first].tolist(), events.hi_ms[last].tolist()
        counts = plan.output in (ast.Output.COLLAPSED, ast.Output.COUNT)
        cut = [False] * len(count) if self._cut is None else self._cut[formed.entries.match].tolist()
        partition, values = shown.partition.tolist(), shown.values.tolist()
        bound = self._bindings(shown)
        candidates, exact = self._candidates(formed)
        ends = self._ends(shown, formed)
        possible = [
            known or bounded for known, bounded in zip(self._known(formed), self._possible(formed), strict=True)
        ]
        return [
            MatchRow(
                query=plan.name,
                key=matches.keys[partition[at]],
                first_lo_ms=first_ms[at],
                last_hi_ms=last_ms[at],
                bindings=bound[at],
                confidence=confidence[at],
                values={
                    item.name: typed_value(self._spelling.strings, value, item.type)
                    for item, value in zip(plan.returns, values[at], strict=True)
                },
                count=count[at],
                candidates=candidates[at],
                exact=exact[at],
                last_lo_ms=None if last_lo_ms[at] == last_ms[at] else last_lo_ms[at],
                possible=None if cut[at] and counts else possible[at],
                capped=cut[at],
                count_exact=not (cut[at] and counts),
                ends=ends[at],
                window=None if windows[at] == NO_WINDOW else windows[at][:2],
            )
            for at in range(len(count))
        ]

    def _ends(self, shown: ListedMatches, formed: Formed) -> Sequence[RowEnds]:
        """What LIMIT and TOP tell rows and windows apart by."""
        ids = self._matches.events.ids
        first, last = (ids.take(pa.array(rows)).to_pylist() for rows in (shown.first, shown.last))
        return list(map(RowEnds, first, last, formed.entries.opener.tolist()))

    def _possible(self, formed: Formed) -> list[Possibilities | None]:
        """P(at least one match) of rows that stand for several: no less than the best one's, no more than the sum."""
        n = len(formed.n_behind)
        if self._spelling.plan.output is ast.Output.SETS:
            return [None if c >= 1.0 else Possibilities.known_by(c, c) for c in formed.confidence.tolist()]
        several = (formed.n_behind > 1) & (formed.confidence < 1.0)
        if not several.any():
            return [None] * n
        starts = np.append(0, np.cumsum(formed.n_behind)[:-1])
        sums = np.add.reduceat(self._matches.listed.confidence[formed.behind()], starts)
        return [
            Possibilities.known_by(lower, min(upper, 1.0)) if one else None
            for one, lower, upper in zip(several.tolist(), formed.confidence.tolist(), sums.tolist(), strict=True)
        ]

    def _known(self, formed: Formed) -> list[Possibilities | None]:
        """In which worlds a match behind each row is one; None where that is not known of all of them."""
        known, n = self._matches.possible, len(formed.n_behind)
        if known is None or self._matches.unfinished:
            return [None] * n
        found: list[Possibilities | None] = []
        starts = formed.starts.tolist()
        for match, start, n_behind in zip(formed.entries.match.tolist(), starts, formed.n_behind.tolist(), strict=True):
            own = [match] if n_behind == 1 else formed.groups[start : start + n_behind].tolist()
            possible = [each for number in own if (each := known[number]) is not None]
            complete = len(possible) == n_behind <= _MOST_UNITED
            found.append(united(possible) if complete else None)
        return found

    def _bindings(self, shown: ListedMatches) -> list[dict[str, Binding]]:
        return bindings_of(self._spelling.variables, self._matches, shown)

    def _candidates(self, formed: Formed) -> tuple[Sequence[Mapping[str, tuple[str, ...]] | None], Sequence[bool]]:
        """Candidates and whether they are exact, row by row."""
        collapsing, n = self._spelling.collapsing, len(formed.n_behind)
        if collapsing is None:
            return [None] * n, [True] * n
        found = candidates_of(self._matches, formed.behind(), formed.n_behind, collapsing)
        ids = self._matches.events.ids.take(pa.array(found.positions)).to_pylist()
        return [self._named(found, row, ids) for row in range(n)], found.exact.tolist()

    def _named(self, found: Candidates, row: int, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Ids by variable; of a repeated group that occurs, also the variables that no iteration has."""
        bounds = found.bounds[row].tolist()
        own = list(zip(self._spelling.variables, bounds, bounds[1:], strict=False))
        groups = {variable.path[0] for variable, start, end in own if variable.path and end > start}
        return {
            variable.name: tuple(ids[start:end])
            for variable, start, end in own
            if end > start or (variable.path and variable.path[0] in groups)
        }


def bindings_of(variables: Sequence[BoundVariable], matches: Matches, shown: ListedMatches) -> list[dict[str, Binding]]:
    """The bindings of each of these matches, whose rows are positions in `matches.events`."""
    if shown.iterations is not None:
        ids = matches.events.ids.take(pa.array(shown.rows)).to_pylist()
        components, offsets = shown.components.tolist(), shown.offsets.tolist()
        iterations = [tuple(each) for each in shown.iterations.tolist()]
        parts = [slice(start, end) for start, end in pairwise(offsets)]
        return [bindings(variables, ids[own], components[own], iterations[own]) for own in parts]
    n_variables = len(variables)
    slot = np.repeat(np.arange(shown.n_matches), np.diff(shown.offsets)) * n_variables + shown.components
    order = np.argsort(slot, kind="stable")
    ids = matches.events.ids.take(pa.array(shown.rows[order])).to_pylist()
    bounds = np.searchsorted(slot[order], np.arange(shown.n_matches * n_variables + 1)).tolist()
    return [
        {
            variable.name: tuple(ids[bounds[at] : bounds[at + 1]])
            for at, variable in enumerate(variables, start)
            if bounds[at + 1] > bounds[at]
        }
        for start in range(0, shown.n_matches * n_variables, n_variables)
    ]


def capped(rows: Sequence[MatchRow], *, count_exact: bool) -> list[Sequence[MatchRow]]:
    """The rows in parts, the last one saying that a bound stopped the listing; there is at least one."""
    last = rows[-1] if count_exact else replace(rows[-1], possible=None)  # what was not listed may have happened too
    return [rows[:-1], [replace(last, capped=True, count_exact=count_exact)]]


__all__ = ["FormedRows", "Spelling", "bindings_of", "capped"]
