"""What the searches of one query may cost: an account that every event of its stream adds to.

So what is searched for one event, and what is left out, depends on the stream up to it alone: not on the batches that
it came in, nor on a restart. A burst may spend what has been saved; more bursts go on at the rate of the events.
"""

from __future__ import annotations

import numpy as np

from engine.events import Int64Array

_SAVED = 2
"""The account holds so many times `work_budget` at most, and at first."""
_EVENTS_PER_BUDGET = 2_500
"""So many events add `work_budget` to it."""
_EMPTY = -(2**60)


class WorkAccount:
    """`terms`: int64 (3,), the most work for one event, the most that the account may hold, what each event adds.
    `account`: int64 (2,), what is left, and the position in the stream up to which it has been paid in; kernels write
    it (`engine.kernels.automaton.search.allowance_at`).
    """

    def __init__(self, work_budget: int, times: int = 1, n_sharing: int = 1) -> None:
        """`times`: how many of its steps are done in the time of one of the budget's. `n_sharing`: accounts that have
        equal parts of it."""
        work_budget = max(work_budget * times // n_sharing, 1)
        self.terms: Int64Array = np.array(
            [work_budget, _SAVED * work_budget, max(work_budget // _EVENTS_PER_BUDGET, 1)], np.int64
        )
        self.account: Int64Array = np.array([_SAVED * work_budget, 0], np.int64)

    def allowance_at(self, position: int) -> int:
        """How much work the event at this position of the stream may take; pays in for all events up to it."""
        most, capacity, rate = self.terms.tolist()
        balance, paid = self.account.tolist()
        balance = min(capacity, balance + rate * max(position + 1 - paid, 0))
        self.account[:] = balance, max(paid, position + 1)
        return int(min(most, max(balance, 0)))

    def expected_at(self, position: int) -> int:
        """All that there is to spend on events up to this position of the stream, at most."""
        balance, paid = self.account.tolist()
        return int(balance + self.terms[2] * max(position + 1 - paid, 0))

    def settle(self, spent: int) -> None:
        """Pay for work that has been done."""
        self.account[0] -= spent

    def empty(self) -> None:
        """Nothing is left, whatever is paid in, until `release`."""
        self.account[0] = _EMPTY

    def release(self) -> None:
        """After `empty`: from now on what is paid in counts."""
        self.account[0] = 0

    @property
    def left(self) -> int:
        """What is left for one search."""
        return int(min(self.terms[0], max(self.account[0], 0)))

    @property
    def position(self) -> int:
        """The position in the stream up to which it has been paid in."""
        return int(self.account[1])

    def save(self) -> str:
        """State as text."""
        return ",".join(map(str, self.account.tolist()))

    def restore(self, text: str) -> None:
        """Take over what `save` returned."""
        self.account[:] = [int(number) for number in text.split(",")]


__all__ = ["WorkAccount"]
