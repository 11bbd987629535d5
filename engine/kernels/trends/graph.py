"""The graph of events with propagated aggregates, shared by all windows (GRETA, Algorithm 2, sections 5 to 7).

Edges are not stored: an event gets what the events before it pass on, and passes on what it has. Where a transition has
no edge predicate, one running sum per window stands for all earlier events; else those are looked at one by one, or
through an index. Events of one order do not see each other, so what they pass on is held back until a later one comes:
what the paper's scheduler does with transactions (section 7). A negated pattern keeps of its finished trends the latest
start (Definition 5): by the definitions an event is cut off from what comes after such a trend if it lies before its
start, in every window and for that transition alone; GRETA's Example 5 deletes it as a whole.
"""

from __future__ import annotations

import math

from engine.kernels.compile.ways import inlined, leaf
from engine.kernels.trends.ahead import bring, is_due, note_position
from engine.kernels.trends.arrays import (
    COLUMN,
    FIRST_REACHED,
    KIND,
    LAST_REACHED,
    N_CHANNELS,
    N_COLUMNS,
    N_EMITTED,
    N_GRAPH_CHANNELS,
    N_GRAPHS,
    N_KEPT,
    N_LENGTHS,
    N_LIMBS,
    N_NUMBERS,
    N_POSITIVE,
    N_STATES,
    N_STORED,
    N_WINDOWS,
    NEVER,
    NUMBER,
    OF_EVENTS,
    OF_EXTREMES,
    OF_KNOWN,
    OF_WHOLE_VALUES,
    REACHED_BY,
    SLIDE_MS,
    WITHIN_MS,
)
from engine.kernels.trends.edges import add_scanned
from engine.kernels.trends.held import hold, latest_start
from engine.kernels.trends.lengths import is_emitted, is_needed, need_windows, open_lengths, sum_up, tell_lengths
from engine.kernels.trends.numbers import add_product, add_times, enter_extreme, put_together
from engine.kernels.trends.together import contribute_together, end_of_run


