"""The benchmark over imprecise events: its stream is the one stated, its checks do fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.imprecise.accuracy import greatest_error, stock_error
from benchmarks.imprecise.evaluation import evaluate_stock, in_parts, list_rows
from benchmarks.imprecise.queries import STOCK, stock_events, stock_query
from benchmarks.imprecise.stock import counted
from benchmarks.precise.streams import stock_stream
from engine import Limits, compile_query

N_EVENTS = 4_000


def test_events_are_those_of_the_precise_stream_with_slack_on_both_sides() -> None:
    precise, imprecise = stock_stream(500), stock_events(500)
    assert (imprecise.t_hi_ms - imprecise.t_lo_ms == 10).all()
    nominal = (imprecise.t_lo_ms + imprecise.t_hi_ms) // 2
    assert (np.diff(nominal) == np.diff(precise.t_lo_ms)).all()
    for name in ("event_id", "symbol", "price", "volume"):
        assert imprecise.table.column(name).equals(precise.table.column(name))


def test_a_threshold_keeps_a_part_of_the_matches() -> None:
    some = evaluate_stock(25, "CONFIDENCE >= 0.7", N_EVENTS, repeats=1)
    fewer = evaluate_stock(25, "CONFIDENCE >= 0.999", N_EVENTS, repeats=1)
    collapsed = evaluate_stock(25, "OUTPUT COLLAPSED", N_EVENTS, repeats=1)
    assert 0 < fewer["matches"] < some["matches"] < collapsed["matches"]
    assert some["matches"] == some["rows"]
    assert some["events"] == N_EVENTS
    assert not some["capped"]
    for method in ("enumeration", "extension"):
        other = evaluate_stock(15, "CONFIDENCE >= 0.7", N_EVENTS, repeats=1, baseline=method)
        assert other["rows"] == evaluate_stock(15, "CONFIDENCE >= 0.7", N_EVENTS, repeats=1)["rows"]


def test_a_cell_that_a_limit_cut_says_so() -> None:
    cut = evaluate_stock(25, "CONFIDENCE >= 0.7", N_EVENTS, repeats=1, max_rows=1)
    assert cut["capped"]
    assert counted(cut | {"arrangements": {"matches": 351.0, "matches_exact": False}}) == "capped: 1 of >= 351"
    assert counted({"matches": 12.0, "matches_exact": True, "capped": False}) == "12"


def test_the_greatest_error_is_seen() -> None:
    assert stock_error(25, "0.7", N_EVENTS, 10)["max_error"] < 1e-12
    query, batch = compile_query(stock_query(25, "CONFIDENCE >= 0.7"), STOCK), stock_events(N_EVENTS)
    found, _ = list_rows(query, in_parts(batch), Limits())
    row = next(row for part in found for row in part)
    wrong = replace(row, confidence=row.confidence - 1e-3)
    assert abs(greatest_error(query, batch, [wrong]) - 1e-3) < 1e-12
