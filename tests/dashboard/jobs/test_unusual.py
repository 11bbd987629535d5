"""What is unusual about an attempt, by hand-made figures and by the definition of the modified z-score."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from dashboard.jobs.unusual import LEAST_PEERS, scores, unusual


def attempts(**columns: Sequence[object]) -> pd.DataFrame:
    n = len(next(iter(columns.values())))
    return pd.DataFrame({"kind": ["MAP"] * n, "status": ["SUCCEEDED"] * n, **columns})


def test_the_definition() -> None:
    """0.6745 (x - median) / MAD, as Iglewicz and Hoaglin write it."""
    values = [1.0, 2.0, 4.0, 7.0, 11.0, 100.0]
    median = statistics.median(values)
    mad = statistics.median(abs(value - median) for value in values)
    found, told = scores(np.array(values), np.ones(6, np.bool_), 0.0)
    assert told == median
    assert found.tolist() == pytest.approx([0.6745 * (value - median) / mad for value in values], rel=1e-4)


def test_the_most_unusual_figure_goes_first_with_how_much() -> None:
    table = attempts(
        duration_ms=[10_000.0] * 9 + [40_000.0],
        gc_ms=[100.0] * 9 + [12_000.0],
        input_bytes=[float(1 << 27)] * 10,
    )
    found = unusual(table)
    assert found["score"].tolist()[:9] == [0.0] * 9
    assert found["what"].tolist()[:9] == [""] * 9
    assert found["score"][9] == pytest.approx(30.0)  # 30 s over a median of 10 s: the unit is 1 s
    assert found["what"][9] == "Duration 40 s, 4.0 times the median 10 s; GC 12 s, 120 times the median 100 ms"


def test_small_differences_are_none() -> None:
    """Of tasks that agree to the byte every difference would be a large score."""
    table = attempts(duration_ms=[1_000.0] * 9 + [1_900.0], n_spilled_records=[0.0] * 9 + [999.0])
    assert unusual(table)["what"].tolist() == [""] * 10


def test_few_peers_have_nothing_usual() -> None:
    table = attempts(duration_ms=[1_000.0] * (LEAST_PEERS - 1) + [90_000.0])
    assert unusual(table)["score"][LEAST_PEERS - 1] > 0  # it is a peer itself
    assert unusual(table.assign(status=["SUCCEEDED"] * (LEAST_PEERS - 1) + ["FAILED"]))["score"].tolist() == [0.0] * 5


def test_kinds_apart_and_less_than_usual_only_of_what_succeeded() -> None:
    table = pd.DataFrame(
        {
            "kind": ["MAP"] * 7 + ["REDUCE"] * 6,
            "status": ["SUCCEEDED"] * 5 + ["KILLED", "NO END SEEN"] + ["SUCCEEDED"] * 6,
            "duration_ms": [60_000.0] * 5 + [1_000.0, 900_000.0] + [600_000.0] * 5 + [10_000.0],
        }
    )
    assert [bool(text) for text in unusual(table)["what"]] == [False] * 12 + [True]
    assert unusual(table)["what"][12] == "Duration 10 s, 0.0 times the median 10 min"
    running = table.assign(status=[*table["status"][:6], "RUNNING", *table["status"][7:]])
    assert unusual(running)["what"][6].startswith("Duration 15 min, 15.0 times")


def test_nothing_known_and_nothing_at_all() -> None:
    table = attempts(duration_ms=[float("nan")] * 6, gc_ms=[1.0, 2.0, float("nan"), 3.0, 4.0, 5.0])
    assert unusual(table)["score"].tolist() == [0.0] * 6
    assert len(unusual(table.iloc[:0])) == 0


def test_where_the_median_is_nothing() -> None:
    table = attempts(n_spilled_records=[0.0] * 6 + [50_000.0])
    assert unusual(table)["what"][6] == "Spilled records 50,000, where the median is 0"
