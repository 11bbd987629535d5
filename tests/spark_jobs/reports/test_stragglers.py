"""The ranking of hosts and the worst attempts against the definitions, computed by plain Python."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from math import sqrt
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from spark_jobs.reports import stragglers
from spark_jobs.reports.attempts import attempts, jobs
from spark_jobs.reports.stragglers import StragglerOptions
from tests.spark_jobs.reports.history import Row, frame, history
from tests.spark_jobs.reports.test_life_times import attempt_rows

MIB = 1 << 20


def expected_attempts(rows: list[Row], options: StragglerOptions) -> dict[str, Row]:
    """By attempt: basis, expected_ms, ratio, left_out."""
    found = {name: dict(row) for name, row in attempt_rows(rows).items() if row.get("period_ms") is not None}
    # A success whose period is not known is no success to compare with.
    done = {row["task_id"]: row for row in found.values() if row["status"] == "SUCCEEDED"}
    kept = {}
    for name, row in found.items():
        if row["status"] == "SUCCEEDED":
            kept[name] = row
        elif row["status"] == "KILLED" and row["task_id"] in done:
            kept[name] = {**row, "input_bytes": done[row["task_id"]].get("input_bytes")}
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in kept.values():
        if row["status"] == "SUCCEEDED":
            groups[row["job_id"], row["kind"]].append(row)
    least = max(options.min_input_bytes, 1)
    for row in kept.values():
        group = groups[row["job_id"], row["kind"]]
        inputs = [member.get("input_bytes") for member in group]
        known = [size for size in inputs if size is not None]
        row["basis"] = "input" if len(known) == len(group) and statistics.median(known) >= least else "period"
        size = row.get("input_bytes")
        if row["basis"] == "input":
            rates = [m["period_ms"] / m["input_bytes"] for m in group if m["input_bytes"] >= least]
            row["expected_ms"] = None if size is None else statistics.median(rates) * size
        else:
            row["expected_ms"] = statistics.median(m["period_ms"] for m in group)
        tiny = row["basis"] == "input" and (size is None or size < least)
        tiny = tiny or row["expected_ms"] < max(1, options.min_period_ms)
        row["left_out"] = "few attempts" if len(group) < options.min_attempts else "tiny" if tiny else None
        row["ratio"] = row["period_ms"] / row["expected_ms"] if row["expected_ms"] else None
    return kept


def expected_hosts(kept: dict[str, Row], options: StragglerOptions) -> list[dict[str, Any]]:
    by_host: dict[str, list[Row]] = defaultdict(list)
    for row in kept.values():
        if row["left_out"] is None and row.get("host") and row["status"] == "SUCCEEDED":
            by_host[row["host"]].append(row)
    found = []
    for host, members in by_host.items():
        ratios = sorted(row["ratio"] for row in members)
        n = len(ratios)
        slow = sum(ratio >= options.straggler_ratio for ratio in ratios)
        low = ratios[int((n - 1.96 * sqrt(n)) / 2 + 0.5) - 1] if n >= 6 else 0.0  # else 2^-n is above 2.5 %
        found.append({
            "host": host, "n_attempts": n, "n_jobs": len({row["job_id"] for row in members}), "n_stragglers": slow,
            "straggler_ratio": slow / n, "median_ratio": statistics.median(ratios), "low_ratio": low,
            "p90_ratio": float(np.quantile(ratios, 0.9)),
            "lost_ms": sum(row["period_ms"] - row["expected_ms"] for row in members),
        })  # fmt: skip
    return sorted(found, key=lambda row: (-row["low_ratio"], -row["median_ratio"], row["host"]))


@pytest.mark.parametrize(
    "options",
    [
        StragglerOptions(min_period_ms=0, min_input_bytes=0, min_attempts=1, straggler_ratio=1.2, n_worst=7),
        StragglerOptions(min_period_ms=9_000, min_input_bytes=16 * MIB, min_attempts=5, order="lost"),
    ],
)
def test_attempts_and_hosts_are_those_of_the_definition(spark: SparkSession, options: StragglerOptions) -> None:
    rows = history(11)
    events = frame(spark, rows)
    compared = stragglers.compared(attempts(events), options).cache()
    expected = expected_attempts(rows, options)
    found = {row["attempt_id"]: row for row in compared.collect()}
    assert set(found) == set(expected)
    for name, row in expected.items():
        assert (found[name]["basis"], found[name]["left_out"]) == (row["basis"], row["left_out"])
        if row["left_out"] is None:
            assert found[name]["ratio"] == pytest.approx(row["ratio"])
    counted = {row["reason"]: row["n"] for row in stragglers.left_out(compared).collect()}
    assert counted == Counter(row["left_out"] for row in expected.values())
    hosts = [row.asDict() for row in stragglers.hosts(compared, options).collect()]
    assert hosts == [
        {name: value if isinstance(value, str) else pytest.approx(value) for name, value in row.items()}
        for row in expected_hosts(expected, options)
    ]
    key = {"ratio": lambda row: row["ratio"], "lost": lambda row: row["period_ms"] - row["expected_ms"]}[options.order]
    slow = [row for row in expected.values() if row["left_out"] is None and row["ratio"] >= options.straggler_ratio]
    slow.sort(key=lambda row: (-key(row), row["attempt_id"]))
    worst = stragglers.worst(compared, jobs(events), options).collect()
    assert [row["attempt_id"] for row in worst] == [row["attempt_id"] for row in slow[: options.n_worst]]
    assert worst[0]["job_name"].startswith("job ") or worst[0]["job_id"] in ("job_1_0005", "job_1_0006")


def attempt(
    task: int, host: str, period_ms: int, input_bytes: int | None, status: str = "SUCCEEDED", n: int = 0
) -> Row:
    name = f"1_0001_m_{task:06d}"
    return {
        "event_id": f"{name}_{n}", "type": "Mapper", "t_lo_ms": 1, "job_id": "job_1_0001", "task_id": f"task_{name}",
        "attempt_id": f"attempt_{name}_{n}", "host": host, "status": status, "period_ms": period_ms,
        "input_bytes": input_bytes,
    }  # fmt: skip


def test_who_has_more_to_read_is_no_straggler(spark: SparkSession) -> None:
    """Four times the input in four times the time; a killed attempt is set against what its task had to read."""
    rows = [attempt(i, "a", 10_000, 10 * MIB) for i in range(4)]
    rows += [attempt(4, "b", 40_000, 40 * MIB), attempt(5, "c", 30_000, 10 * MIB)]
    rows += [attempt(6, "a", 10_000, 10 * MIB, n=1), attempt(6, "d", 50_000, None, "KILLED")]
    events = frame(spark, rows)
    options = StragglerOptions()
    compared = stragglers.compared(attempts(events), options)
    worst = stragglers.worst(compared, jobs(events), options).collect()
    assert [(row["host"], row["ratio"], row["expected_ms"]) for row in worst] == [
        ("d", 5.0, 10_000.0),
        ("c", 3.0, 10_000.0),
    ]
    assert [row["host"] for row in stragglers.hosts(compared, options).collect()] == ["c", "a", "b"]


def test_one_slow_attempt_does_not_make_a_slow_host(spark: SparkSession) -> None:
    """`often` is a little slow all the time; `once` is very slow in the one of its ten attempts."""
    rows = [attempt(i, "good", 10_000, 10 * MIB) for i in range(30)]
    rows += [attempt(30 + i, "often", 16_000, 10 * MIB) for i in range(10)]
    rows += [attempt(40 + i, "once", 90_000 if i == 0 else 10_000, 10 * MIB) for i in range(10)]
    options = StragglerOptions()
    ranked = stragglers.hosts(stragglers.compared(attempts(frame(spark, rows)), options), options).collect()
    assert ranked[0]["host"] == "often"
    assert [row["n_stragglers"] for row in ranked if row["host"] in ("often", "once")] == [10, 1]
