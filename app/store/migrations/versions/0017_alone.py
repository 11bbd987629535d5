"""what is asked of inhibited alerts and their incidents in each step is read from indexes alone"""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

INDEXES = (
    ("ix_alerts_inhibited", "alerts", ["inhibited", "id"], ["inhibited", "id", "silenced"]),
    ("ix_incident_members_alert", "incident_members", ["alert_id"], ["alert_id", "covered", "incident_id"]),
)
"""(name, table, columns before, columns since)."""
GOES_ON = ["id", "is_incident", "open", "state"]


def upgrade() -> None:
    """Apply."""
    for name, table, _, columns in INDEXES:
        op.drop_index(name, table)
        op.create_index(name, table, columns)
    op.create_index("ix_alerts_goes_on", "alerts", GOES_ON)


def downgrade() -> None:
    """Take back: steps read the alerts themselves."""
    op.drop_index("ix_alerts_goes_on", "alerts")
    for name, table, columns, _ in INDEXES:
        op.drop_index(name, table)
        op.create_index(name, table, columns)
