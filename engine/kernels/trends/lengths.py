"""Windows of several lengths over one graph.

What an event has in a window depends on where the window begins, and on nothing else of it: how many trends come to it
since then. So windows of several lengths and slides have their numbers in common wherever they begin together; a graph
whose windows begin at each common divisor of them, and last as long as the longest, has the numbers of all. Each of
them is told when its own end has come, and no event is given to a beginning of which all windows are over.
"""

from __future__ import annotations

from engine.kernels.compile.ways import inlined, leaf
from engine.kernels.trends.arrays import (
    N_CHANNELS,
    N_LENGTHS,
    N_NUMBERS,
    N_STORED,
    N_WINDOWS,
    SLIDE_MS,
    SOURCE,
)
from engine.kernels.trends.edges import first_in_reach, is_needed
from engine.kernels.trends.numbers import put_together


@inlined
def need_windows(template, scratch, t_ms, first_window, last_window):
    """Mark the windows of an event of this time that begin where one of some length does that holds it, too."""
    for window in range(last_window - first_window + 1):
        scratch.needed[window] = 0
    for length in range(template.sizes[N_LENGTHS]):
        slide_ms = template.emitted_slide[length]
        step = slide_ms // template.sizes[SLIDE_MS]
        first = -((template.emitted_within[length] - t_ms) // slide_ms)
        for window in range(first, (t_ms - 1) // slide_ms + 1):
            scratch.needed[window * step - first_window] = 1


@inlined
def open_lengths(template, sums, partition, t_ms):
    """An event of this time has come: which windows of each length are open."""
    n_lengths = template.sizes[N_LENGTHS]
    for length in range(n_lengths):
        slide_ms = template.emitted_slide[length]
        at = partition * n_lengths + length
        sums.emitted_first[at] = -((template.emitted_within[length] - t_ms) // slide_ms)
        sums.emitted_last[at] = (t_ms - 1) // slide_ms


@inlined
def is_emitted(template, sums, partition, until_ms):
    """Whether a window that is open ends before this time."""
    n_lengths = template.sizes[N_LENGTHS]
    found = False
    for length in range(n_lengths):
        at = partition * n_lengths + length
        last = (until_ms - 1 - template.emitted_within[length]) // template.emitted_slide[length]
        found = found or sums.emitted_first[at] <= min(last, sums.emitted_last[at])
    return found


@inlined
def tell_lengths(template, sums, vertices, results, partition, until_ms):
    """Tell the open windows of each length that end before this time; the latest order has ended."""
    n_lengths = template.sizes[N_LENGTHS]
    n_numbers = template.sizes[N_NUMBERS]
    for length in range(n_lengths):
        at = partition * n_lengths + length
        slide_ms = template.emitted_slide[length]
        last = min(sums.emitted_last[at], (until_ms - 1 - template.emitted_within[length]) // slide_ms)
        for window in range(sums.emitted_first[at], last + 1):
            row = results.n_rows[0]
            begin = window * (slide_ms // template.sizes[SLIDE_MS])
            sum_up(template, sums, vertices, results, partition, begin, row)
            if results.whole[row * n_numbers] != 0:
                results.marks[row] = 0
                results.partition[row] = partition
                results.window[row] = window
                results.length[row] = length
                results.n_rows[0] = row + 1
        sums.emitted_first[at] = max(sums.emitted_first[at], last + 1)


@leaf
def sum_up(template, sums, vertices, results, partition, window, row):
    """What the trends of a window have together that are over, as a row of the results."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    n_channels = template.sizes[N_CHANNELS]
    for number in range(n_numbers):
        results.whole[row * n_numbers + number] = 0
        results.scale[row * n_numbers + number] = 0
    for entry in range(template.end_channels.shape[0]):
        channel = partition * n_channels + template.end_channels[entry]
        source = (channel * n_windows + window % n_windows) * n_numbers
        if sums.whole[source] != 0:
            for number in range(n_numbers):
                put_together(
                    template.ways[number], results.whole, results.real, results.scale, row * n_numbers + number,
                    sums.whole, sums.real, sums.scale, source + number,
                )  # fmt: skip
    for entry in range(template.end_scans.shape[0]):
        _add_ends(template, sums, vertices, results, partition, entry, window, row)


@leaf
def _add_ends(template, sums, vertices, results, partition, entry, window, row):
    """What the last events of trends have that no trend of a negated pattern follows, one by one."""
    n_windows = template.sizes[N_WINDOWS]
    n_numbers = template.sizes[N_NUMBERS]
    scan = template.end_scans[entry]
    state = template.scans[scan, SOURCE]
    region = partition * template.sizes[N_STORED] + template.stored[state]
    end = vertices.start[region] + vertices.length[region]
    for position in range(first_in_reach(template, sums, vertices, partition, scan, window), end):
        if vertices.first_window[position] > window:
            return
        source = (position * n_windows + window - vertices.first_window[position]) * n_numbers
        if vertices.whole[source] != 0:
            for number in range(n_numbers):
                put_together(
                    template.ways[number], results.whole, results.real, results.scale, row * n_numbers + number,
                    vertices.whole, vertices.real, vertices.scale, source + number,
                )  # fmt: skip


__all__ = ["is_emitted", "is_needed", "need_windows", "open_lengths", "sum_up", "tell_lengths"]
