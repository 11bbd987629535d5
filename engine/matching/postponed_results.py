"""What the postponed runtime lists, for the selections and output forms that look at matches one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.matching.listed import Cut, ListedMatches, Matches
from engine.matching.possible_rows import PossibleRows
from engine.matching.postponed_context import Context
from engine.matching.postponed_listing import Listed
from engine.matching.shared_listing import ListedBlock


def matches_of(
    context: Context, found: Sequence[Listed], *, unfinished: bool, possible: PossibleRows | None = None
) -> Matches:
    """The matches as arrays, with their RETURN values; the store's rows have positions.

    `possible`: what rows carry of the worlds in which each is a match.
    """
    n_returns = len(context.plan.returns)
    chains = [np.array(match.chain, np.int64) for match in found]
    steps = [np.array(match.steps, np.int64) for match in found]
    values = np.empty((len(found), n_returns), np.float64)
    if n_returns:
        for number, (chain, step) in enumerate(zip(chains, steps, strict=True)):
            values[number] = context.returned(chain, step)
    nothing = np.empty(0, np.int64)
    listed = ListedMatches(
        partition=np.array([match.partition for match in found], np.int64),
        offsets=np.append(0, np.cumsum([len(chain) for chain in chains])).astype(np.int64),
        rows=np.concatenate([nothing, *chains]),
        components=np.concatenate([nothing, *steps]),
        iterations=None,
        confidence=np.array([match.confidence for match in found], np.float64),
        values=values,
    )
    worlds = None if possible is None else tuple(map(possible.conditions_of, found))
    return Matches.of_store(context.store, listed, unfinished=unfinished, possible=worlds)


def matches_of_blocks(context: Context, blocks: Sequence[ListedBlock], *, unfinished: bool, cut: Cut = ()) -> Matches:
    """The same for matches that are columns already; `cut`: see `Matches`."""
    nothing = ListedMatches.none(len(context.plan.returns))
    chains = [block.chains for block in blocks]
    lengths = [np.diff(nothing.offsets), *(np.diff(offsets) for offsets, _, _ in chains)]
    listed = ListedMatches(
        partition=np.concatenate([nothing.partition, *(block.pairs[block.match_pair, 2] for block in blocks)]),
        offsets=np.append(0, np.cumsum(np.concatenate(lengths))).astype(np.int64),
        rows=np.concatenate([nothing.rows, *(rows for _, rows, _ in chains)]),
        components=np.concatenate([nothing.components, *(steps for _, _, steps in chains)]),
        iterations=None,
        confidence=np.concatenate([nothing.confidence, *(block.confidence for block in blocks)]),
        values=np.concatenate([nothing.values, *(block.values for block in blocks)]),
    )
    return Matches.of_store(context.store, listed, unfinished=unfinished, cut=cut)


__all__ = ["matches_of", "matches_of_blocks"]
