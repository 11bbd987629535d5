"""From one segment of an overlap to the next: windows that end, members of which nothing more can come."""

from __future__ import annotations

from engine.kernels.compile.ways import inlined, leaf
from engine.kernels.trends.arrays import N_DERIVED, N_NUMBERS, N_WINDOWS, SLIDE_MS, WITHIN_MS
from engine.kernels.trends.graph import close, end_order, pass_on, store
from engine.kernels.trends.numbers import put_together
from engine.kernels.trends.overlap_arrays import (
    BY_EVENTS,
    CHANNELS_MAY,
    N_ENTRIES,
    N_MEMBERS,
    N_NODES,
    N_PLANES,
    N_RETIRED,
    N_SLOTS,
    PARTITION,
    RETIRED_MS,
    RETIRED_REACHED,
    RETIRED_SERIAL,
    TIME_MS,
    TOTAL,
)

_GONE = -1


@inlined
def first_number(template, entry, plane):
    """Where the numbers (w, n) of an entry begin."""
    return (entry * N_PLANES + plane) * template.sizes[N_WINDOWS] * template.sizes[N_NUMBERS]


@inlined
def clear(whole, scale, first, n):
    """Nothing, n times."""
    for number in range(first, first + n):
        whole[number] = 0
        scale[number] = 0