@leaf
def advance(template, batch, sums, vertices, held, indexes, ahead, results, scratch, first, end):
    """Take in the events [first, end); returns the number of the next one, less than `end` where there was no room for
    the results of windows that it closes."""
    slide_ms = template.sizes[SLIDE_MS]
    within_ms = template.sizes[WITHIN_MS]
    before_ms = NEVER
    last_window = 0
    first_window = 0
    at = first
    while at < end:
        t_ms = batch.t_ms[at]
        if t_ms != before_ms:
            last_window = (t_ms - 1) // slide_ms
            first_window = -((within_ms - t_ms) // slide_ms)
            before_ms = t_ms
            if template.sizes[N_LENGTHS] > 0:
                need_windows(template, scratch, t_ms, first_window, last_window)
        if last_window < first_window:  # between two windows
            at += 1
            continue
        partition = batch.partition[at]
        if results.n_rows[0] + template.sizes[N_EMITTED] > results.window.shape[0]:
            return at
        if batch.order[at] > sums.order[partition]:
            end_order(template, sums, partition)
            if template.sizes[N_LENGTHS] > 0:
                tell_lengths(template, sums, vertices, results, partition, t_ms)
                open_lengths(template, sums, partition, t_ms)
            close(template, sums, vertices, results, partition, first_window - 1)
            sums.order[partition] = batch.order[at]
            sums.first_open[partition] = first_window
            sums.last_open[partition] = last_window
        if is_due(ahead, partition, at - ahead.first[partition]):
            bring(template, batch, vertices, ahead, partition, at - ahead.first[partition])
        after = _end_of_like(template, batch, at, end)
        _read(template, batch, sums, vertices, held, indexes, ahead, scratch, at, after, first_window, last_window)
        at = after
    return end


@leaf
def close_windows(template, sums, vertices, results, n_partitions, watermark_ms, first):
    """Close the windows that end before the watermark in all partitions from number `first` on, since no event of them
    can come any more; returns the number of the next partition, fewer than all where there was no room for results."""
    last_window = (watermark_ms - 1 - template.sizes[WITHIN_MS]) // template.sizes[SLIDE_MS]
    for partition in range(first, n_partitions):
        if sums.first_open[partition] > sums.last_open[partition]:
            continue
        if results.n_rows[0] + template.sizes[N_EMITTED] > results.window.shape[0]:
            return partition
        if template.sizes[N_LENGTHS] > 0 and is_emitted(template, sums, partition, watermark_ms):
            end_order(template, sums, partition)
            tell_lengths(template, sums, vertices, results, partition, watermark_ms)
        if sums.first_open[partition] <= last_window:
            end_order(template, sums, partition)
            close(template, sums, vertices, results, partition, last_window)
            sums.first_open[partition] = last_window + 1
    return n_partitions


@inlined
def _end_of_like(template, batch, first, end):
    """The end of the events from number `first` on, before `end`, that are read together."""
    after = first + 1
    if (
        after >= end
        or batch.order[after] != batch.order[first]
        or batch.partition[after] != batch.partition[first]
        or batch.states[after] != batch.states[first]
    ):
        return after
    return end_of_run(template, batch, first, end)


@inlined
def _read(template, batch, sums, vertices, held, indexes, ahead, scratch, at, after, first_window, last_window):
    """The event, or those up to `after` that are like it, become vertices of each state that reads them."""
    n_states = template.sizes[N_STATES]
    n_positive = template.sizes[N_POSITIVE]
    states = batch.states[at]
    for state in range(n_states):
        if (states >> state) & 1 == 0:
            continue
        if state >= n_positive:
            read_negated(template, batch, sums, held, scratch, state, at)
            continue
        gather(template, batch, sums, vertices, indexes, ahead, scratch, state, at, first_window, last_window)
        if not is_reached(template, scratch, last_window - first_window + 1):
            continue
        if batch.reached.shape[1] > 0:
            for each in range(at, after):
                note_reached(template, batch, scratch, state, each, first_window, last_window)
        n_open = last_window - first_window + 1
        if after == at + 1:
            contribute(template, batch, scratch.whole, scratch.real, scratch.scale, 0, state, at, n_open)
        else:
            contribute_together(template, batch, scratch, state, at, after, n_open)
        pass_on(template, sums, scratch, state, batch.partition[at], first_window, last_window)
        if template.stored[state] >= 0:
            note_position(template, batch, vertices, ahead, state, at)
            store(template, batch, vertices, scratch, state, at, first_window, last_window)


@inlined
def gather(template, batch, sums, vertices, indexes, ahead, scratch, state, at, first_window, last_window):
    """What the event gets: a trend that it begins, in windows where nothing forbids it, and those that it goes on."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    n_channels = template.sizes[N_CHANNELS]
    n_graphs = template.sizes[N_GRAPHS]
    slide_ms = template.sizes[SLIDE_MS]
    partition = batch.partition[at]
    for position in range((last_window - first_window + 1) * n_numbers):
        scratch.whole[position] = 0
        scratch.scale[position] = 0
    if template.is_start[state]:
        begin = template.start_cut_ends[state - 1] if state > 0 else 0
        cut_ms = NEVER
        for cut in range(begin, template.start_cut_ends[state]):
            cut_ms = max(cut_ms, sums.finished_ms[partition * n_graphs + template.start_cuts[cut]])
        for window in range(first_window, last_window + 1):
            if cut_ms <= window * slide_ms and is_needed(template, scratch, window - first_window):
                scratch.whole[(window - first_window) * n_numbers] = 1
                if template.sizes[N_LIMBS] > 0:
                    scratch.whole[(window - first_window) * n_numbers + template.limbs[0]] = 1
    begin = template.fed_by_ends[state - 1] if state > 0 else 0
    for entry in range(begin, template.fed_by_ends[state]):
        channel = partition * n_channels + template.fed_by[entry]
        slot = first_window % n_windows if n_windows > 1 else 0
        for window in range(last_window - first_window + 1):
            source = (channel * n_windows + slot) * n_numbers
            target = window * n_numbers
            slot = slot + 1 if slot + 1 < n_windows else 0
            if sums.whole[source] != 0 and is_needed(template, scratch, window):  # some trends
                for number in range(n_numbers):
                    put_together(
                        template.ways[number], scratch.whole, scratch.real, scratch.scale, target + number,
                        sums.whole, sums.real, sums.scale, source + number,
                    )  # fmt: skip
    begin = template.scan_ends[state - 1] if state > 0 else 0
    for entry in range(begin, template.scan_ends[state]):
        add_scanned(template, batch, sums, vertices, indexes, ahead, scratch, entry, at, first_window, last_window)


@inlined
def is_reached(template, scratch, n_windows):
    """Whether the event is in some trend."""
    found = False
    for window in range(n_windows):
        found = found or scratch.whole[window * template.sizes[N_NUMBERS]] != 0
    return found


@inlined
def note_reached(template, batch, scratch, state, at, first_window, last_window):
    """In which windows a trend comes to the event."""
    n_numbers = template.sizes[N_NUMBERS]
    for window in range(first_window, last_window + 1):
        if scratch.whole[(window - first_window) * n_numbers] == 0:
            continue
        if batch.reached[REACHED_BY, at] < 0:
            batch.reached[FIRST_REACHED, at] = window
            batch.reached[LAST_REACHED, at] = window
            batch.reached[REACHED_BY, at] = state
        batch.reached[FIRST_REACHED, at] = min(batch.reached[FIRST_REACHED, at], window)
        batch.reached[LAST_REACHED, at] = max(batch.reached[LAST_REACHED, at], window)


@inlined
def contribute(template, batch, whole, real, scale, first, state, at, n_windows):
    """What the event adds by itself, once for each trend that it is the last event of so far (GRETA, Theorem 9.1);
    its numbers (w, n) begin at `first`."""
    n_numbers = template.sizes[N_NUMBERS]
    begin = template.contribution_ends[state - 1] if state > 0 else 0
    for entry in range(begin, template.contribution_ends[state]):
        number = template.contributions[entry, NUMBER]
        kind = template.contributions[entry, KIND]
        value = 1.0
        if kind != OF_EVENTS:
            value = batch.columns[template.contributions[entry, COLUMN], batch.rows[at]]
            if math.isnan(value):  # NULL
                continue
        for window in range(n_windows):
            count = first + window * n_numbers
            if whole[count] == 0:
                continue
            if kind == OF_EXTREMES:
                enter_extreme(template.ways[number], real, scale, count + number, value)
            elif kind in (OF_EVENTS, OF_KNOWN):
                put_together(
                    template.ways[number], whole, real, scale, count + number,
                    whole, real, scale, count,
                )  # fmt: skip
            else:
                add_product(
                    whole, real, scale, count + number, value, kind == OF_WHOLE_VALUES,
                    whole, real, scale, count,
                )  # fmt: skip
            if template.limbs[number] > 0:
                factor = 1 if kind in (OF_EVENTS, OF_KNOWN) else int(value)
                add_times(
                    whole, count + template.limbs[number], count + template.limbs[0], factor, template.sizes[N_LIMBS]
                )


@inlined
def pass_on(template, sums, scratch, state, partition, first_window, last_window):
    """Into the channels of the state, for events of a later order."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    n_channels = template.sizes[N_CHANNELS]
    begin = template.feeds_ends[state - 1] if state > 0 else 0
    for entry in range(begin, template.feeds_ends[state]):
        channel = partition * n_channels + template.feeds[entry]
        slot = first_window % n_windows if n_windows > 1 else 0
        for window in range(last_window - first_window + 1):
            source = window * n_numbers
            target = (channel * n_windows + slot) * n_numbers
            slot = slot + 1 if slot + 1 < n_windows else 0
            if scratch.whole[source] != 0:
                for number in range(n_numbers):
                    put_together(
                        template.ways[number], sums.late_whole, sums.late_real, sums.late_scale, target + number,
                        scratch.whole, scratch.real, scratch.scale, source + number,
                    )  # fmt: skip


@inlined
def store(template, batch, vertices, scratch, state, at, first_window, last_window):
    """Append the event to its region, which has room."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    region = batch.partition[at] * template.sizes[N_STORED] + template.stored[state]
    position = vertices.start[region] + vertices.length[region]
    vertices.length[region] += 1
    vertices.order[position] = batch.order[at]
    vertices.first_window[position] = first_window
    vertices.last_window[position] = last_window
    for entry in range((last_window - first_window + 1) * n_numbers):
        vertices.whole[position * n_windows * n_numbers + entry] = scratch.whole[entry]
        vertices.scale[position * n_windows * n_numbers + entry] = scratch.scale[entry]
    for column in range(template.sizes[N_KEPT]):
        vertices.derived[column, position] = batch.derived[column, batch.rows[at]]
    for column in range(template.sizes[N_COLUMNS]):
        vertices.columns[column, position] = batch.columns[column, batch.rows[at]]


@leaf
def read_negated(template, batch, sums, held, scratch, state, at):
    """An event of a negated pattern: of the trends that end in it the one that starts last counts. What has begun no
    later than a trend that is finished cuts off nothing more."""
    n_channels = template.sizes[N_GRAPH_CHANNELS]
    partition = batch.partition[at]
    started = NEVER
    started_ms = NEVER
    if template.is_start[state]:
        started = batch.order[at]
        started_ms = batch.t_ms[at]
    begin = template.fed_by_ends[state - 1]
    for entry in range(begin, template.fed_by_ends[state]):
        channel = partition * n_channels + template.fed_by[entry]
        if sums.started[channel] > started:
            started = sums.started[channel]
            started_ms = sums.started_ms[channel]
    graph = partition * template.sizes[N_GRAPHS] + template.graph_of[state]
    for scan in range(template.scan_ends[state - 1], template.scan_ends[state]):
        least = max(started, sums.finished[graph])
        found = latest_start(template, batch, sums, held, scratch, scan, at, least)
        if found >= 0:
            started = held.started[found]
            started_ms = held.started_ms[found]
    if started == NEVER or started <= sums.finished[graph]:
        return
    if template.ends_graph[state] and started > sums.late_finished[graph]:
        sums.late_finished[graph] = started
        sums.late_finished_ms[graph] = started_ms
    for entry in range(template.feeds_ends[state - 1], template.feeds_ends[state]):
        channel = partition * n_channels + template.feeds[entry]
        if started > sums.late_started[channel]:
            sums.late_started[channel] = started
            sums.late_started_ms[channel] = started_ms
    if template.stored[state] >= 0:
        hold(template, batch, held, state, at, started, started_ms)


@inlined
def end_order(template, sums, partition):
    """No event of the latest order comes any more: what was held back is passed on, after what is cut off is gone."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    n_channels = template.sizes[N_CHANNELS]
    n_graphs = template.sizes[N_GRAPHS]
    first_open = sums.first_open[partition]
    last_open = sums.last_open[partition]
    for channel in range(n_channels):
        begin = template.killed_by_ends[channel - 1] if channel > 0 else 0
        is_killed = _is_finished(
            sums, partition * n_graphs, template.killed_by, begin, template.killed_by_ends[channel]
        )
        for window in range(first_open, last_open + 1):
            source = ((partition * n_channels + channel) * n_windows + window % n_windows) * n_numbers
            if is_killed:
                for number in range(n_numbers):
                    sums.whole[source + number] = 0
                    sums.scale[source + number] = 0
            if sums.late_whole[source] != 0:
                for number in range(n_numbers):
                    put_together(
                        template.ways[number], sums.whole, sums.real, sums.scale, source + number,
                        sums.late_whole, sums.late_real, sums.late_scale, source + number,
                    )  # fmt: skip
                    sums.late_whole[source + number] = 0
                    sums.late_scale[source + number] = 0
    _end_order_of_graphs(template, sums, partition)


@inlined
def _end_order_of_graphs(template, sums, partition):
    n_graphs = template.sizes[N_GRAPHS]
    n_channels = template.sizes[N_GRAPH_CHANNELS]
    for channel in range(n_channels):
        at = partition * n_channels + channel
        begin = template.graph_killed_by_ends[channel - 1] if channel > 0 else 0
        if _is_finished(
            sums, partition * n_graphs, template.graph_killed_by, begin, template.graph_killed_by_ends[channel]
        ):
            sums.started[at] = NEVER
        if sums.late_started[at] > sums.started[at]:
            sums.started[at] = sums.late_started[at]
            sums.started_ms[at] = sums.late_started_ms[at]
        sums.late_started[at] = NEVER
    for graph in range(partition * n_graphs, (partition + 1) * n_graphs):
        if sums.late_finished[graph] > sums.finished[graph]:
            sums.finished[graph] = sums.late_finished[graph]
            sums.finished_ms[graph] = sums.late_finished_ms[graph]
        sums.late_finished[graph] = NEVER


@inlined
def _is_finished(sums, first_graph, graphs, first, last):
    """Whether a trend of one of these negated patterns has ended in the latest order."""
    found = False
    for entry in range(first, last):
        found = found or sums.late_finished[first_graph + graphs[entry]] != NEVER
    return found


@leaf
def close(template, sums, vertices, results, partition, last_window):
    """Tell the open windows of a partition up to a number, and make room for those that come in their place."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    n_channels = template.sizes[N_CHANNELS]
    for window in range(sums.first_open[partition], min(last_window, sums.last_open[partition]) + 1):
        row = results.n_rows[0]
        is_alone = template.sizes[N_LENGTHS] == 0
        if is_alone:
            sum_up(template, sums, vertices, results, partition, window, row)
        mark = partition * n_windows + window % n_windows
        if is_alone and results.whole[row * n_numbers] != 0:
            results.marks[row] = sums.marks[mark]
            results.partition[row] = partition
            results.window[row] = window
            results.n_rows[0] = row + 1
        sums.marks[mark] = 0
        for channel in range(partition * n_channels, (partition + 1) * n_channels):
            source = (channel * n_windows + window % n_windows) * n_numbers
            for number in range(n_numbers):
                sums.whole[source + number] = 0
                sums.scale[source + number] = 0


__all__ = [
    "advance",
    "close",
    "close_windows",
    "contribute",
    "end_order",
    "gather",
    "is_reached",
    "note_reached",
    "pass_on",
    "read_negated",
    "store",
]
