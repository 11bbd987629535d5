"""OUTPUT, CONFIDENCE, LIMIT and TOP as definitions over the list of all matches (DESIGN 3, "Output").

The rows have the fields of the engine's MatchRow, so that any runtime can be compared with them; confidences are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, pairwise, permutations, product

from engine.errors import UnsupportedQueryError
from engine.events import EventBatch
from engine.language import ast
from engine.language.resolver import ResolvedQuery
from engine.reference.conditions import Keys
from engine.reference.expressions import Binding
from engine.reference.matches import FoundMatch, find_matches, listing_order
from engine.reference.observed import ObservedEvent
from engine.reference.returned import returned_values
from engine.reference.worlds import can_be_before


@dataclass(frozen=True)
class ReferenceRow:
    """One row of output; the fields mean what the engine's MatchRow says.

    For COLLAPSED and COUNT a row stands for all matches with its first and last event: `bindings`, `confidence` and
    `values` are those of the most confident one (the longest of these, then the first listed), `count` is exact.
    """

    query: str
    key: tuple[tuple[str, object], ...]
    first_lo_ms: int
    last_hi_ms: int
    bindings: dict[str, tuple[str, ...]]
    confidence: Fraction
    values: dict[str, object]
    count: int = 1
    count_exact: bool = True
    candidates: dict[str, tuple[str, ...]] | None = None
    exact: bool = True
    capped: bool = False


def reference_output(resolved: ResolvedQuery, batch: EventBatch) -> list[ReferenceRow]:
    """The rows of the complete stream, in stream order of last event, first event, bindings; TOP by confidence.

    When LIMIT leaves rows out, the last one kept is marked `capped`.
    """
    query = resolved.query
    found = find_matches(resolved, batch)
    if query.output is not ast.Output.SETS:
        found = [match for match in found if _is_confident(query, match.confidence)]
    rows = _FORMS[query.output](resolved, found)
    if query.limit is not None and len(rows) > query.limit:
        kept = rows[: query.limit]
        return [*kept[:-1], replace(kept[-1], capped=True)] if kept else []
    return rows


def _is_confident(query: ast.Query, confidence: Fraction) -> bool:
    """A threshold means the decimal number that was written: 0.9 is nine tenths."""
    if query.confidence is None:
        return True
    if isinstance(query.confidence, ast.Parameter):
        raise UnsupportedQueryError(f"parameter :{query.confidence.name} has no value", query.confidence.span)
    return confidence >= Fraction(repr(query.confidence))


def _row(resolved: ResolvedQuery, match: FoundMatch) -> ReferenceRow:
    return ReferenceRow(
        query=resolved.name,
        key=_key(resolved, match),
        first_lo_ms=match.sequence[0].lo_ms,
        last_hi_ms=match.sequence[-1].hi_ms,
        bindings=match.ids,
        confidence=match.confidence,
        values=returned_values(resolved, match.binding),
    )


def _key(resolved: ResolvedQuery, match: FoundMatch) -> tuple[tuple[str, object], ...]:
    owners = Keys(resolved.query, resolved.schema).of(match.sequence)
    return tuple((name, event.raw[name]) for name, event in owners.items())


def _all(resolved: ResolvedQuery, found: Sequence[FoundMatch]) -> list[ReferenceRow]:
    return [_row(resolved, match) for match in found]


def _sets(resolved: ResolvedQuery, found: Sequence[FoundMatch]) -> list[ReferenceRow]:
    """Matches with equal event sets per variable are one: no two orders share a world, so confidences add up."""

    def event_sets(match: FoundMatch) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return tuple((variable, tuple(sorted(ids))) for variable, ids in match.ids.items())

    rows = []
    for group in _groups(found, event_sets):
        total = sum((match.confidence for match in group), start=Fraction(0))
        if _is_confident(resolved.query, total):
            best = _best(group)
            rows.append((listing_order(best), replace(_row(resolved, best), confidence=total, count=len(group))))
    return [row for _, row in sorted(rows, key=lambda item: item[0])]


def _collapsed(resolved: ResolvedQuery, found: Sequence[FoundMatch]) -> list[ReferenceRow]:
    rows = _counted(resolved, found)
    groups = _groups(found, _ends)
    strict_ties = resolved.query.ties is ast.Ties.STRICT
    full = []
    for row, group in zip(rows, groups, strict=True):
        candidates = _candidates(group)
        ids = {variable: tuple(event.event_id for event in events) for variable, events in candidates.items()}
        kleene = {variable for variable in candidates if resolved.variables[variable].kleene}
        n_orders = _n_in_order(candidates, kleene, _ends(group[0]), strict_ties=strict_ties)
        full.append(replace(row, candidates=ids, exact=n_orders == len(group)))
    return full


def _counted(resolved: ResolvedQuery, found: Sequence[FoundMatch]) -> list[ReferenceRow]:
    return [replace(_row(resolved, _best(group)), count=len(group)) for group in _groups(found, _ends)]


def _ends(match: FoundMatch) -> tuple[str, str]:
    return (match.sequence[0].event_id, match.sequence[-1].event_id)


def _groups(found: Sequence[FoundMatch], key: Callable[[FoundMatch], Hashable]) -> list[list[FoundMatch]]:
    """Groups of equal key in the order of their first members."""
    groups: dict[Hashable, list[FoundMatch]] = {}
    for match in found:
        groups.setdefault(key(match), []).append(match)
    return list(groups.values())


def _best(group: Sequence[FoundMatch]) -> FoundMatch:
    """The most confident match, of these the longest, of these the first listed."""
    return min(group, key=lambda match: (-match.confidence, -len(match.sequence), listing_order(match)))


def _candidates(group: Sequence[FoundMatch]) -> dict[str, list[ObservedEvent]]:
    """Variable -> the events it has in at least one match, in stream order."""
    candidates: dict[str, dict[str, ObservedEvent]] = {}
    for match in group:
        for variable, events in match.binding.items():
            candidates.setdefault(variable, {}).update({event.event_id: event for event in events})
    return {
        variable: sorted(events.values(), key=lambda event: event.stream_order)
        for variable, events in candidates.items()
    }


def _n_in_order(candidates: Binding, kleene: Collection[str], ends: tuple[str, str], *, strict_ties: bool) -> int:
    """How many combinations of candidates, one or (Kleene) some per variable, have these ends and a possible order."""
    choices = []
    for variable, events in candidates.items():
        sizes = range(1, len(events) + 1) if variable in kleene else range(1, 2)
        choices.append(list(chain.from_iterable(permutations(events, size) for size in sizes)))
    n_in_order = 0
    for chosen in product(*choices):
        sequence = tuple(chain.from_iterable(chosen))
        if (sequence[0].event_id, sequence[-1].event_id) != ends or len(set(sequence)) < len(sequence):
            continue
        if all(can_be_before(before, after, strict_ties=strict_ties) for before, after in pairwise(sequence)):
            n_in_order += 1
    return n_in_order


def _non_overlapping(resolved: ResolvedQuery, found: Sequence[FoundMatch]) -> list[ReferenceRow]:
    """Per partition: the earliest end, then the earliest start, the longest, ids; the next starts strictly later."""

    def preference(match: FoundMatch) -> tuple[object, ...]:
        first, last = match.sequence[0], match.sequence[-1]
        return (
            last.hi_ms,
            last.stream_order,
            first.lo_ms,
            first.stream_order,
            -len(match.sequence),
            listing_order(match),
        )

    chosen = []
    for partition in _groups(found, lambda match: _key(resolved, match)):
        end_ms: int | None = None
        for match in sorted(partition, key=preference):
            if end_ms is None or match.sequence[0].lo_ms > end_ms:
                chosen.append(match)
                end_ms = match.sequence[-1].hi_ms
    return [_row(resolved, match) for match in sorted(chosen, key=listing_order)]


def _top(resolved: ResolvedQuery, found: Sequence[FoundMatch]) -> list[ReferenceRow]:
    ranked = sorted(found, key=lambda match: (-match.confidence, listing_order(match)))
    return [_row(resolved, match) for match in ranked[: resolved.query.top_k]]


_FORMS: dict[ast.Output, Callable[[ResolvedQuery, Sequence[FoundMatch]], list[ReferenceRow]]] = {
    ast.Output.ALL: _all,
    ast.Output.SETS: _sets,
    ast.Output.COLLAPSED: _collapsed,
    ast.Output.COUNT: _counted,
    ast.Output.NON_OVERLAPPING: _non_overlapping,
    ast.Output.TOP: _top,
}


__all__ = ["ReferenceRow", "reference_output"]
