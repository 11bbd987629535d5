"""Giving one runtime a batch, as an engine does."""

from __future__ import annotations

from collections.abc import Sequence

from engine.events import EventBatch
from engine.matching.nfa import NfaRuntime
from engine.matching.postponed import PostponedRuntime
from engine.matching.rows import MatchRow
from engine.matching.stream import StreamColumns


def advance(runtime: NfaRuntime | PostponedRuntime, batch: EventBatch, watermark_ms: int) -> Sequence[MatchRow]:
    """Rows that are decided at the watermark, with `batch` taken in."""
    return runtime.advance(StreamColumns(batch, runtime.store.interner), watermark_ms)
