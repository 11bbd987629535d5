"""groups of alerts that are told together, with their timers"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "alert_groups",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("receiver", sa.String(length=100), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("created_ms", "flush_ms")),
        sa.Column("told_ms", sa.BigInteger(), nullable=True),
        sa.Column("n_told", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alert_groups")),
    )
    op.create_index("ix_alert_groups_flush", "alert_groups", ["flush_ms", "id"])
    op.create_table(
        "alert_group_members",
        sa.Column("group_id", sa.String(length=32), nullable=False),
        sa.Column("alert_id", sa.String(length=32), nullable=False),
        sa.Column("fingerprint", sa.String(length=32), nullable=False),
        *(sa.Column(name, sa.Boolean(), nullable=False) for name in ("told", "hidden")),
        _of("alert_group_members", "group_id", "alert_groups"),
        _of("alert_group_members", "alert_id", "alerts"),
        sa.PrimaryKeyConstraint("group_id", "alert_id", name=op.f("pk_alert_group_members")),
    )
    op.create_index("ix_alert_group_members_alert", "alert_group_members", ["alert_id"])
    op.create_table(
        "told_alerts",
        sa.Column("alert_id", sa.String(length=32), nullable=False),
        sa.Column("idempotency_key", sa.String(length=64), nullable=False),
        sa.Column("receiver", sa.String(length=100), nullable=False),
        _of("told_alerts", "alert_id", "alerts"),
        sa.PrimaryKeyConstraint("alert_id", "idempotency_key", "receiver", name=op.f("pk_told_alerts")),
    )
    op.add_column("notifications", sa.Column("group_id", sa.String(length=32), nullable=True))


def downgrade() -> None:
    """Take back: messages of groups cannot be read by earlier versions, and are given up."""
    messages = sa.table("notifications", sa.column("group_id", sa.String()), sa.column("status", sa.String()))
    of_groups = messages.c.group_id.is_not(None)
    op.get_bind().execute(messages.update().where(of_groups, messages.c.status == "pending").values(status="failed"))
    op.drop_column("notifications", "group_id")
    op.drop_table("told_alerts")
    op.drop_index("ix_alert_group_members_alert", "alert_group_members")
    op.drop_table("alert_group_members")
    op.drop_index("ix_alert_groups_flush", "alert_groups")
    op.drop_table("alert_groups")


def _of(table: str, column: str, other: str) -> sa.ForeignKeyConstraint:
    name = f"fk_{table}_{column}_{other}"
    return sa.ForeignKeyConstraint([column], [f"{other}.id"], name=op.f(name), ondelete="CASCADE")
