"""Marks that are equal say that nothing was committed in between, whoever commits, by whichever connection."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.store import Store, open_store
from tests.new_store import placed


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[list[Store]]:
    """One database, opened three times."""
    url = placed(tmp_path / "store.db")
    with ExitStack() as opened:
        yield [opened.enter_context(open_store(url)) for _ in range(3)]


@pytest.mark.parametrize("seed", range(20))
def test_a_mark_is_another_one_after_each_commit(stores: list[Store], seed: int) -> None:
    draw = random.Random(seed)
    n_commits, told = 0, [dict[int | None, int]() for _ in stores]
    for _ in range(60):
        who = draw.randrange(len(stores))
        store = stores[who]
        match draw.choice(["commit", "look", "look", "look with another connection"]):
            case "commit":
                with store.transaction() as writer:
                    writer.session.connection().exec_driver_sql("CREATE TABLE IF NOT EXISTS n (x INTEGER)")
                    writer.session.connection().exec_driver_sql("INSERT INTO n VALUES (1)")
                n_commits += 1
            case "look":
                assert told[who].setdefault(store.change_mark(), n_commits) == n_commits
            case _:
                with store.engine.connect() as held:  # the pool gives another one
                    held.exec_driver_sql("SELECT 1")
                    assert told[who].setdefault(store.change_mark(), n_commits) == n_commits


def test_a_mark_stays_while_nobody_commits(stores: list[Store]) -> None:
    first, second, _ = stores
    mark = first.change_mark()
    assert mark is not None
    second.alerts()
    second.change_mark()
    assert first.change_mark() == mark


def test_a_file_in_its_place_is_another_store(tmp_path: Path) -> None:
    with open_store(placed(tmp_path / "store.db")) as store:
        mark = store.change_mark()
        (tmp_path / "copy.db").write_bytes((tmp_path / "store.db").read_bytes())
        (tmp_path / "copy.db").replace(tmp_path / "store.db")
        assert store.change_mark() != mark


def test_postgresql_says_nothing(any_store: Store) -> None:
    assert (any_store.change_mark() is None) == (any_store.engine.dialect.name != "sqlite")
