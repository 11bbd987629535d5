"""Many rows of one table in one statement, in the form that costs least on each database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from sqlalchemy import JSON, Connection, Dialect, Table, insert
from sqlalchemy.orm import Session

from app.store.models import Base

_json = json.JSONEncoder(check_circular=False).encode

Row = Mapping[str, Any]
"""A value for every column, by its name."""


def insert_rows(session: Session, model: type[Base], rows: Sequence[Row]) -> None:
    """Rows that are not there yet, each with all columns."""
    if not rows:
        return
    connection, table = session.connection(), model.metadata.tables[model.__tablename__]
    match connection.dialect.name:
        case "sqlite":
            _insert_tuples(connection, table, rows)
        case "postgresql":
            _insert_json(connection, table, rows)
        case _:
            connection.execute(insert(table), [dict(row) for row in rows])


def _insert_tuples(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """The driver's executemany, without SQLAlchemy's work per row, which takes longer than SQLite's."""
    columns, at_json = _columns(table)
    values = [list(columns(row)) for row in rows]
    for at in at_json:
        for value in values:
            if value[at] is not None:
                value[at] = _json(value[at])
    connection.exec_driver_sql(_sqlite_insert(connection.dialect, table), [*map(tuple, values)])


def _insert_json(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """All rows as one parameter: the driver takes longer for each one than the server does."""
    columns, _ = _columns(table)
    values = [dict(zip(table.columns.keys(), columns(row), strict=True)) for row in rows]
    connection.exec_driver_sql(_postgresql_insert(connection.dialect, table), (_json(values),))


@cache
def _columns(table: Table) -> tuple[Callable[[Row], Iterable[Any]], list[int]]:
    """The values of a row in the order of the columns, and where JSON is among them."""
    at_json = [at for at, column in enumerate(table.columns) if isinstance(column.type, JSON)]
    return itemgetter(*table.columns.keys()), at_json


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


__all__ = ["Row", "insert_rows"]
