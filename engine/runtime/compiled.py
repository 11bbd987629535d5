"""From a query's text to what an engine runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from engine.events import EventSchema
from engine.language import ast
from engine.language.parser import parse
from engine.language.printer import print_query
from engine.language.resolver import ResolvedQuery, resolve
from engine.plan.branches import Branch, head_of, plan_branches
from engine.plan.explain import explain
from engine.plan.model import Plan


@dataclass(frozen=True)
class CompiledQuery:
    """A checked and planned query; `hash` identifies its meaning (the printed form after parameters are filled in).

    `branches`: the plans whose union the query is. `plan`: the only one, or for several what they have in common.
    """

    name: str
    resolved: ResolvedQuery
    plan: Plan
    hash: str
    branches: tuple[Branch, ...] = ()

    @property
    def notice(self) -> ast.Notice | None:
        """ALERT or REPORT of the query, None when it has neither."""
        return self.resolved.query.notice

    @property
    def types(self) -> frozenset[str]:
        """The event types that the query names."""
        return self.plan.types

    @property
    def read_types(self) -> frozenset[str]:
        """The event types that decide what it finds: under contiguity also those of which no event may lie between."""
        strategy = self.plan.strategy
        if strategy is ast.Strategy.PARTITION_CONTIGUITY and self.plan.key:
            return self.plan.types | self.plan.keyed_types
        if strategy in (ast.Strategy.PARTITION_CONTIGUITY, ast.Strategy.STRICT_CONTIGUITY):
            return self.plan.types | frozenset(self.resolved.schema.types)
        return self.plan.types

    @property
    def within_ms(self) -> int:
        """The window."""
        return self.plan.within_ms

    @property
    def group_gap_ms(self) -> int | None:
        """GROUP_GAP of the query, None for the configured default."""
        return self.resolved.query.group_gap_ms

    def explain(self) -> str:
        """The plan as text for people."""
        return explain(self.plan, self.resolved)


def compile_query(
    text: str,
    schema: EventSchema,
    parameters: Mapping[str, int | float | str] | None = None,
    *,
    name: str = "query",
) -> CompiledQuery:
    """Parse, check and plan a query. Raises QueryError with place, cause and remedy."""
    resolved = resolve(parse(text, name), schema, parameters or {}, text=text, name=name)
    canonical = print_query(resolved.query)
    digest = hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest()
    branches = plan_branches(resolved)
    return CompiledQuery(name, resolved, head_of(branches, resolved), digest, branches)
