"""Workload S over imprecise events beside its reference figures: matches above a threshold, collapsed rows."""

from __future__ import annotations

from benchmarks.imprecise.queries import N_REFERENCE_EVENTS, REFERENCES, THRESHOLDS, Reference
from benchmarks.measure import scale, show
from benchmarks.own_process import measured
from benchmarks.precise.rows import Figures, Row, quantity, rate, ratio

_EVALUATE = "benchmarks.imprecise.evaluation:evaluate_stock"
_ERROR = "benchmarks.imprecise.accuracy:stock_error"
LIMIT_S = 90.0
N_COMPARED = 1_000
"""Matches of each cell whose confidence is compared with the exact one."""


def main(figures: Figures) -> None:
    """Measure every cell and print the table."""
    shown = []
    for reference in REFERENCES:
        collapsed = _cell(figures, reference, "collapsed", "OUTPUT COLLAPSED", reference.collapsed)
        for threshold in THRESHOLDS if reference.dynamic else ():
            row = _cell(figures, reference, threshold, f"CONFIDENCE >= {threshold}", reference.dynamic[threshold])
            row["reference_matches"] = reference.n_matches.get(threshold)
            row["arrangements"] = {k: collapsed.get(k) for k in ("matches", "matches_exact")}
            _compare(row, reference, threshold)
            shown.append(_shown(reference, threshold, row, reference.dynamic[threshold]))
        shown.append(_shown(reference, "collapsed", collapsed, reference.collapsed))
    show(
        f"S, imprecise: {scale(N_REFERENCE_EVENTS):,} events of 11 ms beside the SASE++ authors' engine (its matches: "
        "events of a Kleene component in order of arrival alone)",
        ("W", "threshold", "events/s", "theirs", "", "rows", "matches", "theirs", "greatest error", "MiB"),
        shown,
    )


def _cell(figures: Figures, reference: Reference, variant: str, tail: str, theirs: float | None) -> Row:
    arguments = {
        "within_ms": reference.within_ms,
        "tail": tail,
        "n_events": scale(N_REFERENCE_EVENTS),
        "budget_s": LIMIT_S / 4,
    }
    row = figures.keep(
        f"S imprecise, W {reference.within_ms}", variant, measured(_EVALUATE, arguments, LIMIT_S), limit_s=LIMIT_S
    )
    row["reference_events_per_second"] = theirs
    row["ratio"] = None if not theirs or row["seconds"] is None else row["events_per_second"] / theirs
    return row


def _compare(row: Row, reference: Reference, threshold: str) -> None:
    """Add the greatest error of the cell's confidences."""
    if row["seconds"] is None:
        return
    arguments = {
        "within_ms": reference.within_ms,
        "threshold": threshold,
        "n_events": scale(N_REFERENCE_EVENTS),
        "n_most": N_COMPARED,
    }
    row |= measured(_ERROR, arguments, LIMIT_S * 2) or {}


def _shown(reference: Reference, variant: str, row: Row, theirs: float | None) -> list[object]:
    known = row["seconds"] is not None
    return [
        str(reference.within_ms),
        variant,
        rate(row),
        "" if theirs == 0 else quantity(theirs),
        ratio(row, theirs),
        row.get("rows", ""),
        counted(row) if known else "",
        row.get("reference_matches") or "",
        f"{row['max_error']:.1e}" if "max_error" in row else "",
        round(row.get("peak_mb", 0)),
    ]


def counted(row: Row) -> str:
    """The number of matches behind the rows; where a limit cut them, what is known of all."""
    text = f"{'' if row['matches_exact'] else '>= '}{quantity(row['matches'])}"
    if not row["capped"]:
        return text
    of = row.get("arrangements") or {}
    bound = f" of {'' if of.get('matches_exact') else '>= '}{quantity(of['matches'])}" if of.get("matches") else ""
    return f"capped: {text}{bound}"


__all__ = ["LIMIT_S", "counted", "main"]
