"""The runtime of `P AND Q` over trends: a graph for the trends of P, one for those of Q, and one for those of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from engine.errors import StateError
from engine.events import FOREVER_MS, Int64Array
from engine.kernels.trends.arrays import FIRST_REACHED, LAST_REACHED, REACHED_BY
from engine.matching.output.match_row import MatchRow
from engine.matching.protocol import Limits
from engine.plan.trends.model import TrendPairPlan, TrendPlan
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner
from engine.trends.evidence import Group, Reached, TrendEvidence
from engine.trends.graph import TrendGraph
from engine.trends.pairs import PairTotals
from engine.trends.rows import TrendRows
from engine.trends.state import of_this_format
from engine.trends.totals import Position, Totals


class TrendPairRuntime:
    """Run state of one query of pairs over one stream. Implements `Runtime` of `engine.matching.protocol`."""

    def __init__(self, plan: TrendPairPlan, interner: Interner, limits: Limits | None = None) -> None:
        self.plan = plan
        self._parts = {
            name: _Part(part, interner, limits or Limits())
            for name, part in zip(("one", "other", "both"), plan.parts, strict=False)
        }
        self._totals = PairTotals(plan)
        self._rows = TrendRows(plan, plan, interner)
        self._evidence = PairEvidence(plan) if plan.has_notice else None

    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """See `Runtime.advance`: all graphs close the windows that end before the watermark."""
        for part in self._parts.values():
            part.graph.advance(stream, watermark_ms)
        one, other, both = (
            self._parts[name].taken() if name in self._parts else None for name in ("one", "other", "both")
        )
        assert one is not None
        assert other is not None
        evidence = None
        if self._evidence is not None:
            self._evidence.take(self._parts["one"].reached, self._parts["other"].reached)
            evidence = self._evidence.known
        rows = self._rows.of(self._totals.of(one, other, both), evidence)
        if evidence is not None:
            evidence.forget((min(watermark_ms, FOREVER_MS) - 1 - self.plan.within_ms) // self.plan.slide_ms)
        return rows

    def output_watermark_ms(self, watermark_ms: int) -> int:
        """See `Runtime.output_watermark_ms`: a window is told once the watermark has passed its end."""
        return watermark_ms if watermark_ms >= FOREVER_MS else max(watermark_ms - self.plan.within_ms, -FOREVER_MS)

    def save(self) -> dict[str, pa.Table]:
        """See `Runtime.save`: the tables of each graph, with its name before theirs."""
        found = {
            f"{name}_{key}": table for name, part in self._parts.items() for key, table in part.graph.save().items()
        }
        return found if self._evidence is None else {**found, "evidence": self._evidence.known.save()}

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """See `Runtime.restore`."""
        for name, part in self._parts.items():
            own = f"{name}_"
            its = {key.removeprefix(own): table for key, table in state.items() if key.startswith(own)}
            part.graph.restore(of_this_format(its, part.plan))
        if self._evidence is not None:
            if "evidence" not in state:
                raise StateError(f"saved state of {self.plan.name} lacks ['evidence']")
            self._evidence.known.restore(state["evidence"])

    @property
    def n_rows(self) -> int:
        """Events kept by all graphs: one that two have counts twice."""
        return sum(part.graph.n_rows for part in self._parts.values())

    @property
    def n_rejected(self) -> int:
        """Events with intervals: each graph is shown all of the query's events, and leaves out the same ones."""
        return self._parts["one"].graph.n_rejected

    @property
    def n_unfinished(self) -> int:
        """Nothing is left out."""
        return 0


class _Part:
    """The only member of a graph: keeps what its windows come to, by partition, and which events it comes to."""

    def __init__(self, plan: TrendPlan, interner: Interner, limits: Limits) -> None:
        self.plan = plan
        self.graph = TrendGraph(plan, interner, limits)
        self.reached = _Noted(())
        self._closed: Mapping[Position, Totals] = {}
        self.graph.add(self, self.reached)

    def use(self, graph: TrendGraph, /) -> None:
        """See `engine.trends.graph.Member`."""
        raise AssertionError(f"{graph} is made anew for others, and graphs of pairs are not shared")

    def take(self, found: Mapping[Position, Totals]) -> None:
        """See `engine.trends.graph.Member`."""
        self._closed = found

    def taken(self) -> Mapping[Position, Totals]:
        """The windows that the last step closed."""
        found, self._closed = self._closed, {}
        return found


# ------------------------------------------------------------------- evidence


class _Noted(TrendEvidence):
    """What a graph comes to in one step, until it is put together with what another one comes to."""

    def __init__(self, variables: Sequence[str]) -> None:
        super().__init__(variables)
        self.batches: list[tuple[Reached, np.ndarray, Mapping[int, Group]]] = []

    def add(self, batch: Reached, ids: np.ndarray, groups: Mapping[int, Group]) -> None:
        """Keep them; `groups`: the whole key of each partition."""
        self.batches.append((batch, ids, groups))


class _Merged:
    """Events by partition, each once; see `Reached`."""

    def __init__(self, partition: Int64Array, t_ms: Int64Array, reached: Int64Array) -> None:
        self.partition = partition
        self.t_ms = t_ms
        self.reached = reached


class PairEvidence:
    """Of which events the rows are: those that a trend of either part comes to, each once for each partition."""

    def __init__(self, plan: TrendPairPlan) -> None:
        self._groups = plan.groups
        self._n_states = len(plan.one.templates.positive.states)
        variables = [state.variable for part in (plan.one, plan.other) for state in part.templates.positive.states]
        self.known = TrendEvidence(variables)

    def take(self, one: _Noted, other: _Noted) -> None:
        """What both graphs came to in a step."""
        partitions: dict[Group, int] = {}
        found: list[Int64Array] = []
        ids: list[np.ndarray] = []
        for noted, first_state in ((one, 0), (other, self._n_states)):
            for batch, names, groups in noted.batches:
                at = np.flatnonzero(batch.reached[REACHED_BY] >= 0)
                if not len(at):
                    continue
                numbers = np.zeros(max(groups) + 1, np.int64)
                for partition, key in groups.items():
                    numbers[partition] = partitions.setdefault(key, len(partitions))
                first, last, state = batch.reached[[FIRST_REACHED, LAST_REACHED, REACHED_BY]][:, at]
                found.append(np.stack([numbers[batch.partition[at]], batch.t_ms[at], first, last, state + first_state]))
                ids.append(names[at])
            noted.batches = []
        if found:
            keys = {number: tuple(key[k] for k in self._groups) for key, number in partitions.items()}
            self._add(np.concatenate(found, axis=1), np.concatenate(ids), keys)

    def _add(self, events: Int64Array, ids: np.ndarray, groups: Mapping[int, Group]) -> None:
        codes = pa.array(ids, pa.string()).dictionary_encode().indices.to_numpy()
        order = np.lexsort((events[4], codes, events[0]))
        events, codes = events[:, order], codes[order]
        is_new = np.flatnonzero((np.diff(events[0], prepend=-1) != 0) | (np.diff(codes, prepend=-1) != 0))
        reached = np.empty((3, len(is_new)), np.int64)
        reached[FIRST_REACHED] = np.minimum.reduceat(events[2], is_new)
        reached[LAST_REACHED] = np.maximum.reduceat(events[3], is_new)
        reached[REACHED_BY] = events[4, is_new]
        self.known.add(_Merged(events[0, is_new], events[1, is_new], reached), ids[order][is_new], groups)


__all__ = ["PairEvidence", "TrendPairRuntime"]
