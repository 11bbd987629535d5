"""LIMIT and TOP k of a stream's queries whose windows have rows in several buckets.

All buckets have one watermark in a micro-batch, and tell the rows of a window together once it is so far past the end
of the window that none of them has any more to come (`engine.PartQuota`). So the rows of a window come in one
micro-batch, and are counted in its transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import engine
from engine import MatchRow
from spark_jobs.stream.groups import CountedByDriver

Told = tuple[MatchRow, str | None]
"""A row, and the digest of its events where it comes without them."""


def counted(told: Sequence[Told], limited: Mapping[str, CountedByDriver]) -> tuple[list[Told], dict[str, int]]:
    """The rows that LIMIT and TOP let be told, in output order and by confidence, after those of other queries; and by
    query in how many windows LIMIT left rows out."""
    found = [item for item in told if item[0].query not in limited]
    windows: dict[tuple[str, int, int], list[Told]] = {}
    for item in told:
        row = item[0]
        if row.query in limited:
            assert row.window is not None  # `app.queries.loading` refuses others on a stream
            windows.setdefault((row.query, row.window[1], row.window[0]), []).append(item)
    n_limited: dict[str, int] = {}
    for (query, *_), rows in sorted(windows.items()):
        of = limited[query]
        rows.sort(key=_order if of.top_k is None else _rank)
        if of.limit is not None and len(rows) > of.limit:
            n_limited[query] = n_limited.get(query, 0) + 1
            row, digest = rows[of.limit - 1]
            rows[of.limit - 1] = replace(row, capped=True), digest
        found += rows[: of.top_k if of.limit is None else of.limit]
    return found, n_limited


def _order(told: Told) -> tuple[object, ...]:
    row, digest = told
    return engine.output_order(row), digest or ""


def _rank(told: Told) -> tuple[object, ...]:
    return engine.confidence_rank(told[0]), told[1] or ""


__all__ = ["counted"]
