"""Bringing a database to the newest version of the tables, by Alembic, which is loaded for that alone."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, inspect, text

from app.store.models import Base

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).parent


class OtherVersionError(Exception):
    """The tables are of a version that this program does not know."""


def is_newest(connection: Connection) -> bool:
    """Whether nothing is to be migrated: what most processes find that open a store."""
    if not inspect(connection).has_table("alembic_version"):
        return False
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    return found == [newest_version()]


@cache
def newest_version() -> str:
    """By the names of the files, which begin with the versions: they are not executed for that."""
    return max(path.name.partition("_")[0] for path in (MIGRATIONS / "versions").glob("[0-9]*.py"))


def upgrade(connection: Connection) -> None:
    """To the newest version; raises OtherVersionError."""
    from alembic import command
    from alembic.util.exc import CommandError

    try:
        command.upgrade(alembic_config(connection), "head")
    except CommandError as error:
        raise OtherVersionError(str(error)) from None


def alembic_config(connection: Connection) -> Config:
    """Alembic's configuration for one connection, without an ini file."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def differences(engine: Engine) -> list[object]:
    """What the models have that the database lacks, and the other way round; empty when they agree.

    SQLite does not tell of indexes on expressions: there they are left out of the comparison.
    """
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with engine.connect() as connection, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*expression-based index")
        return list(
            compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), Base.metadata)
        )


__all__ = ["OtherVersionError", "alembic_config", "differences", "is_newest", "newest_version", "upgrade"]
