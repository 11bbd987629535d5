"""Counting what grows with each neighbour: events of one key in one step, in random order of what is compared."""

from __future__ import annotations

from benchmarks.measure import show
from benchmarks.precise.queries import rising_query
from benchmarks.precise.rows import Figures

N_EVENTS = (1_000, 2_000, 5_000, 20_000)
CONDITIONS = {
    "one key": "b[i].x > b[i-1].x",
    "one key, at least 3": "b[i].x > b[i-1].x AND count(b[]) >= 3",
    "one key, ends compared": "b[i].x > b[i-1].x AND b[b.len].x > b[1].x + 10",
    "two keys": "b[i].x > b[i-1].x AND b[i].y > b[i-1].y",
}


def main(figures: Figures) -> None:
    """One A, so many B, one C: one row."""
    shown: list[list[object]] = []
    for name, condition in CONDITIONS.items():
        for n_events in N_EVENTS:
            row = figures.measure(
                f"{name}, {n_events} events", "count", rising_query(condition),
                ("rising", {"n_events": n_events}), n_per_batch=n_events + 2, repeats=3,
            )  # fmt: skip
            shown.append([row["workload"], f"{row['seconds']:.3f}" if row["seconds"] else "", row.get("peak_mb", "")])
    show("SEQ(A a, B+ b[], C c), OUTPUT COUNT, in one step", ("conditions on b", "s", "MiB"), shown)


__all__ = ["main"]
