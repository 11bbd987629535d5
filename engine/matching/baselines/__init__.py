"""The papers' baselines: what skip till any match costs without postponing.

For benchmarks and as second opinions in tests, behind the interface of every runtime; the planner never chooses them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum

from engine.matching.base import Limits
from engine.matching.baselines.backtracking import Backtracking
from engine.matching.baselines.base import Baseline, BaselineStatistics
from engine.matching.baselines.runs import Buffers, Runs
from engine.matching.interner import Interner
from engine.plan.model import Plan


class BaselineKind(StrEnum):
    """The baselines by name."""

    RUNS = "runs"  # one run per partial match: SASE+'s own evaluation
    BUFFERS = "buffers"  # a buffer per component, matches assembled when a last event comes: ZStream
    BACKTRACKING = "backtracking"  # depth first over the raw window of each last event


_KINDS: dict[BaselineKind, type[Baseline]] = {
    BaselineKind.RUNS: Runs,
    BaselineKind.BUFFERS: Buffers,
    BaselineKind.BACKTRACKING: Backtracking,
}


def make_baseline(
    kind: BaselineKind,
    plan: Plan,
    interner: Interner,
    limits: Limits | None = None,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Baseline:
    """New run state of a plain plan; raises UnsupportedQueryError for what the baselines do not evaluate."""
    return _KINDS[kind](plan, interner, limits, clock=clock)


__all__ = ["Backtracking", "Baseline", "BaselineKind", "BaselineStatistics", "Buffers", "Runs", "make_baseline"]
