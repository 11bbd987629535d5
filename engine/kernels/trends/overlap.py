"""Trends over events whose times are intervals that overlap: expected numbers over all possible worlds.

Time is swept. Its segments are cut where an interval begins or ends and where a window does, so that within a segment
of L ms an event with an interval of d ms is at each ms with probability 1/d. Trends whose last k events lie in the
segment, in one order, have C(L, k) ways to do so: with H_1(v) = L/d_v (start_v + sum of what u had before), and
H_k+1(v) = 1/d_v (L - k)/(k + 1) (sum of H_k(u)), what v has gains the sum of all H_k(v). All terms are positive, so
nothing is lost by subtraction, and what is impossible is zero. Sums and extremes go along, as in the graph.

A trend has an event once. Where an event may come to itself again on its way through others that overlap it, what is
known of the trends that end in an event is kept by the set of events that they have and that may still come. When one
finds no room in the set, sets are given up until all that overlap then are over, and an event that comes back is
counted as if it were another one: then the row is an upper bound, and says so.

Events of which nothing more can come pass on what they have, and are in the graph of `engine.kernels.trends.graph` like
any other one.
"""

from __future__ import annotations

from engine.kernels.compile.ways import inlined, leaf
from engine.kernels.trends.arrays import (
    FIRST_COMPARED,
    FIRST_PROGRAM,
    IS_BOUND,
    IS_EXPECTED,
    LAST_COMPARED,
    LAST_PROGRAM,
    N_CHANNELS,
    N_COLUMNS,
    N_DERIVED,
    N_LIMBS,
    N_NUMBERS,
    N_POSITIVE,
    N_WINDOWS,
    NEVER,
    SLIDE_MS,
    WITHIN_MS,
)
from engine.kernels.trends.edges import add_scanned, compare, programs_hold
from engine.kernels.trends.graph import contribute
from engine.kernels.trends.numbers import ADDED, add_product, put_together
from engine.kernels.trends.overlap_arrays import (
    BY_CHANNEL,
    BY_EVENTS,
    CAPACITY_FOR_ENTRIES,
    CAPACITY_FOR_MEMBERS,
    CAPACITY_FOR_RESULTS,
    CHANNELS_MAY,
    CLOCK,
    FRESH,
    HI_MS,
    MOST_MEMBERS,
    MOST_SLOTS,
    N_ENTRIES,
    N_MEMBERS,
    N_NODES,
    N_PLANES,
    N_REJECTED,
    N_SLOTS,
    NEVER_ADJACENT,
    NEXT,
    NO_JOIN,
    NOW,
    PARTITION,
    SERIAL,
    SUMMED,
    TIME_MS,
    TOTAL,
    WANTS,
)
from engine.kernels.trends.overlap_upkeep import clear, first_number, give_up_sets, move_on

_LAST_DOUBT = 62

_NEGLIGIBLE = 2.0**-80
"""So unlikely worlds, with so many events in one segment, are left out; they are fewer than what doubles round."""


@leaf
def sweep(
    template, table, overlap, members, batch, coming, sums, vertices, indexes, ahead, results, scratch, retired, first,
    last, until_ms,
):  # fmt: skip
    """Take in the events [first, last) of a batch, which are of this partition, then go on until a time, NEVER: no
    further; returns the number of the next event. WANTS says what is missing where it is not done."""
    for at in range(first, last):
        if not _sweep_to(
            template, table, overlap, members, sums, vertices, results, scratch, retired, batch.t_ms[at], True
        ):
            return at
        if overlap.state[N_MEMBERS] >= MOST_MEMBERS:
            give_up_sets(template, overlap)
            if _n_active(overlap) >= MOST_MEMBERS:
                overlap.state[N_REJECTED] += 1
                continue
        if (
            overlap.state[N_MEMBERS] >= overlap.hi_ms.shape[0]
            or overlap.state[N_NODES] + template.sizes[N_POSITIVE] > overlap.node_member.shape[0]
        ):
            overlap.state[WANTS] = CAPACITY_FOR_MEMBERS
            return at
        _arrive(template, table, overlap, members, batch, coming, sums, vertices, indexes, ahead, scratch, at)
    if until_ms != NEVER:
        _sweep_to(template, table, overlap, members, sums, vertices, results, scratch, retired, until_ms, False)
    return last


