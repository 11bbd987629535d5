"""epochs of checkpoints"""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("checkpoints", sa.Column("epoch", sa.String(length=16), nullable=False, server_default=""))
    checkpoints = sa.table("checkpoints", sa.column("epoch", sa.String()))
    op.get_bind().execute(checkpoints.update().values(epoch=secrets.token_hex(8)))


def downgrade() -> None:
    """Take back."""
    op.drop_column("checkpoints", "epoch")
