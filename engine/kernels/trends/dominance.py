"""What two inequalities at once bring to later events: dominance sums in the plane (Bentley, Multidimensional
divide-and-conquer, 1980).

Earlier and later events are in one list by the first value. Along it the earlier ones enter a tree of sums by their
rank in the second value (Fenwick, 1994), and each later one takes what the ranks that it admits have together: O(log n)
numbers for each, added and never subtracted, so that least and greatest values and sums of any size are served alike.
So halves of halves (`engine.kernels.trends.ahead`) take O(log^2 n) for an event, and what is there before a batch is
brought to all of its events at once.
"""

from __future__ import annotations

from engine.kernels.compile.ways import inlined, leaf
from engine.kernels.trends.arrays import (
    FOLLOWS,
    IS_FOLLOWED,
    KIND_BITS,
    N_NUMBERS,
    N_STORED,
    N_WINDOWS,
    SOURCE,
    SWEEP_ENTRIES,
    SWEEP_FIRST,
    SWEEP_PARTITION,
    SWEEP_RANKS,
    SWEEP_SCAN,
)
from engine.kernels.trends.numbers import put_together


@leaf
def bring_earlier(template, batch, vertices, ahead, partition):
    """Bring what is there before a batch to its events of a partition; sweeps are in the order of partitions."""
    n_sweeps = ahead.sweeps.shape[0]
    number = ahead.next_sweep[0]
    while number < n_sweeps and ahead.sweeps[number, SWEEP_PARTITION] <= partition:
        if ahead.sweeps[number, SWEEP_PARTITION] == partition:
            _sweep(template, batch, vertices, ahead, number)
        number += 1
    ahead.next_sweep[0] = number


@leaf
def _sweep(template, batch, vertices, ahead, number):
    """Vertices of the order of the first event are not before all events: those that are earlier come first."""
    n_windows, n_numbers = template.sizes[N_WINDOWS], template.sizes[N_NUMBERS]
    partition = ahead.sweeps[number, SWEEP_PARTITION]
    scan = ahead.sweeps[number, SWEEP_SCAN]
    n_ranks = ahead.sweeps[number, SWEEP_RANKS]
    begin = ahead.sweeps[number, SWEEP_FIRST]
    after = begin + ahead.sweeps[number, SWEEP_ENTRIES]
    slot = ahead.slot[scan]
    region = partition * template.sizes[N_STORED] + template.stored[template.scans[scan, SOURCE]]
    start = vertices.start[region]
    last = start + vertices.length[region] - 1
    begin_event = ahead.first[partition]
    order = batch.order[begin_event]
    first_window = ahead.first_window[0]
    after_window = ahead.last_window[0] + 1
    is_divided = vertices.order[last] == order
    for which in range(2 if is_divided else 1):
        _clear(ahead, (n_ranks + 1) * n_windows * n_numbers)
        for entry in range(begin, after):
            each = ahead.entries[entry] >> KIND_BITS
            if ahead.entries[entry] & IS_FOLLOWED != 0:
                position = start + each
                if (vertices.order[position] == order) == (which == 1):
                    _enter(
                        template, vertices, ahead, position, ahead.ranks[entry], n_ranks, first_window,
                        vertices.first_window[position], vertices.last_window[position],
                    )  # fmt: skip
            elif which == 0 or batch.order[begin_event + each] != order:
                _take(template, ahead, slot, each, ahead.ranks[entry], first_window, after_window)


@leaf
def cross_by_two(template, vertices, ahead, partition, scan, slot, middle, level, is_top):
    """What the events before an event have for those from it on, and the lists of the latter: see
    `engine.kernels.trends.ahead`."""
    n_windows, n_numbers = template.sizes[N_WINDOWS], template.sizes[N_NUMBERS]
    stored = template.stored[template.scans[scan, SOURCE]]
    first_window = ahead.first_window[middle]
    after_window = ahead.last_window[max(middle - 1, 0)] + 1
    n_ranks = _rank(ahead, partition, ahead.second[slot], middle, level, is_top)
    begin, n_entries = list_of_part(ahead, partition, slot, level + 1, is_top)
    first_kept = room_of_level(ahead, level)
    kept = first_kept
    _clear(ahead, (n_ranks + 1) * n_windows * n_numbers)
    for entry in range(begin, begin + n_entries):
        value = ahead.lists[entry] if is_top else ahead.levels[slot, entry]
        each = value >> KIND_BITS
        if each < middle:
            position = ahead.position[stored, each]
            if value & IS_FOLLOWED != 0 and position >= 0:
                _enter(
                    template, vertices, ahead, position, ahead.rank[each], n_ranks, first_window,
                    ahead.first_window[each], ahead.last_window[each],
                )  # fmt: skip
            continue
        ahead.levels[slot, kept] = value
        kept += 1
        if value & FOLLOWS != 0:
            _take(template, ahead, slot, each, ahead.rank[each], first_window, after_window)
    ahead.level_size[slot, level] = kept - first_kept


