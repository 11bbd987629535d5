"""Completed runs as matches: a merged run stands for several."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.events import Float64Array, Int64Array
from engine.kernels.runs import arrays as na
from engine.kernels.runs.paths import bound_histories, count_histories, first_rows, spell_out
from engine.matching.output.listed import ListedMatches

_CHUNK = 1024  # rows that are spelled out together


@dataclass(frozen=True)
class Histories:
    """The matches of completed runs, in listing order: by last event, then by first.

    nodes, t_ms: as the kernel had them; neither is written again below what is used here. By completed run: head,
    earliest_ms, partition, last_row int64 (k,), values float64 (k, n_returns). By match: run, ordinal (its number among
    those of the run) and first_row int64 (n,). `is_cut`: there are more than were asked for.
    """

    nodes: Int64Array
    t_ms: Int64Array
    head: Int64Array
    earliest_ms: Int64Array
    partition: Int64Array
    last_row: Int64Array
    values: Float64Array
    run: Int64Array
    ordinal: Int64Array
    first_row: Int64Array
    is_cut: bool = False

    @property
    def n_matches(self) -> int:
        """How many matches these are."""
        return len(self.run)

    @property
    def first_ms(self) -> Int64Array:
        """Time of the first event of each match, (n,)."""
        return self.t_ms[self.first_row]

    @property
    def last_ms(self) -> Int64Array:
        """Time of the last event of each match, (n,)."""
        return self.t_ms[self.last_row[self.run]]

    @classmethod
    def of(
        cls,
        nodes: Int64Array,
        t_ms: Int64Array,
        completed: na.MatchArrays,
        within_ms: int,
        most: int,
        most_events: int,
        *,
        of_all: bool,
    ) -> Histories:
        """The histories of completed runs that are within the window: the first `most`, and one more.

        most_events: so many events they have together, those of runs that stand for one history alone only `of_all`:
        they are spelled out one by one. A merged run may stand for more histories than anybody could list.
        """
        head = np.ascontiguousarray(completed.fields[:, na.HEAD])
        last_row = np.ascontiguousarray(completed.fields[:, na.LAST_ROW])
        earliest_ms = t_ms[last_row] - within_ms
        counts = np.empty(len(head), np.int64)
        count_histories(nodes, t_ms, head, earliest_ms, most + 1, counts)
        n = int(counts.sum())
        is_cut = n > most
        if (of_all or n > len(head)) and n * len(t_ms) > most_events:
            is_cut |= bound_histories(nodes, t_ms, head, earliest_ms, most_events, of_all, counts)
        run = np.repeat(np.arange(len(head), dtype=np.int64), counts)
        ordinal = np.arange(len(run), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
        first_row = np.empty(len(run), np.int64)
        first_rows(nodes, t_ms, head, earliest_ms, counts, first_row)
        partition = np.ascontiguousarray(completed.fields[:, na.PARTITION])
        found = cls(
            nodes, t_ms, head, earliest_ms, partition, last_row, completed.values, run, ordinal, first_row, is_cut
        )  # fmt: skip
        keys = last_row[run] * (len(t_ms) + 1) + first_row
        return found if (keys[1:] >= keys[:-1]).all() else found.chosen(np.argsort(keys, kind="stable"))

    def chosen(self, numbers: Int64Array | slice) -> Histories:
        """The matches of these numbers, in that order."""
        return replace(
            self, run=self.run[numbers], ordinal=self.ordinal[numbers], first_row=self.first_row[numbers]
        )  # fmt: skip

    def listed(self) -> ListedMatches:
        """All matches event by event; rows are those of the store."""
        runs, of = np.unique(self.run, return_inverse=True)
        heads, earliest_ms = self.head[runs], self.earliest_ms[runs]
        counts = np.zeros(len(runs), np.int64)
        np.maximum.at(counts, of, self.ordinal + 1)
        starts = np.cumsum(counts) - counts
        offsets = np.zeros(int(counts.sum()) + 1, np.int64)
        nothing = np.empty(0, np.int64)
        spell_out(self.nodes, self.t_ms, heads, earliest_ms, counts, offsets, nothing, nothing)
        rows, components = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int64)
        spell_out(self.nodes, self.t_ms, heads, earliest_ms, counts, offsets, rows, components)
        owner = np.repeat(runs, counts)
        every = ListedMatches(
            partition=self.partition[owner],
            offsets=offsets,
            rows=rows,
            components=components,
            iterations=None,
            confidence=np.ones(len(owner)),
            values=self.values[owner],
        )
        wanted = starts[of] + self.ordinal
        if len(wanted) == len(owner) and (wanted[1:] > wanted[:-1]).all():
            return every
        return every.chosen(wanted)


__all__ = ["Histories"]
