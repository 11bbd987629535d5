"""A fresh store for each test: SQLite, and PostgreSQL for the tests that ask for every database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

import engine
from app.store import Store, open_store
from tests.app import postgresql
from tests.new_store import placed

_databases = count(1)


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels() -> None:
    """Some tests wait for processes that match, also with a time limit: none of them should wait for the compiler."""
    if not engine.kernels_are_compiled():
        engine.warm_kernels()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store in a file."""
    with open_store(placed(tmp_path / "store.db")) as opened:
        yield opened


@pytest.fixture
def other_store(tmp_path: Path) -> Iterator[Store]:
    """Another one."""
    with open_store(placed(tmp_path / "other.db")) as opened:
        yield opened


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The socket folder of a running server; skips when none can be started, but fails where one is demanded."""
    reason = postgresql.why_not()
    if reason is not None:
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    with postgresql.server() as folder:
        yield folder


@pytest.fixture(scope="session")
def postgresql_template(postgresql_server: str) -> str:
    """The name of a database with all tables, to be copied: quicker than to migrate for every test."""
    name = _created(postgresql_server, "template1")
    open_store(postgresql.url_of(postgresql_server, name)).close()
    return name


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables, of every kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    folder = str(request.getfixturevalue("postgresql_server"))
    return postgresql.url_of(folder, _created(folder, "template1"))


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store, of every kind."""
    if request.param == "sqlite":
        return placed(tmp_path / "store.db")
    folder = str(request.getfixturevalue("postgresql_server"))
    return postgresql.url_of(folder, _created(folder, str(request.getfixturevalue("postgresql_template"))))


@pytest.fixture
def any_store(store_url: str) -> Iterator[Store]:
    """An empty store, of every kind: for what the dialect, types, transactions or concurrency can change.

    What alerting makes of matches and times is the same on each: its definitions, drawn at random, are held to on every
    kind, and so is one test for each kind of row; the other examples are on `store`.
    """
    with open_store(store_url) as opened:
        yield opened


def _created(folder: str, template: str) -> str:
    name = f"store{next(_databases)}"
    engine = create_engine(postgresql.url_of(folder, "postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    engine.dispose()
    return name
