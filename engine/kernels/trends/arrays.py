"""The arrays of trend queries, as records.

s states: those of the positive pattern first, then those of negated ones. n numbers: the aggregates that are
propagated, COUNT(*) first. w windows at one time at most. p partitions. A list per state is two arrays: entries
[ends[s - 1], ends[s]) of `items` belong to state s.

A channel is a running sum: what all events so far that were read by one of some states have passed on. It serves the
transitions whose edges are not looked at one by one. A graph is a negated pattern; of it only the latest start of its
finished trends is known (GRETA, Definition 5): that decides which earlier events are cut off. Of its unfinished ones
only the latest start is known as well, for each channel, and for each event whose edges are looked at (`Held`).

Order: the time of an event, or with TIES SOURCE its place in the stream; events of equal order are not ordered.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.kernels.compile.types import Float64Array, Int32Array, Int64Array

BREAKS = 2**62
"""Among the bits of states: the event ends what goes on in its partition, whether a state reads it or not."""

NEVER = -(2**62)
"""Before all times and positions."""

# Columns of `scans`: transitions whose edges are looked at; first and last entries of lists.
SOURCE = 0
FIRST_COMPARED = 1
LAST_COMPARED = 2
FIRST_PROGRAM = 3
LAST_PROGRAM = 4
FIRST_CUT = 5
LAST_CUT = 6
INDEX = 7

# Columns of `compared`: a value of the earlier event, how, a value of the later one.
LEFT = 0
HOW = 1
RIGHT = 2

# Columns of `contributions`: what an event adds to a number by itself.
NUMBER = 0
KIND = 1
COLUMN = 2

# Of an entry of a list of events: the event as one that is followed, as one that follows, or both; the rest is its
# number.
IS_FOLLOWED = 1
FOLLOWS = 2
KIND_BITS = 2

# Columns of `sweeps`: what is there before a batch, as far as it is brought to the events of a partition at once.
SWEEP_PARTITION = 0
SWEEP_SCAN = 1
SWEEP_FIRST = 2
SWEEP_ENTRIES = 3
SWEEP_RANKS = 4

# Rows of `reached`.
FIRST_REACHED = 0
LAST_REACHED = 1
REACHED_BY = 2

# Marks of a window, bits: events with an interval take part in it; they come back to themselves in what is counted.
IS_EXPECTED = 1
IS_BOUND = 2

OF_EVENTS = 0
OF_KNOWN = 1
OF_WHOLE_VALUES = 2
OF_REAL_VALUES = 3
OF_EXTREMES = 4

# Entries of `sizes`.
N_POSITIVE = 0
N_STATES = 1
N_NUMBERS = 2
N_WINDOWS = 3
N_CHANNELS = 4
N_GRAPHS = 5
N_GRAPH_CHANNELS = 6
WITHIN_MS = 7
SLIDE_MS = 8
N_STORED = 9
N_INDEXES = 10
N_COLUMNS = 11
N_DERIVED = 12
N_LIMBS = 13
N_LENGTHS = 14
N_EMITTED = 15
N_KEPT = 16
N_HELD = 17


class Template(NamedTuple):
    """The plan. `stored`: of a positive state its place among those whose events are vertices, of a negated one among
    those whose events are held, -1 elsewhere; `is_merged` (N_HELD,): 1 where no predicate on neighbours asks for single
    ones, so that one before another is not needed if its trend began no later. `limbs`: of each number the first of its
    limbs among the numbers, 0 where it has none. Lists of channels (`fed_by`: that a state reads; `feeds`: that it adds
    to; `killed_by`: graphs that empty a channel), of scans, cuts (graphs) and so on. Where windows of several lengths
    are told (l of them, N_LENGTHS; 0: those of the plan alone), theirs are `emitted_within` and `emitted_slide` (l,),
    in ms; WITHIN_MS is the longest, SLIDE_MS divides them all, and N_EMITTED is how many windows a partition may tell
    at one time."""

    sizes: Int64Array
    ways: Int64Array
    limbs: Int64Array
    is_start: Int64Array
    start_cut_ends: Int64Array
    start_cuts: Int64Array
    fed_by_ends: Int64Array
    fed_by: Int64Array
    feeds_ends: Int64Array
    feeds: Int64Array
    scan_ends: Int64Array
    scans: Int64Array
    compared: Int64Array
    programs: Int64Array
    cuts: Int64Array
    contribution_ends: Int64Array
    contributions: Int64Array
    stored: Int64Array
    is_merged: Int64Array
    killed_by_ends: Int64Array
    killed_by: Int64Array
    end_channels: Int64Array
    end_scans: Int64Array
    graph_of: Int64Array
    ends_graph: Int64Array
    graph_killed_by_ends: Int64Array
    graph_killed_by: Int64Array
    code: Int32Array
    bounds: Int32Array
    constants: Float64Array
    emitted_within: Int64Array
    emitted_slide: Int64Array


# Columns of `taking`.
TARGET = 0
SCAN = 1


class Selection(NamedTuple):
    """What later events take, under other strategies than skip till any match. `is_contiguous` (1,): an event is
    followed by the next one of its partition alone. Under skip till next match, of each stored state: `taking` (n, 2),
    the target of a transition after which nothing else may follow, and its scan, up to `taking_ends` (n_stored,).
    `length` (n_stored,): scratch."""

    is_contiguous: Int64Array
    taking_ends: Int64Array
    taking: Int64Array
    length: Int64Array


class Batch(NamedTuple):
    """Events by partition, each partition's in order: row among the columns, partition, time, order, a bit for each
    state that reads it. columns (n_columns, rows), derived (n_derived, rows): those that later events are compared
    with are the first N_KEPT. `reached` (3, n), or (3, 0) where nobody asks: the first and the last window in which a
    trend comes to the event, and the first state that reads it so; -1 as state: none."""

    rows: Int64Array
    partition: Int64Array
    t_ms: Int64Array
    order: Int64Array
    states: Int64Array
    columns: Float64Array
    derived: Float64Array
    reached: Int64Array


class Sums(NamedTuple):
    """Per partition: channels (p, n_channels, w, n) as numbers, those of events of the latest order apart (`late`);
    windows that are open, the latest order, and of graphs the latest starts. `marks` (p, w): what is said of the row of
    a window, IS_EXPECTED and IS_BOUND. `emitted_first`, `emitted_last` (p, l): the open windows of each length."""

    whole: Int64Array
    real: Float64Array
    scale: Int32Array
    late_whole: Int64Array
    late_real: Float64Array
    late_scale: Int32Array
    first_open: Int64Array
    last_open: Int64Array
    order: Int64Array
    started: Int64Array
    started_ms: Int64Array
    late_started: Int64Array
    late_started_ms: Int64Array
    finished: Int64Array
    finished_ms: Int64Array
    late_finished: Int64Array
    late_finished_ms: Int64Array
    marks: Int64Array
    emitted_first: Int64Array
    emitted_last: Int64Array


class Vertices(NamedTuple):
    """Events of states whose edges are looked at, in regions by partition and stored state: start and length int64
    (p, n_stored); order, first and last window of each (one array where an event is in one window at most), its numbers
    (w, n), values that later events are compared with (N_KEPT, c) and columns (n_columns, c)."""

    start: Int64Array
    length: Int64Array
    order: Int64Array
    first_window: Int64Array
    last_window: Int64Array
    whole: Int64Array
    real: Float64Array
    scale: Int32Array
    derived: Float64Array
    columns: Float64Array


class Held(NamedTuple):
    """Events of negated states whose edges are looked at, in regions by partition and held state: start and length
    int64 (p, N_HELD); order of each, order and time of the latest start of the trends that come to it, (c,), values
    that later events are compared with (N_KEPT, c) and columns (n_columns, c + 1)."""

    start: Int64Array
    length: Int64Array
    order: Int64Array
    started: Int64Array
    started_ms: Int64Array
    derived: Float64Array
    columns: Float64Array


class Indexes(NamedTuple):
    """Events of earlier batches by value, of indexes by partition (p, n_indexes): where its entries start, a multiple
    of the block (1,), and how many there are; of the vertices of the region those below `limit` are in it, or have no
    value; `gone`: those that stood before these and are forgotten since; `last_window` of all. An entry is the position
    of a vertex from the start of the region, when the index was made (c,), sorted by value. Of each block of entries
    the first value (b,) and what all entries before it have together, numbers (b, w, n) by window modulo w."""

    block: Int64Array
    start: Int64Array
    size: Int64Array
    limit: Int64Array
    gone: Int64Array
    last_window: Int64Array
    position: Int32Array
    key: Float64Array
    whole: Int64Array
    real: Float64Array
    scale: Int32Array


class Ahead(NamedTuple):
    """What inequalities bring to events of a batch: see `engine.kernels.trends.ahead`, and for two of them
    `engine.kernels.trends.dominance`.

    `least` (1,): the events of a block. `slot` (n_scans,): the position k of a scan among those that bring, -1: none.
    `second` (k,): the number among lists of that by the second value, -1 with one inequality; the list by the first one
    has the number k. Of partitions that have it (p,): the number of their first event in the batch, how many there are,
    the next boundary, and the event before which it is `due`, -1 where earlier events are looked at one by one; their
    lists (p, l): start, -1 where there is none, and size. `lists`: entries by value, the number of the event in its
    partition and how it is meant. Of the partition at hand: lists of the parts of halves (l, levels * (2 m + 1)), their
    sizes (l, levels); of each event its windows (m,), the first event of its order (m,), its place among the vertices
    of a stored state (n_stored, m), its `rank` (m,), and what was brought to it, numbers (k, m, w, n) from its first
    window on; vertices of each stored state (n_stored,) `before` its first event, and up to the `block` at hand.
    Scratch: sums (w, n), a tree of them (r + 1, w, n); of a tile (i + 1,) the vertices before, the entries after, how
    many of the former each of the latter admits, and running sums of one number.

    `sweeps` (n, 5): by partition what stands before the batch and the events of the batch, lists by the first value:
    `entries` as above, vertices by their place in the region; `ranks` in the second value, as `rank`. `next_sweep`
    (1,)."""

    least: Int64Array
    slot: Int64Array
    second: Int64Array
    first: Int64Array
    n_events: Int64Array
    boundary: Int64Array
    due: Int64Array
    start: Int64Array
    size: Int64Array
    lists: Int32Array
    levels: Int32Array
    level_size: Int64Array
    first_window: Int64Array
    last_window: Int64Array
    order_begin: Int32Array
    position: Int32Array
    whole: Int64Array
    real: Float64Array
    scale: Int32Array
    before: Int64Array
    block: Int64Array
    sum_whole: Int64Array
    sum_real: Float64Array
    sum_scale: Int32Array
    before_tile: Int32Array
    after_tile: Int32Array
    admitted: Int32Array
    running_whole: Int64Array
    running_real: Float64Array
    running_scale: Int32Array
    rank: Int32Array
    tree_whole: Int64Array
    tree_real: Float64Array
    tree_scale: Int32Array
    sweeps: Int64Array
    next_sweep: Int64Array
    entries: Int32Array
    ranks: Int32Array


class Results(NamedTuple):
    """Closed windows: partition, window and numbers; `n_rows` (1,): how many there are. `marks`: see `Sums`. `length`:
    the number of the window's length among those that are told, 0 where there is one."""

    n_rows: Int64Array
    partition: Int64Array
    window: Int64Array
    whole: Int64Array
    real: Float64Array
    scale: Int32Array
    marks: Int64Array
    length: Int64Array