@leaf
def move_on(template, overlap, members, sums, vertices, results, scratch, retired, time_ms):
    """All that is earlier than a time is known: tell the windows that end before it, and let members go that cannot
    come any more, whose trends have no member that still can."""
    partition = overlap.state[PARTITION]
    slide_ms = template.sizes[SLIDE_MS]
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    first_window = -((template.sizes[WITHIN_MS] - time_ms) // slide_ms)
    last_window = (time_ms - 1) // slide_ms
    first_open, last_open = sums.first_open[partition], sums.last_open[partition]
    last_closing = min(first_window - 1, last_open)
    over = 0
    doubts = 0
    is_over = False
    for member in range(overlap.state[N_MEMBERS]):
        if overlap.hi_ms[member] < time_ms:
            over |= overlap.bit[member]
            is_over = True
            sums.order[partition] = max(sums.order[partition], members.order[member])
        else:
            doubts |= overlap.doubt[member]
    overlap.state[CHANNELS_MAY] &= doubts
    if over != 0:
        _forget_used(template, overlap, over)
    for entry in range(overlap.state[N_ENTRIES]):
        node = overlap.entry_node[entry]
        if node < 0:
            continue
        overlap.entry_may[entry] &= doubts
        is_done = overlap.hi_ms[overlap.node_member[node]] < time_ms and overlap.entry_used[entry] == 0
        last = last_open if is_done else last_closing
        if last < first_open:
            if is_done:
                overlap.entry_node[entry] = _GONE - node
            continue
        if _put_down(template, overlap, scratch, entry, first_open, last):
            state, member = overlap.node_state[node], overlap.node_member[node]
            pass_on(template, sums, scratch, state, partition, first_open, last)
            if is_done:
                overlap.state[CHANNELS_MAY] |= overlap.entry_may[entry]
                if template.stored[state] >= 0:
                    store(template, members, vertices, scratch, state, member, first_open, last)
                    _tell_neighbours(template, overlap, node, entry, time_ms, max(first_open, first_window), last)
        if is_done:
            overlap.entry_node[entry] = _GONE - node
    end_order(template, sums, partition)
    close(template, sums, vertices, results, partition, first_window - 1)
    for window in range(first_open, last_closing + 1):
        slot = (window % n_windows) * n_numbers
        for entry in range(overlap.state[N_ENTRIES]):
            clear(overlap.whole, overlap.scale, first_number(template, entry, TOTAL) + slot, n_numbers)
        for node in range(overlap.state[N_NODES]):
            clear(overlap.base_whole, overlap.base_scale, node * n_windows * n_numbers + slot, n_numbers)
    sums.first_open[partition] = first_window
    sums.last_open[partition] = last_window
    overlap.state[TIME_MS] = time_ms
    if is_over:
        _let_go(template, overlap, members, retired, time_ms)


@inlined
def _forget_used(template, overlap, over):
    """Members that are over are in no set any more; entries that are one then are put together."""
    width = template.sizes[N_WINDOWS] * template.sizes[N_NUMBERS]
    n_numbers = template.sizes[N_NUMBERS]
    n_sets = 1 << overlap.state[N_SLOTS]
    for entry in range(overlap.state[N_ENTRIES]):
        if overlap.entry_used[entry] & over == 0:
            continue
        node = overlap.entry_node[entry]
        overlap.position[node * n_sets + overlap.entry_used[entry]] = -1
        overlap.entry_used[entry] &= ~over
        at = node * n_sets + overlap.entry_used[entry]
        other = overlap.position[at]
        if other < 0:
            overlap.position[at] = entry
            continue
        overlap.entry_may[other] |= overlap.entry_may[entry]
        source, target = first_number(template, entry, TOTAL), first_number(template, other, TOTAL)
        for number in range(width):
            put_together(
                template.ways[number % n_numbers], overlap.whole, overlap.real, overlap.scale, target + number,
                overlap.whole, overlap.real, overlap.scale, source + number,
            )  # fmt: skip
        overlap.entry_node[entry] = _GONE - node


@leaf
def give_up_sets(template, overlap):
    """Members in sets are told apart no more; whoever may have one may come back to it."""
    for entry in range(overlap.state[N_ENTRIES]):
        overlap.entry_may[entry] |= overlap.entry_used[entry]
    every = 0
    for member in range(overlap.state[N_MEMBERS]):
        every |= overlap.bit[member]
        overlap.doubt[member] |= overlap.bit[member]
        overlap.bit[member] = 0
    if every == 0:
        return
    _forget_used(template, overlap, every)
    offset = overlap.hi_ms.shape[0]
    for node in range(overlap.state[N_NODES]):
        overlap.numbering[offset + node] = node
    _move_entries(template, overlap)


@inlined
def _put_down(template, overlap, scratch, entry, first, last):
    """The numbers of an entry in some windows; returns whether there are trends in any."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    total = first_number(template, entry, TOTAL)
    found = False
    for window in range(first, last + 1):
        source = total + (window % n_windows) * n_numbers
        target = (window - first) * n_numbers
        found = found or overlap.whole[source] != 0
        for number in range(n_numbers):
            scratch.whole[target + number] = overlap.whole[source + number]
            scratch.scale[target + number] = overlap.scale[source + number]
    return found


@inlined
def _tell_neighbours(template, overlap, before, entry, time_ms, first, last):
    """An event that is stored is looked at by events that come later; those that are here get what it has now."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    capacity = overlap.node_member.shape[0]
    total = first_number(template, entry, TOTAL)
    for node in range(overlap.state[N_NODES]):
        if (
            overlap.hi_ms[overlap.node_member[node]] < time_ms
            or overlap.adjacent[before * capacity + node] != BY_EVENTS
        ):
            continue
        for window in range(first, last + 1):
            slot = (window % n_windows) * n_numbers
            if overlap.whole[total + slot] == 0:
                continue
            for number in range(n_numbers):
                put_together(
                    template.ways[number], overlap.base_whole, overlap.base_real, overlap.base_scale,
                    node * n_windows * n_numbers + slot + number,
                    overlap.whole, overlap.real, overlap.scale, total + slot + number,
                )  # fmt: skip


@leaf
def _let_go(template, overlap, members, retired, time_ms):
    """Members that are over and in no entry any more are forgotten; the others move together."""
    n_members = overlap.state[N_MEMBERS]
    n_entries = overlap.state[N_ENTRIES]
    for member in range(n_members):
        overlap.numbering[member] = 1 if overlap.hi_ms[member] >= time_ms else 0
    for entry in range(n_entries):
        if overlap.entry_node[entry] >= 0:
            overlap.numbering[overlap.node_member[overlap.entry_node[entry]]] = 1
    n_kept = 0
    for member in range(n_members):
        if overlap.numbering[member] == 0:
            _retire(overlap, members, retired, member)
            overlap.numbering[member] = -1
            continue
        _move_member(template, overlap, members, member, n_kept)
        if overlap.hi_ms[n_kept] < time_ms:
            overlap.bit[n_kept] = 0
            overlap.doubt[n_kept] = 0
        overlap.numbering[member] = n_kept
        n_kept += 1
    overlap.state[N_MEMBERS] = n_kept
    _move_nodes(template, overlap)
    _move_entries(template, overlap)


@inlined
def _retire(overlap, members, retired, member):
    if retired.shape[1] == 0:
        return
    at = overlap.state[N_RETIRED]
    overlap.state[N_RETIRED] = at + 1
    retired[RETIRED_SERIAL, at] = overlap.serial[member]
    retired[RETIRED_MS, at] = members.t_ms[member]
    for part in range(members.reached.shape[0]):
        retired[RETIRED_REACHED + part, at] = members.reached[part, member]


@inlined
def _move_member(template, overlap, members, old, new):
    if old == new:
        return
    overlap.hi_ms[new] = overlap.hi_ms[old]
    overlap.clock[new] = overlap.clock[old]
    overlap.serial[new] = overlap.serial[old]
    overlap.bit[new] = overlap.bit[old]
    overlap.doubt[new] = overlap.doubt[old]
    members.t_ms[new] = members.t_ms[old]
    members.order[new] = members.order[old]
    members.states[new] = members.states[old]
    for column in range(members.columns.shape[0]):
        members.columns[column, new] = members.columns[column, old]
    for column in range(template.sizes[N_DERIVED]):
        members.derived[column, new] = members.derived[column, old]
    if members.reached.shape[1] > 0:
        for part in range(members.reached.shape[0]):
            members.reached[part, new] = members.reached[part, old]


@inlined
def _move_nodes(template, overlap):
    """Those of members that are kept, in order; `numbering` has new numbers of members, then those of nodes."""
    width = template.sizes[N_WINDOWS] * template.sizes[N_NUMBERS]
    capacity = overlap.node_member.shape[0]
    offset = overlap.hi_ms.shape[0]
    n_nodes = overlap.state[N_NODES]
    n_kept = 0
    for node in range(n_nodes):
        member = overlap.numbering[overlap.node_member[node]]
        overlap.numbering[offset + node] = -1
        if member < 0:
            continue
        overlap.numbering[offset + node] = n_kept
        overlap.node_member[n_kept] = member
        overlap.node_state[n_kept] = overlap.node_state[node]
        for number in range(width):
            overlap.base_whole[n_kept * width + number] = overlap.base_whole[node * width + number]
            overlap.base_scale[n_kept * width + number] = overlap.base_scale[node * width + number]
        n_kept += 1
    for node in range(n_nodes):
        new = overlap.numbering[offset + node]
        if new < 0:
            continue
        for other in range(n_nodes):
            new_other = overlap.numbering[offset + other]
            if new_other >= 0:
                overlap.adjacent[new * capacity + new_other] = overlap.adjacent[node * capacity + other]
    overlap.state[N_NODES] = n_kept


@inlined
def _move_entries(template, overlap):
    """Those that are kept, in order."""
    width = template.sizes[N_WINDOWS] * template.sizes[N_NUMBERS]
    offset = overlap.hi_ms.shape[0]
    n_sets = 1 << overlap.state[N_SLOTS]
    for at in range(overlap.state[N_NODES] * n_sets):
        overlap.position[at] = -1
    n_kept = 0
    for entry in range(overlap.state[N_ENTRIES]):
        if overlap.entry_node[entry] < 0:
            continue
        node, used = overlap.numbering[offset + overlap.entry_node[entry]], overlap.entry_used[entry]
        overlap.position[node * n_sets + used] = n_kept
        overlap.entry_node[n_kept] = node
        overlap.entry_used[n_kept] = used
        overlap.entry_may[n_kept] = overlap.entry_may[entry]
        if n_kept != entry:
            source, target = first_number(template, entry, TOTAL), first_number(template, n_kept, TOTAL)
            for number in range(width):
                overlap.whole[target + number] = overlap.whole[source + number]
                overlap.scale[target + number] = overlap.scale[source + number]
        n_kept += 1
    overlap.state[N_ENTRIES] = n_kept


__all__ = ["clear", "first_number", "give_up_sets", "move_on"]
