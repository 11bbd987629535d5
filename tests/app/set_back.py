"""A database that is set back: to the rows that it had before, as a restored backup or a standby has them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, insert, select

from app.store import Store
from app.store.models import Base

Rows = dict[str, list[dict[str, Any]]]


def backup(store: Store) -> Rows:
    """All rows, by table."""
    with store.engine.connect() as connection:
        return {
            table.name: [dict(row) for row in connection.execute(select(table)).mappings()]
            for table in Base.metadata.sorted_tables
        }


def restore(store: Store, rows: Rows) -> None:
    """These rows are all there is."""
    with store.engine.execution_options(writes=True).begin() as connection:
        for table in reversed(Base.metadata.sorted_tables):
            connection.execute(delete(table))
        for table in Base.metadata.sorted_tables:
            if rows[table.name]:
                connection.execute(insert(table), rows[table.name])
