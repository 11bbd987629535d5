"""P(at least one match) of alerts

Of the alerts that are there only the confidence of the best match is known: a lower bound, unless it is the only match.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_NAMES = ("lower", "upper", "method", "estimate", "error")


def upgrade() -> None:
    """Apply."""
    op.add_column("alerts", sa.Column("at_least_one_lower", sa.Double(), nullable=False, server_default="0"))
    op.add_column("alerts", sa.Column("at_least_one_upper", sa.Double(), nullable=False, server_default="1"))
    method = sa.Column("at_least_one_method", sa.String(length=16), nullable=False, server_default="bounds")
    op.add_column("alerts", method)
    op.add_column("alerts", sa.Column("at_least_one_estimate", sa.Double()))
    op.add_column("alerts", sa.Column("at_least_one_error", sa.Double()))
    op.add_column("alerts", sa.Column("possible", sa.Text()))
    op.execute(
        "UPDATE alerts SET at_least_one_lower = best_confidence, "
        "at_least_one_upper = CASE WHEN n_matches = 1 AND n_matches_exact THEN best_confidence ELSE 1.0 END, "
        "at_least_one_method = CASE WHEN best_confidence >= 1 THEN 'certain' "
        "WHEN n_matches = 1 AND n_matches_exact THEN 'exact' ELSE 'bounds' END"
    )


def downgrade() -> None:
    """Take back."""
    for name in ("possible", *(f"at_least_one_{name}" for name in _NAMES)):
        op.drop_column("alerts", name)
