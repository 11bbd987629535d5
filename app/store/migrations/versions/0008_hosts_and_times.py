"""hosts with roles, onset, the values of several matches and labels of alerts

Of the alerts that are there one match is known: it is the first, the last and that with the greatest and least values.
They keep the start and the labels that receivers were told.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from app.store.subject import default_roles

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_CHUNK = 5_000
_TIMES = ("onset_ms", "raised_ms", "last_seen_ms")
_DROPPED = (
    ("ix_alerts_page_host", ["host", "start_ms", "id", "end_ms", "state", "severity", "query", "merged_into"]),
    ("ix_alerts_page_host_query", ["host", "query", "start_ms", "id", "end_ms", "state", "severity", "merged_into"]),
)
_COLUMNS = ("id", "query", "severity", "start_ms", "end_ms", "host", "key", "values", "seen", "labels")


def upgrade() -> None:
    """Apply."""
    for name in (*_TIMES, "n_hosts_left_out"):
        op.add_column("alerts", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    for name in ("seen", "labels"):
        op.add_column("alerts", sa.Column(name, sa.JSON(), nullable=False, server_default="{}"))
    op.create_table(
        "alert_hosts",
        sa.Column("alert_id", sa.String(length=32), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("value_name", sa.Text(), nullable=True),
        sa.Column("value", sa.JSON(), nullable=True),
        sa.Column("start_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["alert_id"], ["alerts.id"], name=op.f("fk_alert_hosts_alert_id_alerts"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("alert_id", "position", name=op.f("pk_alert_hosts")),
    )
    op.execute("UPDATE alerts SET onset_ms = start_ms, raised_ms = created_ms, last_seen_ms = end_ms")
    _fill()
    op.create_index("ix_alert_hosts_page", "alert_hosts", ["host", "start_ms", "alert_id"])
    for name, _ in _DROPPED:
        op.drop_index(name, table_name="alerts")


def downgrade() -> None:
    """Take back."""
    for name, columns in _DROPPED:
        op.create_index(name, "alerts", columns)
    op.drop_table("alert_hosts")
    for name in ("labels", "seen", "n_hosts_left_out", *_TIMES):
        op.drop_column("alerts", name)


def _fill() -> None:
    connection = op.get_bind()
    json = {"key", "values", "seen", "labels"}
    alerts = sa.table("alerts", *(sa.column(name, sa.JSON() if name in json else None) for name in _COLUMNS))
    hosts = sa.table("alert_hosts", *map(sa.column, ("alert_id", "position", "host", "role", "value_name", "start_ms")))
    update = alerts.update().where(alerts.c.id == sa.bindparam("of_id"))
    update = update.values(**{name: sa.bindparam(f"new_{name}") for name in ("host", "seen", "labels")})
    last = ""
    while True:
        rows = connection.execute(
            sa.select(alerts).where(alerts.c.id > last).order_by(alerts.c.id).limit(_CHUNK)
        ).mappings()
        found = [dict(row) for row in rows]
        if not found:
            return
        named = [(row, _hosts(row)) for row in found]
        connection.execute(update, [_changes(row, of_row) for row, of_row in named])
        if new := [host for _, of_row in named for host in of_row]:
            connection.execute(hosts.insert(), new)
        last = found[-1]["id"]


def _hosts(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"alert_id": row["id"], "position": i, "host": host, "role": role, "value_name": None,
         "start_ms": row["start_ms"]}
        for i, (host, role) in enumerate(default_roles(row["key"], row["values"]))
    ]  # fmt: skip


def _changes(row: dict[str, Any], hosts: list[dict[str, Any]]) -> dict[str, Any]:
    at = [row["end_ms"], row["start_ms"]]
    values = row["values"]
    numbers = [n for n, v in values.items() if isinstance(v, int | float) and not isinstance(v, bool)]
    of_hosts = [[host["host"], host["role"], None, None, *at, ""] for host in hosts]
    seen = {
        "matches": {"": {"at": at, "values": values}},
        **{"first": "", "last": "", "max": dict.fromkeys(numbers, ""), "min": dict.fromkeys(numbers, "")},
        **{"hosts": of_hosts, "forgotten": [], "evidence": ""},
        "told_hosts": [[host["host"], host["role"], None, None] for host in hosts],
    }
    labels = {**{name: _plain(value) for name, value in sorted(row["key"].items())}}
    labels |= {"alertname": row["query"], "severity": row["severity"]}
    host = hosts[0]["host"] if hosts else None
    return {"of_id": row["id"], "new_host": host, "new_seen": seen, "new_labels": labels}


def _plain(value: object) -> str:
    """A label as receivers were told it by the version before."""
    if value is None:
        return "unknown"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = "".join(c if c.isprintable() else " " for c in str(value))
    return text if len(text) <= 200 else text[:199] + "…"
