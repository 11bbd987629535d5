"""What the queries about trends of one engine share."""

from __future__ import annotations

from collections.abc import Iterable

from engine.compiled.query import CompiledQuery
from engine.plan.trends.shared import Shared, shared_by


def trend_sharing(queries: Iterable[CompiledQuery]) -> dict[str, Shared]:
    """By name; left out are those that share nothing, as queries about the matches of others, which have streams of
    their own."""
    return shared_by({query.name: query.plan for query in queries if not query.producers})


__all__ = ["trend_sharing"]
