"""What an inequality brings from events of a batch to later ones of it: halves of halves (Bentley, Multidimensional
divide-and-conquer, 1980; CDQ divide and conquer).

The events of a partition in a batch are known before the first of them is read. So at each boundary, a multiple b of
the block of the least events, the events [b - s, b) have brought what they have to [b, b + s), where s is the largest
power of two that divides b: every pair of events that lie in different blocks meets exactly once. Both are in one list
by value, so that one pass with a running sum serves all of them: O(log n) steps for each event, each along memory that
lies together. Those of one block are looked at one by one (`engine.kernels.trends.edges`).
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
    SLIDE_MS,
    SOURCE,
    WITHIN_MS,
)
from engine.kernels.trends.dominance import bring_earlier, cross_by_two, list_of_part
from engine.kernels.trends.numbers import put_together


@leaf
def bring(template, batch, vertices, ahead, partition, reached):
    """Bring what is due before the event of a partition with this number is read."""
    while ahead.due[partition] <= reached:
        boundary = ahead.due[partition]
        if boundary == 0:
            _begin(template, batch, vertices, ahead, partition)
        first_region = partition * template.sizes[N_STORED]
        for stored in range(template.sizes[N_STORED]):
            ahead.block[stored] = vertices.length[first_region + stored]
        for scan in range(template.scans.shape[0]):
            slot = ahead.slot[scan]
            if slot >= 0 and ahead.start[partition * ahead.levels.shape[0] + slot] >= 0:
                _meet(template, batch, vertices, ahead, partition, scan, slot, boundary)
        ahead.due[partition] = boundary + ahead.least[0]


@leaf
def _begin(template, batch, vertices, ahead, partition):
    """Nothing is brought yet to the events of a partition."""
    n_stored = template.sizes[N_STORED]
    width = template.sizes[N_WINDOWS] * template.sizes[N_NUMBERS]
    first, n = ahead.first[partition], ahead.n_events[partition]
    for stored in range(n_stored):
        ahead.before[stored] = vertices.length[partition * n_stored + stored]
        for each in range(n):
            ahead.position[stored, each] = -1
    for each in range(n):
        t_ms = batch.t_ms[first + each]
        if each > 0 and t_ms == batch.t_ms[first + each - 1]:
            ahead.first_window[each] = ahead.first_window[each - 1]
            ahead.last_window[each] = ahead.last_window[each - 1]
        else:
            ahead.first_window[each] = -((template.sizes[WITHIN_MS] - t_ms) // template.sizes[SLIDE_MS])
            ahead.last_window[each] = (t_ms - 1) // template.sizes[SLIDE_MS]
    for slot in range(ahead.second.shape[0]):
        begin = slot * ahead.position.shape[1] * width
        for number in range(begin, begin + n * width):
            ahead.whole[number] = 0
            ahead.scale[number] = 0
    bring_earlier(template, batch, vertices, ahead, partition)


@inlined
def _meet(template, batch, vertices, ahead, partition, scan, slot, boundary):
    """Both sides of a boundary, then the lists of the parts of its right side, each as far as its left side."""
    least, n = ahead.least[0], ahead.n_events[partition]
    top = least
    level = 0
    while top < n:
        top *= 2
        level += 1
    size = top
    if boundary > 0:
        level = 0
        size = least
        while boundary & size == 0:
            size *= 2
            level += 1
        if _are_alike(batch, ahead, partition, boundary - size, boundary + size):
            return
        if ahead.second[slot] < 0:
            _cross(template, batch, vertices, ahead, partition, scan, slot, boundary, size, level, 2 * size == top)
        else:
            cross_by_two(
                template, batch, vertices, ahead, partition, scan, slot, boundary, size, level, 2 * size == top
            )
    while size > 2 * least and not _are_alike(batch, ahead, partition, boundary, boundary + size):
        _split(ahead, partition, slot, boundary, size, level, size == top)
        if ahead.second[slot] >= 0:
            _split(ahead, partition, ahead.second[slot], boundary, size, level, size == top)
        size //= 2
        level -= 1


@inlined
def _are_alike(batch, ahead, partition, first, after):
    """Whether the events [first, after) of a partition are of one order."""
    begin, n = ahead.first[partition], ahead.n_events[partition]
    return batch.order[begin + first] == batch.order[begin + min(after, n) - 1]


@leaf
def _split(ahead, partition, slot, first, size, level, is_top):
    """The list of the left half of a part, from that of the part."""
    begin, n_entries = list_of_part(ahead, partition, slot, size, level, is_top)
    after = (first + size // 2) << KIND_BITS
    first_kept = size + level - 1
    kept = first_kept
    for entry in range(begin, begin + n_entries):
        value = ahead.lists[entry] if is_top else ahead.levels[slot, entry]
        ahead.levels[slot, kept] = value  # behind the last one there is room for one more
        kept += 1 if value < after else 0
    ahead.level_size[slot, level - 1] = kept - first_kept


@leaf
def _cross(template, batch, vertices, ahead, partition, scan, slot, boundary, size, level, is_top):
    """What the events before a boundary have for those after it, and the list of the latter.

    Events of one order may lie on both sides: those before are summed up apart, for what is later than they are.
    """
    n_windows, n_numbers = template.sizes[N_WINDOWS], template.sizes[N_NUMBERS]
    stored = template.stored[template.scans[scan, SOURCE]]
    begin_event = ahead.first[partition]
    order = batch.order[begin_event + boundary]
    is_divided = batch.order[begin_event + boundary - 1] == order
    first_window = ahead.first_window[boundary]
    after_window = ahead.last_window[boundary - 1] + 1
    last_event = min(boundary + size, ahead.n_events[partition]) - 1
    is_one_window = ahead.first_window[boundary - size] == ahead.last_window[last_event]
    for number in range(2 * n_windows * n_numbers):
        ahead.sum_whole[number] = 0
        ahead.sum_scale[number] = 0
    begin, n_entries = list_of_part(ahead, partition, slot, 2 * size, level + 1, is_top)
    kept = 2 * size + level
    for entry in range(begin, begin + n_entries):
        value = ahead.lists[entry] if is_top else ahead.levels[slot, entry]
        each = value >> KIND_BITS
        if each < boundary:
            position = ahead.position[stored, each]
            if value & IS_FOLLOWED == 0 or position < 0:
                continue
            own_window = last_window = first_window
            if not is_one_window:
                own_window, last_window = ahead.first_window[each], ahead.last_window[each]
            first_sum = 0
            if is_divided and batch.order[begin_event + each] == order:
                first_sum = n_windows
            for window in range(max(first_window, own_window), last_window + 1):
                source = (position * n_windows + window - own_window) * n_numbers
                target = (first_sum + window - first_window) * n_numbers
                if vertices.whole[source] != 0:
                    for number in range(n_numbers):
                        put_together(
                            template.ways[number], ahead.sum_whole, ahead.sum_real, ahead.sum_scale, target + number,
                            vertices.whole, vertices.real, vertices.scale, source + number,
                        )  # fmt: skip
            continue
        ahead.levels[slot, kept] = value
        kept += 1
        if value & FOLLOWS == 0:
            continue
        n_sums = 2 if is_divided and batch.order[begin_event + each] != order else 1
        own_window = first_window if is_one_window else ahead.first_window[each]
        own = (slot * ahead.position.shape[1] + each) * n_windows - own_window
        for which in range(n_sums):
            for window in range(max(first_window, own_window), after_window):
                source = (which * n_windows + window - first_window) * n_numbers
                target = (own + window) * n_numbers
                if ahead.sum_whole[source] != 0:
                    for number in range(n_numbers):
                        put_together(
                            template.ways[number], ahead.whole, ahead.real, ahead.scale, target + number,
                            ahead.sum_whole, ahead.sum_real, ahead.sum_scale, source + number,
                        )  # fmt: skip
    ahead.level_size[slot, level] = kept - (2 * size + level)


@inlined
def is_due(ahead, partition, reached):
    """Whether something is brought before the event of a partition with this number."""
    return 0 <= ahead.due[partition] <= reached


@inlined
def note_position(template, batch, vertices, ahead, state, at):
    """The event becomes the next vertex of its region."""
    partition = batch.partition[at]
    if ahead.due[partition] >= 0:
        stored = template.stored[state]
        region = partition * template.sizes[N_STORED] + stored
        ahead.position[stored, at - ahead.first[partition]] = vertices.start[region] + vertices.length[region]


__all__ = ["bring", "is_due", "note_position"]
