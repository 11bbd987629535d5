"""From a query's text to what an engine runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from engine.compiled.distribution import distribution_of
from engine.compiled.fitting import longest_interval_ms
from engine.errors import QueryError
from engine.events import FOREVER_MS, EventSchema
from engine.language import ast
from engine.language.parser import parse
from engine.language.printer import print_matching
from engine.language.resolver import ResolvedQuery, resolve
from engine.matching.output.aggregates import registered_aggregates
from engine.plan.branches import head_of, plan_branches
from engine.plan.distribution import Distribution
from engine.plan.evaluation import QueryEvaluation, evaluation_of
from engine.plan.exact_times import ExactTimes, exact_times, left_out_for
from engine.plan.model import Plan


@dataclass(frozen=True)
class CompiledQuery:
    """A checked and planned query; `hash` identifies its meaning (the printed form of what decides its matches, after
    parameters are filled in, and the hashes of the queries whose matches it uses).

    `branches`: the plans whose union the query is. `plan`: the only one, or for several what they have in common.
    `producers`: the queries whose matches it uses. `is_consumed`: another query uses its matches.
    """

    name: str
    resolved: ResolvedQuery
    plan: Plan
    hash: str
    branches: tuple[Plan, ...] = ()
    producers: tuple[CompiledQuery, ...] = ()
    is_consumed: bool = False

    @property
    def notice(self) -> ast.Notice | None:
        """ALERT or REPORT of the query, None when it has neither."""
        return self.resolved.query.notice

    @property
    def types(self) -> frozenset[str]:
        """The event types that the query names."""
        return self.plan.types

    @cached_property
    def longest_interval_ms(self) -> int | None:
        """See `engine.compiled.fitting`."""
        return longest_interval_ms(self.resolved)

    @property
    def read_types(self) -> frozenset[str]:
        """The event types that decide what it finds: all of them under contiguity, where no event may lie between (one
        without the key is in every partition), and where windows count events or open at them; in place of matches
        those that decide these."""
        matches = {producer.match_type for producer in self.producers}
        return (self.own_read_types - matches).union(*(producer.read_types for producer in self.producers))

    @property
    def own_read_types(self) -> frozenset[str]:
        """The same with the types of matches in place of those that decide these."""
        return self.plan.types | frozenset(self.resolved.schema.types) if self.reads_all_types else self.plan.types

    @property
    def reads_all_types(self) -> bool:
        """Whether an event of any type has a say: see `read_types`."""
        strategy, query = self.plan.strategy, self.resolved.query
        is_contiguous = strategy in (ast.Strategy.PARTITION_CONTIGUITY, ast.Strategy.STRICT_CONTIGUITY)
        counts = query.within_events is not None or query.open_on is not None
        return is_contiguous or counts or any(branch.has_partial_keys for branch in self.branches)

    @property
    def read_attributes(self) -> frozenset[str]:
        """The attributes of events that decide what it finds and returns; of its producers as well."""
        found: set[str] = set()
        for member in self.chain:
            query = member.resolved.query
            kinds = ast.Attribute | ast.Aggregate | ast.TrendAggregate
            nodes = [node for node in ast.walk(query) if isinstance(node, kinds)]
            found |= {node.name for node in nodes if node.name is not None}
            found |= set(query.group_by)
            found |= {equivalence.attribute for equivalence in query.equivalences}
        matches = {producer.match_type for member in self.chain for producer in member.producers}
        schema = self.resolved.schema.types
        of_events = {name for kind, has in schema.items() if kind not in matches for name in has}
        return frozenset(found & of_events)

    @cached_property
    def evaluation(self) -> QueryEvaluation:
        """How it is evaluated."""
        return evaluation_of(self.resolved, self.plan, self.branches, of_matches=bool(self.producers))

    @cached_property
    def distribution(self) -> Distribution:
        """How its events can be divided so that the parts are evaluated apart."""
        return distribution_of(self)

    @property
    def match_type(self) -> str:
        """The event type of its matches, for queries that use them."""
        return match_type(self.name)

    @property
    def exact_times(self) -> ExactTimes | None:
        """Why the query needs events with exact times, None when it does not."""
        return exact_times(self.resolved.query)

    @property
    def left_out_for(self) -> str | None:
        """Why it leaves out events whose times are intervals, and what to do; None where it takes all of them."""
        return left_out_for(self.resolved.query)

    @property
    def is_silent(self) -> bool:
        """Whether its matches are for other queries alone: another uses them, and it has neither ALERT nor REPORT."""
        return self.is_consumed and self.notice is None

    @property
    def is_listed_in_blocks(self) -> bool:
        """See `QueryEvaluation`."""
        return self.evaluation.is_listed_in_blocks

    @property
    def within_ms(self) -> int:
        """The window in time: FOREVER_MS for a window of events, of which nothing is known in time."""
        return self.plan.within_ms if self.resolved.query.within_events is None else FOREVER_MS

    @property
    def reach_ms(self) -> int:
        """How long before the end of a match the events may be that decide it: the windows of its producers add up."""
        return min(FOREVER_MS, self.within_ms + max((producer.reach_ms for producer in self.producers), default=0))

    @property
    def why_whole(self) -> str | None:
        """Why an event that is missing may make a row that is none; None: it can only hide some, but for events of
        variables that are negated."""
        query = self.resolved.query
        steps = [step for branch in self.branches for step in branch.steps]
        is_single = len(steps) == 1 and not steps[0].kleene
        if self.reads_all_types:
            return "looks at every event: windows of events, contiguity, parts of the key"
        if query.is_trend:
            return "trends are counted"
        if query.select_first or query.consume:
            return "which match is taken depends on the others"
        if query.output in (ast.Output.TOP, ast.Output.NON_OVERLAPPING) or query.limit is not None:
            return "which rows are told depends on the others"
        if query.strategy is not ast.Strategy.SKIP_TILL_ANY_MATCH and not is_single:
            return "another event would take the place of a dropped one"
        return None

    @property
    def needs_whole(self) -> frozenset[str]:
        """Queries of whose matches it must not lack one, or it has rows that are none: those that it uses, directly or
        not, where it negates something or `why_whole` says so.

        Not of an INCIDENT: one that is none hides no alert, as its members are listed with it, and says that it was
        found under shedding; while most queries for stragglers would have nothing to drop for its sake.
        """
        notice = self.resolved.query.notice
        if notice is not None and notice.is_incident:
            return frozenset()
        is_negated = any(variable.negated for variable in self.resolved.variables.values())
        needs = is_negated or self.why_whole is not None
        return frozenset(used.name for used in self.chain[:-1]) if needs else frozenset()

    @property
    def chain(self) -> tuple[CompiledQuery, ...]:
        """What an engine needs to run it: all queries that it uses, directly or not, before it."""
        found: dict[str, CompiledQuery] = {}
        for producer in self.producers:
            found |= {query.name: query for query in producer.chain}
        return (*found.values(), self)

    @property
    def depth(self) -> int:
        """0 for a query over events alone, else one more than its deepest producer's."""
        return 1 + max((producer.depth for producer in self.producers), default=-1)

    @property
    def group_gap_ms(self) -> int | None:
        """GROUP_GAP of the query, None for the configured default."""
        return self.resolved.query.group_gap_ms

    def explain(self) -> str:
        """The plans as text for people."""
        from engine.plan.explain import explain

        text = explain(self.evaluation, self.resolved, [producer.name for producer in self.producers])
        return "\n".join([text.rstrip("\n"), *self.distribution.explain()]) + "\n"

    def facts(self) -> dict[str, Any]:
        """The plans for programs, as JSON has them."""
        from engine.plan.facts import facts

        return facts(self.evaluation, self.resolved, [producer.name for producer in self.producers], self.distribution)

    def dot(self) -> str:
        """The plans as a graph, in Graphviz's language."""
        from engine.plan.dot import dot

        return dot(self.branches, self.name)


