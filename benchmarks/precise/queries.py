"""The queries of the reference workloads."""

from __future__ import annotations

from dataclasses import dataclass


def stock_query(take: str, aggregate: str, within_ms: int, output: str = "") -> str:
    """Workload S: the template of SASE++ section 6.1 over the stock stream, skip till any match."""
    return (
        "PATTERN SEQ(stock+ a[], stock b) WHERE skip_till_any_match { [symbol] AND a[1].price % 500 = 0 "
        f"AND {take} AND a[i].volume > 150 AND b.volume < 150 AND b.price > {aggregate}(a[].price) }} "
        f"WITHIN {within_ms} {output}"
    )


ITERATOR_PREDICATES = {
    "p1": "",
    "p2": "AND a[i].price > a[i-1].price",
    "p3 min": "AND a[i].price > min(a[..i-1].price)",
    "p3 avg": "AND a[i].price > avg(a[..i-1].price)",
}
"""The predicates on Kleene events of SASE+, Table 1; p3 with max does as p2 on these streams, says the paper."""


def sase_plus_query(strategy: str, predicate: str, within_ms: int) -> str:
    """The template of SASE+ section 6.1."""
    return (
        f"PATTERN SEQ(stock+ a[], stock b) WHERE {strategy} {{ [symbol] AND a[1].price % 500 = 0 "
        f"{ITERATOR_PREDICATES[predicate]} AND b.volume < 150 }} WITHIN {within_ms}"
    )


def rising_query(condition: str) -> str:
    """Selections of B events between an A and a C that fulfil conditions on neighbours, counted."""
    return f"PATTERN SEQ(A a, B+ b[], C c) WHERE skip_till_any_match {{ {condition} }} WITHIN 1 hour OUTPUT COUNT"


Q1 = (
    "PATTERN SEQ(JobStart a, Mapper+ b[], JobEnd c) WHERE skip_till_next_match { [job_id] } WITHIN 1 day "
    "RETURN avg(b[].period_ms) AS avg_ms, max(b[].period_ms) AS max_ms"
)
Q3 = (
    "PATTERN SEQ(ReducerStart a, DataPull+ b[]) WHERE skip_till_next_match { [task_id] "
    "AND b[b.len].period_ms > 2 * avg(b[].period_ms) } WITHIN 10 minutes RETURN a.task_id"
)


@dataclass(frozen=True)
class Reference:
    """One row of the table of workload S: what is asked, the number of matches, events per second of other engines.

    `sase_plus`, `postponing`, `on_the_fly`, `collapsed`: the SASE++ authors' engine; `flink`: Flink CEP 2.3. None where
    it did not finish, 0 where it was not measured.
    """

    name: str
    take: str
    aggregate: str
    within_ms: int
    n_matches: int
    sase_plus: float | None
    postponing: float | None
    on_the_fly: float | None
    collapsed: float
    flink: float | None = 0

    def text(self, output: str = "") -> str:
        """The query."""
        return stock_query(self.take, self.aggregate, self.within_ms, output)


_FIFTH = "a[i].price % 5 = 0"
REFERENCES = (
    Reference("true-1", "a[i].price % 97 = 0", "max", 25, 351, 1.30e6, 0.90e6, 1.21e6, 1.26e6, 1.4e6),
    Reference("true-2", "a[i].price % 3 != 0", "max", 25, 11_675, 248e3, 264e3, 1.11e6, 1.18e6, 7.2e3),
    Reference("true-4", "a[i].price % 5 != 0", "max", 25, 65_975, 46e3, 95e3, 910e3, 1.30e6, None),
    Reference("true-8", "a[i].price > 500", "max", 25, 151_829, 6.2e3, 27e3, 620e3, 1.29e6, None),
    Reference("false-1", "a[i].price % 97 = 0", "min", 25, 353, 1.33e6, 1.03e6, 1.31e6, 1.23e6),
    Reference("false-4", "a[i].price % 5 != 0", "min", 25, 73_132, 52e3, 95e3, 886e3, 1.25e6),
    Reference("false-8", "a[i].price > 500", "min", 25, 171_127, 6.2e3, 24e3, 301e3, 1.24e6),
    Reference("W50", _FIFTH, "max", 50, 7_703, 640e3, 570e3, 1.18e6, 1.14e6, 195e3),
    Reference("W100", _FIFTH, "max", 100, 361_662, 22e3, 16e3, 173e3, 1.10e6, None),
    Reference("W150", _FIFTH, "max", 150, 11_296_690, None, None, 8.4e3, 1.02e6, None),
    Reference("W200", _FIFTH, "max", 200, 386_231_122, None, None, None, 0.94e6, None),
)
"""The table of workload S over precise timestamps: 100,000 events, seed 10, 2 symbols, p = 70."""

N_REFERENCE_EVENTS = 100_000

__all__ = [
    "ITERATOR_PREDICATES",
    "N_REFERENCE_EVENTS",
    "Q1",
    "Q3",
    "REFERENCES",
    "Reference",
    "sase_plus_query",
    "stock_query",
]