@inlined
def list_of_part(ahead, partition, row, level, is_top):
    """Where the list of a part of some level begins, and how many entries it has: in `lists` when it is the whole
    (`is_top`), else in `levels`."""
    if is_top:
        at = partition * ahead.levels.shape[0] + row
        return ahead.start[at], ahead.size[at]
    return room_of_level(ahead, level), ahead.level_size[row, level]


@inlined
def room_of_level(ahead, level):
    """Where the list of a part of some level begins in `levels`: an event may have two entries, and there is room for
    one more."""
    return level * (2 * ahead.position.shape[1] + 1)


@leaf
def _rank(ahead, partition, row, middle, level, is_top):
    """The rank in the second value of each event before an event, from 1 on, and for each from it on how many of these
    it admits; also the list of the latter by that value. Returns how many ranks there are."""
    begin, n_entries = list_of_part(ahead, partition, row, level + 1, is_top)
    first_kept = room_of_level(ahead, level)
    kept = first_kept
    n_ranks = 0
    for entry in range(begin, begin + n_entries):
        value = ahead.lists[entry] if is_top else ahead.levels[row, entry]
        each = value >> KIND_BITS
        if each < middle:
            if value & IS_FOLLOWED != 0:
                n_ranks += 1
                ahead.rank[each] = n_ranks
            continue
        ahead.levels[row, kept] = value
        kept += 1
        if value & FOLLOWS != 0:
            ahead.rank[each] = n_ranks
    ahead.level_size[row, level] = kept - first_kept
    return n_ranks


@inlined
def _clear(ahead, n):
    for number in range(n):
        ahead.tree_whole[number] = 0
        ahead.tree_scale[number] = 0


@leaf
def _enter(template, vertices, ahead, position, rank, n_ranks, first_window, own_window, last_window):
    """A vertex with its windows from the first one of those that follow on."""
    n_windows, n_numbers = template.sizes[N_WINDOWS], template.sizes[N_NUMBERS]
    for window in range(max(first_window, own_window), last_window + 1):
        source = (position * n_windows + window - own_window) * n_numbers
        if vertices.whole[source] == 0:
            continue
        node = rank
        while node <= n_ranks:
            target = (node * n_windows + window - first_window) * n_numbers
            for number in range(n_numbers):
                put_together(
                    template.ways[number], ahead.tree_whole, ahead.tree_real, ahead.tree_scale, target + number,
                    vertices.whole, vertices.real, vertices.scale, source + number,
                )  # fmt: skip
            node += node & -node


@leaf
def _take(template, ahead, slot, each, rank, first_window, after_window):
    """What the vertices up to a rank have together, in the windows of an event."""
    n_windows, n_numbers = template.sizes[N_WINDOWS], template.sizes[N_NUMBERS]
    own_window = ahead.first_window[each]
    own = (slot * ahead.position.shape[1] + each) * n_windows - own_window
    for window in range(max(first_window, own_window), after_window):
        target = (own + window) * n_numbers
        node = rank
        while node > 0:
            source = (node * n_windows + window - first_window) * n_numbers
            if ahead.tree_whole[source] != 0:
                for number in range(n_numbers):
                    put_together(
                        template.ways[number], ahead.whole, ahead.real, ahead.scale, target + number,
                        ahead.tree_whole, ahead.tree_real, ahead.tree_scale, source + number,
                    )  # fmt: skip
            node &= node - 1


__all__ = ["bring_earlier", "cross_by_two", "list_of_part", "room_of_level"]
