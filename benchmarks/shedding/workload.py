"""Workload O: gSPICE's synthetic streams, and a seeded stand-in for pSPICE's stock stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.events import AttributeType, EventBatch, EventSchema

_INT = AttributeType.INT
SYNTHETIC = EventSchema.of({kind: {"x": _INT} for kind in "ABCDEF"})
N_COMPANIES = 50
N_SEQUENCES = 4
STOCKS = EventSchema.of({f"S{number}": {"rises": _INT} for number in range(N_COMPANIES)})

GAPS_S = {
    "D1": (2.5, 15, 40), "D2": (2.8, 15, 15), "D3": (4, 6, 12), "D4": (6, 6, 6),
    "D5": (2.5, 15, 40) * 2, "D6": (2.8, 15, 15) * 2, "D7": (4, 6, 12) * 2, "D8": (6,) * 6,
}  # fmt: skip
"""Mean seconds between events of the types A, B, C (D, E, F): gSPICE, Table III."""


@dataclass(frozen=True)
class Shape:
    """Queries over a dataset. `start`: the attribute of their first events, and its least value."""

    dataset: str
    name: str
    texts: tuple[str, ...]
    starts: tuple[str, ...]
    start: tuple[str, int]
    types: tuple[str, ...]
    attributes: tuple[str, ...]
    pane_events: int

    @property
    def schema(self) -> EventSchema:
        """Of the dataset."""
        return STOCKS if self.dataset == "stock" else SYNTHETIC

    def stream(self, n: int, seed: int) -> EventBatch:
        """Events of the dataset."""
        return stock(n, seed) if self.dataset == "stock" else synthetic(self.dataset, n, seed)


def synthetic(name: str, n: int, seed: int) -> EventBatch:
    """n events of a dataset of `GAPS_S`: exponential gaps by type, an attribute uniform over 1 to 10."""
    random = np.random.default_rng(seed)
    gaps = GAPS_S[name]
    times = np.concatenate([np.cumsum(random.exponential(gap_s * 1_000, n)) for gap_s in gaps])
    order = np.argsort(times, kind="stable")[:n]
    t_ms, kind = times[order].astype(np.int64), np.repeat(np.arange(len(gaps)), n)[order]
    x = random.integers(1, 11, n)
    rows = [
        {"event_id": str(i), "type": "ABCDEF"[kind[i]], "t_lo_ms": int(t_ms[i]), "x": int(x[i]), "source_seq": i}
        for i in range(n)
    ]
    return EventBatch.from_rows(rows, SYNTHETIC)


def stock(n: int, seed: int) -> EventBatch:
    """Quotes of companies, one of each a round in another order; one event a ms; each rises or falls with equal
    chances."""
    random = np.random.default_rng(seed)
    order = np.concatenate([random.permutation(N_COMPANIES) for _ in range(-(-n // N_COMPANIES))])[:n]
    rises = random.integers(0, 2, n)
    rows = [
        {"event_id": str(i), "type": f"S{c}", "t_lo_ms": i, "rises": int(rises[i])}
        for i, c in enumerate(order.tolist())
    ]
    return EventBatch.from_rows(rows, STOCKS)


def sequence(dataset: str) -> Shape:
    """A sequence of the dataset's types, of events with a high attribute, within 250 s."""
    types = "ABC" if dataset in ("D1", "D2", "D3", "D4") else "ABCDEF"
    of = types[:3]
    names = [kind.lower() for kind in of]
    components = ", ".join(f"{kind} {name}" for kind, name in zip(of, names, strict=True))
    conditions = " AND ".join(f"{name}.x >= 6" for name in names)
    text = f"PATTERN SEQ({components}) WHERE skip_till_next_match {{ {conditions} }} WITHIN 250 seconds"
    return Shape(dataset, "sequence", (text,), ("A",), ("x", 6), tuple(types), ("x",), 10)


def negation(dataset: str) -> Shape:
    """As `sequence`, without a high B between A and C."""
    types = "ABC" if dataset in ("D1", "D2", "D3", "D4") else "ABCDEF"
    text = (
        "PATTERN SEQ(A a, !B b, C c) WHERE skip_till_next_match { a.x >= 6 AND b.x >= 9 AND c.x >= 6 } "
        "WITHIN 250 seconds"
    )
    return Shape(dataset, "negation", (text,), ("A",), ("x", 6), tuple(types), ("x",), 10)


def ten_stocks(window: int) -> Shape:
    """pSPICE's Q1: ten rising quotes in a certain sequence within so many events; for each of four companies."""
    conditions = " AND ".join(f"s{n}.rises = 1" for n in range(10))
    texts = []
    for first in range(0, 10 * N_SEQUENCES, 10):
        components = ", ".join(f"S{first + n} s{n}" for n in range(10))
        texts.append(f"PATTERN SEQ({components}) WHERE skip_till_next_match {{ {conditions} }} WITHIN {window}")
    leading = tuple(f"S{first}" for first in range(0, 10 * N_SEQUENCES, 10))
    types = tuple(f"S{n}" for n in range(N_COMPANIES))
    return Shape("stock", f"sequence of ten, {window}", tuple(texts), leading, ("rises", 1), types, ("rises",), 50)


__all__ = ["GAPS_S", "STOCKS", "SYNTHETIC", "Shape", "negation", "sequence", "stock", "synthetic", "ten_stocks"]
