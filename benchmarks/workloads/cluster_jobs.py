"""Workload T's cluster stream with the starts and ends of jobs: GRETA's query Q2 as it is written, and its events.

Table 2 of the paper says how measurements are drawn, and nothing of starts and ends. Here each job runs on each mapper
again and again: for uniform 10 to 50 s, and after uniform 1 to 10 s once more. The measurements are those of the
table, 3,000 a second, whether their job runs or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.events import AttributeType, EventBatch, EventSchema

_IDS = {"job": AttributeType.INT, "mapper": AttributeType.INT}
_MEASURED = {"cpu": AttributeType.INT, "memory": AttributeType.INT, "load": AttributeType.INT}
SCHEMA = EventSchema.of({"Start": _IDS, "Measurement": _IDS | _MEASURED, "End": _IDS})

Q2 = """
PATTERN SEQ(Start S, Measurement M+, End E)
WHERE [job, mapper] AND M.load < NEXT(M).load
GROUP BY mapper
WITHIN 1 minute SLIDE 30 seconds
RETURN mapper, SUM(M.cpu)
"""
"""GRETA, section 1: the total CPU cycles per job of each mapper with increasing load."""


@dataclass(frozen=True)
class ClusterJobs:
    """What is drawn; times are whole seconds, so that many events share one."""

    n_seconds: int
    per_s: int = 3_000
    """Measurements."""
    n_ids: int = 11
    """Jobs, and mappers: each job runs on each mapper."""
    run_s: tuple[int, int] = (10, 50)
    pause_s: tuple[int, int] = (1, 10)
    """Shortest and longest, both included."""
    seed: int = 1

    def batches(self, step_s: int = 60) -> Iterator[EventBatch]:
        """The stream, `step_s` seconds in a batch, in order of time; within a second starts, ends, measurements."""
        random = np.random.default_rng(self.seed)
        changes = self._changes(random)
        n_before = 0
        for begin_s in range(0, self.n_seconds, step_s):
            end_s = min(begin_s + step_s, self.n_seconds)
            own = changes[:, np.searchsorted(changes[0], begin_s) : np.searchsorted(changes[0], end_s)]
            batch = self._batch(random, begin_s, end_s, own, n_before)
            n_before += len(batch)
            yield batch

    def _changes(self, random: np.random.Generator) -> npt.NDArray[np.int64]:
        """Times in s, jobs, mappers and whether it is an end, a column for each start and end, in order of time. The
        first starts are spread over the longest run and pause."""
        found: list[tuple[int, int, int, int]] = []
        for pair in range(self.n_ids**2):
            job, mapper = divmod(pair, self.n_ids)
            t_s = int(random.integers(0, self.run_s[1] + self.pause_s[1]))
            is_end = 0
            while t_s < self.n_seconds:
                found.append((t_s, is_end, job, mapper))
                shortest, longest = self.pause_s if is_end else self.run_s
                t_s += int(random.integers(shortest, longest + 1))
                is_end = 1 - is_end
        rows = np.array(sorted(found), np.int64).reshape(-1, 4)
        return rows.T[[0, 2, 3, 1]]

    def _batch(
        self, random: np.random.Generator, begin_s: int, end_s: int, changes: npt.NDArray[np.int64], n_before: int
    ) -> EventBatch:
        n_changes, n_measured = changes.shape[1], (end_s - begin_s) * self.per_s
        n = n_changes + n_measured
        t_s = np.concatenate((changes[0], begin_s + np.arange(n_measured) // self.per_s))
        order = np.argsort(t_s, kind="stable")
        t_ms = 1 + 1_000 * t_s[order]
        types = np.concatenate((2 * changes[3], np.ones(n_measured, np.int64)))[order]
        ids = (np.concatenate((own, random.integers(0, self.n_ids, n_measured)))[order] for own in changes[1:3])
        job, mapper = ids

        def measured(values: npt.NDArray[np.int64]) -> pa.Array:
            """NULL for starts and ends."""
            whole = np.concatenate((np.zeros(n_changes, np.int64), values))[order]
            return pa.array(whole, mask=types != 1)

        return EventBatch.from_columns(
            {
                "event_id": [str(n_before + k) for k in range(n)],
                "type": pa.array(["Start", "Measurement", "End"]).take(pa.array(types)),
                "t_lo_ms": t_ms,
                "source_rank": np.zeros(n, np.int64),
                "source_seq": n_before + np.arange(n),
                "job": job,
                "mapper": mapper,
                "cpu": measured(random.integers(0, 1001, n_measured)),
                "memory": measured(random.integers(0, 1001, n_measured)),
                "load": measured(random.poisson(100, n_measured)),
            },
            SCHEMA,
        )
