"""Q5 and Q6 of SASE++ on workload H: literal and product forms on a whole cluster, enumeration on what it can do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.imprecise.stock import counted
from benchmarks.measure import forget_peak, resident_mib, scale, show, stopwatch
from benchmarks.own_process import measured
from benchmarks.precise.rows import Figures, rate, ratio
from benchmarks.workloads.hadoop_stream import SCHEMA, Cluster, HadoopStream, in_seconds
from engine import BaselineKind, Engine, Limits, compile_query
from engine.baselines import Enumeration
from engine.errors import QueryError
from engine.events import EventBatch

QUERIES = Path(__file__).parents[2] / "queries"
THRESHOLD = "CONFIDENCE >= 0.9"
LITERAL = {"Q5": "papers/q5.cep", "Q6 option 1": "papers/q6-option1.cep", "Q6 option 2": "papers/q6-option2.cep"}
PRODUCT = {"Q5 product": "imbalance-window-task.cep", "Q6 product": "load-imbalance-task.cep"}

BUDGET_S = 60.0
"""A query that has spent more is not given the rest of the stream; its row says how far it came."""

N_PER_STEP = 1_000
"""Rows of one step that are listed at most; a row says when there were more."""

GOAL = 1_000_000
"""Events per second on one core."""

SMALL = Cluster(n_nodes=20, length_ms=600_000, reduce_median_ms=15_000.0, map_median_ms=10_000.0)
"""For the enumeration, whose points are seconds: reducers that see few steps."""


_WARM_UP = Cluster(n_nodes=20, length_ms=300_000, jobs_per_node_s=0.01, load_period_ms=120_000)
"""So that each query has matches, and all that it needs is compiled."""


def cases() -> dict[str, str]:
    """Name of a row -> query text."""
    texts = {}
    for name, path in LITERAL.items():
        text = (QUERIES / path).read_text(encoding="utf-8")
        texts[f"{name}, collapsed"] = f"{text} OUTPUT COLLAPSED {THRESHOLD}"
        texts[f"{name}, listed"] = f"{text} {THRESHOLD}"
    return texts | {name: (QUERIES / path).read_text(encoding="utf-8") for name, path in PRODUCT.items()}


def main(figures: Figures) -> None:
    """One hour of 1,000 nodes for all queries in turn, then the small cluster with the baselines."""
    whole = {"n_nodes": scale(1_000), "length_ms": 3_600_000, "names": list(cases())}
    found = measured("benchmarks.imprecise.hadoop:evaluate", whole, limit_s=3_600.0) or {}
    rows = {name: figures.keep("H", name, found.get(name), limit_s=3_600.0) for name in cases()}
    show(
        f"H: {whole['n_nodes']:,} nodes, one hour, generation not counted",
        ("query", "events", "events/s", "/ goal", "rows", "matches", "MiB"),
        [
            [name, row.get("events", ""), rate(row), ratio(row, GOAL), row.get("rows", ""),
             counted(row) if row["seconds"] else "", round(row.get("peak_mb", 0))]
            for name, row in rows.items()
        ],
    )  # fmt: skip
    _beside_enumeration(figures)


def _beside_enumeration(figures: Figures) -> None:
    shown = []
    for name in LITERAL:
        rows = {}
        for method in (None, BaselineKind.ENUMERATION.value, BaselineKind.EXTENSION.value):
            arguments = {"names": [f"{name}, listed"], "baseline": method, "small": True}
            found = measured("benchmarks.imprecise.hadoop:evaluate", arguments, limit_s=2 * BUDGET_S)
            row = None if found is None else found[f"{name}, listed"]
            rows[method or "ours"] = figures.keep("H small", f"{name}, {method or 'ours'}", row, limit_s=2 * BUDGET_S)
        ours = rows.pop("ours")
        shown.append(
            [name, ours.get("events", ""), ours.get("rows", ""), rate(ours)]
            + [text for row in rows.values() for text in (_reached(row), ratio(ours, row.get("events_per_second")))]
        )
    show(
        f"H, {SMALL.n_nodes} nodes, {SMALL.length_ms // 60_000} minutes, times in seconds: beside enumeration",
        ("query", "events", "matches", "ours", "enumeration", "", "extension", ""),
        shown,
    )


def _reached(row: dict[str, Any]) -> str:
    return rate(row) + (f" (cut off: {row['cut_off']})" if row.get("cut_off") else "")


@dataclass
class _Running:
    """One query in an engine of its own."""

    engine: Engine
    events: int = 0
    seconds: float = 0.0
    rows: int = 0
    matches: float = 0.0
    matches_exact: bool = True
    capped: bool = False
    cut_off: str = ""
    found: list[Any] = field(default_factory=list)

    def take(self, batch: EventBatch, watermark_ms: int) -> None:
        """Evaluate one step and count what it finds."""
        clock = stopwatch()
        started = clock()
        try:
            rows = self.engine.process(batch, watermark_ms)
        except QueryError as error:
            self.cut_off = error.message
            return
        finally:
            self.seconds += clock() - started
        self.events += len(batch)
        self.rows += len(rows)
        self.matches += sum(row.count for row in rows)
        self.matches_exact &= all(row.count_exact for row in rows)
        self.capped |= any(row.capped for row in rows)
        if self.seconds > BUDGET_S:
            self.cut_off = f"after {BUDGET_S:.0f} s"

    def row(self) -> dict[str, Any]:
        """Its figures."""
        names = ("events", "seconds", "rows", "matches", "matches_exact", "cut_off")
        unfinished = any(counted.n_unfinished for counted in self.engine.statistics.values())
        return {name: getattr(self, name) for name in names} | {
            "events_per_second": self.events / max(self.seconds, 1e-9),
            "capped": self.capped or unfinished,
            "peak_mb": resident_mib(peak=True),
        }


def evaluate(
    names: Sequence[str],
    n_nodes: int = 0,
    length_ms: int = 0,
    baseline: str | None = None,
    small: bool = False,
) -> dict[str, dict[str, Any]]:
    """The rows of these queries over one stream, by name; each batch is made once and given to all in turn."""
    kind = None if baseline is None else BaselineKind(baseline)
    warm_up(names, kind, small)
    running = {name: _made(name, kind, small) for name in names}
    forget_peak()
    stream = _batches(SMALL if small else Cluster(n_nodes=n_nodes, length_ms=length_ms), small)
    for batch, watermark in stream:
        for each in running.values():
            if not each.cut_off:
                each.take(EventBatch(batch.table), watermark)
    return {name: each.row() for name, each in running.items()}


def warm_up(names: Iterable[str], kind: BaselineKind | None, small: bool) -> None:
    """Let everything be compiled and loaded."""
    for name in names:
        each = _made(name, kind, small)
        for batch, watermark in _batches(_WARM_UP, small):
            if not each.cut_off:
                each.take(batch, watermark)


def _batches(cluster: Cluster, small: bool) -> Iterator[tuple[EventBatch, int]]:
    for batch, watermark_ms in HadoopStream(cluster):
        yield (in_seconds(batch), watermark_ms // 1_000 + 1) if small else (batch, watermark_ms)


def _made(name: str, kind: BaselineKind | None, small: bool) -> _Running:
    text = cases()[name]
    if small:
        text = re.sub(r"WITHIN\s+10 minutes", "WITHIN 600", text)
    query = compile_query(text, SCHEMA, name="q")
    engine = Engine([query], SCHEMA, limits=Limits(max_rows=N_PER_STEP), baseline=kind)
    for runtime in engine._runtimes.values():
        if isinstance(runtime, Enumeration):
            runtime.most_points = int(BUDGET_S * 2e8)
    return _Running(engine)


__all__ = ["cases", "evaluate", "main"]
