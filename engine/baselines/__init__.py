"""The papers' baselines: what skip till any match costs without postponing, and confidence by possible worlds.

For benchmarks and as second opinions in tests, behind the interface of every runtime; the planner never chooses them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum

from engine.baselines.backtracking import Backtracking
from engine.baselines.base import Baseline, BaselineStatistics, unsupported_pattern
from engine.baselines.enumeration import Enumeration, Extension
from engine.baselines.runs import Buffers, Runs
from engine.matching.protocol import Limits
from engine.plan.sequence.model import SequencePlan
from engine.stream.interner import Interner


class BaselineKind(StrEnum):
    """The baselines by name."""

    RUNS = "runs"  # one run per partial match: SASE+'s own evaluation
    BUFFERS = "buffers"  # a buffer per component, matches assembled when a last event comes: ZStream
    BACKTRACKING = "backtracking"  # depth first over the raw window of each last event
    ENUMERATION = "enumeration"  # the confidence of each match from its possible worlds: SASE++ section 4
    EXTENSION = "extension"  # the same for each partial match, against the threshold: SASE++ Algorithm 1


OVER_INTERVALS = frozenset({BaselineKind.ENUMERATION, BaselineKind.EXTENSION})
"""Those that evaluate imprecise events; the others reject these."""


_KINDS: dict[BaselineKind, type[Baseline]] = {
    BaselineKind.RUNS: Runs,
    BaselineKind.BUFFERS: Buffers,
    BaselineKind.BACKTRACKING: Backtracking,
    BaselineKind.ENUMERATION: Enumeration,
    BaselineKind.EXTENSION: Extension,
}


def make_baseline(
    kind: BaselineKind,
    plan: SequencePlan,
    interner: Interner,
    limits: Limits | None = None,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Baseline:
    """New run state of a plain plan; raises UnsupportedQueryError for what the baselines do not evaluate."""
    return _KINDS[kind](plan, interner, limits, clock=clock)


__all__ = [
    "OVER_INTERVALS",
    "Backtracking",
    "Baseline",
    "BaselineKind",
    "BaselineStatistics",
    "Buffers",
    "Enumeration",
    "Extension",
    "Runs",
    "make_baseline",
    "unsupported_pattern",
]
