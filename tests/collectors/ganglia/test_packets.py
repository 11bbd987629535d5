"""Ganglia's packets: recorded ones, all kinds, and what is none."""

from __future__ import annotations

import struct

import pytest

from collectors.ganglia.packets import MAX_BYTES, MAX_TEXT_CHARS, Metadata, PacketError, Value, parse_packet
from tests.collectors.ganglia.reports import packets, value_packet, xdr_text


def test_recorded_packets_are_read() -> None:
    """gmond 3.7.2 with five groups of metrics, and gmetric of the same."""
    found = [parse_packet(data) for _, data in packets()]
    assert len(found) == 78
    assert found[0] == Value("vm", "", "heartbeat", 1795763074.0)
    assert Value("vm", "", "machine_type", None) in found
    assert Value("vm", "", "cpu_num", 2.0) in found
    assert Value("node-2", "10.0.0.2", "cpu_user", 37.5) in found
    assert Metadata("node-2", "10.0.0.2", "cpu_user", "double", "%") in found
    assert Metadata("vm", "", "app_queue", "uint32", "jobs") in found
    assert Value("vm", "", "app_queue", 12.0) in found


@pytest.mark.parametrize(
    ("kind", "packed", "expected"),
    [
        (129, struct.pack(">I", 65_535), 65_535.0),
        (130, struct.pack(">i", -3), -3.0),
        (131, struct.pack(">i", -(2**31)), -(2.0**31)),
        (132, struct.pack(">I", 2**32 - 1), 2.0**32 - 1),
        (133, xdr_text("-1.5e3"), -1500.0),
        (133, xdr_text("up"), None),
        (133, xdr_text("nan"), None),
        (133, xdr_text("1" * 65), None),
        (134, struct.pack(">f", 0.5), 0.5),
        (134, struct.pack(">f", float("inf")), None),
        (135, struct.pack(">d", -0.0), 0.0),
        (135, struct.pack(">d", 1e300), 1e300),
    ],
)
def test_values_of_all_kinds(kind: int, packed: bytes, expected: float | None) -> None:
    found = parse_packet(value_packet("a", "load_one", kind=kind, packed=packed))
    assert found == Value("a", "", "load_one", expected)
    assert expected is None or str(found.value) == str(expected)  # no minus zero


def test_a_request_for_metadata_is_none_of_ours_and_names_are_made_inert() -> None:
    assert parse_packet(struct.pack(">I", 136) + b"anything") is None
    found = parse_packet(value_packet("\x1b[2J\xff".encode("latin-1"), "load_one"))
    assert found is not None
    assert found.host.isprintable()
    assert parse_packet(value_packet("fe80::1:node", "load_one", spoofed=1)) == Value(
        "node", "fe80::1", "load_one", 1.0
    )


def test_no_packet_that_waits_is_large() -> None:
    found = parse_packet(value_packet("h" * 3_000, "é" * 2_000))
    assert found == Value("h" * MAX_TEXT_CHARS, "", "é" * MAX_TEXT_CHARS, 1.0)


def test_every_cut_of_a_packet_is_told_as_one() -> None:
    for data in {data for _, data in packets()}:
        whole = parse_packet(data)
        needed = next(n for n in range(len(data), -1, -1) if n == 0 or _is_refused(data[: n - 1], "truncated"))
        assert parse_packet(data[:needed]) == whole
        for n in range(needed):
            assert _is_refused(data[:n], "truncated")


def _is_refused(data: bytes, kind: str) -> bool:
    try:
        parse_packet(data)
    except PacketError as error:
        return error.kind == kind
    return False


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "truncated"),
        (b"hi", "truncated"),
        (b"cpu_user 5 of no kind", "unknown"),
        (struct.pack(">I", 0) + bytes(60), "unknown"),  # Ganglia 3.0's user-defined metrics
        (struct.pack(">I", 127), "unknown"),
        (struct.pack(">I", 137), "unknown"),
        (struct.pack(">II", 134, 2**32 - 1) + bytes(1000), "truncated"),
        (value_packet("", "load_one"), "no_name"),
        (value_packet("a", ""), "no_name"),
        (value_packet("10.0.0.1:", "load_one", spoofed=1), "no_name"),
        (bytes(MAX_BYTES + 1), "too_large"),
    ],
)
def test_what_is_none_is_refused(data: bytes, kind: str) -> None:
    with pytest.raises(PacketError) as refused:
        parse_packet(data)
    assert refused.value.kind == kind
