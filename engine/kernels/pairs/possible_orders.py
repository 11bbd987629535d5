"""Counting orders: how many sequences from one first event are in order, and in the window, in at least one world.

Any events may be chosen, each once; what matters is their order alone. A sequence is possible when times can be found
for it one after the other. Of a prefix it is enough to know, as a function of the time s of its first event, the
earliest time of its last one. Each event is at its own earliest time or one millisecond after the one before it, so
this function is max(floor, s + pushed) for s up to some bound. Two prefixes that end in one event, agree on these three
numbers and have used the same of those events that could still follow are alike: labels, as in `pairs.counting`, but
for all last events of a first one together.

Labels are taken in the order of their earliest time, which grows along every sequence. What has ended before an event
may begin is summed up in a pool, so that events whose intervals do not overlap cost O(1) each; labels arise among
events that overlap alone. Requires intervals without impossible milliseconds inside (`gapless`), and that events of one
clock do not overlap.
"""

from __future__ import annotations

import numpy as np

from engine.kernels.columns.hashing import hash_class
from engine.kernels.compile.ways import inlined, kernel, leaf

MOST = 2**62 - 1  # counts stop here; the sum of two still fits
MAX_SLOTS = 62
"""Events that overlap at one time, of which it is known whether they are used; more are counted as if apart."""

POSITION = 0
FLOOR = 1
PUSHED = 2
BOUND = 3
USED = 4
COUNT = 5
EARLIEST = 6
NEXT = 7
"""Fields of a label: its last event; max(floor, s + pushed) for s <= bound, pushed -1 when s does not matter; the slots
of used events that may come again; the number of prefixes; the earliest time; the next label of the event."""

_FIELDS = 8
_FREE = -1
_MOST_LABELS = 1 << 20
"""More are not made: some 150 MiB."""
_PER_STEP = 16
"""Events, and prefixes in the pool, that are looked at in the time of a step."""
_TIMES_SPENT = 2
_GOING_ON = 5_000
"""Where the budget is spent a count goes on to later events, without telling orders apart, up to so many times the
budget and so many steps."""


@leaf
def gapless(events, row):
    """Whether an event can be at each millisecond of its interval, wherever others are: not where clocks have skew."""
    if events.skew.shape[0] > 0 and events.skew[row] > 0:
        return False
    at = events.weight_at[row]
    if at >= 0:
        for k in range(at, at + events.hi_ms[row] - events.lo_ms[row] + 1):
            if events.weights[k] <= 0.0:
                return False
    return True


@inlined
def step_to(floor, pushed, bound, tied, lo_ms, hi_ms, within_ms):
    """What becomes of max(floor, s + pushed), s <= bound, when an event in [lo_ms, hi_ms] follows.

    tied: a precise event of the same millisecond as the one before. Returns (floor, pushed, bound, earliest time), and
    -1 as last when no time is left. Times count from the earliest one of the first event.
    """
    more = 0 if tied else 1
    floor = max(lo_ms, floor + more)
    if floor > hi_ms:
        return floor, pushed, bound, -1
    if pushed >= 0:
        pushed += more
        bound = min(bound, hi_ms - pushed)
        if bound < 0:
            return floor, pushed, bound, -1
        if floor >= bound + pushed:
            pushed = -1
    if max(floor - bound, pushed) > within_ms:
        return floor, pushed, bound, -1
    return floor, pushed, bound, max(floor, pushed)


@leaf
def _sooner(labels, a, b):
    if labels[a, EARLIEST] != labels[b, EARLIEST]:
        return labels[a, EARLIEST] < labels[b, EARLIEST]
    return labels[a, POSITION] < labels[b, POSITION]


@leaf
def _push(labels, heap, n, label):
    at = n
    while at > 0:
        parent = (at - 1) // 2
        if not _sooner(labels, label, heap[parent]):
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = label


@leaf
def _pop(labels, heap, n):
    """Take the soonest label off a heap of n."""
    top = heap[0]
    label = heap[n - 1]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= n - 1:
            break
        if child + 1 < n - 1 and _sooner(labels, heap[child + 1], heap[child]):
            child += 1
        if not _sooner(labels, heap[child], label):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = label
    return top


