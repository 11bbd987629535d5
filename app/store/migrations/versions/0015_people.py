"""who looks after an alert, until when it is acknowledged; in whose name a silence was made"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("alerts", sa.Column("assigned_to", sa.Text(), nullable=True))
    op.add_column("alerts", sa.Column("acknowledged_until_ms", sa.BigInteger(), nullable=True))
    op.add_column("alerts", sa.Column("to_tell", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.create_index(
        "ix_alerts_to_tell",
        "alerts",
        ["id"],
        sqlite_where=sa.text("to_tell IS 1"),
        postgresql_where=sa.text("to_tell IS true"),
    )
    op.add_column("silences", sa.Column("created_by", sa.Text(), nullable=True))


def downgrade() -> None:
    """Take back: acknowledgements do not end by themselves any more, and alerts are assigned to nobody."""
    op.drop_column("silences", "created_by")
    op.drop_index("ix_alerts_to_tell", "alerts")
    op.drop_column("alerts", "to_tell")
    op.drop_column("alerts", "acknowledged_until_ms")
    op.drop_column("alerts", "assigned_to")