def compile_query(
    text: str,
    schema: EventSchema,
    parameters: Mapping[str, int | float | str] | None = None,
    *,
    name: str = "query",
    as_automata: bool = False,
) -> CompiledQuery:
    """Parse, check and plan a query. Raises QueryError with position, cause and remedy.

    `as_automata`: plain sequences, too, are evaluated by the general automaton, to compare with it.
    """
    return compile_parsed(parse(text, name), text, schema, parameters or {}, name=name, as_automata=as_automata)


def compile_parsed(
    query: ast.Query,
    text: str,
    schema: EventSchema,
    parameters: Mapping[str, int | float | str],
    *,
    name: str,
    producers: Sequence[CompiledQuery] = (),
    as_automata: bool = False,
) -> CompiledQuery:
    """Check and plan a parsed query; `schema` has the types of its producers' matches."""
    aggregates = registered_aggregates()
    resolved = resolve(query, schema, parameters, text=text, name=name, aggregates=aggregates)
    digest = meaning_of(resolved, [producer.hash for producer in producers])
    try:
        branches = plan_branches(resolved, as_automata=as_automata)
        head = head_of(branches, resolved)
    except QueryError as error:
        error.name, error.text = name, text
        raise
    return CompiledQuery(name, resolved, head, digest, branches, tuple(producers))


def meaning_of(resolved: ResolvedQuery, producers: Sequence[str]) -> str:
    """The hash of a query whose producers have these."""
    meaning = "\n".join([print_matching(resolved.query), *sorted(producers)])
    return hashlib.blake2b(meaning.encode(), digest_size=16).hexdigest()


def match_type(name: str) -> str:
    """The event type of the matches of the query `name`."""
    return name.replace("-", "_")
