"""pages of one query's alerts about a host"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_NAME = "ix_alerts_page_host_query"


def upgrade() -> None:
    """Apply."""
    columns = ["host", "query", "start_ms", "id", "end_ms", "state", "severity", "merged_into"]
    op.create_index(_NAME, "alerts", columns)


def downgrade() -> None:
    """Take back."""
    op.drop_index(_NAME, table_name="alerts")
