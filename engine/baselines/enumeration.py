"""The paper's own way with imprecise events: the confidence of every match by enumerating its possible worlds.

SASE++ section 4: matches first, then the worlds of each (`Enumeration`). Section 5.3, Algorithm 1: partial matches are
extended one event at a time, and given up below the threshold (`Extension`); Appendix A: in every order that intervals
allow, under skip till any match. Unlike the paper, the window is part of the probability.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from engine.baselines.base import Baseline, Sink
from engine.errors import UnsupportedQueryError
from engine.events import Int64Array
from engine.kernels.baselines.buffers import AT_ONCE
from engine.kernels.baselines.worlds import GAVE_UP, LONGEST, N_CREATED, N_POINTS, N_SPENT, search_worlds
from engine.kernels.columns.partitions import BROADCAST
from engine.kernels.confidence.ordering import Events
from engine.matching.output.listed import ListedMatches
from engine.matching.protocol import Limits
from engine.plan.sequence.model import SequencePlan
from engine.stream.columns import StreamColumns
from engine.stream.early_filter import EarlyFilter
from engine.stream.interner import Interner
from engine.stream.intervals import events_of

MOST_POINTS = 2_000_000_000
"""Points of possible worlds that one `advance` looks at before it gives up: some ten seconds."""


class Enumeration(Baseline):
    """All matches of each decided last event, the confidence of each from its worlds.

    Refuses negations, and clocks with skew. `advance` raises UnsupportedQueryError when it would have to look at more
    than `most_points` points of possible worlds.
    """

    mode = AT_ONCE
    at_each_extension = False
    """Whether partial matches are compared with the threshold too."""

    def __init__(
        self,
        plan: SequencePlan,
        interner: Interner,
        limits: Limits | None = None,
        *,
        most_points: int = MOST_POINTS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if plan.negations:
            raise UnsupportedQueryError(
                "the enumeration of possible worlds evaluates no negation",
                plan.query.span,
                "a SEQ of positive components",
                "evaluate it with --runtime auto",
            )
        self.most_points = most_points
        self._spent: Int64Array = np.zeros(N_SPENT, np.int64)
        super().__init__(plan, interner, limits, clock=clock)

    @property
    def n_points(self) -> int:
        """Points of possible worlds looked at by the last `advance`."""
        return int(self._spent[N_POINTS])

    def _compile(self) -> None:
        super()._compile()
        # Whether a match may be under way is asked of precise events alone.
        self._filter = EarlyFilter(self.plan, self._interner, live=False)

    def _append(self, stream: StreamColumns) -> tuple[int, int]:
        survivors = self._select(stream)
        self.masks.append(survivors, len(self.store))
        return self.store.append(stream, survivors.rows)

    def deliver(self, stream: StreamColumns, watermark_ms: int, sink: Sink) -> None:
        """See `Baseline.deliver`."""
        with self.timed("event buffering"):
            self._append(stream)
            self._refuse_skew()
            n = len(self.store)
            hi_ms = self.store.t_hi_ms[:n]
            ends = self.masks.ends(n) & (hi_ms < watermark_ms) & (hi_ms >= self._watermark_ms)
        lasts = np.flatnonzero(ends).astype(np.int64)
        for matches in self._matches_of(lasts):
            self._decide(matches, watermark_ms, sink)
        self._watermark_ms = max(self._watermark_ms, watermark_ms)
        with self.timed("event buffering"):
            self._drop()
        self.statistics.n_runs += int(self._spent[N_CREATED])
        self.statistics.peak_runs = max(self.statistics.peak_runs, int(self._spent[LONGEST]))

    def _matches_of(self, offers: Int64Array) -> Iterator[ListedMatches]:
        """The matches that end in these rows."""
        self._spent[:] = 0
        if not len(offers):
            return
        n, arrays = len(self.store), self.arrays
        with self.timed("event buffering"):
            order = np.argsort(self.store.partition[:n], kind="stable").astype(np.int64)
            bounds = np.arange(BROADCAST, self.store.n_partitions + 1)
            starts = np.searchsorted(self.store.partition[order], bounds).astype(np.int64)
            longest_ms = int((self.store.t_hi_ms[:n] - self.store.t_lo_ms[:n]).max())
        with self.timed("pattern matching"):
            partition, offsets, cells, confidence = search_worlds(
                arrays.code, arrays.bounds, arrays.constants, arrays.slots, arrays.loops, arrays.edges,
                self._events(), self.masks.begin, self.masks.take, self.store.partition, order, starts, offers,
                self.plan.within_ms, longest_ms, float(self.plan.confidence or 0.0), self.at_each_extension,
                self.most_points, self._spent,
            )  # fmt: skip
        if self._spent[GAVE_UP]:
            raise UnsupportedQueryError(
                f"gave up after {self.n_points:,} points of possible worlds",
                self.plan.query.span,
                f"at most {self.most_points:,} for the events of one step",
                "evaluate it with --runtime auto, which enumerates none",
            )
        yield ListedMatches(
            partition=partition,
            offsets=offsets,
            rows=cells[:, 0].copy(),
            components=cells[:, 1].copy(),
            iterations=None,
            confidence=confidence,
            values=np.empty((len(partition), 0), np.float64),
        )

    def _events(self) -> Events:
        return events_of(self.store, strict=self.plan.strict_ties)

    def _refuse_skew(self) -> None:
        if len(self.store.skew_ms):
            raise UnsupportedQueryError(
                "the enumeration of possible worlds knows of no offsets that events share",
                self.plan.query.span,
                "clocks without skew",
                "evaluate it with --runtime auto",
            )

    def _drop(self) -> None:
        """Drop the events that no undecided match can contain."""
        n = len(self.store)
        if not n:
            return
        lo_ms, hi_ms = self.store.t_lo_ms[:n], self.store.t_hi_ms[:n]
        undecided = lo_ms[hi_ms >= self._watermark_ms]
        earliest_ms = min(self._watermark_ms, int(undecided.min())) if len(undecided) else self._watermark_ms
        kept = hi_ms + self.plan.within_ms >= earliest_ms
        if not kept.all():
            self.masks.keep(kept)
            self.store.keep(kept)

    def _make_again(self) -> None:
        """Nothing is kept between two last events."""

    def _forget(self, watermark_ms: int) -> None:
        """As `_make_again`."""

    def _renumber(self, new_row: Int64Array, new_partition: Int64Array) -> None:
        """As `_make_again`."""


class Extension(Enumeration):
    """Algorithm 1: the confidence of every extension from its worlds, none of those below the threshold extended."""

    at_each_extension = True


__all__ = ["MOST_POINTS", "Enumeration", "Extension"]
