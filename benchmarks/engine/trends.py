"""Aggregates over trends on workload T (GRETA, section 10): `make bench BENCH=trends`.

The cluster stream of the paper: measurements of mappers, 3,000 a second, with uniform mapper and job ids, cpu and
memory (0..1000) and Poisson load (100), in one window. Measured: seconds of `Engine.process` with kernels warm, from
events to rows, by the wall clock and of the processor, best of three; beside sorting the values, or a bare compiled
running sum over the same columns: with GROUP BY one that finds the group by its key and tells events of one time apart,
as the query does, and one that is given numbers of groups and lets events of one time follow each other, the least that
could be. The baseline is GRETA's quadratic propagation, our own implementation: the same graph with every earlier event
looked at, for an inequality that is written so that no index answers it.

Many queries in one engine: 120 that differ in what they return and in HAVING, and 120 of 12 windows with 10 aggregates
each, beside one of them (COUNT(*) and a SUM, of the shortest window).

The strategies: the same trends under each of them, by group, beside skip till any match.

Memory for each event and window; events with intervals beside exact ones; an hour of the stream; and an hour of it with
the starts and ends of jobs, over which the paper's query Q2 runs as it is written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

from app.process.spare_memory import trim_of_libc
from benchmarks.own_process import measured as measured_apart
from benchmarks.workloads import cluster_jobs
from engine import CompiledQuery, Engine, compile_query
from engine.events import FOREVER_MS, AttributeType, EventBatch, EventSchema

SCHEMA = EventSchema.of(
    {
        "M": {
            "mapper": AttributeType.INT,
            "job": AttributeType.INT,
            "cpu": AttributeType.INT,
            "memory": AttributeType.INT,
            "load": AttributeType.INT,
            "value": AttributeType.FLOAT,
        }
    }
)
"""`value`: uniform, so that no two are equal; load is Poisson and has some eighty values."""

WINDOW = "WITHIN 1 day SLIDE 1 day"
RETURNED = "RETURN COUNT(*), SUM(M.cpu)"


@dataclass(frozen=True)
class Measured:
    """Seconds, best of several runs, and rows."""

    wall_s: float
    processor_s: float
    n_rows: int


def cluster_stream(n: int, n_groups: int, seed: int = 1, first_ms: int = 1) -> EventBatch:
    """Workload T's cluster stream: n measurements, 3,000 a second."""
    random = np.random.default_rng(seed)
    t_ms = first_ms + np.arange(n) // 3000 * 1000
    return EventBatch.from_columns(
        {
            "event_id": [str(k) for k in range(n)],
            "type": ["M"] * n,
            "t_lo_ms": t_ms,
            "t_hi_ms": t_ms,
            "source_rank": np.zeros(n, np.int64),
            "source_seq": np.arange(n),
            "mapper": random.integers(0, n_groups, n),
            "job": random.integers(0, 11, n),
            "cpu": random.integers(0, 1001, n),
            "memory": random.integers(0, 1001, n),
            "load": random.poisson(100, n),
            "value": random.random(n),
        },
        SCHEMA,
    )


def measured(queries: Sequence[CompiledQuery], batch: EventBatch, times: int = 3) -> Measured:
    """The best of several runs over one batch."""
    best = Measured(float("inf"), float("inf"), 0)
    for _ in range(times):
        running = Engine(queries, SCHEMA)
        wall, processor = time.perf_counter(), time.process_time()
        n_rows = len(list(running.process(batch, FOREVER_MS)))
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        best = Measured(min(best.wall_s, wall), min(best.processor_s, processor), n_rows)
    return best


@njit
def _running_sum(cpu: Any, groups: Any, counts: Any, sums: Any) -> None:
    """Counts and sums of all subsequences, in doubles that may become infinite: nothing else could be less."""
    for row in range(len(cpu)):
        group = groups[row]
        count = counts[group] + 1.0
        sums[group] += sums[group] + cpu[row] * count
        counts[group] += count


