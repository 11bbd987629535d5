"""What the postponed runtime lists, for the selections and output forms that look at matches one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.events import Int64Array
from engine.matching.output.entry_work import SpelledMatches
from engine.matching.output.listed import Cut, ListedMatches, Matches
from engine.matching.pairs.context import Context
from engine.matching.pairs.listing import Listed
from engine.matching.pairs.possible_rows import PossibleRows
from engine.matching.pairs.shared_listing import ListedBlock


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


def matches_of_blocks(
    context: Context,
    blocks: Sequence[ListedBlock],
    spelled: SpelledMatches | None,
    *,
    unfinished: bool,
    in_order: bool,
    cut: Cut = (),
) -> Matches:
    """The same for matches that are columns already, in listing order, as far as the stream has paid for their events.

    `spelled`: what they are paid from; None: they have been paid for. `in_order`: no two of them differ in their
    partitions alone. `cut`: see `Matches`.
    """
    store, nothing = context.store, ListedMatches.none(len(context.plan.returns))
    ends = np.cumsum([len(block) for block in blocks])
    rows = np.concatenate([nothing.rows, *(block.pairs[block.match_pair, 1] for block in blocks)])

    def spell(numbers: Int64Array) -> ListedMatches:
        of = np.searchsorted(ends, numbers, side="right")
        parts, order = [nothing], [numbers[:0]]
        for at in np.unique(of).tolist():
            own = np.flatnonzero(of == at)
            parts.append(_of_block(blocks[at].chosen(numbers[own] - (ends[at] - len(blocks[at])))))
            order.append(own)
        whole, positions = ListedMatches.joined(parts), np.concatenate(order)
        return whole if (positions[1:] > positions[:-1]).all() else whole.chosen(np.argsort(positions))

    if spelled is None:
        listed = spell(np.arange(len(rows)))
    else:
        last, hi_ms = store.position[rows], store.t_hi_ms[rows]
        listed, lasts = spelled.listed(last, hi_ms, spell)
        if len(lasts):
            ends_ms = dict(zip(last.tolist(), hi_ms.tolist(), strict=True))
            cut = (*cut, *((number, ends_ms[number]) for number in dict.fromkeys(lasts.tolist())))
    return Matches.of_store(context.store, listed, unfinished=unfinished, in_order=in_order, cut=cut)


def _of_block(block: ListedBlock) -> ListedMatches:
    offsets, rows, steps = block.chains
    return ListedMatches(
        partition=block.pairs[block.match_pair, 2],
        offsets=offsets,
        rows=rows,
        components=steps,
        iterations=None,
        confidence=block.confidence,
        values=block.values,
    )


__all__ = ["matches_of", "matches_of_blocks"]
