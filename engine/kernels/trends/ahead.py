"""What an inequality brings from events of a batch to later ones of it: halves of halves (Bentley, Multidimensional
divide-and-conquer, 1980; CDQ divide and conquer).

The events of a partition in a batch are known before the first of them is read. So at each boundary, a multiple b of
the block of the least events, the events [b - s, b) have brought what they have to [b, b + s), where s is the largest
power of two that divides b: every pair of events that lie in different blocks meets exactly once. Events of one order
do not see each other, so each boundary is moved back to the first event of the order that it divides. Both sides are in
one list by value, so that one pass with a running sum serves all of them: O(log n) steps for each event. Those of one
block are looked at one by one (`engine.kernels.trends.edges`).

Where both sides are in the same windows, the pass goes in tiles: first who is before and who after, without a branch
that depends on it, then the running sums of those before, then those after each by itself. So the processor may fetch
the numbers of many events at one time, and does not guess sides.
"""

from __future__ import annotations

from engine.kernels.compile.ways import inlined, leaf
from engine.kernels.trends.arrays import (
    FOLLOWS,
    IS_FOLLOWED,
    KIND_BITS,
    N_LIMBS,
    N_NUMBERS,
    N_STORED,
    N_WINDOWS,
    SLIDE_MS,
    SOURCE,
    WITHIN_MS,
)
from engine.kernels.trends.dominance import bring_earlier, cross_by_two, list_of_part, room_of_level
from engine.kernels.trends.numbers import ADDED, LARGE, factor_of, put_together


@leaf
def bring(template, batch, vertices, ahead, partition, reached):
    """Bring what is due before the event of a partition with this number is read."""
    while ahead.due[partition] <= reached:
        boundary = ahead.boundary[partition]
        if boundary == 0:
            _begin(template, batch, vertices, ahead, partition)
        first_region = partition * template.sizes[N_STORED]
        for stored in range(template.sizes[N_STORED]):
            ahead.block[stored] = vertices.length[first_region + stored]
        for scan in range(template.scans.shape[0]):
            slot = ahead.slot[scan]
            if slot >= 0 and ahead.start[partition * ahead.levels.shape[0] + slot] >= 0:
                _meet(template, vertices, ahead, partition, scan, slot, boundary)
        ahead.boundary[partition] = boundary + ahead.least[0]
        ahead.due[partition] = _first_of(ahead, partition, boundary + ahead.least[0])


@inlined
def _first_of(ahead, partition, boundary):
    """The first event of the order that a boundary divides; the number of all events from the last of them on."""
    n = ahead.n_events[partition]
    return ahead.order_begin[boundary] if boundary < n else n


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
        is_like = each > 0 and batch.order[first + each] == batch.order[first + each - 1]
        ahead.order_begin[each] = ahead.order_begin[each - 1] if is_like else each
    for slot in range(ahead.second.shape[0]):
        begin = slot * ahead.position.shape[1] * width
        for number in range(begin, begin + n * width):
            ahead.whole[number] = 0
            ahead.scale[number] = 0
    bring_earlier(template, batch, vertices, ahead, partition)


