"""Workload O: gSPICE's synthetic streams, and seeded stand-ins for pSPICE's streams of stocks, a soccer game, buses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.events import AttributeType, EventBatch, EventSchema

_INT = AttributeType.INT
SYNTHETIC = EventSchema.of({kind: {"x": _INT} for kind in "ABCDEF"})
N_COMPANIES = 50
N_SEQUENCES = 4
N_SHARED = 10
SHARED = EventSchema.of({f"T{number}": {"x": _INT} for number in range(N_SHARED)})
STOCKS = EventSchema.of({f"S{number}": {"rises": _INT} for number in range(N_COMPANIES)})

N_PLAYERS = 11
POSSESSION_EVERY = 20
PITCH_M = (105, 68)
SOCCER = EventSchema.of({name: {"player": _INT, "x": _INT, "y": _INT} for name in ("Possession", "Defender")})
N_BUSES, N_STOPS = 911, 40
BUSES = EventSchema.of({"Bus": {"bus": _INT, "stop": _INT, "late": _INT}})

GAPS_S = {
    "D1": (2.5, 15, 40), "D2": (2.8, 15, 15), "D3": (4, 6, 12), "D4": (6, 6, 6),
    "D5": (2.5, 15, 40) * 2, "D6": (2.8, 15, 15) * 2, "D7": (4, 6, 12) * 2, "D8": (6,) * 6,
}  # fmt: skip
"""Mean seconds between events of the types A, B, C (D, E, F): gSPICE, Table III."""


EVENT_OFFERS = 1.0
"""An event costs as much as so many offers to a run, beside those: partial matches are most of the work, as in the
papers' systems. (Here an event costs more: then less of the work can be shed by dropping runs.)"""


@dataclass(frozen=True)
class Step:
    """An event of this type (by number) with an attribute of at least `least`; `negated`: there must be none between
    the step before and the one after."""

    kind: int
    least: float
    negated: bool = False


@dataclass(frozen=True)
class Pattern:
    """A sequence within so many ms."""

    steps: tuple[Step, ...]
    within_ms: int


@dataclass(frozen=True)
class Shape:
    """Queries over a dataset. `start`: the attribute of their first events, and its least value. `patterns`: the same
    queries for `windows.WindowOperator`, none where it has no form of them."""

    dataset: str
    name: str
    texts: tuple[str, ...]
    starts: tuple[str, ...]
    start: tuple[str, int]
    types: tuple[str, ...]
    attributes: tuple[str, ...]
    pane_events: int
    patterns: tuple[Pattern, ...] = ()

    @property
    def schema(self) -> EventSchema:
        """Of the dataset."""
        return _SCHEMAS.get(self.dataset, SYNTHETIC)

    def stream(self, n: int, seed: int) -> EventBatch:
        """Events of the dataset."""
        if self.dataset == "stock":
            return stock(n, seed)
        streams = {"ten types": ten_types, "soccer": soccer, "bus": buses}
        return streams[self.dataset](n, seed) if self.dataset in streams else synthetic(self.dataset, n, seed)


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


def soccer(n: int, seed: int) -> EventBatch:
    """One event each 50 ms: one of `POSSESSION_EVERY` says where a striker has the ball, the others where a player of
    the other team is, all uniform over the pitch (m); who moves more tells more often of it, up to four times."""
    random = np.random.default_rng(seed)
    possession = random.random(n) < 1 / POSSESSION_EVERY
    shares = np.linspace(2.0, 0.5, N_PLAYERS)
    player = random.choice(N_PLAYERS, n, p=shares / shares.sum())
    x, y = random.integers(0, PITCH_M[0], n), random.integers(0, PITCH_M[1], n)
    rows = [
        {"event_id": str(i), "type": "Possession" if possession[i] else "Defender", "t_lo_ms": 50 * i,
         "player": int(player[i]), "x": int(x[i]), "y": int(y[i]), "source_seq": i}
        for i in range(n)
    ]  # fmt: skip
    return EventBatch.from_rows(rows, SOCCER)


