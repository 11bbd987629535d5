"""Many rows of one table in one statement, in the form that costs least on each database."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import JSON, Connection, Dialect, Table, insert
from sqlalchemy.orm import Session

from app.store.models import Base

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
    names = [column.name for column in table.columns]
    is_json = {column.name for column in table.columns if isinstance(column.type, JSON)}
    dumps = json.dumps
    values = [
        tuple([dumps(value) if name in is_json and (value := row[name]) is not None else row[name] for name in names])
        for row in rows
    ]
    connection.exec_driver_sql(_sqlite_insert(connection.dialect, table), values)


def _insert_json(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """All rows as one parameter: the driver takes longer for each one than the server does."""
    connection.exec_driver_sql(_postgresql_insert(connection.dialect, table), (json.dumps(rows),))


@cache
def _sqlite_insert(dialect: Dialect, table: Table) -> str:
    marks = ", ".join("?" for _ in table.columns)
    return f"INSERT INTO {table.name} ({_names(dialect, table)}) VALUES ({marks})"


@cache
def _postgresql_insert(dialect: Dialect, table: Table) -> str:
    names = _names(dialect, table)
    return f"INSERT INTO {table.name} ({names}) SELECT {names} FROM json_populate_recordset(NULL::{table.name}, %s::json)"


def _names(dialect: Dialect, table: Table) -> str:
    return ", ".join(dialect.identifier_preparer.quote(column.name) for column in table.columns)


__all__ = ["Row", "insert_rows"]
