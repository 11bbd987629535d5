"""Free memory goes back, once a minute."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from app.process.spare_memory import SpareMemory, trim_of_libc


def test_once_a_minute() -> None:
    at: list[int] = []
    now = 0
    spare = SpareMemory(lambda: at.append(now), every_ms=60)
    for now in (5, 20, 64, 65, 100, 124, 125, 300, 30, 40):  # the clock goes back once
        spare.give_back(now)
    assert at == [65, 125, 300, 30]


def test_a_system_without_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    assert trim_of_libc()() is None


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="not glibc")
def test_free_pages_between_used_ones_go_back() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_size_t],
        [ctypes.c_void_p],
    )
    blocks = [libc.malloc(64 * 1024) for _ in range(1_000)]
    for block in blocks:
        ctypes.memset(block, 1, 64 * 1024)
    try:
        for block in blocks[:-1]:
            libc.free(block)
        blocks = blocks[-1:]
        before = resident_kib()
        trim_of_libc()()
        assert resident_kib() < before - 30_000
    finally:
        for block in blocks:
            libc.free(block)


def resident_kib() -> int:
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])
