"""Many rows of one table in one statement, in the form that costs least on each database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any, TypeVar

from sqlalchemy import JSON, Connection, Dialect, Table, insert
from sqlalchemy.orm import Session

from app.json_text import json_text
from app.store.models import Base
from app.store.storable import is_storable_json, storable, storable_texts

Row = Mapping[str, Any]
"""A value for every column, by its name."""
Values = tuple[Any, ...]
"""The same in the order of the columns."""

_T = TypeVar("_T")

CHUNK = 500
"""Databases limit the number of bound parameters."""


def in_chunks(values: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """So many of the values at a time as a statement may have parameters."""
    for start in range(0, len(values), CHUNK):
        yield values[start : start + CHUNK]


def insert_rows(session: Session, model: type[Base], rows: Sequence[Row]) -> None:
    """Rows that are not there yet, each with all columns; what is JSON among them is made storable."""
    if rows:
        insert_values(session, model, list(map(_columns(model.metadata.tables[model.__tablename__]).of, rows)))


def insert_values(session: Session, model: type[Base], rows: Sequence[Values]) -> None:
    """The same of values in the order of the columns."""
    if not rows:
        return
    connection, table = session.connection(), model.metadata.tables[model.__tablename__]
    match connection.dialect.name:
        case "sqlite":
            _insert_tuples(connection, table, rows)
        case "postgresql":
            _insert_json(connection, table, rows)
        case _:
            columns = _columns(table)
            connection.execute(insert(table), [columns.as_dict(row, storable) for row in rows])


def _insert_tuples(connection: Connection, table: Table, rows: Sequence[Values]) -> None:
    """The driver's executemany, without SQLAlchemy's work per row, which takes longer than SQLite's."""
    columns = _columns(table)
    by_column: list[Sequence[Any]] = list(zip(*rows, strict=True))
    for at in columns.at_json:
        by_column[at] = storable_texts(by_column[at])
    connection.exec_driver_sql(_sqlite_insert(connection.dialect, table), list(zip(*by_column, strict=True)))


def _insert_json(connection: Connection, table: Table, rows: Sequence[Values]) -> None:
    """All rows as one parameter: the driver takes longer for each one than the server does."""
    columns = _columns(table)
    text = json_text([columns.as_dict(row) for row in rows])
    if not is_storable_json(text):
        text = json_text([columns.as_dict(row, storable) for row in rows])
    connection.exec_driver_sql(_postgresql_insert(connection.dialect, table), (text,))


@dataclass(frozen=True)
class _Columns:
    """Of a table, in its order."""

    names: tuple[str, ...]
    of: Callable[[Row], Values]
    """The values of a row."""
    at_json: tuple[int, ...]

    def as_dict(self, row: Values, change: Callable[[Any], Any] | None = None) -> dict[str, Any]:
        """A row by the names of its columns; its JSON changed."""
        values = dict(zip(self.names, row, strict=True))
        if change is not None:
            values |= {name: change(values[name]) for name in (self.names[at] for at in self.at_json)}
        return values


@cache
def _columns(table: Table) -> _Columns:
    at_json = tuple(at for at, column in enumerate(table.columns) if isinstance(column.type, JSON))
    names = tuple(table.columns.keys())
    return _Columns(names, itemgetter(*names), at_json)


@cache
def _sqlite_insert(dialect: Dialect, table: Table) -> str:
    marks = ", ".join("?" for _ in table.columns)
    return f"INSERT INTO {table.name} ({_names(dialect, table)}) VALUES ({marks})"  # noqa: S608  # names of our models


@cache
def _postgresql_insert(dialect: Dialect, table: Table) -> str:
    names = _names(dialect, table)
    rows = f"json_populate_recordset(NULL::{table.name}, %s::json)"
    return f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {rows}"  # noqa: S608  # names of our models


def _names(dialect: Dialect, table: Table) -> str:
    return ", ".join(dialect.identifier_preparer.quote(column.name) for column in table.columns)


__all__ = ["Row", "Values", "in_chunks", "insert_rows", "insert_values"]
