"""incidents with the alerts that are part of them, and timers of escalation"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    for name in ("inhibited", "is_incident"):
        op.add_column("alerts", sa.Column(name, sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("alerts", sa.Column("incident_id", sa.String(length=32), nullable=True))
    op.create_index("ix_alerts_inhibited", "alerts", ["inhibited", "id"])
    op.create_index("ix_alerts_incident", "alerts", ["incident_id"])
    op.create_table(
        "incident_members",
        sa.Column("incident_id", sa.String(length=32), nullable=False),
        sa.Column("alert_id", sa.String(length=32), nullable=False),
        sa.Column("covered", sa.Boolean(), nullable=False),
        sa.Column("joined_ms", sa.BigInteger(), nullable=False),
        _of("incident_id"),
        _of("alert_id"),
        sa.PrimaryKeyConstraint("incident_id", "alert_id", name=op.f("pk_incident_members")),
    )
    op.create_index("ix_incident_members_alert", "incident_members", ["alert_id"])
    op.add_column("alert_group_members", sa.Column("escalate_ms", sa.BigInteger(), nullable=True))
    op.add_column(
        "alert_group_members", sa.Column("escalated", sa.Boolean(), server_default=sa.false(), nullable=False)
    )


def downgrade() -> None:
    """Take back: alerts that were part of an incident go on as alerts of their own."""
    for name in ("escalated", "escalate_ms"):
        op.drop_column("alert_group_members", name)
    op.drop_index("ix_incident_members_alert", "incident_members")
    op.drop_table("incident_members")
    op.drop_index("ix_alerts_incident", "alerts")
    op.drop_index("ix_alerts_inhibited", "alerts")
    for name in ("incident_id", "is_incident", "inhibited"):
        op.drop_column("alerts", name)


def _of(column: str) -> sa.ForeignKeyConstraint:
    name = f"fk_incident_members_{column}_alerts"
    return sa.ForeignKeyConstraint([column], ["alerts.id"], name=op.f(name), ondelete="CASCADE")