@leaf
def _sweep_to(template, table, overlap, members, sums, vertices, results, scratch, retired, until_ms, comes):
    """Go through the segments before a time; with an event that `comes` then, up to it even where there is no other.
    Returns whether there was room for all."""
    while overlap.state[TIME_MS] < until_ms and (comes or overlap.state[N_MEMBERS] > 0):
        if results.n_rows[0] + template.sizes[N_WINDOWS] > results.window.shape[0]:
            overlap.state[WANTS] = CAPACITY_FOR_RESULTS
            return False
        if overlap.state[N_ENTRIES] + _most_new(overlap) > overlap.entry_node.shape[0]:
            overlap.state[WANTS] = CAPACITY_FOR_ENTRIES
            return False
        end_ms = until_ms
        if overlap.state[N_MEMBERS] > 0:
            end_ms = _end_of_segment(template, overlap, until_ms)
            _segment(template, table, overlap, members, sums, end_ms)
        move_on(template, overlap, members, sums, vertices, results, scratch, retired, end_ms)
    return True


@inlined
def _most_new(overlap):
    """Entries that a segment may make: of each node one for each set of members in use."""
    sets = 1
    for member in range(overlap.state[N_MEMBERS]):
        if overlap.bit[member] != 0:
            sets *= 2
    return sets * overlap.state[N_NODES]