class Scratch(NamedTuple):
    """Numbers of the event at hand (w, n); registers and stack of programs. `needed` (w,): 1 for windows of the event
    of which some length is not over; asked for where several are told."""

    whole: Int64Array
    real: Float64Array
    scale: Int32Array
    registers: Int64Array
    aggregates: Float64Array
    stack: Float64Array
    needed: Int64Array


__all__ = [
    "BREAKS",
    "COLUMN",
    "FIRST_COMPARED",
    "FIRST_CUT",
    "FIRST_PROGRAM",
    "FIRST_REACHED",
    "FOLLOWS",
    "HOW",
    "INDEX",
    "IS_BOUND",
    "IS_EXPECTED",
    "IS_FOLLOWED",
    "KIND",
    "KIND_BITS",
    "LAST_COMPARED",
    "LAST_CUT",
    "LAST_PROGRAM",
    "LAST_REACHED",
    "LEFT",
    "NEVER",
    "NUMBER",
    "N_CHANNELS",
    "N_COLUMNS",
    "N_DERIVED",
    "N_EMITTED",
    "N_GRAPHS",
    "N_GRAPH_CHANNELS",
    "N_HELD",
    "N_INDEXES",
    "N_KEPT",
    "N_LENGTHS",
    "N_NUMBERS",
    "N_POSITIVE",
    "N_STATES",
    "N_STORED",
    "N_WINDOWS",
    "OF_EVENTS",
    "OF_EXTREMES",
    "OF_KNOWN",
    "OF_REAL_VALUES",
    "OF_WHOLE_VALUES",
    "REACHED_BY",
    "RIGHT",
    "SCAN",
    "SLIDE_MS",
    "SOURCE",
    "SWEEP_ENTRIES",
    "SWEEP_FIRST",
    "SWEEP_PARTITION",
    "SWEEP_RANKS",
    "SWEEP_SCAN",
    "TARGET",
    "WITHIN_MS",
    "Ahead",
    "Batch",
    "Held",
    "Indexes",
    "Results",
    "Scratch",
    "Selection",
    "Sums",
    "Template",
    "Vertices",
]
