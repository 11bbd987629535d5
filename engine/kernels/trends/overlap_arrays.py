"""The arrays of events whose times overlap, in one partition of a trend query, as records.

m members: events of the overlap, those whose time is exact among them; a node is a member as one state reads it. An
entry is what is known of the trends that end in a node, by which members they have that may still come back: `used`, a
set of at most N_SLOTS members. Numbers of an entry are (4, w, n), the windows in a ring: see the planes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.compile.types import Float64Array, Int32Array, Int64Array

# Planes of an entry's numbers: of all times before the segment at hand; of the segment, from trends with fewer events
# in it; with as many as are looked at; with one more.
TOTAL = 0
FRESH = 1
NOW = 2
NEXT = 3
N_PLANES = 4

# Entries of `state`.
PARTITION = 0
TIME_MS = 1
N_MEMBERS = 2
N_NODES = 3
N_ENTRIES = 4
CHANNELS_MAY = 5
N_RETIRED = 6
N_REJECTED = 7
WANTS = 8
N_SLOTS = 9
STATE_SIZE = 10

MOST_MEMBERS = 512
"""Members that are held for the sake of sets; so many that can still come, and further ones are left out. An event
costs as many steps as there are members, in each segment of its time."""

MOST_SLOTS = 10
"""Members in a set, at most; bits of those who found no room there begin behind them."""

# What a sweep stops for.
NOTHING = 0
CAPACITY_FOR_RESULTS = 1
CAPACITY_FOR_MEMBERS = 2
CAPACITY_FOR_ENTRIES = 3

# How two nodes may be adjacent.
NEVER_ADJACENT = 0
BY_CHANNEL = 1
BY_EVENTS = 2

# Entries of `joins` that are no number of a scan.
NO_JOIN = -2
SUMMED = -1

# Rows of `coming`: what the events of a batch have beside what they have there.
HI_MS = 0
CLOCK = 1
SERIAL = 2

# Rows of `retired`: members that are gone, for whom asks of which events a row is.
RETIRED_SERIAL = 0
RETIRED_MS = 1
RETIRED_REACHED = 2


class OverlapTable(NamedTuple):
    """The plan's part. joins (s, s): how one state follows another, the number of a scan, SUMMED or NO_JOIN. returns
    (s,): whether an event that the state reads may come to itself again. is_by_source (1,): whether exact times that
    are equal are in order."""

    joins: Int64Array
    returns: Int64Array
    is_by_source: Int64Array


class Overlap(NamedTuple):
    """The run state of one partition. hi_ms, clock, serial, bit (in sets of used members, 0: none), doubt (a bit of
    those who found no room there), each (m,); node_member, node_state (nodes,); base (nodes, w, n): what the stored
    events before pass on to a node; adjacent (nodes, nodes); position (nodes, 2^N_SLOTS): the entry of a set, -1: none;
    entry_node, entry_used, entry_may (entries,); numbers of entries. `numbering`: scratch."""

    state: Int64Array
    hi_ms: Int64Array
    clock: Int64Array
    serial: Int64Array
    bit: Int64Array
    doubt: Int64Array
    node_member: Int64Array
    node_state: Int64Array
    base_whole: Int64Array
    base_real: Float64Array
    base_scale: Int32Array
    adjacent: npt.NDArray[np.uint8]
    position: Int32Array
    entry_node: Int64Array
    entry_used: Int64Array
    entry_may: Int64Array
    whole: Int64Array
    real: Float64Array
    scale: Int32Array
    numbering: Int64Array


__all__ = [
    "BY_CHANNEL",
    "BY_EVENTS",
    "CAPACITY_FOR_ENTRIES",
    "CAPACITY_FOR_MEMBERS",
    "CAPACITY_FOR_RESULTS",
    "CHANNELS_MAY",
    "CLOCK",
    "FRESH",
    "HI_MS",
    "MOST_MEMBERS",
    "MOST_SLOTS",
    "NEVER_ADJACENT",
    "NEXT",
    "NOTHING",
    "NOW",
    "NO_JOIN",
    "N_ENTRIES",
    "N_MEMBERS",
    "N_NODES",
    "N_PLANES",
    "N_REJECTED",
    "N_RETIRED",
    "N_SLOTS",
    "PARTITION",
    "RETIRED_MS",
    "RETIRED_REACHED",
    "RETIRED_SERIAL",
    "SERIAL",
    "STATE_SIZE",
    "SUMMED",
    "TIME_MS",
    "TOTAL",
    "WANTS",
    "Overlap",
    "OverlapTable",
]
