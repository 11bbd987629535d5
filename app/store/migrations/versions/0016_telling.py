"""what looks at large groups read of their alerts"""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

COLUMNS = ["id", "revision", "state", "severity", "silenced", "inhibited"]


def upgrade() -> None:
    """Apply."""
    op.create_index("ix_alerts_telling", "alerts", COLUMNS)


def downgrade() -> None:
    """Take back: looks read the alerts themselves."""
    op.drop_index("ix_alerts_telling", "alerts")
