"""A database file that goes away while it is open: nothing is written elsewhere, nothing is made in its place."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from app.errors import StoreError
from app.store import Store, open_store
from app.store.writing.problems import NewProblem


def keep(store: Store, place: str) -> None:
    with store.transaction() as writer:
        writer.problems.add([NewProblem("test", place, "kind", "message")], 1)


def places(store: Store) -> set[str]:
    return {problem.place for problem in store.problems()}


def test_a_file_that_is_moved_away_and_back(store: Store, tmp_path: Path) -> None:
    keep(store, "before")
    path, away = tmp_path / "store.db", tmp_path / "away.db"
    path.rename(away)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"cannot be written: the database file .* is gone"):
            keep(store, "meanwhile")
        with pytest.raises(StoreError, match="cannot be read"):
            store.problems()
        store.close()
    assert not path.exists()
    away.rename(path)
    keep(store, "after")
    assert places(store) == {"before", "after"}


def test_another_file_in_its_place_is_read_anew(store: Store, tmp_path: Path) -> None:
    keep(store, "old")
    with open_store(f"sqlite:///{tmp_path / 'other.db'}") as other:
        keep(other, "new")
    (tmp_path / "other.db").replace(tmp_path / "store.db")
    for left in ("store.db-wal", "store.db-shm"):
        (tmp_path / left).unlink(missing_ok=True)
    assert places(store) == {"new"}


def test_the_whole_folder_is_not_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with open_store(f"sqlite:///{folder / 'store.db'}") as store:
        keep(store, "before")
        shutil.move(folder, tmp_path / "away")
        with pytest.raises(StoreError, match="is gone"):
            keep(store, "meanwhile")
        assert not folder.exists()
        shutil.move(tmp_path / "away", folder)
        assert places(store) == {"before"}


def test_a_store_in_memory_has_no_file() -> None:
    with open_store("sqlite://") as store:
        keep(store, "here")
        assert places(store) == {"here"}


def test_what_a_store_makes_is_its_users_own(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with open_store(f"sqlite:///{tmp_path / 'data' / 'store.db'}") as store:
            keep(store, "here")
            made = [tmp_path / "data", *(tmp_path / "data").iterdir()]
            assert {path.name: path.stat().st_mode & 0o077 for path in made} == dict.fromkeys(
                ["data", "store.db", "store.db-next", "store.db-shm", "store.db-turn", "store.db-wal"], 0
            )
    finally:
        os.umask(before)