@njit
def _running_sum_by_key(t_ms: Any, keys: Any, cpu: Any, known: Any, number_of: Any, sums: Any, latest_ms: Any) -> None:
    """What the query counts: the group is found by its key in a hash table (`known`, a power of two; -1 in `number_of`:
    free), and events of one time do not follow each other. `sums` (groups, 4): counts and sums, and those of the
    latest time."""
    n_groups = 0
    for row in range(len(cpu)):
        key = keys[row]
        slot = (key * 0x1E3779B97F4A7C15 >> 40) & (len(known) - 1)
        while number_of[slot] >= 0 and known[slot] != key:
            slot = (slot + 1) & (len(known) - 1)
        group = number_of[slot]
        if group < 0:
            group = n_groups
            known[slot], number_of[slot] = key, group
            n_groups += 1
        if t_ms[row] != latest_ms[group]:
            sums[group, 0] += sums[group, 2]
            sums[group, 1] += sums[group, 3]
            sums[group, 2] = sums[group, 3] = 0.0
            latest_ms[group] = t_ms[row]
        count = sums[group, 0] + 1.0
        sums[group, 2] += count
        sums[group, 3] += sums[group, 1] + cpu[row] * count


def bare_running_sum(batch: EventBatch, n_groups: int) -> float:
    """Seconds of a bare compiled pass over values as doubles, whose groups are numbers already."""
    columns = [batch.numbers(name) for name in ("cpu", "mapper")]
    groups = columns[1].astype(np.int64)
    return _best(lambda: _running_sum(columns[0], groups, np.zeros(n_groups), np.zeros(n_groups)))


def bare_running_sum_by_key(batch: EventBatch, n_groups: int) -> float:
    """Seconds of a bare compiled pass over the columns that a query reads, as they are given: times, keys, values."""
    keys, cpu = (batch.table.column(name).to_numpy() for name in ("mapper", "cpu"))
    n_slots = 64
    assert n_groups < n_slots
    return _best(
        lambda: _running_sum_by_key(
            batch.t_lo_ms, keys, cpu, np.zeros(n_slots, np.int64), np.full(n_slots, -1), np.zeros((n_groups, 4)),
            np.full(n_groups, -1),
        )
    )  # fmt: skip


def _best(work: Callable[[], object], times: int = 5) -> float:
    found = []
    for _ in range(times):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


CASES = (
    ("no predicate", "", (100_000, 1_000_000)),
    ("one inequality", "WHERE M.value < NEXT(M).value", (100_000, 1_000_000)),
    ("one inequality, quadratic", "WHERE M.value - NEXT(M).value < 0", (10_000,)),
    ("two inequalities", "WHERE M.value < NEXT(M).value AND M.cpu < NEXT(M).cpu", (10_000, 100_000)),
)


AGGREGATES = (
    "COUNT(*), SUM(M.cpu)", "COUNT(M)", "SUM(M.memory)", "AVG(M.cpu)", "AVG(M.memory)",
    "MIN(M.cpu)", "MAX(M.cpu)", "MIN(M.memory)", "MAX(M.memory)", "SUM(M.cpu) / COUNT(M) AS mean",
)  # fmt: skip
SHARED = (("no predicate", "", 1_000_000), ("one inequality", "WHERE M.value < NEXT(M).value", 100_000))


def queries_that_differ_in_rows(where: str) -> list[str]:
    """10 aggregates, each with 12 thresholds."""
    return [
        f"PATTERN M+ {where} GROUP BY mapper {WINDOW} HAVING COUNT(*) > {10**n} RETURN {what}"
        for what in AGGREGATES
        for n in range(12)
    ]


def queries_of_windows(where: str) -> list[str]:
    """12 windows, each with 10 aggregates."""
    return [
        f"PATTERN M+ {where} GROUP BY mapper WITHIN {10 * n} seconds SLIDE {10 * n} seconds RETURN {what}"
        for n in range(1, 13)
        for what in AGGREGATES
    ]


