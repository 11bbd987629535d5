"""Matches, queries and receivers for tests of alerting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select

from app.alerting.catalog import QueryInfo
from app.alerting.recording.evidence import KnownEvent
from app.alerting.recording.options import AlertingOptions
from app.alerting.recording.recorder import Recorder
from app.alerting.silencing import Silencing
from app.settings import Receiver, Severity, WebhookReceiver
from app.store.models import AlertRow
from engine import Expectation, Possibilities

GAP_MS = 10


@dataclass(frozen=True)
class FakeMatch:
    """What the engine returns, as far as alerting reads it."""

    first_lo_ms: int
    last_hi_ms: int
    query: str = "slow"
    key: tuple[tuple[str, object], ...] = (("task_id", "t1"),)
    bindings: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"a": ("e1",), "b": ("e2", "e3")})
    confidence: float = 1.0
    values: Mapping[str, Any] = field(default_factory=lambda: {"task_id": "t1", "period_ms": 5})
    count: int = 1
    count_exact: bool = True
    n_events: int | None = None
    capped: bool = False
    window: tuple[int, int] | None = None
    possible: Possibilities | None = None
    expected: Expectation | None = None

    @property
    def possibilities(self) -> Possibilities:
        """As the engine's rows have it."""
        return self.possible or Possibilities.known_by(self.confidence, self.confidence if self.count == 1 else 1.0)


def options(**receivers: Receiver) -> AlertingOptions:
    """One alerting query `slow` and one report `times`."""
    slow = QueryInfo("slow", "h1", Severity.WARNING, "{task_id} took {period_ms}", GAP_MS, runbook="Look at the task.")
    times = QueryInfo("times", "h2", None, "{task_id}: {period_ms}", GAP_MS)
    return AlertingOptions({"slow": slow, "times": times}, receivers)


def receiver(**settings: Any) -> Receiver:
    """A receiver on loopback."""
    return WebhookReceiver.model_validate({"url": "http://127.0.0.1:9/hook", **settings})


def kept(ids: Sequence[str]) -> dict[str, KnownEvent]:
    """Evidence for every id."""
    return {i: KnownEvent(i, "Mapper", 1, 2, {"host": "h"}, None, f"line of {i}") for i in ids}


def hide(recorder: Recorder, wanted: Silencing) -> int:
    """Make a silence that covers what it can at once, as people do; returns how many alerts."""
    silence_id = recorder.between_steps.silence(wanted, "mia", "")
    everything = recorder._writer.session.scalars(select(AlertRow.id).order_by(AlertRow.id)).all()
    return recorder.between_steps.cover(silence_id, everything, "mia", "")
