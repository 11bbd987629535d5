"""What trend queries share, for people."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from engine.plan.model import Plan
from engine.plan.trends.model import TrendPlan
from engine.plan.trends.sharing import graph_meaning, intake_meaning, shared_plan
from engine.plan.trends.windows import joint_windows


@dataclass(frozen=True)
class Shared:
    """The other queries with which one has a graph in common, those of them that have another window (`windows`), and
    those with which it takes in the same events."""

    graph: tuple[str, ...]
    intake: tuple[str, ...]
    windows: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """For people."""
        parts = [
            f"one graph with {', '.join(self.graph)}" if self.graph else "",
            f"one graph of several windows with {', '.join(self.windows)}" if self.windows else "",
            f"what is taken in of the stream with {', '.join(self.intake)}" if self.intake else "",
        ]
        return "; ".join(filter(None, parts))

    def explain(self) -> str:
        """The same as a line of `explain`."""
        return f"shared     {self.text}"


def shared_by(all_plans: Mapping[str, Plan]) -> dict[str, Shared]:
    """By name, for queries that get the same events and have no past; those that share nothing, or are not about
    trends, are left out."""
    plans = {name: plan for name, plan in all_plans.items() if isinstance(plan, TrendPlan)}
    graphs = {name: graph_meaning(plan) for name, plan in plans.items()}
    emitted = {graphs[name] for name, plan in plans.items() if plan.has_notice}
    intakes = {name: (intake_meaning(plan), graphs[name] in emitted) for name, plan in plans.items()}
    by_graph, by_intake = dict[Hashable, list[str]](), dict[Hashable, list[str]]()
    for name in plans:
        by_graph.setdefault(graphs[name], []).append(name)
        by_intake.setdefault(intakes[name], []).append(name)
    windows = _of_several_windows(plans, by_graph)
    found = {}
    for name in plans:
        of_graph, of_intake = by_graph[graphs[name]], by_intake[intakes[name]]
        if len(of_intake) > 1:
            same = tuple(other for other in of_graph if other != name)
            others = tuple(other for other in windows.get(name, ()) if other not in of_graph)
            left = tuple(other for other in of_intake if other not in (name, *same, *others))
            found[name] = Shared(same, left, others)
    return found


def _of_several_windows(
    plans: Mapping[str, TrendPlan], by_graph: Mapping[Hashable, list[str]]
) -> dict[str, tuple[str, ...]]:
    """Of each query of such a graph all of them, in the order of the plans."""
    graphs = [(shared_plan([plans[name] for name in names]), names) for names in by_graph.values()]
    whole = [(plan, names) for plan, names in graphs if plan is not None]
    found: dict[str, tuple[str, ...]] = {}
    for _, joint in joint_windows([plan for plan, _ in whole]):
        members = {name for number in joint for name in whole[number][1]}
        found.update(dict.fromkeys(members, tuple(name for name in plans if name in members)))
    return found


__all__ = ["Shared", "shared_by"]
