"""The engine beside the paper's own method, enumeration of possible worlds, in the same run."""

from __future__ import annotations

from benchmarks.imprecise.queries import N_REFERENCE_EVENTS, REFERENCES
from benchmarks.measure import scale, show
from benchmarks.own_process import measured
from benchmarks.precise.rows import Figures, Row, quantity, rate, ratio
from engine import BaselineKind

THRESHOLD = "0.7"
LIMIT_S = 60.0
METHODS = {"ours": None, **{kind.value: kind.value for kind in (BaselineKind.ENUMERATION, BaselineKind.EXTENSION)}}
"""Enumeration: the worlds of each match; extension: Algorithm 1, those of each partial match, with the threshold."""


def main(figures: Figures) -> None:
    """Windows of 10, 25 and 50 ms at one threshold; a baseline that takes longer than the limit is cut off."""
    shown = []
    for reference in REFERENCES[:3]:
        rows = {name: _row(figures, reference.within_ms, name) for name in METHODS}
        n_matches = rows["ours"].get("rows")
        shown.append(
            [
                str(reference.within_ms),
                n_matches,
                *(rate(rows[name]) for name in METHODS),
                *(ratio(rows["ours"], rows[name].get("events_per_second")) for name in list(METHODS)[1:]),
                quantity(reference.enumeration),
            ]
        )
    show(
        f"S, imprecise, confidence >= {THRESHOLD}: events/s beside enumeration (cut off after {LIMIT_S:.0f} s)",
        ("W", "matches", *METHODS, "ours / enumeration", "ours / extension", "authors' enumeration"),
        shown,
    )


def _row(figures: Figures, within_ms: int, name: str) -> Row:
    arguments = {
        "within_ms": within_ms,
        "tail": f"CONFIDENCE >= {THRESHOLD}",
        "n_events": scale(N_REFERENCE_EVENTS),
        "budget_s": LIMIT_S / 6,
        "baseline": METHODS[name],
    }
    found = measured("benchmarks.imprecise.evaluation:evaluate_stock", arguments, LIMIT_S)
    ours = figures.find(_workload(within_ms), "ours")
    n_rows = None if ours is None or found is None else ours.get("rows")
    return figures.keep(_workload(within_ms), name, found, n_matches=n_rows, limit_s=LIMIT_S)


def _workload(within_ms: int) -> str:
    return f"S imprecise beside enumeration, W {within_ms}"


__all__ = ["main"]
