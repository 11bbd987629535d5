"""Workload S beside its reference figures: collapsed rows, counts, all matches."""

from __future__ import annotations

from benchmarks.measure import scale, show
from benchmarks.precise.queries import N_REFERENCE_EVENTS, REFERENCES, Reference
from benchmarks.precise.rows import Figures, Row, quantity, rate, ratio

VARIANTS = {
    "collapsed": "OUTPUT COLLAPSED",
    "collapsed, read": "OUTPUT COLLAPSED",
    "count": "OUTPUT COUNT",
    "matches": "",
    "matches, read": "",
}
"""What each is asked for."""

STREAM = ("stock", {"n_events": N_REFERENCE_EVENTS})
N_LONG = 1_000_000


def main(figures: Figures, limit_s: float = 60.0) -> None:
    """Measure every row and print the table."""
    measured = [
        (reference, [_row(figures, reference, variant, limit_s) for variant in VARIANTS]) for reference in REFERENCES
    ]
    show(
        "S: 100,000 events, events/s beside the SASE++ authors' engine (its best column but collapsed: on the fly)",
        (
            "row",
            "matches",
            "collapsed",
            "read",
            "theirs",
            "read / theirs",
            "count",
            "/ collapsed",
            "listed",
            "read",
            "on the fly",
            "read / on the fly",
            "matches/s listed",
            "read",
            "MiB",
        ),
        [_shown(reference, *rows) for reference, rows in measured],
    )
    long_rows = [(r, _long_row(figures, r, limit_s)) for r in REFERENCES]
    show(
        f"S: {scale(N_LONG):,} events in batches of 100,000, collapsed",
        ("row", "matches", "events/s", "theirs", "", "MiB"),
        [
            [r.name, row.get("matches", ""), rate(row), quantity(r.collapsed), ratio(row, r.collapsed),
             round(row.get("peak_mb") or 0.0)]
            for r, row in long_rows
        ],
    )  # fmt: skip


def _row(figures: Figures, reference: Reference, variant: str, limit_s: float) -> Row:
    return figures.measure(
        reference.name,
        variant,
        reference.text(VARIANTS[variant]),
        STREAM,
        n_matches=reference.n_matches,
        limit_s=limit_s,
    )


def _long_row(figures: Figures, reference: Reference, limit_s: float) -> Row:
    """As collapsed, over more events in larger batches: what an event costs when what a batch costs is spread."""
    text, stream = reference.text(VARIANTS["collapsed"]), ("stock", {"n_events": scale(N_LONG)})
    return figures.measure(reference.name, "collapsed, long stream", text, stream, limit_s=limit_s, n_per_batch=100_000)


def _shown(
    reference: Reference, collapsed: Row, collapsed_read: Row, count: Row, listed: Row, read: Row
) -> list[object]:
    slower = (
        "" if None in (collapsed["seconds"], count["seconds"]) else f"{count['seconds'] / collapsed['seconds']:.2f}"
    )
    return [
        reference.name,
        reference.n_matches,
        rate(collapsed),
        rate(collapsed_read),
        quantity(reference.collapsed),
        ratio(collapsed_read, reference.collapsed),
        rate(count),
        slower,
        rate(listed),
        rate(read),
        quantity(reference.on_the_fly),
        ratio(read, reference.on_the_fly),
        *(quantity(row["matches"] / row["seconds"]) if row["seconds"] else "" for row in (listed, read)),
        round(max(row.get("peak_mb") or 0.0 for row in (collapsed, count, listed, read))),
    ]


__all__ = ["main"]