def buses(n: int, seed: int) -> EventBatch:
    """One event a ms: a bus, a stop, how late it is (1 to 10), all uniform."""
    random = np.random.default_rng(seed)
    bus, stop, late = random.integers(0, N_BUSES, n), random.integers(0, N_STOPS, n), random.integers(1, 11, n)
    rows = [
        {"event_id": str(i), "type": "Bus", "t_lo_ms": i, "bus": int(bus[i]), "stop": int(stop[i]),
         "late": int(late[i]), "source_seq": i}
        for i in range(n)
    ]  # fmt: skip
    return EventBatch.from_rows(rows, BUSES)


_SCHEMAS = {"stock": STOCKS, "ten types": SHARED, "soccer": SOCCER, "bus": BUSES}


def ten_types(n: int, seed: int) -> EventBatch:
    """One event a ms, of ten types with equal chances, an attribute uniform over 1 to 10."""
    random = np.random.default_rng(seed)
    kinds, x = random.integers(0, N_SHARED, n), random.integers(1, 11, n)
    rows = [{"event_id": str(i), "type": f"T{kinds[i]}", "t_lo_ms": i, "x": int(x[i])} for i in range(n)]
    return EventBatch.from_rows(rows, SHARED)


_SHARED_PREFIXES = (
    (0, 1, 2), (0, 1, 3), (0, 1, 4, 5), (0, 1, 6, 7), (0, 1, 2, 8, 9), (0, 1, 5, 3, 6), (0, 1, 7, 9, 4, 2),
    (0, 1, 8, 6, 3, 5),
)  # fmt: skip


def shared_prefixes(window: int) -> Shape:
    """Eight sequences of three to six steps over ten types, the first two in common, of events with a high attribute
    (as `sequence`)."""
    texts, patterns = [], []
    for order in _SHARED_PREFIXES:
        components = ", ".join(f"T{kind} s{n}" for n, kind in enumerate(order))
        conditions = " AND ".join(f"s{n}.x >= 6" for n in range(len(order)))
        texts.append(f"PATTERN SEQ({components}) WHERE skip_till_next_match {{ {conditions} }} WITHIN {window}")
        patterns.append(Pattern(tuple(Step(kind, 6) for kind in order), window))
    types = tuple(f"T{n}" for n in range(N_SHARED))
    name = f"shared prefixes, {window}"
    return Shape("ten types", name, tuple(texts), ("T0",), ("x", 6), types, ("x",), 0, tuple(patterns))


def sequence(dataset: str) -> Shape:
    """A sequence of the dataset's types, of events with a high attribute, within 250 s."""
    return _synthetic(dataset, "sequence", "SEQ(A a, B b, C c)", "a.x >= 6 AND b.x >= 6 AND c.x >= 6", _ABC)


def negation(dataset: str) -> Shape:
    """As `sequence`, without a high B between A and C."""
    steps = (Step(0, 6), Step(1, 9, negated=True), Step(2, 6))
    return _synthetic(dataset, "negation", "SEQ(A a, !B b, C c)", "a.x >= 6 AND b.x >= 9 AND c.x >= 6", steps)


def closure(dataset: str) -> Shape:
    """As `sequence`, with any number of Bs."""
    conditions = "a.x >= 6 AND b[i].x >= 6 AND c.x >= 6"
    return _synthetic(dataset, "Kleene", "SEQ(A a, B+ b[], C c)", conditions)


def disjunction(dataset: str) -> Shape:
    """A then B, or A then C."""
    conditions = "a.x >= 6 AND b.x >= 6 AND c.x >= 6"
    return _synthetic(dataset, "disjunction", "SEQ(A a, (B b OR C c))", conditions)


