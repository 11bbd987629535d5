"""The benchmark over precise events: its streams are those that the reference states, its checks do fail."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from benchmarks.own_process import MeasurementError, measured
from benchmarks.plots import line_chart
from benchmarks.precise.evaluation import evaluate
from benchmarks.precise.queries import REFERENCES
from benchmarks.precise.rows import Figures, WrongMatchesError
from benchmarks.precise.streams import StockStream, in_batches, jobs_stream, pulls_stream, stock_stream
from engine.events import FOREVER_MS, EventBatch


class JavaRandom:
    """java.util.Random as its documentation defines it, `nextInt(bound)` alone."""

    def __init__(self, seed: int) -> None:
        self.state = (seed ^ 0x5DEECE66D) & (2**48 - 1)

    def next_int(self, bound: int) -> int:
        while True:
            self.state = (self.state * 0x5DEECE66D + 0xB) & (2**48 - 1)
            bits = self.state >> 17
            if bound & (bound - 1) == 0:
                return (bound * bits) >> 31
            if bits - bits % bound + bound - 1 < 2**31:
                return bits % bound


def test_the_first_events_are_drawn_as_the_workload_says() -> None:
    random = JavaRandom(10)
    prices = [random.next_int(1_000) for _ in range(3)]
    expected = []
    for _ in range(500):
        symbol, x = random.next_int(3), random.next_int(100) + 1
        if x <= 70:
            prices[symbol] += random.next_int(3) + 1
        elif x > 85:
            prices[symbol] -= random.next_int(3) + 1
        expected.append((symbol + 1, prices[symbol], random.next_int(1_000) + 1))
    drawn = stock_stream(500, n_symbols=3).table
    columns = (drawn.column(name).to_pylist() for name in ("symbol", "price", "volume"))
    assert list(zip(*columns, strict=True)) == expected
    assert drawn.column("event_id").to_pylist() == [str(i) for i in range(500)]


def test_the_default_stream_has_the_stated_prices() -> None:
    prices = stock_stream(100_000).table.column("price").to_numpy()
    assert (prices.min(), prices.max(), int((prices % 500 == 0).sum())) == (109, 55_740, 203)


def test_a_stream_drawn_in_parts_is_the_same() -> None:
    parts = StockStream()
    joined = EventBatch.concat([parts.next(n) for n in (1, 700, 299)])
    assert joined.table.drop(["clock_id"]) == stock_stream(1_000).table.drop(["clock_id"])


@pytest.mark.parametrize("batch", [jobs_stream(3), pulls_stream(3)], ids=["jobs", "pulls"])
def test_groups_are_of_the_stated_sizes_and_in_order(batch: EventBatch) -> None:
    kinds = np.array(batch.table.column("type").to_pylist())
    assert (np.diff(batch.t_lo_ms) >= 0).all()
    key = "job_id" if "Mapper" in kinds else "task_id"
    middle = np.isin(kinds, ["Mapper", "DataPull"])
    sizes = np.bincount(batch.table.column(key).to_numpy()[middle])
    assert len(sizes) == 3
    assert ((sizes >= 100) & (sizes <= 1_000)).all()
    for group in range(3):
        of_group = kinds[batch.table.column(key).to_numpy() == group]
        assert of_group[0] in ("JobStart", "ReducerStart")
        assert (of_group[-1] == "JobEnd") == (key == "job_id")


def test_batches_hold_every_event_once_below_their_watermarks() -> None:
    batch = jobs_stream(2)
    parts = list(in_batches(batch, 50))
    assert sum(len(part) for part, _ in parts) == len(batch)
    for (part, watermark_ms), (following, _) in zip(parts, [*parts[1:], (EventBatch.empty(), 0)], strict=True):
        assert (part.t_lo_ms < watermark_ms).all()
        assert (following.t_lo_ms >= watermark_ms).all()
    assert parts[-1][1] == FOREVER_MS


@pytest.mark.parametrize("variant", ["matches", "runs", "buffers", "backtracking"])
def test_every_variant_finds_the_same(variant: str) -> None:
    text = REFERENCES[1].text()
    found = evaluate(text, ("stock", {"n_events": 6_000}), variant, n_per_batch=1_000, repeats=1)
    collapsed = evaluate(REFERENCES[1].text("OUTPUT COLLAPSED"), ("stock", {"n_events": 6_000}), "collapsed", repeats=1)
    assert found["matches"] == collapsed["matches"] > 0
    assert found["events"] == 6_000
    assert found["peak_mb"] > found["grown_mb"] >= 0


def test_a_wrong_number_of_matches_is_an_error() -> None:
    figures = Figures()
    measured = {"matches": 350, "seconds": 1.0, "events_per_second": 1.0}
    with pytest.raises(WrongMatchesError, match="true-1, runs: found 350 matches, the reference has 351"):
        figures.keep("true-1", "runs", measured, n_matches=351)
    cut_off = figures.keep("true-1", "runs", None, n_matches=351, limit_s=3.0)
    assert cut_off["seconds"] is None
    assert figures.find("true-1", "runs") is figures.rows[0]


def test_a_chart_has_a_line_for_each_stretch_of_figures(tmp_path: Path) -> None:
    path = tmp_path / "chart.svg"
    lines = {"a < b": [(1.0, 10.0), (2.0, None), (3.0, 1_000.0)], "c": [(1.0, 5.0), (3.0, 50.0)]}
    line_chart(path, "title", "x", "y", lines)
    svg = ET.fromstring(path.read_text())
    texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"title", "x", "y", "a < b", "c", "1e0", "1e3"} <= set(texts)
    assert len(list(svg.iter("{http://www.w3.org/2000/svg}circle"))) == 4
    wide = [e for e in svg.iter("{http://www.w3.org/2000/svg}polyline") if e.get("stroke-width") == "2"]
    assert len(wide) == 3 + 2  # stretches, and one in the key of each line
    line_chart(tmp_path / "none.svg", "t", "x", "y", {"a": [(1.0, None)]})
    assert not (tmp_path / "none.svg").exists()


def endless() -> dict[str, int]:
    while True:
        pass


def refused() -> dict[str, int]:
    raise ValueError("why")


def test_a_process_of_its_own_is_ended_at_its_limit_and_its_errors_are_told() -> None:
    assert measured(f"{__name__}:endless", {}, limit_s=0.1) is None
    with pytest.raises(MeasurementError, match="why"):
        measured(f"{__name__}:refused", {}, limit_s=60.0)
