"""who ended a silence"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("silences", sa.Column("ended_by", sa.Text(), nullable=True))


def downgrade() -> None:
    """Take back."""
    op.drop_column("silences", "ended_by")