@leaf
def _slot_of(labels, table, label):
    """Where in the open table a label like this one is, or would be."""
    mask = table.shape[0] - 1
    at = mask & hash_class(
        labels[label, POSITION], labels[label, FLOOR], labels[label, PUSHED], labels[label, BOUND], labels[label, USED]
    )
    while table[at] != _FREE:
        other = table[at]
        if (
            labels[other, POSITION] == labels[label, POSITION]
            and labels[other, FLOOR] == labels[label, FLOOR]
            and labels[other, PUSHED] == labels[label, PUSHED]
            and labels[other, BOUND] == labels[label, BOUND]
            and labels[other, USED] == labels[label, USED]
        ):
            return at
        at = (at + 1) & mask
    return at


@leaf
def _enter(labels, table, heap, sizes, heads, position, floor, pushed, bound, used, count, earliest):
    """Add prefixes to the label of their like, which is made when there is none. sizes: labels, labels in the heap."""
    n = sizes[0]
    labels[n, POSITION] = position
    labels[n, FLOOR] = floor
    labels[n, PUSHED] = pushed
    labels[n, BOUND] = bound
    labels[n, USED] = used
    at = _slot_of(labels, table, n)
    if table[at] != _FREE:
        labels[table[at], COUNT] = min(labels[table[at], COUNT] + count, MOST)
        return
    labels[n, COUNT] = count
    labels[n, EARLIEST] = earliest
    labels[n, NEXT] = heads[position]
    heads[position] = n
    table[at] = n
    _push(labels, heap, sizes[1], n)
    sizes[0] = n + 1
    sizes[1] += 1


@leaf
def _still_open(lo, hi, slots, overlaps, start, end, used, from_ms, to_ms):
    """The slots of those used at from_ms that could come again after to_ms; overlaps[start:end] has all of them."""
    found = np.int64(0)
    for k in range(start, end):
        u = overlaps[k]
        if slots[u] >= 0 and lo[u] <= from_ms and hi[u] > from_ms and hi[u] > to_ms and (used >> slots[u]) & 1:
            found |= np.int64(1) << slots[u]
    return found


@leaf
def _pooled(pool, n, bound, used, count):
    """Add prefixes to the pool, int64 (room, 3): bound, used, count; returns its size. Entry 0 is the first event."""
    for k in range(1, n):
        if pool[k, 0] == bound and pool[k, 1] == used:
            pool[k, 2] = min(pool[k, 2] + count, MOST)
            return n
    pool[n, 0] = bound
    pool[n, 1] = used
    pool[n, 2] = count
    return n + 1


@leaf
def _end_from(last_of, hi, now, complete):
    """Counts of last events that do not end before `now` are lower bounds."""
    for j in range(last_of.shape[0]):
        if last_of[j] >= 0 and hi[j] >= now:
            complete[last_of[j]] = False


@kernel
def overlapping(lo, hi):
    """For intervals in the order of lo: starts int64 (n + 1,) and others int64, those that share a time with each."""
    n = lo.shape[0]
    latest = np.empty(n, np.int64)
    starts = np.zeros(n + 1, np.int64)
    for i in range(n):
        latest[i] = hi[i] if i == 0 else max(hi[i], latest[i - 1])
        j = i - 1
        while j >= 0 and latest[j] >= lo[i]:
            if hi[j] >= lo[i]:
                starts[i + 1] += 1
                starts[j + 1] += 1
            j -= 1
    for i in range(n):
        starts[i + 1] += starts[i]
    others = np.empty(starts[n], np.int64)
    ends = starts[:n].copy()
    for i in range(n):
        j = i - 1
        while j >= 0 and latest[j] >= lo[i]:
            if hi[j] >= lo[i]:
                others[ends[i]] = j
                others[ends[j]] = i
                ends[i] += 1
                ends[j] += 1
            j -= 1
    return starts, others


@kernel
def overlapping_work(lo, hi):
    """How many of the intervals `overlapping` returns, and how many it looks at."""
    n = lo.shape[0]
    n_found = 0
    n_visits = 0
    start = 0
    latest = np.empty(n, np.int64)  # the prefix maximum of hi
    for i in range(n):
        latest[i] = hi[i] if i == 0 else max(latest[i - 1], hi[i])
        while latest[start] < lo[i]:
            start += 1
        n_visits += i - start
        n_found += np.searchsorted(lo, hi[i], side="right") - i - 1
    return 2 * n_found, 2 * n_visits