@inlined
def _end_of_segment(template, overlap, until_ms):
    """Until then no interval begins or ends, and no window does."""
    slide_ms = template.sizes[SLIDE_MS]
    within_ms = template.sizes[WITHIN_MS]
    now_ms = overlap.state[TIME_MS]
    end_ms = min(until_ms, ((now_ms - 1) // slide_ms + 1) * slide_ms + 1)
    end_ms = min(end_ms, ((now_ms - 1 - within_ms) // slide_ms + 1) * slide_ms + within_ms + 1)
    for member in range(overlap.state[N_MEMBERS]):
        if overlap.hi_ms[member] >= now_ms:
            end_ms = min(end_ms, overlap.hi_ms[member] + 1)
    return end_ms


# --------------------------------------------------------------------- members


@inlined
def _n_active(overlap):
    """Members that can still come."""
    n = 0
    for member in range(overlap.state[N_MEMBERS]):
        if overlap.hi_ms[member] >= overlap.state[TIME_MS]:
            n += 1
    return n


@leaf
def _arrive(template, table, overlap, members, batch, coming, sums, vertices, indexes, ahead, scratch, at):
    """An event becomes a member, unless the events of its clock leave its order open to nobody but the clock."""
    row = batch.rows[at]
    hi_ms = coming[HI_MS, row]
    lo_ms = batch.t_ms[at]
    clock = coming[CLOCK, row]
    member = overlap.state[N_MEMBERS]
    if clock >= 0:
        for other in range(member):
            if (
                overlap.clock[other] == clock
                and overlap.hi_ms[other] >= lo_ms
                and (hi_ms > lo_ms or overlap.hi_ms[other] > members.t_ms[other])
            ):
                overlap.state[N_REJECTED] += 1
                return
    overlap.state[N_MEMBERS] = member + 1
    overlap.hi_ms[member] = hi_ms
    overlap.clock[member] = clock
    overlap.serial[member] = coming[SERIAL, row]
    members.t_ms[member] = lo_ms
    members.order[member] = batch.order[at]
    members.states[member] = batch.states[at]
    for column in range(batch.columns.shape[0]):
        members.columns[column, member] = batch.columns[column, row]
    for column in range(template.sizes[N_DERIVED]):
        members.derived[column, member] = batch.derived[column, row]
    if members.reached.shape[1] > 0:
        for part in range(members.reached.shape[0]):
            members.reached[part, member] = -1
    _give_bit(template, table, overlap, member, batch.states[at], hi_ms > lo_ms)
    for state in range(template.sizes[N_POSITIVE]):
        if (batch.states[at] >> state) & 1:
            _add_node(template, table, overlap, members, sums, vertices, indexes, ahead, scratch, member, state)


@inlined
def _give_bit(template, table, overlap, member, states, is_interval):
    """A bit for an event that may come to itself again: in the sets, or where these are given up among the others."""
    returns = False
    for state in range(template.sizes[N_POSITIVE]):
        returns = returns or ((states >> state) & 1 == 1 and table.returns[state] != 0)
    overlap.bit[member] = 0
    overlap.doubt[member] = 0
    if not (returns and is_interval):
        return
    used = 0
    doubts = 0
    for other in range(member):
        used |= overlap.bit[other]
        doubts |= overlap.doubt[other]
    if doubts == 0:
        for slot in range(overlap.state[N_SLOTS]):
            if (used >> slot) & 1 == 0:
                overlap.bit[member] = 1 << slot
                return
        give_up_sets(template, overlap)
    slot = MOST_SLOTS
    while slot < _LAST_DOUBT and (doubts >> slot) & 1 == 1:
        slot += 1
    overlap.doubt[member] = 1 << slot


@inlined
def _add_node(template, table, overlap, members, sums, vertices, indexes, ahead, scratch, member, state):
    """The member as a state reads it: what the graph passes on to it by events, and which nodes it may be next to."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    partition = overlap.state[PARTITION]
    capacity = overlap.node_member.shape[0]
    node = overlap.state[N_NODES]
    overlap.state[N_NODES] = node + 1
    overlap.node_member[node] = member
    overlap.node_state[node] = state
    for used in range(1 << overlap.state[N_SLOTS]):
        overlap.position[(node << overlap.state[N_SLOTS]) + used] = -1
    first_window = sums.first_open[partition]
    last_window = sums.last_open[partition]
    for number in range((last_window - first_window + 1) * n_numbers):
        scratch.whole[number] = 0
        scratch.scale[number] = 0
    begin = template.scan_ends[state - 1] if state > 0 else 0
    if last_window >= first_window:
        for scan in range(begin, template.scan_ends[state]):
            add_scanned(
                template, members, sums, vertices, indexes, ahead, scratch, scan, member, first_window, last_window
            )
    clear(overlap.base_whole, overlap.base_scale, node * n_windows * n_numbers, n_windows * n_numbers)
    for window in range(first_window, last_window + 1):
        target = (node * n_windows + window % n_windows) * n_numbers
        for number in range(n_numbers):
            source = (window - first_window) * n_numbers + number
            overlap.base_whole[target + number] = scratch.whole[source]
            overlap.base_scale[target + number] = scratch.scale[source]
    for other in range(node + 1):
        overlap.adjacent[other * capacity + node] = _adjacent(template, table, overlap, members, scratch, other, node)
        overlap.adjacent[node * capacity + other] = _adjacent(template, table, overlap, members, scratch, node, other)


@leaf
def _adjacent(template, table, overlap, members, scratch, before, after):
    """How a node may be followed by another one, whose member is another."""
    one = overlap.node_member[before]
    other = overlap.node_member[after]
    scan = table.joins[overlap.node_state[before], overlap.node_state[after]]
    if one == other or scan == NO_JOIN:
        return NEVER_ADJACENT
    if scan == SUMMED:
        return BY_CHANNEL
    first, last = template.scans[scan, FIRST_COMPARED], template.scans[scan, LAST_COMPARED]
    if not compare(template, members, members, first, last, one, other):
        return NEVER_ADJACENT
    first_program, last_program = template.scans[scan, FIRST_PROGRAM], template.scans[scan, LAST_PROGRAM]
    if first_program < last_program and template.sizes[N_COLUMNS] > 0:
        scratch.registers[0] = one
        scratch.registers[1] = other
        if not programs_hold(template, members, scratch, first_program, last_program):
            return NEVER_ADJACENT
    return BY_EVENTS


# -------------------------------------------------------------------- segments


@leaf
def _segment(template, table, overlap, members, sums, end_ms):
    """What the events have whose time may be in the segment up to `end_ms`."""
    partition = overlap.state[PARTITION]
    now_ms = overlap.state[TIME_MS]
    length = end_ms - now_ms
    if sums.last_open[partition] < sums.first_open[partition]:
        return
    n_before = overlap.state[N_ENTRIES]
    n_active = 0
    expected = 0.0
    for node in range(overlap.state[N_NODES]):
        member = overlap.node_member[node]
        if overlap.hi_ms[member] >= now_ms:
            n_active += 1
            expected += length / (overlap.hi_ms[member] - members.t_ms[member] + 1)
            share = length / (overlap.hi_ms[member] - members.t_ms[member] + 1)
            _get_first(template, table, overlap, members, sums, node, share, n_before)
    likely = 1.0
    for n_in in range(1, min(length, n_active)):
        likely *= expected / n_in
        if likely < _NEGLIGIBLE and expected < n_in:
            break
        if not _get_next(template, overlap, members, sums, (length - n_in) / (n_in + 1), now_ms):
            break
    _settle(template, overlap, members, sums)


@inlined
def _get_first(template, table, overlap, members, sums, node, share, n_before):
    """A node as the first of a trend in the segment: what it begins, and what was there before."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    partition = overlap.state[PARTITION]
    member, state = overlap.node_member[node], overlap.node_state[node]
    bit, doubt = overlap.bit[member], overlap.doubt[member]
    first_window, last_window = sums.first_open[partition], sums.last_open[partition]
    own = _entry_of(template, overlap, node, bit)
    target = first_number(template, own, NOW)
    if template.is_start[state]:
        for window in range(first_window, last_window + 1):
            at = target + (window % n_windows) * n_numbers
            if share == 1.0:
                overlap.whole[at] = 1
                if template.sizes[N_LIMBS] > 0:
                    overlap.whole[at + template.limbs[0]] = 1
            else:
                overlap.real[at] = share
                overlap.scale[at] = 1
                sums.marks[partition * n_windows + window % n_windows] |= IS_EXPECTED
    begin = template.fed_by_ends[state - 1] if state > 0 else 0
    for entry in range(begin, template.fed_by_ends[state]):
        channel = (partition * template.sizes[N_CHANNELS] + template.fed_by[entry]) * n_windows * n_numbers
        _add_times(
            template, overlap, sums, target, share, sums.whole, sums.real, sums.scale, channel,
            overlap.state[CHANNELS_MAY] & doubt != 0,
        )  # fmt: skip
    _add_times(
        template, overlap, sums, target, share, overlap.base_whole, overlap.base_real, overlap.base_scale,
        node * n_windows * n_numbers, overlap.state[CHANNELS_MAY] & doubt != 0,
    )  # fmt: skip
    overlap.entry_may[own] |= overlap.state[CHANNELS_MAY]
    is_by_source = table.is_by_source[0] == 1 and overlap.hi_ms[member] == members.t_ms[member]
    capacity = overlap.node_member.shape[0]
    for entry in range(overlap.state[N_ENTRIES]):
        before = overlap.entry_node[entry]
        if overlap.adjacent[before * capacity + node] == NEVER_ADJACENT or overlap.entry_used[entry] & bit != 0:
            continue
        plane = TOTAL
        if entry >= n_before:  # of the same segment: only exact times, by their place in the stream
            other = overlap.node_member[before]
            if not is_by_source or other > member or overlap.hi_ms[other] > members.t_ms[other]:
                continue
            plane = NOW
        source = first_number(template, entry, plane)
        into = _entry_of(template, overlap, node, overlap.entry_used[entry] | bit)
        overlap.entry_may[into] |= overlap.entry_may[entry]
        _add_times(
            template, overlap, sums, first_number(template, into, NOW), share, overlap.whole, overlap.real,
            overlap.scale, source, overlap.entry_may[entry] & doubt != 0,
        )  # fmt: skip
    for entry in range(overlap.state[N_ENTRIES]):
        if overlap.entry_node[entry] == node:
            contribute(
                template, members, overlap.whole, overlap.real, overlap.scale, first_number(template, entry, NOW),
                state, member, n_windows,
            )  # fmt: skip


@inlined
def _get_next(template, overlap, members, sums, ratio, now_ms):
    """Nodes as one more event of the segment after those that were the last ones in it; returns whether there is
    any."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    capacity = overlap.node_member.shape[0]
    is_any = False
    for entry in range(overlap.state[N_ENTRIES]):
        source = first_number(template, entry, NOW)
        if not _has_trends(template, overlap, source):
            continue
        before = overlap.entry_node[entry]
        for node in range(overlap.state[N_NODES]):
            member = overlap.node_member[node]
            if (
                overlap.hi_ms[member] < now_ms
                or overlap.adjacent[before * capacity + node] == NEVER_ADJACENT
                or overlap.entry_used[entry] & overlap.bit[member] != 0
            ):
                continue
            is_any = True
            into = _entry_of(template, overlap, node, overlap.entry_used[entry] | overlap.bit[member])
            overlap.entry_may[into] |= overlap.entry_may[entry]
            factor = ratio / (overlap.hi_ms[member] - members.t_ms[member] + 1)
            _add_times(
                template, overlap, sums, first_number(template, into, NEXT), factor, overlap.whole, overlap.real,
                overlap.scale, source, overlap.entry_may[entry] & overlap.doubt[member] != 0,
            )  # fmt: skip
    for entry in range(overlap.state[N_ENTRIES]):
        node = overlap.entry_node[entry]
        following, now, fresh = (
            first_number(template, entry, NEXT), first_number(template, entry, NOW),
            first_number(template, entry, FRESH),
        )  # fmt: skip
        contribute(
            template, members, overlap.whole, overlap.real, overlap.scale, following, overlap.node_state[node],
            overlap.node_member[node], n_windows,
        )  # fmt: skip
        _join(template, overlap, fresh, now)
        for number in range(n_windows * n_numbers):
            overlap.whole[now + number] = overlap.whole[following + number]
            overlap.scale[now + number] = overlap.scale[following + number]
        clear(overlap.whole, overlap.scale, following, n_windows * n_numbers)
    return is_any


@inlined
def _settle(template, overlap, members, sums):
    """The segment is over: what was found in it is known from now on."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    partition = overlap.state[PARTITION]
    for entry in range(overlap.state[N_ENTRIES]):
        node = overlap.entry_node[entry]
        total = first_number(template, entry, TOTAL)
        for plane in (FRESH, NOW):
            source = first_number(template, entry, plane)
            _join(template, overlap, total, source)
            clear(overlap.whole, overlap.scale, source, n_windows * n_numbers)
        if members.reached.shape[1] > 0:
            member = overlap.node_member[node]
            for window in range(sums.first_open[partition], sums.last_open[partition] + 1):
                if overlap.whole[total + (window % n_windows) * n_numbers] != 0:
                    if members.reached[2, member] < 0:
                        members.reached[0, member] = window
                        members.reached[1, member] = window
                        members.reached[2, member] = overlap.node_state[node]
                    members.reached[0, member] = min(members.reached[0, member], window)
                    members.reached[1, member] = max(members.reached[1, member], window)


# --------------------------------------------------------------------- numbers


@inlined
def _entry_of(template, overlap, node, used):
    """The entry of a node for a set of used members; made where there is none."""
    at = (node << overlap.state[N_SLOTS]) + used
    entry = overlap.position[at]
    if entry >= 0:
        return entry
    entry = overlap.state[N_ENTRIES]
    overlap.state[N_ENTRIES] = entry + 1
    overlap.position[at] = entry
    overlap.entry_node[entry] = node
    overlap.entry_used[entry] = used
    overlap.entry_may[entry] = overlap.doubt[overlap.node_member[node]]
    width = template.sizes[N_WINDOWS] * template.sizes[N_NUMBERS]
    clear(overlap.whole, overlap.scale, entry * N_PLANES * width, N_PLANES * width)
    return entry


@inlined
def _has_trends(template, overlap, first):
    n_numbers = template.sizes[N_NUMBERS]
    found = False
    for window in range(template.sizes[N_WINDOWS]):
        found = found or overlap.whole[first + window * n_numbers] != 0
    return found


@leaf
def _add_times(template, overlap, sums, target, factor, whole, real, scale, source, is_back):
    """Add numbers (w, n) times a factor to others; `is_back`: an event may come to itself by them."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    for slot in range(n_windows):
        position = source + slot * n_numbers
        if whole[position] == 0:
            continue
        at = target + slot * n_numbers
        mark = overlap.state[PARTITION] * n_windows + slot
        if is_back:
            sums.marks[mark] |= IS_BOUND
        if factor != 1.0:
            sums.marks[mark] |= IS_EXPECTED
        for number in range(n_numbers):
            if factor == 1.0 or template.ways[number] != ADDED:
                put_together(
                    template.ways[number], overlap.whole, overlap.real, overlap.scale, at + number,
                    whole, real, scale, position + number,
                )  # fmt: skip
            elif whole[position + number] != 0 or scale[position + number] != 0:
                add_product(
                    overlap.whole, overlap.real, overlap.scale, at + number, factor, False,
                    whole, real, scale, position + number,
                )  # fmt: skip


@inlined
def _join(template, overlap, target, source):
    """Add numbers (w, n) of an entry to others of it."""
    n_numbers = template.sizes[N_NUMBERS]
    for slot in range(template.sizes[N_WINDOWS]):
        position = source + slot * n_numbers
        if overlap.whole[position] == 0:
            continue
        for number in range(n_numbers):
            put_together(
                template.ways[number], overlap.whole, overlap.real, overlap.scale, target + slot * n_numbers + number,
                overlap.whole, overlap.real, overlap.scale, position + number,
            )  # fmt: skip


__all__ = ["sweep"]
