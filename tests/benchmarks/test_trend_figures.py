"""The approaches that trends are compared with find what the definition of a trend gives."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from benchmarks.trend_figures import approaches, baselines, factor_of, streams

STREAMS: tuple[tuple[str, dict[str, Any], float | None], ...] = (
    ("stock", {"n": 36, "n_companies": 4, "per_s": 3}, 1.01),
    ("stock", {"n": 36, "n_companies": 4, "per_s": 3, "halts": 2}, 1.01),
    ("positions", {"n": 40, "n_vehicles": 5}, 0.4),
    ("one_by_one", {"n": 12}, None),
)


def by_definition(stream: streams.Stream, factor: float | None) -> tuple[int, int]:
    """How many trends there are, and the sum over all: every subset of a key's events is looked at."""
    count = total = 0
    for key in range(stream.n_keys):
        own = np.flatnonzero((stream.key == key) & ~stream.is_negated).tolist()
        halts = stream.t_s[(stream.key == key) & stream.is_negated]
        for size in range(1, len(own) + 1):
            for trend in combinations(own, size):
                if any(t_s < stream.t_s[trend[0]] for t_s in halts):
                    continue
                if all(
                    stream.t_s[a] < stream.t_s[b] and (factor is None or stream.value[a] * factor < stream.value[b])
                    for a, b in pairwise(trend)
                ):
                    count += 1
                    total += int(stream.summed[list(trend)].sum())
    return count, total


@pytest.mark.parametrize("approach", ["engine", "quadratic", "two_step", "shared", "flattened"])
@pytest.mark.parametrize(("stream", "arguments", "factor"), STREAMS)
def test_trends_are_those_of_the_definition(
    approach: str, stream: str, arguments: dict[str, Any], factor: float | None
) -> None:
    found = approaches.measured(approach, stream, arguments, factor)
    assert found["is_whole"]
    assert (found["count"], found["sum"]) == by_definition(getattr(streams, stream)(**arguments), factor)


@pytest.mark.parametrize("approach", ["shared", "flattened"])
def test_what_would_store_too_much_ends(approach: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approaches, "MOST_STORED", 1_000)
    assert not approaches.measured(approach, "one_by_one", {"n": 12}, None)["is_whole"]


@pytest.mark.parametrize("percent", [10, 50, 90])
def test_an_edge_predicate_admits_the_stated_share_of_pairs(percent: int) -> None:
    stream = streams.positions(4_000, 1)
    by_key, bounds = np.arange(4_000), np.array([0, 4_000])
    _, links = baselines.pointers(np.arange(4_000), stream.value, factor_of(percent / 100), by_key, bounds)
    assert len(links) / (4_000 * 3_999 / 2) == pytest.approx(percent / 100, abs=0.02)
