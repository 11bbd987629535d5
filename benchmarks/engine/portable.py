"""What kernels compiled for a level of processors cost against those compiled for this one: the same queries, in turn.

CLUSTERCEP_BENCH_LEVEL names the level (x86-64-v3); its kernels are those of the last `make wheel` where there are any,
else they are compiled first. CLUSTERCEP_BENCH_PAIRS: how often each query runs with either; CLUSTERCEP_BENCH_CLOCK=cpu
measures processor time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from typing import Any

from benchmarks.measure import scale, show, size
from benchmarks.own_process import measured
from benchmarks.precise.contiguity import STRATEGIES
from benchmarks.precise.queries import REFERENCES, sase_plus_query
from benchmarks.precise.stock import VARIANTS
from deploy.wheel.build import KERNELS
from deploy.wheel.levels import DEFAULT, LEVELS, numba_environment

_EVALUATE = "benchmarks.precise.evaluation:evaluate"
_COMPILE = "benchmarks.precise.evaluation:compile_kernels"
_ASKED = ("true-1", "true-8", "false-4", "W100")
_LEFT_OUT = 1
"""Ratios at either end that the interval leaves out: of ten pairs, it holds the median with 98 %."""


def main() -> dict[str, Any]:
    """Measure, print the table, return the rows."""
    level = os.environ.get("CLUSTERCEP_BENCH_LEVEL", DEFAULT)
    if level not in LEVELS:
        raise SystemExit(f"CLUSTERCEP_BENCH_LEVEL: found {level}; expected one of {', '.join(LEVELS)}")
    native = {"CLUSTERCEP_KERNELS": "native"}
    for_level = numba_environment(level) | {"CLUSTERCEP_CACHE": str(KERNELS)}
    for environment in (native, for_level):
        with _environment(environment):
            measured(_COMPILE, {}, limit_s=1_800.0)
    rows = [_row(name, case, native, for_level) for name, case in _cases().items()]
    show(
        f"time with kernels for {level}, as a ratio to that with kernels for this processor",
        ("query", "native; s", "ratio", "from", "to", "pairs"),
        [[row["query"], row["native_s"], row["ratio"], row["low"], row["high"], row["pairs"]] for row in rows],
    )
    return {"level": level, "rows": rows}


def _cases() -> dict[str, dict[str, Any]]:
    stock = ("stock", {"n_events": scale(100_000)})
    cases = {
        f"{reference.name}, {variant}": {"text": reference.text(output), "stream": stock, "variant": variant}
        for reference in REFERENCES
        if reference.name in _ASKED
        for variant, output in VARIANTS.items()
        if variant in ("collapsed, read", "count", "matches, read")
    }
    for strategy in STRATEGIES:
        text = sase_plus_query(strategy, "p2", 500)
        cases[f"{strategy} p2"] = {"text": text, "stream": stock, "variant": "matches"}
    return cases


def _row(name: str, case: Mapping[str, Any], native: Mapping[str, str], for_level: Mapping[str, str]) -> dict[str, Any]:
    """Ratios of pairs, the first of which alternates; the matches of both have to be as many."""
    n_pairs = size("PAIRS", 10)
    ratios, seconds = [], []
    for pair in range(n_pairs):
        first, second = (native, for_level) if pair % 2 else (for_level, native)
        found = {id(which): _measure(case, which) for which in (first, second)}
        one, other = found[id(native)], found[id(for_level)]
        if one["matches"] != other["matches"]:
            raise AssertionError(f"{name}: {one['matches']} matches, with portable kernels {other['matches']}")
        seconds.append(one["seconds"])
        ratios.append(other["seconds"] / one["seconds"])
    ordered = sorted(ratios)
    cut = _LEFT_OUT if n_pairs > 2 * _LEFT_OUT else 0
    return {
        "query": name, "native_s": median(seconds), "ratio": median(ratios), "low": ordered[cut],
        "high": ordered[-1 - cut], "pairs": n_pairs,
    }  # fmt: skip


def _measure(case: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    with _environment(environment):
        found = measured(_EVALUATE, {**case, "repeats": 3}, limit_s=120.0)
    assert found is not None, "these take seconds"
    return found


@contextmanager
def _environment(changed: Mapping[str, str]) -> Iterator[None]:
    """Of the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


__all__ = ["main"]