def many_queries() -> list[dict[str, Any]]:
    """120 queries in one engine against one alone."""
    rows: list[dict[str, Any]] = []
    print(
        f"\n{'120 queries that differ in':28}{'query':>18}{'events':>9}{'one cpu s':>11}{'all cpu s':>11}{'times':>7}"
    )
    kinds = (("aggregates and HAVING", queries_that_differ_in_rows), ("12 windows, 10 aggregates", queries_of_windows))
    for kind, made in kinds:
        for name, where, n in SHARED:
            queries = [compile_query(text, SCHEMA, name=f"q{k}") for k, text in enumerate(made(where))]
            batch = cluster_stream(n, 11)
            one, all_of_them = measured(queries[:1], batch), measured(queries, batch)
            rows.append(
                {
                    "differ_in": kind,
                    "query": name,
                    "groups": 11,
                    "events": n,
                    "queries": len(queries),
                    "one_cpu_s": one.processor_s,
                    "cpu_s": all_of_them.processor_s,
                    "ratio": all_of_them.processor_s / one.processor_s,
                    "rows": all_of_them.n_rows,
                }
            )
            print("{differ_in:28}{query:>18}{events:9}{one_cpu_s:11.3f}{cpu_s:11.3f}{ratio:7.1f}".format(**rows[-1]))
    return rows


STRATEGIES = ("skip_till_any_match", "skip_till_next_match", "partition_contiguity", "strict_contiguity")


def strategies(n: int = 1_000_000) -> list[dict[str, Any]]:
    """Which earlier events are still followed decides what an inequality costs."""
    rows: list[dict[str, Any]] = []
    print(f"\n{'strategy':24}{'query':>18}{'events':>9}{'cpu s':>9}{'events/cpu s':>14}")
    batch = cluster_stream(n, 11)
    for name, predicate in (("no predicate", ""), ("one inequality", " AND M.value < NEXT(M).value")):
        for strategy in STRATEGIES:
            text = f"PATTERN M+ WHERE {strategy} {{ [mapper]{predicate} }} {WINDOW} {RETURNED}"
            query = compile_query(text, SCHEMA)
            measured([query], cluster_stream(1000, 11), 1)
            found = measured([query], batch)
            rows.append(
                {
                    "strategy": strategy,
                    "query": name,
                    "groups": 11,
                    "events": n,
                    "cpu_s": found.processor_s,
                    "rate": n / found.processor_s,
                    "rows": found.n_rows,
                }
            )
            print("{strategy:24}{query:>18}{events:9}{cpu_s:9.3f}{rate:14,.0f}".format(**rows[-1]))
    return rows


def memory_per_vertex(n: int, slides_per_window: int) -> dict[str, float]:
    """Resident bytes for each event and window of it while all windows are open, one inequality, one group: what the
    graph and its index have, without the batch; `with_free`: with what the allocator keeps of a large batch until the
    live process gives it back, each minute."""
    within_s = 86_400
    text = (
        f"PATTERN M+ WHERE M.value < NEXT(M).value WITHIN {within_s} seconds SLIDE {within_s // slides_per_window} "
        f"seconds {RETURNED}"
    )
    query = compile_query(text, SCHEMA)
    measured([query], cluster_stream(1000, 1), 1)
    batch = cluster_stream(n, 1)
    running = Engine([query], SCHEMA)
    before = _resident_bytes()
    running.process(batch, int(batch.t_lo_ms[-1]))
    with_free = _resident_bytes()
    trim_of_libc()()
    per = n * slides_per_window
    return {"bytes": (_resident_bytes() - before) / per, "with_free": (with_free - before) / per}


