"""Matches one by one: listing them, merging equal sets, the most confident ones, the ones that do not overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.events import Int64Array
from engine.kernels.confidence.ordering import may_precede
from engine.kernels.pairs.search import TOLERANCE, search
from engine.kernels.pairs.shared_search import FREE_STEPS
from engine.kernels.pairs.status import COMPLETE, REFUSED_SKEW
from engine.matching.pairs.context import Context, refused_skew
from engine.matching.pairs.shared_listing import ListedBlock, Parts, Ranks, SharedListing
from engine.matching.work_account import WorkAccount

LISTING_TIMES = 25
"""Steps of listing in the time of one of the work budget's."""

PER_MATCH = 1_000
"""Steps in the time that an output form takes for one match: some microseconds."""

_PER_ORDER = 900
"""Steps in the time that an order of a set takes beside its search: some 10 us."""

PER_CANDIDATE = 2
PER_PAIR = 1_000
"""Steps in the time that a search takes before its first one: by event around the pair, and in all."""
_PER_SEARCH = 3_000
"""Steps in the time that the shared search takes for a single pair, beside its looks at events."""
_PER_STEP = 40
"""Steps of the shared search in the time of one that looks for negated events."""

_TOGETHER = 1_024
"""Pairs that are made into numbers of Python at once."""

Pair = tuple[int, int, int]
"""First row, last row, partition."""

PairsOf = Callable[[Int64Array], Int64Array]
"""From rows that may be last to the pairs that end in them, int64 (n, 3)."""

