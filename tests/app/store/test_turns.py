"""Writers take turns: nobody waits for more than what is being written now."""

from __future__ import annotations

import fcntl
import threading
import time
from contextlib import suppress
from pathlib import Path

from app.store import open_store
from app.store.turns import Turn
from app.store.writing.problems import NewProblem
from tests.new_store import placed


def is_taken(path: Path) -> bool:
    """Whether somebody holds the lock of a file."""
    with path.open("w") as file, suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    return True


def test_who_waits_comes_before_who_has_just_written(tmp_path: Path) -> None:
    """One begins anew right after each commit, as the parts of a step do."""
    url, order = placed(tmp_path / "store.db"), []
    with open_store(url) as store, open_store(url) as other:

        def person() -> None:
            with other.transaction() as writer:
                order.append("person")
                writer.problems.add([NewProblem("test", "place", "kind", "message")], 1)

        for number in range(20):
            waiting = threading.Thread(target=person)
            with store.transaction() as writer:
                order.append("step")
                writer.problems.add([NewProblem("test", f"place {number}", "kind", "message")], 1)
                waiting.start()
                until_s = time.monotonic() + 120
                while not is_taken(tmp_path / "store.db-next"):
                    assert time.monotonic() < until_s, "nobody waits for the next turn"
            with store.transaction():
                order.append("step")
            waiting.join()
    assert order == ["step", "person", "step"] * 20


def test_a_turn_that_is_not_given_back_is_waited_for_no_longer_than_asked(tmp_path: Path) -> None:
    one, other = Turn(tmp_path / "store.db"), Turn(tmp_path / "store.db")
    one.take(0)
    other.take(0)
    assert is_taken(tmp_path / "store.db-turn")
    assert not is_taken(tmp_path / "store.db-next")
    other.give()
    one.give()
    assert not is_taken(tmp_path / "store.db-turn")
    for turn in (one, other):
        turn.close()
