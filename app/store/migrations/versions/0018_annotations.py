"""texts by name that clients of Alertmanager's API give with a silence"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("silences", sa.Column("annotations", sa.JSON(), server_default="{}", nullable=False))


def downgrade() -> None:
    """Take back: silences are as they were, without these texts."""
    op.drop_column("silences", "annotations")
