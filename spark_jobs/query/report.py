"""What is told about the evaluation of a query: what is read, how it is divided, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_jobs.query.few_events import Found
from spark_jobs.query.rows import Planned


def account(planned: Planned, n_files: int, n_bytes: int, columns: Sequence[str]) -> str:
    """For people: files, columns, events and parts."""
    counted, division = planned.counted, planned.division
    lines = [
        f"reads      {n_files} files of {n_bytes:,} bytes, of which {len(columns)} columns: {', '.join(columns)}",
        f"events     {counted.n_events:,}, of which {counted.n_imprecise:,} are imprecise",
    ]
    if division.keys:
        lines.append(f"parts      {division.n_buckets} buckets by {', '.join(planned.query.distribution.key)}")
        if counted.n_everywhere:
            lines.append(f"           {counted.n_everywhere:,} events are in each of them")
        if counted.n_without_key:
            lines.append(f"           {counted.n_without_key:,} events without a key are in no match")
        for heavy in division.heavy:
            how = "in a part of its own" if heavy.slices is None else f"cut into {heavy.slices.n} slices"
            lines.append(f"           a key with {heavy.n_events:,} events is {how}")
    elif division.slices is not None:
        cut = division.slices
        lines.append(f"parts      {cut.n} slices of {cut.length_ms:,} ms")
        lines.append(f"           each reads {cut.before_ms:,} ms before and {cut.after_ms:,} ms after it")
    else:
        lines.append("parts      one, for everything")
    return "\n".join(lines) + "\n"


def warnings_of(planned: Planned | Found) -> Iterator[str]:
    """What somebody should know who takes the rows for all of them; after these have been found."""
    told, query = planned.totals, planned.query
    if told.n_unfinished:
        yield (
            f"{told.n_unfinished} search(es) were stopped by the work budget; matches may be "
            "missing: constrain the query further, or shorten its window"
        )
    if told.n_capped:
        yield f"{told.n_capped} row(s) stand for more that a limit of the engine has left out"
    if told.n_refused:
        yield f"{told.n_refused} event(s) make no sense, or are too long for {query.name}, and were left out"
    if told.n_rejected and query.resolved.is_trend:
        yield (
            f"{told.n_rejected} event(s) with intervals, counted in each part that has them, were left out: their "
            "order depends on that of others (one clock, a clock with a skew, weights), or the query has NOT or AND"
        )
    needed = query.exact_times
    if needed is not None and planned.counted.n_imprecise:
        yield (
            f"{planned.counted.n_imprecise} imprecise event(s) were left out: {needed.construct} is not defined over "
            f"them, for {needed.reason}; {needed.remedy}"
        )
    alone = [heavy for heavy in planned.division.heavy if heavy.slices is None]
    if alone:
        n_most = max(heavy.n_events for heavy in alone)
        yield f"{len(alone)} key(s) with up to {n_most:,} events could not be cut: each was evaluated by one task"


__all__ = ["account", "warnings_of"]
