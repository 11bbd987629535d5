"""Bodies of remote write: what is chosen, bounds before anything is unpacked, and bytes that are none."""

from __future__ import annotations

import math
import struct
import tracemalloc

import pytest

from collectors.prometheus import write_request
from collectors.prometheus.write_request import TooLargeError, WriteRequestError, parse_write_request, unpacked
from tests.collectors.prometheus.writes import message, packed, part, request, series, varint

T = 1_795_693_010_724


def test_chosen_samples() -> None:
    body = request(
        series("node_load1", 0.5, T),
        series("other", 1.0, T),
        ({"__name__": "node_load1", "A": "first", "instance": "n2"}, [(1.5, T), (2.5, T + 1), (math.nan, T + 2)]),
    )
    found = parse_write_request(unpacked(body, 1_000), {"node_load1"})
    assert [(s.name, dict(s.labels), s.value, s.t_ms) for s in found.samples] == [
        ("node_load1", {"instance": "node1:9100", "job": "node"}, 0.5, T),
        ("node_load1", {"A": "first", "instance": "n2"}, 1.5, T),
        ("node_load1", {"A": "first", "instance": "n2"}, 2.5, T + 1),
    ]
    assert found.n_others == 2  # another metric, and what says that a series has ended


def test_that_a_series_has_ended_is_kept() -> None:
    stale = struct.unpack("<d", struct.pack("<Q", 0x7FF0_0000_0000_0002))[0]
    data = message([({"__name__": "a"}, [(stale, T), (math.nan, T), (math.inf, T)])])
    found = parse_write_request(data, {"a"})
    (sample,) = found.samples
    assert (math.isnan(sample.value), sample.t_ms, found.n_others) == (True, T, 2)


def test_the_size_is_looked_at_before_anything_is_unpacked() -> None:
    with pytest.raises(TooLargeError, match="unpacks to 4,294,967,295 bytes; expected at most 100"):
        unpacked(b"\xff\xff\xff\xff\x0f", 100)
    bomb = packed(b"\0" * 10_000_000)
    assert len(bomb) < 1_000_000
    with pytest.raises(TooLargeError):
        unpacked(bomb, 9_999_999)
    for wrong in (b"", b"\xff", b"\x0a\x00", b"\x05hello", request(series("a", 1.0, T))[:-3]):
        with pytest.raises(WriteRequestError):
            unpacked(wrong, 1_000)


SAMPLE = b"\x09" + struct.pack("<d", 1.0) + b"\x10" + varint(T)
NAMED = part(1, part(1, b"__name__") + part(2, b"a"))


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",  # cut
        b"\x0a\x05ab",  # ends behind
        b"\x0b",  # a group
        b"\x08\x01",  # a series that is a number
        b"\xff" * 11,
        part(1, b"\x08\x01" + part(2, SAMPLE)),
        part(1, NAMED + part(1, b"\x08\x01") + part(2, SAMPLE)),
    ],
)
def test_what_is_no_request_is_refused(data: bytes) -> None:
    with pytest.raises(WriteRequestError):
        parse_write_request(data, {"a"})


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (part(1, NAMED + part(2, b"\x09" + struct.pack("<d", 1.0))), "a sample of 0 ms"),
        (part(1, NAMED + part(2, b"\x10" + varint((1 << 64) - 5))), "ms after the epoch"),
        (part(1, NAMED + NAMED + part(2, SAMPLE)), "given twice"),
        (part(1, NAMED + part(1, part(1, b"\xff") + part(2, b"x")) + part(2, SAMPLE)), "no UTF-8"),
        (part(1, NAMED + part(1, part(1, b"x") + part(2, b"y" * 1_025)) + part(2, SAMPLE)), "more than 1,024 bytes"),
        (part(1, NAMED + part(1, part(1, b"x")) * 65 + part(2, SAMPLE)), "more than 64 labels"),
    ],
)
def test_a_series_that_cannot_be_costs_those_of_others_nothing(data: bytes, why: str) -> None:
    others = message([series("a", 1.0, T)])
    for both in (data + others, others + data):
        found = parse_write_request(both, {"a"})
        assert ([s.value for s in found.samples], found.n_others) == ([1.0], 1)
        assert why in found.refused
    unchosen = parse_write_request(data.replace(b"\x12\x01a", b"\x12\x01b") + others, {"a"})
    assert (len(unchosen.samples), unchosen.n_others, unchosen.refused) == (1, 1, "")


@pytest.mark.parametrize(
    "data",
    [
        b"\x1a\x00" * 300_000,  # metadata
        part(1, NAMED + b"\x0a\x00" * 300_000),
        part(1, NAMED + b"\x1a\x00" * 300_000),
        part(1, NAMED + b"\x12\x00" * 300_000),
        part(1, part(1, part(1, b"__name__") + b"\x12\x00" * 300_000 + part(2, b"a")) + part(2, SAMPLE)),
        part(1, NAMED + part(2, SAMPLE + b"\x10\x01" * 300_000)),
    ],
    ids=["metadata", "labels", "of a series", "samples", "of a label", "of a sample"],
)
def test_fields_of_two_bytes_are_counted_as_they_are_met(data: bytes) -> None:
    """As a list of their places they would take sixty times their bytes."""
    tracemalloc.start()
    try:
        with pytest.raises(WriteRequestError, match=r"more fields|more than 200,000 samples"):
            parse_write_request(data, {"a"})
        assert tracemalloc.get_traced_memory()[1] < (40_000_000 if b"\x12\x00\x12\x00" in data else 1_000_000)
    finally:
        tracemalloc.stop()


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_request, "MAX_SERIES", 2)
    monkeypatch.setattr(write_request, "MAX_SAMPLES", 3)
    with pytest.raises(WriteRequestError, match="more than 2 series"):
        parse_write_request(message([series("b", 1.0, T)] * 3), {"a"})
    with pytest.raises(WriteRequestError, match="3 samples"):
        parse_write_request(message([({"__name__": "b"}, [(1.0, T)] * 4)]), {"a"})
