"""indexes by age, for retention"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_CREATED = (
    ("ix_alerts_updated", "alerts", ["open", "updated_ms"]),
    ("ix_reports_created", "reports", ["created_ms"]),
    ("ix_notifications_created", "notifications", ["created_ms"]),
)


def upgrade() -> None:
    """Apply."""
    for name, table, columns in _CREATED:
        op.create_index(name, table, columns)


def downgrade() -> None:
    """Take back."""
    for name, table, _ in _CREATED:
        op.drop_index(name, table_name=table)
