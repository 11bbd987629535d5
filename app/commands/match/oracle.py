"""Queries through the oracle: with the queries whose matches they use, and user-defined aggregates."""

from __future__ import annotations

from collections.abc import Mapping

import engine
from engine.events import EventBatch, EventSchema

Parameters = Mapping[str, int | float | str]


def oracle_rows(
    texts: Mapping[str, str],
    name: str,
    schema: EventSchema,
    parameters: Mapping[str, Parameters],
    batch: EventBatch,
) -> list[engine.ReferenceRow]:
    """The rows of the query `name`; `texts` has it and what it may use.

    Matches have the ids that the engine gives them. Raises QueryError for a query that is not valid or that the oracle
    does not evaluate.
    """
    resolved = engine.resolve_queries(texts, schema, parameters, only=[name])
    hashes = engine.query_hashes(resolved)

    def identify(query: engine.ResolvedQuery, row: engine.ReferenceRow) -> str:
        return engine.match_id(query.name, hashes[query.name], row.key, row.window, row.bindings)

    return engine.reference_cascade(resolved, batch, engine.aggregates_of_lists(), identify)[name]


__all__ = ["oracle_rows"]
