"""Load shedding on workload O: what is lost at which rate, by which strategy, and what shedding itself costs.

    make bench BENCH=shedding

Quality is measured on a simulated clock: events arrive at a multiple of what the engine evaluates, and its work takes
what `simulation.CostModel` says, so that figures are the same on any machine; `costs` measures times of this one.
CLUSTERCEP_BENCH_SCALE scales the streams, CLUSTERCEP_BENCH_SEEDS (3) says how many seeds means and deviations are of.
"""

from __future__ import annotations

from typing import Any

from benchmarks.shedding import costs, quality


def main() -> dict[str, Any]:
    """Print the tables; returns the rows."""
    return {"rows": quality.main(), "costs": costs.main()}


__all__ = ["main"]
