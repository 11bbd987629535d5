"""From polls as collectors give them to what takes part: what is derived from samples is added, times get their bounds.

The load of the nodes is derived here, in the pipeline's own thread, from the samples of whatever source: each source
has a deriver of its own, as its steps are complete by its own watermark, and a host counts in one source alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from app.live.clock_skew import EXACT_CLOCKS, ClockSkewBounds
from app.live.intake import Intake
from collectors.base import Collected, PositionError, read_position
from collectors.metrics.load_balance import LoadOptions, samples_of
from engine.events import EventBatch

STATE_VERSION = 1
MIN_STEP_MS = 1_000
"""A shorter sample was asked for, and its length is not that of a step."""
HOLD_MS = 180_000
"""A host is a source's for so long after such a sample: twice the longest interval of daemons."""


class Deriver(Protocol):
    """Derives further events from those of one source."""

    def derive(self, metrics: EventBatch, watermark_ms: int) -> EventBatch:
        """Take events in; return what is complete at the watermark."""
        ...

    def checkpoint(self) -> dict[str, Any]:
        """State as JSON-able values."""
        ...

    def restore(self, position: Mapping[str, Any]) -> None:
        """Take over what `checkpoint` returned; raises PositionError."""
        ...


@dataclass
class _Told:
    """When sources told of hosts last."""

    until_ms: dict[str, dict[str, int]] = field(default_factory=dict)
    """Host -> source -> up to when it counts as that source's."""

    def note(self, source: str, hosts: list[str], until_ms: list[int]) -> None:
        for host, until in zip(hosts, until_ms, strict=True):
            of_host = self.until_ms.setdefault(host, {})
            of_host[source] = max(until, of_host.get(source, until))

    def of_others(self, hosts: list[str], starts_ms: list[int], better: frozenset[str]) -> list[bool]:
        """Per sample whether a source that goes before told of its host lately."""
        return [
            any(until >= start for source, until in self.until_ms.get(host, {}).items() if source in better)
            for host, start in zip(hosts, starts_ms, strict=True)
        ]

    def forget(self, before_ms: int) -> None:
        kept = {
            host: {source: until for source, until in of_host.items() if until >= before_ms}
            for host, of_host in self.until_ms.items()
        }
        self.until_ms = {host: of_host for host, of_host in kept.items() if of_host}


class Derivation:
    """What is done to each poll before it is ordered."""

    def __init__(
        self,
        derivers: Mapping[str, Deriver] | None = None,
        clock_skew: ClockSkewBounds = EXACT_CLOCKS,
        load: LoadOptions | None = None,
        holds_ms: Mapping[str, int] | None = None,
    ) -> None:
        """`derivers`: by source, that which goes before others first. `holds_ms`: of sources whose samples hold."""
        self._derivers = dict(derivers or {})
        self._clock_skew = clock_skew
        self._load = load or LoadOptions()
        self._holds_ms = dict(holds_ms or {})
        self._told = _Told()

    def apply(self, intake: Intake) -> Intake:
        """The poll with what is derived from it, and with intervals of all times that are possible."""
        if intake.watermark_ms is None:
            return intake
        events = self._with_derived(intake.source, intake.events, intake.watermark_ms)
        prepared = self._clock_skew.applied(Collected(events, intake.watermark_ms, (), intake.finished))
        return replace(intake, events=prepared.events, watermark_ms=prepared.watermark_ms, finished=prepared.finished)

    def save(self) -> dict[str, Any]:
        """As JSON-able values."""
        return {
            "version": STATE_VERSION,
            "derivers": {source: deriver.checkpoint() for source, deriver in self._derivers.items()},
            "told": {host: dict(of_host) for host, of_host in self._told.until_ms.items()},
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Take over what `save` returned, for the sources that still exist; raises PositionError."""

        def read(found: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, int]]]:
            told = {
                str(host): {str(source): int(until) for source, until in of_host.items()}
                for host, of_host in found["told"].items()
            }
            return dict(found["derivers"]), told

        derivers, told = read_position(saved, STATE_VERSION, read)
        self._restore(derivers)
        self._told.until_ms = told

    def restore_from_positions(self, positions: Mapping[str, Any]) -> None:
        """Of a checkpoint in which a source's read position held its deriver's state; raises PositionError."""
        self._restore({source: position.get("deriver") for source, position in positions.items()})

    def _restore(self, states: Mapping[str, Any]) -> None:
        for source, state in states.items():
            if state is None or source not in self._derivers:
                continue
            if not isinstance(state, Mapping):
                raise PositionError(f"{source}: a deriver's state that is none; remove the checkpoint to start afresh")
            self._derivers[source].restore(state)

    def _with_derived(self, source: str, events: EventBatch, watermark_ms: int) -> EventBatch:
        deriver = self._derivers.get(source)
        if deriver is None:
            return events
        derived = deriver.derive(self._own(source, events, watermark_ms), watermark_ms)
        return EventBatch.concat([events, derived])

    def _own(self, source: str, events: EventBatch, watermark_ms: int) -> EventBatch:
        """Its samples of the hosts that no source before it tells of: with several sources a host counts once."""
        if len(self._derivers) < 2:
            return events
        samples = samples_of(events, self._load.metric)
        if not len(samples):
            return samples
        order = list(self._derivers)
        hosts = [host or "" for host in samples.strings("host").to_pylist()]
        lengths_ms = samples.t_hi_ms - samples.t_lo_ms + 1
        hold_ms = np.where(lengths_ms >= MIN_STEP_MS, self._load.remember_steps * lengths_ms, HOLD_MS)
        if source in self._holds_ms:
            hold_ms = np.full(len(samples), self._holds_ms[source])
        self._told.note(source, hosts, (samples.t_hi_ms + hold_ms).tolist())
        self._told.forget(watermark_ms - int(hold_ms.max()))
        taken = self._told.of_others(hosts, samples.t_lo_ms.tolist(), frozenset(order[: order.index(source)]))
        return EventBatch(samples.table.filter(pa.array(~np.asarray(taken, np.bool_))))


__all__ = ["Derivation", "Deriver"]
