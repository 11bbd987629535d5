"""Who does not answer, since when, and in which order all are asked."""

from __future__ import annotations

from collectors.network.reachability import DOWN_POLLS, MAX_REASON_CHARS, Reachability, in_turn


def test_it_is_down_after_some_polls_in_a_row_since_the_first_of_them() -> None:
    one = Reachability()
    assert one.unreachable("n1", "NodeManager", 5)["silent_ms"] == 0
    for poll in range(DOWN_POLLS):
        assert not one.is_down
        one.fail(f"refused {poll}", 1_000 + 500 * poll)
    assert one.is_down
    assert one.unreachable("n1", "NodeManager", 4_000) == {
        "host": "n1", "daemon": "NodeManager", "reason": f"refused {DOWN_POLLS - 1}", "silent_ms": 3_000,
    }  # fmt: skip
    assert one.unreachable("n1", "NodeManager", 900)["silent_ms"] == 0, "a clock that was set back"
    one.recover()
    assert (one.is_down, one.n_failed, one.down_since_ms, one.reason) == (False, 0, None, None)
    one.fail("x\x1b[31m" + "y" * 10_000, 9_000)
    assert one.reason is not None
    assert "\x1b" not in one.reason
    assert len(one.reason) < MAX_REASON_CHARS + 10, "cut, before what cannot be printed is escaped"
    assert one.down_since_ms == 9_000


def test_who_answered_goes_first_and_then_who_may_be_told_of_next() -> None:
    known = {
        "old": Reachability(asked_ms=1), "new": Reachability(asked_ms=9), "never": Reachability(asked_ms=0),
        "down": Reachability(asked_ms=2, n_failed=5), "failed once": Reachability(asked_ms=8, n_failed=1),
    }  # fmt: skip
    proven, others = in_turn(known, known.__getitem__, lambda name: name != "never")
    assert (proven, others) == (["old", "new"], ["failed once", "never", "down"])