PartsOf = Callable[[Int64Array], Parts]
"""The same in parts."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One match: its events in order (row numbers), the component of each, its confidence.

    `n_orders`: matches that were merged into it (SETS).
    """

    partition: int
    chain: tuple[int, ...]
    steps: tuple[int, ...]
    confidence: float
    n_orders: int = 1

    @property
    def sets(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Partition and, without order, which event stands in which component."""
        return self.partition, tuple(sorted(zip(self.steps, self.chain, strict=True)))


@dataclass
class Listing:
    """Lists the matches of pairs; `unfinished` is set when a bound stopped it."""

    context: Context
    threshold: float
    max_matches: int
    work: WorkAccount
    per_match: int = 0
    unfinished: bool = False
    free_steps: Int64Array = field(default_factory=lambda: np.array([FREE_STEPS], np.int64))
    _ranks: Ranks = field(init=False)

    def __post_init__(self) -> None:
        self._ranks = Ranks(self.context.store, self.context.longest_ms)

    def matches(self, pairs: Parts) -> list[Listed]:
        """The matches of all pairs, at most `max_matches`."""
        if not self.context.plan.negations:
            return self._shared(pairs, self.max_matches)
        found: list[Listed] = []
        for part in pairs:
            if not self.work.left:
                self.unfinished = True
                break
            for pair in one_by_one(part()):
                if len(found) >= self.max_matches or not self.work.left:
                    self.unfinished = True
                    return found
                found += self.of_pair(pair, self.max_matches - len(found))
        return found

    def blocks(self, pairs: Parts) -> list[ListedBlock]:
        """The same for a plan without negations, as columns in listing order."""
        listing = self._listing(self.max_matches)
        found = listing.blocks(pairs)
        self.unfinished |= listing.unfinished
        return found

    def best(self, pairs: Parts, k: int, least: float) -> list[ListedBlock]:
        """See `SharedListing.best`; for a plan without negations."""
        listing = self._listing(self.max_matches)
        found = listing.best(pairs, k, least)
        self.unfinished |= listing.unfinished
        return found

    def _listing(self, capacity: int) -> SharedListing:
        return SharedListing(
            self.context, self.threshold, capacity, self.work, self.free_steps, self._ranks, self.per_match
        )

    def _shared(self, pairs: Parts, capacity: int) -> list[Listed]:
        listing = self._listing(capacity)
        found = [match for block in listing.blocks(pairs) for match in _listed(block)]
        self.unfinished |= listing.unfinished
        return found

    def of_pair(self, pair: Pair, capacity: int) -> list[Listed]:
        """The matches of one pair, at most `capacity`."""
        context = self.context
        if not self.work.left:
            self.unfinished = True
            return []
        if not context.plan.negations:
            self.work.settle(_PER_SEARCH + PER_CANDIDATE * abs(pair[1] - pair[0]))
            return self._shared([lambda: np.array([pair], np.int64)], capacity)
        near = context.neighbourhood(*pair)
        status, n, n_work, confidences, offsets, chain, steps, _ = search(
            context.compiled.tables, context.events, context.masks.begin, context.masks.take, context.masks.negated,
            near.candidates, near.blocks, near.negated, near.first, near.last, self.threshold,
            max(self.work.left // _PER_STEP, 1), capacity, True,
        )  # fmt: skip
        n_around = len(near.candidates) + len(near.negated)
        self.work.settle(_PER_STEP * n_work + PER_CANDIDATE * n_around + PER_PAIR + self.per_match * n)
        if status == REFUSED_SKEW:
            raise refused_skew(context.plan)
        self.unfinished |= status != COMPLETE
        bounds, rows, parts = offsets.tolist(), chain.tolist(), steps.tolist()
        return [
            Listed(
                near.partition,
                tuple(rows[bounds[k] : bounds[k + 1]]),
                tuple(parts[bounds[k] : bounds[k + 1]]),
                float(confidences[k]),
            )
            for k in range(n)
        ]


def one_by_one(pairs: Int64Array) -> Iterator[Pair]:
    """Pairs, int64 (n, 3), as numbers."""
    for start in range(0, len(pairs), _TOGETHER):
        yield from map(tuple, pairs[start : start + _TOGETHER].tolist())


def _listed(block: ListedBlock) -> Iterator[Listed]:
    offsets, rows, steps = (column.tolist() for column in block.chains)
    partitions = block.pairs[block.match_pair, 2].tolist()
    for k, confidence in enumerate(block.confidence.tolist()):
        own = slice(offsets[k], offsets[k + 1])
        yield Listed(partitions[k], tuple(rows[own]), tuple(steps[own]), confidence)


def merged_sets(listing: Listing, lasts: Int64Array, parts_of: PartsOf, threshold: float) -> list[Listed]:
    """OUTPUT SETS: one match per event set, with the most confident order and the sum of all orders' confidences.

    A set is decided with the event of its last component that is latest in (t_hi, row): `lasts` are those. The other
    orders of the set may end in events that overlap it.
    """
    result: list[Listed] = []
    listing.per_match = _PER_ORDER
    for owner in lasts:
        if not listing.work.left:
            listing.unfinished = True
            break
        groups: dict[object, list[Listed]] = {}
        rivals = _rivals(listing.context, int(owner))
        listing.work.settle(_PER_SEARCH + PER_PAIR * len(rivals))
        for match in listing.matches(parts_of(rivals)):
            if _owner(listing.context, match) == owner:
                groups.setdefault(match.sets, []).append(match)
        for group in groups.values():
            total = sum(match.confidence for match in group)
            if total >= threshold - TOLERANCE:
                best = best_of(listing.context, group)
                result.append(Listed(best.partition, best.chain, best.steps, min(total, 1.0), len(group)))
    return result


def _rivals(context: Context, owner: int) -> Int64Array:
    """`owner` and the rows decided before it that may be last in an order of a set with it."""
    rows = [owner]
    if context.plan.steps[-1].kleene:
        events, ends = context.events, context.masks.ends(context.n_rows)
        lo = events.lo_ms[: context.n_rows]
        # What comes after the owner anywhere ends behind its beginning; of one clock only what ends no earlier does.
        start = np.searchsorted(lo, lo[owner] - context.longest_ms)
        near = np.arange(start, np.searchsorted(lo, events.hi_ms[owner], side="right"))
        near = near[ends[near] & (near != owner)]
        hi = events.hi_ms[near]
        near = near[(hi < events.hi_ms[owner]) | ((hi == events.hi_ms[owner]) & (near < owner))]
        rows += [row for row in near.tolist() if may_precede(events, owner, row)]
    return np.array(sorted(rows), np.int64)


def _owner(context: Context, match: Listed) -> int:
    hi = context.events.hi_ms
    rows = match.chain[-match.steps.count(match.steps[-1]) :]
    return rows[0] if len(rows) == 1 else max(rows, key=lambda row: (hi[row], row))


def best_of(context: Context, group: Sequence[Listed]) -> Listed:
    """The most confident match, of these the longest, of these the first in listing order."""
    top = max(match.confidence for match in group)
    close = [match for match in group if match.confidence > top - TOLERANCE]
    longest = max(len(match.chain) for match in close)
    return min((m for m in close if len(m.chain) == longest), key=lambda m: listing_order(context, m))


def listing_order(context: Context, match: Listed) -> tuple[object, ...]:
    """Sort key: last event, first event, then the ids by variable in pattern order."""
    return match.chain[-1], match.chain[0], tuple(bound_ids(context, match.chain, match.steps).items())


def bound_ids(context: Context, chain: Sequence[int], steps: Sequence[int]) -> dict[str, tuple[str, ...]]:
    """Event ids by variable."""
    texts = [context.event_id(row) for row in chain]
    bound: dict[str, tuple[str, ...]] = {}
    start = 0
    for step in context.plan.steps:  # a chain has its components in this order
        end = start + steps.count(step.position)
        bound[step.variable] = tuple(texts[start:end])
        start = end
    return bound


def non_overlapping(
    listing: Listing, lasts: Int64Array, pairs_of: PairsOf, ends_ms: dict[int, int]
) -> Iterator[Listed]:
    """OUTPUT NON_OVERLAPPING: per partition the earliest end, then earliest start, longest, ids.

    ends_ms: end of the match chosen last by partition, updated; the next one starts strictly later.
    """
    context = listing.context
    lo, hi = context.events.lo_ms, context.events.hi_ms
    ends = np.full(context.store.n_partitions, -(2**62), np.int64)
    for partition, end_ms in ends_ms.items():
        ends[partition] = end_ms
    for last in sorted(lasts.tolist(), key=lambda row: (hi[row], row)):
        if not listing.work.left:
            listing.unfinished = True
            break
        pairs = pairs_of(np.array([last], np.int64))
        pairs = pairs[lo[pairs[:, 0]] > ends[pairs[:, 2]]]
        pairs = pairs[np.lexsort((pairs[:, 0], lo[pairs[:, 0]], pairs[:, 2]))]
        for own in np.split(pairs, np.flatnonzero(np.diff(pairs[:, 2])) + 1):
            for pair in one_by_one(own):
                found = listing.of_pair(pair, listing.max_matches)
                if found:
                    longest = max(len(match.chain) for match in found)
                    candidates = [match for match in found if len(match.chain) == longest]
                    ends_ms[pair[2]] = ends[pair[2]] = int(hi[last])
                    yield min(candidates, key=lambda match: listing_order(context, match))
                    break


__all__ = [
    "LISTING_TIMES",
    "PER_CANDIDATE",
    "PER_MATCH",
    "PER_PAIR",
    "Listed",
    "Listing",
    "Pair",
    "PairsOf",
    "best_of",
    "bound_ids",
    "listing_order",
    "merged_sets",
    "non_overlapping",
    "one_by_one",
]
