"""Giving one runtime a batch, as an engine does."""

from __future__ import annotations

from collections.abc import Sequence

from engine.events import EventBatch
from engine.matching.output.match_row import MatchRow
from engine.matching.pairs.runtime import PostponedRuntime
from engine.matching.runs.runtime import NfaRuntime
from engine.stream.columns import StreamColumns


def advance(runtime: NfaRuntime | PostponedRuntime, batch: EventBatch, watermark_ms: int) -> Sequence[MatchRow]:
    """Rows that are decided at the watermark, with `batch` taken in."""
    return runtime.advance(StreamColumns(batch, runtime.store.interner), watermark_ms)