@inlined
def _meet(template, vertices, ahead, partition, scan, slot, boundary):
    """Both sides of a boundary, then the lists of the parts of its right side, each as far as its left side."""
    least, n = ahead.least[0], ahead.n_events[partition]
    top = least
    level = 0
    while top < n:
        top *= 2
        level += 1
    size = top
    middle = _first_of(ahead, partition, boundary)
    if boundary > 0:
        level = 0
        size = least
        while boundary & size == 0:
            size *= 2
            level += 1
        first = _first_of(ahead, partition, boundary - size)
        after = _first_of(ahead, partition, boundary + size)
        if not _has_two(ahead, first, after):
            return
        if ahead.second[slot] >= 0:
            cross_by_two(template, vertices, ahead, partition, scan, slot, middle, level, 2 * size == top)
        elif template.sizes[N_LIMBS] == 0 and _are_in_the_same(ahead, first, after):
            _cross_in_tiles(template, vertices, ahead, partition, scan, slot, middle, level, 2 * size == top)
        else:
            _cross(template, vertices, ahead, partition, scan, slot, middle, level, 2 * size == top)
    while size > 2 * least and _has_two(ahead, middle, _first_of(ahead, partition, boundary + size)):
        half = _first_of(ahead, partition, boundary + size // 2)
        _split(ahead, partition, slot, half, level, size == top)
        if ahead.second[slot] >= 0:
            _split(ahead, partition, ahead.second[slot], half, level, size == top)
        size //= 2
        level -= 1


@inlined
def _has_two(ahead, first, after):
    """Whether the events [first, after) of a partition are of several orders; the first of them begins one."""
    return first < after and ahead.order_begin[after - 1] != first


@inlined
def _are_in_the_same(ahead, first, after):
    """Whether the events [first, after) of a partition are in the same windows."""
    return (
        ahead.first_window[first] == ahead.first_window[after - 1]
        and ahead.last_window[first] == ahead.last_window[after - 1]
    )


@leaf
def _split(ahead, partition, slot, half, level, is_top):
    """The list of the left half of a part, up to an event, from that of the part."""
    begin, n_entries = list_of_part(ahead, partition, slot, level, is_top)
    after = half << KIND_BITS
    first_kept = room_of_level(ahead, level - 1)
    kept = first_kept
    for entry in range(begin, begin + n_entries):
        value = ahead.lists[entry] if is_top else ahead.levels[slot, entry]
        ahead.levels[slot, kept] = value  # behind the last one there is room for one more
        kept += 1 if value < after else 0
    ahead.level_size[slot, level - 1] = kept - first_kept


@leaf
def _cross_in_tiles(template, vertices, ahead, partition, scan, slot, middle, level, is_top):
    """What the events before an event have for those from it on, all of which are in the same windows, and the list of
    the latter."""
    n_windows, n_numbers = template.sizes[N_WINDOWS], template.sizes[N_NUMBERS]
    stored = template.stored[template.scans[scan, SOURCE]]
    n_open = ahead.last_window[middle] - ahead.first_window[middle] + 1
    for number in range(n_open * n_numbers):
        ahead.sum_whole[number] = 0
        ahead.sum_scale[number] = 0
    begin, n_entries = list_of_part(ahead, partition, slot, level + 1, is_top)
    first_after = middle << KIND_BITS
    first_kept = room_of_level(ahead, level)
    kept = first_kept
    first = begin
    while first < begin + n_entries:
        n_before = 0
        n_after = 0
        end = min(first + ahead.before_tile.shape[0] - 1, begin + n_entries)
        for entry in range(first, end):
            value = ahead.lists[entry] if is_top else ahead.levels[slot, entry]
            is_after = 1 if value >= first_after else 0
            ahead.levels[slot, kept] = value  # here, too: room for one more
            kept += is_after
            ahead.before_tile[n_before] = value
            n_before += value & IS_FOLLOWED & ~is_after
            ahead.after_tile[n_after] = value
            ahead.admitted[n_after] = n_before
            n_after += ((value & FOLLOWS) >> 1) & is_after
        for each in range(n_before):
            ahead.before_tile[each] = ahead.position[stored, ahead.before_tile[each] >> KIND_BITS]
        for number in range(n_open * n_numbers):
            way = template.ways[number % n_numbers]
            _sum_tile(way, vertices, ahead, n_windows * n_numbers, number, n_before)
            _add_tile(way, ahead, slot * ahead.position.shape[1], n_windows * n_numbers, number, n_after)
        first = end
    ahead.level_size[slot, level] = kept - first_kept


@inlined
def _sum_tile(way, vertices, ahead, width, number, n_before):
    """The running sums of one number of the vertices of a tile; the last one goes on in the next tile."""
    whole, real, scale = ahead.running_whole, ahead.running_real, ahead.running_scale
    whole[0] = ahead.sum_whole[number]
    scale[0] = ahead.sum_scale[number]
    value = real[0]
    own_scale = scale[0]
    for each in range(n_before):
        position = ahead.before_tile[each]
        if position >= 0 and way == ADDED:
            its_scale = vertices.scale[position * width + number]
            if 0 < its_scale <= own_scale:
                total = value + vertices.real[position * width + number] * factor_of(own_scale - its_scale)
                if abs(total) < LARGE:
                    value = total
                    real[each + 1] = value
                    scale[each + 1] = own_scale
                    continue
        whole[each + 1] = whole[each]
        scale[each + 1] = scale[each]
        if position >= 0:  # else it became no vertex
            put_together(
                way, whole, real, scale, each + 1, vertices.whole, vertices.real, vertices.scale,
                position * width + number,
            )  # fmt: skip
        value = real[each + 1]
        own_scale = scale[each + 1]
    ahead.sum_whole[number] = whole[n_before]
    ahead.sum_scale[number] = scale[n_before]


@inlined
def _add_tile(way, ahead, first, width, number, n_after):
    """To each of the later events of a tile one number of the running sum that it admits."""
    for each in range(n_after):
        admitted = ahead.admitted[each]
        if ahead.running_scale[admitted] != 0 or ahead.running_whole[admitted] != 0:
            put_together(
                way, ahead.whole, ahead.real, ahead.scale,
                (first + (ahead.after_tile[each] >> KIND_BITS)) * width + number,
                ahead.running_whole, ahead.running_real, ahead.running_scale, admitted,
            )  # fmt: skip


@leaf
def _cross(template, vertices, ahead, partition, scan, slot, middle, level, is_top):
    """What the events before an event have for those from it on, and the list of the latter."""
    n_windows, n_numbers = template.sizes[N_WINDOWS], template.sizes[N_NUMBERS]
    stored = template.stored[template.scans[scan, SOURCE]]
    first_window = ahead.first_window[middle]
    after_window = ahead.last_window[max(middle - 1, 0)] + 1
    for number in range(n_windows * n_numbers):
        ahead.sum_whole[number] = 0
        ahead.sum_scale[number] = 0
    begin, n_entries = list_of_part(ahead, partition, slot, level + 1, is_top)
    first_kept = room_of_level(ahead, level)
    kept = first_kept
    for entry in range(begin, begin + n_entries):
        value = ahead.lists[entry] if is_top else ahead.levels[slot, entry]
        each = value >> KIND_BITS
        own_window = ahead.first_window[each]
        if each < middle:
            position = ahead.position[stored, each]
            if value & IS_FOLLOWED == 0 or position < 0:
                continue
            for window in range(max(first_window, own_window), ahead.last_window[each] + 1):
                source = (position * n_windows + window - own_window) * n_numbers
                target = (window - first_window) * n_numbers
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
        own = (slot * ahead.position.shape[1] + each) * n_windows - own_window
        for window in range(max(first_window, own_window), after_window):
            source = (window - first_window) * n_numbers
            target = (own + window) * n_numbers
            if ahead.sum_whole[source] != 0:
                for number in range(n_numbers):
                    put_together(
                        template.ways[number], ahead.whole, ahead.real, ahead.scale, target + number,
                        ahead.sum_whole, ahead.sum_real, ahead.sum_scale, source + number,
                    )  # fmt: skip
    ahead.level_size[slot, level] = kept - first_kept


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
