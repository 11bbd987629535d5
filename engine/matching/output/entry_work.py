"""What output forms over listed matches may cost: paid, as the searches are, by the events of the stream.

A match may be in thousands of windows, and a form looks at it in each. The events pay into an account of the query
(`engine.matching.work_account`), which each last event takes its matches' cost from: what is left out depends on the
stream alone. Of a last event that has more than is left the first matches are kept, in listing order, and of the last
one of these the first windows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from engine.events import Int64Array
from engine.matching.output.listed import ListedMatches
from engine.matching.protocol import Limits
from engine.matching.work_account import WorkAccount

FORM_TIMES = 25
"""Steps in the time of one of the work budget's: about 7 ns."""


_EVENTS_PER_STEP = 4
"""So many of the budget's steps are taken by an event of a match, as in the search of automata: memory, too."""
_SPELLED_TOGETHER = 4_096


class Items(NamedTuple):
    """What is paid for, in listing order: matches, or rows that stand for some.

    last: number of the last event; due_ms: when it was decided, of matches of one stream in the order of deciding;
    fixed: steps for each by itself; n_entries: in so many windows it is; per_entry: steps for each of these; all int64
    (n,).
    """

    last: Int64Array
    due_ms: Int64Array
    fixed: Int64Array
    n_entries: Int64Array
    per_entry: Int64Array


class Paid(NamedTuple):
    """In how many of its windows each item is kept, int64 (n,); the last events of which something is left out, with
    the time at which that was decided."""

    n_entries: Int64Array
    cut: tuple[tuple[int, int], ...]


def pay(account: WorkAccount, items: Items) -> Paid:
    """Take the cost of the items from the account; in the order of deciding, last event by last event."""
    order = np.lexsort((items.last, items.due_ms))
    last, due_ms = items.last[order], items.due_ms[order]
    starts = np.flatnonzero(np.append(True, (np.diff(last) != 0) | (np.diff(due_ms) != 0))[: len(last)])
    if not len(starts):
        return Paid(items.n_entries, ())
    cost = (items.fixed + items.per_entry * items.n_entries)[order]
    totals = np.add.reduceat(cost, starts)
    kept, cut = items.n_entries.copy(), []
    for group, (start, total) in enumerate(zip(starts.tolist(), totals.tolist(), strict=True)):
        allowance = account.allowance_at(int(last[start]))
        if total > allowance:
            end = starts[group + 1] if group + 1 < len(starts) else len(order)
            own = order[start:end]
            before = np.cumsum(cost[start:end]) - cost[start:end]
            affordable = np.maximum(allowance - before - items.fixed[own], 0) // items.per_entry[own]
            kept[own] = np.minimum(items.n_entries[own], affordable)
            cut.append((int(last[start]), int(due_ms[start])))
        account.settle(min(total, allowance))
    return Paid(kept, tuple(cut))


def _ends_of_groups(last: Int64Array, due_ms: Int64Array) -> Int64Array:
    """Where the equal neighbours of each end, (n,)."""
    n = len(last)
    ends = np.append(np.flatnonzero((last[1:] != last[:-1]) | (due_ms[1:] != due_ms[:-1])) + 1, n)
    return np.repeat(ends, np.diff(np.append(0, ends)))


class SpelledMatches:
    """Spells out matches, of which each may be as long as the window, as far as the stream has paid for their events.

    The searches share what matches have in common; forms look at each match by itself.
    """

    def __init__(self, limits: Limits) -> None:
        self.account = limits.brake.account(limits.work_budget, n_sharing=_EVENTS_PER_STEP * limits.n_sharing)
        self.account.terms[0] = self.account.terms[1]
        self._usual = 1

    def listed(
        self, last: Int64Array, due_ms: Int64Array, spell: Callable[[Int64Array], ListedMatches]
    ) -> tuple[ListedMatches, Int64Array]:
        """The matches, given in listing order, that are paid for; the numbers of last events of which some are not.

        last, due_ms: see `Items`; spell: from numbers of matches to these, row by row.
        """
        order = np.lexsort((last, due_ms))
        parts, numbers, cut = [spell(order[:0])], [order[:0]], []
        last, due_ms = last[order], due_ms[order]
        ends = _ends_of_groups(last, due_ms)
        at = 0
        while at < len(order):
            most = self.account.allowance_at(int(last[at])) // self._usual
            some = slice(at, at + min(max(most, 1), _SPELLED_TOGETHER))
            part = spell(order[some])
            lengths, one = np.diff(part.offsets), np.ones(part.n_matches, np.int64)
            paid = pay(self.account, Items(last[some], due_ms[some], lengths, one, one))
            kept = np.flatnonzero(paid.n_entries)
            parts.append(part.chosen(kept) if len(kept) < part.n_matches else part)
            numbers.append(order[some][kept])
            cut += [number for number, _ in paid.cut]
            self._usual = int(lengths.max())
            at = min(some.stop, len(order))
            if paid.cut and paid.cut[-1] == (last[at - 1], due_ms[at - 1]):
                at = int(ends[at - 1])  # no more of it
        whole, of = ListedMatches.joined(parts), np.concatenate(numbers)
        if (of[1:] < of[:-1]).any():
            whole = whole.chosen(np.argsort(of))
        return whole, np.array(cut, np.int64)


__all__ = ["FORM_TIMES", "Items", "Paid", "SpelledMatches", "pay"]
