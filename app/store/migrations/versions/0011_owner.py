"""who owns the store; where checkpoints are"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "owner",
        sa.Column("name", sa.String(length=16), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("command", sa.String(length=16), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("folder", "boot", "namespace", "started", "lock")),
        sa.Column("claimed_ms", sa.BigInteger(), nullable=False),
        sa.Column("renewed_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_owner")),
    )
    op.add_column("checkpoints", sa.Column("place", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    """Take back."""
    op.drop_column("checkpoints", "place")
    op.drop_table("owner")
