"""Which kernel a process compiles next."""

from __future__ import annotations

import threading

from engine.kernels.automaton import runs as automaton
from engine.kernels.columns.decode import widen
from engine.kernels.compile.needed import Kernel
from engine.kernels.compile.processes import WaitingKernels
from engine.kernels.confidence.skew import match_confidence, match_work
from engine.kernels.pairs.search import search
from tests.engine.kernels.compile.test_compiling import needs_compiler

pytestmark = needs_compiler


def named(function: object) -> Kernel:
    python = getattr(function, "py_func", function)  # run as Python it is that function itself
    return Kernel(python.__module__, python.__name__, ())


PAIRS, RUNS, CONFIDENCE = named(search), named(automaton.advance_runs), named(match_confidence)
WORK, SMALL = named(match_work), named(widen)


def waiting(*kernels: Kernel, n_processes: int = 2) -> WaitingKernels:
    found = WaitingKernels(n_processes)
    for kernel in kernels:
        found.put(kernel)
    found.end()
    return found


def test_large_ones_come_first() -> None:
    found = waiting(SMALL, RUNS, PAIRS, n_processes=1)
    assert [found.take(0) for _ in range(4)] == [PAIRS, RUNS, SMALL, None]


def test_what_one_process_knows_is_left_to_it() -> None:
    assert named(match_confidence).parts().keys() <= PAIRS.parts().keys()
    found = waiting(CONFIDENCE, SMALL, PAIRS, RUNS)
    assert found.take(0) == PAIRS
    assert CONFIDENCE.size() > RUNS.size()
    assert found.take(1) == RUNS
    assert found.take(1) == SMALL
    assert found.take(0) == CONFIDENCE
    assert found.take(0) is None


def test_a_process_does_not_idle_because_of_that() -> None:
    found = waiting(CONFIDENCE, PAIRS, WORK)
    assert found.take(0) == PAIRS
    assert [found.take(1), found.take(1)] == [CONFIDENCE, WORK]
    assert found.take(1) is None


def test_what_is_given_up_is_not_compiled_and_nobody_waits_for_it() -> None:
    found = WaitingKernels(2)
    taken: list[Kernel | None] = []
    waits = threading.Thread(target=lambda: taken.append(found.take(0)))
    waits.start()
    found.give_up()
    waits.join(120)
    assert taken == [None]
    found = waiting(PAIRS)
    found.give_up()
    assert found.take(0) is None


def test_the_same_is_compiled_as_often_as_it_is_asked_for() -> None:
    found = waiting(SMALL, SMALL)
    assert [found.take(0), found.take(1), found.take(0)] == [SMALL, SMALL, None]
