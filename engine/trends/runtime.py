"""The runtime of trend queries: each has a graph, for itself or with others that differ in what they return."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import pyarrow as pa

from engine.errors import StateError
from engine.events import FOREVER_MS
from engine.matching.output.match_row import MatchRow
from engine.matching.protocol import Limits
from engine.plan.trends.model import TrendPlan
from engine.plan.trends.sharing import graph_meaning, intake_meaning, shared_plan
from engine.plan.trends.windows import joint_windows
from engine.stream.columns import StreamColumns
from engine.stream.interner import Interner
from engine.trends.graph import TrendGraph
from engine.trends.rows import TrendRows
from engine.trends.state import joined, know_the_same, of_this_format, part_of
from engine.trends.totals import Position, Totals


class TrendRuntime:
    """Run state of one trend query over one stream: its part of a graph. Implements `Runtime`, `SharesEvents` and
    `SharesIntake` of `engine.matching.protocol`."""

    def __init__(self, plan: TrendPlan, interner: Interner, limits: Limits | None = None) -> None:
        self.plan = plan
        self._interner = interner
        self._n_rejected_more = 0
        """Rejected events of before it had this graph."""
        self._closed: list[Mapping[Position, Totals]] = []
        self._graph = TrendGraph(plan, interner, limits or Limits())
        self.use(self._graph)

    def use(self, graph: TrendGraph) -> None:
        """Take part in a graph, with what is known of the events of rows."""
        evidence = self._graph.evidence.get(self.plan.groups)
        self._graph.members.discard(self)
        self._graph = graph
        self._rows = TrendRows(self.plan, graph.plan, self._interner)
        graph.add(self, evidence)

    def take(self, found: Mapping[Position, Totals]) -> None:
        """See `engine.trends.graph.Member`."""
        if found:
            self._closed.append(found)

    def advance(self, stream: StreamColumns, watermark_ms: int) -> Sequence[MatchRow]:
        """See `Runtime.advance`."""
        self._graph.part_windows(stream)
        self._graph.advance(stream, watermark_ms)
        closed, self._closed = self._closed, []
        evidence = self._graph.evidence.get(self.plan.groups) if self.plan.has_notice else None
        return [row for found in closed for row in self._rows.of(found, evidence)]

    def output_watermark_ms(self, watermark_ms: int) -> int:
        """See `Runtime.output_watermark_ms`: a window is told once the watermark has passed its end."""
        return watermark_ms if watermark_ms >= FOREVER_MS else max(watermark_ms - self.plan.within_ms, -FOREVER_MS)

    # ----------------------------------------------------------------- sharing

    def keeps(self) -> Hashable:
        """See `engine.matching.protocol.SharesEvents`."""
        return "trends", graph_meaning(self.plan), self._graph.limits.trend_overlap

    @property
    def is_shared(self) -> bool:
        """See `engine.matching.protocol.SharesEvents`."""
        return len(self._graph.members) > 1

    def share(self, other: TrendRuntime) -> bool:
        """See `engine.matching.protocol.SharesEvents`. A graph that goes on is not made anew for another query."""
        mine, its = self._graph, other._graph
        if mine is its:
            return True
        plan = its.plan
        is_enough = set(mine.plan.numbers) <= set(plan.numbers) and mine.plan.has_notice <= plan.has_notice
        if not is_enough:
            if its.is_advanced or its.plan.windows or mine.plan.windows:
                return False
            wanted = shared_plan([plan, mine.plan])
            if wanted is None:
                return False
            plan = wanted
        if not (mine.is_new and its.is_new) and not self._knows_the_same(its):
            return False
        self._n_rejected_more += mine.n_rejected - its.n_rejected
        watermark_ms = max(mine.watermark_ms, its.watermark_ms)
        if not is_enough:
            state = None if its.is_new else joined(its.save(), its.plan, mine.save(), mine.plan, plan)
            members, its = list(its.members), its.with_plan(plan, state)
            for each in members:
                each.use(its)
        its.watermark_ms = watermark_ms
        self.use(its)
        return True

    def _knows_the_same(self, other: TrendGraph) -> bool:
        """Whether its graph and another one differ by no more than what only one of them has; partitions are numbered
        alike then."""
        mine, groups = self._graph, self.plan.groups
        if mine.plan.windows or not mine.renumber(other, self.plan):
            return False
        state, its_plan = other.of_window(self.plan)
        if not know_the_same(state, its_plan, mine.save(), mine.plan):
            return False
        emitted, others = mine.evidence.get(groups), other.evidence.get(groups)
        return emitted is None or others is None or emitted.save().equals(others.save())

    def takes(self) -> Hashable:
        """See `engine.matching.protocol.SharesIntake`."""
        return "trends", intake_meaning(self.plan), self._graph.plan.has_notice

    def take_with(self, others: Sequence[TrendRuntime]) -> None:
        """See `engine.matching.protocol.SharesIntake`."""
        runtimes = (self, *others)
        share_windows(runtimes)
        graphs = list({id(each._graph): each._graph for each in runtimes}.values())
        if len(graphs) == 1:
            return
        names = sorted({name for graph in graphs for name in graph.plan.programs.columns})
        for graph in graphs:
            plan = shared_plan([graph.plan], names)
            if plan is not None and plan.programs.columns != graph.plan.programs.columns and not graph.is_advanced:
                known = graph.save()
                state = None if graph.is_new else joined(known, graph.plan, known, graph.plan, plan)
                anew = graph.with_plan(plan, state)
                for each in list(graph.members):
                    each.use(anew)
                anew.intake.is_shared = True
            graph.intake.is_shared = True

    # ------------------------------------------------------------------- state

    def save(self) -> dict[str, pa.Table]:
        """See `Runtime.save`: what it would be without those that it shares with."""
        state = part_of(*self._graph.of_window(self.plan), self.plan)
        meta = {**(state["keys"].schema.metadata or {}), b"n_rejected": str(self.n_rejected).encode()}
        state["keys"] = state["keys"].replace_schema_metadata(meta)
        return {**state, "evidence": self._graph.evidence[self.plan.groups].save()} if self.plan.has_notice else state

    def restore(self, state: Mapping[str, pa.Table]) -> None:
        """See `Runtime.restore`; of one that shares nothing yet."""
        self._graph.restore(of_this_format(state, self.plan))
        if self.plan.has_notice:
            if "evidence" not in state:
                raise StateError(f"saved state of {self.plan.name} lacks ['evidence']")
            self._graph.evidence[self.plan.groups].restore(state["evidence"])

    @property
    def n_rows(self) -> int:
        """Events kept by its graph."""
        return self._graph.n_rows

    @property
    def n_rejected(self) -> int:
        """Events with intervals that cannot be taken: see `TrendGraph.n_rejected`."""
        return self._graph.n_rejected + self._n_rejected_more

    @property
    def n_unfinished(self) -> int:
        """Nothing is left out."""
        return 0


def share_windows(runtimes: Sequence[TrendRuntime]) -> None:
    """Put the graphs together that differ in windows, where one has less to do than several, and all of them know the
    same or nothing yet. One that goes on is not made anew."""
    by_graph: dict[int, list[TrendRuntime]] = {}
    for each in runtimes:
        by_graph.setdefault(id(each._graph), []).append(each)
    alike: dict[Hashable, list[list[TrendRuntime]]] = {}
    for members in by_graph.values():
        graph = members[0]._graph
        if not graph.is_advanced:
            alike.setdefault((graph.limits.trend_overlap, graph.is_new), []).append(members)
    for groups in alike.values():
        for plan, joint in joint_windows([members[0]._graph.plan for members in groups]):
            graphs = [groups[number][0]._graph for number in joint]
            whole = graphs[0].with_windows(plan, graphs)
            if whole is not None:
                for member in [member for number in joint for member in groups[number]]:
                    member._n_rejected_more += member._graph.n_rejected - whole.n_rejected
                    member.use(whole)


__all__ = ["TrendRuntime", "share_windows"]
