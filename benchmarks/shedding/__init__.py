"""Load shedding on workload O: what is lost at which rate, by which strategy, and what shedding itself costs.

    make bench BENCH=shedding

Quality is measured on a simulated clock: events arrive at a multiple of what the engine evaluates, and its work takes
what `simulation.CostModel` says, so that figures are the same on any machine; `costs` measures times of this one.
CLUSTERCEP_BENCH_SCALE scales the streams, CLUSTERCEP_BENCH_SEEDS (3) says how many seeds means and deviations are of,
CLUSTERCEP_BENCH_TABLES (rate,match_probability,synthetic,pane,cost_factor,shared_prefixes,any_of,storm,costs) and
CLUSTERCEP_BENCH_RATES (120,140,160,180,200; of the storm 200) which of them. Charts go to build/benchmarks.
"""

from __future__ import annotations

import os
from typing import Any

from benchmarks.shedding import charts, costs, quality, storm


def main() -> dict[str, Any]:
    """Print the tables, draw the charts; returns the rows."""
    every = (*quality.TABLES, "storm", "costs")
    chosen = os.environ.get("CLUSTERCEP_BENCH_TABLES", ",".join(every)).split(",")
    if unknown := set(chosen) - set(every):
        raise SystemExit(f"CLUSTERCEP_BENCH_TABLES names {sorted(unknown)}: expected some of {', '.join(every)}")
    rows = quality.main([name for name in chosen if name in quality.TABLES])
    if "storm" in chosen:
        rows += storm.main()
    for path in charts.draw(rows):
        print(f"  {path.name}")
    return {"rows": rows, "costs": costs.main() if "costs" in chosen else {}}


__all__ = ["main"]