def defenders(n: int) -> Shape:
    """pSPICE's Q3: n different defenders within 4 m of where a striker has got the ball, within 15 s."""
    near = "(d[i].x - s.x) * (d[i].x - s.x) + (d[i].y - s.y) * (d[i].y - s.y) <= 16"
    text = (
        f"PATTERN SEQ(Possession s, Defender{{{n},{n}}} d[]) "
        f"WHERE skip_till_next_match {{ {near} AND repeats(d[..i-1].player) = 0 }} WITHIN 15 seconds"
    )
    types = ("Possession", "Defender")
    return Shape("soccer", f"any {n} defenders", (text,), types[:1], ("x", 0), types, ("player",), 10)


def delayed_buses(n: int, window: int) -> Shape:
    """pSPICE's Q4: n different buses delayed at one stop within so many events. (There a window begins every 500
    events, here with each delayed bus.)"""
    text = (
        f"PATTERN Bus{{{n},{n}}} b[] "
        f"WHERE skip_till_next_match {{ [stop] AND b[i].late >= 9 AND repeats(b[..i-1].bus) = 0 }} WITHIN {window}"
    )
    return Shape("bus", f"any {n} buses, {window}", (text,), ("Bus",), ("late", 9), ("Bus",), ("late",), 10)


_ABC = (Step(0, 6), Step(1, 6), Step(2, 6))


def _synthetic(dataset: str, name: str, pattern: str, conditions: str, steps: tuple[Step, ...] = ()) -> Shape:
    text = f"PATTERN {pattern} WHERE skip_till_next_match {{ {conditions} }} WITHIN 250 seconds"
    types = tuple("ABC" if dataset in ("D1", "D2", "D3", "D4") else "ABCDEF")
    patterns = (Pattern(steps, 250_000),) if steps else ()
    return Shape(dataset, name, (text,), ("A",), ("x", 6), types, ("x",), 10, patterns)


def ten_stocks(window: int) -> Shape:
    """pSPICE's Q1: ten rising quotes in a certain sequence within so many events; for each of four companies."""
    return _stocks(f"sequence of ten, {window}", tuple(range(10)), window)


def two_patterns(window: int) -> Shape:
    """pSPICE's Q1 and Q2 in one operator: one sequence of ten, and one with repetition over other companies."""
    one, other = _stocks("", tuple(range(10)), window), _stocks("", _REPEATED, window)
    texts, patterns = (one.texts[0], other.texts[1]), (one.patterns[0], other.patterns[1])
    starts = ("S0", "S10")
    return Shape("stock", f"Q1 and Q2, {window}", texts, starts, one.start, one.types, one.attributes, 50, patterns)


def repeated_stocks(window: int) -> Shape:
    """pSPICE's Q2: as Q1, where some companies come again (its order is not stated in the text: this one is ours)."""
    return _stocks(f"with repetition, {window}", _REPEATED, window)


_REPEATED = (0, 0, 1, 2, 1, 3, 4, 2, 5, 6, 7, 8, 9)


def _stocks(name: str, order: tuple[int, ...], window: int) -> Shape:
    conditions = " AND ".join(f"s{n}.rises = 1" for n in range(len(order)))
    texts, patterns = [], []
    for first in range(0, 10 * N_SEQUENCES, 10):
        components = ", ".join(f"S{first + company} s{n}" for n, company in enumerate(order))
        texts.append(f"PATTERN SEQ({components}) WHERE skip_till_next_match {{ {conditions} }} WITHIN {window}")
        patterns.append(Pattern(tuple(Step(first + company, 1) for company in order), window))
    leading = tuple(f"S{first}" for first in range(0, 10 * N_SEQUENCES, 10))
    types = tuple(f"S{n}" for n in range(N_COMPANIES))
    return Shape("stock", name, tuple(texts), leading, ("rises", 1), types, ("rises",), 50, tuple(patterns))


__all__ = ["EVENT_OFFERS", "GAPS_S", "SHARED", "STOCKS", "SYNTHETIC", "Pattern", "Shape", "Step", "buses", "closure",
           "defenders", "delayed_buses", "disjunction", "negation", "repeated_stocks", "sequence", "shared_prefixes",
           "soccer", "stock", "synthetic", "ten_stocks", "ten_types", "two_patterns"]  # fmt: skip
