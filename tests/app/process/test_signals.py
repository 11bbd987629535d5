"""Handlers of signals hold for a while, and the ones from before come back."""

from __future__ import annotations

import signal

from app.process.signals import exit_code, handling


def test_what_was_before_comes_back_whatever_was_set_meanwhile() -> None:
    received: list[int] = []
    before = signal.getsignal(signal.SIGHUP)
    with handling({signal.SIGHUP: lambda number, _: received.append(number)}):
        signal.raise_signal(signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert received == [signal.SIGHUP]
    assert signal.getsignal(signal.SIGHUP) is before


def test_a_childs_end_as_shells_tell_it() -> None:
    assert [exit_code(returncode) for returncode in (0, 2, -signal.SIGTERM)] == [0, 2, 143]