def _resident_bytes() -> int:
    """Of this process, from the system."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def imprecise_ratio(n: int = 10_000) -> dict[str, Any]:
    """Events 10 ms apart, each tenth of which lies within 12 ms and so overlaps the next one, against the same events
    at exact times: the same query, the same evaluator."""
    query = compile_query(f"PATTERN M+ WHERE M.value < NEXT(M).value {WINDOW} {RETURNED}", SCHEMA)
    precise = cluster_stream(n, 1)
    times = 10 * np.arange(1, n + 1)
    columns = {name: precise.numbers(name) for name in ("mapper", "job", "cpu", "memory", "load", "value")}

    def events(longer_ms: int) -> EventBatch:
        return EventBatch.from_columns(
            {
                "event_id": [str(k) for k in range(n)],
                "type": ["M"] * n,
                "t_lo_ms": times,
                "t_hi_ms": times + longer_ms * (np.arange(n) % 10 == 0),
                "source_rank": np.zeros(n, np.int64),
                "source_seq": np.arange(n),
                **columns,
            },
            SCHEMA,
        )

    exact, overlapping = (measured([query], events(longer_ms)) for longer_ms in (0, 12))
    found = {
        "events": n,
        "precise_cpu_s": exact.processor_s,
        "imprecise_cpu_s": overlapping.processor_s,
        "ratio": overlapping.processor_s / exact.processor_s,
    }
    print(
        "\nimprecise: {events} events, {precise_cpu_s:.3f} s exact, {imprecise_cpu_s:.3f} s, ratio {ratio:.1f}".format(
            **found
        )
    )
    return found


def one_hour(n_seconds: int = 3_600, step_s: int = 60, n_drawn: int = 0) -> dict[str, Any]:
    """An hour of the cluster stream, 3,000 events a second in 11 groups, minute by minute, in windows of a minute each
    half minute, with and without an inequality: events per second of the processor, and resident memory after a sixth
    of the time and at the end. `n_drawn`: so many minutes are drawn and come in turn, at times that go on; 0: each."""
    found: dict[str, Any] = {"seconds": n_seconds, "events": 3_000 * n_seconds}
    drawn = [cluster_stream(3_000 * step_s, 11, seed) for seed in range(n_drawn)]
    for name, where in (("no predicate", ""), ("one inequality", "WHERE M.value < NEXT(M).value")):
        text = f"PATTERN M+ {where} GROUP BY mapper WITHIN 1 minute SLIDE 30 seconds {RETURNED}"
        running = Engine([compile_query(text, SCHEMA)], SCHEMA)
        processor_s, n_rows, early = 0.0, 0, 0
        for step in range(n_seconds // step_s):
            later_ms = 1000 * step_s * step
            if drawn:
                batch = _moved(drawn[step % n_drawn], later_ms)
            else:
                batch = cluster_stream(3_000 * step_s, 11, seed=step, first_ms=1 + later_ms)
            began = time.process_time()
            n_rows += len(list(running.process(batch, later_ms + 1000 * step_s)))
            processor_s += time.process_time() - began
            if step == n_seconds // step_s // 6:
                early = _resident_bytes()
        rate = found["events"] / processor_s
        found[name] = {"rate": rate, "rows": n_rows, "early_bytes": early, "last_bytes": _resident_bytes()}
        print(
            f"{n_seconds} s of the cluster stream, {name}: {rate:,.0f} events per cpu s, {n_rows} rows, "
            f"{early / 2**20:.0f} MiB after a sixth, {_resident_bytes() / 2**20:.0f} MiB at the end",
            flush=True,
        )
    return found


def paper_query(n_seconds: int = 3_600, step_s: int = 60) -> dict[str, Any]:
    """GRETA's Q2 over the cluster stream with starts and ends of jobs, minute by minute: seconds of the processor in
    `Engine.process`, rows, resident bytes of the process before the first batch, after a sixth of the time and at the
    end (a batch at hand is a part of them), and bytes of the state that the engine saves at the end."""
    query = compile_query(cluster_jobs.Q2, cluster_jobs.SCHEMA, name="Q2")
    warm = Engine([query], cluster_jobs.SCHEMA)
    for batch in cluster_jobs.ClusterJobs(120, per_s=300, seed=2).batches():
        list(warm.process(batch, FOREVER_MS))
    del warm, batch
    running = Engine([query], cluster_jobs.SCHEMA)
    n_events, n_rows, processor_s, early, before = 0, 0, 0.0, 0, _resident_bytes()
    for step, batch in enumerate(cluster_jobs.ClusterJobs(n_seconds).batches(step_s)):
        began = time.process_time()
        n_rows += len(list(running.process(batch, 1000 * step_s * (step + 1))))
        processor_s += time.process_time() - began
        n_events += len(batch)
        if step == n_seconds // step_s // 6:
            early = _resident_bytes()
    last = _resident_bytes()
    saved = sum(table.nbytes for table in running.save().values())
    return {
        "seconds": n_seconds, "events": n_events, "rows": n_rows, "cpu_s": processor_s, "rate": n_events / processor_s,
        "before_bytes": before, "early_bytes": early, "last_bytes": last, "saved_bytes": saved,
    }  # fmt: skip


def _paper_query_apart() -> dict[str, Any] | None:
    """In a process of its own, printed."""
    found = measured_apart(f"{__name__}:paper_query", {}, 900)
    if found is not None:
        memory = "MiB: before, a sixth, end; saved"
        print(f"\n{'query':6}{'events':>12}{'rows':>7}{'cpu s':>8}{'events/cpu s':>14}{memory:>33}")
        mib = ", ".join(f"{found[name] / 2**20:.0f}" for name in ("before_bytes", "early_bytes", "last_bytes"))
        mib += f"; {found['saved_bytes'] / 2**20:.1f}"
        print("Q2    {events:12,}{rows:7}{cpu_s:8.1f}{rate:14,.0f}".format(**found) + f"{mib:>33}")
    return found


def _moved(batch: EventBatch, later_ms: int) -> EventBatch:
    """The same events so much later."""
    table = batch.table
    for name in ("t_lo_ms", "t_hi_ms"):
        at = table.column_names.index(name)
        table = table.set_column(at, name, pa.array(table.column(name).to_numpy() + later_ms))
    return EventBatch(table)


def main() -> dict[str, Any]:
    """Measure, print, return the rows."""
    rows: list[dict[str, Any]] = []
    print(
        f"{'query':28}{'groups':>7}{'events':>9}{'wall s':>9}{'cpu s':>9}{'events/cpu s':>14}{'times bare':>12}"
        f"{'times known':>13}"
    )
    for n_groups in (1, 11):
        grouped = "GROUP BY mapper" if n_groups > 1 else ""
        for name, where, sizes in CASES:
            query = compile_query(f"PATTERN M+ {where} {grouped} {WINDOW} {RETURNED}", SCHEMA)
            measured([query], cluster_stream(1000, n_groups), 1)
            for n in sizes:
                rows.append(_row(name, query, n, n_groups, has_predicate=bool(where)))
                text = "{query:28}{groups:7}{events:9}{wall_s:9.3f}{cpu_s:9.3f}{rate:14,.0f}{ratio:12.1f}"
                text += "" if where else "{ratio_known:13.1f}"
                print(text.format(**rows[-1]))
    return {
        "load": os.getloadavg(),
        "rows": rows,
        "many_queries": many_queries(),
        "strategies": strategies(),
        "bytes_per_vertex_and_window": {
            windows: measured_apart(f"{__name__}:memory_per_vertex", {"n": 500_000, "slides_per_window": windows}, 300)
            for windows in (1, 10)
        },
        "imprecise": imprecise_ratio(),
        "one_hour": one_hour(),
        "Q2": _paper_query_apart(),
    }


def _row(name: str, query: CompiledQuery, n: int, n_groups: int, *, has_predicate: bool) -> dict[str, Any]:
    batch = cluster_stream(n, n_groups)
    found = measured([query], batch, 1 if "two" in name else 3)
    values = batch.numbers("value")
    known = None if has_predicate else bare_running_sum(batch, n_groups)
    if known is None:
        bare = _best(lambda: np.sort(values))
    else:
        bare = bare_running_sum_by_key(batch, n_groups) if n_groups > 1 else known
    return {
        "query": name,
        "groups": n_groups,
        "events": n,
        "wall_s": found.wall_s,
        "cpu_s": found.processor_s,
        "rate": n / found.processor_s,
        "bare": "sorting the values" if has_predicate else "a running sum",
        "bare_cpu_s": bare,
        "ratio": found.processor_s / bare,
        "bare_known_cpu_s": known,
        "ratio_known": known and found.processor_s / known,
        "rows": found.n_rows,
    }