@kernel
def slots_of(lo, hi, member):
    """A number for each member, int64 (n,), that no overlapping one has; -1 for others, and from MAX_SLOTS on."""
    n = lo.shape[0]
    slots = np.full(n, -1, np.int64)
    until = np.full(MAX_SLOTS, -1, np.int64)
    n_slots = 0
    too_many = False
    for i in range(n):
        if not member[i]:
            continue
        at = 0
        while at < n_slots and until[at] >= lo[i]:
            at += 1
        if at == MAX_SLOTS:
            too_many = True
            continue
        n_slots = max(n_slots, at + 1)
        until[at] = hi[i]
        slots[i] = at
    return slots, too_many


@kernel
def count_orders(lo, hi, member, last_of, first_hi_ms, tie_first, within_ms, cut, direct, budget, counts, complete):
    """Number of possible sequences from a first event over members to each of its last events.

    lo, hi: int64 (n,), the intervals of members and last events in stream order (lo ascends), in milliseconds after the
    earliest time of the first event, whose interval is [0, first_hi_ms]; all of them may follow it. member: bool (n,).
    last_of: int64 (n,), number of a last event or -1. tie_first: the first event is precise and may precede precise
    events of its millisecond. cut: the window may cut some sequence short. direct: a last event may follow the first
    one without a member between.

    Writes counts int64 (n_lasts,), at most MOST, and complete bool (n_lasts,): False where `budget` (steps from one to
    the next event) ended the count, which is then a lower bound. Returns the steps.
    """
    n = lo.shape[0]
    starts, overlaps = overlapping(lo, hi)
    slots, narrow = slots_of(lo, hi, member)
    counts[:] = 0
    complete[:] = not narrow
    most_bound = first_hi_ms if cut else np.int64(0)
    capacity = 256
    labels = np.empty((capacity, _FIELDS), np.int64)
    heap = np.empty(capacity, np.int64)
    table = np.full(4 * capacity, _FREE, np.int64)
    heads = np.full(n, -1, np.int64)
    sizes = np.zeros(2, np.int64)
    pool = np.empty((16, 3), np.int64)
    pool[0, 0] = most_bound
    pool[0, 1] = 0
    pool[0, 2] = 1
    n_pool = 1
    by_end = np.argsort(hi)
    n_ended = 0
    owner = np.full(MAX_SLOTS, -1, np.int64)
    n_slots = 0
    n_work = 0
    is_spent = False
    most_work = _TIMES_SPENT * budget + min(4 * starts[n], _GOING_ON)
    horizon = hi[n - 1] if n else 0
    for j in range(n):
        horizon = max(horizon, hi[j])

    # What overlaps the first event.
    for j in range(n):
        if lo[j] > first_hi_ms:
            break
        tied = tie_first and lo[j] == hi[j] and lo[j] == 0
        pushed = -1 if most_bound == 0 else 0
        floor, pushed, bound, earliest = step_to(0, pushed, most_bound, tied, lo[j], hi[j], within_ms)
        if earliest < 0:
            continue
        if last_of[j] >= 0 and direct:
            counts[last_of[j]] += 1
        if member[j]:
            if sizes[0] + 2 > capacity:
                labels, heap, table = _grown(labels, heap, table, sizes[0])
                capacity *= 2
            _enter(labels, table, heap, sizes, heads, j, floor, pushed, bound, np.int64(0), np.int64(1), earliest)

    at = 0
    while at < n or sizes[1] > 0:
        # Labels that are earlier than the next event may begin.
        if sizes[1] > 0 and (at == n or labels[heap[0], EARLIEST] < lo[at]):
            label = _pop(labels, heap, sizes[1])
            sizes[1] -= 1
            i = labels[label, POSITION]
            used = labels[label, USED]
            now = labels[label, EARLIEST]
            count = labels[label, COUNT]
            precise = lo[i] == hi[i]
            n_around = starts[i + 1] - starts[i]
            n_work += 1 + n_around
            if used != 0:
                n_work += n_around * (1 + n_around // _PER_STEP) // 4
            if (n_work > budget or sizes[0] > _MOST_LABELS) and not is_spent:
                is_spent = narrow = True
                _end_from(last_of, hi, now, complete)
            if n_work > most_work:
                break
            if sizes[0] + starts[i + 1] - starts[i] + 2 > capacity:
                labels, heap, table = _grown(labels, heap, table, sizes[0] + starts[i + 1] - starts[i])
                capacity = labels.shape[0]
            for k in range(starts[i], starts[i + 1]):
                j = overlaps[k]
                tied = precise and lo[j] == hi[j]
                if tied and j < i:
                    continue
                if hi[j] <= now and not tied:
                    continue
                goes_on = member[j] and not narrow and lo[j] <= horizon
                if last_of[j] < 0 and not goes_on:
                    continue
                if slots[j] >= 0 and lo[j] <= now and (used >> slots[j]) & 1:
                    continue
                floor, pushed, bound, earliest = step_to(
                    labels[label, FLOOR], labels[label, PUSHED], labels[label, BOUND], tied, lo[j], hi[j], within_ms
                )
                if earliest < 0:
                    continue
                if last_of[j] >= 0:
                    counts[last_of[j]] = min(counts[last_of[j]] + count, MOST)
                if not goes_on:
                    continue
                kept = np.int64(0)
                if used != 0:
                    kept = _still_open(lo, hi, slots, overlaps, starts[i], starts[i + 1], used, now, earliest)
                if hi[i] > earliest:
                    kept |= np.int64(1) << slots[i]
                _enter(labels, table, heap, sizes, heads, j, floor, pushed, bound, kept, count, earliest)
            continue

        # The next event: what ended before it goes into the pool, and the pool goes on to it.
        j = at
        now = lo[j]
        if n_work > most_work or sizes[0] > 2 * _MOST_LABELS:
            _end_from(last_of, hi, now, complete)
            break
        at += 1
        open_slots = np.int64(0)
        for slot in range(n_slots):
            if hi[owner[slot]] > now:
                open_slots |= np.int64(1) << slot
        n_old = n_pool
        n_pool = 1
        for k in range(1, n_old):
            n_work += n_pool // _PER_STEP
            n_pool = _pooled(pool, n_pool, pool[k, 0], pool[k, 1] & open_slots, pool[k, 2])
        while n_ended < n and hi[by_end[n_ended]] < now:
            i = by_end[n_ended]
            n_ended += 1
            label = heads[i]
            while label >= 0:
                used = labels[label, USED]
                if used != 0:
                    used = _still_open(
                        lo, hi, slots, overlaps, starts[i], starts[i + 1], used, labels[label, EARLIEST], now
                    )
                n_work += n_pool // _PER_STEP
                if n_pool + 1 > pool.shape[0]:
                    pool = np.concatenate((pool, np.empty_like(pool)))
                n_pool = _pooled(pool, n_pool, labels[label, BOUND], used, labels[label, COUNT])
                label = labels[label, NEXT]
        if slots[j] >= 0:
            owner[slots[j]] = j
            n_slots = max(n_slots, slots[j] + 1)
        if sizes[0] + n_pool + 1 > capacity:
            labels, heap, table = _grown(labels, heap, table, sizes[0] + n_pool)
            capacity = labels.shape[0]
        is_most = False
        n_work += n_pool
        for k in range(n_pool):
            if k == 0 and now <= first_hi_ms:
                continue
            if now - pool[k, 0] > within_ms:
                continue
            if last_of[j] >= 0 and (k > 0 or direct):
                counts[last_of[j]] = min(counts[last_of[j]] + pool[k, 2], MOST)
            if member[j]:
                _enter(labels, table, heap, sizes, heads, j, now, np.int64(-1), pool[k, 0], pool[k, 1], pool[k, 2], now)
            is_most = is_most or (k > 0 and pool[k, 0] == most_bound and pool[k, 1] == 0 and pool[k, 2] == MOST)
        if is_most:
            # So it is for all later last events; labels go on to those that were reached.
            horizon = 0
            for k in range(at):
                if last_of[k] >= 0:
                    horizon = max(horizon, hi[k])
            for k in range(at, n):
                if last_of[k] >= 0:
                    counts[last_of[k]] = MOST
                    last_of[k] = -1
            at = n
    return n_work


@kernel
def _grown(labels, heap, table, least):
    """Twice the room, and more where it is needed: (labels, heap, table)."""
    capacity = 2 * labels.shape[0]
    while capacity < least + 2:
        capacity *= 2
    wider = np.empty((capacity, _FIELDS), np.int64)
    n = labels.shape[0]
    wider[:n] = labels
    queue = np.empty(capacity, np.int64)
    queue[: heap.shape[0]] = heap
    fresh = np.full(4 * capacity, _FREE, np.int64)
    for k in range(table.shape[0]):
        if table[k] != _FREE:
            fresh[_slot_of(wider, fresh, table[k])] = table[k]
    return wider, queue, fresh


__all__ = ["MAX_SLOTS", "MOST", "count_orders", "gapless", "overlapping", "overlapping_work", "slots_of", "step_to"]
