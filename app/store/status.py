"""How the live process stands, as the pages about its health read it; written in each step's transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

LIVE_PROCESS = "live"
REPLAY = "replay"
PROGRESS = "step"
"""Rows of process_status: how the live process stands; which recording filled the store; how much of its last step is
stored."""


class Queues(TypedDict, total=False):
    """How much waits where: polls, events before the watermark, events that matches may bind, pending messages."""

    intake: int
    waiting: int
    recent: int
    outbox: int


class QueryFigures(TypedDict, total=False):
    """What one query did since the process started."""

    n_events: int
    n_rows: int
    n_kept: int
    n_rejected: int
    n_unfinished: int
    seconds: float


class SheddingFigures(TypedDict, total=False):
    """What was dropped of one query: partial matches, how many matches these were expected to become, and of how many
    of them nothing was known yet; events kept for matches that are postponed, of which nothing is estimated."""

    n_partial_matches: int
    expected_matches: float
    n_unvalued: int
    n_events: int


class OverloadFigures(TypedDict, total=False):
    """How `engine.latency_bound` is held; latencies from when the watermark released an event to the end of the part of
    a step that evaluated it, of the last such part and the longest since the start.

    `achievable_ms`: there where the bound cannot be met with everything dropped that can be. `exempt`: queries that
    keep something of which nothing can be dropped. With engine.shedding_model, since the engine was made,
    `dropped_events` by type, and `expected_event_loss`, the matches (times the weights of their queries) that events
    like these contributed to.
    """

    bound_ms: int
    strategy: str
    is_shedding: bool
    latency_ms: float
    longest_ms: float
    achievable_ms: int
    n_steps: int
    n_shed_steps: int
    shedding_seconds: float
    exempt: list[str]
    queries: dict[str, SheddingFigures]
    dropped_events: dict[str, int]
    expected_event_loss: float


class ProcessStatus(TypedDict, total=False):
    """Figures of one process since it started; what is not known is left out. `step_seconds` is the last step's."""

    version: str
    pid: int
    started_ms: int
    stepped_ms: int
    watermark_ms: int
    n_steps: int
    step_seconds: float
    memory_bytes: int
    queues: Queues
    queries: dict[str, QueryFigures]
    loaded_ms: int
    reload_problems: list[str]
    store_outages: int
    overload: OverloadFigures


class ReplayStatus(TypedDict, total=False):
    """The recording that filled the store, and how the demo judged it (`ground_truth` of its summary)."""

    started_ms: int
    ended_ms: int
    demo: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How one source stands; times on the pipeline's clock, the watermark on the cluster's."""

    name: str
    interval_ms: int
    watermark_ms: int | None
    """None until it was heard of for the first time."""
    polled_ms: int | None
    succeeded_ms: int | None
    n_failed_in_a_row: int
    last_error: str | None
    left_out: bool
