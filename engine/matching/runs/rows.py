"""Matches of completed runs as rows: none is spelled out before it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from engine.events import Int64Array
from engine.kernels.runs import arrays as na
from engine.matching.output.listed import ListedMatches
from engine.matching.output.match_row import Binding, MatchRow
from engine.matching.output.reading.arrow import coded, lists_by_step
from engine.matching.output.rows import ChunkedRows
from engine.matching.runs.histories import Histories
from engine.plan.sequence.model import SequencePlan
from engine.stream.store import StoredEvents
from engine.stream.values import column_of


class RunRows(ChunkedRows):
    """The rows of OUTPUT ALL."""

    def __init__(self, plan: SequencePlan, source: StoredEvents, histories: Histories) -> None:
        self._plan = plan
        self._source = source
        self._histories = histories

    def __len__(self) -> int:
        return self._histories.n_matches

    def _part(self, start: int, stop: int) -> Sequence[MatchRow]:
        return RunRows(self._plan, self._source, self._histories.chosen(slice(start, stop)))

    @property
    def query(self) -> str:
        """The query that they all belong to."""
        return self._plan.name

    @property
    def variables(self) -> list[str]:
        """By position."""
        return [step.variable for step in self._plan.steps]

    def chosen(self, numbers: Sequence[int]) -> RunRows:
        """The rows of these numbers, in their order."""
        return RunRows(self._plan, self._source, self._histories.chosen(np.asarray(numbers, np.int64)))

    def brief(self, numbers: Sequence[int]) -> Iterator[MatchRow]:
        """The rows of these numbers without their events, which are not spelled out."""
        histories = self._histories.chosen(np.asarray(numbers, np.int64))
        partitions = histories.partition[histories.run].tolist()
        values = histories.values[histories.run].tolist()
        for partition, first_ms, last_ms, own in zip(
            partitions, histories.first_ms.tolist(), histories.last_ms.tolist(), values, strict=True
        ):
            yield self._row(partition, first_ms, last_ms, {}, own)

    def history_graph(self) -> HistoryGraph:
        """The nodes behind these rows, each once however many rows it is a part of."""
        return HistoryGraph(self._source, self._histories)

    @property
    def n_matches(self) -> int:
        """Each row is one."""
        return len(self)

    @property
    def is_columnar(self) -> bool:
        """Yes."""
        return True

    def to_arrow(self) -> pa.Table:
        """key, first_lo_ms, last_hi_ms, bindings, confidence, values: one row per match; see `rows.rows_table`."""
        histories, source = self._histories, self._source
        listed = histories.listed()
        dictionary, codes, _ = coded(source.known, listed.rows)
        columns = {
            "key": source.keys_as_arrow(listed.partition),
            "first_lo_ms": column_of(histories.first_ms),
            "last_hi_ms": column_of(histories.last_ms),
            "bindings": lists_by_step(dictionary, self.variables, listed.offsets, listed.components, codes),
            "confidence": column_of(listed.confidence),
            "values": source.values_as_arrow(self._plan.returns, listed.values),
        }
        return pa.table(columns)

    def _bounds(self, listed: ListedMatches) -> Int64Array:
        """Where each component of each match begins in its events, int64 (n, n_steps + 1): components ascend."""
        n, n_steps = listed.n_matches, self._plan.n_steps
        positions = np.repeat(np.arange(n), np.diff(listed.offsets)) * n_steps + listed.components
        begins = np.searchsorted(positions, np.arange(n * n_steps)).reshape(n, n_steps)
        return np.hstack((begins, listed.offsets[1:, None]))

    def _rows(self, start: int) -> list[MatchRow]:
        """A chunk from row `start` on."""
        histories, source, plan = self._histories.chosen(slice(start, start + self.CHUNK)), self._source, self._plan
        listed = histories.listed()
        ids = source.text_of_each(listed.rows)
        bounds = self._bounds(listed).tolist()
        first, last = histories.first_ms.tolist(), histories.last_ms.tolist()
        partitions, values = listed.partition.tolist(), listed.values.tolist()
        return [
            self._row(
                partitions[at],
                first[at],
                last[at],
                {
                    step.variable: tuple(ids[bounds[at][step.position] : bounds[at][step.position + 1]])
                    for step in plan.steps
                },
                values[at],
            )
            for at in range(len(partitions))
        ]

    def _row(
        self, partition: int, first_ms: int, last_ms: int, bindings: dict[str, Binding], values: list[float]
    ) -> MatchRow:
        source, plan = self._source, self._plan
        return MatchRow(
            query=plan.name,
            key=source.key_of(partition),
            first_lo_ms=first_ms,
            last_hi_ms=last_ms,
            bindings=bindings,
            confidence=1.0,
            values={
                item.name: source.value(value, item.type) for item, value in zip(plan.returns, values, strict=True)
            },
        )


class HistoryGraph:
    """The events of rows, from the first one of each run on; what several rows share is there once."""

    def __init__(self, source: StoredEvents, histories: Histories) -> None:
        self._source = source
        self._nodes = histories.nodes
        heads = histories.head
        branch = np.where(self._nodes[heads, na.COMPONENT] == na.UNION, heads, self._nodes[heads, na.BRANCH])
        is_one = self._nodes[branch, na.COMPONENT] != na.UNION
        self.heads: list[int] = np.where(is_one, heads, -1)[histories.run].tolist()
        """The last node by row; -1 where a run stands for several histories."""

    def nodes(self) -> Iterator[tuple[int, int, int, str]]:
        """(Node, the one before it or -1, component, event id), a node after the one before it."""
        parents = np.ascontiguousarray(self._nodes[:, na.PARENT]).data  # plain integers, no NumPy scalars
        seen: set[int] = set()
        ordered: list[int] = []
        for head in self.heads:
            path, node = [], head
            while node >= 0 and node not in seen:
                seen.add(node)
                path.append(node)
                node = parents[node]
            ordered += reversed(path)
        at = np.asarray(ordered, np.int64)
        found = self._nodes[at]
        texts = self._source.text_of_each(np.ascontiguousarray(found[:, na.ROW]))
        before, components = found[:, na.PARENT].tolist(), found[:, na.COMPONENT].tolist()
        yield from zip(ordered, before, components, texts, strict=True)


__all__ = ["HistoryGraph", "RunRows"]
