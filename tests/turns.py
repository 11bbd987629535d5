"""Which of the drawn cases and of the campaigns' short forms a change runs: a part of them, others with each change.

Tests marked `in_turn(of=n)` are many of one kind, each of which takes long: streams that are drawn, ways of being
killed, jumps of clocks. `make test` runs every n-th of a file's, beginning with one that the commit's content tells:
the same ones whenever it is looked at again. With `in_turn(of=n, together=True)` a file's are one: all of them run, or
none. `make test-long`, and pytest by itself, run all.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import pytest

VARIABLE = "CLUSTERCEP_TEST_TURN"
MARKER = "in_turn"


def this_turn() -> int | None:
    """The turn that was asked for; without one all are run."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return None
    try:
        return int(text, 16)
    except ValueError:
        raise pytest.UsageError(f"{VARIABLE}: found {text!r}; expected a hexadecimal number, or nothing") from None


def others(items: list[pytest.Item], turn: int) -> list[pytest.Item]:
    """Those whose turn it is not.

    A file's are counted in the order in which they stand there; those that go together count as one, and which turn is
    theirs is told by the file's name.
    """
    n_before: Counter[Path] = Counter()
    left_out = []
    for item in items:
        if (marker := item.get_closest_marker(MARKER)) is None:
            continue
        turns = _Turns.of(item, marker)
        if turns.together:
            place = crc32(item.path.name.encode())
        else:
            place = n_before[item.path]
            n_before[item.path] += 1
        if (place + turn) % turns.n != 0:
            left_out.append(item)
    return left_out


@dataclass(frozen=True)
class _Turns:
    n: int
    together: bool

    @classmethod
    def of(cls, item: pytest.Item, marker: pytest.Mark) -> _Turns:
        n, together = marker.kwargs.get("of"), marker.kwargs.get("together", False)
        if marker.args or set(marker.kwargs) - {"of", "together"} or type(n) is not int or n < 2:
            raise pytest.UsageError(f"{item.nodeid}: found {marker}; expected in_turn(of=n), n from 2 on")
        return cls(n, together)


__all__ = ["MARKER", "VARIABLE", "others", "this_turn"]
