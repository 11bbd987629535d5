"""What was sent, as events: scrapes in several requests, senders that are behind or silent, restarts, the load."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from collectors.base import Collected, PositionError
from collectors.metrics.load_balance import LoadDeriver
from collectors.prometheus import remote_write
from collectors.prometheus.exposition import Sample
from collectors.prometheus.readings import READINGS
from collectors.prometheus.remote_write import N_KEPT, RemoteWriteCollector, RemoteWriteOptions
from collectors.prometheus.spool import Record, SpoolWriter
from tests.collectors.positions import saved
from tests.collectors.prometheus.exporters import ALL

T0 = 1_795_693_000_000
SECOND = 1_000


class Sender:
    """A Prometheus that writes into a spool."""

    def __init__(self, folder: Path, name: str = "10.0.0.1") -> None:
        self.writer, self.name = SpoolWriter(folder, 1 << 30), name

    def send(self, received_ms: int, *samples: Sample, n_others: int = 0) -> None:
        self.writer.append(Record(received_ms, self.name, samples, n_others))


def sample(name: str, value: float, t_ms: int, instance: str = "node1:9100", **labels: str) -> Sample:
    return Sample(name, {"instance": instance, **labels}, value, t_ms)


def scrape(t_ms: int, received: float, instance: str = "node1:9100") -> tuple[Sample, Sample]:
    return (
        sample("node_load1", 0.5, t_ms, instance),
        sample("node_network_receive_bytes_total", received, t_ms, instance, device="eth0"),
    )


def collector(folder: Path, **options: Any) -> RemoteWriteCollector:
    return RemoteWriteCollector(RemoteWriteOptions(folder, ALL, **options))


def metrics(polled: Collected) -> list[tuple[str, str, float, int, int]]:
    return [(r["host"], r["name"], r["value"], r["t_lo_ms"], r["t_hi_ms"]) for r in polled.events.rows()]


def test_a_scrape_is_told_once_it_is_settled_though_it_came_in_parts(tmp_path: Path) -> None:
    sender, source = Sender(tmp_path), collector(tmp_path)
    load, received = scrape(T0, 1_000)
    sender.send(T0 + SECOND, received, n_others=7)
    first = source.poll(T0 + 2 * SECOND)
    assert (metrics(first), first.n_unselected) == ([], 7)
    sender.send(T0 + 3 * SECOND, load)
    for number in (1, 2, 3):
        sender.send(T0 + number * 15_000 + SECOND, *scrape(T0 + number * 15_000, 1_000 + number * 30_000))
    told = source.poll(T0 + 46 * SECOND)
    assert metrics(told) == [
        ("node1", "load_one", 0.5, T0, T0),
        ("node1", "load_one", 0.5, T0 + 15_000, T0 + 15_000),
        ("node1", "bytes_in", 2_000.0, T0 + 1, T0 + 15_000),
    ]  # fmt: skip
    assert told.watermark_ms == T0 + 45_000 - 30_000 - 45_000
    sender.send(T0 + 61 * SECOND, *scrape(T0 + 60_000, 500))  # the host was started again
    (growth,) = [row for row in metrics(source.poll(T0 + 61 * SECOND)) if row[1] == "bytes_in"]
    assert growth[3:] == (T0 + 15_001, T0 + 30_000)


def test_no_event_is_before_what_was_promised(tmp_path: Path) -> None:
    sender, source, promised = Sender(tmp_path), collector(tmp_path), -1
    for number in range(40):
        if number not in (7, 8, 9, 20):  # scrapes that failed
            sender.send(T0 + number * 15_000, *scrape(T0 + number * 15_000 - 40, number * 1e4))
        polled = source.poll(T0 + number * 15_000)
        assert all(lo >= promised for _, _, _, lo, _ in metrics(polled))
        promised = polled.watermark_ms


def test_an_exporter_that_dates_its_samples_ahead_makes_nothing_of_others_late(tmp_path: Path) -> None:
    sender, source, promised, told = Sender(tmp_path), collector(tmp_path), -1, []
    for number in range(20):
        t_ms = T0 + number * 15_000
        ahead = sample("node_load1", 7.0, t_ms + 59_000, "hostile:9100")
        sender.send(t_ms, *scrape(t_ms - 40, number * 1e4), ahead)
        polled = source.poll(t_ms)
        assert all(lo >= promised for _, _, _, lo, _ in metrics(polled))
        told += metrics(polled)
        promised = polled.watermark_ms
    assert len([row for row in told if row[:2] == ("node1", "bytes_in")]) == 17


def test_a_sender_that_comes_no_further_is_silent_however_often_it_sends(tmp_path: Path) -> None:
    source = collector(tmp_path, silence_ms=100_000)
    good, stuck = Sender(tmp_path), Sender(tmp_path, "10.0.0.2")
    stuck.writer = good.writer
    for number in range(12):
        t_ms = T0 + number * 15_000
        good.send(t_ms, *scrape(t_ms, 1.0))
        stuck.send(t_ms, *scrape(T0, 1.0, "node2:9100"))
        polled = source.poll(t_ms)
        assert polled.watermark_ms == (t_ms if number >= 7 else T0) - 75_000


def test_the_watermark_is_taken_back_when_the_clock_was_ahead(tmp_path: Path) -> None:
    sender, source = Sender(tmp_path), collector(tmp_path)
    ahead = T0 + 3_600_000
    sender.send(ahead, *scrape(ahead, 1.0))
    assert source.poll(ahead).watermark_ms == ahead - 75_000
    sender.send(T0, *scrape(T0, 1.0, "node2:9100"))
    assert source.poll(T0).watermark_ms == T0 - 75_000


def test_problems_of_samples_are_told_once_per_episode(tmp_path: Path) -> None:
    sender, source, kinds = Sender(tmp_path), collector(tmp_path, silence_ms=100_000), []
    for number in range(30):
        t_ms = T0 + number * 15_000
        wrong = (sample("node_load1", 1.0, t_ms + 90_000), Sample("node_load1", {}, 1.0, t_ms))
        sender.send(t_ms, *scrape(t_ms, 1.0), *(wrong if number in (0, 2, 4, 20, 21) else ()))
        kinds.append(sorted(problem.kind for problem in source.poll(t_ms).problems))
    assert [n for n, found in enumerate(kinds) if found] == [0, 20]
    assert kinds[0] == kinds[20] == ["ahead", "no_target"]


def test_a_scrape_of_too_many_series_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_write, "MAX_CHOSEN", 10)
    sender, source = Sender(tmp_path), collector(tmp_path)
    flood = [sample("node_load1", 1.0, T0, n=str(number)) for number in range(50)]
    sender.send(T0, *flood, *scrape(T0, 1.0, "node2:9100"))
    polled = source.poll(T0)
    assert ([problem.kind for problem in polled.problems], polled.n_unselected) == (["too_large"], 40)
    sender.send(T0 + 60_000, *scrape(T0 + 60_000, 1.0, "node2:9100"))
    told = metrics(source.poll(T0 + 60_000))
    assert [row[:3] for row in told] == [("node1", "load_one", 10.0), ("node2", "load_one", 0.5)]


def test_the_watermark_follows_the_slowest_sender_until_it_is_silent(tmp_path: Path) -> None:
    fast, slow = Sender(tmp_path), Sender(tmp_path, "10.0.0.2")
    slow.writer = fast.writer  # the process has one
    source = collector(tmp_path, silence_ms=100_000)
    fast.send(T0, *scrape(T0, 1.0))
    slow.send(T0, *scrape(T0, 1.0, "node2:9100"))
    start = source.poll(T0).watermark_ms
    fast.send(T0 + 60_000, *scrape(T0 + 60_000, 1.0))
    waiting = source.poll(T0 + 60_000)
    assert (waiting.watermark_ms, metrics(waiting)) == (start, [])
    fast.send(T0 + 120_000, *scrape(T0 + 120_000, 1.0))
    gone = source.poll(T0 + 120_000)
    assert gone.watermark_ms == T0 + 120_000 - 75_000
    # It is back with what it kept: that is told, before what was promised, and holds up nobody.
    slow.send(T0 + 121_000, *scrape(T0 + 15_000, 7.0, "node2:9100"))
    back = source.poll(T0 + 121_000)
    assert back.watermark_ms == gone.watermark_ms
    assert ("node2", "bytes_in", 6.0 / 15, T0 + 1, T0 + 15_000) in metrics(back)


def test_servers_behind_one_address_are_told_apart_by_their_labels(tmp_path: Path) -> None:
    """Else the one that is further speaks for the other, and what that sends is late."""
    sender, source = Sender(tmp_path), collector(tmp_path)

    def send(received_ms: int, t_ms: int, cluster: str) -> None:
        sender.send(received_ms, sample("node_load1", 1.0, t_ms, f"{cluster}:9100", cluster=cluster))

    for cluster in ("a", "b"):
        send(T0, T0, cluster)
    start = source.poll(T0).watermark_ms
    assert start is not None
    send(T0 + 120_000, T0 + 120_000, "a")
    assert source.poll(T0 + 120_000).watermark_ms == start
    send(T0 + 121_000, T0 + 120_000, "b")
    later = source.poll(T0 + 121_000)
    assert later.watermark_ms == start + 120_000
    assert min(row[3] for row in metrics(later)) >= start


def test_a_sender_that_is_far_behind_is_told_of_and_waited_for_as_long_as_a_silent_one(tmp_path: Path) -> None:
    fast, slow = Sender(tmp_path), Sender(tmp_path, "10.0.0.2")
    slow.writer = fast.writer
    source, problems, marks = collector(tmp_path, silence_ms=100_000), list[str](), dict[int, int | None]()
    for passed_ms in range(0, 600_000, 15_000):
        now_ms = T0 + passed_ms
        fast.send(now_ms, *scrape(now_ms, 1.0))
        slow.send(now_ms, *scrape(now_ms - 200_000, 1.0, "node2:9100"))  # it goes on, and never comes up with the other
        polled = source.poll(now_ms)
        problems += [problem.message for problem in polled.problems if problem.kind == "behind"]
        marks[passed_ms] = polled.watermark_ms
    (problem,) = problems
    assert problem.startswith("10.0.0.2: what it sends is 200 s old")
    assert marks[90_000] == T0 + 90_000 - 200_000 - 75_000, "it is waited for"
    assert marks[120_000] == T0 + 120_000 - 75_000, "and no longer"
    assert marks[585_000] == T0 + 585_000 - 75_000


def test_with_a_single_sender_that_is_far_behind_nothing_is_late(tmp_path: Path) -> None:
    sender, source = Sender(tmp_path), collector(tmp_path, silence_ms=100_000)
    problems = list[str]()
    for passed_ms in range(0, 600_000, 15_000):
        sender.send(T0 + passed_ms, *scrape(T0 + passed_ms - 200_000, 1.0))
        polled = source.poll(T0 + passed_ms)
        problems += [problem.kind for problem in polled.problems]
        assert polled.watermark_ms == T0 + passed_ms - 200_000 - 75_000
    assert problems == ["behind"]


def test_a_sender_goes_on_after_a_restart_of_this_program(tmp_path: Path) -> None:
    """Nothing is lost, nothing late: what it kept meanwhile is waited for."""
    sender, source = Sender(tmp_path), collector(tmp_path)
    for number in range(4):
        sender.send(T0 + number * 15_000, *scrape(T0 + number * 15_000, number * 15.0))
    before = source.poll(T0 + 45_000)
    position = saved(source.checkpoint())
    source = collector(tmp_path)
    source.restore(position)
    later = T0 + 3_600_000
    idle = source.poll(later)
    assert idle.watermark_ms == before.watermark_ms
    for number in range(4, 8):
        sender.send(later, *scrape(T0 + number * 15_000, number * 15.0))
    told = source.poll(later + SECOND)
    growth = [row[2:] for row in metrics(told) if row[1] == "bytes_in"]
    assert growth == [(1.0, T0 + n * 15_000 + 1, T0 + (n + 1) * 15_000) for n in range(1, 5)]
    assert min(row[3] for row in metrics(told)) >= before.watermark_ms


def cpu(t_ms: int, mode: str, value: float) -> Sample:
    return sample("node_cpu_seconds_total", value, t_ms, cpu="0", mode=mode)


def test_connections_of_a_sender_that_are_far_apart_cost_nothing_and_nothing_is_wrong(tmp_path: Path) -> None:
    """A backlog: one sends half of the series of all scrapes long before another sends the rest."""
    sender, source = Sender(tmp_path), collector(tmp_path)
    sender.send(T0, cpu(T0, "idle", 100.0), cpu(T0, "user", 50.0))
    source.poll(T0)
    later = T0 + 600_000
    scrapes = range(1, 6)
    for number in scrapes:
        sender.send(later, cpu(T0 + number * 15_000, "user", 50.0 + 3 * number))
    assert metrics(source.poll(later)) == [("node1", "cpu_num", 1.0, T0, T0)]  # of the first scrape, which is whole
    for number in scrapes:
        sender.send(later, cpu(T0 + number * 15_000, "idle", 100.0 + 9 * number))
    told = [row[2] for row in metrics(source.poll(later + SECOND)) if row[1] == "cpu_user"]
    assert told == [25.0] * 3


@pytest.mark.parametrize(
    ("instance", "host"),
    [
        ("N1:9100", "n1"), ("N1", "n1"), ("10.0.0.7:9100", "known"), ("[fe80::1]:9100", "fe80::1"),
        ("fe80::1", "fe80::1"), ("[fe80::1]", "fe80::1"), (":9100", ":9100"),
    ],
)  # fmt: skip
def test_the_host_is_that_of_the_instance(tmp_path: Path, instance: str, host: str) -> None:
    sender, source = Sender(tmp_path), collector(tmp_path, hosts={"10.0.0.7": "known"})
    for number in range(4):
        sender.send(T0 + number * 15_000, *scrape(T0 + number * 15_000, 1.0, instance))
    assert {row[0] for row in metrics(source.poll(T0 + 60_000))} == {host}


def test_jobs_that_share_an_instance_are_scraped_apart(tmp_path: Path) -> None:
    sender, source, told = Sender(tmp_path), collector(tmp_path), []
    for number in range(8):
        t_ms = T0 + number * 15_000
        sender.send(t_ms, sample("node_load1", 1.0, t_ms, "node1", job="node"))
        sender.send(t_ms + 4_000, sample("node_procs_running", 2.0, t_ms + 4_000, "node1", job="other"))
        told += metrics(source.poll(t_ms + 4_000))
    assert [(host, name) for host, name, *_ in told].count(("node1", "load_one")) == 6
    assert [(host, name) for host, name, *_ in told].count(("node1", "proc_run")) == 6


def test_a_series_that_is_gone_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    sender, source, told = Sender(tmp_path), collector(tmp_path), []
    for number in range(40):
        t_ms = T0 + number * 15_000
        both = (cpu(t_ms, "idle", 100.0 + 9 * number), cpu(t_ms, "user", 50.0 + 3 * number))
        sender.send(t_ms, *(both if number < 5 else both[1:]), sample("node_load1", 1.0, t_ms))
        told += metrics(source.poll(t_ms))
    shares = [(value, hi) for _, name, value, _, hi in told if name == "cpu_user"]
    assert {value for value, hi in shares if hi < T0 + 75_000} == {25.0}
    assert {value for value, hi in shares if hi > T0 + 75_000} <= {100.0}  # once idle is none of its series any more
    assert [hi for _, name, _, _, hi in told if name == "load_one"] == [T0 + n * 15_000 for n in range(38)]


def test_a_series_that_is_said_to_have_ended_is_not_waited_for(tmp_path: Path) -> None:
    """A file system that is unmounted makes nothing of its host late."""
    sender, source, promised, told = Sender(tmp_path), collector(tmp_path), -1, []
    for number in range(20):
        t_ms = T0 + number * 15_000
        second = {3: math.nan}.get(number, number * 30.0)  # it ends once, and comes back
        more = [] if 3 < number < 9 else [sample("node_network_receive_bytes_total", second, t_ms, device="eth1")]
        sender.send(t_ms, *scrape(t_ms, number * 15.0), *more)
        polled = source.poll(t_ms)
        assert all(row[3] >= promised for row in metrics(polled))
        promised = polled.watermark_ms
        told += metrics(polled)
    assert [row[4] for row in told if row[1] == "load_one"] == [T0 + n * 15_000 for n in range(18)]
    growth = [row[2] for row in told if row[1] == "bytes_in"]
    assert growth == [3.0] * 2 + [1.0] * 7 + [3.0] * 8


def test_what_is_sent_again_is_told_once(tmp_path: Path) -> None:
    sender, source = Sender(tmp_path), collector(tmp_path)
    for number in (0, 1, 1, 0, 2, 3, 4):
        sender.send(T0 + 60_000, *scrape(T0 + number * 15_000, number * 30.0))
    told = metrics(source.poll(T0 + 60_000))
    assert [row[2] for row in told if row[1] == "bytes_in"] == [2.0, 2.0]
    assert len([row for row in told if row[1] == "load_one"]) == 3


def test_segments_are_removed_once_no_checkpoint_needs_them(tmp_path: Path) -> None:
    source = collector(tmp_path)
    for number in range(3):
        Sender(tmp_path).send(T0, *scrape(T0 + number, 1.0))  # a segment each
    source.poll(T0)
    for _ in range(2 * N_KEPT):
        source.committed(source.checkpoint())
    assert len(list(tmp_path.iterdir())) == 3  # what is not settled is read again after a restart
    Sender(tmp_path).send(T0 + 60_000, *scrape(T0 + 60_000, 1.0))
    source.poll(T0 + 60_000)
    for _ in range(N_KEPT - 1):
        source.committed(source.checkpoint())
    assert len(list(tmp_path.iterdir())) == 4
    source.committed(source.checkpoint())
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["segment-000000000003.jsonl", "segment-000000000004.jsonl"]  # it stood at the end of the third


def test_samples_that_cannot_be_used_are_told_of(tmp_path: Path) -> None:
    sender, source = Sender(tmp_path), collector(tmp_path)
    ahead = sample("node_load1", 1.0, T0 + 61_000)
    sender.send(T0, Sample("node_load1", {}, 1.0, T0), ahead, sample("up", 1.0, T0))
    polled = source.poll(T0)
    assert sorted(problem.kind for problem in polled.problems) == ["ahead", "no_target"]
    assert polled.n_unselected == 3


def test_the_load_is_of_hosts_that_were_scraped_at_times_of_their_own(tmp_path: Path) -> None:
    sender, source = Sender(tmp_path), collector(tmp_path)
    deriver = LoadDeriver(window_ms=15_000, ahead_ms=RemoteWriteOptions(tmp_path).ahead_ms)
    start = T0 // 15_000 * 15_000
    promised, steps = -1, []
    for number in range(12):
        for host in range(3):
            t_ms = start + number * 15_000 + 2_000 + host * 4_000
            idle, user = 1_000.0 + number * (10 - host), 100.0 + number * (5 + host)
            sender.send(
                t_ms + 500,
                sample("node_cpu_seconds_total", idle, t_ms, f"n{host}:9100", cpu="0", mode="idle"),
                sample("node_cpu_seconds_total", user, t_ms, f"n{host}:9100", cpu="0", mode="user"),
            )
            polled = source.poll(t_ms + 500)
            derived = deriver.derive(polled.events, polled.watermark_ms)
            steps += [row for row in derived.rows() if row["type"] == "LoadStd"]
            assert all(row["t_lo_ms"] >= promised for row in derived.rows())
            promised = polled.watermark_ms
    assert len(steps) > 5
    assert {(row["n_hosts"], row["n_missing"]) for row in steps} == {(3, 0)}
    shares = [100 * (5 + host) / 15 for host in range(3)]
    assert steps[0]["val"] == pytest.approx((sum((s - sum(shares) / 3) ** 2 for s in shares) / 3) ** 0.5)
    ends = [row["t_hi_ms"] for row in steps]
    assert [b - a for a, b in pairwise(ends)] == [15_000] * (len(ends) - 1)


def test_values_whose_sum_is_no_number_do_not_stop_the_source(tmp_path: Path) -> None:
    """What stands in the spool is read again after a failure: it would fail for ever."""
    sender, source = Sender(tmp_path), collector(tmp_path)
    sender.send(T0, *(sample("node_load1", 1e308, T0, n=n) for n in "12"), *scrape(T0, 1.0, "node2:9100"))
    sender.send(T0 + 60_000, *scrape(T0 + 60_000, 1.0, "node2:9100"))
    assert metrics(source.poll(T0 + 60_000)) == [("node2", "load_one", 0.5, T0, T0)]


def test_a_foreign_position_is_refused(tmp_path: Path) -> None:
    for wrong in ({}, {"version": 1, "senders": {}, "targets": 7}):
        with pytest.raises(PositionError):
            collector(tmp_path).restore(wrong)
    assert set(READINGS) >= {"load_one"}
